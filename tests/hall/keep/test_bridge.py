"""Keep agents and WebSocket agents in one hall: who sees whom, who hears what, and what can be checked."""

import re
from base64 import b64decode
from typing import Any

import pytest

from moothall.hall.voice import announce
from moothall.identity import PrivateKey, PublicKey
from moothall.identity.certificates import revoke
from moothall.identity.signatures import verify
from moothall.market.records import Registration, Standing
from moothall.settings.limits import Rate
from moothall.wire.keep.codec import decode, encode, signing_bytes
from moothall.wire.keep.packet import ASK, MAX_PACKET, OFFER, Packet
from tests.hall.keep.town import FakePeer, Town, assert_signed_by_the_hall
from tests.identity.vectors import ALICE as DEALER
from tests.identity.vectors import SEEDS
from tests.support.deals import signed
from tests.support.keep import ALICE, BOB, CAROL, VECTORS, Signer
from tests.support.world import (
    ABSENT,
    ADMIN_KEY,
    TWIN_ID,
    TWIN_SEEDS,
    TWINS,
    assert_consistent,
    assert_open,
    assert_refused,
    assert_sent,
    assert_silent,
)

ALICE_KEY = PrivateKey(bytes.fromhex(VECTORS["keys"]["alice"]["seed_hex"]))
ALICE_ID = PublicKey(ALICE.pk).agent_id(8)


@pytest.fixture
def town() -> Town:
    """Where messages have no limit."""
    return Town(rate_message=Rate(0, 1))


def agent_id(town: Town, identity: str) -> str:
    return town.bridge.residents[identity].agent.id


# -- who is there --------------------------------------------------------------------------------------


def test_the_keep_channel_is_listed_while_somebody_is_in_it(town: Town) -> None:
    def listed() -> list[str]:
        town.send(carol, "LIST_CHANNELS")
        return [entry["name"] for entry in carol.read()[-1]["list"]]

    carol = town.agent("carol")
    assert listed() == ["#general", "#agents", "#discovery"]
    alice = town.peer("bot:alice")
    assert listed() == ["#general", "#agents", "#discovery", "#keep"]
    town.room.leave(alice)
    assert "#keep" not in listed()


def test_a_keep_agent_joins_and_leaves_the_keep_channel(town: Town) -> None:
    carol = town.agent("carol", join="#keep")
    alice = town.peer("bot:alice")
    assert_sent(
        carol,
        "AGENT_JOINED",
        channel="#keep",
        agent=f"@{ALICE_ID}",
        name="alice",
        verified=False,
        kind=ABSENT,
    )
    town.send(carol, "LIST_AGENTS", channel="#keep")
    listed = assert_sent(carol, "AGENTS")["list"]
    assert {entry["id"]: entry["verified"] for entry in listed} == {carol.id: False, f"@{ALICE_ID}": False}
    town.room.leave(alice)
    assert_sent(carol, "AGENT_LEFT", channel="#keep", agent=f"@{ALICE_ID}")
    assert_consistent(town)


def test_humans_are_shown_as_such(town: Town) -> None:
    carol = town.agent("carol", join="#keep")
    town.peer("human:chris")
    assert_sent(carol, "AGENT_JOINED", name="chris", kind="human")


@pytest.mark.parametrize(
    ("identity", "name"),
    [
        ("bot:weather", "weather"),
        ("bot:my agent!", "myagent"),
        ("plain", "plain"),
        ("bot:", "bot"),
        ("a:b:c", "bc"),
        ("bot:" + "x" * 50, "x" * 32),
        ("bot:天気", ALICE_ID),
    ],
)
def test_the_name_is_what_follows_the_colon_as_far_as_names_allow(identity: str, name: str) -> None:
    town = Town()
    town.peer(identity)
    assert town.bridge.residents[identity].agent.name == name


@pytest.mark.parametrize("identity", ["bot:server", "Server", "human:5erver", "bot:ser.ver", "x:_SERVER"])
def test_a_keep_agent_is_not_called_server(identity: str) -> None:
    town = Town()
    listener = town.agent("listener", join="#keep")
    peer = town.peer(identity)
    listener.read()
    town.post(peer, identity, "#keep", "trust me")
    line = listener.read()[-1]
    assert line["content"] == "trust me"
    assert line["from_name"] == line["from"].removeprefix("@")


def test_a_keep_agent_has_no_key_in_the_eyes_of_the_hall(town: Town) -> None:
    town.peer("bot:alice")
    assert ALICE.pk not in town.hall.roster.by_key
    assert town.hall.roster.agents[ALICE_ID].key is None


def test_each_identity_of_a_key_is_an_agent_of_its_own(town: Town) -> None:
    peer = FakePeer()
    for identity in ("bot:a", "bot:b", "bot:c"):
        town.post(peer, identity, "server")
    ids = {agent_id(town, identity) for identity in ("bot:a", "bot:b", "bot:c")}
    assert len(ids) == 3
    assert ALICE_ID in ids
    again = Town()
    for identity in ("bot:a", "bot:b", "bot:c"):
        again.post(peer, identity, "server")
    assert {agent_id(again, identity) for identity in ("bot:a", "bot:b", "bot:c")} == ids


def test_websocket_agents_are_discovered_under_their_id(town: Town) -> None:
    carol = town.agent("carol")
    alice = town.peer("bot:alice")
    body = town.ask(alice, "bot:alice", "discover:agents")
    assert body == f'{{"agents":["agent:{carol.id[1:]}","bot:alice"]}}'
    assert '"agents_online":2' in town.ask(alice, "bot:alice", "discover:info")


# -- the id --------------------------------------------------------------------------------------------


def test_a_keep_agent_never_displaces_a_session(town: Town) -> None:
    session = town.agent("alice", key=ALICE_KEY)
    town.peer("bot:alice")
    assert_silent(session)
    assert_open(session)
    assert town.hall.roster.agents[ALICE_ID].session is session.session
    assert agent_id(town, "bot:alice") != ALICE_ID


def test_who_proves_the_key_takes_the_id_from_the_keep_agent(town: Town) -> None:
    carol = town.agent("carol", join=["#keep", "#general"])
    alice = town.peer("bot:alice")
    town.post(alice, "bot:alice", "#general", "hello")
    town.hush()
    session = town.agent("alice", key=ALICE_KEY)
    assert session.id == f"@{ALICE_ID}"
    other = agent_id(town, "bot:alice")
    assert other != ALICE_ID
    assert [message["type"] for message in carol.read()] == ["AGENT_LEFT"] * 2 + ["AGENT_JOINED"] * 2
    town.send(carol, "MSG", to=f"@{other}", content="still there?")
    assert alice.only().body == "still there?"
    town.room.leave(alice)
    assert_consistent(town)


def test_an_id_that_another_key_had_first_is_not_taken(town: Town) -> None:
    town.books.bound[ALICE_ID] = BOB.pk
    town.peer("bot:alice")
    assert agent_id(town, "bot:alice") != ALICE_ID
    assert town.books.bound == {ALICE_ID: BOB.pk}


def test_an_id_that_is_not_the_keys_own_never_looks_like_that_of_a_key(town: Town) -> None:
    """Its maker chooses the identity it is made from, and could search for one that gives another agent's id."""
    alice = town.peer("bot:alice")
    for number in range(20):
        town.post(alice, f"bot:{number}", "server")
        assert re.fullmatch("k[0-9a-f]{7}", agent_id(town, f"bot:{number}"))


def test_the_id_of_an_agent_that_is_away_is_not_taken_by_a_colliding_key() -> None:
    town = Town()
    town.disconnect(town.agent("victim", key=TWINS[0]))
    town.peer("bot:twin", Signer(TWIN_SEEDS[1]))
    assert agent_id(town, "bot:twin") != TWIN_ID
    assert town.agent("victim", key=TWINS[0]).id == f"@{TWIN_ID}"
    assert_consistent(town)


# -- from the hall to keep -----------------------------------------------------------------------------


def test_a_direct_message_arrives_signed_by_the_hall(town: Town) -> None:
    carol, alice = town.agent("carol"), town.peer("bot:alice")
    town.send(carol, "MSG", to=f"@{ALICE_ID}", content="hé", ref="r")
    msg_id = assert_sent(carol, "ACK")["msg_id"]
    packet = alice.only()
    assert (packet.src, packet.dst, packet.body) == (f"agent:{carol.id[1:]}", "bot:alice", "hé")
    assert packet.id == msg_id
    assert_signed_by_the_hall(packet)


def test_a_message_with_receipts_is_delivered_when_the_keep_connection_takes_it(town: Town) -> None:
    carol, alice = town.agent("carol", features=("receipts",), join="#keep"), town.peer("bot:alice")
    carol.read()
    for to in (f"@{ALICE_ID}", "#keep"):
        for is_full, status in ((False, "DELIVERED"), (True, "UNDELIVERED")):
            alice.full = is_full
            town.send(carol, "MSG", to=to, content="x", receipt=True)
            assert_sent(carol, "RECEIPT", status=status, to=f"@{ALICE_ID}", of=1)
    assert "receipt" not in alice.read()[0].body


def test_what_is_said_in_the_keep_channel_reaches_all_keep_agents_signed_once(town: Town) -> None:
    signed: list[bytes] = []
    sign = town.bridge._sign

    def counting(message: bytes) -> bytes:
        signed.append(message)
        return sign(message)

    town.bridge._sign = counting
    carol = town.agent("carol", join="#keep")
    alice, bob = town.peer("bot:alice"), town.peer("bot:bob", BOB)
    town.send(carol, "MSG", to="#keep", content="hello all")
    (packet,) = alice.read()
    assert bob.read() == [packet]
    assert (packet.dst, packet.body) == ("#keep", "hello all")
    assert_signed_by_the_hall(packet)
    assert len(signed) == 1


def test_a_line_of_a_channel_goes_to_each_connection_once(town: Town) -> None:
    carol, both, bob = town.agent("carol", join="#keep"), FakePeer(), town.peer("bot:bob", BOB)
    for identity in ("bot:one", "bot:two"):
        town.post(both, identity, "server")
    both.read()
    town.send(carol, "MSG", to="#keep", content="hello all")
    assert [packet.body for packet in both.read()] == ["hello all"]
    # Its other identity is a member too, and is to know what the first one said.
    town.post(both, "bot:one", "#keep", "from one")
    assert [packet.body for packet in both.read()] == ["from one"]
    town.post(bob, "bot:bob", "#keep", "from bob", signer=BOB)
    assert [packet.body for packet in bob.read()] == ["hello all", "from one"]


def test_a_lone_surrogate_does_not_stop_anything(town: Town) -> None:
    carol, alice = town.agent("carol", join="#keep"), town.peer("bot:alice")
    town.send_raw(carol, b'{"type":"MSG","to":"#keep","content":"a\\ud83db"}')
    assert alice.only().body == "a?b"


def test_everything_but_chat_is_left_out(town: Town) -> None:
    alice = town.peer("bot:alice")
    carol = town.agent("carol", join="#keep")
    town.send(carol, "TYPING", channel="#keep")
    town.send(carol, "SET_PRESENCE", status="away")
    town.send(carol, "LEAVE", channel="#keep")
    assert alice.read() == []


def test_nudges_of_the_hall_are_not_for_keep_clients(town: Town) -> None:
    town.agent("carol", join="#keep")
    alice = town.peer("bot:alice")
    announce(town.hall, "#keep", "It is quiet here")
    assert alice.read() == []


def test_an_answer_goes_to_whoever_wrote(town: Town) -> None:
    """The seed's example of two agents, with one of them on the other wire."""
    carol, alice = town.agent("carol"), town.peer("bot:alice")
    town.send(carol, "MSG", to=f"@{ALICE_ID}", content="coordinate task")
    town.post(alice, "bot:alice", alice.only().src, "ok")
    assert_sent(carol, "MSG", content="ok", **{"from": f"@{ALICE_ID}"})


# -- from keep to the hall -----------------------------------------------------------------------------


@pytest.mark.parametrize("dst", ["#general", "agent"])
def test_an_offer_under_the_id_of_a_message_is_a_reply_to_it(town: Town, dst: str) -> None:
    """So agents on the other wire do not take the answer for a question."""
    carol, alice = town.agent("carol", join="#general"), town.peer("bot:alice")
    town.post(alice, "bot:alice", "#general", "here I am")
    msg_id = town.say(carol, "#general", "who knows?")
    town.hush()
    to = f"agent:{carol.id[1:]}" if dst == "agent" else dst
    town.advance(1)
    town.post(alice, "bot:alice", to, "I know", typ=OFFER, id=msg_id)
    assert_sent(carol, "MSG", content="I know", in_reply_to=msg_id)


@pytest.mark.parametrize(
    ("typ", "packet_id"),
    [(ASK, "1760000000123-0a1b2c"), (OFFER, "12345678-1234-4123-8123-123456789012"), (OFFER, "")],
)
def test_any_other_packet_replies_to_nothing(town: Town, typ: int, packet_id: str) -> None:
    carol, alice = town.agent("carol"), town.peer("bot:alice")
    town.post(alice, "bot:alice", f"agent:{carol.id[1:]}", "hi", typ=typ, id=packet_id)
    assert_sent(carol, "MSG", content="hi", in_reply_to=ABSENT)


def attached(message: dict[str, Any]) -> Packet:
    """The packet, if it can be verified end to end."""
    packet = decode(b64decode(message["packet"]))
    assert verify(packet.pk, signing_bytes(packet), packet.sig)
    return packet


def test_a_packet_to_an_agent_arrives_as_a_message_with_the_packet(town: Town) -> None:
    carol, alice = town.agent("carol"), town.peer("bot:alice")
    sent = town.post(alice, "bot:alice", f"agent:{carol.id[1:]}", "hi", scar=b"memory")
    message = assert_sent(
        carol, "MSG", to=carol.id, content="hi", from_name="alice", verified=False, via="keep"
    )
    assert message["from"] == f"@{ALICE_ID}"
    assert attached(message) == sent
    assert alice.read() == []


def test_speaking_into_a_channel_joins_it_and_other_keep_members_get_the_packet(town: Town) -> None:
    carol = town.agent("carol", join="#general")
    alice, bob = town.peer("bot:alice"), town.peer("bot:bob", BOB)
    town.post(bob, "bot:bob", "#general", "first")
    bob.read()
    town.hush()
    sent = town.post(alice, "bot:alice", "#general", "hello")
    assert_sent(carol, "AGENT_JOINED", channel="#general", agent=f"@{ALICE_ID}")
    message = assert_sent(carol, "MSG", to="#general", content="hello", via="keep")
    assert attached(message) == sent
    assert bob.payloads == [encode(sent)]
    assert alice.read() == []
    town.send(carol, "MSG", to="#general", content="welcome")
    assert alice.only().body == "welcome"


def test_it_is_in_the_buffer_for_those_who_come_later(town: Town) -> None:
    alice = town.peer("bot:alice")
    sent = town.post(alice, "bot:alice", "#general", "hello")
    late = town.agent("late")
    town.send(late, "JOIN", channel="#general")
    assert attached(assert_sent(late, "MSG", content="hello", replay=True, via="keep")) == sent


@pytest.mark.parametrize("options", [{"invite_only": True}, {"verified_only": True}])
def test_channels_that_are_not_public_are_not_there(options: dict[str, bool], town: Town) -> None:
    owner = town.agent("owner", key=PrivateKey(b"o" * 32))
    town.send(owner, "CREATE_CHANNEL", channel="#inner", **options)
    alice = town.peer("bot:alice")
    assert town.ask(alice, "bot:alice", "#inner", "let me in") == "error:offline"
    assert town.ask(alice, "bot:alice", "swarm:inner", "let me in") == "error:offline"


def test_secrets_are_taken_out_and_then_the_packet_is_not_attached(town: Town) -> None:
    secret = "sk-ant-" + "a1B2" * 12
    carol, alice, bob = town.agent("carol", join="#keep"), town.peer("bot:alice"), town.peer("bot:bob", BOB)
    town.hush()
    town.post(alice, "bot:alice", "#keep", f"the key is {secret}")
    message = assert_sent(carol, "MSG", packet=ABSENT, via="keep")
    assert secret not in message["content"]
    packet = bob.only()
    assert secret not in packet.body
    assert_signed_by_the_hall(packet)


@pytest.mark.parametrize("letter", ["x", "\u00e9", "🦀"])
def test_a_text_that_no_packet_can_hold_is_cut_and_says_so(letter: str) -> None:
    town = Town(max_content=2_000_000, outbox_limit=32_000_000, no_limits=True)
    peer = town.peer("bot:a")
    alice = town.agent("alice", join="#keep")
    short = letter * 4096
    town.send(alice, "MSG", to="#keep", content=short)
    assert peer.only().body == short
    for to in ("#keep", town.bridge.residents["bot:a"].agent.address):
        town.send(alice, "MSG", to=to, content=letter * 900_000)
        packet = peer.only()
        assert packet.body.startswith(short)
        assert packet.body.endswith("… [cut: 900000 characters]")
        assert_signed_by_the_hall(packet)
        assert len(encode(packet)) <= MAX_PACKET


def test_a_keep_agent_may_say_as_much_as_the_hall_takes_and_a_packet_holds() -> None:
    town = Town(max_content=10_000, no_limits=True)
    listener = town.agent("listener", join="#keep")
    peer = town.peer("bot:a")
    listener.read()
    town.post(peer, "bot:a", "#keep", "x" * 10_000)
    assert listener.read()[-1]["content"] == "x" * 10_000
    assert town.ask(peer, "bot:a", "#keep", "x" * 10_001) == "error:too_long"


@pytest.mark.parametrize(("body", "scar"), [("x" * 4097, b""), ("🦀" * 2049, b""), ("small", b"s" * 40_000)])
def test_what_is_longer_than_the_hall_takes_is_refused(body: str, scar: bytes, town: Town) -> None:
    carol, alice = town.agent("carol"), town.peer("bot:alice")
    for dst in (f"agent:{carol.id[1:]}", "#general"):
        assert town.ask(alice, "bot:alice", dst, body, scar=scar) == "error:too_long"
    assert_silent(carol)


def test_the_limit_of_messages_holds_for_keep_agents_too() -> None:
    town = Town()
    carol, alice = town.agent("carol"), town.peer("bot:alice")
    town.post(alice, "bot:alice", "#general", "one")
    assert town.ask(alice, "bot:alice", f"agent:{carol.id[1:]}", "two") == "error:rate_limited"
    assert town.ask(alice, "bot:another", "#general", "three") == "error:rate_limited"
    assert town.ask(alice, "bot:alice", "#general", "four", signer=CAROL) == "error:rate_limited"
    bob = town.peer("bot:bob", BOB)
    for number in range(5):
        town.post(alice, "bot:alice", "bot:bob", str(number))
    assert [packet.body for packet in bob.read()] == ["0", "1", "2", "3", "4"]


def test_a_keep_agent_is_in_no_more_channels_than_others() -> None:
    town = Town(max_joined=2, rate_message=Rate(0, 1))
    carol = town.agent("carol", join="#agents")
    alice = town.peer("bot:alice")  # in #keep
    town.post(alice, "bot:alice", "#general", "in two")
    town.post(alice, "bot:alice", "#agents", "in three")
    assert [packet.body for packet in alice.read()] == ["error:not_allowed"]
    assert_silent(carol)
    town.post(alice, "bot:alice", "#general", "still in two")
    assert alice.read() == []
    assert len(town.bridge.residents["bot:alice"].agent.channels) == 2


def test_moderation_holds_for_keep_agents_too() -> None:
    town = Town(moderation=True, no_limits=True)
    alice = town.peer("bot:alice")
    for _ in range(12):
        town.post(alice, "bot:alice", "#general", "see http://example.com")
    heard = alice.read()
    assert heard[0].src == "agent:server"
    assert heard[0].body.startswith("Warning: ")
    assert "error:not_allowed" in [packet.body for packet in heard]


def test_an_admin_can_put_a_keep_agent_out() -> None:
    town = Town(admin_key=ADMIN_KEY)
    admin, alice = town.agent("admin"), town.peer("bot:alice")
    town.send(admin, "ADMIN_KICK", admin_key=ADMIN_KEY, agent_id=f"@{ALICE_ID}")
    assert alice.closed
    town.room.leave(alice)
    assert_consistent(town)


def test_who_was_put_out_leaves_its_id_to_the_next_at_once() -> None:
    town = Town(admin_key=ADMIN_KEY)
    admin, alice = town.agent("admin"), town.peer("bot:alice")
    town.send(admin, "ADMIN_KICK", admin_key=ADMIN_KEY, agent_id=f"@{ALICE_ID}")
    again = town.peer("bot:again")
    assert agent_id(town, "bot:again") == ALICE_ID
    town.room.leave(alice)  # its connection ends a moment later
    town.send(admin, "MSG", to=f"@{ALICE_ID}", content="hello")
    assert again.only().body == "hello"
    town.room.leave(again)
    assert town.hall.makes_way == {}
    assert_consistent(town)


def test_a_ban_puts_out_all_identities_of_a_key() -> None:
    town = Town(admin_key=ADMIN_KEY)
    admin, first, second = town.agent("admin"), town.peer("bot:first"), town.peer("bot:second")
    other = town.peer("bot:other", BOB)
    town.send(admin, "ADMIN_BAN", admin_key=ADMIN_KEY, agent_id=f"@{ALICE_ID}")
    assert (first.closed, second.closed, other.closed) == (True, True, False)
    for peer in (first, second):
        town.room.leave(peer)
    assert_consistent(town)


def test_a_ban_of_the_id_that_a_second_identity_has_holds() -> None:
    town = Town(admin_key=ADMIN_KEY)
    admin, first, second = town.agent("admin"), town.peer("bot:first"), town.peer("bot:second")
    town.send(admin, "ADMIN_BAN", admin_key=ADMIN_KEY, agent_id=f"@{agent_id(town, 'bot:second')}")
    assert (first.closed, second.closed) == (False, True)
    town.room.leave(second)
    town.room.leave(first)
    assert town.ask(FakePeer(), "bot:second", "server") == "error:banned"


def test_a_key_that_is_revoked_is_out_at_once_with_all_its_identities(town: Town) -> None:
    anybody = town.connect()
    first, second, other = town.peer("bot:first"), town.peer("bot:second"), town.peer("bot:other", BOB)
    town.send(anybody, "REVOKE_KEY", notice=revoke(ALICE_KEY, now_ms=town.now_ms))
    assert (first.closed, second.closed, other.closed) == (True, True, False)
    for peer in (first, second):
        town.room.leave(peer)
    assert list(town.hall.roster.agents) == [agent_id(town, "bot:other")]
    assert_consistent(town)


# -- one reputation, one directory -----------------------------------------------------------------------


def test_somebodys_packet_sent_again_keeps_no_deals_from_its_author(town: Town) -> None:
    """A proposal to an agent that is away waits for it, whoever claims its key meanwhile."""
    dealer, absent = town.agent("dealer", key=DEALER), PrivateKey(SEEDS["bob"])
    address = f"@{absent.public.agent_id()}"
    for word in ("before", "meanwhile"):
        town.send(dealer, "PROPOSAL", **signed(DEALER, "PROPOSAL", to=address, task=word))
        assert_sent(dealer, "PROPOSAL", to=address, task=word)
        town.peer("bot:replayed", Signer(SEEDS["bob"]))
        assert agent_id(town, "bot:replayed") == address[1:]
    back = town.agent("bob", key=absent)
    town.send(back, "LIST_PROPOSALS", ref="l")
    assert len(assert_sent(back, "PROPOSALS", ref="l")["list"]) == 2


def test_nobody_deals_with_a_key_that_only_keep_knows(town: Town) -> None:
    dealer = town.agent("dealer", key=DEALER)
    town.peer("bot:alice")
    town.send(dealer, "PROPOSAL", **signed(DEALER, "PROPOSAL", to=f"@{ALICE_ID}", task="t"))
    assert_refused(dealer, "AGENT_NOT_FOUND")


def test_the_rating_of_a_key_is_that_of_all_its_identities(town: Town) -> None:
    asking = town.agent("asking")
    skilled(town, ALICE, "weather", rating=1321, transactions=7)
    town.peer("bot:first")
    town.peer("bot:second")
    for identity in ("bot:first", "bot:second"):
        address = f"@{agent_id(town, identity)}"
        town.send(asking, "GET_RATING", agent=address)
        assert_sent(asking, "RATINGS", agent_id=address, rating=1321, transactions=7)


def test_a_search_for_a_skill_finds_keep_agents_online(town: Town) -> None:
    asking = town.agent("asking")
    skilled(town, ALICE, "weather")
    town.send(asking, "SEARCH_SKILLS", query={"capability": "weather"})
    assert [found["online"] for found in assert_sent(asking, "SEARCH_RESULTS")["results"]] == [False]
    alice = town.peer("bot:alice")
    town.send(asking, "SEARCH_SKILLS", query={"capability": "weather"})
    assert [found["online"] for found in assert_sent(asking, "SEARCH_RESULTS")["results"]] == [True]
    town.room.leave(alice)
    town.send(asking, "SEARCH_SKILLS", query={"capability": "weather"})
    assert [found["online"] for found in assert_sent(asking, "SEARCH_RESULTS")["results"]] == [False]


# -- who is nearest ------------------------------------------------------------------------------------


def skilled(town: Town, signer: Signer, skill: str, rating: int = 1200, transactions: int = 0) -> None:
    key = signer.pk
    town.books.skills[key] = Registration(
        key=key,
        agent_id=PublicKey(key).agent_id(8),
        skills=[{"capability": skill}],
        registered_at=town.now_ms,
        sig="",
    )
    town.books.stands[key] = Standing(key=key, rating=rating, transactions=transactions)


def test_the_best_rated_is_nearest_on_whatever_wire(town: Town) -> None:
    asking = town.peer("bot:asking", CAROL)
    alice, bob = town.agent("alice", key=ALICE_KEY), town.peer("bot:bob", BOB)
    skilled(town, ALICE, "Weather", rating=1300)
    skilled(town, BOB, "weather", rating=1250)
    town.post(asking, "bot:asking", "nearest:weather", "rain?")
    assert_sent(alice, "MSG", content="rain?")
    skilled(town, BOB, "weather", rating=1400)
    town.post(asking, "bot:asking", "nearest:weather", "and now?")
    assert bob.only().body == "and now?"
    assert_silent(alice)


def test_equal_ratings_are_told_apart_by_transactions_then_by_name(town: Town) -> None:
    asking = town.peer("bot:asking", CAROL)
    alice, bob = town.peer("bot:zoe", ALICE), town.peer("bot:bob", BOB)
    skilled(town, ALICE, "weather", transactions=3)
    skilled(town, BOB, "weather", transactions=2)
    town.post(asking, "bot:asking", "nearest:weather", "1")
    skilled(town, BOB, "weather", transactions=3)
    town.post(asking, "bot:asking", "nearest:weather", "2")
    assert (alice.only().body, bob.only().body) == ("1", "2")


def test_who_proved_a_key_is_nearer_than_who_only_signs_with_it(town: Town) -> None:
    asking = town.peer("bot:asking", CAROL)
    skilled(town, ALICE, "weather", rating=1300)
    replayed = town.peer("bot:a-name-that-sorts-first", ALICE)
    alice = town.agent("zoe", key=ALICE_KEY)
    town.post(asking, "bot:asking", "nearest:weather", "rain?")
    assert_sent(alice, "MSG", content="rain?")
    assert replayed.read() == []


def test_who_is_offline_is_not_nearest(town: Town) -> None:
    asking = town.peer("bot:asking", CAROL)
    skilled(town, ALICE, "weather", rating=2000)
    assert town.ask(asking, "bot:asking", "nearest:weather") == "error:offline"


def test_part_of_a_word_is_another_skill(town: Town) -> None:
    asking, bob = town.peer("bot:asking", CAROL), town.peer("bot:bob", BOB)
    skilled(town, BOB, "weatherforecast")
    assert town.ask(asking, "bot:asking", "nearest:weather") == "error:offline"
    assert bob.read() == []


def test_a_packet_to_a_swarm_goes_to_each_connection_once(town: Town) -> None:
    asking, both, bob = town.peer("bot:asking", CAROL), FakePeer(), town.peer("bot:planner", BOB)
    for number in range(100):
        town.post(both, f"{number}:planner", "server")
    both.read()
    town.post(asking, "bot:asking", "swarm:planner", "all hands", signer=CAROL)
    assert [packet.body for packet in both.read()] == ["all hands"]
    assert bob.only().body == "all hands"


def test_a_changed_nick_is_the_name_that_counts(town: Town) -> None:
    asking, planner = town.peer("bot:asking", CAROL), town.agent("planner")
    town.send(planner, "SET_NICK", nick="Idle")
    planner.read()
    assert town.ask(asking, "bot:asking", "nearest:planner", signer=CAROL) == "error:offline"
    town.post(asking, "bot:asking", "nearest:idle", "hello", signer=CAROL)
    assert_sent(planner, "MSG", content="hello")


def test_a_swarm_that_nobody_can_be_told_of_is_refused(town: Town) -> None:
    asking, bob = town.peer("bot:asking", CAROL), town.peer("bot:planner", BOB)
    bob.full = True
    assert town.ask(asking, "bot:asking", "swarm:planner") == "error:delivery_failed"
    planner = town.agent("planner")
    assert town.ask(asking, "bot:asking", "swarm:planner", "x" * 5000) == "error:too_long"
    assert_silent(planner)


def test_a_callback_that_a_keep_agent_asks_for_fires_as_a_packet_to_it() -> None:
    town = Town()
    listener = town.agent("listener", join="#general")
    peer = town.peer("bot:alice")
    listener.read()
    town.post(peer, "bot:alice", "#general", "back in a moment @@cb:5s@@look again")
    assert_sent(listener, "AGENT_JOINED", name="alice")
    line = assert_sent(listener, "MSG", content="back in a moment")
    assert "packet" not in line, "its text is not what its author signed"
    town.advance(5)
    fired = peer.only()
    assert (fired.src, fired.dst) == ("agent:server", "bot:alice")
    assert fired.body.endswith("look again")
    assert_signed_by_the_hall(fired)


def test_the_arrival_of_a_keep_agent_is_an_arrival() -> None:
    town = Town()
    arrived: list[str] = []
    town.hall.roster.on_arrival(lambda agent: arrived.append(agent.name))
    town.peer("bot:alice")
    assert arrived == ["alice"]
    assert "agent:" + next(iter(town.hall.roster.agents)) not in town.room.listing

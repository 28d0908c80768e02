"""Mesh agents in the hall: who sees them, what is said between topics and channels, and what can be checked."""

from base64 import b64decode
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from moothall.errors import (
    Banned,
    InternalError,
    InvalidMessage,
    NotAllowed,
    RateLimited,
    Refusal,
    StoreUnreachable,
    Unavailable,
    VerificationFailed,
)
from moothall.hall.access import Ban
from moothall.hall.mesh.bridge import MAX_WAITING
from moothall.hall.visitors import MAX_BRIDGED
from moothall.hall.voice import announce
from moothall.identity import PrivateKey
from moothall.identity.certificates import revoke
from moothall.market.records import Registration, Standing
from moothall.settings.limits import Rate
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import decode
from tests.court.books import MemoryBooks
from tests.hall.mesh.square import FakeCaller, Square, hall_broadcast, payload
from tests.support.deals import signed
from tests.support.keep import CAROL
from tests.support.world import (
    ADMIN_KEY,
    HALL_KEY,
    TWIN_ID,
    TWINS,
    HeldStore,
    assert_consistent,
    assert_refused,
    assert_sent,
    assert_silent,
)

ALICE, BOB = PrivateKey(b"a" * 32), PrivateKey(b"b" * 32)
ALICE_ID, BOB_ID = (key.public.agent_id(8) for key in (ALICE, BOB))
SECRET = "AKIAIOSFODNN7EXAMPLE"


@pytest.fixture
def square() -> Square:
    """Where messages have no limit."""
    return Square(rate_message=Rate(0, 1))


# -- who is there --------------------------------------------------------------------------------------


def test_a_beacon_puts_its_sender_into_the_roster(square: Square) -> None:
    carol = square.agent("carol", join="#general")
    caller = square.caller(ALICE, "Alice & Co.", "general")
    joined = assert_sent(carol, "AGENT_JOINED", agent=f"@{ALICE_ID}", name="AliceCo", verified=False)
    assert joined["channel"] == "#general"
    entry = square.listed(carol)["AliceCo"]
    assert (entry["id"], entry["via"], entry["verified"]) == (f"@{ALICE_ID}", "mesh", False)
    square.mesh.depart(caller)
    assert_sent(carol, "AGENT_LEFT", agent=f"@{ALICE_ID}")
    assert "AliceCo" not in square.listed(carol)
    assert_consistent(square)


def test_several_connections_of_a_key_are_one_agent(square: Square) -> None:
    carol = square.agent("carol", join="#general")
    first, second = (square.caller(ALICE, "alice", "general") for _ in range(2))
    assert [message["type"] for message in carol.read()] == ["AGENT_JOINED"]
    square.say(carol, "#general", "hello")
    assert len(first.read()) == len(second.read()) == 1
    square.mesh.depart(first)
    assert_silent(carol)
    square.mesh.depart(second)
    assert_sent(carol, "AGENT_LEFT")
    assert len(square.mesh) == 0


def test_an_agent_is_shown_as_verified_while_it_has_proven_its_key(square: Square) -> None:
    carol = square.agent("carol")
    unproven = square.caller(ALICE, "alice")
    assert square.listed(carol)["alice"]["verified"] is False
    proven = square.caller(ALICE, "alice", proven=True)
    assert square.listed(carol)["alice"]["verified"] is True
    square.mesh.depart(proven)
    assert square.listed(carol)["alice"]["verified"] is False
    square.mesh.arrive(unproven, ALICE.public.raw, "alice", proven=True)
    assert square.listed(carol)["alice"]["verified"] is True
    assert square.hall.roster.holder(ALICE.public.raw) is None


@pytest.mark.parametrize("approved", [True, False])
def test_a_proof_counts_as_much_as_on_the_websocket(approved: bool) -> None:
    square = Square(
        verified_means="grant",
        allowlist=True,
        allowlist_strict=False,
        admin_key=ADMIN_KEY,
        approved=[ALICE] if approved else [],
    )
    square.caller(ALICE, "alice", proven=True)
    assert square.hall.roster.agents[ALICE_ID].verified is approved


def test_an_admin_verifies_no_agent_of_the_mesh() -> None:
    square = Square(admin_key=ADMIN_KEY)
    admin = square.agent("admin")
    square.caller(ALICE, "alice")
    square.send(admin, "ADMIN_VERIFY", admin_key=ADMIN_KEY, agent_id=f"@{ALICE_ID}", verified=True)
    assert_refused(admin, "INVALID_MSG", "on the mesh wire")


def test_a_new_name_in_a_beacon_is_told(square: Square) -> None:
    carol = square.agent("carol", join="#general")
    caller = square.caller(ALICE, "alice", "general")
    carol.read()
    square.mesh.arrive(caller, ALICE.public.raw, "alice", proven=False)
    assert_silent(carol)
    square.mesh.arrive(caller, ALICE.public.raw, "alicia", proven=False)
    assert_sent(carol, "NICK_CHANGED", old_nick="alice", new_nick="alicia")
    square.mesh.arrive(caller, ALICE.public.raw, "again", proven=False)
    square.mesh.arrive(caller, ALICE.public.raw, "root", proven=False)
    assert_silent(carol)  # too soon, and reserved
    square.advance(60)
    square.mesh.arrive(caller, ALICE.public.raw, "again", proven=False)
    assert_sent(carol, "NICK_CHANGED", old_nick="alicia", new_nick="again")


def test_a_replayed_beacon_renames_no_agent_that_proved_its_key(square: Square) -> None:
    square.caller(ALICE, "alice", proven=True)
    square.caller(ALICE, "mallory")
    assert square.hall.roster.agents[ALICE_ID].name == "alice"


@pytest.mark.parametrize("name", ["", "!!!", "Server", "s3rver"])
def test_an_agent_without_a_name_is_called_by_its_id(square: Square, name: str) -> None:
    square.caller(ALICE, name)
    assert square.hall.roster.agents[ALICE_ID].name == ALICE_ID


def test_a_websocket_session_that_proves_the_key_gets_the_id(square: Square) -> None:
    carol = square.agent("carol", join="#general")
    caller = square.caller(ALICE, "alice", "general", proven=True)
    alice = square.agent("alice", key=ALICE, join="#general")
    assert alice.id == f"@{ALICE_ID}"
    (resident,) = square.hall.roster.bearers(ALICE.public.raw)
    assert resident.id != ALICE_ID
    assert resident.verified
    square.say(carol, "#general", "hello both")
    assert [message.content for message in caller.read()] == [b"hello both"]
    assert caller.closed is None
    assert_consistent(square)


def test_an_agent_does_not_displace_a_websocket_session(square: Square) -> None:
    alice = square.agent("alice", key=ALICE)
    caller = square.caller(ALICE, "alice", proven=True)
    assert alice.link.closed is None
    assert square.hall.roster.agents[ALICE_ID].via is None
    assert len(square.hall.roster) == 2
    square.mesh.depart(caller)
    assert len(square.hall.roster) == 1
    assert_consistent(square)


def test_an_id_that_belongs_to_another_key_is_not_given(square: Square) -> None:
    square.disconnect(square.agent("owner", key=TWINS[0]))
    square.caller(TWINS[1], "twin")
    assert square.hall.roster.get(TWIN_ID) is None
    assert [agent.name for agent in square.hall.roster.everyone()] == ["twin"]


# -- who may not come in -------------------------------------------------------------------------------


def test_who_may_not_come_in_is_refused(square: Square) -> None:
    with pytest.raises(NotAllowed, match="the hall's own key"):
        square.mesh.admit(HALL_KEY.public.raw)
    square.hall.revoked.add(BOB.public.raw)
    with pytest.raises(VerificationFailed, match="revoked"):
        square.mesh.admit(BOB.public.raw)
    with pytest.raises(Banned):
        Square(banned=[ALICE_ID]).mesh.admit(ALICE.public.raw)
    strict = Square(allowlist=True, allowlist_strict=True, admin_key=ADMIN_KEY, approved=[BOB])
    strict.mesh.admit(BOB.public.raw)
    with pytest.raises(NotAllowed, match="approved keys only"):
        strict.mesh.admit(ALICE.public.raw)


def test_a_ban_closes_every_connection_of_the_key() -> None:
    square = Square(admin_key=ADMIN_KEY)
    admin = square.agent("admin")
    callers = [square.caller(ALICE, "alice", "general"), square.caller(ALICE, "alice")]
    square.send(admin, "ADMIN_BAN", admin_key=ADMIN_KEY, agent_id=f"@{ALICE_ID}")
    assert all(caller.closed is not None for caller in callers)
    assert square.hall.roster.get(ALICE_ID) is None
    for caller in callers:
        square.mesh.arrive(caller, ALICE.public.raw, "alice", proven=True)  # it was on its way
        square.mesh.depart(caller)
    assert len(square.mesh) == 0
    with pytest.raises(Banned):
        square.mesh.admit(ALICE.public.raw)
    assert_consistent(square)


def test_a_kicked_agent_may_come_back_before_its_old_connection_is_gone() -> None:
    square = Square(admin_key=ADMIN_KEY)
    admin = square.agent("admin")
    old = square.caller(ALICE, "alice")
    square.send(admin, "ADMIN_KICK", admin_key=ADMIN_KEY, agent_id=f"@{ALICE_ID}")
    assert old.closed is not None
    square.caller(ALICE, "alice")
    square.mesh.depart(old)
    assert square.hall.roster.agents[ALICE_ID].via == "mesh"
    assert_consistent(square)


def test_a_revoked_key_is_out_at_once(square: Square) -> None:
    square.disconnect(square.agent("alice", key=ALICE))
    caller = square.caller(ALICE, "alice")
    bearer = square.agent("bearer")
    square.send(bearer, "REVOKE_KEY", notice=revoke(ALICE, now_ms=square.now_ms))
    assert caller.closed == (1000, "Key revoked")
    assert not square.hall.roster.bearers(ALICE.public.raw)


# -- while the store is asked --------------------------------------------------------------------------


def test_what_is_said_before_the_store_has_answered_is_said_afterwards() -> None:
    books = MemoryBooks()
    store = HeldStore(books)
    square = Square(books=books, key_store=store, rate_message=Rate(0, 1))
    carol = square.agent("carol", join="#general")
    caller = square.caller(ALICE, "alice", "general")
    for number in range(MAX_WAITING + 1):
        square.broadcast(caller, ALICE, "general", f"line {number}")
    assert [type(refusal) for refusal in caller.refused] == [RateLimited]
    assert caller.published == []
    assert_silent(carol)
    store.do_next()
    assert [message.get("content") for message in carol.read()] == [
        None,
        *(f"line {number}" for number in range(MAX_WAITING)),
    ]
    assert len(caller.published) == MAX_WAITING


def test_an_agent_that_leaves_while_the_store_is_asked_never_enters() -> None:
    books = MemoryBooks()
    store = HeldStore(books)
    square = Square(books=books, key_store=store)
    caller = square.caller(ALICE, "alice", "general")
    square.broadcast(caller, ALICE, "general", "hello")
    square.mesh.depart(caller)
    store.do_next()
    assert len(square.hall.roster) == len(square.mesh) == 0
    assert (caller.published, caller.refused) == ([], [])


def test_an_agent_that_is_banned_while_the_store_is_asked_never_enters() -> None:
    books = MemoryBooks()
    store = HeldStore(books)
    square = Square(books=books, key_store=store)
    caller = square.caller(ALICE, "alice", "general")
    square.broadcast(caller, ALICE, "general", "hello")
    square.hall.bans.add(Ban(agent_id=ALICE_ID))
    store.do_next()
    assert [type(refusal) for refusal in caller.refused] == [Banned]
    assert square.hall.roster.get(ALICE_ID) is None
    square.mesh.depart(caller)


def test_a_store_that_fails_costs_one_try() -> None:
    class Failing:
        def __init__(self) -> None:
            self.fails = True
            self.prompt = HeldStore(books)

        def submit(self, work: Any, done: Any, failed: Any) -> None:
            if self.fails:
                failed(OSError("no disk"))
            else:
                self.prompt.submit(work, done, failed)
                self.prompt.do_next()

    books = MemoryBooks()
    store = Failing()
    square = Square(books=books, key_store=store)
    caller = FakeCaller()
    square.mesh.arrive(caller, ALICE.public.raw, "alice", proven=False)
    square.mesh.subscribe(caller, "general")
    assert len(square.hall.roster) == 0
    assert square.log.find("mesh_agent_not_registered")
    square.broadcast(caller, ALICE, "general", "hello")
    assert [type(refusal) for refusal in caller.refused] == [NotAllowed]
    store.fails = False
    square.mesh.arrive(caller, ALICE.public.raw, "alice", proven=False)
    assert "#general" in square.hall.roster.agents[ALICE_ID].channels


@pytest.mark.parametrize(
    ("error", "refusal"),
    [(OSError("no disk"), InternalError), (StoreUnreachable("no database"), Unavailable)],
)
def test_what_waits_for_a_store_that_fails_is_refused(error: Exception, refusal: type[Refusal]) -> None:
    class Late:
        def __init__(self) -> None:
            self.failures: list[Any] = []

        def submit(self, work: Any, done: Any, failed: Any) -> None:
            self.failures.append(failed)

    store = Late()
    square = Square(key_store=store)
    caller = square.caller(ALICE, "alice", "general")
    square.broadcast(caller, ALICE, "general", "hello")
    store.failures.pop()(error)
    assert [type(each) for each in caller.refused] == [refusal]


# -- from channels to topics ---------------------------------------------------------------------------


def test_a_line_of_a_channel_is_a_broadcast_of_the_hall_on_its_topic(square: Square) -> None:
    carol = square.agent("carol", join="#general")
    caller, other, deaf = (
        square.caller(ALICE, "alice", "general"),
        square.caller(BOB, "bob", "general"),
        square.caller(ALICE, "alice", "agents"),
    )
    square.say(carol, "#general", "hello, mesh")
    assert caller.frames[0] is other.frames[0]  # made once
    assert decode(payload(caller.frames[0])).sender == HALL_KEY.public.raw
    (message,) = caller.read()
    assert message == Broadcast(
        topic="general", title=f"carol ({carol.id})", tags=("chat",), format="text", content=b"hello, mesh"
    )
    assert deaf.read() == []
    square.mesh.unsubscribe(caller, "general")
    square.say(carol, "#general", "are you there?")
    assert caller.read() == []
    assert len(other.read()) == 2


def test_lines_of_keep_agents_reach_topics_and_lines_of_mesh_agents_keep(square: Square) -> None:
    peer = square.peer("bot:keeper")
    caller = square.caller(ALICE, "alice", "keep")
    square.post(peer, "bot:keeper", "#keep", "from keep")
    (message,) = caller.read()
    assert message.content == b"from keep"
    assert message.title.startswith("keeper (@")
    square.broadcast(caller, ALICE, "keep", "from the mesh")
    packet = peer.only()
    assert (packet.body, packet.src, packet.pk) == (
        "from the mesh",
        f"agent:{ALICE_ID}",
        HALL_KEY.public.raw,
    )


def test_lines_of_the_server_and_notices_are_not_for_the_mesh(square: Square) -> None:
    carol = square.agent("carol", join="#general")
    caller = square.caller(ALICE, "alice", "general")
    announce(square.hall, "#general", "welcome", buffered=True)
    square.send(carol, "TYPING", channel="#general")
    square.agent("dave", join="#general")
    assert caller.frames == []


def test_text_that_cannot_be_sent_is_sent_as_far_as_it_can(square: Square) -> None:
    carol = square.agent("carol", join="#general")
    caller = square.caller(ALICE, "alice", "general")
    square.send_raw(carol, rb'{"type":"MSG","to":"#general","content":"lone \ud800 surrogate"}')
    assert caller.read()[0].content == b"lone ? surrogate"


def test_receipts_say_whether_a_connection_took_the_line(square: Square) -> None:
    carol = square.agent("carol", features=["receipts"], join="#general")
    caller = square.caller(ALICE, "alice", "general")
    for is_full, status in ((False, "DELIVERED"), (True, "UNDELIVERED")):
        caller.full = is_full
        carol.read()
        square.send(carol, "MSG", to="#general", content="hello", receipt=True, ref="1")
        assert_sent(carol, "ACK")
        assert_sent(carol, "RECEIPT", status=status, to=f"@{ALICE_ID}")


# -- from topics to channels ---------------------------------------------------------------------------


def test_a_broadcast_of_text_is_a_line_with_its_envelope(square: Square) -> None:
    carol = square.agent("carol", join="#general")
    caller, other = square.caller(ALICE, "alice", "general"), square.caller(BOB, "bob", "general")
    carol.read()
    raw = square.broadcast(caller, ALICE, "general", "hello, hall")
    line = assert_sent(carol, "MSG", content="hello, hall", via="mesh", from_name="alice")
    assert line["from"] == f"@{ALICE_ID}"
    assert b64decode(line["packet"]) == raw
    assert caller.published == [(raw, True)]
    assert caller.frames == other.frames == []  # the room brings it to them


def test_a_secret_is_taken_out_for_both_sides(square: Square) -> None:
    carol = square.agent("carol", join="#general")
    caller = square.caller(ALICE, "alice", "general")
    carol.read()
    square.broadcast(caller, ALICE, "general", f"my key is {SECRET}")
    line = assert_sent(carol, "MSG", via="mesh")
    assert SECRET not in line["content"]
    assert "packet" not in line
    ((published, is_chat),) = caller.published
    assert published is not None
    assert is_chat
    message = hall_broadcast(published)
    assert message.title == f"alice (@{ALICE_ID})"
    assert message.content == line["content"].encode()


@pytest.mark.parametrize(
    "fields",
    [
        {"format": "audio"},
        {"format": "data"},
        {"chunk_index": 0, "total_chunks": 2},
        {"total_chunks": 1},
        {"content": None},
        {"content": b""},
        {"content": b"\xff\xfe"},
    ],
    ids=str,
)
def test_what_is_not_one_whole_text_stays_on_the_mesh(square: Square, fields: dict[str, Any]) -> None:
    carol = square.agent("carol", join="#general")
    caller = square.caller(ALICE, "alice", "general")
    carol.read()
    raw = square.broadcast(caller, ALICE, "general", "x", **fields)
    assert caller.published == [(raw, False)]
    assert_silent(carol)


def test_a_topic_without_a_public_channel_is_for_the_mesh_only() -> None:
    square = Square(verified_channels=("#trusted",))
    carol = square.agent("carol", key=BOB)
    square.send(carol, "CREATE_CHANNEL", channel="#secret", invite_only=True)
    square.send(carol, "JOIN", channel="#trusted")
    carol.read()
    for topic in ("secret", "trusted", "nowhere", "", "#general", "x y"):
        caller = square.caller(ALICE, "alice", topic)
        raw = square.broadcast(caller, ALICE, topic, "hello")
        assert caller.published == [(raw, False)]
        square.mesh.depart(caller)
    assert_silent(carol)
    assert_consistent(square)


def test_a_channel_that_is_made_later_is_the_room_of_its_topic(square: Square) -> None:
    caller, other = square.caller(ALICE, "alice", "late"), square.caller(BOB, "bob", "late", "later")
    stranger = FakeCaller()
    square.mesh.subscribe(stranger, "late")
    square.mesh.depart(other)
    carol = square.agent("carol")
    square.send(carol, "CREATE_CHANNEL", channel="#late")
    assert [message["type"] for message in carol.read()] == ["JOINED"]
    assert "alice" in square.listed(carol, channel="#late")
    square.say(carol, "#late", "hello")
    assert [message.content for message in caller.read()] == [b"hello"]
    assert stranger.frames == []
    square.mesh.depart(stranger)
    assert_consistent(square)


def test_the_limits_of_chat_hold(square: Square) -> None:
    carol = square.agent("carol", join="#general")
    limited = Square(rate_message=Rate(1, 10))
    caller = limited.caller(ALICE, "alice", "general")
    limited.broadcast(caller, ALICE, "general", "one")
    limited.broadcast(limited.caller(ALICE, "alice", "general"), ALICE, "general", "two")
    limited.broadcast(caller, ALICE, "general", "three")
    assert [type(refusal) for refusal in caller.refused] == [RateLimited]
    caller = square.caller(ALICE, "alice", "general")
    carol.read()
    square.broadcast(caller, ALICE, "general", "x" * 4097)
    square.broadcast(caller, ALICE, "general", "short", tags=("x" * MAX_BRIDGED,))
    assert [type(refusal) for refusal in caller.refused] == [InvalidMessage, InvalidMessage]
    assert caller.published == []
    assert_silent(carol)


def test_a_speaker_without_a_beacon_is_refused(square: Square) -> None:
    stranger = FakeCaller()
    square.mesh.subscribe(stranger, "general")
    square.broadcast(stranger, ALICE, "general", "hello")
    (refusal,) = stranger.refused
    assert "Send a BEACON" in refusal.message


def test_moderation_holds_on_the_mesh() -> None:
    square = Square(moderation=True, no_limits=True)
    caller = square.caller(ALICE, "alice", "general")
    for _ in range(12):
        square.broadcast(caller, ALICE, "general", "see http://example.com")
    assert NotAllowed in map(type, caller.refused)
    assert len(caller.published) + len(caller.refused) == 12


def test_a_message_of_callbacks_only_is_taken_and_not_published(square: Square) -> None:
    caller = square.caller(ALICE, "alice", "general")
    square.broadcast(caller, ALICE, "general", "@@cb:5s@@remind me")
    assert caller.published == [(None, True)]
    square.advance(6)
    assert caller.frames == []


def test_an_agent_is_in_no_more_channels_than_it_may_be() -> None:
    square = Square(max_joined=1)
    caller = square.caller(ALICE, "alice", "general", "agents")
    assert list(square.hall.roster.agents[ALICE_ID].channels) == ["#general"]
    square.broadcast(caller, ALICE, "agents", "hello")
    assert [type(refusal) for refusal in caller.refused] == [InvalidMessage]
    assert_consistent(square)


def test_the_audience_of_a_topic_is_that_of_its_channel(square: Square) -> None:
    square.agent("carol", join="#general")
    square.caller(ALICE, "alice", "general")
    assert square.mesh.audience("general") == 2
    assert square.mesh.audience("nowhere") == 0


# -- messages to one agent -----------------------------------------------------------------------------


def test_a_direct_message_is_refused_clearly(square: Square) -> None:
    carol = square.agent("carol", join="#general")
    caller = square.caller(ALICE, "alice", "general")
    carol.read()
    refusal = "on the mesh wire, which has no direct messages"
    square.send(carol, "MSG", to=f"@{ALICE_ID}", content="psst")
    assert_refused(carol, "INVALID_MSG", refusal)
    square.send(carol, "INVITE", channel="#general", agent=f"@{ALICE_ID}")
    assert_refused(carol, "INVALID_MSG", refusal)
    square.send(carol, "FILE_CHUNK", to=f"@{ALICE_ID}", content="x")
    assert_refused(carol, "INVALID_MSG", "which carries no files")
    peer = square.peer("bot:keeper")
    assert square.ask(peer, "bot:keeper", f"agent:{ALICE_ID}", "psst") == f"error:mesh_only:agent:{ALICE_ID}"
    assert caller.frames == []


# -- who is found --------------------------------------------------------------------------------------


def skilled(square: Square, key: PrivateKey, skill: str, rating: int = 1200) -> None:
    raw = key.public.raw
    square.books.skills[raw] = Registration(
        key=raw,
        agent_id=key.public.agent_id(8),
        skills=[{"capability": skill}],
        registered_at=square.now_ms,
        sig="",
    )
    square.books.stands[raw] = Standing(key=raw, rating=rating)


def test_a_search_for_a_skill_finds_mesh_agents_online(square: Square) -> None:
    def online() -> list[bool]:
        square.send(asking, "SEARCH_SKILLS", query={"capability": "weather"})
        return [found["online"] for found in assert_sent(asking, "SEARCH_RESULTS")["results"]]

    asking = square.agent("asking")
    skilled(square, TWINS[1], "weather")
    square.disconnect(square.agent("owner", key=TWINS[0]))  # the id is another key's
    assert online() == [False]
    caller = square.caller(TWINS[1], "alice")
    assert online() == [True]
    square.mesh.depart(caller)
    assert online() == [False]


def test_nearest_prefers_an_agent_that_can_be_told(square: Square) -> None:
    asking = square.peer("bot:asking", CAROL)
    square.caller(ALICE, "alice")
    skilled(square, ALICE, "weather", rating=1400)
    refusal = f"error:mesh_only:agent:{ALICE_ID}"
    for word in ("weather", "alice"):
        assert square.ask(asking, "bot:asking", f"nearest:{word}", signer=CAROL) == refusal
    bob = square.agent("bob", key=BOB)
    skilled(square, BOB, "weather", rating=1100)
    square.post(asking, "bot:asking", "nearest:weather", "rain?", signer=CAROL)
    assert_sent(bob, "MSG", content="rain?")


def test_a_swarm_reaches_the_members_of_its_channel_on_the_mesh(square: Square) -> None:
    asking = square.peer("bot:asking", CAROL)
    caller = square.caller(ALICE, "planner")
    refusal = f"error:mesh_only:agent:{ALICE_ID}"
    assert square.ask(asking, "bot:asking", "swarm:planner", signer=CAROL) == refusal
    carol = square.agent("carol", join="#general")
    square.mesh.subscribe(caller, "general")
    carol.read()
    square.post(asking, "bot:asking", "swarm:general", "all hands", signer=CAROL)
    assert_sent(carol, "MSG", content="all hands", to=carol.id)
    (message,) = caller.read()
    assert (message.topic, message.content) == ("general", b"all hands")
    square.disconnect(carol)
    square.post(asking, "bot:asking", "swarm:general", "still there?", signer=CAROL)
    assert [message.content for message in caller.read()] == [b"still there?"]
    square.post(asking, "bot:asking", "swarm:general", "@@cb:5s@@later", signer=CAROL)
    assert caller.read() == []
    assert asking.read() == []


def test_keep_lists_mesh_agents_as_agents_of_the_hall(square: Square) -> None:
    square.caller(ALICE, "alice")
    assert f"agent:{ALICE_ID}" in square.room.listing


def test_a_deal_is_not_offered_to_a_key_that_only_the_mesh_knows(square: Square) -> None:
    dealer = square.agent("dealer", key=BOB)
    square.caller(ALICE, "alice", proven=True)
    square.send(dealer, "PROPOSAL", **signed(BOB, "PROPOSAL", to=f"@{ALICE_ID}", task="t"))
    assert_refused(dealer, "AGENT_NOT_FOUND")


# -- whatever happens ----------------------------------------------------------------------------------

KEYS = (ALICE, BOB, *TWINS)
TOPICS = ("general", "agents", "late", "secret")


class Crowd(RuleBasedStateMachine):
    """Connections come and go in any order, while the store takes its time."""

    def __init__(self) -> None:
        super().__init__()
        books = MemoryBooks()
        self.store = HeldStore(books)
        self.square = Square(books=books, key_store=self.store, rate_message=Rate(0, 1), max_joined=3)
        self.callers: dict[FakeCaller, PrivateKey] = {}
        self.topics: dict[FakeCaller, set[str]] = {}

    def pick(self, number: int) -> FakeCaller | None:
        return list(self.callers)[number % len(self.callers)] if self.callers else None

    @rule(
        key=st.sampled_from(KEYS),
        proven=st.booleans(),
        departs=st.booleans(),
        name=st.sampled_from(("", "ann", "ben")),
    )
    def arrive(self, key: PrivateKey, proven: bool, departs: bool, name: str) -> None:
        caller = self.square.caller(key, name, proven=proven)
        if departs:
            caller.on_close = lambda: self.end(caller)
        self.callers[caller] = key
        self.topics[caller] = set()

    @rule(number=st.integers(0, 9), proven=st.booleans(), name=st.sampled_from(("", "ann", "ben")))
    def beacon(self, number: int, proven: bool, name: str) -> None:
        if caller := self.pick(number):
            self.square.mesh.arrive(caller, self.callers[caller].public.raw, name, proven=proven)

    @rule(number=st.integers(0, 9))
    def depart(self, number: int) -> None:
        if caller := self.pick(number):
            self.end(caller)

    def end(self, caller: FakeCaller) -> None:
        self.square.mesh.depart(caller)
        del self.callers[caller], self.topics[caller]

    @rule(number=st.integers(0, 9), topic=st.sampled_from(TOPICS))
    def subscribe(self, number: int, topic: str) -> None:
        if caller := self.pick(number):
            self.square.mesh.subscribe(caller, topic)
            self.topics[caller].add(topic)

    @rule(number=st.integers(0, 9), topic=st.sampled_from(TOPICS))
    def unsubscribe(self, number: int, topic: str) -> None:
        if caller := self.pick(number):
            self.square.mesh.unsubscribe(caller, topic)
            self.topics[caller].discard(topic)

    @rule(number=st.integers(0, 9), topic=st.sampled_from(TOPICS))
    def broadcast(self, number: int, topic: str) -> None:
        if caller := self.pick(number):
            self.square.broadcast(caller, self.callers[caller], topic, "hello")

    @rule(name=st.sampled_from(("#late", "#secret")))
    def create(self, name: str) -> None:
        carol = self.square.agent("carol")
        self.square.send(carol, "CREATE_CHANNEL", channel=name, invite_only=name == "#secret")

    @rule(key=st.sampled_from(KEYS))
    def prove_on_the_websocket(self, key: PrivateKey) -> None:
        guest = self.square.connect()
        self.square.identify(guest, "ann", key=key)

    @rule()
    def answer(self) -> None:
        if self.store.waiting:
            self.store.do_next()

    @rule(number=st.integers(0, 9))
    def kick(self, number: int) -> None:
        agents = [agent for agent in self.square.hall.roster.agents.values() if agent.via == "mesh"]
        if agents:
            self.square.hall.close(agents[number % len(agents)].session, 1000, "Kicked")

    @rule()
    def wait(self) -> None:
        self.square.advance(1)

    @invariant()
    def holds(self) -> None:
        assert_consistent(self.square)
        agents = [agent for agent in self.square.hall.roster.agents.values() if agent.via == "mesh"]
        keys = [agent.claimed_key for agent in agents]
        assert len(set(keys)) == len(keys)
        for agent in agents:
            callers = [
                caller
                for caller, key in self.callers.items()
                if key.public == agent.claimed_key and caller.closed is None
            ]
            assert callers
            wanted = {f"#{topic}" for caller in callers for topic in self.topics[caller]}
            spoken = set(agent.channels) - wanted
            assert "#secret" not in agent.channels
            assert len(agent.channels) <= 3
            assert spoken <= {"#general", "#agents", "#late"}

    def teardown(self) -> None:
        for caller in list(self.callers):
            self.square.mesh.depart(caller)
        while self.store.waiting:
            self.store.do_next()
        assert len(self.square.mesh) == 0
        assert not self.square.mesh._awaited
        assert not self.square.mesh._calls
        assert all(agent.via is None for agent in self.square.hall.roster.agents.values())


TestCrowd = Crowd.TestCase
TestCrowd.settings = hypothesis_settings(max_examples=100, stateful_step_count=30, deadline=None)

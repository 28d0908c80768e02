"""The order of processing and the table of destinations (seed 004, routing; keep wire 4 to 6)."""

import json
from base64 import b64decode
from typing import NoReturn

import pytest

from moothall.hall.access import Ban
from moothall.hall.budgets import Price
from moothall.hall.keep import routing
from moothall.hall.keep.bridge import MAX_NAMED
from moothall.hall.keep.routing import DESTINATIONS, FREED_AT_ONCE, IDENTITY, QUESTIONS
from moothall.identity import PrivateKey, PublicKey
from moothall.settings.limits import Rate
from moothall.wire.keep.codec import decode, encode
from moothall.wire.keep.packet import Packet
from tests.court.books import MemoryBooks
from tests.hall.keep.town import FakePeer, Town
from tests.support.keep import ALICE, BOB, CAROL, VECTORS, Signer
from tests.support.world import HeldStore, assert_refused, assert_sent, assert_silent


@pytest.fixture
def town() -> Town:
    return Town()


TABLE = [
    ("server", "done"),
    ("", "done"),
    ("discover:zzz", "error:unknown_discovery"),
    ("discover:", "error:unknown_discovery"),
    ("bot:nobody", "error:offline"),
    ("Server", "error:offline"),
    ("server ", "error:offline"),
    ("discover", "error:offline"),
    ("nearest:weather", "error:offline"),
    ("nearest:", "error:offline"),
    ("swarm:planner", "error:offline"),
    ("agent:00000000", "error:offline"),
    ("#nowhere", "error:offline"),
]


@pytest.mark.parametrize(("dst", "body"), TABLE)
def test_what_each_destination_is_answered(dst: str, body: str, town: Town) -> None:
    alice = town.peer("bot:alice")
    town.post(alice, "bot:alice", dst, id="x")
    assert alice.only() == Packet(typ=1, id="x", src="server", body=body)


EXAMPLES = {
    "": "",
    "server": "server",
    **{f"discover:{question}": f"discover:{question}" for question in QUESTIONS},
    IDENTITY: "bot:bob",
    "agent:": "agent:{carol}",
    "#": "#general",
    "nearest:": "nearest:bob",
    "swarm:": "swarm:general",
}


@pytest.mark.parametrize("kind", DESTINATIONS)
def test_every_kind_of_destination_is_served(kind: str, town: Town) -> None:
    carol, bob, alice = (
        town.agent("carol", join="#general"),
        town.peer("bot:bob", BOB),
        town.peer("bot:alice"),
    )
    town.hush()
    town.post(alice, "bot:alice", EXAMPLES[kind].format(carol=carol.id[1:]), "hello")
    answers = [packet.body for packet in alice.read()]
    if routing.is_for_hall(EXAMPLES[kind]):
        assert len(answers) == 1
        assert not answers[0].startswith("error:")
    else:
        assert answers == []
        heard = [packet.body for packet in bob.read()] + [message.get("content") for message in carol.read()]
        assert "hello" in heard


def test_a_forward_is_byte_for_byte_and_not_acknowledged(town: Town) -> None:
    alice, bob = town.peer("bot:alice"), town.peer("bot:bob", BOB)
    sent = town.post(alice, "bot:alice", "bot:bob", "task", scar=b"m", ttl=60)
    assert bob.payloads == [encode(sent)]
    assert bob.senders == [alice]
    assert alice.read() == []


def test_who_does_not_read_fails_its_senders(town: Town) -> None:
    alice, bob = town.peer("bot:alice"), town.peer("bot:bob", BOB)
    bob.full = True
    assert town.ask(alice, "bot:alice", "bot:bob") == "error:delivery_failed"


def test_names_that_mean_something_are_listed_and_never_addressed(town: Town) -> None:
    odd = FakePeer()
    for name in ("server", "discover:info"):
        town.post(odd, name, "server")
    odd.read()
    alice = town.peer("bot:alice")
    assert town.ask(alice, "bot:alice", "server") == "done"
    town.ask(alice, "bot:alice", "discover:info")
    assert odd.read() == []
    assert json.loads(town.ask(alice, "bot:alice", "discover:agents"))["agents"] == [
        "bot:alice",
        "discover:info",
        "server",
    ]


@pytest.mark.parametrize("name", ["swarm:x", "nearest:x", "#general"])
def test_an_identity_comes_before_any_meaning_of_its_name(name: str, town: Town) -> None:
    alice, odd = town.peer("bot:alice"), town.peer(name, BOB)
    town.post(alice, "bot:alice", name, "you")
    assert odd.only().body == "you"
    assert town.questions == []


# -- identities ----------------------------------------------------------------------------------------


def test_the_last_to_sign_has_the_identity_whatever_its_key(town: Town) -> None:
    old, new = town.peer("bot:alice"), town.peer("bot:alice", BOB)
    assert old.closed
    town.room.leave(old)  # its connection ends a moment later
    carol = town.peer("bot:carol", CAROL)
    town.post(carol, "bot:carol", "bot:alice", "hi")
    assert new.only().body == "hi"


def test_a_connection_that_ends_frees_all_its_identities(town: Town) -> None:
    alice = FakePeer()
    for name in ("bot:m1", "bot:m2"):
        town.post(alice, name, "server")
    assert town.room.leave(alice)
    assert not town.room.free_some()
    assert len(town.room.registry) == 0
    assert town.bridge.residents == {}
    assert town.hall.roster.agents == {}


def crowd(town: Town, number: int, peer: FakePeer | None = None) -> FakePeer:
    """A connection with so many identities, bot:0, bot:1 and so on."""
    peer = peer or FakePeer()
    for serial in range(number):
        town.post(peer, f"bot:{serial}", "server")
    peer.read()
    return peer


def test_many_identities_are_freed_a_few_at_a_time_and_addressed_no_more_from_the_start(town: Town) -> None:
    carol, alice = town.agent("carol"), town.peer("bot:alice", BOB)
    many = crowd(town, 10 * FREED_AT_ONCE)
    address = town.bridge.residents["bot:299"].agent.address
    assert town.room.leave(many)
    assert len(town.room.registry) == 1 + 10 * FREED_AT_ONCE
    for dst in ("bot:0", f"agent:{address[1:]}", "nearest:299", "swarm:299"):
        assert town.ask(alice, "bot:alice", dst, signer=BOB) == "error:offline"
    town.send(carol, "MSG", to=address, content="hello")
    assert_refused(carol, "AGENT_NOT_FOUND")
    for turn in range(1, 10):
        assert town.room.free_some()
        assert len(town.room.registry) == 1 + (10 - turn) * FREED_AT_ONCE
    assert not town.room.free_some()
    assert list(town.room.listing) == [f"agent:{carol.id[1:]}", "bot:alice"]


def test_an_identity_that_is_about_to_be_freed_can_be_claimed(town: Town) -> None:
    many, alice = crowd(town, 100), town.peer("bot:alice", BOB)
    town.room.leave(many)
    heir = town.peer("bot:99", CAROL)
    town.post(alice, "bot:alice", "bot:99", "hello", signer=BOB)
    assert heir.only().body == "hello"
    assert not many.closed
    while town.room.free_some():
        pass
    town.post(alice, "bot:alice", "bot:99", "still there?", signer=BOB)
    assert heir.only().body == "still there?"
    assert list(town.bridge.residents) == ["bot:alice", "bot:99"]


def test_first_identities_always_find_room_and_others_share_it() -> None:
    town = Town(keep_max_identities=10)
    greedy = crowd(town, 11)
    assert town.ask(greedy, "bot:one-more", "server") == "error:too_many_identities"
    for number in range(20):
        town.peer(f"human:{number}")
    second = town.peer("human:second")
    assert town.ask(second, "human:third", "server") == "error:too_many_identities"
    town.room.leave(greedy)
    town.room.free_some()
    assert town.ask(second, "human:third", "server") == "done"


def test_one_address_has_so_many_identities_unless_it_is_our_own() -> None:
    town = Town(keep_identities_per_ip=10)
    greedy = crowd(town, 10)
    assert town.ask(greedy, "bot:one-more", "server") == "error:too_many_identities"
    assert town.ask(FakePeer(), "bot:first", "server") == "done"
    other = FakePeer("198.51.100.1")
    assert town.ask(other, "bot:other", "server") == "done"
    assert town.ask(other, "bot:other-2", "server") == "done"
    home = FakePeer("127.0.0.1")
    home.is_loopback = True
    for number in range(20):
        assert town.ask(home, f"bot:home-{number}", "server") == "done"


def test_without_limits_there_is_room_for_all() -> None:
    town = Town(keep_max_identities=10, keep_identities_per_ip=10, no_limits=True)
    assert town.ask(crowd(town, 20), "bot:one-more", "server") == "done"


def test_heartbeats_are_owed_from_the_first_identity_on(town: Town) -> None:
    peer = FakePeer()
    town.post(peer, "", "server")
    assert not peer.is_registered
    town.post(peer, "bot:alice", "server")
    assert peer.is_registered


def test_one_connection_has_so_many_identities(town: Town) -> None:
    peer = FakePeer()
    for number in range(1000):
        town.post(peer, f"bot:{number}", "server")
    peer.read()
    assert town.ask(peer, "bot:one-more", "server") == "error:too_many_identities"
    assert town.ask(peer, "bot:7", "server") == "done"


def test_the_identities_of_one_connection_have_so_many_characters(town: Town) -> None:
    peer, long = FakePeer(), "x" * 65_000
    assert town.ask(peer, f"1{long}", "server") == "done"
    assert town.ask(peer, f"2{long}", "server") == "done"
    assert town.ask(peer, f"3{long}", "server") == "error:too_many_identities"
    assert town.ask(peer, f"1{long}", "server") == "done"
    assert town.ask(peer, "bot:short", "server") == "done"


def test_a_connection_does_not_come_and_go_with_every_packet(town: Town) -> None:
    watcher = town.agent("watcher", join="#keep")
    watcher.read()
    peer = FakePeer()
    for _ in range(600):
        town.post(peer, "bot:two-faced", "server", signer=ALICE)
        town.post(peer, "bot:two-faced", "server", signer=BOB)
    assert peer.read()[-1].body == "error:too_many_identities"
    assert len(watcher.read()) < 2100
    town.advance(60)
    assert town.ask(peer, "bot:two-faced", "server", signer=CAROL) == "done"


def test_a_name_that_was_refused_is_not_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one connection could take all the pins there are, a thousand names or not."""
    monkeypatch.setattr(routing, "MAX_IDENTITIES", 1)
    town = Town(keep_pin=True)
    greedy = town.peer("bot:one", ALICE)
    assert town.ask(greedy, "bot:two", "server") == "error:too_many_identities"
    town.peer("bot:two", BOB)
    assert town.ask(town.peer(), "bot:two", "server") == "error:pinned"


def test_a_pinned_identity_is_refused_to_another_key() -> None:
    town = Town(keep_pin=True)
    alice = town.peer("bot:alice")
    thief = FakePeer()
    assert town.ask(thief, "bot:alice", "server", signer=BOB) == "error:pinned"
    assert not alice.closed
    assert town.room.packets == 1


HALL_KEPT = ("server", "", "discover:info", "discover:agents", "discover:nothing")  # what it never passes on


@pytest.mark.parametrize("dst", HALL_KEPT)
def test_a_pinned_identity_is_registered_by_a_packet_to_the_hall(dst: str) -> None:
    town = Town(keep_pin=True)
    alice, bob = FakePeer(), town.peer("bot:bob", BOB)
    town.post(alice, "bot:alice", dst)
    alice.read()
    town.post(bob, "bot:bob", "bot:alice", "hello", signer=BOB)
    assert alice.only().body == "hello"


def test_with_pins_a_packet_to_others_registers_nothing_and_is_not_passed_on() -> None:
    town = Town(keep_pin=True)
    bob, carol = town.peer("bot:bob", BOB), town.agent("carol", join="#general")
    stranger = FakePeer()
    for dst in ("bot:bob", f"agent:{carol.id[1:]}", "#general", "nearest:bob", "swarm:bob", "bot:alice", "x"):
        assert town.ask(stranger, "bot:alice", dst, "hello") == "error:register_first"
    assert list(town.bridge.residents) == ["bot:bob"]
    assert bob.read() == []
    assert_silent(carol)
    assert town.ask(stranger, "bot:alice", "server") == "done"
    town.post(stranger, "bot:alice", "bot:bob", "hello")
    assert bob.only().body == "hello"


def test_what_the_hall_passes_on_gives_a_pinned_identity_to_no_stranger() -> None:
    """However a stranger gets a packet of the victim: the hall does not take it from another connection."""
    town = Town(keep_pin=True, no_limits=True)
    victim, bob = town.peer("bot:victim"), town.peer("bot:spy", BOB)
    carol, spy = town.agent("carol", join=["#general", "#keep"]), town.agent("spy")
    town.post(bob, "bot:spy", "#general", "I listen", signer=BOB)
    town.hush()
    for dst in (
        "bot:spy",
        "#general",
        "#keep",
        f"agent:{carol.id[1:]}",
        "nearest:spy",
        "swarm:spy",
        "swarm:keep",
    ):
        town.post(victim, "bot:victim", dst, "hello", id=dst)
    late = town.agent("late")
    town.send(late, "JOIN", channel="#general")
    payloads = {*bob.payloads, *victim.payloads}
    for guest in (carol, spy, late):
        payloads |= {b64decode(message["packet"]) for message in guest.read() if "packet" in message}
    seen = {decode(payload).dst for payload in payloads}
    assert seen >= {"bot:spy", "#general", "#keep", f"agent:{carol.id[1:]}", "nearest:spy", "swarm:spy"}
    thief = FakePeer()
    for payload in payloads:
        town.room.accept(thief, decode(payload), payload)
    assert town.room.registry.owner("bot:victim") is victim
    town.room.leave(victim)
    for payload in payloads:
        town.room.accept(thief, decode(payload), payload)
    assert "bot:victim" not in town.room.registry
    assert {packet.body for packet in thief.read()} <= {"error:register_first", "error:pinned"}


def test_what_the_hall_signed_has_no_effect_when_it_comes_back(town: Town) -> None:
    carol, alice = town.agent("carol", join="#keep"), town.peer("bot:alice")
    town.send(carol, "MSG", to=f"@{town.bridge.residents['bot:alice'].agent.id}", content="direct")
    town.advance(10)
    town.send(carol, "MSG", to="#keep", content="to all")
    payloads = [*alice.payloads]
    alice.read()
    assert len(payloads) == 2
    for payload in payloads:
        town.room.accept(alice, decode(payload), payload)
    assert [packet.body for packet in alice.read()] == ["error:reserved_identity"] * 2
    hall = Signer(b"h" * 32)
    assert town.ask(FakePeer(), "bot:anything", "server", signer=hall) == "error:reserved_identity"
    assert town.ask(FakePeer(), "", "bot:alice", signer=hall) == "error:reserved_identity"
    assert list(town.bridge.residents) == ["bot:alice"]


def test_the_same_packet_counts_once_while_the_window_is_open() -> None:
    town = Town(keep_replay_window=10.0)
    alice = FakePeer()
    town.post(alice, "bot:alice", "server", id="1")
    town.post(alice, "bot:alice", "server", id="1")
    assert len(alice.read()) == 1
    assert town.room.dropped == {"replay": 1}
    town.advance(10)
    town.post(alice, "bot:alice", "server", id="1")
    assert len(alice.read()) == 1


def test_banned_keys_and_keys_that_are_not_approved_stay_out() -> None:
    banned = Town(banned=[PublicKey(ALICE.pk).fingerprint])
    assert banned.ask(FakePeer(), "bot:alice", "server") == "error:banned"
    assert banned.ask(FakePeer(), "", "server") == "error:banned"
    closed = Town(allowlist=True)
    assert closed.ask(FakePeer(), "bot:alice", "server") == "error:not_allowed"
    assert closed.hall.roster.agents == {}


def test_a_revoked_key_stays_out() -> None:
    key = PrivateKey(bytes.fromhex(VECTORS["keys"]["alice"]["seed_hex"]))
    town = Town()
    town.hall.revoked.add(key.public.raw)
    for src in ("bot:alice", ""):
        assert town.ask(FakePeer(), src, "server") == "error:revoked"
    assert town.hall.roster.agents == {}
    assert town.ask(FakePeer(), "bot:alice", "server", signer=BOB) == "done"


# -- counting ------------------------------------------------------------------------------------------


def test_every_valid_packet_is_counted_whatever_it_asks(town: Town) -> None:
    alice = town.peer("bot:alice")
    for dst in ("bot:nobody", "discover:info", "nearest:x"):
        town.ask(alice, "bot:alice", dst, scar=b"m")
    stats = json.loads(town.ask(alice, "bot:alice", "discover:stats"))
    assert stats == {"scar_exchanges": {"bot:alice": 3}, "total_packets": 5}


def test_uptime_is_in_whole_seconds(town: Town) -> None:
    alice = town.peer("bot:alice")
    town.advance(61.7)
    assert town.ask(alice, "bot:alice", "discover:info") == (
        '{"agents_online":1,"uptime_sec":61,"version":"1.2.3"}'
    )


def test_a_list_that_does_not_fit_is_cut_and_logged_once_an_hour(town: Town) -> None:
    alice = FakePeer()
    for number in range(300):
        town.post(alice, f"bot:{number:04}{'x' * 400}", "server")
    alice.read()
    for _ in range(50):
        town.post(alice, f"bot:{0:04}{'x' * 400}", "discover:agents", id="i" * 1000)
        (payload,) = alice.payloads
        assert len(payload) <= 65_536
        assert len(json.loads(alice.only().body)["agents"]) > 100
    assert len(town.log.find("keep_discovery_truncated")) == 1
    town.advance(3600)
    town.ask(alice, f"bot:{0:04}{'x' * 400}", "discover:agents")
    assert len(town.log.find("keep_discovery_truncated")) == 2


def test_the_hall_tells_its_own_key(town: Town) -> None:
    alice = town.peer("bot:alice")
    about = json.loads(town.ask(alice, "bot:alice", "discover:hall"))
    assert about == {"channel": "#keep", "name": "moothall", "pk": town.bridge.pk.hex()}


# -- whose id it is ------------------------------------------------------------------------------------


def slow_town() -> tuple[Town, HeldStore]:
    """The store that knows the keys of ids takes its time."""
    books = MemoryBooks()
    store = HeldStore(books)
    return Town(books=books, key_store=store), store


def test_later_packets_wait_until_it_is_known_whose_id_a_key_would_have() -> None:
    town, store = slow_town()
    alice = FakePeer()
    town.post(alice, "bot:alice", "server")
    assert (alice.held, alice.read()) == (1, [])
    assert town.bridge.residents == {}
    store.do_next()
    assert (alice.held, alice.only().body) == (0, "done")
    town.post(alice, "bot:alice", "server")
    assert (alice.only().body, store.waiting) == ("done", [])
    assert town.books.bound == {}  # a packet can be replayed: it binds nothing


def test_many_first_packets_are_one_question() -> None:
    town, store = slow_town()
    peers = [FakePeer() for _ in range(10)]
    for number, peer in enumerate(peers):
        town.post(peer, f"bot:{number}", "server")
    store.do_next()
    store.do_next()
    assert store.waiting == []
    assert [peer.only().body for peer in peers] == ["done"] * 10


def test_who_left_while_it_was_asked_is_not_registered() -> None:
    town, store = slow_town()
    alice = FakePeer()
    town.post(alice, "bot:alice", "server")
    town.room.leave(alice)
    store.do_next()
    assert (alice.held, alice.read()) == (0, [])
    assert (town.bridge.residents, len(town.room.registry)) == ({}, 0)


def test_a_ban_that_comes_while_it_is_asked_holds() -> None:
    town, store = slow_town()
    alice = FakePeer()
    town.post(alice, "bot:alice", "server")
    town.hall.bans.add(Ban(agent_id=PublicKey(ALICE.pk).agent_id(8)))
    store.do_next()
    assert alice.only().body == "error:banned"
    assert town.bridge.residents == {}


def test_a_store_that_fails_registers_nobody() -> None:
    town, store = slow_town()
    alice = FakePeer()
    town.books.owners = unreachable  # type: ignore[method-assign]
    town.post(alice, "bot:alice", "server")
    store.do_next()
    assert (alice.held, alice.only().body) == (0, "error:delivery_failed")
    assert town.bridge.residents == {}


def unreachable(ids: object) -> NoReturn:
    raise OSError("gone")


# -- nearest and swarm ---------------------------------------------------------------------------------


def test_later_packets_wait_until_the_directory_has_answered(town: Town) -> None:
    alice, bob = town.peer("bot:alice"), town.peer("bot:weather", BOB)
    town.asked_later = []
    town.post(alice, "bot:alice", "nearest:weather", "rain?")
    assert alice.held == 1
    assert bob.read() == []
    town.asked_later.pop()()
    assert alice.held == 0
    assert bob.only().body == "rain?"
    assert alice.read() == []


def test_who_left_while_the_directory_was_asked_is_neither_served_nor_answered(town: Town) -> None:
    alice, bob = town.peer("bot:alice"), town.peer("bot:weather", BOB)
    town.asked_later = []
    town.post(alice, "bot:alice", "nearest:weather", "rain?")
    town.room.leave(alice)
    town.asked_later.pop()()
    assert bob.read() == []


def test_the_sender_is_never_its_own_nearest(town: Town) -> None:
    weather = town.peer("bot:weather")
    assert town.ask(weather, "bot:weather", "nearest:Weather") == "error:offline"


def test_a_failing_directory_is_a_failed_delivery(town: Town) -> None:
    alice = town.peer("bot:alice")
    town.room._directory = lambda word, named, found, failed: failed(OSError("disk"))
    assert town.ask(alice, "bot:alice", "nearest:weather") == "error:delivery_failed"
    assert alice.held == 0


def test_a_swarm_costs_its_fee_and_reaches_everybody_once() -> None:
    town = Town(keep_swarm_fee=5)
    alice, bob = town.peer("bot:alice"), town.peer("bot:planner", BOB)
    carol = town.agent("carol", join="#general")
    planner = town.agent("planner")
    town.send(carol, "CREATE_CHANNEL", channel="#planner")
    town.send(planner, "JOIN", channel="#planner")
    town.hush()
    assert town.ask(alice, "bot:alice", "swarm:planner", fee=4) == "error:fee_too_low"
    town.post(alice, "bot:alice", "swarm:planner", "all hands", fee=5)
    assert bob.only().body == "all hands"
    for member in (carol, planner):
        assert_sent(member, "MSG", content="all hands", to=member.id, via="keep")
    assert_silent(carol, planner)
    assert alice.read() == []


def test_a_packet_without_src_cannot_use_what_the_hall_adds(town: Town) -> None:
    nobody = FakePeer()
    for dst in ("nearest:x", "swarm:x", "#general", "agent:1"):
        assert town.ask(nobody, "", dst) == "error:src_required"


# -- what it costs -------------------------------------------------------------------------------------


def metered(town: Town, src: str, ip: str = "192.0.2.7", signer: Signer = ALICE) -> FakePeer:
    """A connection that pays for what it asks for."""
    peer = FakePeer(ip)
    peer.meter = town.hall.budgets.meter(ip, is_loopback=False)
    assert town.ask(peer, src, "server", signer=signer) == "done"
    return peer


@pytest.mark.parametrize("dst", ["swarm:planner", "swarm:crowd", "#crowd"])
def test_fan_out_is_charged_to_its_sender(dst: str) -> None:
    town = Town(budget_told=Rate(16, 10), rate_message=Rate(0, 1))
    town.agent("planner")
    first = town.agent("planner")
    town.send(first, "CREATE_CHANNEL", channel="#crowd")
    for number in range(5):
        peer = town.peer(f"{number}:planner", BOB)
        town.post(peer, f"{number}:planner", "#crowd", "here", signer=BOB)
    alice, carol = metered(town, "bot:alice"), metered(town, "bot:carol", "198.51.100.1", CAROL)
    for _ in range(2):
        town.post(alice, "bot:alice", dst, "all hands")
    assert alice.read() == []
    before = town.room.forwarded
    assert town.ask(alice, "bot:alice", dst, "all hands") == "error:rate_limited"
    assert town.room.forwarded == before
    town.post(carol, "bot:carol", dst, "all hands", signer=CAROL)
    assert "error:rate_limited" not in [packet.body for packet in carol.read()]
    town.advance(20)
    town.post(alice, "bot:alice", dst, "all hands")
    assert "error:rate_limited" not in [packet.body for packet in alice.read()]


def test_what_one_connection_causes_is_owed_by_its_address() -> None:
    """No neighbour is refused because of it: what they all send next waits (tests/gateways/test_keep.py)."""
    town = Town(address_told=Rate(10, 10))
    planners = [town.agent("planner") for _ in range(6)]
    first, second = metered(town, "bot:first"), metered(town, "bot:second", signer=BOB)
    town.hush()
    for _ in range(2):
        town.advance(1)
        town.post(first, "bot:first", "swarm:planner", "all hands")
        town.post(second, "bot:second", "swarm:planner", "all hands", signer=BOB)
    assert first.read() == second.read() == []
    assert [len(planner.read()) for planner in planners] == [4] * 6
    assert second.meter is not None
    shortage = second.meter.charge(Price(told=1), town.hall.now())
    assert shortage is not None
    assert shortage.is_address
    assert shortage.seconds >= 10


def test_a_question_to_the_directory_is_charged_before_it_is_asked() -> None:
    town = Town(budget_store=Rate(700, 10))
    alice = metered(town, "bot:alice")
    answers = [town.ask(alice, "bot:alice", "nearest:nothing") for _ in range(5)]
    assert answers == ["error:offline"] * 2 + ["error:rate_limited"] * 3
    assert town.questions == ["nothing"] * 2
    assert alice.held == 0


@pytest.mark.parametrize("question", sorted(QUESTIONS))
def test_the_bytes_of_an_answer_are_charged(question: str) -> None:
    town = Town(budget_bytes=Rate(10, 10))
    alice = metered(town, "bot:alice")
    assert alice.meter is not None
    assert alice.meter.charge(Price(bytes=1), town.hall.now()) is None
    body = town.ask(alice, "bot:alice", f"discover:{question}")
    shortage = alice.meter.charge(Price(bytes=1), town.hall.now())
    assert shortage is not None
    assert shortage.seconds > len(body) - 10


def test_a_name_that_thousands_have_is_looked_for_among_the_first_thousand() -> None:
    town = Town(no_limits=True)
    for number in range(3):
        peer = FakePeer()
        for serial in range(1000):
            town.post(peer, f"{number}-{serial}:same", "server")
    alice = town.peer("bot:alice", BOB)
    assert len(town.bridge.named("same", "bot:alice")) == MAX_NAMED
    town.post(alice, "bot:alice", "nearest:same", "hello", signer=BOB)
    assert alice.read() == []

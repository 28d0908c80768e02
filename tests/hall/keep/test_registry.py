"""Identities and their connections, pins, scars, replays and discovery: the small rules."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.keep import discovery
from moothall.hall.keep.listing import FEW_CHANGES, Listing, json_text
from moothall.hall.keep.registry import Pins, Registry
from moothall.hall.keep.replays import Replays
from moothall.hall.keep.scars import MAX_SENDER_TEXT, MAX_SENDERS, RECENT, Scars
from moothall.wire.keep.codec import decode
from moothall.wire.keep.packet import MAX_PACKET
from tests.hall.keep.town import FakePeer

names = st.sampled_from(["bot:a", "bot:b", "bot:c", "server"])


@given(
    st.lists(st.tuples(st.sampled_from(["claim", "free", "leave", "free next"]), names, st.integers(0, 2)))
)
def test_every_identity_has_one_owner_until_that_leaves(history: list[tuple[str, str, int]]) -> None:
    registry, peers = Registry(), [FakePeer() for _ in range(3)]
    holders: dict[str, FakePeer] = {}
    gone: set[FakePeer] = set()
    for step, name, number in history:
        peer = peers[number]
        if step == "claim":
            if name in holders:
                registry.free(name)
            registry.claim(name, peer)
            holders[name] = peer
        elif step == "free" and name in holders:
            registry.free(name)
            del holders[name]
        elif step == "leave":
            registry.abandon(peer)
            gone.add(peer)
            peers[number] = FakePeer()
        elif step == "free next":
            following = registry.next_abandoned()
            assert (following is None) == gone.isdisjoint(holders.values())
            if following is not None:
                assert holders.pop(following) in gone
                registry.free(following)
        assert len(registry) == len(holders)
        assert registry.extra == len(holders) - len(set(holders.values()))
        for each in (*peers, *gone):
            mine = [name for name, holder in holders.items() if holder is each]
            assert registry.count(each) == len(mine)
            assert registry.text(each) == sum(map(len, mine))
            assert not mine or registry.first(each) in mine
        for name, holder in holders.items():
            assert registry.is_held(name)
            assert registry.owner(name) is (None if holder in gone else holder)
            assert (name in registry) == (holder not in gone)


def test_a_pin_holds_for_good_and_no_crowd_of_names_loosens_it() -> None:
    pins = Pins(2)
    assert pins.admit("a", b"1")
    assert pins.admit("a", b"2")  # nobody has it yet
    pins.pin("a", b"1")
    assert not pins.admit("a", b"2")
    pins.pin("b", b"2")
    for number in range(10):
        pins.pin(f"c{number}", b"3")
        assert pins.admit(f"c{number}", b"4")  # there was no room left to pin it
    assert not pins.admit("a", b"2")
    assert sorted(pins.unsaved.values()) == [b"1", b"2"]
    again = Pins(3, pins.unsaved.items())
    assert not again.admit("b", b"9")
    assert again.admit("b", b"2")
    assert again.unsaved == {}


def test_the_key_that_the_store_had_first_takes_the_place_of_a_pin() -> None:
    pins = Pins(2)
    pins.pin("a", b"1")
    ((digest, _),) = pins.unsaved.items()
    pins.learn(digest, b"2")
    assert pins.admit("a", b"2")
    assert not pins.admit("a", b"1")
    assert pins.unsaved == {}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 30)), max_size=50))
def test_a_signature_is_new_again_when_its_window_has_passed(steps: list[tuple[str, float]]) -> None:
    replays = Replays(window=10.0)
    admitted: dict[str, float] = {}
    now = 0.0
    for letter, passed in steps:
        now += passed
        is_new = letter not in admitted or now - admitted[letter] >= 10.0
        assert replays.admit(letter.encode(), now) is is_new
        if is_new:
            admitted[letter] = now


def test_so_many_signatures_are_remembered_and_no_more() -> None:
    replays = Replays(window=10.0, limit=3)
    for number in range(100):
        assert replays.admit(bytes([number]), 0.0)
        assert len(replays) <= 3


def test_scars_of_a_thousand_senders_are_counted_and_the_latest_listed() -> None:
    scars = Scars()
    for number in range(MAX_SENDERS + 5):
        scars.note(f"bot:{number}", b"x")
    for size in range(20):
        scars.note("bot:0", b"y" * size)
    assert len(scars.counts) == MAX_SENDERS
    assert scars.counts["bot:0"] == 21
    assert [scar.size for scar in scars.recent["bot:0"]] == list(range(20 - RECENT, 20))


def test_names_of_scars_senders_take_so_much_room() -> None:
    scars = Scars()
    for number in range(100):
        scars.note(f"{number}".ljust(65_000), b"x")
    assert sum(map(len, scars.counts)) <= MAX_SENDER_TEXT
    scars.note("0".ljust(65_000), b"y")
    assert scars.counts["0".ljust(65_000)] == 2


@given(st.lists(st.text(max_size=200), max_size=400), st.text(max_size=300))
def test_a_list_of_agents_fits_and_is_json(identities: list[str], request_id: str) -> None:
    listing = Listing()
    for identity in identities:
        listing.add(identity)
    assert list(listing) == sorted(set(identities))
    answer = discovery.agents(listing, discovery.room(request_id))
    payload = discovery.reply(request_id, answer.body)
    assert len(payload) <= MAX_PACKET
    listed = json.loads(decode(payload).body)["agents"]
    assert listed == list(listing)[: len(listed)]
    assert len(listed) + answer.left_out == len(listing)
    for identity in identities:
        listing.discard(identity)
    assert len(listing) == 0


@given(st.lists(st.tuples(st.sampled_from(["comes", "goes", "asks"]), st.text("ab<", max_size=3))))
def test_a_listing_is_in_order_whenever_somebody_asks(events: list[tuple[str, str]]) -> None:
    listing, here = Listing(), set[str]()
    for event, name in events:
        if event == "comes":
            listing.add(name)
            here.add(name)
        elif event == "goes":
            listing.discard(name)
            here.discard(name)
        else:
            assert list(listing) == sorted(here)
            assert list(listing.texts) == [json_text(name) for name in sorted(here)]
        assert (name in listing) == (name in here)
        assert len(listing) == len(here)


def test_a_crowd_that_comes_and_goes_between_two_questions_is_in_order_too() -> None:
    listing = Listing()
    crowd = [f"bot:{number}" for number in range(3 * FEW_CHANGES)]
    for name in crowd:
        listing.add(name)
    assert list(listing) == sorted(crowd)
    for name in crowd[: 2 * FEW_CHANGES]:
        listing.discard(name)
    for name in ("first", "zuletzt"):
        listing.add(name)
    assert list(listing) == sorted([*crowd[2 * FEW_CHANGES :], "first", "zuletzt"])
    assert list(listing.texts) == [json_text(name) for name in listing]


@pytest.mark.parametrize("size", [65_000, 65_400, 65_417])  # the last is all that a question has room for
def test_a_question_with_an_enormous_id_is_answered_too(size: int) -> None:
    request_id = "i" * size
    space = discovery.room(request_id)
    listing, scars = Listing(), Scars()
    for number in range(1000):
        listing.add(f"bot:{number}")
        scars.note(f"bot:{number}", b"memory")
    for answer in (
        discovery.agents(listing, space),
        discovery.stats(scars, 10**18, space),
        discovery.scars(scars, space),
        discovery.info(agents_online=10**6, uptime=10**9, version="10.20.30"),
        discovery.hall(channel="#keep", name="moothall", pk=bytes(32), limit=space),
    ):
        assert len(discovery.reply(request_id, answer.body)) <= MAX_PACKET

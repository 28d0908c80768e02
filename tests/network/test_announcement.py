"""Which agents halls host: messages, when they are sent, what is remembered."""

import time
from collections.abc import Container

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.identity.signatures import expand
from moothall.network.announcement import (
    DEBOUNCE,
    EXPIRY,
    FIRST,
    HALLS,
    LAST,
    MAX_ANNOUNCED,
    MAX_HALLS,
    MAX_HOSTED,
    MAX_KEYS,
    PERIOD,
    VERSION,
    Announcement,
    Change,
    Halls,
    Hosted,
    MalformedAnnouncement,
    decode,
)
from moothall.p2p.pubsub import MAX_MESSAGE, signed_message
from moothall.wire.mesh import cbor
from moothall.wire.mesh.envelope import MICROSECONDS
from moothall.wire.mesh.nonces import TOLERANCE

HALL = b"h" * 32
AT = 1_790_000_000 * MICROSECONDS
KEYS = st.binary(min_size=32, max_size=32)


def key(number: int) -> bytes:
    return number.to_bytes(4, "big") + bytes(28)


def spread(number: int) -> bytes:
    return (number * 0x9E3779B1 % 2**32).to_bytes(4, "big") + bytes(28)


class Claims:
    """What follows from all changes."""

    def __init__(self) -> None:
        self.halls = Halls()
        self.of: dict[bytes, set[bytes]] = {}

    def hear(self, message: Announcement, now: int, at: int, connected: Container[bytes] = ()) -> None:
        changes = self.halls.hear(message, now, at, connected)
        assert changes is not None
        self.apply(changes)

    def apply(self, changes: list[Change]) -> None:
        for hall, came, gone in changes:
            known = self.of.setdefault(hall, set())
            assert known.isdisjoint(came)
            assert known.issuperset(gone)
            assert len(set(came)) == len(came)
            known.update(came)
            known.difference_update(gone)

    @property
    def total(self) -> int:
        return sum(map(len, self.of.values()))


def said(
    *keys: bytes, at: int = AT, hall: bytes = HALL, first: bytes = FIRST, last: bytes = LAST
) -> Announcement:
    return Announcement(hall, at, first, last, tuple(sorted(keys)))


@given(KEYS, st.integers(0, 2**64 - 1), st.lists(KEYS, unique=True, max_size=50))
def test_what_is_encoded_is_decoded(hall: bytes, at: int, keys: list[bytes]) -> None:
    announcement = said(*keys, at=at, hall=hall)
    assert decode(announcement.encode()) == announcement


@given(st.binary(max_size=200))
def test_other_bytes_are_refused(data: bytes) -> None:
    try:
        announcement = decode(data)
    except MalformedAnnouncement:
        return
    assert announcement.encode() == data


@given(st.lists(KEYS, unique=True, max_size=5), st.data())
def test_a_changed_byte_is_refused_or_means_something_else(keys: list[bytes], data: st.DataObject) -> None:
    encoded = bytearray(said(*keys).encode())
    place = data.draw(st.integers(0, len(encoded) - 1))
    encoded[place] ^= data.draw(st.integers(1, 255))
    try:
        announcement = decode(bytes(encoded))
    except MalformedAnnouncement:
        return
    assert announcement != said(*keys)
    assert announcement.encode() == encoded


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ((VERSION + 1, HALL, AT, FIRST, LAST, ()), "version"),
        ((VERSION, HALL[1:], AT, FIRST, LAST, ()), "32 bytes"),
        ((VERSION, HALL, -1, FIRST, LAST, ()), "another type"),
        ((VERSION, HALL, AT, LAST, FIRST, ()), "outside"),
        ((VERSION, HALL, AT, FIRST, key(5), (key(6),)), "outside"),
        ((VERSION, HALL, AT, key(5), LAST, (key(4),)), "outside"),
        ((VERSION, HALL, AT, FIRST, LAST, (key(2), key(1))), "rise"),
        ((VERSION, HALL, AT, FIRST, LAST, (key(1), key(1))), "rise"),
        ((VERSION, HALL, AT, FIRST, LAST, (b"short",)), "32 bytes"),
        ((VERSION, HALL, AT, FIRST, LAST, tuple(map(key, range(MAX_KEYS + 1)))), "items"),
        ((VERSION, HALL, AT, FIRST, LAST), "6 items"),
        ((VERSION, HALL, AT, FIRST, LAST, (), 1), "6 items"),
    ],
)
def test_what_is_refused(fields: tuple[cbor.Value, ...], why: str) -> None:
    with pytest.raises(MalformedAnnouncement, match=why):
        decode(cbor.encode(fields))
    with pytest.raises(MalformedAnnouncement, match="follow"):
        decode(said().encode() + b"\0")


def test_the_longest_message_can_be_published() -> None:
    longest = said(*map(key, range(MAX_KEYS)), at=2**64 - 1)
    assert decode(longest.encode()) == longest
    message = signed_message(expand(HALL), 2**64 - 1, HALLS, longest.encode())
    assert len(message.encoded) < MAX_MESSAGE


# -- when a hall tells of its agents ------------------------------------------------------------------------


def test_changes_are_collected_and_all_is_repeated() -> None:
    hosted = Hosted(HALL)
    now = 1_000_000
    assert hosted.due(now, AT) == [said()]
    hosted.change(key(1), now, is_here=True)
    hosted.change(key(2), now + 500, is_here=True)
    hosted.change(key(2), now + 600, is_here=True)
    assert hosted.due(now + DEBOUNCE - 1, AT) == []
    assert hosted.due(now + DEBOUNCE, AT) == [said(key(1), key(2), at=AT + 1)]
    assert hosted.due(now + PERIOD - 1, AT) == []
    assert hosted.due(now + PERIOD, AT + 50) == [said(key(1), key(2), at=AT + 50)]
    hosted.change(key(1), now + PERIOD, is_here=False)
    hosted.change(key(9), now + PERIOD, is_here=False)
    assert key(2) in hosted
    assert len(hosted) == 1
    assert hosted.due(now + PERIOD + DEBOUNCE, AT + 60) == [said(key(2), at=AT + 60)]


def test_a_hall_that_comes_is_told_all_and_the_others_of_changes() -> None:
    hosted = Hosted(HALL)
    hosted.due(0, AT)
    hosted.change(key(1), 0, is_here=True)
    assert hosted.whole(AT) == [said(key(1), at=AT + 1)]
    assert hosted.due(DEBOUNCE, AT) == [said(key(1), at=AT + 2)]
    assert hosted.due(PERIOD - 1, AT) == []
    assert len(hosted.due(PERIOD, AT)) == 1


def test_a_hall_that_closes_hosts_nothing() -> None:
    hosted = Hosted(HALL)
    for each in range(5000):
        hosted.change(spread(each), 0, is_here=True)
    assert hosted.farewell(AT) == [said()]


def test_a_large_hall_tells_in_parts_and_only_of_parts_that_changed() -> None:
    hosted = Hosted(HALL)
    agents = {spread(each) for each in range(9000)}
    for agent in agents:
        hosted.change(agent, 0, is_here=True)
    messages = hosted.due(0, AT)
    assert len(messages) == 16
    assert [message.at for message in messages] == list(range(AT, AT + 16))
    assert {agent for message in messages for agent in message.keys} == agents
    assert messages[0].first == FIRST
    assert messages[-1].last == LAST
    assert all(decode(message.encode()) == message for message in messages)
    hosted.change(key(7), 0, is_here=True)
    (message,) = hosted.due(DEBOUNCE, AT)
    assert key(7) in message.keys
    assert len(message.keys) < MAX_KEYS


def test_agents_with_chosen_keys_cannot_make_a_message_too_long() -> None:
    hosted = Hosted(HALL)
    for each in range(2 * MAX_KEYS):
        hosted.change(bytes(28) + each.to_bytes(4, "big"), 0, is_here=True)
    assert all(decode(message.encode()) == message for message in hosted.due(0, AT))


@given(st.lists(st.tuples(st.integers(0, 300), st.booleans(), st.integers(0, 2000)), max_size=100))
def test_a_hall_that_hears_all_knows_all(steps: list[tuple[int, bool, int]]) -> None:
    hosted, claims = Hosted(HALL), Claims()
    now, here = 0, set[bytes]()
    for number, is_here, pause in [*steps, (0, False, DEBOUNCE), (0, False, DEBOUNCE)]:
        now += pause
        for message in hosted.due(now, AT + now * 1000):
            claims.hear(decode(message.encode()), now, AT + now * 1000)
        hosted.change(spread(number), now, is_here=is_here)
        (here.add if is_here else here.discard)(spread(number))
    for message in hosted.due(now + DEBOUNCE, AT + now * 1000):
        claims.hear(message, now, AT + now * 1000)
    assert claims.of.get(HALL, set()) == here


# -- what is remembered of other halls ----------------------------------------------------------------------


def test_an_announcement_replaces_what_was_in_its_range() -> None:
    claims = Claims()
    claims.hear(said(key(1), key(5), key(9)), 0, AT)
    assert claims.of[HALL] == {key(1), key(5), key(9)}
    claims.hear(said(key(4), at=AT + 1, first=key(3), last=key(6)), 0, AT)
    assert claims.of[HALL] == {key(1), key(4), key(9)}


def test_a_replayed_or_old_announcement_changes_nothing() -> None:
    halls = Halls()
    assert halls.hear(said(key(1)), 0, AT) is not None
    assert halls.hear(said(), 0, AT) is None
    assert halls.hear(said(at=AT - 1), 0, AT) is None
    late = AT + (TOLERANCE + 1) * MICROSECONDS
    assert halls.hear(said(at=AT + 1), 0, late) is None
    assert halls.hear(said(at=late + MICROSECONDS), 0, AT) is None
    assert halls.hear(said(at=AT + 2), 0, AT) is not None


def test_a_hall_that_is_silent_expires() -> None:
    halls = Halls()
    halls.hear(said(key(1)), 0, AT)
    halls.hear(said(key(2), hall=b"g" * 32), 1000, AT)
    assert halls.expire(EXPIRY - 1) == []
    assert halls.expire(EXPIRY) == [Change(HALL, (), [key(1)])]
    assert halls.expire(EXPIRY) == []
    assert len(halls) == 1


def test_agents_that_are_not_repeated_expire() -> None:
    claims = Claims()
    claims.hear(said(key(1), key(9)), 0, AT)
    claims.hear(said(key(1), at=AT + 1, last=key(5)), EXPIRY - 1, AT)
    claims.apply(claims.halls.expire(EXPIRY))
    assert claims.of[HALL] == {key(1)}
    claims.hear(said(key(1), key(9), at=AT + 2), EXPIRY, AT)
    assert claims.of[HALL] == {key(1), key(9)}


def test_halls_and_their_agents_are_bounded() -> None:
    claims = Claims()
    for part in range(20):
        keys = [key(part * MAX_KEYS + each) for each in range(MAX_KEYS)]
        claims.hear(said(*keys, at=AT + part, first=keys[0], last=keys[-1]), 0, AT)
    assert claims.total == MAX_HOSTED
    for each in range(2 * MAX_HALLS):
        claims.hear(said(key(1), hall=key(each)), 0, AT)
    assert len(claims.halls) == MAX_HALLS
    assert claims.total == MAX_HALLS


def fill(claims: Claims, halls: int) -> None:
    """Each of these halls claims as many agents as it may."""
    for hall in range(halls):
        for first in range(0, MAX_HOSTED, 1000):
            keys = [key(first + each) for each in range(1000)]
            message = said(*keys, hall=key(hall), at=AT + first, first=keys[0], last=keys[-1])
            claims.hear(message, 0, AT)


def test_the_agents_of_all_halls_are_bounded() -> None:
    claims = Claims()
    fill(claims, 8)
    assert claims.total == MAX_ANNOUNCED


def test_a_hall_with_few_agents_gets_room_from_those_with_many() -> None:
    claims = Claims()
    fill(claims, 8)
    claims.hear(said(*map(key, range(100))), 0, AT)
    assert len(claims.of[HALL]) == 100
    assert claims.total == MAX_ANNOUNCED


def test_a_connected_hall_comes_before_those_that_others_speak_of() -> None:
    claims = Claims()
    agents = set(map(key, range(1000)))
    claims.hear(said(*agents), 0, AT, {HALL})
    for hall in range(2 * MAX_HALLS):
        claims.hear(said(*map(key, range(50)), hall=key(hall)), 0, AT, {HALL})
    assert claims.of[HALL] == agents
    assert claims.total == MAX_ANNOUNCED
    more = set(map(key, range(1500)))
    claims.hear(said(*more, at=AT + 1), 0, AT, {HALL})
    assert len(claims.of[HALL]) > 1000


def test_a_short_message_of_a_large_hall_costs_little() -> None:
    """Or a peer could stop the hall with a thousand of them in a second."""
    large, small = Claims(), Claims()
    fill(large, 1)
    assert _best_time(large.halls) < 50 * _best_time(small.halls)  # it has ten thousand times the agents


def _best_time(halls: Halls) -> float:
    """CPU time of a message about one agent of the first hall."""
    times = []
    for each in range(20):
        message = said(LAST, hall=key(0), at=AT + MAX_HOSTED + each, first=LAST)
        began = time.process_time()
        assert halls.hear(message, 0, AT) is not None
        times.append(time.process_time() - began)
    return min(times)

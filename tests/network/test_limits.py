"""How much peers, authors and senders may bring."""

from hypothesis import given
from hypothesis import strategies as st

from moothall.network import limits
from moothall.network.limits import UNLIMITED, Allowance, Limits, PeerLimits
from moothall.settings.limits import Rate

RELAY, PEER, AUTHOR, OTHER = (bytes((each,)) * 32 for each in range(1, 5))
SMALL = Limits(
    peer=Allowance(Rate(100, 10), Rate(100_000, 10)),
    author=Allowance(Rate(20, 10), Rate(50_000, 10)),
    sender=Allowance(Rate(10, 10), Rate(20_000, 10)),
)


class Clock:
    now = 5_000_000

    def __call__(self) -> int:
        return self.now


def admitted(limits: PeerLimits, peer: bytes, author: bytes, count: int, size: int = 10) -> int:
    return sum(limits.admits(peer, author, size) for _ in range(count))


def test_an_author_has_less_room_than_its_relay() -> None:
    found = PeerLimits(Clock(), SMALL)
    assert admitted(found, RELAY, AUTHOR, 1000) == 20
    assert admitted(found, RELAY, OTHER, 1) == 0  # the relay paid for what was refused
    found = PeerLimits(Clock(), SMALL)
    assert sum(admitted(found, RELAY, bytes((each,)) * 32, 10) for each in range(50)) == 100


def test_an_author_is_counted_for_each_relay() -> None:
    """A peer that lies about the author does not silence that author."""
    found = PeerLimits(Clock(), SMALL)
    assert admitted(found, RELAY, AUTHOR, 1000) == 20
    assert admitted(found, PEER, AUTHOR, 20) == 20


def test_the_sender_of_an_envelope_has_least() -> None:
    found = PeerLimits(Clock(), SMALL)
    assert sum(found.admits_sender(RELAY, AUTHOR, 10) for _ in range(50)) == 10
    assert found.admits_sender(RELAY, OTHER, 10)
    assert found.admits_sender(PEER, AUTHOR, 10)


def test_streams_and_messages_share_the_room_of_a_peer() -> None:
    found = PeerLimits(Clock(), SMALL)
    assert sum(found.admits_stream(PEER, 10) for _ in range(1000)) == 100
    assert not found.admits(PEER, AUTHOR, 10)


def test_long_messages_cost_more() -> None:
    found = PeerLimits(Clock(), SMALL)
    assert admitted(found, RELAY, AUTHOR, 20, size=10_000) == 5
    assert sum(found.admits_stream(PEER, 50_000) for _ in range(10)) == 2


def test_time_gives_room_again() -> None:
    clock = Clock()
    found = PeerLimits(clock, SMALL)
    assert admitted(found, RELAY, AUTHOR, 100) == 20
    clock.now += 1000
    assert admitted(found, RELAY, AUTHOR, 10) == 2
    clock.now += 100_000
    assert admitted(found, RELAY, AUTHOR, 100) == 20


def test_a_burst_of_three_thousand_is_not_lost() -> None:
    found = PeerLimits(Clock())
    assert admitted(found, RELAY, AUTHOR, 3000, size=500) == 3000
    assert all(found.admits_sender(RELAY, AUTHOR, 500) for _ in range(3000))


def test_without_limits_all_is_admitted() -> None:
    found = PeerLimits(Clock(), UNLIMITED)
    assert admitted(found, RELAY, AUTHOR, 50_000, size=65_536) == 50_000
    assert all(found.admits_sender(RELAY, AUTHOR, 65_536) for _ in range(10_000))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 400), st.integers(1, 65_536)), max_size=300))
def test_the_average_holds_whatever_comes(steps: list[tuple[int, int, int]]) -> None:
    clock = Clock()
    found = PeerLimits(clock, SMALL)
    start, taken, size = clock.now, [0] * 4, [0] * 4
    for author, pause, length in steps:
        clock.now += pause
        if found.admits(RELAY, bytes((author,)) * 32, length):
            taken[author] += 1
            size[author] += length
    seconds = (clock.now - start) / 1000
    assert sum(taken) <= 100 + 10 * seconds + 1
    assert all(each <= 20 + 2 * seconds + 1 for each in taken)
    # A bucket that is half empty takes a message of any length, and owes the rest.
    assert sum(size) <= 100_000 + 10_000 * seconds + 65_536


def test_what_is_remembered_is_bounded() -> None:
    found = PeerLimits(Clock())
    for each in range(30_000):
        found.admits(each.to_bytes(32, "big"), AUTHOR, 10)
        found.admits_sender(RELAY, each.to_bytes(32, "big"), 10)
    assert len(found) == limits.MAX_PEERS + 2 * limits.MAX_PAIRS

"""What a node remembers of messages, and that it is bounded."""

from hypothesis import given
from hypothesis import strategies as st

from moothall.p2p.message_cache import GOSSIP, HISTORY, OVERHEAD, SEEN_FOR, History, Seen
from moothall.p2p.pubsub import Message, publication


def message(number: int, topic: str = "t", size: int = 10) -> Message:
    return Message(b"author", number, topic, b"", b"", b"id%d" % number, bytes(size))


def test_an_id_is_seen_for_a_minute() -> None:
    seen = Seen()
    seen.add(b"a", 1000)
    seen.add(b"b", 2000)
    seen.forget(1000 + SEEN_FOR - 1)
    assert b"a" in seen
    seen.forget(1000 + SEEN_FOR)
    assert b"a" not in seen
    assert b"b" in seen


def test_the_oldest_ids_make_way() -> None:
    seen = Seen(3)
    for number in range(5):
        seen.add(b"%d" % number, 0)
    assert [number for number in range(5) if b"%d" % number in seen] == [2, 3, 4]


def test_a_message_is_told_of_and_kept_for_some_heartbeats() -> None:
    history = History()
    frame = history.add(message(1))
    assert history.add(message(1)) is frame == publication(message(1))
    assert len(history) == 1
    for beat in range(HISTORY):
        assert history.ids("t") == ([b"id1"] if beat < GOSSIP else [])
        assert history.frame(b"id1") is frame
        history.shift()
    assert history.frame(b"id1") is None
    assert (len(history), history.size) == (0, 0)


def test_peers_are_told_of_their_topics() -> None:
    history = History()
    history.add(message(1, "a"))
    history.shift()
    history.add(message(2, "b"))
    history.add(message(3, "a"))
    assert history.ids("a") == [b"id3", b"id1"]


@given(st.lists(st.none() | st.integers(0, 2 * OVERHEAD), max_size=60))
def test_the_bytes_that_are_kept_are_bounded(steps: list[int | None]) -> None:
    most = 4 * OVERHEAD
    history = History(most_bytes=most)
    for number, size in enumerate(steps):
        if size is None:
            history.shift()
        else:
            history.add(message(number, size=size))
        kept = history._messages.values()
        assert history.size == sum(len(frame) + OVERHEAD for _, frame in kept) <= most
        assert len(history) == sum(map(len, history._windows))
        assert len(history._windows) <= HISTORY

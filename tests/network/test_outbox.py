"""The order of envelopes, their retry and their failure, with a host and a clock of our own."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moothall.errors import NotDelivered, PeerUnreachable
from moothall.network import outbox
from moothall.network.outbox import MAX_UNDER_WAY, MAX_UNHEARD, MAX_WAITING, PACE, PATIENCE, Outbox
from tests.support.network import homes, meet, until

TOPIC, OTHER_TOPIC = "/0x01/v1/broadcast", "/0x01/v1/notary"
PEER, FAR, ALICE, BOB = (bytes((each,)) * 32 for each in range(1, 5))


class Hand:
    """A host whose ACKs come when a test says so."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.now = 1_000_000
        self.connected = {PEER, FAR}
        self.topics: set[str] = {TOPIC}
        self.under_way: list[tuple[bytes, bytes, asyncio.Future[None]]] = []
        self.published: list[tuple[str, bytes]] = []

    def send(self, peer: bytes, envelope: bytes) -> asyncio.Future[None]:
        if peer not in self.connected:
            raise PeerUnreachable("There is no connection.")
        if not envelope:
            raise ValueError("an envelope has 1 to 65,536 bytes, not 0")
        sent = self.loop.create_future()
        self.under_way.append((peer, envelope, sent))
        return sent

    def publish(self, topic: str, data: bytes) -> int:
        self.published.append((topic, data))
        return 1

    def peers_in(self, topic: str) -> list[bytes]:
        return [PEER] if topic in self.topics else []

    def answer(self, index: int = 0, error: str | None = None) -> bytes:
        _, envelope, sent = self.under_way.pop(index)
        if error is None:
            sent.set_result(None)
        else:
            sent.set_exception(NotDelivered(f"The envelope was not delivered: {error}."))
        self.turn()
        return envelope

    def turn(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(0))

    def envelopes(self) -> list[bytes]:
        return [envelope for _, envelope, _ in self.under_way]


class Desk:
    """Writes envelopes with numbers that rise for each sender, as a node does."""

    def __init__(self) -> None:
        self.hand = Hand()
        self.strict = {PEER, FAR}
        self.box = Outbox(self.hand, lambda: self.hand.now, needs_order=self.strict.__contains__)
        self.nonces: Counter[bytes] = Counter()
        self.results: list[tuple[str, str | None]] = []

    def make(self, sender: bytes) -> Callable[[], bytes]:
        def write() -> bytes:
            self.nonces[sender] += 1
            return sender[:1] + self.nonces[sender].to_bytes(4, "big")

        return write

    def post(self, text: str, peer: bytes = PEER, sender: bytes = ALICE) -> None:
        """An envelope that is a text."""
        self.box.post(peer, sender, text.encode, lambda reason: self.results.append((text, reason)))

    def tick(self, milliseconds: int = 1000) -> None:
        self.hand.now += milliseconds
        self.box.tick()


@pytest.fixture
def desk() -> Iterator[Desk]:
    built = Desk()
    yield built
    built.hand.loop.close()


@pytest.fixture
def hand(desk: Desk) -> Hand:
    return desk.hand


def test_the_next_envelope_of_a_sender_leaves_after_the_ack(desk: Desk, hand: Hand) -> None:
    for text in ("a1", "a2", "a3"):
        desk.post(text)
    desk.post("b1", sender=BOB)
    desk.post("far", peer=FAR)
    assert hand.envelopes() == [b"a1", b"b1", b"far"]
    hand.answer()
    assert hand.envelopes() == [b"b1", b"far", b"a2"]
    assert desk.results == [("a1", None)]
    hand.answer(2)
    hand.answer(2)
    assert desk.results == [("a1", None), ("a2", None), ("a3", None)]
    assert desk.box.statistics().waiting == desk.box.statistics().under_way == 2


def test_an_envelope_without_an_ack_is_made_and_sent_once_more(desk: Desk, hand: Hand) -> None:
    results: list[str | None] = []
    desk.box.post(PEER, ALICE, desk.make(ALICE), results.append)
    desk.box.post(PEER, ALICE, desk.make(ALICE), results.append)
    assert hand.answer(error="the time was over") == b"\x03\0\0\0\x01"
    assert hand.envelopes() == [b"\x03\0\0\0\x02"]  # anew, and before the next one
    assert results == []
    hand.answer(error="the time was over")
    assert results == ["The envelope was not delivered: the time was over."]
    assert hand.answer() == b"\x03\0\0\0\x03"
    assert results[1:] == [None]
    assert desk.box.statistics().counts == {
        "delivered": 1,
        "failed": 1,
        "retried": 1,
        "published": 0,
        "unpublished": 0,
    }


def test_a_retry_goes_over_a_new_connection(desk: Desk, hand: Hand) -> None:
    desk.post("a1")
    desk.post("a2")
    hand.connected.discard(PEER)
    hand.answer(error="the peer closed the connection")
    assert hand.envelopes() == []
    desk.tick(PATIENCE - 1)
    assert desk.results == []
    hand.connected.add(PEER)
    desk.box.connected(PEER)
    assert hand.answer() == b"a1"
    assert hand.answer() == b"a2"
    assert desk.results == [("a1", None), ("a2", None)]


def test_without_a_connection_all_fail_after_the_time_limit(desk: Desk, hand: Hand) -> None:
    hand.connected.discard(PEER)
    desk.post("a1")
    desk.post("b1", sender=BOB)
    desk.post("far", peer=FAR)
    desk.tick(PATIENCE)
    assert desk.results == [("a1", outbox.AWAY), ("b1", outbox.AWAY)]
    assert hand.envelopes() == [b"far"]
    hand.connected.add(PEER)
    desk.box.connected(PEER)
    desk.post("a2")
    assert hand.envelopes() == [b"far", b"a2"]


def test_what_is_too_old_is_not_sent(desk: Desk, hand: Hand) -> None:
    results: list[str | None] = []
    for _ in range(900):  # none of them costs a turn of the stack
        desk.box.post(PEER, ALICE, lambda: None, results.append)
    assert results == [outbox.STALE] * 900
    answers = iter((b"fresh", None))
    desk.box.post(PEER, ALICE, lambda: next(answers), results.append)
    hand.answer(error="the time was over")
    assert results[900:] == [outbox.STALE]
    desk.box.post(PEER, ALICE, lambda: b"", results.append)
    assert results[901:] == ["The envelope was not sent: an envelope has 1 to 65,536 bytes, not 0."]


def test_many_stale_envelopes_behind_one_that_waits(desk: Desk, hand: Hand) -> None:
    desk.post("first")
    results: list[str | None] = []
    for _ in range(MAX_WAITING - 1):
        desk.box.post(PEER, ALICE, lambda: None, results.append)
    assert results == []
    hand.answer()
    assert results == [outbox.STALE] * (MAX_WAITING - 1)


def test_a_full_queue_fails_at_once(desk: Desk, hand: Hand) -> None:
    for each in range(MAX_WAITING):
        desk.post(str(each))
    desk.post("too much")
    assert desk.results == [("too much", outbox.FULL)]
    desk.post("to another", peer=FAR)
    assert hand.envelopes() == [b"0", b"to another"]


def test_streams_are_bounded(desk: Desk, hand: Hand) -> None:
    desk.strict.clear()
    for each in range(200):
        desk.post(str(each), sender=each.to_bytes(32, "big"))
    assert len(hand.under_way) == MAX_UNDER_WAY < 100
    hand.answer()
    assert len(hand.under_way) == MAX_UNDER_WAY
    while hand.under_way:
        hand.answer()
    assert desk.results == [(str(each), None) for each in range(200)]


def test_a_peer_that_is_not_ours_gets_a_bounded_number_each_second(desk: Desk, hand: Hand) -> None:
    desk.strict.discard(FAR)
    for each in range(100):
        desk.post(str(each))
        desk.post(str(each), peer=FAR)
    counts = []
    for _ in range(3):
        before = len(desk.results)
        for _ in range(1000):
            if not hand.under_way:
                break
            hand.answer()
        counts.append(len(desk.results) - before)
        desk.tick()
    assert counts == [100 + PACE, PACE, 100 - 2 * PACE]


def test_a_topic_waits_for_the_bilateral_envelopes_of_its_sender(desk: Desk, hand: Hand) -> None:
    desk.post("a1")
    desk.post("a2", peer=FAR)
    desk.box.publish(TOPIC, ALICE, b"a3".__bytes__)
    desk.post("a4")
    desk.box.publish(TOPIC, BOB, b"b1".__bytes__)
    desk.box.publish(TOPIC, ALICE, b"beacon".__bytes__, is_beacon=True)
    assert hand.published == [(TOPIC, b"b1"), (TOPIC, b"beacon")]
    hand.answer()
    assert hand.envelopes() == [b"a2"]
    hand.answer()
    assert hand.published[2:] == [(TOPIC, b"a3")]
    assert hand.envelopes() == [b"a4"]


def test_a_topic_does_not_wait_for_our_own_peers(desk: Desk, hand: Hand) -> None:
    desk.strict.discard(PEER)
    desk.post("a1")
    desk.box.publish(TOPIC, ALICE, b"a2".__bytes__)
    assert hand.published == [(TOPIC, b"a2")]
    assert hand.envelopes() == [b"a1"]


def test_a_topic_waits_no_longer_than_the_time_limit(desk: Desk, hand: Hand) -> None:
    desk.post("a1")
    desk.box.publish(TOPIC, ALICE, b"a2".__bytes__)
    desk.tick(PATIENCE - 1)
    assert hand.published == []
    desk.tick(1)
    assert hand.published == [(TOPIC, b"a2")]


def test_publications_that_wait_are_bounded(desk: Desk, hand: Hand) -> None:
    desk.post("a1")
    for each in range(outbox.MAX_PUBLICATIONS + 5):
        desk.box.publish(TOPIC, ALICE, str(each).encode)
    assert desk.box.statistics().publications == outbox.MAX_PUBLICATIONS
    assert desk.box.statistics().counts["unpublished"] == 5
    hand.answer()
    assert len(hand.published) == outbox.MAX_PUBLICATIONS
    assert desk.box.statistics().publications == 0


def test_without_a_peer_in_the_topic_it_waits_and_is_made_anew(desk: Desk, hand: Hand) -> None:
    hand.topics.clear()
    desk.box.publish(TOPIC, ALICE, desk.make(ALICE))
    desk.box.publish(OTHER_TOPIC, ALICE, b"other".__bytes__)
    desk.box.publish(TOPIC, ALICE, lambda: None)
    assert desk.nonces[ALICE] == 0
    hand.topics.add(TOPIC)
    desk.box.joined(TOPIC)
    assert hand.published == [(TOPIC, b"\x03\0\0\0\x01")]
    assert desk.box.statistics().unheard == 1
    desk.box.joined(TOPIC)
    assert len(hand.published) == 1


def test_twenty_publications_wait_for_a_peer_and_the_newest_beacon_of_each_sender(
    desk: Desk, hand: Hand
) -> None:
    hand.topics.clear()
    for each in range(MAX_UNHEARD + 3):
        desk.box.publish(TOPIC, ALICE, str(each).encode)
    for each in range(5):
        for sender in (ALICE, BOB):
            beacon = sender[:1] + b"beacon %d" % each
            desk.box.publish(TOPIC, sender, beacon.__bytes__, is_beacon=True)
    assert desk.box.statistics().unheard == MAX_UNHEARD
    hand.topics.add(TOPIC)
    desk.box.joined(TOPIC)
    kept = [str(each).encode() for each in range(MAX_UNHEARD + 3)][5:]
    assert [data for _, data in hand.published] == [*kept, b"\x03beacon 4", b"\x04beacon 4"]


def test_everything_fails_when_it_closes(desk: Desk, hand: Hand) -> None:
    desk.post("under way")
    desk.post("next")
    desk.box.publish(TOPIC, ALICE, b"gossip".__bytes__)
    desk.post("behind the gossip")
    hand.connected.discard(FAR)
    desk.post("away", peer=FAR, sender=BOB)
    desk.box.close()
    assert dict(desk.results) == dict.fromkeys(
        ("under way", "next", "behind the gossip", "away"), outbox.CLOSING
    )
    hand.answer()  # too late: it is told once
    assert len(desk.results) == 4
    desk.post("later")
    assert desk.results[4:] == [("later", outbox.CLOSING)]
    desk.box.publish(TOPIC, ALICE, b"gossip".__bytes__)
    assert hand.published == []
    assert desk.box.statistics().waiting == 0


def test_peers_and_senders_without_envelopes_are_forgotten(desk: Desk, hand: Hand) -> None:
    for each in range(50):
        desk.post("a", peer=PEER, sender=each.to_bytes(32, "big"))
    while hand.under_way:
        hand.answer()
        desk.tick()
    desk.tick()
    assert desk.box._peers == {}
    assert desk.box._senders == {}


STEPS = st.one_of(
    st.tuples(st.just("post"), st.integers(0, 1), st.integers(0, 2)),
    st.tuples(st.just("publish"), st.integers(0, 1), st.integers(0, 2)),
    st.tuples(st.just("ack"), st.integers(0, 9), st.just(0)),
    st.tuples(st.just("fail"), st.integers(0, 9), st.just(0)),
    st.tuples(st.just("connection"), st.integers(0, 1), st.integers(0, 1)),
    st.tuples(st.just("tick"), st.just(0), st.just(0)),
)


@settings(deadline=None)
@given(st.lists(STEPS, max_size=120))
def test_no_receiver_sees_nonces_that_fall_and_each_envelope_ends_once(
    steps: list[tuple[str, int, int]],
) -> None:
    """Ticks are short: no step waits until its time limit."""
    desk = Desk()
    hand, peers = desk.hand, (PEER, FAR)
    marks: dict[tuple[bytes, bytes], int] = {}
    ends: list[str | None] = []
    posted = seen = 0

    def receive(peer: bytes, envelope: bytes) -> None:
        lane, nonce = (peer, envelope[:1]), int.from_bytes(envelope[1:], "big")
        assert nonce > marks.get(lane, 0)
        marks[lane] = nonce

    for step, which, number in steps:
        sender = bytes((10 + number,)) * 32
        if step == "post":
            posted += 1
            desk.box.post(peers[which], sender, desk.make(sender), ends.append)
        elif step == "publish":
            desk.box.publish(TOPIC, sender, desk.make(sender))
        elif step in ("ack", "fail") and hand.under_way:
            index = which % len(hand.under_way)
            peer, envelope, _ = hand.under_way[index]
            if step == "ack":
                receive(peer, envelope)  # as late as possible
            hand.answer(index, None if step == "ack" else "it was lost")
        elif step == "connection":
            if number:
                hand.connected.add(peers[which])
                desk.box.connected(peers[which])
            else:
                hand.connected.discard(peers[which])
        elif step == "tick":
            desk.tick(1)
        for _, envelope in hand.published[seen:]:
            for peer in peers:
                receive(peer, envelope)
        seen = len(hand.published)
        lanes = Counter((peer, envelope[:1]) for peer, envelope, _ in hand.under_way)
        assert set(lanes.values()) <= {1}
    desk.box.close()
    while hand.under_way:
        hand.answer()
    assert len(ends) == posted
    assert desk.box.statistics().waiting == desk.box.statistics().under_way == 0
    hand.loop.close()


async def test_over_real_hosts() -> None:
    async with homes("alice", "bob") as (alice, bob):
        box = Outbox(alice.host, alice.time.now)
        await meet(alice, bob)
        results: list[str | None] = []
        for each in range(PACE):
            box.post(bob.id, ALICE, str(each).encode, results.append)
        for home in (alice, bob):
            home.host.join(TOPIC)
        box.publish(TOPIC, ALICE, b"after".__bytes__)
        await until(lambda: alice.host.peers_in(TOPIC))
        box.joined(TOPIC)
        await until(lambda: bob.resident.messages)
        assert results == [None] * PACE
        assert [envelope for _, envelope in bob.resident.envelopes] == [
            str(each).encode() for each in range(PACE)
        ]
        box.close()

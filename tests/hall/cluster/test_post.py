"""Typed messages between nodes: batches per turn, the order of one subject, messages of later versions."""

from random import Random
from typing import ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog import get_logger

from moothall.hall.cluster.post import Post
from moothall.wire.bus import MAX_PACKET, VERSION, BadPacket, BusMessage, Kinds, Origin, packets
from moothall.wire.bus import pack as encode
from tests.support.memory_bus import Broker
from tests.support.world import LogBook


class Said(BusMessage, frozen=True):
    KIND: ClassVar = "said"

    text: str
    number: int = 0


class SaidLater(BusMessage, frozen=True):
    """The same message in a later version."""

    KIND: ClassVar = "said"

    text: str
    number: int = 0
    colour: str = ""


class Unheard(BusMessage, frozen=True):
    KIND: ClassVar = "unheard"

    what: str


def pack(origin: Origin, *messages: BusMessage) -> bytes:
    (packet,) = packets(origin, messages)
    return packet


class Turn:
    """The end of a turn of the loop, when the test says so."""

    def __init__(self) -> None:
        self._tasks: list[object] = []

    def soon(self, task: object) -> None:
        self._tasks.append(task)

    def end(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            assert callable(task)
            task()


def node(
    broker: Broker, name: str, turn: Turn, subject: str = "all"
) -> tuple[Post, list[tuple[Origin, Said]]]:
    post = Post(broker.bus(name), name, turn.soon, get_logger())
    heard: list[tuple[Origin, Said]] = []
    post.handle(Said, lambda origin, message: heard.append((origin, message)))
    post.listen(subject)
    return post, heard


def test_a_turn_is_one_packet_per_subject_and_node() -> None:
    broker, turn = Broker.seeded(1), Turn()
    one, heard_by_one = node(broker, "one", turn)
    _, heard = node(broker, "two", turn)
    one.origin = Origin("one", 7)
    for number in range(3):
        one.send("all", Said("hello", number))
    assert broker.published == 0
    turn.end()
    broker.run()
    assert broker.published == 1
    assert heard == [(Origin("one", 7), Said("hello", number)) for number in range(3)]
    assert heard_by_one == []


def test_a_turn_with_much_to_say_is_several_packets() -> None:
    broker, turn = Broker.seeded(1), Turn()
    one, _ = node(broker, "one", turn)
    _, heard = node(broker, "two", turn)
    text = "x" * (MAX_PACKET // 4)
    for number in range(9):
        one.send("all", Said(text, number))
    one.send("all", Said("y" * 2 * MAX_PACKET, 9))
    turn.end()
    broker.run()
    assert broker.published == 4
    assert [message.number for _, message in heard] == list(range(10))


def test_a_node_that_may_not_send_is_silent() -> None:
    broker, turn = Broker.seeded(1), Turn()
    one, _ = node(broker, "one", turn)
    _, heard = node(broker, "two", turn)
    may_send = False
    one.may_send = lambda: may_send
    one.send("all", Said("lost"))
    turn.end()
    may_send = True
    one.send("all", Said("heard"))
    turn.end()
    broker.run()
    assert [message.text for _, message in heard] == ["heard"]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans())), st.randoms(use_true_random=False))
def test_the_order_of_one_node_is_kept(sends: list[tuple[str, bool]], random: Random) -> None:
    broker, turn = Broker(random), Turn()
    posts = {name: node(broker, name, turn)[0] for name in "ab"}
    _, heard = node(broker, "c", turn)
    for number, (sender, ends_turn) in enumerate(sends):
        posts[sender].send("all", Said(sender, number))
        if ends_turn:
            turn.end()
            broker.step()
    turn.end()
    broker.run()
    for sender in "ab":
        numbers = [message.number for origin, message in heard if origin.node == sender]
        assert numbers == [number for number, (by, _) in enumerate(sends) if by == sender]


def test_a_later_version_may_add_fields_and_messages() -> None:
    kinds = Kinds()
    kinds.add(Said)
    payload = pack(Origin("new", 1), Unheard("of"), SaidLater("hi", 1, "blue"))
    origin, messages = kinds.unpack(payload)
    assert (origin, list(messages)) == (Origin("new", 1), [Said("hi", 1)])


def test_an_earlier_version_may_lack_fields() -> None:
    kinds = Kinds()
    kinds.add(SaidLater)
    _, messages = kinds.unpack(pack(Origin("old", 1), Said("hi", 1)))
    assert list(messages) == [SaidLater("hi", 1, "")]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        bytes((VERSION + 1,)) + pack(Origin("x", 1), Said("hi"))[1:],
        b"\x00",
        bytes((VERSION,)),
        bytes((VERSION,)) + msgspec.msgpack.encode(["x", 1, [["said", [5]]]]),
        bytes((VERSION,)) + msgspec.msgpack.encode({"node": "x"}),
    ],
)
def test_what_is_not_a_packet_is_refused(payload: bytes) -> None:
    broker, turn = Broker.seeded(1), Turn()
    post, heard = node(broker, "two", turn)
    broker.bus("one").publish("all", payload)
    broker.run()
    assert (post.refused, heard) == (1, [])


def test_a_message_that_fails_costs_no_other_one() -> None:
    broker, turn, log = Broker.seeded(1), Turn(), LogBook()
    one, _ = node(broker, "one", turn)
    two, heard = Post(broker.bus("two"), "two", turn.soon, log), []

    def hear(origin: Origin, message: Said) -> None:
        heard.append(message.text)
        if message.text == "bad":
            raise RuntimeError("a bug")

    two.handle(Said, hear)
    two.listen("all")
    for text in ("good", "bad", "better"):
        one.send("all", Said(text))
    turn.end()
    broker.run()
    assert heard == ["good", "bad", "better"]
    (logged,) = log.find("bus_message_failed")
    assert logged["kind"] == Said.KIND


class SaidOddly(BusMessage, frozen=True):
    """The same message with a field of another type."""

    KIND: ClassVar = "said"

    text: int


def test_a_message_that_is_refused_costs_no_other_one() -> None:
    """Of two that are, one cannot be read, and the handler refuses the other one."""
    broker, turn, log = Broker.seeded(1), Turn(), LogBook()
    one, _ = node(broker, "one", turn)
    two, heard = Post(broker.bus("two"), "two", turn.soon, log), []
    two.may_log = lambda event: not log.find(event)

    def hear(origin: Origin, message: Said) -> None:
        if message.text == "bad":
            raise BadPacket("No node would say this")
        heard.append(message.text)

    two.handle(Said, hear)
    two.listen("all")
    for message in (Said("good"), SaidOddly(5), Said("better"), Said("bad"), Said("best")):
        one.send("all", message)
    turn.end()
    broker.run()
    assert broker.published == 1
    assert heard == ["good", "better", "best"]
    assert two.refused == 2
    assert len(log.find("bus_packet_refused")) == 1, "the log has a rate"


@pytest.mark.parametrize(
    ("number", "arrives"), [(2**64 - 1, 2**64 - 1), (-(2**63), -(2**63)), (10**40, 1e40), (-(10**40), -1e40)]
)
def test_what_messagepack_has_not_is_put_in_other_words(number: int, arrives: float) -> None:
    content = ["a\ud83d", b"\xff", {"\udc00": [number, True, None, 0.5]}, "\U0001f600"]
    assert msgspec.msgpack.decode(encode(content)) == [
        "a\ufffd",
        b"\xff",
        {"\ufffd": [arrives, True, None, 0.5]},
        "\U0001f600",
    ]


def test_a_tuple_may_have_what_messagepack_has_not() -> None:
    assert msgspec.msgpack.decode(encode((("a\ud83d", 10**40), {"b": ("\ud83d",)}))) == [
        ["a\ufffd", 1e40],
        {"b": ["\ufffd"]},
    ]


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_else(junk: bytes) -> None:
    kinds = Kinds()
    kinds.add(Said)
    for payload in (junk, bytes((VERSION,)) + junk):
        try:
            _, messages = kinds.unpack(payload)
            list(messages)
        except BadPacket:
            pass

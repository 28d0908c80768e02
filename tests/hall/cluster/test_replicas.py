"""What a node has submitted, while it does not know what came of it: it is done once, and answered in order."""

from collections.abc import Callable
from typing import Any

import pytest

from moothall.hall.cluster.elections import ChannelLog
from moothall.hall.cluster.log import RING_BYTES, Decision, Follow, Happened, Missed, Record, Snapshot, Submit
from moothall.hall.shared_memory import SharedMemory
from moothall.wire.bus import BusMessage, Origin
from tests.support.cluster import Halls
from tests.support.world import assert_sent

ROOM = "#room"
HOME = Origin("home", 1)
OTHER = Origin("other", 1)


class QuietRoom:
    """Takes everything, and is told of nothing."""

    log: Any = None
    has_lost = False
    is_wanted = True

    def member_nodes(self) -> set[str]:
        return set()

    def decide(self, body: bytes, node: str) -> Decision:
        return Decision(body)

    def apply(self, body: bytes, *, again: bool) -> None: ...

    def state(self) -> bytes:
        return b""

    def install(self, state: bytes, *, missed: bool, apart: bool) -> None: ...

    def own(self) -> bytes:
        return b""

    def check_own(self, own: bytes) -> None: ...

    def reconcile(self, node: str, own: bytes) -> bytes:
        return b""

    def without(self, node: str) -> bytes | None:
        return None

    def became_home(self) -> None: ...

    def resigned(self) -> None: ...

    def emptied(self) -> None: ...


class Sent:
    """What a node sends about its channel."""

    me = Origin("here", 1)
    memory = SharedMemory(RING_BYTES, RING_BYTES)

    def __init__(self) -> None:
        self.messages: list[BusMessage] = []

    def now(self) -> float:
        return 0.0

    def is_alive(self, node: str) -> bool:
        return True

    def send(self, node: str, message: BusMessage) -> None:
        self.messages.append(message)

    def publish(self, channel: str, message: BusMessage) -> None:
        self.messages.append(message)

    def listen(self, channel: str) -> Callable[[], None]:
        return lambda: None

    def failed(self, channel: str, error: Exception) -> None:
        raise error


@pytest.fixture
def sent() -> Sent:
    return Sent()


@pytest.fixture
def log(sent: Sent) -> ChannelLog:
    """It has asked its home for what it lacks."""
    log = ChannelLog(ROOM, QuietRoom(), sent)
    log.follow(HOME.node, 1)
    return log


def test_what_agents_submit_when_they_go_on_has_a_serial_of_its_own(log: ChannelLog, sent: Sent) -> None:
    """Of two submissions with one serial the home would take the second one for a repetition of the first."""
    answers: list[bytes | None] = []

    def go_on(answer: bytes | None) -> None:
        answers.append(answer)
        log.submit("third", b"3", answers.append)

    log.submit("first", b"1", go_on)
    log.submit("second", b"2", answers.append)
    log.snapshot(HOME, Snapshot(ROOM, 1, 7, ["first"], b"", 0, {}))
    submitted = [message for message in sent.messages if isinstance(message, Submit)]
    assert [(message.mark, message.serial) for message in submitted] == [("second", 1), ("third", 2)]
    assert answers == [None]


def test_answers_of_a_node_alone_keep_the_order(log: ChannelLog) -> None:
    answered: list[str] = []
    for mark in ("first", "second", "third"):
        log.submit(mark, b"", lambda answer, mark=mark: answered.append(mark))  # type: ignore[misc]
    log.go_alone()
    assert answered == ["first", "second", "third"]


def test_what_agents_say_when_they_go_on_comes_after_what_waits(log: ChannelLog) -> None:
    """An answer lets a session go on, whose next line may not overtake its earlier ones."""
    answered: list[str] = []

    def go_on(answer: bytes | None) -> None:
        answered.append("first")
        log.submit("third", b"", lambda answer: answered.append("third"))

    log.submit("first", b"", go_on)
    log.submit("second", b"", lambda answer: answered.append("second"))
    log.go_alone()
    assert answered == ["first", "second", "third"]


def test_a_loss_that_is_known_while_a_home_resigns_is_told_if_it_stays(log: ChannelLog) -> None:
    log.snapshot(HOME, Snapshot(ROOM, 1, 7, [], b"", 0, {}))
    log.take_over(2, None)
    log.resign()
    late = Happened(ROOM, 1, Record(9, "late", b""))
    log.happened(HOME, late)
    assert log.number == 7
    log.stay()
    assert log.number == 8, "one record tells of the gap"
    log.happened(HOME, late)
    assert log.number == 8


def test_a_loss_that_is_known_in_an_election_is_told_once(log: ChannelLog) -> None:
    """Two nodes hear of it: this one, which waits for the other one, and the other one."""
    log.snapshot(HOME, Snapshot(ROOM, 1, 7, [], b"", 0, {}))
    log.take_over(2, "other")
    log.happened(HOME, Happened(ROOM, 1, Record(8, "late", b"")))
    log.followed(OTHER, Follow(ROOM, 2, 1, 7, b""))
    assert log.number == 8, "one record tells of the gap"
    log.happened(OTHER, Happened(ROOM, 1, Record(9, "", b"")))
    assert log.number == 8


def test_a_loss_that_is_known_after_the_home_was_asked_is_reported_later(log: ChannelLog, sent: Sent) -> None:
    log.snapshot(HOME, Snapshot(ROOM, 1, 7, [], b"", 0, {}))
    log.follow(OTHER.node, 2)
    log.happened(HOME, Happened(ROOM, 1, Record(8, "late", b"late")))
    log.missed(OTHER, Missed(ROOM, 2, [], 0, {1: 7}))
    sent.messages.clear()
    log.tick()
    report = Happened(ROOM, 1, Record(8, "", b""))
    assert [message for message in sent.messages if isinstance(message, Happened)] == [report]
    log.missed(OTHER, Missed(ROOM, 2, [], 0, {1: 7}))
    sent.messages.clear()
    log.tick()
    assert sent.messages == []


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ({"type": "LEAVE", "channel": ROOM}, "LEFT"),
        ({"type": "JOIN", "channel": ROOM}, "JOINED"),
        ({"type": "INVITE", "channel": ROOM, "agent": "@12345678"}, "ACK"),
    ],
)
def test_a_command_is_answered_whose_record_came_as_a_part_of_the_state(
    command: dict[str, str], answer: str
) -> None:
    halls = Halls("a", "b", no_limits=True, auto_join=False)
    alice = halls.agent("a", "alice")
    halls.send(alice, "CREATE_CHANNEL", channel=ROOM)
    bob, anna = halls.agent("b", "bob", join=ROOM), halls.agent("b", "anna", join=ROOM)
    if command["type"] == "JOIN":
        halls.send(bob, "LEAVE", channel=ROOM)
    halls.hush()
    halls.broker.losing.add(("a", "b"))
    halls.send(bob, command["type"], ref="1", **{key: command[key] for key in command if key != "type"})
    for _ in range(80):  # more than the home keeps for nodes that have missed some
        halls.send(alice, "MSG", to=ROOM, content="x" * 4000)
    halls.broker.losing.clear()
    halls.advance(2)
    assert [each for each in bob.read() if each["type"] == answer and each.get("ref") == "1"]
    halls.hush()
    halls.send(anna, "MSG", to=ROOM, content="hello")
    assert_sent(alice, "MSG", content="hello")
    heard = [each for each in bob.read() if each.get("content") == "hello"]
    assert len(heard) == (command["type"] != "LEAVE")

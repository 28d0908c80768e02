"""What a node has submitted, while it does not know what came of it: it is done once, and answered in order."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from moothall.hall.cluster.elections import TIPS, ChannelLog
from moothall.hall.cluster.log import (
    RING_BYTES,
    Answer,
    Decision,
    Expect,
    Follow,
    Happened,
    Lend,
    Lent,
    Missed,
    Record,
    Snapshot,
    Submit,
    Tip,
)
from moothall.hall.cluster.replicas import MAX_BRINGS
from moothall.hall.shared_memory import SharedMemory
from moothall.wire.bus import BusMessage, Origin
from tests.support.cluster import Halls
from tests.support.world import assert_sent

Message = TypeVar("Message", bound=BusMessage)

ROOM = "#room"
HOME = Origin("home", 1)
OTHER = Origin("other", 1)
REFUSED = b"no"


class QuietRoom:
    """Does everything that it is asked for, but what is `REFUSED`."""

    log: Any = None
    has_lost = False
    is_unheard = False
    is_wanted = True

    def __init__(self) -> None:
        self.decided: list[bytes] = []
        self.applied: list[bytes] = []
        self.again: list[bytes] = []  # of these: those that agents were told before
        self.members = b"before"
        self.brought: list[bytes] = []
        self.nodes: set[str] = set()  # that have members

    def member_nodes(self) -> set[str]:
        return self.nodes

    def decide(self, body: bytes, node: str) -> Decision:
        self.decided.append(body)
        return Decision(None, body) if body == REFUSED else Decision(body)

    def apply(self, body: bytes, *, again: bool) -> None:
        self.applied.append(body)
        if again:
            self.again.append(body)

    def state(self) -> bytes:
        return b""

    def install(self, state: bytes, *, missed: bool, apart: bool) -> None:
        self.members = state

    def own(self) -> bytes:
        return self.members

    def check_own(self, own: bytes) -> None: ...

    def reconcile(self, node: str, own: bytes) -> bytes:
        self.brought.append(own)
        return b""

    def without(self, node: str) -> bytes | None:
        return f"without {node}".encode() if node in self.nodes else None

    def became_home(self) -> None: ...

    def resigned(self) -> None: ...

    def emptied(self) -> None: ...


class Sent:
    """What a node sends about its channel."""

    me = Origin("here", 1)
    memory = SharedMemory(RING_BYTES, RING_BYTES)

    def __init__(self) -> None:
        self.messages: list[BusMessage] = []
        self.dead: set[str] = set()
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def is_alive(self, node: str) -> bool:
        return node not in self.dead

    def read(self, kind: type[Message]) -> list[Message]:
        """What was sent since the last look, of this kind."""
        messages, self.messages = self.messages, []
        return [message for message in messages if isinstance(message, kind)]

    def send(self, node: str, message: BusMessage) -> None:
        self.messages.append(message)

    def publish(self, channel: str, message: BusMessage) -> None:
        self.messages.append(message)

    def may_tell(self, size: int) -> bool:
        return True

    def listen(self, channel: str) -> Callable[[], None]:
        return lambda: None

    def failed(self, channel: str, error: Exception) -> None:
        raise error


@pytest.fixture
def sent() -> Sent:
    return Sent()


@pytest.fixture
def room() -> QuietRoom:
    return QuietRoom()


@pytest.fixture
def log(room: QuietRoom, sent: Sent) -> ChannelLog:
    """It has asked its home for what it lacks."""
    log = ChannelLog(ROOM, room, sent)
    log.follow(HOME.node, 1)
    return log


@pytest.fixture
def replica(log: ChannelLog, sent: Sent) -> ChannelLog:
    """It has the first seven records."""
    log.snapshot(HOME, Snapshot(ROOM, 1, 7, ["seventh"], b"", 0, {}))
    sent.messages.clear()
    return log


@pytest.fixture
def home(replica: ChannelLog, sent: Sent) -> ChannelLog:
    """It is the next home."""
    replica.take_over(2, None)
    sent.messages.clear()
    return replica


def happened(number: int, epoch: int = 1) -> Happened:
    return Happened(ROOM, epoch, Record(number, f"mark-{number}", str(number).encode()))


def test_records_are_applied_once_and_in_the_order_of_their_numbers(
    replica: ChannelLog, room: QuietRoom, sent: Sent
) -> None:
    for number in (9, 10, 8):
        replica.happened(HOME, happened(number))
    assert room.applied == []
    assert sent.read(Follow), "it asks for the missing one"
    replica.missed(HOME, Missed(ROOM, 1, [happened(8).record, happened(9).record], 0, {}))
    assert room.applied == [b"8", b"9", b"10"]
    for number in (8, 10):
        replica.happened(HOME, happened(number))
    assert room.applied == [b"8", b"9", b"10"]
    assert sent.messages == [], "a record that it has is no reason to ask"


def test_followers_are_told_the_last_number_when_nothing_more_is_said(home: ChannelLog, sent: Sent) -> None:
    home.followed(OTHER, Follow(ROOM, 2, 1, 7, b""))
    for mark in ("8", "9", "10"):
        home.append(mark, mark.encode())
        sent.messages.clear()
        home.tick()
        assert sent.messages == [], "the next record would show what is missing"
    for _ in range(10):
        home.tick()
    assert sent.read(Tip) == [Tip(ROOM, 2, 10)] * TIPS
    home.speak_up()  # what was sent meanwhile may be lost
    home.tick()
    assert sent.read(Tip) == [Tip(ROOM, 2, 10)]


def test_a_home_takes_what_a_node_submits_once_and_in_order(
    home: ChannelLog, room: QuietRoom, sent: Sent
) -> None:
    def submit(serial: int, body: bytes) -> None:
        home.submitted(OTHER, Submit(ROOM, 2, serial, f"mark-{serial}", body))

    submit(2, b"second")
    assert room.decided == []
    assert sent.read(Expect) == [Expect(ROOM, 2, 1)]
    submit(1, REFUSED)
    submit(2, b"second")
    assert room.decided == [REFUSED, b"second"]
    sent.messages.clear()
    submit(1, REFUSED)
    assert room.decided == [REFUSED, b"second"]
    assert sent.read(Answer) == [Answer(ROOM, "mark-1", REFUSED)], "its answer may have been lost"


def test_a_home_does_again_nothing_that_a_former_one_has_done(home: ChannelLog, room: QuietRoom) -> None:
    home.submitted(OTHER, Submit(ROOM, 2, 1, "seventh", b"7"))
    assert room.decided == []


def test_a_replica_that_its_home_has_forgotten_asks_what_it_has_missed(
    replica: ChannelLog, sent: Sent
) -> None:
    """The home took it for dead a moment after it had answered, and counts its submissions anew."""
    replica.submit("first", b"1", lambda answer: None)
    replica.answered(HOME, Answer(ROOM, "first", REFUSED))
    replica.submit("second", b"2", lambda answer: None)
    sent.messages.clear()
    replica.expected(HOME, Expect(ROOM, 1, 1))
    assert sent.read(Follow)
    replica.missed(HOME, Missed(ROOM, 1, [], 0, {}))
    assert [(message.mark, message.serial) for message in sent.read(Submit)] == [("second", 1)]


def test_a_node_without_members_that_its_home_has_forgotten_counts_anew(room: QuietRoom, sent: Sent) -> None:
    room.is_wanted = False
    log = ChannelLog(ROOM, room, sent)
    log.follow(HOME.node, 1)
    log.submit("first", b"1", lambda answer: None)
    log.answered(HOME, Answer(ROOM, "first", b""))
    for mark in ("second", "third"):
        log.submit(mark, mark.encode(), lambda answer: None)
    sent.messages.clear()
    log.expected(HOME, Expect(ROOM, 1, 1))
    submitted = [(message.mark, message.serial) for message in sent.read(Submit)]
    assert submitted == [("second", 1), ("third", 2)]


def test_a_home_takes_nothing_that_is_meant_for_another_one(home: ChannelLog, room: QuietRoom) -> None:
    """Serials begin anew with each home: this one would be the first."""
    home.submitted(OTHER, Submit(ROOM, 1, 1, "late", b"late"))
    assert room.decided == []
    home.submitted(OTHER, Submit(ROOM, 2, 1, "other", b"other"))
    assert room.decided == [b"other"]


def test_a_new_home_borrows_the_last_records_before_it_decides(
    replica: ChannelLog, room: QuietRoom, sent: Sent
) -> None:
    replica.take_over(2, OTHER.node)
    replica.submit("new", b"new", lambda answer: None)
    replica.followed(OTHER, Follow(ROOM, 2, 1, 9, b""))
    assert sent.read(Lend) == [Lend(ROOM, 2, 1, 7, False)]
    records = [happened(number).record for number in (8, 9)]
    replica.lent(OTHER, Lent(ROOM, 2, 1, 9, records, [], b"", {}))
    assert room.applied == [b"8", b"9", b"new"]


def test_a_new_home_that_was_alone_before_it_had_the_log_brings_its_members_along(
    log: ChannelLog, room: QuietRoom
) -> None:
    """The state that it borrows may name an earlier connection of theirs."""
    log.go_alone()
    log.submit("alone", b"alone", lambda answer: None)
    log.take_over(2, OTHER.node)
    log.followed(OTHER, Follow(ROOM, 2, 1, 9, b""))
    log.lent(OTHER, Lent(ROOM, 2, 1, 9, None, [], b"borrowed", {}))
    assert room.brought == [b"before"]


def test_a_home_that_was_given_up_decides_nothing_until_it_knows_the_next_one(
    home: ChannelLog, room: QuietRoom, sent: Sent
) -> None:
    home.begin_again()
    home.submit("late", b"late", lambda answer: None)
    assert room.decided == []
    home.follow(OTHER.node, 3)
    home.snapshot(OTHER, Snapshot(ROOM, 3, 9, [], b"", 0, {}))
    assert room.decided == []
    assert [message.body for message in sent.read(Submit)] == [b"late"]


def test_agents_are_not_told_again_what_a_lost_home_has_told_them(
    replica: ChannelLog, room: QuietRoom
) -> None:
    """Its line was lost with it, and another node submits it to the next home."""
    replica.happened(HOME, happened(8))
    replica.follow(OTHER.node, 2)
    replica.snapshot(OTHER, Snapshot(ROOM, 2, 8, ["seventh", "other"], b"", 0, {}))
    replica.happened(OTHER, Happened(ROOM, 2, Record(9, "mark-8", b"8")))
    replica.happened(OTHER, happened(10, epoch=2))
    assert room.applied == [b"8", b"8", b"10"]
    assert room.again == [b"8"]


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


def test_members_of_a_node_that_dies_while_a_home_resigns_leave_if_it_stays(
    home: ChannelLog, room: QuietRoom, sent: Sent
) -> None:
    room.nodes.add(OTHER.node)
    home.resign()
    sent.dead.add(OTHER.node)
    home.node_gone(OTHER.node)
    assert room.applied == []
    home.stay()
    assert room.applied == [b"without other"]


def test_members_are_brought_again_to_a_home_that_has_answered_an_older_question(
    replica: ChannelLog, room: QuietRoom, sent: Sent
) -> None:
    """It did not hear the one that named them. A few times, because there may be another reason."""
    room.is_unheard = True
    asked = []
    for sent.time in range(1, 10):
        replica.tick()
        asked += sent.read(Follow)
        replica.snapshot(HOME, Snapshot(ROOM, 1, 7, [], b"", 0, {}))
    assert [follow.apart for follow in asked] == [True] * MAX_BRINGS


def test_a_home_that_resigned_does_not_stay_where_another_node_is_home_by_now(log: ChannelLog) -> None:
    """The registry did not remove the channel, because its entry names the other node."""
    log.take_over(2, None)
    log.resign()
    log.follow(OTHER.node, 3)
    log.stay()
    assert (log.decides, log.home) == (False, OTHER.node)


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

"""The log of a channel: what happened in it, numbered, in the one order that all nodes see.

One node is home to the channel. It decides what is done, and gives each record its number. An *epoch* is the time
of one home: the next home goes on with the numbers, and has a higher epoch. No epoch of a channel comes twice, also
if the registry has lost which one was the last (`homes`). Records carry a *mark*, by which a home recognises a
submission that an earlier home has taken already. What is in a record is the business of `Room`.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import msgspec

from moothall.hall.shared_memory import SharedMemory
from moothall.wire.bus import BusMessage

RING_RECORDS: Final = 512  # that a node keeps for others that have missed some
RING_BYTES: Final = 256 * 1024
RECORD_BYTES: Final = 192  # that a record takes in memory besides its body
MARK_BYTES: Final = 192


class Record(msgspec.Struct, array_like=True, frozen=True):
    number: int
    mark: str
    body: bytes


# -- messages between nodes ------------------------------------------------------------------------


class Submit(BusMessage, frozen=True):
    """To the home: do this. Serials of one node begin with 1 in each epoch, and are taken in their order."""

    KIND: ClassVar = "channel-submit"

    channel: str
    epoch: int
    serial: int
    mark: str
    body: bytes


class Expect(BusMessage, frozen=True):
    """From the home: submissions from this serial on have not arrived. Send them again."""

    KIND: ClassVar = "channel-expect"

    channel: str
    epoch: int
    serial: int


class Answer(BusMessage, frozen=True):
    """From the home: what came of a submission that the node cannot tell from a record."""

    KIND: ClassVar = "channel-answer"

    channel: str
    mark: str
    body: bytes


class Happened(BusMessage, frozen=True):
    """From the home, to all nodes that follow the channel."""

    KIND: ClassVar = "channel-happened"

    channel: str
    epoch: int
    record: Record


class Tip(BusMessage, frozen=True):
    """From the home: the last number. A node that has missed the end of the log asks for it."""

    KIND: ClassVar = "channel-tip"

    channel: str
    epoch: int
    number: int


class Follow(BusMessage, frozen=True):
    """To the home: send me what happens from here on, and first what I have missed.

    `own` is what this node brings along: its members, and their claims. `apart`: it went on without the home.
    """

    KIND: ClassVar = "channel-follow"

    channel: str
    epoch: int  # of the home that is asked
    last_epoch: int  # of the last record that the node has; 0: it has none
    number: int
    own: bytes
    apart: bool = False


class Unfollow(BusMessage, frozen=True):
    KIND: ClassVar = "channel-unfollow"

    channel: str


class Missed(BusMessage, frozen=True):
    """From the home: all that the node has missed. `taken`: the last serial of its submissions that was taken."""

    KIND: ClassVar = "channel-missed"

    channel: str
    epoch: int
    records: list[Record]
    taken: int
    ends: dict[int, int]  # the last number of each epoch that is over
    # To the last of its submissions, by mark: they may have been lost.
    answers: dict[str, bytes] = msgspec.field(default_factory=dict)


class Snapshot(BusMessage, frozen=True):
    """From the home: the state of the channel after the record of this number."""

    KIND: ClassVar = "channel-snapshot"

    channel: str
    epoch: int
    number: int
    marks: list[str]  # of the last records
    state: bytes
    taken: int
    ends: dict[int, int]
    answers: dict[str, bytes] = msgspec.field(default_factory=dict)


class Lend(BusMessage, frozen=True):
    """From a new home to a node that has more of the log: send me what comes after my last record."""

    KIND: ClassVar = "channel-lend"

    channel: str
    epoch: int
    last_epoch: int
    number: int
    apart: bool


class Lent(BusMessage, frozen=True):
    """The records that are missing; or the whole state, if the new home has records that this node has not."""

    KIND: ClassVar = "channel-lent"

    channel: str
    epoch: int
    last_epoch: int
    number: int
    records: list[Record] | None
    marks: list[str]
    state: bytes
    ends: dict[int, int]


class Decision(NamedTuple):
    """What the home does with a submission. Without a `record` it changes nothing, and `answer` says why."""

    record: bytes | None
    answer: bytes = b""


class Room(Protocol):
    """What the channel is for a node: members, lines and claims. The log does not look into it."""

    log: Any  # the `ChannelLog`, while this node has a part in it
    has_lost: bool  # members of this node were taken out, and none of them has left: they are kept

    @property
    def is_unheard(self) -> bool:
        """True if the home has not named all members that this node has brought to it."""

    @property
    def is_wanted(self) -> bool:
        """True while this node needs to know what happens in the channel."""

    def member_nodes(self) -> set[str]:
        """The nodes that have members, this one included."""

    def decide(self, body: bytes, node: str) -> Decision:
        """At the home: what is done about a submission of this node."""

    def apply(self, body: bytes, *, again: bool) -> None:
        """It has happened: change the state, and tell the agents of this node.

        `again`: they were told before, by a home whose records were lost.
        """

    def state(self) -> bytes:
        """All that another node needs to know."""

    def install(self, state: bytes, *, missed: bool, apart: bool) -> None:
        """Take the state of the home for one's own. `missed`: agents of this node have not been told all.

        `apart`: which of its agents are members, this node knows better. The home brings itself in line.
        """

    def own(self) -> bytes:
        """What this node brings to a home: the members that it has, and their claims."""

    def check_own(self, own: bytes) -> None:
        """Raise BadPacket if this is not what a node brings to a home."""

    def reconcile(self, node: str, own: bytes) -> bytes:
        """At the home: the record that brings the channel in line with what a node has that was apart.

        All its members enter, also those that are members here: another node may not know. Lines of both were
        missed, so it tells of a gap.
        """

    def without(self, node: str) -> bytes | None:
        """At the home: the record that takes all members of this node out. None: it has none."""

    def became_home(self) -> None: ...

    def resigned(self) -> None:
        """Another node is home from now on."""

    def emptied(self) -> None:
        """This node stops following the channel, so it forgets the members and the history."""


class Ring:
    """The last records, as far as the memory for them goes. All channels of a node share it (`shared_memory`)."""

    def __init__(self, memory: SharedMemory) -> None:
        self.last = 0  # the number of the last record
        self.size = 0  # bytes, with what records and marks take besides their own
        self._memory = memory
        self._records: deque[Record] = deque()
        self._marks: dict[str, None] = {}  # of the records, and of some before them; the oldest first
        self._bodies = 0  # bytes
        memory.add(self)

    @property
    def marks(self) -> list[str]:
        return list(self._marks)

    def add(self, record: Record) -> None:
        assert record.number == self.last + 1  # noqa: S101  # callers keep the order
        self.last = record.number
        self._records.append(record)
        self._bodies += len(record.body)
        self._count(RECORD_BYTES + len(record.body))
        self._note(record.mark)
        while len(self._records) > RING_RECORDS or (self._bodies > RING_BYTES and len(self._records) > 1):
            self._forget_record()
        if self._memory.used > self._memory.limit:
            self._memory.make_room()

    def has(self, mark: str) -> bool:
        """True for the mark of one of the last records."""
        return mark in self._marks

    def after(self, number: int) -> list[Record] | None:
        """The records after this number. None: some of them are forgotten, or not there yet."""
        first = self.last - len(self._records)  # the number before the first that is here
        if not first <= number <= self.last:
            return None
        skipped = number - first
        return [record for index, record in enumerate(self._records) if index >= skipped]

    def skip(self) -> None:
        """A record that no other node needs."""
        self.last += 1
        self._forget_records()

    def restart(self, number: int, marks: Iterable[str]) -> None:
        """Go on after this number, without the records up to it."""
        self.last = number
        self.shrink(0)
        for mark in marks:
            self._note(mark)

    def shrink(self, size: int) -> None:
        """Forget the oldest until the rest has at most this number of bytes."""
        while self.size > size and self._records:
            self._forget_record()
        while self.size > size and self._marks:
            self._forget_mark()

    def _note(self, mark: str) -> None:
        if mark not in self._marks:
            self._marks[mark] = None
            self._count(MARK_BYTES)
        if len(self._marks) > RING_RECORDS:
            self._forget_mark()

    def _forget_mark(self) -> None:
        del self._marks[next(iter(self._marks))]
        self._count(-MARK_BYTES)

    def _forget_record(self) -> None:
        body = len(self._records.popleft().body)
        self._bodies -= body
        self._count(-RECORD_BYTES - body)

    def _forget_records(self) -> None:
        while self._records:
            self._forget_record()

    def _count(self, size: int) -> None:
        self.size += size
        self._memory.used += size

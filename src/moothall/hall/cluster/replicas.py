"""One channel on one node: its part of the log, as a replica.

A replica applies records in the order of their numbers. It keeps those that come early, and asks the home again for
those that are missing. What agents of its node want goes to the home as a submission, and again until it is known
what came of it. The home takes the submissions of a node in the order in which they were made (`elections`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol

from moothall.hall.cluster.log import (
    RING_RECORDS,
    Answer,
    Expect,
    Follow,
    Happened,
    Lend,
    Lent,
    Missed,
    Record,
    Ring,
    Room,
    Snapshot,
    Submit,
    Tip,
    Unfollow,
)
from moothall.hall.shared_memory import SharedMemory
from moothall.wire.bus import BusMessage, Origin

RESEND_SECONDS: Final = 1.0
MAX_BRINGS: Final = 3  # times that members are brought to one home again, which does not name them
MAX_EARLY: Final = 1024  # records that wait for those before them

# What the home answers; b"" if the record has told the agent. None: it was done, and its record did not come here.
Done = Callable[[bytes | None], None]


class Role(Enum):
    NOTHING = auto()  # no replica
    SYNCING = auto()  # has asked the home for what it lacks
    REPLICA = auto()
    ELECTED = auto()  # the home, as soon as it has all that other nodes have of the log
    HOME = auto()
    RESIGNING = auto()  # still the home, but it may be another one's soon: nothing is decided
    ALONE = auto()  # the home cannot be reached


class Outlook(Protocol):
    """What a channel needs of its node."""

    memory: SharedMemory  # for records

    @property
    def me(self) -> Origin: ...

    def now(self) -> float: ...

    def is_alive(self, node: str) -> bool:
        """True if the node is alive, as far as this one knows. True for this one."""

    def send(self, node: str, message: BusMessage) -> None: ...

    def publish(self, channel: str, message: BusMessage) -> None:
        """To all nodes that follow the channel."""

    def may_tell(self, size: int) -> bool:
        """True if a node may be told so many bytes that it lacks. False: the bus has enough to do with such."""

    def listen(self, channel: str) -> Callable[[], None]:
        """Hear what is published about the channel, until the returned function is called."""

    def failed(self, channel: str, error: Exception) -> None:
        """Log what failed for the channel. The rest goes on."""


class Sent(NamedTuple):
    """The last submission of this node that its home has taken."""

    home: str
    epoch: int
    serial: int


class _Pending:
    """A submission of this node whose outcome is not known yet."""

    __slots__ = ("body", "done", "sent_at", "serial")

    def __init__(self, body: bytes, done: Done) -> None:
        self.body = body
        self.done = done
        self.serial = 0  # 0: it has not been sent to this home
        self.sent_at = 0.0


class Sender:
    """What a home knows of the submissions of one node."""

    __slots__ = ("answers", "life", "long", "taken")

    def __init__(self, life: int) -> None:
        self.life = life
        self.taken = 0
        self.answers: dict[str, bytes] = {}  # by mark, the oldest first
        self.long: dict[str, None] = {}  # marks of those with answers that are too long to be kept


class Replica(ABC):
    def __init__(self, name: str, room: Room, outlook: Outlook) -> None:
        self.name = name
        self.room = room
        self.role = Role.NOTHING
        self.epoch = 0  # of the home that is followed, or of its own
        self.home: str | None = None  # the node that is followed
        self.gaps = 0  # times that agents of this node were not told all
        self._outlook = outlook
        self._ring = Ring(outlook.memory)
        self._known_epoch = 0  # in which the last record of the ring was made
        self._ends: dict[int, int] = {}  # the last number of each epoch that is known to have ended
        # Marks of records that were lost, after agents of this node were told
        self._told: dict[str, None] = {}
        self._apart = False  # it has decided alone since it last heard of the home
        self._is_unsure = False  # records may have been lost since it last heard of the home
        self._is_broken = False  # a record could not be applied: only a state can mend it
        self._late: dict[int, int] = {}  # what former homes said that may be lost: the last number by epoch
        self._reported: dict[int, int] = {}  # what of that the home was told when it was last asked
        self._was_given_up = False  # while it was home
        self._early: dict[int, Record] = {}
        self._pending: dict[str, _Pending] = {}  # by mark, in their order
        self._serial = 0
        self._asked_at = 0.0  # when the home was asked for what is missing
        self._brings = 0  # times that members were brought to this home again
        self._stop: Callable[[], None] | None = None
        # As the home:
        self.followers: set[str] = set()
        self._losses: set[int] = set()  # former epochs of whose loss members were told
        self._senders: dict[str, Sender] = {}
        self._is_applying = False  # what is submitted meanwhile happens after it
        self._is_draining = False
        self._silent: set[str] = set()  # nodes that did not say what they have when it became home
        self._brought: dict[str, tuple[int, int]] = {}  # what nodes had that were apart, when they came back
        self._awaited: set[str] = set()  # nodes that have yet to say how much of the log they have
        self._asking: dict[str, Follow] = {}  # what they said
        self._foretold: dict[str, Follow] = {}  # what nodes said of an epoch that this one does not know yet
        self._borrowing: str | None = None
        self._elected_at = 0.0
        self._borrowed_at = 0.0
        self._tips = 0  # how often followers are yet to be told the last number
        self._seen_last = 0  # the last number at the last tick

    @property
    def number(self) -> int:
        """Of the last record that this node has."""
        return self._ring.last

    @property
    def decides(self) -> bool:
        return self.role in (Role.HOME, Role.ALONE)

    @property
    def has_waiting(self) -> bool:
        """True if it is not known yet what comes of something that this node has submitted."""
        return bool(self._pending)

    @property
    def has_decided(self) -> bool:
        """True if what was decided last about the channel was decided here."""
        return self.decides or self.role is Role.RESIGNING

    @property
    def has_replica(self) -> bool:
        """True if it has something of the log that may be needed."""
        return self._known_epoch != 0

    @property
    def needs_home(self) -> bool:
        """True if this node should be home, if no other node is."""
        return (
            bool(self._pending)
            or self.room.is_wanted
            or self.role
            in (
                Role.HOME,
                Role.RESIGNING,
                Role.ELECTED,
                Role.ALONE,
            )
        )

    @property
    def is_idle(self) -> bool:
        """True if nothing is lost when the channel is forgotten here."""
        return not (self._pending or self.room.is_wanted) and self.role in (Role.NOTHING, Role.REPLICA)

    @abstractmethod
    def _decide(self, mark: str, body: bytes, node: str) -> bytes:
        """Do what a node has submitted, and return the answer. Only a node that `decides` is asked."""

    @abstractmethod
    def _drain(self) -> None:
        """Decide what waits, in its order, if this node decides."""

    @property
    def sent(self) -> Sent | None:
        """Where the serials of this node are. None: it has sent nothing to this home."""
        return Sent(self.home, self.epoch, self._serial) if self.home is not None and self._serial else None

    def go_on_after(self, sent: Sent) -> None:
        """This node had a part in the channel before: the home knows its submissions up to this one."""
        self.home, self.epoch, self._serial = sent

    # -- what agents of this node want --------------------------------------------------------------

    def submit(self, mark: str, body: bytes, done: Done) -> None:
        """`done` is called when it has happened, or with the answer of the home if it has not."""
        if self.decides and not self._is_applying and not self._pending:
            done(self._decide(mark, body, self._outlook.me.node))
            return
        pending = self._pending[mark] = _Pending(body, done)
        if self.role in (Role.REPLICA, Role.NOTHING):
            self._send_pending(mark, pending)
        elif self.decides:
            self._drain()  # what waits comes first

    def _send_pending(self, mark: str, pending: _Pending) -> None:
        if self.home is None:
            return
        if not pending.serial:
            self._serial += 1
            pending.serial = self._serial
        pending.sent_at = self._outlook.now()
        message = Submit(self.name, self.epoch, pending.serial, mark, pending.body)
        self._outlook.send(self.home, message)

    def _send_all(self, serial: int = 1) -> None:
        if self.role is Role.SYNCING:
            return  # what the home says of the last serial would be wrong when it arrives
        for mark, pending in self._pending.items():
            if not pending.serial or pending.serial >= serial:
                self._send_pending(mark, pending)

    def _settle(self, mark: str, answer: bytes = b"") -> None:
        pending = self._pending.pop(mark, None)
        if pending is not None:
            pending.done(answer)

    def _go_on(self, taken: int, answers: dict[str, bytes], marks: Collection[str] = ()) -> None:
        """The home has taken submissions up to this serial. Records with these marks did not come one by one.

        Send it the others, with the serials after it. Only then agents go on, and submit more.
        """
        settled: list[tuple[_Pending, bytes | None]] = []
        for mark, pending in list(self._pending.items()):
            if mark in answers or mark in marks or 0 < pending.serial <= taken:
                settled.append((self._pending.pop(mark), answers.get(mark)))
        self._serial = taken
        for pending in self._pending.values():
            pending.serial = 0
        self._late = {
            epoch: last for epoch, last in self._late.items() if last > self._reported.get(epoch, 0)
        }
        self.role = Role.REPLICA
        self._send_all()
        for pending, answer in settled:
            pending.done(answer)

    def take_pending(self) -> list[Done]:
        """Who waits for what was submitted: the channel was removed, and nothing comes of it here."""
        pending, self._pending = self._pending, {}
        return [each.done for each in pending.values()]

    @abstractmethod
    def resign(self) -> None:
        """Decide nothing until it is known whether another node has become home."""

    def begin_again(self) -> None:
        """This node has a new life: the home has forgotten the one before."""
        if self.role is Role.NOTHING:
            self._serial = 0
            for pending in self._pending.values():
                pending.serial = 0
            self._send_all()
            return
        if self.role in (Role.HOME, Role.RESIGNING):
            self._was_given_up = True
            self.resign()  # another node may have become home
            return
        self._apart = self._apart or self.has_replica  # its members were announced as gone
        if self.role in (Role.SYNCING, Role.REPLICA):
            self._ask_home()

    def expected(self, origin: Origin, message: Expect) -> None:
        if origin.node != self.home or message.epoch != self.epoch:
            return
        first = next((pending.serial for pending in self._pending.values() if pending.serial), 0)
        if message.serial < first:
            self._start_over(message.serial)
        else:
            self._send_all(message.serial)

    def _start_over(self, serial: int) -> None:
        """The home has taken this node for dead, and forgotten it."""
        if self.role is Role.REPLICA:
            self._ask_home()
        elif self.role is Role.NOTHING:
            self._serial = serial - 1
            for pending in self._pending.values():
                pending.serial = 0
            self._send_all()

    def answered(self, origin: Origin, message: Answer) -> None:
        self._settle(message.mark, message.body)

    # -- as a replica ------------------------------------------------------------------------------

    def follow(self, home: str, epoch: int) -> None:
        """Another node is home in this epoch."""
        is_wanted = self.room.is_wanted or self.has_replica
        if (home, epoch) == (self.home, self.epoch) and (
            self.role in (Role.SYNCING, Role.REPLICA) or (self.role is Role.NOTHING and not is_wanted)
        ):
            return
        self._stop_deciding()
        self._early.clear()
        if self._was_given_up:
            self._was_given_up, self._apart = False, True
        if epoch != self.epoch:
            self._brings = 0
            self._serial = 0
            for pending in self._pending.values():
                pending.serial = 0
        self.home, self.epoch = home, epoch
        if is_wanted:
            self._ask_home()
        else:
            self._send_all()

    def _ask_home(self) -> None:
        if self.home is None:
            return
        if self._stop is None:
            self._stop = self._outlook.listen(self.name)
        self.role = Role.SYNCING
        self._asked_at = self._outlook.now()
        for epoch, number in self._late.items():
            self._outlook.send(self.home, Happened(self.name, epoch, Record(number, "", b"")))
        self._reported = dict(self._late)
        last_epoch, number = (0, 0) if self._is_broken else (self._known_epoch, self._ring.last)
        message = Follow(self.name, self.epoch, last_epoch, number, self.room.own(), self._apart)
        self._outlook.send(self.home, message)

    def _is_from_home(self, origin: Origin, epoch: int) -> bool:
        return origin.node == self.home and epoch == self.epoch and self.role in (Role.SYNCING, Role.REPLICA)

    def happened(self, origin: Origin, message: Happened) -> None:
        if not self._is_from_home(origin, message.epoch):
            return
        record = message.record
        if record.number <= self._ring.last and self.role is Role.REPLICA:
            return
        if len(self._early) < MAX_EARLY:
            self._early[record.number] = record
        if self.role is Role.REPLICA:
            self._apply_early()
            if self._early and not self._is_broken:
                self._ask_home()
            self._bring_along()

    def _apply_early(self) -> None:
        while (record := self._early.pop(self._ring.last + 1, None)) is not None:
            if not self._take(record):
                return

    def _take(self, record: Record) -> bool:
        """False if the record could not be applied."""
        self._ring.add(record)
        try:
            self.room.apply(record.body, again=record.mark in self._told)
        except Exception as error:  # noqa: BLE001  # whatever it is, members must be told that they missed it
            self._outlook.failed(self.name, error)
            self._break()
            return False
        self._settle(record.mark)
        return True

    def _break(self) -> None:
        """A record could not be applied. The state of the home comes in its place, and members are told of a gap.

        The tick asks for it if the home was asked a moment ago: perhaps every record fails. A submission is settled
        when the state is here.
        """
        self._is_broken = True
        if self.role not in (Role.SYNCING, Role.REPLICA):
            self._apart = True  # a new home asks another node for the state
            return
        self.role = Role.SYNCING
        if self._outlook.now() - self._asked_at >= RESEND_SECONDS / 2:
            self._ask_home()

    def _bring_along(self) -> None:
        """A home that did not hear from this node took its members out: it is told that they are there."""
        if self.room.has_lost and not self._is_broken:
            self.room.has_lost = False
            self._apart = True
            self._ask_home()

    def _bring_again(self) -> None:
        """The home has answered an older question of this node, and not the one that named its members."""
        if self.room.is_unheard and self._brings < MAX_BRINGS:
            self._brings += 1
            self._apart = True
            self._ask_home()

    def tipped(self, origin: Origin, message: Tip) -> None:
        if (
            self._is_from_home(origin, message.epoch)
            and self.role is Role.REPLICA
            and message.number > self._ring.last
        ):
            self._ask_home()

    def missed(self, origin: Origin, message: Missed) -> None:
        if not self._is_from_home(origin, message.epoch) or self.role is not Role.SYNCING:
            return
        if self._apart or self._is_broken:
            return  # it has asked again, for the state
        if message.records and message.records[0].number > self._ring.last + 1:
            return
        self._is_unsure = False
        self._known_epoch = self.epoch
        self._ends = dict(message.ends)
        for record in message.records:
            if record.number > self._ring.last and not self._take(record):
                return
        self._go_on(message.taken, message.answers)
        self._catch_up()
        self._bring_along()

    def snapshot(self, origin: Origin, message: Snapshot) -> None:
        if not self._is_from_home(origin, message.epoch) or self.role is not Role.SYNCING:
            return
        self._is_unsure = False
        self._install(message)
        self._known_epoch = self.epoch
        self._go_on(message.taken, message.answers, set(message.marks))
        self._catch_up()
        self._bring_along()

    def _is_known(self, message: Snapshot | Lent) -> bool:
        """True if what this node has of the log is part of the log of the other one."""
        last = message.number if self._known_epoch == self.epoch else message.ends.get(self._known_epoch, -1)
        return self._ring.last <= last

    def _install(self, message: Snapshot | Lent) -> None:
        had_one, was_apart = self.has_replica or self._apart, self._apart or not self._is_known(message)
        self._apart, self._is_broken = False, True  # until the room has taken all of it
        self._ends = dict(message.ends)
        self._told |= dict.fromkeys(mark for mark in self._ring.marks if mark not in message.marks)
        while len(self._told) > RING_RECORDS:
            del self._told[next(iter(self._told))]
        self._ring.restart(message.number, message.marks)
        self.gaps += had_one
        self.room.install(message.state, missed=had_one, apart=had_one and was_apart)
        self._is_broken = False

    def _catch_up(self) -> None:
        """Records that are still early wait for the next tick: they may be no records of this home."""
        for number in [number for number in self._early if number <= self._ring.last]:
            del self._early[number]
        self._apply_early()

    def forget(self) -> None:
        """This node needs the channel no more."""
        if self.home is not None and self.role in (Role.SYNCING, Role.REPLICA):
            self._outlook.send(self.home, Unfollow(self.name))
        self._drop_subscription()
        self.role = Role.NOTHING
        self._known_epoch = 0
        self._apart = self._is_unsure = self._is_broken = False
        self._early.clear()
        self._late.clear()
        self._ring.restart(0, ())

    def end(self) -> None:
        """This node has no part in the channel any more."""
        self.forget()
        self._outlook.memory.discard(self._ring)

    def _drop_subscription(self) -> None:
        if self._stop is not None:
            self._stop()
            self._stop = None

    def _stop_deciding(self) -> None:
        if self.has_decided:
            self.room.resigned()
        self.followers.clear()
        self._senders.clear()
        self._awaited.clear()
        self._silent.clear()
        self._brought.clear()
        self._asking.clear()
        self._borrowing = None
        if self.role is not Role.NOTHING:
            self.role = Role.SYNCING

    def lend(self, origin: Origin, message: Lend) -> None:
        """A new home lacks what this node has."""
        if origin.node != self.home or message.epoch != self.epoch or self.role is not Role.SYNCING:
            return
        records, marks, state = None, [], b""
        if self._knows(message, self._known_epoch):
            records = self._ring.after(message.number)
        if records is None:
            marks, state = self._ring.marks, self.room.state()
        lent = Lent(
            self.name,
            self.epoch,
            self._known_epoch,
            self._ring.last,
            records,
            marks,
            state,
            self._ends,
        )
        self._outlook.send(origin.node, lent)

    def _knows(self, peer: Follow | Lend, epoch: int) -> bool:
        """True if all that the other node has is part of this log, which is one of this epoch."""
        if peer.apart or not peer.last_epoch:
            return False
        if peer.last_epoch == epoch:
            return peer.number <= self._ring.last
        end = self._ends.get(peer.last_epoch)
        return end is not None and peer.number <= end

"""What agents did and saw at a hall of many nodes, and whether that can be: a checker without any hall.

A `History` is the list of events of all agents, in the order in which one process saw them. So an event that comes
later in the list may depend on an earlier one, and never the other way round. Every text that an agent says is said
once, so it names its message.

`violations` returns a sentence for each promise that was broken:

- a connection that lost its id to another one says nothing more, from the WELCOME of the other one on; while nodes
  are apart, nothing more to agents of other nodes;
- all members see the messages of a channel in one order, and those of a sender in the order in which it sent them;
  what was on its way when nodes were apart may have another order at one of them, if its members are told of a gap;
- no message comes twice, and none that was not said, or that was said by another agent;
- a member hears every message of its channel, or is told of a gap;
- a direct message that was acknowledged arrives, if its recipient stays;
- one claim on a message has the floor in the end.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, pairwise
from typing import NamedTuple


class Welcomed(NamedTuple):
    line: int  # a connection: each has a number of its own
    agent: str
    node: str = ""


class Ended(NamedTuple):
    """The connection is closed, by the agent or by the hall."""

    line: int


class Entered(NamedTuple):
    """JOINED. What is replayed before the next event of this line was said earlier, and counts for nothing."""

    line: int
    channel: str


class Left(NamedTuple):
    line: int
    channel: str


class Said(NamedTuple):
    """Sent to a channel or, with an @, to an agent. It may have been lost on the way."""

    line: int
    to: str
    text: str


class Acked(NamedTuple):
    line: int
    text: str


class Refused(NamedTuple):
    """ERROR: it was not said."""

    line: int
    text: str


class Heard(NamedTuple):
    line: int
    to: str
    sender: str
    text: str


class Gap(NamedTuple):
    """The member was told that messages of the channel are missing."""

    line: int
    channel: str


class Claimed(NamedTuple):
    """ACK of RESPONDING_TO: the claim has the floor."""

    line: int
    text: str


class Yielded(NamedTuple):
    """The agent was told that it has lost the floor, or it has given it back."""

    line: int
    text: str


class Fault(NamedTuple):
    """From here on nodes may be apart: a gap is told when they are together again."""


class Healed(NamedTuple):
    pass


Event = (
    Welcomed
    | Ended
    | Entered
    | Left
    | Said
    | Acked
    | Refused
    | Heard
    | Gap
    | Claimed
    | Yielded
    | Fault
    | Healed
)


@dataclass(slots=True)
class _Message:
    text: str
    sender: str
    line: int
    to: str
    said: int
    serial: int  # of its sender to this address
    known: int | None = None  # where it was first acknowledged or heard
    acked: int | None = None
    refused: bool = False
    hearers: set[str] = field(default_factory=set)  # the nodes of those that heard it
    heard: list[tuple[int, int]] = field(default_factory=list)  # when, and by which line


@dataclass(slots=True)
class _Stay:
    """A connection as a member of a channel."""

    line: int
    channel: str
    start: int
    end: int | None = None
    heard: list[tuple[int, _Message]] = field(default_factory=list)
    gaps: list[int] = field(default_factory=list)

    def texts(self, skipped: "Callable[[_Stay, int, _Message], bool] | None" = None) -> list[str]:
        """What it heard, each text once."""
        heard = [
            message.text
            for index, message in self.heard
            if skipped is None or not skipped(self, index, message)
        ]
        return list(dict.fromkeys(heard))


@dataclass(slots=True)
class _Line:
    agent: str = ""
    node: str = ""
    start: int = -1
    end: int | None = None
    direct: list[tuple[int, _Message]] = field(default_factory=list)
    stays: list[_Stay] = field(default_factory=list)
    former: list[int] = field(default_factory=list)  # open connections with the same id, when this one got it
    said: list[_Message] = field(default_factory=list)

    def stay(self, channel: str) -> _Stay | None:
        return next((stay for stay in self.stays if stay.channel == channel and stay.end is None), None)


def violations(history: Sequence[Event]) -> list[str]:
    return _Checker(history).problems


def _circle(orders: Iterable[Sequence[str]]) -> list[str]:
    """Texts of which each came before the next one, and the last before the first. Empty: there is one order."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for texts in orders:
        for one, other in pairwise(texts):
            sorter.add(other, one)
    try:
        sorter.prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


class _Checker:
    def __init__(self, history: Sequence[Event]) -> None:
        self.problems: list[str] = []
        self._length = len(history)
        self._lines: defaultdict[int, _Line] = defaultdict(_Line)
        self._messages: dict[str, _Message] = {}
        self._serials: defaultdict[tuple[int, str], int] = defaultdict(int)
        self._holders: defaultdict[str, dict[str, int]] = defaultdict(dict)  # of each text, by agent: where
        self._faults: list[tuple[int, int]] = []
        self._read(history)
        self._check_places()
        self._check_lines()
        self._check_channels()
        self._check_direct()
        self._check_claims()

    # -- reading ---------------------------------------------------------------------------------------

    def _read(self, history: Sequence[Event]) -> None:
        begun: int | None = None
        for index, event in enumerate(history):
            match event:
                case Fault():
                    begun = index if begun is None else begun
                case Healed() if begun is not None:
                    self._faults.append((begun, index))
                    begun = None
                case Healed():
                    pass
                case _:
                    self._take(index, event)
        if begun is not None:
            self._faults.append((begun, self._length))

    def _take(self, index: int, event: Event) -> None:
        match event:
            case Welcomed(number, agent, node):
                self._welcome(index, number, agent, node)
            case Ended(number):
                line = self._lines[number]
                line.end = index
                self._release(line.agent)
                for stay in line.stays:
                    stay.end = index if stay.end is None else stay.end
            case Entered(number, channel):
                line = self._lines[number]
                if line.stay(channel) is None:
                    line.stays.append(_Stay(number, channel, index))
            case Left(number, channel):
                if (left := self._lines[number].stay(channel)) is not None:
                    left.end = index
                self._release(self._lines[number].agent, channel)
            case Gap(number, channel):
                if (missing := self._lines[number].stay(channel)) is not None:
                    missing.gaps.append(index)
            case Claimed(number, text):
                self._holders[text][self._lines[number].agent] = index
            case Yielded(number, text):
                self._holders[text].pop(self._lines[number].agent, None)
            case Said() | Acked() | Refused() | Heard():
                self._take_message(index, event)
            case _:
                raise AssertionError(event)

    def _release(self, agent: str, channel: str | None = None) -> None:
        """An agent that leaves, or speaks, has no claims there any more."""
        for text, holders in self._holders.items():
            if channel is None or (text in self._messages and self._messages[text].to == channel):
                holders.pop(agent, None)

    def _welcome(self, index: int, number: int, agent: str, node: str) -> None:
        new = self._lines[number]
        new.former = [each for each, line in self._lines.items() if line.agent == agent and line.end is None]
        new.agent, new.node, new.start = agent, node, index

    def _take_message(self, index: int, event: Said | Acked | Refused | Heard) -> None:
        if isinstance(event, Said):
            if event.text in self._messages:
                raise ValueError(f"{event.text} was said twice: the history says nothing then")
            serial = self._serials[event.line, event.to]
            self._serials[event.line, event.to] += 1
            agent = self._lines[event.line].agent
            self._release(agent, event.to)
            said = _Message(event.text, agent, event.line, event.to, index, serial)
            self._messages[event.text] = said
            self._lines[event.line].said.append(said)
            return
        message = self._messages.get(event.text)
        if message is None:
            self.problems.append(f"{event.text} was not said, and came to line {event.line}")
            return
        match event:
            case Acked():
                message.acked = index
                message.known = index if message.known is None else message.known
            case Refused():
                message.refused = True
            case Heard():
                message.known = index if message.known is None else message.known
                self._hear(index, event, message)

    def _hear(self, index: int, event: Heard, message: _Message) -> None:
        if event.sender != message.sender:
            self.problems.append(f"{event.text} is of {message.sender}, and came as one of {event.sender}")
        if event.to != message.to:
            self.problems.append(f"{event.text} was said to {message.to}, and came as one to {event.to}")
        line = self._lines[event.line]
        message.hearers.add(line.node)
        message.heard.append((index, event.line))
        if event.to.startswith("@"):
            if line.agent != event.to[1:]:
                self.problems.append(f"{event.text} is to {event.to}, and came to {line.agent}")
            line.direct.append((index, message))
        elif (stay := line.stay(event.to)) is not None:
            stay.heard.append((index, message))
        else:
            self.problems.append(f"{event.text} came to line {event.line}, not a member of {event.to}")

    # -- one id, one connection ------------------------------------------------------------------------

    def _check_places(self) -> None:
        for number, new in self._lines.items():
            for former in new.former:
                self._check_place(former, self._lines[former], number, new)
        for stay in self._stays():
            self._check_takeovers(stay)

    def _check_place(self, old_number: int, old: _Line, new_number: int, new: _Line) -> None:
        """Of two connections the new one has the id. While nodes are apart, an agent may come back to a node that
        does not know where it is by now: then the one that is there in the end has it, and the other one is heard
        at its own node only."""
        is_certain = new.end is None or old.node == new.node or not self._is_apart(new.start)
        if old.end is None and is_certain:
            self.problems.append(
                f"line {old_number} of {old.agent} never ended, and line {new_number} has its id"
            )
        late = [message for message in old.said if message.said > new.start and self._is_out(message)]
        if is_certain:
            for message in late:
                self.problems.append(f"{message.text} was taken of a line that had lost its id")
            return
        end = self._length if old.end is None else old.end
        early = [message for message in new.said if message.said < end and self._is_out(message)]
        if early and (late or old.end is None):
            self.problems.append(
                f"{early[0].text} was taken of line {new_number}, and line {old_number} had its id as well"
            )

    def _is_out(self, message: _Message) -> bool:
        """True if more of the hall took the message than a node that was apart."""
        is_inside = self._is_apart(message.said) and message.hearers <= {self._lines[message.line].node}
        return message.known is not None and not is_inside

    def _check_takeovers(self, stay: _Stay) -> None:
        """In one channel, all that the old connection said comes before all that the new one said."""
        latest: dict[str, _Message] = {}
        for _, message in stay.heard:
            line, last = self._lines[message.line], latest.get(message.sender)
            if last is None or line.start >= self._lines[last.line].start:
                latest[message.sender] = message
            elif line.node == self._lines[last.line].node or (self._is_out(message) and self._is_out(last)):
                self.problems.append(
                    f"{message.text} of an old line of {message.sender} came to line {stay.line} after the new one"
                )

    # -- order -----------------------------------------------------------------------------------------

    def _check_lines(self) -> None:
        for number, line in self._lines.items():
            self._check_senders(number, line.direct)
        for stay in self._stays():
            self._check_senders(stay.line, stay.heard)

    def _check_senders(self, number: int, heard: Iterable[tuple[int, _Message]]) -> None:
        latest: dict[tuple[int, str], int] = {}
        seen: set[str] = set()
        for _, message in heard:
            if message.text in seen:
                self.problems.append(f"{message.text} came twice to line {number}")
                continue
            seen.add(message.text)
            if message.refused:
                self.problems.append(f"{message.text} was refused, and came to line {number}")
            if message.serial < latest.get((message.line, message.to), -1):
                self.problems.append(f"{message.text} came to line {number} after a later one of its sender")
            latest[message.line, message.to] = message.serial

    def _check_channels(self) -> None:
        by_channel: defaultdict[str, list[_Stay]] = defaultdict(list)
        for stay in self._stays():
            by_channel[stay.channel].append(stay)
        for channel, stays in by_channel.items():
            self._check_order(channel, stays)
            self._check_complete(channel, stays)

    def _check_order(self, channel: str, stays: Sequence[_Stay]) -> None:
        """Members of a node that was apart may have seen what was on its way then in another order, if they were
        told of a gap after it."""
        nodes = sorted({self._lines[stay.line].node for stay in stays})
        circle = _circle(stay.texts() for stay in stays)
        if circle and not any(
            _circle(
                stay.texts(self._is_loose if self._lines[stay.line].node in apart else None) for stay in stays
            )
            == []
            for size in range(1, len(nodes))
            for apart in combinations(nodes, size)
        ):
            self.problems.append(f"members of {channel} saw no one order: {' before '.join(circle)}")
            return
        for node in nodes:
            if circle := _circle(stay.texts() for stay in stays if self._lines[stay.line].node == node):
                order = " before ".join(circle)
                self.problems.append(f"members of {channel} at {node} saw no one order: {order}")

    def _is_loose(self, stay: _Stay, index: int, message: _Message) -> bool:
        """True if it was on its way to other nodes when nodes were apart, and the member was told of a gap later.
        One that left before the nodes were together cannot be told."""
        node = self._lines[stay.line].node
        elsewhere = [at for at, line in message.heard if self._lines[line].node != node]
        arrived = max(elsewhere, default=self._length)
        gap = max((gap for gap in stay.gaps if gap > index), default=-1)
        return any(
            message.said <= healed
            and begun <= arrived
            and (begun <= gap or (stay.end is not None and begun <= stay.end <= healed))
            for begun, healed in self._faults
        )

    # -- completeness ----------------------------------------------------------------------------------

    def _check_complete(self, channel: str, stays: Iterable[_Stay]) -> None:
        said = [
            message
            for message in self._messages.values()
            if message.to == channel and message.known is not None and not message.refused
        ]
        for stay in stays:
            heard = {message.text for _, message in stay.heard}
            for message in said:
                if message.text not in heard and message.line != stay.line and self._is_owed(stay, message):
                    self.problems.append(
                        f"{message.text} did not come to line {stay.line} in {channel}, which was told of no gap"
                    )

    def _is_owed(self, stay: _Stay, message: _Message) -> bool:
        """True: the member should have heard it, or of a gap."""
        if stay.start > message.said:
            return False
        assert message.known is not None
        later = next((index for index, each in stay.heard if each.said > message.known), None)
        if later is None and stay.end is not None:
            return False  # it may have been on its way when the member left
        end = later if later is not None else self._length
        if self._was_faulty(message.said, end):
            end = self._length  # the nodes could tell of it only later
            if stay.end is not None:
                return False
        return not any(message.said < gap <= end for gap in stay.gaps)

    def _is_apart(self, index: int) -> bool:
        return self._was_faulty(index, index)

    def _was_faulty(self, start: int, end: int) -> bool:
        return any(begun <= end and start <= healed for begun, healed in self._faults)

    def _check_direct(self) -> None:
        """An acknowledged one arrives, if the recipient was there before and stays, and no fault was near."""
        heard = {message.text for line in self._lines.values() for _, message in line.direct}
        for message in self._messages.values():
            if not message.to.startswith("@") or message.acked is None or message.text in heard:
                continue
            staying = (
                line
                for line in self._lines.values()
                if line.agent == message.to[1:] and line.end is None and 0 <= line.start < message.said
            )
            if any(staying) and not self._was_faulty(message.said, message.acked):
                self.problems.append(f"{message.text} to {message.to} was acknowledged, and did not come")

    # -- the floor -------------------------------------------------------------------------------------

    def _check_claims(self) -> None:
        for text, holders in self._holders.items():
            if len(holders) > 1:
                self.problems.append(f"{' and '.join(sorted(holders))} have the floor for {text}")

    def _stays(self) -> Iterator[_Stay]:
        for line in self._lines.values():
            yield from line.stays

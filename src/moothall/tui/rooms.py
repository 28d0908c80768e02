"""What a person sees of a hall: rooms with their lines, members and unread counts. Pure; time is passed in.

A room is a channel, or the talk with one other agent, which is named by that agent's address.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from itertools import islice
from typing import Final

MAX_LINES: Final = 1000  # a room remembers
TYPING_LASTS: Final = 6.0  # seconds after the last sign of it
MAX_TALKS: Final = 50
MAX_NAMED: Final = 3  # in the line that says who is answering


class Kind(Enum):
    SAID = "said"
    OWN = "own"
    SERVICE = "service"  # the hall itself speaking
    NOTE = "note"  # this program speaking


UNREAD_KINDS: Final = (Kind.SAID, Kind.SERVICE)


@dataclass(frozen=True, slots=True)
class Line:
    kind: Kind
    at: datetime
    text: str
    sender: str = ""  # address
    name: str = ""
    verified: bool = False
    human: bool = False
    mentions_me: bool = False
    is_history: bool = False  # said before one came


@dataclass(frozen=True, slots=True)
class Person:
    """A member of a channel: an agent or a human."""

    address: str
    name: str
    verified: bool = False
    human: bool = False
    presence: str = "online"
    status: str | None = None
    tokens: str | None = None  # what a worker's session has spent


@dataclass(slots=True)
class Room:
    name: str
    title: str
    lines: deque[Line] = field(default_factory=lambda: deque(maxlen=MAX_LINES))
    members: dict[str, Person] = field(default_factory=dict)
    heard: int = 0  # lines since the room was opened
    left_at: int | None = None  # how many those were when the person looked away; None: nothing is unread
    unread: int = 0
    mentioned: bool = False
    answering: list[str] = field(default_factory=list)  # addresses, in the order in which they began
    typing: dict[str, float] = field(default_factory=dict)  # address -> until

    @property
    def is_channel(self) -> bool:
        return self.name.startswith("#")

    def hear(self, line: Line) -> None:
        self.lines.append(line)
        self.heard += 1

    def look_away(self) -> None:
        """What comes from now on is unread."""
        self.left_at = self.heard

    def look_back(self) -> None:
        """What came meanwhile stays marked as unread, until the person looks away again."""
        if self.left_at == self.heard:
            self.left_at = None

    @property
    def first_unread(self) -> int | None:
        """The index of the line that the unread line stands before; None if there is none."""
        if self.left_at is None or self.left_at == self.heard:
            return None
        first = max(0, len(self.lines) - (self.heard - self.left_at))
        has_news = any(line.kind in UNREAD_KINDS for line in islice(self.lines, first, None))
        return first if has_news else None

    def people(self) -> list[Person]:
        return sorted(self.members.values(), key=lambda person: (person.name.casefold(), person.address))

    def activity(self, now: float) -> str:
        """Who is answering, who is typing; empty if none is."""
        typing = [
            address for address, until in self.typing.items() if until > now and address not in self.answering
        ]
        parts = [
            _sentence(self._names(self.answering), "answering"),
            _sentence(self._names(typing), "typing"),
        ]
        return "; ".join(part for part in parts if part)

    def _names(self, addresses: Iterable[str]) -> list[str]:
        known = (self.members.get(address) for address in addresses)
        return [person.name for person in known if person is not None]


class Rooms:
    """All rooms, in the order they were entered, and the one that is looked at."""

    def __init__(self) -> None:
        self._rooms: dict[str, Room] = {}
        self._current: str | None = None

    def __iter__(self) -> Iterator[Room]:
        return iter(self._rooms.values())

    def __contains__(self, name: str) -> bool:
        return name in self._rooms

    def __getitem__(self, name: str) -> Room:
        return self._rooms[name]

    @property
    def current(self) -> Room | None:
        return self._rooms.get(self._current) if self._current else None

    def open(self, name: str, title: str | None = None) -> Room:
        room = self._rooms.get(name)
        if room is None:
            room = self._rooms[name] = Room(name, title or name)
            self._close_old_talks(but=name)
            room.look_away()
        if self._current is None:
            self.show(name)
        return room

    def close(self, name: str) -> None:
        if name == self._current:
            self.step(-1 if name == list(self._rooms)[-1] else 1)
        self._rooms.pop(name, None)
        if self._current == name:
            self._current = None

    def show(self, name: str) -> Room:
        room = self._rooms[name]
        if room is not self.current:
            if self.current is not None:
                self.current.look_away()
            room.look_back()
        self._current = name
        room.unread, room.mentioned = 0, False
        return room

    def show_number(self, number: int) -> None:
        """The first room has number 1; a number that no room has changes nothing."""
        names = list(self._rooms)
        if 0 < number <= len(names):
            self.show(names[number - 1])

    def show_active(self) -> None:
        """The next room with something unread: first where the person was mentioned, then any other."""
        names = list(self._rooms)
        start = names.index(self._current) + 1 if self._current in names else 0
        following = [self._rooms[name] for name in names[start:] + names[:start]]
        for room in sorted(following, key=lambda room: not room.mentioned):  # the order stays among equals
            if room.unread:
                self.show(room.name)
                return

    def step(self, by: int) -> None:
        """On to the next room, or back; round and round."""
        names = list(self._rooms)
        if self._current in names:
            self.show(names[(names.index(self._current) + by) % len(names)])

    def hear(self, name: str, line: Line, title: str | None = None) -> Room:
        room = self.open(name, title)
        room.hear(line)
        room.typing.pop(line.sender, None)
        if line.kind is Kind.SAID and room is not self.current:
            room.unread += 1
            room.mentioned = room.mentioned or line.mentions_me or not room.is_channel
        return room

    def clear(self) -> None:
        """Forget the lines of the room that is looked at."""
        if self.current is not None:
            self.current.lines.clear()
            self.current.left_at = None

    def remember(self, channel: str, history: Iterable[Line]) -> None:
        """What was said before one came belongs before what was heard since."""
        room = self.open(channel)
        room.lines = deque([*history, *room.lines], maxlen=MAX_LINES)

    def set_members(self, channel: str, people: Iterable[Person]) -> None:
        self.open(channel).members = {person.address: person for person in people}

    def enter(self, channel: str, person: Person) -> None:
        if channel in self._rooms:
            self._rooms[channel].members[person.address] = person

    def leave(self, channel: str, address: str) -> None:
        if room := self._rooms.get(channel):
            room.members.pop(address, None)
            room.typing.pop(address, None)

    def rename(self, address: str, name: str) -> None:
        self._change(address, lambda person: replace(person, name=name))
        if talk := self._rooms.get(address):
            talk.title = f"@{name}"

    def set_presence(self, address: str, presence: str, status: str | None) -> None:
        self._change(address, lambda person: replace(person, presence=presence, status=status))

    def set_tokens(self, address: str, tokens: str | None) -> None:
        self._change(address, lambda person: replace(person, tokens=tokens))

    def typed(self, channel: str, address: str, now: float) -> None:
        if room := self._rooms.get(channel):
            room.typing[address] = now + TYPING_LASTS

    def name_of(self, address: str) -> str | None:
        """The name that an agent has in the rooms; None if it is in none of them."""
        people = (room.members.get(address) for room in self)
        return next((person.name for person in people if person is not None), None)

    def find(self, word: str) -> list[Person]:
        """All members with this address or this name; names need not be unique."""
        found = {
            person.address: person
            for room in self
            for person in room.members.values()
            if word.removeprefix("@") in (person.address.removeprefix("@"), person.name)
        }
        exact = found.get(f"@{word.removeprefix('@')}")
        return [exact] if exact else list(found.values())

    def _change(self, address: str, change: Callable[[Person], Person]) -> None:
        for room in self:
            if person := room.members.get(address):
                room.members[address] = change(person)

    def _close_old_talks(self, but: str) -> None:
        """Close the oldest talks. A peer that reconnects under new ids could open any number of them."""
        talks = [room.name for room in self if not room.is_channel and room.name not in (but, self._current)]
        for name in talks[: max(0, len(talks) - MAX_TALKS)]:
            del self._rooms[name]


def _sentence(names: list[str], doing: str) -> str:
    if not names:
        return ""
    if len(names) > MAX_NAMED:
        return f"{len(names)} agents are {doing}…"
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {doing}…"

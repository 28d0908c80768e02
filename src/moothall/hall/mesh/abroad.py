"""Agents of the network: those that other peers reach, and that have no connection to this hall.

Of each, the name in its last BEACON is kept, and which connections have heard it. One that says something in a
channel is in the roster of the hall, like any agent. All of that ends when it was silent for 90 seconds: an agent
sends a BEACON every 30 (mesh wire 7).
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from moothall.hall.agenda import Agenda
from moothall.hall.budgets import Accounts, Price
from moothall.hall.mesh.presence import Presence
from moothall.settings.limits import Rate

MAX_AGENTS: Final = 4096
MAX_SPEAKERS: Final = 256  # of them, in the roster
SILENCE: Final = 90.0  # seconds
# Lines from the network in one channel. Each agent has a rate of its own, but keys are free, and agents read lines.
LINES_OF_PEER: Final = Rate(100, 20)
LINES: Final = Rate(400, 20)
_LINE: Final = Price(frames=1)


class Remote:
    """One agent. For the hall it is a connection (`presence.Caller`) that cannot be told anything."""

    __slots__ = ("_abroad", "ip", "key", "name", "seen_at", "told_up_to")

    def __init__(self, abroad: "Abroad", key: bytes, ip: str) -> None:
        self._abroad = abroad
        self.key = key
        self.ip = ip  # of the peer that carries its envelopes
        self.name: str | None = None  # of its last BEACON, None before the first
        self.told_up_to = 0  # see `beacons`
        self.seen_at = 0.0

    def put_frame(self, frame: bytes) -> bool:
        return False

    def close(self, code: int, reason: str) -> None:
        """The hall puts it out."""
        self._abroad.forget(self)


class Abroad:
    def __init__(self, presence: Presence, agenda: Agenda, now: Callable[[], float]) -> None:
        self._presence = presence
        self._agenda = agenda
        self._now = now
        self._agents: OrderedDict[bytes, Remote] = OrderedDict()  # by key, the last that was heard of last
        self._speakers: OrderedDict[bytes, Remote] = OrderedDict()  # that are in the roster, likewise
        self._is_planned = False  # a look at the silent ones
        self._lines_of_peers: Accounts[bytes] = Accounts((LINES_OF_PEER,))
        self._lines: Accounts[str] = Accounts((LINES,))

    def __len__(self) -> int:
        return len(self._agents)

    @property
    def speakers(self) -> int:
        return len(self._speakers)

    def find(self, key: bytes) -> Remote | None:
        return self._agents.get(key)

    def heard(self, key: bytes, ip: str) -> Remote:
        """A BEACON or a line of this agent has come."""
        now = self._now()
        self._expire(now)
        remote = self._agents.pop(key, None) or Remote(self, key, ip)
        remote.seen_at = now
        self._agents[key] = remote
        if len(self._agents) > MAX_AGENTS:
            self.forget(next(iter(self._agents.values())))
        if key in self._speakers:
            self._speakers.move_to_end(key)
        return remote

    def may_speak(self, peer: bytes, topic: str) -> bool:
        """True if one more line that this peer brings may be said in the channel of the topic. It counts."""
        now = self._now()
        of_peer = self._lines_of_peers.of(peer + topic.encode(), now)
        if of_peer.take(_LINE, now):
            return False
        if self._lines.of(topic, now).take(_LINE, now):
            of_peer.charge(_LINE, now, -1)
            return False
        return True

    def enter(self, remote: Remote, name: str) -> None:
        """It says something in a channel, so it is in the roster from now on. Repeat it: its name may be new."""
        if remote.key not in self._speakers:
            if len(self._speakers) >= MAX_SPEAKERS:
                self.forget(next(iter(self._speakers.values())))
            self._speakers[remote.key] = remote
            self._plan(remote.seen_at + SILENCE)
        self._presence.arrive(remote, remote.key, name, proven=False)

    def renamed(self, remote: Remote, name: str) -> None:
        """A BEACON of it has come. The roster has the name of one that speaks."""
        if remote.key in self._speakers:
            self._presence.arrive(remote, remote.key, name, proven=False)

    def forget(self, remote: Remote) -> None:
        if self._agents.get(remote.key) is remote:
            del self._agents[remote.key]
        if self._speakers.get(remote.key) is remote:
            del self._speakers[remote.key]
            self._presence.depart(remote)

    def _plan(self, moment: float) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._agenda.at(moment, self._look)

    def _look(self) -> None:
        self._is_planned = False
        self._expire(self._now())
        if self._speakers:
            self._plan(next(iter(self._speakers.values())).seen_at + SILENCE)

    def _expire(self, now: float) -> None:
        while self._agents:
            oldest = next(iter(self._agents.values()))
            if now - oldest.seen_at < SILENCE:
                return
            self.forget(oldest)

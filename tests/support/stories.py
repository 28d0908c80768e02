"""Random stories of agents at several nodes that fail, on the bus in memory. `history` says whether they can be.

A story is made by its seed alone: it is told again in the same way.
"""

from itertools import count
from random import Random
from typing import Any, Final

from moothall.identity import PrivateKey
from moothall.wire.outgoing import Bundle, Outgoing
from tests.support.cluster import Halls
from tests.support.history import Fault, Healed, violations
from tests.support.notes import Message, Notes, Record
from tests.support.world import FakeLink, Guest

NODES: Final = ("a", "b", "c")
CHANNELS: Final = ("#one", "#two")
KEYS: Final = tuple(PrivateKey(bytes([number]) * 32) for number in range(6))
HEALING: Final = 20.0  # seconds after which all must be well
TELLING: Final = 2.0  # after which nodes that were apart have told what they know


class NotingLink(FakeLink):
    def __init__(self, notes: Notes) -> None:
        super().__init__()
        self._notes = notes

    def put(self, outgoing: Outgoing | Bundle) -> None:
        before = len(self.messages)
        super().put(outgoing)
        for message in self.messages[before:]:
            self._take(message)

    def _take(self, message: Message) -> None:
        if message["type"] == "WELCOME":
            self._notes.agent_id = message["agent_id"]
        self._notes.note(message)

    def close(self, code: int, reason: str) -> None:
        if self.closed is None:
            self._notes.note_end()
        super().close(code, reason)


class Actor(Notes):
    """One connection of an agent."""

    def __init__(self, story: "Story", number: int, node: str) -> None:
        super().__init__()
        self.number = number
        self.open_notes(story.record, node)
        self.guest: Guest = story.halls[node].connect(link=NotingLink(self))
        self._refs = count(1)
        self._send = story.halls[node].send
        story.halls[node].identify(self.guest, f"agent-{number}", key=KEYS[number])

    @property
    def is_open(self) -> bool:
        return self.guest.link.closed is None

    @property
    def is_welcome(self) -> bool:
        return self.is_open and bool(self.agent_id)

    def do(self, type: str, **fields: Any) -> None:  # noqa: A002  # the wire's word
        self._send(self.guest, type, ref=f"r{next(self._refs)}", **fields)

    def tell(self, to: str) -> str:
        ref = f"r{next(self._refs)}"
        text = self.says(to, ref)
        self._send(self.guest, "MSG", ref=ref, to=to, content=text)
        return text

    def claim(self, channel: str, text: str, started_at: int) -> None:
        ref = f"r{next(self._refs)}"
        msg_id = self.claims(text, ref)
        self._send(
            self.guest, "RESPONDING_TO", ref=ref, channel=channel, msg_id=msg_id, started_at=started_at
        )


class Story:
    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)  # noqa: S311
        self.halls = Halls(*NODES, random=self.dice, no_limits=True, auto_join=False)
        self.record = Record()
        self.actors: list[Actor | None] = [None] * len(KEYS)
        self.all: list[Actor] = []
        self.cut: set[str] = set()
        self.held: set[str] = set()
        self.killed: set[str] = set()
        self._is_faulty = False
        self._hurt: set[str] = set()  # nodes that were cut off or held, and may know what no other one knows
        self._healed_at = 0.0
        for number in range(len(KEYS)):
            self._come(number, NODES[number % len(NODES)])
        self.halls.settle()
        for channel in CHANNELS:
            self._some().do("CREATE_CHANNEL", channel=channel)
            self.halls.settle()
            for actor in self.actors:
                assert actor is not None
                if self.dice.random() < 0.7:
                    actor.do("JOIN", channel=channel)
                    self.halls.settle()

    def _some(self) -> Actor:
        return self.dice.choice([actor for actor in self.actors if actor is not None and actor.is_welcome])

    def go_on(self, acts: int) -> None:
        for _ in range(acts):
            name = self.dice.choices(list(ACTS), list(ACTS.values()))[0]
            getattr(self, f"_{name}")()
            self._look()

    def end(self) -> list[str]:
        """All is healed, and a last text comes to all members. What was wrong."""
        self._heal_all()
        self.halls.settle()
        self.halls.advance(HEALING)
        self._look()
        assert not self._is_faulty, "the nodes do not find together"
        problems = self._last_words()
        return problems + violations(self.record.events)

    def _last_words(self) -> list[str]:
        problems = []
        for channel in CHANNELS:
            members = [actor for actor in self.all if actor.is_welcome and channel in actor.channels]
            for speaker in members[:2]:
                text = speaker.tell(channel)
                self.halls.settle()
                if text in speaker.saying.values() or any(
                    member is not speaker and text not in member.heard for member in members
                ):
                    problems.append(f"the last words {text} did not come to all in {channel}")
        return problems

    # -- faults ----------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Note that the nodes are together again, if they are."""
        is_quiet = not (self.cut or self.held) and self.halls.broker.is_quiet
        if self._is_faulty and is_quiet and self._is_together():
            self._is_faulty = False
            self._healed_at = self.halls.clock.monotonic()
            self.record.events.append(Healed())
        elif not self._is_faulty and self.halls.clock.monotonic() - self._healed_at >= TELLING:
            self._hurt.clear()

    def _is_together(self) -> bool:
        """As agents can see: each node takes new ones, and knows those of the others."""
        clusters = self.halls.clusters
        return all(
            cluster.is_connected and len(cluster.nodes.live) == len(clusters) - 1 and cluster.roster.is_whole
            for cluster in clusters.values()
        )

    def _begin_fault(self) -> None:
        self._is_faulty = True
        self.record.events.append(Fault())

    def _up(self) -> list[str]:
        """Nodes that do something."""
        return sorted(set(self.halls.worlds) - self.held)

    def _cut(self) -> None:
        whole = sorted(set(self.halls.worlds) - self.cut)
        if whole:
            self._begin_fault()
            nodes = self.dice.sample(whole, self.dice.choice((1, 1, 1, len(whole))))
            self.cut.update(nodes)
            self._hurt.update(nodes)
            self.halls.cut(*nodes)

    def _forget(self) -> None:
        """NATS fails for all nodes. When it is back, it has lost which nodes live, or all its data."""
        self._begin_fault()
        nodes = set(self.halls.worlds)
        self.halls.cut(*sorted(nodes - self.cut))
        self.cut |= nodes
        self._hurt |= nodes
        self.halls.broker.forget(*self.dice.choice(((), ("nodes",))))

    def _heal(self) -> None:
        if self.cut:
            node = self.dice.choice(sorted(self.cut))
            self.cut.discard(node)
            self.halls.heal(node)

    def _hold(self) -> None:
        if len(self._up()) > 1:
            self._begin_fault()
            node = self.dice.choice(self._up())
            self.held.add(node)
            self._hurt.add(node)
            self.halls.broker.held.add(node)

    def _release(self) -> None:
        if self.held:
            node = self.dice.choice(sorted(self.held))
            self.held.discard(node)
            self.halls.broker.held.discard(node)

    def _kill(self) -> None:
        """A node that is with the others: what it heard apart from them is lost with it, and no other one knows."""
        whole = sorted(set(self.halls.worlds) - self._hurt)
        if len(self.halls.worlds) == len(NODES) and whole:
            node = self.dice.choice(whole)
            self.halls.end_turn()
            self.killed.add(node)
            self.halls.kill(node)
            for actor in self.all:
                if actor.node == node:
                    actor.guest.link.close(1006, "")

    def _restart(self) -> None:
        if self.killed:
            self.halls.start(self.killed.pop())

    def _heal_all(self) -> None:
        self._restart()
        while self.held:
            self._release()
        while self.cut:
            self._heal()

    # -- time ------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        self.halls.advance(self.dice.choice((0.3, 0.6, 1.2, 2.5, 6.0)))

    def _hurry(self) -> None:
        """The bus is slow. If so slow that a node loses touch, that is a fault."""
        before, clusters = len(self.record.events), self.halls.clusters.values()
        connected = [cluster for cluster in clusters if cluster.is_connected]
        self.halls.advance(self.dice.choice((0.1, 0.3, 0.6)), settles=False)
        if not self._is_faulty and not all(cluster.is_connected for cluster in connected):
            self._is_faulty = True
            self.record.events.insert(before, Fault())

    def _settle(self) -> None:
        self.halls.settle()

    def _steps(self) -> None:
        self.halls.end_turn()
        for _ in range(self.dice.randrange(12)):
            self.halls.broker.step()

    # -- agents ----------------------------------------------------------------------------------------

    def _acting(self, *, joined: bool = False) -> Actor | None:
        """One whose node does something."""
        found = [
            actor
            for actor in self.actors
            if actor is not None
            and actor.is_welcome
            and actor.node not in self.held
            and (actor.channels or not joined)
        ]
        return self.dice.choice(found) if found else None

    def _come(self, number: int, node: str) -> None:
        actor = Actor(self, number, node)
        self.all.append(actor)
        self.actors[number] = actor

    def _arrive(self) -> None:
        """To a random node. An earlier connection is displaced, if there is one."""
        if self._up():
            self._come(self.dice.randrange(len(KEYS)), self.dice.choice(self._up()))

    def _go(self) -> None:
        if actor := self._acting():
            self.halls[actor.node].disconnect(actor.guest)

    def _say(self) -> None:
        if actor := self._acting(joined=True):
            actor.tell(self.dice.choice(sorted(actor.channels)))

    def _tell(self) -> None:
        other = self.dice.choice(self.actors)
        if (actor := self._acting()) and other is not None and other.agent_id:
            actor.tell(other.agent_id)
            if not self._is_faulty:
                self.halls.settle()  # ACK does not mean that a fault loses it no more

    def _join(self) -> None:
        if actor := self._acting():
            actor.do("JOIN", channel=self.dice.choice(CHANNELS))

    def _leave(self) -> None:
        if actor := self._acting(joined=True):
            actor.do("LEAVE", channel=self.dice.choice(sorted(actor.channels)))

    def _claim(self) -> None:
        if (actor := self._acting(joined=True)) and actor.latest is not None:
            channel, text = actor.latest
            if channel in actor.channels:
                actor.claim(channel, text, self.dice.randrange(1000))


ACTS: Final[dict[str, int]] = {
    "say": 30,
    "tell": 4,
    "join": 12,
    "leave": 4,
    "claim": 5,
    "arrive": 10,
    "go": 3,
    "steps": 14,
    "settle": 4,
    "hurry": 8,
    "wait": 8,
    "cut": 2,
    "forget": 1,
    "heal": 5,
    "hold": 2,
    "release": 5,
    "kill": 2,
    "restart": 4,
}


def broken(seed: int, acts: int = 80) -> list[str]:
    """The promises that were broken in this story."""
    story = Story(seed)
    story.go_on(acts)
    return story.end()

"""Several nodes that are one hall, in one process: a bus in memory, one store, one made-up clock.

    halls = Halls("a", "b")
    alice = halls.agent("a", "alice")
    bob = halls.agent("b", "bob", key=BOB)
    halls.send(alice, "MSG", to=bob.id, content="hello")
    assert_sent(bob, "MSG", content="hello")

`send` and the others bring everything on the bus to its end. A test that wants something to happen on the way calls
`halls["a"].send` instead, then `end_turn` and `broker.step`.
"""

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any, Final

from moothall.hall.cluster.cluster import Cluster
from moothall.identity import PrivateKey
from tests.court.books import MemoryBooks
from tests.support.memory_bus import Broker
from tests.support.world import Clock, Guest, World, assert_sent

MOST_ROUNDS: Final = 10_000
TOKEN_SECRET: Final = b"of all nodes"
FAILURES: Final = ("bus_message_failed", "channel_failed")


class Halls:
    def __init__(self, *names: str, random: Random | None = None, **settings: Any) -> None:
        self.random = random or Random(1)  # noqa: S311
        self.broker = Broker(self.random)
        self.clock = Clock()
        self.books = MemoryBooks()
        self.worlds: dict[str, World] = {}
        self.clusters: dict[str, Cluster] = {}
        self.raises_failures = True  # False: the test is about one
        self._soon: dict[str, list[Callable[[], None]]] = {}
        self._settings = settings
        for name in names:
            self.start(name)
        self.settle()

    def __getitem__(self, name: str) -> World:
        return self.worlds[name]

    def __iter__(self) -> Iterator[World]:
        return iter(self.worlds.values())

    # -- nodes -------------------------------------------------------------------------------------

    def start(self, name: str) -> World:
        """A new node, or a new process of one that was killed."""
        world = self.make(name)
        soon = self._soon[name] = []
        cluster = Cluster(world.hall, self.broker.bus(name), name, soon.append)
        self.worlds[name] = world
        self.clusters[name] = cluster
        cluster.open()
        return world

    def make(self, name: str) -> World:
        dice = Random(f"{name} {self.random.random()}")  # noqa: S311
        return World(
            books=self.books, clock=self.clock, dice=dice, token_secret=TOKEN_SECRET, **self._settings
        )

    def kill(self, name: str) -> None:
        """The process is gone, with all that it had. What it has published arrives."""
        self.broker.kill(name)
        del self.worlds[name], self.clusters[name], self._soon[name]

    def cut(self, *names: str) -> None:
        self.broker.cut(*names)

    def heal(self, *names: str) -> None:
        self.broker.heal(*names)

    # -- time --------------------------------------------------------------------------------------

    def end_turn(self) -> bool:
        """What the nodes have to say leaves them. False: there is nothing."""
        has_more = False
        for name, soon in self._soon.items():
            if name not in self.broker.held:
                tasks, soon[:] = soon[:], []
                for task in tasks:
                    has_more = True
                    task()
        return has_more

    def settle(self) -> None:
        """Until nothing is on the way. Time stands still."""
        for _ in range(MOST_ROUNDS):
            self.broker.run()
            if not self.end_turn():
                self._raise_failures()
                return
        raise AssertionError("the nodes never stop talking to each other")

    def _raise_failures(self) -> None:
        """What a real node logs when it fails at a message or a channel, is for tests a failure."""
        failures = [facts for world in self for event in FAILURES for facts in world.log.find(event)]
        if failures and self.raises_failures:
            error = failures[0]["exc_info"]
            assert isinstance(error, Exception)
            raise error

    def advance(self, seconds: float, *, settles: bool = True) -> None:
        """Let time pass on all nodes that do not stand still."""
        end = self.clock.monotonic() + seconds
        while (due := self._next_alarm()) is not None and due <= end:
            self.clock.move_to(max(due, self.clock.monotonic()))
            self._tick()
            if settles:
                self.settle()
        self.clock.move_to(end)

    def _running(self) -> list[World]:
        return [world for name, world in self.worlds.items() if name not in self.broker.held]

    def _next_alarm(self) -> float | None:
        return min((world._alarm for world in self._running() if world._alarm is not None), default=None)

    def _tick(self) -> None:
        for world in self._running():
            if world._take_alarm(self.clock.monotonic()) is not None:
                world.hall.tick()

    # -- guests ------------------------------------------------------------------------------------

    def connect(self, node: str, ip: str = "192.0.2.1", *, is_loopback: bool = False) -> Guest:
        return self.worlds[node].connect(ip, is_loopback=is_loopback)

    def identify(self, guest: Guest, name: str = "someone", **fields: Any) -> None:
        """IDENTIFY, and the proof if there is a key; what comes of it is for the test to see."""
        self.world_of(guest).identify(guest, name, **fields)
        self.settle()

    def agent(
        self,
        node: str,
        name: str = "someone",
        *,
        key: PrivateKey | None = None,
        kind: str | None = None,
        features: Iterable[str] = (),
        ip: str = "192.0.2.1",
        is_loopback: bool = False,
        join: str | Iterable[str] = (),
    ) -> Guest:
        """A guest that has been through the whole handshake, is in these channels, and has read it all."""
        guest = self.connect(node, ip, is_loopback=is_loopback)
        self.identify(guest, name, key=key, kind=kind, features=features)
        guest.id = assert_sent(guest, "WELCOME")["agent_id"]
        for channel in (join,) if isinstance(join, str) else join:
            self.send(guest, "JOIN", channel=channel)
        guest.read()
        return guest

    def world_of(self, guest: Guest) -> World:
        return next(world for world in self if guest in world.guests)

    def send(self, guest: Guest, type: str, /, **fields: Any) -> None:  # noqa: A002  # the wire's word
        self.world_of(guest).send(guest, type, **fields)
        self.settle()

    def disconnect(self, guest: Guest) -> None:
        self.world_of(guest).disconnect(guest)
        self.settle()

    def hush(self) -> None:
        """Everybody has read everything."""
        for world in self:
            world.hush()

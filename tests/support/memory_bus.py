"""A bus in memory, for halls in one process: it keeps the order that a real one keeps, and no other.

What each node published waits in one line per subscriber. `run` takes from the lines in an order that the given
random numbers choose. Nodes can be cut off, as by a network that fails.
"""

from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Final, get_args

from moothall.hall.cluster.bus import Bucket, Entry, Failed, Received, Stop

Task = Callable[[], None]
Told = Callable[[Entry], None]

# The registry answers in one line, and tells of changes in another. So a node may hear of a change before an older
# answer, as with NATS.
REGISTRY: Final = ""
WATCH: Final = "watch"
FAR: Final = 1000  # revisions that no entry had yet


class Broker:
    """What all nodes are connected to."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._lines: dict[tuple[str, str], deque[Task]] = {}  # from and to
        self._buses: dict[str, MemoryBus] = {}
        self.entries: dict[Bucket, dict[str, Entry]] = {"nodes": {}, "ids": {}, "homes": {}}
        self._revision = 0
        self.published = 0
        self.held: set[str] = set()  # nodes that stand still: what comes to them waits
        self.losing: set[tuple[str, str]] = set()  # from and to: messages between these nodes are lost
        self.delayed: set[tuple[str, str]] = set()  # from and to: messages between these nodes wait

    @classmethod
    def seeded(cls, seed: int) -> "Broker":
        return cls(Random(seed))  # noqa: S311

    def bus(self, node: str) -> "MemoryBus":
        bus = self._buses[node] = MemoryBus(self, node)
        return bus

    def cut(self, *nodes: str) -> None:
        """These nodes reach the bus no more. What they had on the way is lost."""
        for node in nodes:
            for (start, end), line in self._lines.items():
                if node in (start, end):
                    line.clear()
            self._buses[node].fall()

    def kill(self, node: str) -> None:
        """The process of the node is gone. What it has published arrives."""
        for (_, end), line in self._lines.items():
            if end == node:
                line.clear()
        self._buses[node].fall()

    def heal(self, *nodes: str) -> None:
        for node in nodes:
            self._buses[node].rise()

    def forget(self, *buckets: Bucket) -> None:
        """The registry loses all entries, or those of these buckets. Its next revisions are higher than before.

        NATS loses `nodes` when it restarts, and the others with its disk.
        """
        for bucket in buckets or get_args(Bucket):
            self.entries[bucket].clear()
        self._revision += FAR

    def lose(self) -> None:
        """Lose one message between two nodes, as a bus does to a node that reads too slowly."""
        waiting = [
            line for way, line in self._lines.items() if line and not {REGISTRY, WATCH}.intersection(way)
        ]
        if waiting:
            line = self._random.choice(waiting)
            del line[self._random.randrange(len(line))]

    def hold_back(self, node: str) -> list[tuple[str, Task]]:
        """What the node has published and nobody has yet: tasks for `later`, with the node that each is for."""
        found = []
        for (start, end), line in self._lines.items():
            if start == node:
                found += [(end, task) for task in line]
                line.clear()
        return found

    def step(self) -> bool:
        """Deliver one message. False: there is none, but for nodes that are held, or on ways that are delayed."""
        waiting = [
            line
            for way, line in self._lines.items()
            if line and way[1] not in self.held and way not in self.delayed
        ]
        if not waiting:
            return False
        self._random.choice(waiting).popleft()()
        return True

    @property
    def is_quiet(self) -> bool:
        """True if nothing is on the way."""
        return not any(self._lines.values())

    def run(self, most: int = 1_000_000) -> None:
        """Deliver until nothing is on the way."""
        for _ in range(most):
            if not self.step():
                return
        raise AssertionError(f"still not quiet after {most} messages")

    # -- for buses ---------------------------------------------------------------------------------

    def later(self, start: str, end: str, task: Task) -> None:
        self._lines.setdefault((start, end), deque()).append(task)

    def deliver(self, start: str, subject: str, payload: bytes) -> None:
        for name, bus in self._buses.items():
            if (
                name != start
                and bus.is_up
                and subject in bus.subscriptions
                and (start, name) not in self.losing
            ):
                self.published += 1
                self.later(start, name, lambda bus=bus: bus.take(subject, payload))  # type: ignore[misc]

    def change(self, bucket: Bucket, key: str, value: bytes, revision: int) -> int | None:
        entries = self.entries[bucket]
        current = entries.get(key)
        if revision != (current.revision if current is not None else 0):
            return None
        self._revision += 1
        entry = Entry(key, value, self._revision)
        if value:
            entries[key] = entry
        else:
            del entries[key]
        for name, bus in self._buses.items():
            if bus.is_up:
                self.later(WATCH, name, lambda bus=bus: bus.registry.changed(bucket, entry))  # type: ignore[misc]
        return self._revision


class MemoryBus:
    def __init__(self, broker: Broker, node: str) -> None:
        self._broker = broker
        self.node = node
        self.is_up = True
        self.subscriptions: dict[str, list[Received]] = {}
        self.registry = MemoryRegistry(broker, self)
        self._told: list[Callable[[bool], None]] = []

    def publish(self, subject: str, payload: bytes) -> None:
        if self.is_up:
            self._broker.deliver(self.node, subject, payload)

    def subscribe(self, subject: str, received: Received) -> Stop:
        self.subscriptions.setdefault(subject, []).append(received)

        def stop() -> None:
            own = self.subscriptions[subject]
            own.remove(received)
            if not own:
                del self.subscriptions[subject]

        return stop

    def on_change(self, told: Callable[[bool], None]) -> None:
        self._told.append(told)

    def take(self, subject: str, payload: bytes) -> None:
        if self.is_up:
            for received in list(self.subscriptions.get(subject, ())):
                received(payload)

    def fall(self) -> None:
        self.is_up = False
        self.registry.fail_all()
        for told in self._told:
            told(False)

    def rise(self) -> None:
        self.is_up = True
        self.registry.look_again()
        for told in self._told:
            told(True)


class MemoryRegistry:
    def __init__(self, broker: Broker, bus: MemoryBus) -> None:
        self._broker = broker
        self._bus = bus
        self._watchers: dict[Bucket, list[Told]] = {}
        self._known: dict[Bucket, dict[str, int]] = {}  # revisions of the entries that watchers know
        self._asking: dict[int, Failed] = {}
        self._number = 0

    def get(self, bucket: Bucket, key: str, done: Callable[[Entry | None], None], failed: Failed) -> None:
        self._ask(lambda: self._answer(done, self._broker.entries[bucket].get(key)), failed)

    def put(
        self,
        bucket: Bucket,
        key: str,
        value: bytes,
        revision: int,
        done: Callable[[int | None], None],
        failed: Failed,
    ) -> None:
        self._ask(lambda: self._answer(done, self._broker.change(bucket, key, value, revision)), failed)

    def delete(
        self, bucket: Bucket, key: str, revision: int, done: Callable[[bool], None], failed: Failed
    ) -> None:
        def change() -> Task:
            return self._answer(done, self._broker.change(bucket, key, b"", revision) is not None)

        self._ask(change, failed)

    def watch(self, bucket: Bucket, told: Told, ready: Callable[[], None]) -> Stop:
        for entry in list(self._broker.entries[bucket].values()):
            self._tell_later(bucket, entry, [told])
        self._broker.later(WATCH, self._bus.node, ready)
        self._watchers.setdefault(bucket, []).append(told)
        return lambda: self._watchers[bucket].remove(told)

    def changed(self, bucket: Bucket, entry: Entry) -> None:
        self._tell(bucket, entry, self._watchers.get(bucket, ()))

    def look_again(self) -> None:
        """After a failure: watchers are told of what there is now, and of what was deleted meanwhile."""
        for bucket, watchers in self._watchers.items():
            present, known = self._broker.entries[bucket], self._known.get(bucket, {})
            gone = [Entry(key, b"", revision + 1) for key, revision in known.items() if key not in present]
            for entry in [*present.values(), *gone]:
                self._tell_later(bucket, entry, watchers)

    def _tell_later(self, bucket: Bucket, entry: Entry, watchers: Iterable[Told]) -> None:
        self._broker.later(WATCH, self._bus.node, lambda: self._tell(bucket, entry, watchers))

    def _tell(self, bucket: Bucket, entry: Entry, watchers: Iterable[Told]) -> None:
        known = self._known.setdefault(bucket, {})
        if entry.value:
            known[entry.key] = entry.revision
        else:
            known.pop(entry.key, None)
        for told in list(watchers):
            told(entry)

    def fail_all(self) -> None:
        asking, self._asking = self._asking, {}
        for failed in asking.values():
            failed(ConnectionError("the bus is down"))

    def _ask(self, act: Callable[[], Task], failed: Failed) -> None:
        """The question travels to the registry, and the answer back. Either may be lost with the bus."""
        if not self._bus.is_up:
            self._broker.later(
                self._bus.node, self._bus.node, lambda: failed(ConnectionError("the bus is down"))
            )
            return
        self._number += 1
        number = self._number
        self._asking[number] = failed

        def arrive() -> None:
            answer = act()

            def come_back() -> None:
                if self._asking.pop(number, None) is not None:
                    answer()

            self._broker.later(REGISTRY, self._bus.node, come_back)

        self._broker.later(self._bus.node, REGISTRY, arrive)

    @staticmethod
    def _answer(done: Callable[..., None], result: object) -> Task:
        return lambda: done(result)

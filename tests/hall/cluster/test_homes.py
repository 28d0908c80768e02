"""Channels over several nodes: one order for all, one home at a time, and no line lost or doubled in silence."""

import json
from collections.abc import Callable
from itertools import combinations
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from moothall.hall.agenda import Agenda
from moothall.hall.channel_kind import Kind
from moothall.hall.cluster.homes import Homes
from moothall.hall.cluster.log import RING_BYTES, RING_RECORDS, Decision
from moothall.hall.cluster.nodes import Node, Nodes
from moothall.hall.cluster.post import Post
from moothall.hall.cluster.replicas import Role
from moothall.hall.shared_memory import SharedMemory
from moothall.wire.bus import EVERY_NODE, Origin, node_subject
from tests.support.memory_bus import Broker
from tests.support.world import Clock, LogBook

ROOM = "#room"
GAP = "(gap)"
REFUSED = b"refused"


class ToyRoom:
    """A channel that has members and lines, and nothing else."""

    log: Any = None
    has_lost = False
    is_unheard = False

    def __init__(self, machine: "Machine") -> None:
        self.machine = machine
        self.members: dict[str, str] = {}  # with their node
        self.lines: list[str] = []
        self.entering = 0
        self.gone: set[str] = set()  # members that left here while others did not know

    @property
    def is_wanted(self) -> bool:
        return bool(self.machine.seen) or self.entering > 0

    def member_nodes(self) -> set[str]:
        return set(self.members.values())

    def decide(self, body: bytes, node: str) -> Decision:
        what, *rest = json.loads(body)
        if what == "say" and rest[0] not in self.members:
            return Decision(None, REFUSED)
        if what == "enter" and rest[0] in self.members:
            return Decision(None)
        return Decision(json.dumps([[what, *rest]]).encode())

    def apply(self, body: bytes, *, again: bool) -> None:
        for what, *rest in json.loads(body):
            if what == "say":
                self.lines.append(rest[1])
                if not again:
                    self._tell(rest[1])
            elif what == "enter":
                member, node = rest
                self.members[member] = node
                if node == self.machine.name:
                    self.machine.seen.setdefault(member, [])
            elif what == "leave":
                self.members.pop(rest[0], None)
                self.machine.seen.pop(rest[0], None)
            else:
                self._tell(GAP)

    def _tell(self, what: str) -> None:
        for seen in self.machine.seen.values():
            seen.append(what)

    def state(self) -> bytes:
        return json.dumps([self.members, self.lines]).encode()

    def install(self, state: bytes, *, missed: bool, apart: bool) -> None:
        self.members, self.lines = json.loads(state)
        here = self.machine.name
        if apart:
            self.gone = {member for member, node in self.members.items() if node == here} - set(
                self.machine.seen
            )
            self.members = {member: node for member, node in self.members.items() if node != here}
            self.members |= dict.fromkeys(self.machine.seen, here)
        else:
            own = [member for member, node in self.members.items() if node == here]
            self.machine.seen = {member: self.machine.seen.get(member, []) for member in own}
        if missed:
            self._tell(GAP)

    def own(self) -> bytes:
        return json.dumps(list(self.machine.seen)).encode()

    def check_own(self, own: bytes) -> None: ...

    def reconcile(self, node: str, own: bytes) -> bytes:
        has = json.loads(own)
        events = [
            ["leave", member] for member, of in self.members.items() if of == node and member not in has
        ]
        if node == self.machine.name:
            events += [["leave", member] for member in self.gone]
        events += [["enter", member, node] for member in has]
        return json.dumps([*events, ["gap"]]).encode()

    def without(self, node: str) -> bytes | None:
        events = [["leave", member] for member, of in self.members.items() if of == node]
        return json.dumps(events).encode() if events else None

    def emptied(self) -> None:
        self.members.clear()
        self.lines.clear()

    def became_home(self) -> None:
        self.machine.became_home += 1

    def resigned(self) -> None:
        self.machine.became_home -= 1


class Machine:
    """One node, without a hall."""

    def __init__(self, town: "Town", name: str) -> None:
        self.name = name
        self.is_dead = False
        self.became_home = 0
        self.seen: dict[str, list[str]] = {}  # by member that is connected here
        self.bus = town.broker.bus(name)
        self.agenda = Agenda(lambda due: None)
        log = LogBook()
        self.turn: list[Any] = []
        self.post = Post(self.bus, name, self.turn.append, log)
        self.nodes = Nodes(self.bus, name, self.agenda, town.clock, log)
        self.post.admits = lambda origin, message: self.nodes.is_alive(*origin)
        self.post.may_send = lambda: self.nodes.has_lease
        self.nodes.on_begun(self._begin)
        self.nodes.on_ended(lambda life: self.post.forget())
        self.homes = Homes(
            self.bus,
            self.post,
            self.nodes,
            self.agenda,
            town.clock,
            lambda channel: self.room,
            lambda channel: Kind(),
            self._failed,
            SharedMemory(RING_BYTES, RING_BYTES),
        )
        self.room = ToyRoom(self)
        self.nodes.on_gone(self._gone)
        self.nodes.on_joined(lambda node: self.homes.node_joined(node.name))
        for subject in (EVERY_NODE, node_subject(name)):
            self.post.listen(subject)
        self.nodes.open()
        self.homes.open()
        self.acked: list[str] = []
        self.marks = 0

    def _begin(self, life: int) -> None:
        self.post.origin = Origin(self.name, life)

    def _failed(self, channel: str, error: Exception) -> None:
        raise error

    def _gone(self, node: Node) -> None:
        self.homes.node_gone(node.name)

    def run(self, now: float) -> None:
        if not self.is_dead:
            self.agenda.run(now)
            self.flush()

    def flush(self) -> None:
        while self.turn:
            self.turn.pop(0)()

    @property
    def log(self) -> Any:
        return self.homes.logs.get(ROOM)

    def _submit(self, what: list[str], done: Any, mark: str = "") -> None:
        self.marks += 1
        log = self.homes.want(ROOM)
        log.submit(
            mark or f"{self.name}:{self.post.origin.life}:{self.marks}", json.dumps(what).encode(), done
        )
        self.homes.review(log)

    def enter(self, member: str) -> None:
        self.room.entering += 1

        def done(answer: bytes) -> None:
            self.room.entering -= 1

        self._submit(["enter", member, self.name], done)

    def leave(self, member: str) -> None:
        self._submit(["leave", member], lambda answer: None)

    def say(self, member: str, text: str) -> None:
        def done(answer: bytes) -> None:
            if not answer:
                self.acked.append(text)

        self._submit(["say", member, text], done, text)


class Town:
    def __init__(self, random: Random, nodes: int = 3) -> None:
        self.random = random
        self.broker = Broker(random)
        self.clock = Clock()
        self.machines = [Machine(self, f"n{number}") for number in range(nodes)]
        self.said: dict[str, int] = {}
        self.homes_seen: dict[int, set[str]] = {}
        self.settle()

    @property
    def alive(self) -> list[Machine]:
        return [machine for machine in self.machines if not machine.is_dead]

    def step(self) -> bool:
        for machine in self.alive:
            machine.flush()
        is_moving = self.broker.step()
        for machine in self.alive:
            log = machine.log
            if log is not None and log.role is Role.HOME:
                nodes = self.homes_seen.setdefault(log.epoch, set())
                nodes.add(machine.name)
                assert len(nodes) == 1, f"two homes in epoch {log.epoch}"
            machine.flush()
        return is_moving

    def quiet(self) -> None:
        for _ in range(5000):
            if not self.step():
                return
        raise AssertionError("never quiet")

    def pass_time(self, seconds: float) -> None:
        self.clock.move_to(self.clock.monotonic() + seconds)
        for machine in self.alive:
            machine.run(self.clock.monotonic())

    def settle(self, seconds: float = 3.0) -> None:
        for _ in range(int(seconds / 0.5)):
            self.quiet()
            self.pass_time(0.5)
        self.quiet()

    def say(self, member: str) -> str | None:
        for machine in self.alive:
            if member in machine.seen:
                self.said[member] = self.said.get(member, 0) + 1
                text = f"{member}-{self.said[member]:04}"
                machine.say(member, text)
                return text
        return None

    def kill(self, machine: Machine) -> None:
        self.broker.cut(machine.name)
        machine.is_dead = True

    def check(self) -> None:
        members = {name: seen for machine in self.alive for name, seen in machine.seen.items()}
        rooms = [machine.room for machine in self.alive if machine.seen]
        for room in rooms:
            assert room.members == {name: machine.name for machine in self.alive for name in machine.seen}, (
                "all nodes know all members"
            )
            assert room.lines == rooms[0].lines, "one history"
        deciding = [machine.name for machine in self.alive if machine.became_home]
        assert len(deciding) <= 1 or not rooms
        assert all(machine.became_home in (0, 1) for machine in self.alive)
        known = {line for seen in members.values() for line in seen if line != GAP}
        known |= {line for machine in self.alive for line in machine.acked}
        for name, seen in members.items():
            lines = [line for line in seen if line != GAP]
            assert len(lines) == len(set(lines)), f"{name} saw a line twice"
            for author in self.said:
                own = [line for line in lines if line.startswith(author + "-")]
                assert own == sorted(own), f"{name} saw lines of {author} in another order"
            if GAP not in seen:
                missing = known - set(lines)
                assert not missing, f"{name} was not told of {missing}"
        for one, other in combinations(members.values(), 2):
            ours, theirs = since_gap(one), since_gap(other)
            assert [line for line in ours if line in theirs] == [line for line in theirs if line in ours]


def since_gap(seen: list[str]) -> list[str]:
    while GAP in seen:
        seen = seen[seen.index(GAP) + 1 :]
    return seen


def town_with_members(random: Random, nodes: int = 3) -> Town:
    """Two members on each node."""
    town = Town(random, nodes)
    for machine in town.machines:
        for number in range(2):
            machine.enter(f"{machine.name}{'ab'[number]}")
    town.settle()
    assert all(len(machine.seen) == 2 for machine in town.machines)
    for machine in town.machines:
        for seen in machine.seen.values():
            assert GAP not in seen
    return town


SEEDS = st.integers(0, 2**32)


@given(SEEDS, st.lists(st.integers(0, 5), max_size=30))
@settings(max_examples=20, deadline=None)
def test_all_members_see_one_order(seed: int, speakers: list[int]) -> None:
    random = Random(seed)  # noqa: S311
    town = town_with_members(random)
    for speaker in speakers:
        town.say(f"n{speaker // 2}{'ab'[speaker % 2]}")
        for _ in range(random.randrange(4)):
            town.step()
    town.settle(2)
    town.check()
    for machine in town.machines:
        for seen in machine.seen.values():
            assert len(seen) == len(speakers)
    acked = sorted(line for machine in town.machines for line in machine.acked)
    assert acked == sorted(town.machines[0].room.lines)


FAULTS = st.sampled_from(
    ("say", "say", "say", "say", "lose", "cut", "heal", "kill", "time", "long", "leave", "steps")
)


@given(SEEDS, st.lists(FAULTS, max_size=60))
@settings(max_examples=60, deadline=None)
def test_faults_lose_nothing_in_silence(seed: int, faults: list[str]) -> None:
    random = Random(seed)  # noqa: S311
    town = town_with_members(random, 4)
    cut: set[Machine] = set()
    for fault in faults:
        machine = random.choice(town.alive)
        if fault == "say" and machine.seen:
            for _ in range(random.randrange(1, 4)):
                town.say(random.choice(list(machine.seen)))
        elif fault == "lose":
            town.broker.lose()
        elif fault == "cut":
            town.broker.cut(machine.name)
            cut.add(machine)
        elif fault == "heal" and cut:
            town.broker.heal(cut.pop().name)
        elif fault == "kill" and len(town.alive) > 2:
            town.kill(machine)
            cut.discard(machine)
        elif fault == "leave" and len(machine.seen) > 1:
            machine.leave(random.choice(list(machine.seen)))
        elif fault == "time":
            town.pass_time(random.choice((0.1, 0.6, 1.2)))
        elif fault == "long":
            town.settle(random.choice((2, 5)))
        for _ in range(random.randrange(12)):
            town.step()
    for machine in cut:
        town.broker.heal(machine.name)
    town.settle(12)
    town.check()
    before = {name: len(seen) for machine in town.alive for name, seen in machine.seen.items()}
    if not before:
        return  # all have left
    text = town.say(next(iter(before)))
    town.settle(2)
    for machine in town.alive:
        for name, seen in machine.seen.items():
            assert seen[before[name] :] == [text], "after all is well, lines reach all"


def home_of(town: Town) -> Machine:
    (home,) = (machine for machine in town.alive if machine.log is not None and machine.log.role is Role.HOME)
    return home


def count(town: Town, act: Callable[[], object]) -> int:
    before = town.broker.published
    act()
    town.quiet()
    return town.broker.published - before


def test_a_line_costs_a_message_per_node_with_members() -> None:
    town = town_with_members(Random(1), 4)  # noqa: S311
    home = home_of(town)
    member = next(iter(home.seen))
    assert count(town, lambda: town.say(member)) == 3
    other = next(machine for machine in town.machines if machine is not home)
    guest = next(iter(other.seen))
    assert count(town, lambda: town.say(guest)) == 4
    other.leave(guest)
    other.leave(next(name for name in other.seen if name != guest))
    town.settle()
    assert other.log is None
    assert count(town, lambda: town.say(member)) == 2


def test_a_channel_of_one_node_costs_nothing() -> None:
    town = Town(Random(1))  # noqa: S311
    machine = town.machines[0]
    machine.enter("a")
    machine.enter("b")
    town.settle()
    assert count(town, lambda: [town.say("a") for _ in range(10)]) == 0
    assert len(machine.seen["b"]) == 10
    assert all(other.log is None for other in town.machines[1:])


def test_a_home_without_members_hands_the_channel_over() -> None:
    town = town_with_members(Random(1))  # noqa: S311
    former = home_of(town)
    town.say(next(iter(former.seen)))
    for member in list(former.seen):
        former.leave(member)
    town.settle()
    home = home_of(town)
    assert home is not former
    assert former.log is None
    town.say(next(iter(home.seen)))
    town.settle(1)
    for machine in town.machines:
        for seen in machine.seen.values():
            assert len(seen) == 2, "without a gap"
    former.enter("back")
    town.settle(1)
    assert former.room.lines == home.room.lines
    assert former.room.members == home.room.members


def test_the_members_of_a_dead_home_leave_and_another_node_goes_on() -> None:
    town = town_with_members(Random(1))  # noqa: S311
    former = home_of(town)
    town.kill(former)
    other = town.alive[0]
    text = town.say(next(iter(other.seen)))
    town.settle(5)
    assert home_of(town) is not former
    town.check()
    for machine in town.alive:
        for seen in machine.seen.values():
            assert seen == [text], "said while there was no home, and told once"


def test_a_node_that_missed_too_much_is_told_of_a_gap() -> None:
    town = town_with_members(Random(1))  # noqa: S311
    home = home_of(town)
    other = next(machine for machine in town.machines if machine is not home)
    member = next(iter(home.seen))
    for _ in range(RING_RECORDS + 5):
        town.say(member)
    home.flush()
    for _ in range(2):
        town.broker.lose()
    town.settle(3)
    town.check()
    missing = [seen for machine in town.machines for seen in machine.seen.values() if GAP in seen]
    assert len(missing) == 4, "the members of two nodes"
    assert other.room.lines == home.room.lines


def test_a_short_failure_of_the_bus_leaves_no_gap() -> None:
    town = town_with_members(Random(1))  # noqa: S311
    names = [machine.name for machine in town.machines]
    town.broker.cut(*names)
    for machine in town.machines:
        town.say(next(iter(machine.seen)))
    town.pass_time(0.5)
    town.quiet()
    town.broker.heal(*names)
    town.settle(4)
    town.check()
    for machine in town.machines:
        for seen in machine.seen.values():
            assert GAP not in seen
            assert len(seen) == 3


def test_each_node_goes_on_alone_and_comes_back() -> None:
    town = town_with_members(Random(1))  # noqa: S311
    names = [machine.name for machine in town.machines]
    town.broker.cut(*names)
    town.settle(3)
    for machine in town.machines:
        speaker, listener = machine.seen
        text = town.say(speaker)
        assert machine.seen[listener] == [text]
    town.broker.heal(*names)
    town.settle(8)
    town.check()
    for machine in town.machines:
        for seen in machine.seen.values():
            assert GAP in seen
    text = town.say(next(iter(town.machines[0].seen)))
    town.settle(1)
    for machine in town.machines:
        for seen in machine.seen.values():
            assert seen[-1] == text


def raise_it(error: BaseException) -> None:
    raise error


def test_a_channel_is_made_once() -> None:
    town = Town(Random(1))  # noqa: S311
    made: list[bool] = []
    for machine in town.machines:
        machine.homes.make("#new", Kind(invite_only=True), made.append, raise_it)
    town.settle(1)
    assert sorted(made) == [False, False, True]
    for machine in town.machines:
        assert machine.homes.entries["#new"][0].kind.invite_only
    machine = next(machine for machine in town.machines if machine.homes.home_of("#new") == machine.name)
    machine.homes.remove("#new")
    town.settle(1)
    for machine in town.machines:
        assert "#new" not in machine.homes.entries


def test_a_channel_that_is_made_again_has_another_epoch() -> None:
    """A node that slept through both would take the records of the one for those of the other."""
    town = Town(Random(1))  # noqa: S311
    epochs = []
    for machine in town.machines[:2]:
        machine.homes.make("#new", Kind(), lambda is_made: None, raise_it)
        town.settle(1)
        epochs.append(machine.homes.entries["#new"][0].epoch)
        machine.homes.remove("#new")
        town.settle(1)
    assert epochs[0] != epochs[1]


def test_a_home_that_the_registry_has_forgotten_shares_its_epoch_with_no_other() -> None:
    """The third node does not know that the second one has become home."""
    town = town_with_members(Random(1))  # noqa: S311
    first = home_of(town)
    second, third = (machine for machine in town.machines if machine is not first)
    town.broker.cut(third.name)
    town.kill(first)
    town.settle(5)
    assert home_of(town) is second
    town.broker.cut(second.name)
    town.broker.forget()
    town.broker.heal(third.name)
    town.settle(5)  # a step fails if two nodes are home in one epoch
    assert third.log.role is Role.HOME
    town.broker.heal(second.name)
    town.settle(8)
    town.check()

"""Which nodes there are, with a made-up clock: leases, lives, deaths, and one view of them whatever fails."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from moothall.hall.agenda import Agenda
from moothall.hall.cluster.nodes import LEASE_SECONDS, RENEWAL_SECONDS, SILENCE_SECONDS, Node, Nodes
from tests.support.memory_bus import Broker
from tests.support.world import Clock, LogBook

NAMES = "abc"


class Machine:
    """One node: its clock may be off, and it can stand still."""

    def __init__(self, broker: Broker, name: str, clock: Clock) -> None:
        self.broker = broker
        self.name = name
        self.due: float | None = None
        self.log = LogBook()
        self.agenda = Agenda(self._set_alarm)
        self.bus = broker.bus(name)
        self.nodes = Nodes(self.bus, name, self.agenda, clock, self.log)
        self.events: list[tuple[str, Node]] = []
        self.lives: list[int] = []
        self.nodes.on_joined(lambda node: self.events.append(("joined", node)))
        self.nodes.on_gone(lambda node: self.events.append(("gone", node)))
        self.nodes.on_begun(self.lives.append)

    def _set_alarm(self, due: float) -> None:
        self.due = due

    @property
    def is_frozen(self) -> bool:
        return self.bus.node in self.broker.held

    def freeze(self) -> None:
        self.broker.held.add(self.bus.node)

    def go_on(self) -> None:
        self.broker.held.discard(self.bus.node)

    @property
    def view(self) -> dict[str, int]:
        own = {self.name: self.nodes.life} if self.nodes.is_in else {}
        return own | {name: node.life for name, node in self.nodes.live.items()}


class Network:
    def __init__(self, broker: Broker, names: str = NAMES) -> None:
        self.broker = broker
        self.clock = Clock()
        self.machines = {name: Machine(broker, name, self.clock) for name in names}

    def open(self) -> None:
        for machine in self.machines.values():
            machine.nodes.open()
        self.broker.run()

    def advance(self, seconds: float, *, delivers: bool = True) -> None:
        """In small steps, with what is on the way delivered after each, or not at all."""
        for _ in range(round(seconds / 0.25)):
            self.clock.move_to(self.clock.monotonic() + 0.25)
            for machine in self.machines.values():
                if (
                    not machine.is_frozen
                    and machine.due is not None
                    and machine.due <= self.clock.monotonic()
                ):
                    machine.due = None
                    machine.agenda.run(self.clock.monotonic())
            if delivers:
                self.broker.run()

    def assert_one_view(self) -> None:
        views = [machine.view for machine in self.machines.values()]
        assert all(view == views[0] for view in views), views
        assert views[0].keys() == self.machines.keys()


def opened(seed: int = 1) -> Network:
    network = Network(Broker.seeded(seed))
    network.open()
    network.advance(1)
    return network


def test_nodes_find_each_other() -> None:
    network = opened()
    network.assert_one_view()
    assert all(machine.nodes.has_lease for machine in network.machines.values())
    assert [kind for kind, _ in network.machines["a"].events] == ["joined", "joined"]


def test_nodes_that_renew_stay() -> None:
    network = opened()
    network.advance(60)
    network.assert_one_view()
    for machine in network.machines.values():
        assert len(machine.lives) == 1
        assert not [event for event in machine.events if event[0] == "gone"]


def test_a_dead_node_is_given_up_within_five_seconds() -> None:
    network = opened()
    first = network.machines["c"].nodes.life
    network.broker.cut("c")
    network.machines["c"].freeze()
    network.advance(4.75)
    for name in "ab":
        assert network.machines[name].view.keys() == {"a", "b"}
        assert network.machines[name].events[-1] == ("gone", Node("c", first))


def test_a_node_that_was_given_up_takes_a_new_life() -> None:
    network = opened()
    cut = network.machines["c"]
    first = cut.nodes.life
    network.broker.cut("c")
    network.advance(5)
    assert not cut.nodes.has_lease
    network.broker.heal("c")
    network.advance(2)
    network.assert_one_view()
    assert cut.nodes.life > first
    assert network.machines["a"].events[-2:] == [
        ("gone", Node("c", first)),
        ("joined", Node("c", cut.nodes.life)),
    ]


def test_a_short_failure_costs_no_life() -> None:
    network = opened()
    network.broker.cut("c")
    network.advance(2)
    network.broker.heal("c")
    network.advance(5)
    network.assert_one_view()
    assert len(network.machines["c"].lives) == 1


def test_nobody_is_given_up_while_the_bus_is_down_for_all() -> None:
    network = opened()
    network.broker.cut(*NAMES)
    network.advance(60)
    assert all(not machine.nodes.has_lease for machine in network.machines.values())
    network.broker.heal(*NAMES)
    network.advance(10)
    network.assert_one_view()
    assert all(len(machine.lives) == 1 for machine in network.machines.values())
    assert all(machine.nodes.has_lease for machine in network.machines.values())


def test_a_node_that_stood_still_has_no_lease_and_gives_nobody_up() -> None:
    network = opened()
    frozen = network.machines["c"]
    frozen.freeze()
    network.broker.held.add("c")
    network.advance(LEASE_SECONDS + 0.25)
    assert not frozen.nodes.has_lease
    network.broker.held.clear()
    network.advance(10)
    frozen.go_on()
    network.advance(3)
    network.assert_one_view()
    assert len(frozen.lives) == 2
    assert all(len(network.machines[name].lives) == 1 for name in "ab")


def test_two_nodes_that_declare_each_other_dead_both_begin_again() -> None:
    """Neither hears of renewals in time, and both say so to the registry."""
    network = Network(Broker.seeded(3), "ab")
    network.open()
    network.advance(SILENCE_SECONDS + 0.5, delivers=False)
    network.advance(10)
    network.assert_one_view()


def test_a_node_that_leaves_is_gone_at_once() -> None:
    network = opened()
    life = network.machines["c"].nodes.life
    network.machines["c"].nodes.close()
    network.broker.run()
    for name in "ab":
        assert network.machines[name].events[-1] == ("gone", Node("c", life))
    network.machines["c"].nodes.close()


def test_a_node_that_starts_again_ends_its_old_life() -> None:
    network = opened()
    old = network.machines["c"]
    new = network.machines["c"] = Machine(network.broker, "c", network.clock)
    new.nodes.open()
    network.advance(1)
    network.assert_one_view()
    assert new.nodes.life > old.nodes.life
    assert network.machines["a"].events[-2:] == [
        ("gone", Node("c", old.nodes.life)),
        ("joined", Node("c", new.nodes.life)),
    ]


def test_of_two_processes_with_one_name_the_later_one_has_it() -> None:
    network = opened()
    broker, first = network.broker, network.machines["c"]
    second = network.machines["c2"] = Machine(broker, "c2", network.clock)
    second.name = second.nodes.name = "c"
    second.nodes.open()
    network.advance(10)
    assert (first.nodes.is_in, second.nodes.is_in) == (False, True)
    (told,) = first.log.find("node_name_taken")
    assert "give each node a name of its own" in str(told["advice"])
    second.freeze()
    broker.cut("c2")
    network.advance(6)
    assert first.nodes.is_in
    assert network.machines["a"].nodes.live["c"].life == first.nodes.life > second.nodes.life


def test_a_registry_that_lost_everything_is_filled_again() -> None:
    network = opened()
    lives = network.machines["a"].view
    network.broker.cut(*NAMES)
    network.broker.entries["nodes"].clear()
    network.broker._revision = 0
    network.broker.heal(*NAMES)
    network.advance(10)
    network.assert_one_view()
    assert network.machines["a"].view == lives
    for machine in network.machines.values():
        assert machine.lives == [machine.nodes.life] * 2


def test_an_entry_that_cannot_be_read_is_nobody() -> None:
    network = opened()
    network.broker.change("nodes", "odd", b"\xff", 0)
    network.broker.change("nodes", "odder", b'{"life":"x"}', 0)
    network.advance(5)
    network.assert_one_view()


STEPS = st.one_of(
    st.tuples(st.just("cut"), st.sampled_from(NAMES)),
    st.tuples(st.just("heal"), st.sampled_from(NAMES)),
    st.tuples(st.just("freeze"), st.sampled_from(NAMES)),
    st.tuples(st.just("go on"), st.sampled_from(NAMES)),
    st.tuples(st.sampled_from(["wait", "wait in silence"]), st.integers(1, 16)),
    st.tuples(st.just("deliver"), st.integers(1, 10)),
)


@given(st.data())
def test_whatever_fails_there_is_one_view_afterwards(data: DataObject) -> None:
    network = Network(Broker(data.draw(st.randoms(use_true_random=False))))
    over: set[Node] = set()
    for machine in network.machines.values():
        machine.nodes.on_gone(over.add)
        machine.nodes.open()
    down: set[str] = set()
    for act, about in data.draw(st.lists(STEPS, max_size=40)):
        if act == "cut" and about not in down:
            down.add(str(about))
            network.broker.cut(str(about))
        elif act == "heal" and about in down:
            down.discard(str(about))
            network.broker.heal(str(about))
        elif act in ("freeze", "go on"):
            machine = network.machines[str(about)]
            machine.freeze() if act == "freeze" else machine.go_on()
        elif act in ("wait", "wait in silence"):
            network.advance(int(about) / 4, delivers=act == "wait")
        elif act == "deliver":
            for _ in range(int(about)):
                network.broker.step()
        for machine in network.machines.values():
            # A life that another node saw end is silent, also if its node does not know yet.
            assert not (Node(machine.name, machine.nodes.life) in over and machine.nodes.has_lease)
    for machine in network.machines.values():
        machine.go_on()
    network.broker.heal(*down)
    network.advance(4 * SILENCE_SECONDS)
    network.assert_one_view()
    for machine in network.machines.values():
        assert machine.nodes.has_lease
        assert machine.lives == sorted(set(machine.lives))
        for other in NAMES.replace(machine.name, ""):
            seen = [node.life for kind, node in machine.events if kind == "joined" and node.name == other]
            assert seen == sorted(set(seen)), "a life that is over does not begin again"


@pytest.mark.parametrize("seed", range(3))
def test_late_renewals_end_no_life(seed: int) -> None:
    """The bus is slow: what is on the way stands for two seconds at a time."""
    network = opened(seed)
    for _ in range(5):
        network.advance(2 * RENEWAL_SECONDS, delivers=False)
        network.broker.run()
    network.advance(5)
    network.assert_one_view()
    assert all(len(machine.lives) == 1 for machine in network.machines.values())

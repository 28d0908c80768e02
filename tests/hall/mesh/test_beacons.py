"""Whom a BEACON is relayed to."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.mesh import beacons
from moothall.hall.mesh.beacons import LARGEST_AUDIENCE, SMALL_AUDIENCE


@dataclass(frozen=True)
class Connection:
    number: int


@dataclass
class Agent:
    name: str | None = None
    told_up_to: int = 0


def crowd(size: int) -> dict[Connection, None]:
    return dict.fromkeys(map(Connection, range(1, size + 1)))


def relay(agent: Agent, name: str, connections: dict[Connection, None], newest: int) -> list[Connection]:
    expected = beacons.audience(agent, name, connections)
    listeners = beacons.listeners(agent, name, connections)
    assert len(listeners) == expected
    if listeners:
        beacons.told(agent, name, newest)
    else:
        beacons.not_told(agent, name)
    return list(listeners)


def test_a_small_audience_gets_all() -> None:
    agent, connections = Agent(), crowd(SMALL_AUDIENCE)
    for _ in range(3):
        assert len(relay(agent, "a", connections, SMALL_AUDIENCE)) == SMALL_AUDIENCE


def test_a_large_audience_gets_news() -> None:
    size = SMALL_AUDIENCE + 1
    agent, connections = Agent(), crowd(size)
    assert len(relay(agent, "a", connections, size)) == size
    assert relay(agent, "a", connections, size) == []
    assert len(relay(agent, "b", connections, size)) == size
    newcomer = Connection(size + 1)
    connections[newcomer] = None
    assert relay(agent, "b", connections, size + 1) == [newcomer]
    assert relay(agent, "b", connections, size + 1) == []


def test_a_crowd_gets_none() -> None:
    size = LARGEST_AUDIENCE + 1
    agent, connections = Agent(), crowd(size)
    assert relay(agent, "a", connections, size) == []
    assert agent.name == "a"
    del connections[Connection(1)]
    assert len(relay(agent, "a", connections, size)) == LARGEST_AUDIENCE
    assert relay(agent, "a", connections, size) == []


@given(
    st.sampled_from([SMALL_AUDIENCE + 3, LARGEST_AUDIENCE - 2]),
    st.lists(st.sampled_from(["beacon", "rename", "come", "go"]), max_size=60),
)
def test_every_connection_hears_of_every_agent_once_it_sent_a_beacon(size: int, steps: list[str]) -> None:
    agent, connections = Agent(), crowd(size)
    newest = len(connections)
    name = "a"
    told: dict[Connection, str] = {}
    for step in steps:
        if step == "come":
            newest += 1
            connections[Connection(newest)] = None
        elif step == "go":
            del connections[next(iter(connections))]
        else:
            if step == "rename":
                name += "a"
            told.update((listener, name) for listener in relay(agent, name, connections, newest))
            is_crowd = len(connections) > LARGEST_AUDIENCE
            assert is_crowd or all(told.get(connection) == name for connection in connections)

"""Whom a BEACON is relayed to.

Each agent sends one every 30 seconds. If each were relayed to all, the cost would grow with the square of the
number of agents. So a small audience gets all of them. A larger one gets news: the first BEACON of an agent, and
one with a new name. Connections that came after the last one that was relayed get the next. In a crowd a BEACON
goes to no connection, so its cost is bounded: agents ask the directory there.
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import Final, Protocol, TypeVar

from moothall.wire.mesh.announcements import Beacon
from moothall.wire.mesh.envelope import Envelope
from moothall.wire.mesh.faults import PayloadParseError

SMALL_AUDIENCE: Final = 64  # connections
LARGEST_AUDIENCE: Final = 256


class Numbered(Protocol):
    @property
    def number(self) -> int:
        """Connections are numbered in the order of arrival."""


class Presented(Protocol):
    """The sender: the name in its last BEACON, and the number of the last connection that has one."""

    name: str | None
    told_up_to: int


Connection = TypeVar("Connection", bound=Numbered)


def name_in(envelope: Envelope) -> str:
    """The name in a BEACON; "" if it cannot be read."""
    try:
        return Beacon.decode(envelope.payload).name
    except PayloadParseError:
        return ""


def is_crowd(connections: dict[Connection, None], elsewhere: int = 0) -> bool:
    """True if BEACONs go to no connection. `elsewhere` is how many connections other nodes of the hall have."""
    return len(connections) + elsewhere > LARGEST_AUDIENCE


def audience(agent: Presented, name: str, connections: dict[Connection, None], elsewhere: int = 0) -> int:
    """How many connections `listeners` has, without the sender's own being left out."""
    if is_crowd(connections, elsewhere):
        return 0
    if _is_for_all(agent, name, len(connections) + elsewhere):
        return len(connections)
    return sum(1 for _ in _later(agent, connections))


def listeners(
    agent: Presented, name: str, connections: dict[Connection, None], elsewhere: int = 0
) -> list[Connection]:
    """`connections` are in the order of arrival. Call `told` or `not_told` afterwards."""
    if is_crowd(connections, elsewhere):
        return []
    if _is_for_all(agent, name, len(connections) + elsewhere):
        return list(connections)
    return list(_later(agent, connections))


def told(agent: Presented, name: str, newest: int) -> None:
    """The BEACON was relayed. `newest` is the number of the last connection that arrived."""
    agent.name = name
    agent.told_up_to = newest


def not_told(agent: Presented, name: str) -> None:
    """The BEACON was relayed to no connection. When the crowd is gone, a name that is new goes to all."""
    if agent.name != name:
        agent.name = name
        agent.told_up_to = 0


def _is_for_all(agent: Presented, name: str, connections: int) -> bool:
    return connections <= SMALL_AUDIENCE or agent.name != name


def _later(agent: Presented, connections: dict[Connection, None]) -> Iterator[Connection]:
    latest_first = reversed(connections)
    return takewhile(lambda connection: connection.number > agent.told_up_to, latest_first)

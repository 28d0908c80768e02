"""Whom a BEACON is relayed to.

Each agent sends one every 30 seconds. If each were relayed to all, the cost would grow with the square of the
number of agents. So a small audience gets all of them. A large one gets news: the first BEACON of an agent, and one
with a new name. Connections that came after the last one that was relayed get the next.
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import Final, Protocol, TypeVar

SMALL_AUDIENCE: Final = 64  # connections


class Numbered(Protocol):
    @property
    def number(self) -> int:
        """Connections are numbered in the order of arrival."""


class Presented(Protocol):
    """The sender: the name in its last BEACON, and the number of the last connection that has one."""

    name: str | None
    told_up_to: int


Connection = TypeVar("Connection", bound=Numbered)


def audience(agent: Presented, name: str, connections: dict[Connection, None]) -> int:
    """How many connections `listeners` has, without the sender's own being left out."""
    if _is_for_all(agent, name, len(connections)):
        return len(connections)
    return sum(1 for _ in _later(agent, connections))


def listeners(agent: Presented, name: str, connections: dict[Connection, None]) -> list[Connection]:
    """`connections` are in the order of arrival. Call `told` after they have the BEACON."""
    if _is_for_all(agent, name, len(connections)):
        return list(connections)
    return list(_later(agent, connections))


def told(agent: Presented, name: str, newest: int) -> None:
    """The BEACON was relayed. `newest` is the number of the last connection that arrived."""
    agent.name = name
    agent.told_up_to = newest


def _is_for_all(agent: Presented, name: str, connections: int) -> bool:
    return connections <= SMALL_AUDIENCE or agent.name != name


def _later(agent: Presented, connections: dict[Connection, None]) -> Iterator[Connection]:
    latest_first = reversed(connections)
    return takewhile(lambda connection: connection.number > agent.told_up_to, latest_first)

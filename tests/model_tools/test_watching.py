"""Subscriptions of hosts: to what exists, a bounded number, until they leave."""

from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError

from moothall.tools.host_exit import exit_of
from moothall.tools.watching import MAX_WATCHED, Watching


class HostConnection:
    """What `Watching` needs of a connection: its end, and what was sent to it."""

    def __init__(self) -> None:
        self.exit_stack = AsyncExitStack()
        self.told: list[str] = []
        self.is_broken = False
        self.context: Any = SimpleNamespace(session=self)
        self._connection = self

    async def send_resource_updated(self, uri: str) -> None:
        if self.is_broken:
            raise ConnectionError
        self.told.append(uri)


def watching() -> tuple[Watching, Any]:
    session: Any = SimpleNamespace(watchers=[], is_watched=False)
    return Watching(session), session


@pytest.mark.parametrize(
    "uri", ["", "moothall://other", "moothall://case/../inbox", "x" * 1_000_000, "file:///etc"]
)
def test_only_what_exists_is_watched(uri: str) -> None:
    table, session = watching()
    with pytest.raises(MCPError, match="no such resource"):
        table.subscribe_to(HostConnection().context, uri)
    assert not session.is_watched


def test_each_host_has_its_own_bound() -> None:
    table, _ = watching()
    greedy, other = HostConnection(), HostConnection()
    for number in range(MAX_WATCHED):
        table.subscribe_to(greedy.context, f"moothall://case/{number}")
    table.subscribe_to(greedy.context, "moothall://case/0")
    with pytest.raises(MCPError, match="Too many"):
        table.subscribe_to(greedy.context, "moothall://inbox")
    table.subscribe_to(other.context, "moothall://inbox")


def test_a_library_that_does_not_tell_when_a_host_leaves_is_named() -> None:
    table, session = watching()
    host = HostConnection()
    del host._connection
    with pytest.raises(MCPError, match="cannot be watched"):
        table.subscribe_to(host.context, "moothall://inbox")
    assert not session.is_watched


def test_the_installed_library_tells_when_a_host_leaves() -> None:
    connection = Connection.from_envelope("2026-07-28", None, None)
    session = ServerSession(cast("Any", None), connection)
    assert exit_of(session) is connection.exit_stack


async def test_a_host_that_leaves_is_forgotten() -> None:
    table, session = watching()
    host = HostConnection()
    table.subscribe_to(host.context, "moothall://inbox")
    assert session.is_watched
    await host.exit_stack.aclose()
    assert not session.is_watched


async def test_a_host_that_does_not_hear_keeps_no_other_from_hearing() -> None:
    table, session = watching()
    broken, sound = HostConnection(), HostConnection()
    broken.is_broken = True
    for host in (broken, sound):
        table.subscribe_to(host.context, "moothall://inbox")
        table.subscribe_to(host.context, "moothall://agents")
    await table._tell_all({"moothall://inbox"})
    assert sound.told == ["moothall://inbox"]
    table.unsubscribe_from(sound.context, "moothall://inbox")
    table.unsubscribe_from(sound.context, "moothall://agents")
    assert not session.is_watched

"""Which resources hosts watch, and how they are told of a change, in both eras of the protocol.

A host of the older era subscribes to one URI after the other; one of the newer era opens a stream for several. A
burst of changes is told once.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import ListenHandler, ResourceUpdated, ServerEvent
from mcp.shared.exceptions import MCPError

from moothall.client.logs import log
from moothall.tools.resources import SCHEME
from moothall.tools.session import Session

PAUSE: Final = 0.05  # seconds in which changes are collected
MAX_WATCHED: Final = 1000  # URIs of the older era
MAX_STREAMS: Final = 100

Context = ServerRequestContext[Any, Any]


class Watching:
    """Tells hosts which resources have changed. It is the bus of the newer era too."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._listeners: dict[object, Callable[[ServerEvent], None]] = {}
        self._subscribed: dict[tuple[int, str], ServerSession] = {}  # by host and URI
        self._changed: set[str] = set()
        self.streams = ListenHandler(self, max_subscriptions=MAX_STREAMS)
        session.watchers.append(self._note)

    # -- the older era -----------------------------------------------------------------------------

    def subscribe_to(self, context: Context, uri: str) -> None:
        """Raises MCPError when too many are watched."""
        if len(self._subscribed) >= MAX_WATCHED:
            raise MCPError(-32602, "Too many subscriptions. Unsubscribe from some resources first.")
        self._subscribed[_host(context), uri] = context.session
        self._count()

    def unsubscribe_from(self, context: Context, uri: str) -> None:
        self._subscribed.pop((_host(context), uri), None)
        self._count()

    # -- the newer era: `SubscriptionBus` ----------------------------------------------------------

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        token = object()
        self._listeners[token] = listener
        self._count()

        def unsubscribe() -> None:
            self._listeners.pop(token, None)
            self._count()

        return unsubscribe

    async def publish(self, event: ServerEvent) -> None:
        for listener in list(self._listeners.values()):
            listener(event)

    # -- changes -----------------------------------------------------------------------------------

    def _count(self) -> None:
        """An agent that is watched does not leave when it is idle."""
        self._session.is_watched = bool(self._listeners or self._subscribed)

    def _note(self, name: str) -> None:
        if not self._session.is_watched:
            return
        if not self._changed:
            asyncio.get_running_loop().call_later(PAUSE, self._tell)
        self._changed.add(f"{SCHEME}{name}")

    def _tell(self) -> None:
        changed, self._changed = self._changed, set()
        self._session.in_background(self._tell_all(changed))

    async def _tell_all(self, changed: set[str]) -> None:
        for uri in sorted(changed):
            await self.publish(ResourceUpdated(uri))
        for (host, uri), host_session in list(self._subscribed.items()):
            if uri not in changed:
                continue
            try:
                await host_session.send_resource_updated(uri)
            except Exception as error:  # noqa: BLE001  # a host that has left must not keep others from hearing
                log.debug("a host that watched %s has left: %s", uri, error)
                self._subscribed.pop((host, uri), None)
                self._count()


def _host(context: Context) -> int:
    """The same for all requests of one connection: the parameters of its handshake are one object."""
    return id(context.session.client_params)

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
from mcp_types import INVALID_PARAMS

from moothall.client.logs import log
from moothall.tools.host_exit import exit_of
from moothall.tools.resources import SCHEME, exists
from moothall.tools.session import Session

PAUSE: Final = 0.05  # seconds in which changes are collected
MAX_WATCHED: Final = 64  # URIs of one host of the older era
PATIENCE: Final = 5.0  # seconds for a host to take a notification; others wait for it
MAX_STREAMS: Final = 100

Context = ServerRequestContext[Any, Any]


class Watching:
    """Tells hosts which resources have changed. It is the bus of the newer era too."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._listeners: dict[object, Callable[[ServerEvent], None]] = {}
        self._subscribed: dict[int, dict[str, ServerSession]] = {}  # by host and URI
        self._changed: set[str] = set()
        self.streams = ListenHandler(self, max_subscriptions=MAX_STREAMS)
        session.watchers.append(self._note)

    # -- the older era -----------------------------------------------------------------------------

    def subscribe_to(self, context: Context, uri: str) -> None:
        """Until the host unsubscribes or leaves. Raises MCPError for what is no resource, and for too many."""
        if not exists(uri):
            raise MCPError(
                INVALID_PARAMS, "There is no such resource. List the resources, and watch one of them."
            )
        leaving = exit_of(context.session)
        host = id(leaving)
        if host not in self._subscribed:
            leaving.callback(self._forget, host)
        watched = self._subscribed.setdefault(host, {})
        if uri not in watched and len(watched) >= MAX_WATCHED:
            raise MCPError(INVALID_PARAMS, "Too many subscriptions. Unsubscribe from some resources first.")
        watched[uri] = context.session
        self._count()

    def unsubscribe_from(self, context: Context, uri: str) -> None:
        self._subscribed.get(id(exit_of(context.session)), {}).pop(uri, None)
        self._count()

    def _forget(self, host: int) -> None:
        self._subscribed.pop(host, None)
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
        self._session.is_watched = bool(self._listeners) or any(self._subscribed.values())

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
        hosts = {host: dict(watched) for host, watched in self._subscribed.items()}
        await asyncio.gather(*(self._tell_host(host, changed, watched) for host, watched in hosts.items()))

    async def _tell_host(self, host: int, changed: set[str], watched: dict[str, ServerSession]) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                for uri in sorted(changed & watched.keys()):
                    await watched[uri].send_resource_updated(uri)
        except Exception as error:  # noqa: BLE001  # a host that has left must not keep others from hearing
            log.debug("a host that watches resources does not hear: %r", error)
            self._forget(host)

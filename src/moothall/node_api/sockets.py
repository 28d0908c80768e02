"""The WebSocket routes of a node: `/ws/inbox`, `/ws/topics`, `/ws/events` and `/ws/hosted/inbox` (mesh wire 13)."""

from collections.abc import Awaitable, Callable

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from moothall.errors import NodeRefused
from moothall.node import Node, Received
from moothall.node_api import bodies, payloads
from moothall.node_api.answers import refusal
from moothall.node_api.auth import Keys, Level, bearer
from moothall.node_api.objects import inbox_object, is_of_topic
from moothall.node_api.streams import MAX_SOCKETS, Buffer, EventFeed, Feed, as_text, live, resumed

Talk = Callable[[WebSocket], Awaitable[None]]


class Sockets:
    """`start` when the node runs."""

    def __init__(self, node: Node, keys: Keys) -> None:
        self._node = node
        self._keys = keys
        self._open = 0

    def start(self) -> None:
        self._inbox = Feed(self._node.listen)
        self._events = EventFeed(self._node.watch)

    def close(self) -> None:
        self._inbox.close()
        self._events.close()

    def __len__(self) -> int:
        return self._open

    def all(self) -> list[WebSocketRoute]:
        return [
            WebSocketRoute("/ws/inbox", self._guarded(self.inbox)),
            WebSocketRoute("/ws/topics", self._guarded(self.topic)),
            WebSocketRoute("/ws/events", self._guarded(self.events)),
            WebSocketRoute("/ws/hosted/inbox", self._guarded(self.hosted, Level.OPEN)),
        ]

    def _guarded(self, talk: Talk, level: Level = Level.READ) -> Talk:
        """Only for those with a key, and not for too many. The handler looks at the token of a hosted agent."""

        async def handle(socket: WebSocket) -> None:
            try:
                self._admit(socket, level)
                self._open += 1
                try:
                    await talk(socket)
                finally:
                    self._open -= 1
            except NodeRefused as refused:
                await socket.send_denial_response(refusal(refused.status, str(refused)))

        return handle

    def _admit(self, socket: WebSocket, level: Level) -> None:
        """Raises NodeRefused."""
        self._keys.require(_token(socket), level)
        if self._open >= MAX_SOCKETS:
            raise NodeRefused(503, f"this node has {MAX_SOCKETS} WebSockets open; close one")

    async def inbox(self, socket: WebSocket) -> None:
        after = _after(socket)
        if after is None:
            await live(socket, self._inbox.add)
        else:
            await resumed(socket, self._node.read_inbox, self._node.listen, after)

    async def topic(self, socket: WebSocket) -> None:
        slug = payloads.topic_slug(socket.query_params.get("topic", ""), "invalid topic")
        leave = self._node.watch_topic(slug)
        try:
            await live(socket, lambda buffer: self._inbox.add(buffer, lambda each: is_of_topic(each, slug)))
        finally:
            leave()

    async def events(self, socket: WebSocket) -> None:
        await live(socket, self._events.add)

    async def hosted(self, socket: WebSocket) -> None:
        hosted, token = self._node.hosted, _token(socket) or ""
        hosted.agent_of(token)
        after = _after(socket)
        if after is None:
            await live(socket, lambda buffer: hosted.listen(token, _into(buffer)))
        else:
            await resumed(
                socket,
                lambda start, limit: hosted.read_inbox(token, start, limit),
                lambda callback: hosted.listen(token, callback),
                after,
            )


def _into(buffer: Buffer) -> Callable[[Received], None]:
    return lambda received: buffer.put(as_text(inbox_object(received)), received.cursor)


def _token(socket: WebSocket) -> str | None:
    """From the header, or from the URL: a browser cannot set headers of a WebSocket."""
    return bearer(socket.headers) or socket.query_params.get("token")


def _after(socket: WebSocket) -> int | None:
    text = socket.query_params.get("after")
    return None if text is None else bodies.number(text, "after", default=0)

"""An agent's stay on the mesh of a hall: what is put in place on each connection, and what is told of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from moothall.client.dialling import shown_url
from moothall.client.handlers import Handlers
from moothall.client.logs import log
from moothall.errors import ConnectionLost
from moothall.hall.mesh import frames
from moothall.identity import PrivateKey
from moothall.known_halls import KnownHalls
from moothall.mesh.intake import Intake
from moothall.mesh.line import Line
from moothall.mesh.post import Post
from moothall.wire.mesh.announcements import Advertise, Beacon
from moothall.wire.mesh.msg_types import MsgType


@dataclass(slots=True)
class Shown:
    """What others see of the agent while it is connected."""

    name: str
    beacon: bool  # it is shown at all
    topics: dict[str, None] = field(default_factory=dict)
    offer: Advertise | None = None


class Stay:
    def __init__(
        self,
        url: str,
        key: PrivateKey,
        shown: Shown,
        post: Post,
        intake: Intake,
        handlers: Handlers,
        patience: float,
        *,
        receives: bool,
        on_end: Callable[[], None],
    ) -> None:
        self.url: Final = url
        self.hall = b""
        self._key = key
        self._shown = shown
        self._post = post
        self._intake = intake
        self._handlers = handlers
        self._patience = patience
        self._receives = receives
        self._on_end = on_end

    async def dial(self) -> Line:
        """A new connection, with the key proven."""
        return await Line.open(
            self.url,
            self._key,
            KnownHalls(),
            self._intake,
            patience=self._patience,
            receives=self._receives,
        )

    async def settle_in(self, connection: Line, *, again: bool) -> None:
        """Be there, on the same topics and with the same offer as before."""
        self.hall = connection.hall
        await self.beat(connection)
        for topic in list(self._shown.topics):
            await connection.ask(frames.Subscribe(topic=topic), frames.Subscribed)
        if self._shown.offer is not None:
            await self._post.send(MsgType.ADVERTISE, self._shown.offer.encode(), line=connection)

    async def beat(self, connection: Line | None = None) -> None:
        """Say that the agent is there. `connection` is another one than that in use."""
        if self._shown.beacon:
            payload = Beacon(self._post.sender, self._shown.name).encode()
            await self._post.send(MsgType.BEACON, payload, line=connection)
            self._intake.is_there()

    def arrived(self, *, again: bool) -> None:
        """The connection is in use."""
        how = "reconnected" if again else "connected"
        log.info("%s to %s as %s (%s)", how, shown_url(self.url), self._post.sender.hex(), self._shown.name)
        self._handlers.tell("connect", self.hall.hex())

    def departed(self, error: ConnectionLost) -> None:
        """The connection is gone, and another one will be tried."""
        log.warning("disconnected: %s; reconnecting", error)
        self._handlers.tell("disconnect", error)

    def ended(self, error: BaseException | None) -> None:
        """The connection is gone, and no other one will be tried."""
        log.info("disconnected from %s", shown_url(self.url))
        if error is not None:
            self._handlers.tell_last("disconnect", error)
        self._on_end()

"""Saying things: in order, not too fast, and only while the floor is one's own."""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from moothall.client.delivery import Deliveries, Delivery
from moothall.client.floor import Asked, FloorPolicy
from moothall.client.incoming import Yield
from moothall.client.markers import Marker, strip
from moothall.client.memory import Memory
from moothall.client.message import Message
from moothall.client.pace import CHUNK_SPACING, MESSAGE_SPACING, Spacing
from moothall.client.requests import Exchange, Request
from moothall.client.session import Session
from moothall.client.turns import Turn, Turns, turn_in
from moothall.errors import InvalidMessage, RateLimited, Refusal, ReplyTimeout
from moothall.wire.agentchat import client, server
from moothall.wire.agentchat.jstext import utf16_length
from moothall.wire.agentchat.server import ServerMessage

RELEASE: Final = "release"  # among the features of a hall
SEND_TIMEOUT: Final = 60.0  # seconds: a message may have to wait for its turn at one a second

Start = Callable[[Coroutine[Any, Any, object]], "asyncio.Task[object]"]


class Speech:
    """`on_marker` gets the markers that are taken out of what is said. None leaves them in."""

    def __init__(
        self,
        exchange: Exchange,
        session: Session,
        memory: Memory,
        policy: FloorPolicy,
        deliveries: Deliveries,
        start: Start,
        on_marker: Callable[[Marker], None] | None,
    ) -> None:
        self._exchange = exchange
        self._session = session
        self._memory = memory
        self._policy = policy
        self._deliveries = deliveries
        self.got = deliveries.got
        self.report = deliveries.report
        self.in_background = start
        self._on_marker = on_marker
        self.turns = Turns(self, time.time, random.random)
        self.begin()

    def begin(self) -> None:
        """A new stay in a hall, perhaps on another event loop."""
        self._order = asyncio.Lock()  # messages leave in the order in which they were sent
        self._messages = Spacing(MESSAGE_SPACING)
        self._chunks = Spacing(CHUNK_SPACING)

    def names(self) -> tuple[str, ...]:
        return self._session.names()

    @property
    def announces_release(self) -> bool:
        return RELEASE in self._session.welcome.features

    # -- messages ----------------------------------------------------------------------------------

    async def speak(
        self,
        to: str,
        content: str,
        in_reply_to: str | None = None,
        turn: Turn | None = None,
        patience: float | None = None,
    ) -> str | None:
        """Say a text that a model may have written, without its markers. If nothing is left, nothing is sent."""
        text = self._without_markers(content)
        return None if content and not text else await self.say(to, text, in_reply_to, turn, patience)

    async def say(
        self,
        to: str,
        content: str,
        in_reply_to: str | None = None,
        turn: Turn | None = None,
        patience: float | None = None,
        *,
        receipt: bool = False,
    ) -> str | None:
        """The id of the message, from the ACK of one hall or the echo of another. Raises InvalidMessage if the
        content is longer than the hall takes: a frame that is too large would end the connection."""
        self._check_length(content)
        if turn is None and (turn := turn_in(to, in_reply_to)) is not None:
            in_reply_to = turn.asked.msg_id  # or others would take the answer for a question
            await turn.settle()
        request = Request(
            client.Msg(to=to, content=content, in_reply_to=in_reply_to, receipt=receipt or None),
            lambda body: self._is_echo(body, to),
            may_be_silent=True,
        )
        reply = await self._in_order(request, self._messages, turn, patience)
        msg_id = reply.msg_id if isinstance(reply, server.Ack | server.Chat) else None
        if to.startswith("#"):
            self.turns.said(Asked(self._session.address, to, msg_id, content, False, in_reply_to))
            if msg_id is not None:
                self.turns.wrote(msg_id)
                self._memory.hear(to, msg_id, reply.ts)
        return msg_id

    async def say_with_receipt(
        self, to: str, content: str, in_reply_to: str | None, patience: float | None
    ) -> Delivery:
        self._deliveries.require()
        text = self._without_markers(content)
        if content and not text:
            raise InvalidMessage("Nothing was sent: the text has only markers, such as @@wake@@")
        with self._deliveries.expected():
            msg_id = await self.say(to, text, in_reply_to, patience=patience, receipt=True)
            return self._deliveries.open(msg_id, to)

    def _without_markers(self, content: str) -> str:
        if not isinstance(content, str):
            raise TypeError(
                f"a message is text, not {type(content).__name__}: convert it, such as with str()"
            )
        if self._on_marker is None:
            return content
        stripped = strip(content)
        for marker in stripped.markers:
            self._on_marker(marker)
        return stripped.text

    def _check_length(self, content: str) -> None:
        most = self._session.max_content
        if most is not None and len(content) > most // 2 and utf16_length(content) > most:
            raise InvalidMessage(f"Invalid `content`: this hall takes a text of at most {most} characters")

    async def pass_on(self, to: str, content: str, patience: float | None) -> None:
        """A piece of a file."""
        request = Request(
            client.FileChunk(to=to, content=content),
            lambda body: isinstance(body, server.Ack),
            may_be_silent=True,
        )
        await self._in_order(request, self._chunks, None, patience)

    async def answer(self, message: Message, content: str, turn: Turn | None) -> str | None:
        if turn is not None:
            await turn.settle()
        return await self.speak(message.reply_to, content, message.id, turn)

    def _is_echo(self, body: ServerMessage, to: str) -> bool:
        if not isinstance(body, server.Chat) or body.replay:
            return False
        return body.to == to and self._session.is_own(body.from_)

    async def _in_order(
        self, request: Request, spacing: Spacing, turn: Turn | None, patience: float | None
    ) -> ServerMessage:
        limit = SEND_TIMEOUT if patience is None else patience
        clock = asyncio.get_running_loop().time
        deadline = clock() + limit
        try:
            async with asyncio.timeout_at(deadline):
                await self._order.acquire()
        except TimeoutError:
            raise ReplyTimeout(f"what was sent before is still under way after {limit:g} s") from None
        try:
            while True:
                if (wait := spacing.wait(clock())) > deadline - clock():
                    raise RateLimited(f"the hall's limit leaves no room for this within {limit:g} s")
                await asyncio.sleep(wait)
                try:
                    reply = await self._try(request, turn, max(0.0, deadline - clock()))
                except RateLimited:
                    spacing.refused(clock())
                else:
                    spacing.accepted(clock())
                    return reply
        finally:
            self._order.release()

    async def _try(self, request: Request, turn: Turn | None, patience: float) -> ServerMessage:
        if turn is None:
            return await self._exchange.request(request, patience)
        try:
            return await self._exchange.request(request, patience, turn.speak)
        except Refusal:
            turn.unspeak()
            raise

    # -- turns -------------------------------------------------------------------------------------

    def turn(self, message: Message, policy: FloorPolicy | None) -> Turn:
        return self.turns.take(message.asked, policy or self._policy)

    async def claim(
        self, msg_id: str, channel: str, started_at: float | None = None, patience: float | None = None
    ) -> bool:
        started = round((time.time() if started_at is None else started_at) * 1000)
        denied = await self._exchange.tell(
            client.RespondingTo(msg_id=msg_id, channel=channel, started_at=started),
            Yield,
            lambda body: (body.msg_id, body.channel) == (msg_id, channel),
            patience=patience,
        )
        is_granted = denied is None or denied.speaker == self._session.address
        if is_granted:
            self._deliveries.claimed(msg_id)
        return is_granted

    async def release(self, msg_id: str, channel: str, patience: float | None = None) -> None:
        if self.announces_release:
            await self._exchange.tell(
                client.Release(msg_id=msg_id, channel=channel), server.Ack, patience=patience
            )

"""Sending: a nonce, a signature, and what the hall says to it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from msgspec import structs

from moothall.errors import EnvelopeRejected, NotConnected
from moothall.hall.mesh import frames
from moothall.identity import PrivateKey
from moothall.mesh.events import Sent
from moothall.mesh.line import Line
from moothall.mesh.nonces import Nonces
from moothall.wire.mesh.envelope import (
    NO_CONVERSATION,
    NO_RECIPIENT,
    VERSION,
    Envelope,
    seal,
)
from moothall.wire.mesh.faults import Fault
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.nonces import within_tolerance

ATTEMPTS: Final = 4  # with nonces of which another program with this key has used a higher one

Answer = TypeVar("Answer", bound=frames.Frame)


def now_us() -> int:
    """Unix microseconds."""
    return time.time_ns() // 1000


def _timestamp(line: Line) -> int:
    """Now; or just after the start of the hall, if the clock here is a little behind."""
    now = now_us()
    return max(now, line.floor + 1) if within_tolerance(line.floor, now) else now


class Post:
    """`line` gives the connection in use, when there is one; `patience` is how many seconds to wait for it."""

    def __init__(
        self, key: PrivateKey, nonces: Nonces, line: Callable[[], Awaitable[Line]], patience: float
    ) -> None:
        self._key = key
        self._nonces = nonces
        self._line = line
        self._patience = patience
        self._order = asyncio.Lock()

    @property
    def sender(self) -> bytes:
        """The id of this agent."""
        return self._key.public.raw

    def draft(self, msg_type: MsgType, payload: bytes, recipient: bytes, conversation_id: bytes) -> Envelope:
        """The envelope before it is signed, without what only the moment of sending can say."""
        return Envelope(
            VERSION,
            msg_type,
            self.sender,
            recipient,
            0,
            0,
            0,
            conversation_id,
            b"",
            len(payload),
            payload,
            b"",
        )

    async def send(
        self,
        msg_type: MsgType,
        payload: bytes,
        *,
        recipient: bytes = NO_RECIPIENT,
        conversation_id: bytes = NO_CONVERSATION,
        line: Line | None = None,
    ) -> tuple[Envelope, Sent]:
        """Sign and send an envelope, and return it with what became of it.

        `line` is another connection than the one in use.
        Raises what `Line.send` raises, NotConnected, or ValueError for a payload that is too long.
        """
        draft = self.draft(msg_type, payload, recipient, conversation_id)
        [taken] = await self.send_together(draft, line=line)
        return taken

    async def send_together(
        self, *drafts: Envelope, line: Line | None = None
    ) -> tuple[tuple[Envelope, Sent], ...]:
        """Send envelopes one right behind the other, so that no answer of another agent comes in between.

        After one that the hall does not take, those behind it may have been taken all the same. Raises what `send`
        does, for the first one that was not taken.
        """
        taken: list[tuple[Envelope, Sent]] = []
        for attempt in range(1, ATTEMPTS + 1):
            used = line or await self.line()
            sealed, outcomes = await self._dispatch(used, drafts[len(taken) :])
            try:
                for envelope, outcome in zip(sealed, outcomes, strict=True):
                    taken.append((envelope, await outcome))
            except EnvelopeRejected as error:
                # It changed nothing, so it can be signed anew.
                if error.fault != Fault.NONCE_REPLAY or attempt == ATTEMPTS:
                    raise
                self._nonces.overtake()
            else:
                return tuple(taken)
            finally:
                await _leave(outcomes)
        raise AssertionError("the last attempt returns or raises")

    async def _dispatch(
        self, line: Line, drafts: Sequence[Envelope]
    ) -> tuple[list[Envelope], list[asyncio.Future[Sent]]]:
        """One after the other, so that envelopes leave in the order of their nonces (mesh wire 3.2)."""
        sealed: list[Envelope] = []
        outcomes: list[asyncio.Future[Sent]] = []
        async with self._order:
            try:
                for draft in drafts:
                    envelope = seal(
                        draft.msg_type,
                        draft.payload,
                        sender=self.sender,
                        sign=self._key.sign_bytes,
                        nonce=await self._nonces.next(),
                        now=_timestamp(line),
                        recipient=draft.recipient,
                        conversation_id=draft.conversation_id,
                    )
                    outcomes.append(asyncio.ensure_future(await line.post(envelope)))
                    sealed.append(envelope)
            except BaseException:
                await _leave(outcomes)
                raise
        return sealed, outcomes

    async def ask(self, question: frames.Frame, answer: type[Answer]) -> Answer:
        """Raises what `Line.ask` raises, or NotConnected."""
        return await (await self.line()).ask(question, answer)

    async def order(self, order: type[frames.Order], conversation_id: bytes, answer: type[Answer]) -> Answer:
        """Sign and send an order on the credits of a conversation."""
        line = await self.line()
        nonce, now = await self._nonces.next(), _timestamp(line)
        draft = order(conversation_id=conversation_id.hex(), nonce=nonce, timestamp=now, signature="")
        signature = self._key.sign_bytes(draft.text(line.hall.hex())).hex()
        return await line.ask(structs.replace(draft, signature=signature), answer)

    async def line(self) -> Line:
        """The connection in use, when there is one. Raises NotConnected."""
        try:
            async with asyncio.timeout(self._patience):
                return await self._line()
        except TimeoutError:
            raise NotConnected(f"no connection came up within {self._patience:g} s") from None


async def _leave(outcomes: list[asyncio.Future[Sent]]) -> None:
    """Nothing more is awaited of them."""
    for outcome in outcomes:
        outcome.cancel()
    await asyncio.gather(*outcomes, return_exceptions=True)

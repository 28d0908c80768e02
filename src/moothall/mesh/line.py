"""One WebSocket to the mesh of a hall: the proof of the key, then envelopes, questions and answers. It does not
reconnect.

Envelopes are binary frames. The hall says of each one of this agent what became of it, by its nonce; and it answers
each question by its `ref`.
"""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final, NamedTuple, Protocol, Self, TypeVar, cast, get_args
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, structs
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from moothall.client.connection import remember_hall
from moothall.client.dialling import loss_of, open_socket, place_at, shown_url
from moothall.client.logs import log
from moothall.errors import (
    ConnectionFailed,
    ConnectionLost,
    CreditReason,
    CreditsRefused,
    EnvelopeRejected,
    MoothallError,
    NoCover,
    OutOfOrder,
    Refusal,
    ReplyTimeout,
    UnexpectedReply,
    UnknownRefusal,
)
from moothall.hall.mesh import frames
from moothall.identity import PrivateKey
from moothall.known_halls import KnownHalls, check_hall
from moothall.mesh.events import Sent
from moothall.wire.mesh.envelope import Envelope, encode

PATH: Final = "/mesh"
NO_COVER: Final = "NoCover"
Answer = TypeVar("Answer", bound=frames.Frame)


class Listener(Protocol):
    """What a line tells. While a call lasts, the line reads no further."""

    async def opened(self, line: "Line") -> None:
        """The key is proven. Called before anything else is heard."""

    async def received(self, raw: bytes) -> None:
        """An envelope."""

    async def noticed(self, frame: frames.HallFrame) -> None:
        """A text frame that answers nothing."""


def mesh_url(url: str) -> str:
    """The place of the mesh in the hall at this URL."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    return parts._replace(path=path if path.endswith(PATH) else path + PATH).geturl()


class _Pending(NamedTuple):
    outcome: "asyncio.Future[Sent]"
    away: list[frames.Offline]  # what the hall said before it said `accepted`


class Line:
    def __init__(self, socket: ClientConnection, url: str, listener: Listener, patience: float) -> None:
        self._socket = socket
        self._url = url
        self._listener = listener
        self._patience = patience
        self._asked: dict[str, asyncio.Future[frames.Frame]] = {}
        self._sent: dict[int, _Pending] = {}
        self._last_ref = 0
        self._reading: asyncio.Task[None] | None = None
        self._hall = b""
        self.opened_at = asyncio.get_running_loop().time()
        self.floor = 0  # microseconds: an envelope must have a later timestamp

    @classmethod
    async def open(
        cls,
        url: str,
        key: PrivateKey,
        known_halls: KnownHalls,
        listener: Listener,
        *,
        patience: float,
        receives: bool = True,
    ) -> Self:
        """Resolves when the key is proven. Without `receives`, envelopes to the agent go to its other connections
        or into its inbox. Raises ConnectionFailed, ReplyTimeout, UntrustedHall or a Refusal."""
        socket = await open_socket(mesh_url(url), patience, subprotocol=frames.SUBPROTOCOL)
        line = cls(socket, url, listener, patience)
        try:
            async with asyncio.timeout(patience):
                await line._prove(key, known_halls, receives=receives)
        except TimeoutError:
            await socket.close()
            raise ReplyTimeout(f"{shown_url(url)} did not take the proof within {patience:g} s") from None
        except ConnectionLost as lost:
            raise ConnectionFailed(f"{place_at(url)} turned the agent away: {lost}") from None
        except BaseException:
            await socket.close()
            raise
        await listener.opened(line)
        line._reading = asyncio.create_task(line._read())
        return line

    @property
    def is_open(self) -> bool:
        return self._reading is not None and not self._reading.done()

    @property
    def hall(self) -> bytes:
        """The key of the hall."""
        return self._hall

    async def ask(self, question: frames.Frame, answer: type[Answer]) -> Answer:
        """The answer. Raises a Refusal, OutOfOrder, ReplyTimeout, UnexpectedReply or ConnectionLost."""
        self._last_ref += 1
        ref = str(self._last_ref)
        reply: asyncio.Future[frames.Frame] = asyncio.get_running_loop().create_future()
        self._asked[ref] = reply
        try:
            async with asyncio.timeout(self._patience):
                await self._transmit(frames.encode_frame(structs.replace(question, ref=ref)), text=True)
                found = await reply
        except TimeoutError:
            raise ReplyTimeout(f"the hall did not answer within {self._patience:g} s") from None
        finally:
            del self._asked[ref]
        if isinstance(found, frames.Error):
            raise (
                OutOfOrder(found.message)
                if found.code == frames.OUT_OF_ORDER
                else refusal(found.code, found.message)
            )
        if not isinstance(found, answer):
            raise UnexpectedReply(f"the hall answered {type(found).__name__} instead of {answer.__name__}")
        return found

    async def post(self, envelope: Envelope) -> Awaitable[Sent]:
        """Send an envelope. What is returned can be awaited, for what the hall says to it.

        Raises ConnectionLost or ReplyTimeout; and when it is awaited, OutOfOrder, NoCover, EnvelopeRejected or a
        Refusal besides.
        """
        pending = _Pending(asyncio.get_running_loop().create_future(), [])
        self._sent[envelope.nonce] = pending
        try:
            async with asyncio.timeout(self._patience):
                await self._transmit(encode(envelope), text=False)
        except TimeoutError:
            del self._sent[envelope.nonce]
            raise ReplyTimeout(f"the hall has not read anything for {self._patience:g} s") from None
        except BaseException:
            del self._sent[envelope.nonce]
            raise
        return self._outcome(envelope, pending)

    async def _outcome(self, envelope: Envelope, pending: _Pending) -> Sent:
        try:
            async with asyncio.timeout(self._patience):
                return await pending.outcome
        except TimeoutError:
            name = envelope.msg_type.name
            raise ReplyTimeout(
                f"the hall did not say within {self._patience:g} s what became of this {name}"
            ) from None
        finally:
            self._sent.pop(envelope.nonce, None)

    async def close(self) -> None:
        await self._socket.close()
        if self._reading is not None:
            await asyncio.wait((self._reading,))

    async def lost(self) -> MoothallError:
        """Why the connection ended, when it has."""
        assert self._reading is not None  # noqa: S101  # open() started it
        await asyncio.shield(self._reading)
        return loss_of(self._socket, self._url)

    # -- inside ------------------------------------------------------------------------------------------

    async def _prove(self, key: PrivateKey, known_halls: KnownHalls, *, receives: bool) -> None:
        agent_id = key.public.raw.hex()
        question = frames.Prove(agent_id=agent_id, acks=True, receives=receives)
        await self._transmit(frames.encode_frame(question), text=True)
        challenge = await self._next(frames.Challenge)
        text, hall = challenge.challenge, challenge.hall
        check_hall(self._url, text, hall, challenge.random, challenge.host, known_halls.read())
        signature = key.sign_bytes(frames.proof_text(challenge.challenge, challenge.hall, agent_id))
        await self._transmit(frames.encode_frame(frames.Prove(signature=signature.hex())), text=True)
        proven = await self._next(frames.Proven)
        await remember_hall(known_halls, self._url, challenge.hall)
        self._hall = bytes.fromhex(challenge.hall)
        self.floor = proven.floor

    async def _next(self, wanted: type[Answer]) -> Answer:
        """The frame of this type. What comes before it is not for an agent that has not proven its key."""
        while True:
            try:
                content = await self._socket.recv(decode=False)
            except ConnectionClosed:
                raise loss_of(self._socket, self._url) from None
            frame = _decode(content) if content[:1] == b"{" else None
            if isinstance(frame, wanted):
                return frame
            if isinstance(frame, frames.Error):
                raise refusal(frame.code, frame.message)
            if isinstance(frame, frames.Refused):
                raise error_of(frame)

    async def _transmit(self, content: bytes, *, text: bool) -> None:
        try:
            await self._socket.send(content, text=text)
        except ConnectionClosed:
            raise loss_of(self._socket, self._url) from None

    async def _read(self) -> None:
        try:
            with suppress(ConnectionClosed):
                while True:
                    content = await self._socket.recv()
                    if isinstance(content, bytes):
                        await self._listener.received(content)
                    else:
                        await self._heard(content.encode())
        finally:
            self._fail()
            self._socket.transport.abort()

    async def _heard(self, content: bytes) -> None:
        frame = _decode(content)
        if frame is None:
            log.debug("%s sent a text frame that is not known here", shown_url(self._url))
        elif frame.ref is not UNSET and frame.ref in self._asked:
            _resolve(self._asked[frame.ref], frame)
        elif not self._settle(frame):
            await self._listener.noticed(frame)

    def _settle(self, frame: frames.HallFrame) -> bool:
        """True if the frame says what became of an envelope that is waited for."""
        nonce = getattr(frame, "nonce", None)
        pending = None if nonce is None else self._sent.get(nonce)
        if pending is None:
            return False
        if isinstance(frame, frames.Offline):
            pending.away.append(frame)
        elif isinstance(frame, frames.Accepted):
            stored = any(each.stored for each in pending.away)
            sent = Sent(frame.msg_type, frame.nonce, frame.state, bool(pending.away), stored)
            _resolve(pending.outcome, sent)
        elif isinstance(frame, frames.NotInOrder):
            _reject(pending.outcome, OutOfOrder(frame.reason, frame.state))
        elif isinstance(frame, frames.Refused):
            _reject(pending.outcome, error_of(frame))
        return True

    def _fail(self) -> None:
        """Every waiting caller gets an error of its own."""
        for reply in self._asked.values():
            _reject(reply, loss_of(self._socket, self._url))
        for pending in self._sent.values():
            _reject(pending.outcome, loss_of(self._socket, self._url))


T = TypeVar("T")


def _resolve(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():
        future.set_result(result)


def _reject(future: "asyncio.Future[T]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # seen: its caller may have been cancelled, and asyncio would complain


def _decode(content: bytes) -> frames.HallFrame | None:
    try:
        frame: frames.HallFrame = frames.decode_hall_frame(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return frame


_CREDITS: Final = frozenset(get_args(CreditReason))


def error_of(frame: frames.Refused) -> MoothallError:
    """A hall has faults of three kinds: of the wire, of its ledger, and refusals as on its other wires."""
    if frame.fault not in Refusal.by_code and frame.fault not in _CREDITS:
        return EnvelopeRejected(frame.fault, frame.reason)
    return refusal(frame.fault, frame.reason)


def refusal(code: str, message: str) -> MoothallError:
    if code == frames.OUT_OF_ORDER:
        return OutOfOrder(message)
    if code == NO_COVER:
        return NoCover(message)
    if code in _CREDITS:
        return CreditsRefused(message, cast("CreditReason", code))
    known = Refusal.by_code.get(code, UnknownRefusal)
    return UnknownRefusal(message, code) if known is UnknownRefusal else known(message)

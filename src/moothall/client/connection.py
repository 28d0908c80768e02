"""One WebSocket to a hall: identification, then requests, replies and events. It does not reconnect."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Literal, NamedTuple, Protocol, Self

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from moothall.client.captcha import solve
from moothall.client.dialling import loss_of, open_socket, place_at, shown_url
from moothall.client.incoming import Incoming, decode, encode, features
from moothall.client.logs import log
from moothall.client.pace import FramePace
from moothall.client.requests import ByRef, OneAtATime, Replies, Request, refusal
from moothall.errors import (
    Banned,
    CaptchaFailed,
    ConnectionFailed,
    ConnectionLost,
    Displaced,
    Kicked,
    MoothallError,
    RateLimited,
    ReplyTimeout,
    UnexpectedReply,
)
from moothall.identity import PrivateKey
from moothall.known_halls import KnownHalls, check_challenge, place_of
from moothall.wire.agentchat import server
from moothall.wire.agentchat.client import CaptchaResponse, ClientMessage, Identify, VerifyIdentity
from moothall.wire.agentchat.names import TOO_FAST
from moothall.wire.agentchat.signing import auth_text, unbound_time
from moothall.wire.websocket import POLICY_VIOLATION

# A session that displaces another one of its key may have to wait for up to a minute (agentchat wire 4.5). A
# hall that echoes `ref` says so with TAKEOVER_PENDING; the reference server does not.
TAKEOVER_TIMEOUT: Final = 65.0
_GREETING: Final = "hello"  # the `ref` of IDENTIFY; a server that echoes it will echo all others

AskPerson = Callable[[str], str | Awaitable[str]]


class Applicant(NamedTuple):
    """The name and the key that a client identifies with."""

    name: str
    key: PrivateKey | None
    is_human: bool
    on_captcha: AskPerson | None
    known_halls: KnownHalls
    features: tuple[str, ...] = ()  # our extensions that it takes part in


class Listener(Protocol):
    def welcomed(self, welcome: server.Welcome) -> None:
        """Called before anything else is heard."""

    def heard(self, incoming: Incoming) -> None:
        """Called with every frame after that. Replies come here before their caller gets them."""


class HallConnection:
    def __init__(self, socket: ClientConnection, url: str, listener: Listener, *, paced: bool) -> None:
        self._socket = socket
        self._url = url
        self._listener = listener
        self._pace = FramePace() if paced else None
        self._replies: Replies = ByRef(self._transmit)
        self._ending: MoothallError | None = None  # what the server said before it closed
        self._warned = False  # that it sent a frame which is not a message
        self._reading: asyncio.Task[None] | None = None
        self.opened_at = asyncio.get_running_loop().time()
        self._features: frozenset[str] | None = None  # as WELCOME lists them

    @classmethod
    async def open(
        cls, url: str, applicant: Applicant, listener: Listener, *, patience: float, paced: bool = False
    ) -> Self:
        """Resolves when the hall has said WELCOME. Raises ConnectionFailed, ReplyTimeout or a Refusal."""
        socket = await open_socket(url, patience)
        connection = cls(socket, url, listener, paced=paced)
        try:
            await connection._introduce(applicant, patience)
        except ConnectionLost as lost:
            raise ConnectionFailed(f"{place_at(url)} turned the agent away: {lost}") from None
        except BaseException:
            await socket.close()
            raise
        connection._reading = asyncio.create_task(connection._read())
        return connection

    @classmethod
    async def knock(cls, url: str, listener: Listener, *, patience: float) -> Self:
        """A connection without an identity: it can send the operator's commands only."""
        connection = cls(await open_socket(url, patience), url, listener, paced=False)
        connection._replies = OneAtATime(connection._transmit)  # whether the server echoes `ref` is not known
        connection._reading = asyncio.create_task(connection._read())
        return connection

    @property
    def is_open(self) -> bool:
        return self._reading is not None and not self._reading.done()

    async def ask(self, request: Request) -> server.ServerMessage:
        """The reply. Raises a Refusal, or ConnectionLost; how long to wait is the caller's business."""
        if not self.is_open:
            raise self._loss()
        try:
            return await self._replies.ask(request)
        except RateLimited:
            if self._pace is None:
                self._pace = FramePace()
            raise

    async def close(self) -> None:
        await self._socket.close()
        if self._reading is not None:
            await asyncio.wait((self._reading,))

    async def lost(self) -> MoothallError:
        """Why the connection ended, when it has."""
        assert self._reading is not None  # noqa: S101  # open() started it
        await asyncio.shield(self._reading)
        return self._ending or self._loss()

    # -- saying who one is -------------------------------------------------------------------------

    async def _introduce(self, applicant: Applicant, patience: float) -> None:
        pubkey = applicant.key.public.pem if applicant.key is not None else None
        kind: Literal["agent", "human"] = "human" if applicant.is_human else "agent"
        named = list(applicant.features) or None
        await self._transmit(
            Identify(ref=_GREETING, name=applicant.name, pubkey=pubkey, kind=kind, features=named)
        )
        loop = asyncio.get_running_loop()
        # One limit for all of it: a server that only chats would be waited for without end.
        started = loop.time()
        echoes = False
        hall_key: str | None = None
        while True:
            incoming = await self._next(started + patience, patience)
            echoes = echoes or incoming.ref == _GREETING
            body = incoming.body
            if isinstance(body, server.Challenge):
                hall_key = check_challenge(self._url, body, applicant.known_halls.read())
                await self._transmit(_proof(applicant.key, body, is_bound=hall_key is not None))
                if not echoes:
                    patience = max(patience, TAKEOVER_TIMEOUT)
            elif isinstance(body, server.TakeoverPending):
                wait = body.wait_ms / 1000
                log.info("another session of this key is connected; the hall ends it in %g s", wait)
                patience = max(patience, TAKEOVER_TIMEOUT)
            elif isinstance(body, server.CaptchaChallenge):
                asked = loop.time()
                answer = await _answer(body.question, applicant.on_captcha)
                started += loop.time() - asked  # a person may take its time
                await self._transmit(CaptchaResponse(captcha_id=body.captcha_id, answer=answer))
            elif isinstance(body, server.Error):
                raise refusal(body)
            elif isinstance(body, server.Welcome):
                break
            elif incoming.type == "WELCOME":
                raise UnexpectedReply(f"the server at {shown_url(self._url)} welcomes in a way unknown here")
        if not echoes:
            self._replies = OneAtATime(self._transmit)
            self._pace = self._pace or FramePace()
        if hall_key is not None:
            await remember_hall(applicant.known_halls, self._url, hall_key)
        self._features = features(body)
        self._listener.welcomed(body)

    def lacks(self, feature: str) -> bool:
        """True if WELCOME does not list this extension. Without a WELCOME nothing is known."""
        return self._features is not None and feature not in self._features

    async def _next(self, deadline: float, patience: float) -> Incoming:
        try:
            async with asyncio.timeout_at(deadline):
                while True:
                    incoming = self._decode(await self._socket.recv(decode=False))
                    if incoming is not None:
                        self._note_ending(incoming)
                        return incoming
        except TimeoutError:
            raise ReplyTimeout(
                f"{shown_url(self._url)} accepted the connection but did not answer within {patience:g} s: "
                "is it a hall?"
            ) from None
        except ConnectionClosed:
            raise self._ending or self._loss() from None

    # -- traffic -----------------------------------------------------------------------------------

    async def _transmit(self, message: ClientMessage) -> None:
        if self._pace is not None and (wait := self._pace.reserve(asyncio.get_running_loop().time())) > 0:
            await asyncio.sleep(wait)
        try:
            await self._socket.send(encode(message), text=True)
        except ConnectionClosed:
            raise self._loss() from None

    async def _read(self) -> None:
        try:
            with suppress(ConnectionClosed):  # `_loss` tells the waiting callers why
                while True:
                    incoming = self._decode(await self._socket.recv(decode=False))
                    if incoming is None:
                        continue
                    self._note_ending(incoming)
                    self._listener.heard(incoming)
                    self._replies.offer(incoming)
        finally:
            self._replies.fail(self._loss)
            self._socket.transport.abort()

    def _decode(self, payload: bytes) -> Incoming | None:
        incoming = decode(payload)
        if incoming is None and not self._warned:
            self._warned = True
            log.warning(
                "%s sent a frame that is not a message; such frames are ignored", shown_url(self._url)
            )
        return incoming

    def _note_ending(self, incoming: Incoming) -> None:
        """The words before a close that must not be answered by coming back."""
        if incoming.type == "SESSION_DISPLACED":
            self._ending = Displaced(
                "another connection with the same key took over: a second copy of this agent, or a command with its"
                " key file. Give each a key file of its own"
            )
        elif incoming.type == "KICKED":
            self._ending = Kicked(_given_reason(incoming) or "kicked by the hall's operator")
        elif incoming.type == "BANNED":
            self._ending = Banned(_given_reason(incoming) or "banned by the hall's operator")

    def _loss(self) -> ConnectionLost:
        return loss_of(self._socket, self._url)


def _given_reason(incoming: Incoming) -> str:
    reason = incoming.raw.get("reason")
    return reason if isinstance(reason, str) else ""


def was_too_fast(error: Exception) -> bool:
    """True if a hall closed the connection because of too many frames (agentchat wire 1.3)."""
    return isinstance(error, ConnectionLost) and (error.code, error.reason) == (POLICY_VIOLATION, TOO_FAST)


def _proof(key: PrivateKey | None, challenge: server.Challenge, *, is_bound: bool) -> VerifyIdentity:
    """`is_bound` if the CHALLENGE names its hall. The signed time says so too: see `unbound_time`."""
    if key is None:
        raise UnexpectedReply("the hall asks for the proof of a key that it was not shown")
    now = int(time.time() * 1000)
    timestamp = now if is_bound else unbound_time(now)
    signature = key.sign(auth_text(challenge.nonce, challenge.challenge_id, timestamp))
    return VerifyIdentity(challenge_id=challenge.challenge_id, signature=signature, timestamp=timestamp)


async def remember_hall(known_halls: KnownHalls, url: str, hall_key: str) -> None:
    """Pin the key of the hall, unless this address has a pin."""
    place = place_of(url)
    if place in known_halls.read():
        return
    try:
        await asyncio.to_thread(known_halls.pin, place, hall_key)
    except OSError as error:
        log.warning("the key of the hall at %s is not remembered: %s", place, error)


async def _answer(question: str, on_captcha: AskPerson | None) -> str:
    answer = solve(question)
    if answer is not None:
        return answer
    if on_captcha is None:
        raise CaptchaFailed(f"the hall asks {question!r}: pass on_captcha= to answer it")
    reply = on_captcha(question)
    return reply if isinstance(reply, str) else await reply

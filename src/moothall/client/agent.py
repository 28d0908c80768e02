"""`Agent`: an agent in a hall, in ten lines."""

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from moothall.client.backoff import DEFAULT_BACKOFF, Backoff
from moothall.client.connection import Applicant, HallConnection
from moothall.client.court import Court
from moothall.client.deals import Deals
from moothall.client.dispute import Assignment, Case, Dispute
from moothall.client.events import (
    Arrival,
    Departure,
    Gap,
    Message,
    NickChange,
    PresenceChange,
    Typing,
    Welcome,
)
from moothall.client.exchange import Exchange
from moothall.client.floor import AnswerHumans, FloorPolicy
from moothall.client.handlers import (
    Filter,
    Handler,
    Handlers,
    MessageHandler,
    Registered,
    channel_names,
    require_handler,
)
from moothall.client.hearing import Hearing
from moothall.client.inbox import Inbox
from moothall.client.lifeline import Lifeline
from moothall.client.logs import log
from moothall.client.memory import Memory
from moothall.client.operations import Operations
from moothall.client.proposal import DealChange, Proposal
from moothall.client.speech import Speech
from moothall.client.standing import Standing
from moothall.client.stay import Stay
from moothall.errors import KeyFileMissing, MoothallError, NotConnected, UsageError
from moothall.identity import Identity, PrivateKey, load, load_or_create
from moothall.identity.certificates import timestamp_text
from moothall.identity.keyfile import AGENT_NAME
from moothall.identity.signatures import SEED_BYTES
from moothall.known_halls import KnownHalls

RawHandler = Handler[dict[str, Any]]
AssignmentHandler = Callable[[Assignment], Coroutine[Any, Any, bool | str | None]]
CaseHandler = Callable[[Case], Coroutine[Any, Any, str | tuple[str, str] | None]]

DEFAULT_URL: Final = "ws://127.0.0.1:6667"
URL_VARIABLE: Final = "AGENTCHAT_URL"
DEFAULT_NAME: Final = "agent"
TIMEOUT: Final = 10.0  # seconds

Event = TypeVar("Event")
Registrant = TypeVar("Registrant")


class Agent(Operations):
    """Somebody in a hall.

    `identity` is a key file or a key; without one the agent gets a new id from the hall at every connection.
    With `create`, a key file that is not there is made, and the log says so; without, KeyFileMissing is raised.
    `channels` are joined on connecting, like those that handlers name. `timeout` is how many seconds an operation
    waits that names none. See `FloorPolicy` for `skills` and `answer_humans`.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        identity: str | os.PathLike[str] | Identity | PrivateKey | None = None,
        create: bool = False,
        channels: Iterable[str] = (),
        human: bool = False,
        skills: Iterable[str] = (),
        answer_humans: AnswerHumans = "all",
        timeout: float = TIMEOUT,
        reconnect: bool = True,
        backoff: Backoff = DEFAULT_BACKOFF,
        on_captcha: Callable[[str], str | Awaitable[str]] | None = None,
        url: str | None = None,
    ) -> None:
        if name is not None:
            _check_name(name)
        self._identity = _load_identity(identity, name, create=create)
        own_name = name or (self._identity and self._identity.name) or DEFAULT_NAME
        self._policy = FloorPolicy.from_environment(
            os.environ, skills=tuple(skills), answer_humans=answer_humans
        )
        self._url = url
        self._human = human
        self._timeout = timeout
        self._reconnect = reconnect
        self._backoff = backoff
        self._on_captcha = on_captcha
        self._lifeline: Lifeline | None = None
        self._handlers = Handlers()
        self._memory = Memory()
        key = self._identity.key if self._identity is not None else None
        standing = Standing(own_name)
        exchange = Exchange(self._connection, timeout)
        hearing = Hearing(standing, self._memory, self._handlers, key)
        speech = Speech(exchange, standing, self._memory, self._policy, self._handlers.start)
        deals = Deals(exchange, standing, self._handlers, key)
        court = Court(exchange, standing, self._handlers, key, deals)
        deals.attach(court)
        hearing.attach(speech, exchange, deals, court)
        super().__init__(exchange, standing, speech, hearing, deals, court)
        for channel in channel_names(channels, "on_message"):
            standing.wanted[channel] = None

    def __repr__(self) -> str:
        state = "connected" if self.is_connected else "not connected"
        return f"<Agent {self.name} {state}>"

    # -- who it is ---------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """Without @. The hall gives it on connecting."""
        return self._standing.names()[0]

    @property
    def address(self) -> str:
        """With @, as others write to it."""
        return self._standing.address

    @property
    def name(self) -> str:
        return self._standing.name

    @property
    def identity(self) -> Identity | None:
        return self._identity

    @property
    def verified(self) -> bool:
        """Whether the hall vouches for the agent."""
        return self._standing.verified

    @property
    def is_connected(self) -> bool:
        return self._lifeline is not None and self._lifeline.is_connected

    @property
    def server(self) -> str:
        """What the hall calls itself."""
        return self._standing.welcome.server

    @property
    def motd(self) -> str | None:
        return self._standing.motd

    @property
    def rooms(self) -> frozenset[str]:
        """The channels the agent is in."""
        return frozenset(self._standing.rooms)

    # -- coming and going --------------------------------------------------------------------------

    def run(self, url: str | None = None) -> None:
        """Connect and stay until Ctrl-C, SIGTERM or `close()`. Raises what ends the stay otherwise."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass  # outside of this block, so that the errors of the stay do not seem to follow from it
        else:
            raise RuntimeError("an event loop is running here: use `await agent.connect()`, or SyncAgent")
        asyncio.run(self._run(url))

    async def connect(self, url: str | None = None) -> None:
        """Come in. `url` is by default what the agent was made with, $AGENTCHAT_URL, or a hall on this machine."""
        if self._lifeline is not None and not self._lifeline.is_over:
            raise RuntimeError("the agent is connected already")
        stay = Stay(
            url or self._url or os.environ.get(URL_VARIABLE) or DEFAULT_URL,
            self._applicant,
            self._standing,
            self._memory,
            self._hearing,
            self._handlers,
            self._timeout,
        )
        self._speech.begin()
        self._hearing.begin()
        self._lifeline = Lifeline(stay, self._backoff, random.random, reconnect=self._reconnect)
        await self._lifeline.start()

    async def close(self) -> None:
        """Leave. Handlers that run are cancelled."""
        await self._handlers.close()
        if self._lifeline is not None:
            await self._lifeline.close()
            await self._handlers.close()  # what the last messages have started meanwhile

    async def wait_closed(self) -> None:
        """Until the agent has left for good; raises the reason when it was not its own."""
        if self._lifeline is None:
            raise NotConnected("the agent has not connected yet")
        await self._lifeline.wait_closed()

    @asynccontextmanager
    async def connected(self, url: str | None = None) -> AsyncIterator[Self]:
        """`async with agent.connected(url):` is connect and close."""
        await self.connect(url)
        try:
            yield self
        finally:
            await self.close()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, url: str | None) -> None:
        stay = asyncio.current_task()
        assert stay is not None  # noqa: S101  # this is a coroutine
        asked_to_stop = asyncio.Event()

        def stop() -> None:
            _unwatch_signals()  # the second Ctrl-C is for whoever waits for the first in vain
            asked_to_stop.set()
            stay.cancel()

        _watch_signals(stop)
        try:
            await self.connect(url)
            await self.wait_closed()
        except asyncio.CancelledError:
            if not asked_to_stop.is_set():
                raise
        finally:
            _unwatch_signals()
            await self.close()

    async def _connection(self) -> HallConnection:
        if self._lifeline is None:
            raise NotConnected("the agent has not connected yet")
        return await self._lifeline.connection()

    def _applicant(self) -> Applicant:
        key = self._identity.key if self._identity is not None else None
        return Applicant(self._standing.name, key, self._human, self._on_captcha, KnownHalls())

    # -- hearing -----------------------------------------------------------------------------------

    def on_message(
        self,
        *channels: str,
        mentions: bool = False,
        dms: bool = False,
        verified: bool = False,
        floor: bool | FloorPolicy = False,
        replay: bool = False,
    ) -> Callable[[MessageHandler], MessageHandler]:
        """`@agent.on_message("#general")`: the function gets every Message it asks for.

        `channels` are joined by themselves. `mentions` takes only those that name the agent, `dms` direct
        messages, `verified` only senders the hall vouches for; without channels, mentions and dms it is
        everything. `floor` makes agents take turns: the function is not called, or is cancelled, when another
        agent answers. `replay` takes also what was said before the agent came.
        """
        wanted = channel_names(channels, "on_message")
        policy = self._policy if floor is True else floor or None

        def register(function: MessageHandler) -> MessageHandler:
            require_handler(function, "on_message")
            chosen = Filter(frozenset(wanted), mentions, dms, verified, replay)
            self._handlers.for_messages.append(Registered(function, chosen, policy))
            for channel in wanted:
                self._want(channel)
            return function

        return register

    def on_connect(self, function: Handler[Welcome]) -> Handler[Welcome]:
        """The function gets a Welcome, at the first connection and after every reconnect."""
        return self._on("on_connect", function)

    def on_disconnect(self, function: Handler[MoothallError]) -> Handler[MoothallError]:
        """The function gets the error that ended a connection."""
        return self._on("on_disconnect", function)

    def on_gap(self, function: Handler[Gap]) -> Handler[Gap]:
        """The function gets a Gap: what the agent may have missed."""
        return self._on("on_gap", function)

    def on_join(self, function: Handler[Arrival]) -> Handler[Arrival]:
        """The function gets an Arrival."""
        return self._on("on_join", function)

    def on_leave(self, function: Handler[Departure]) -> Handler[Departure]:
        """The function gets a Departure."""
        return self._on("on_leave", function)

    def on_presence(self, function: Handler[PresenceChange]) -> Handler[PresenceChange]:
        """The function gets a PresenceChange."""
        return self._on("on_presence", function)

    def on_nick(self, function: Handler[NickChange]) -> Handler[NickChange]:
        """The function gets a NickChange."""
        return self._on("on_nick", function)

    def on_typing(self, function: Handler[Typing]) -> Handler[Typing]:
        """The function gets a Typing."""
        return self._on("on_typing", function)

    def on_proposal(self, function: Handler[Proposal]) -> Handler[Proposal]:
        """The function gets a Proposal: an offer made to the agent, also one that was waiting when it came."""
        self._on("on_proposal", function)
        if self.is_connected:
            self._deals.catch_up_soon()
        return function

    def on_deal(self, function: Handler[DealChange]) -> Handler[DealChange]:
        """The function gets a DealChange when a deal of the agent's changes, whoever did it."""
        return self._on("on_deal", function)

    def on_dispute(self, function: Handler[Dispute]) -> Handler[Dispute]:
        """The function gets a Dispute: somebody took the agent to court, perhaps before it came."""
        self._on("on_dispute", function)
        return self._catch_up_with_court(function)

    def on_arbiter_assigned(self, function: AssignmentHandler) -> AssignmentHandler:
        """The function gets an Assignment: the agent was drawn to judge a dispute, perhaps before it came.

        It returns True to accept, False or a reason to decline, or None: then it calls `assignment.accept()` or
        `decline()` when it knows.
        """
        self._on("on_arbiter_assigned", function)
        return self._catch_up_with_court(function)

    def on_case(self, function: CaseHandler) -> CaseHandler:
        """The function gets a Case that the agent accepted to judge, with the evidence of both parties.

        It returns its vote: "disputant", "respondent" or "mutual", alone or as a pair with the reasoning; or None:
        then it calls `case.vote()` when it knows.
        """
        self._on("on_case", function)
        return self._catch_up_with_court(function)

    def on_event(self, type: str) -> Callable[[RawHandler], RawHandler]:  # noqa: A002  # the wire's own word
        """`@agent.on_event("FILE_CHUNK")`: the function gets every frame of this type as a dict; "*" is all."""

        def register(function: RawHandler) -> RawHandler:
            require_handler(function, "on_event")
            self._handlers.add(type, function)
            return function

        return register

    def messages(self, *channels: str, dms: bool = False, replay: bool = False) -> AsyncIterator[Message]:
        """`async for message in agent.messages("#general")`. Joins the channels when the iteration begins.

        It ends when the agent leaves. Whoever reads more than a thousand messages too late loses the oldest,
        and `on_gap` is told which.
        """
        wanted = channel_names(channels, "messages")
        chosen = Filter(frozenset(wanted), dms=dms, replay=replay)

        async def start() -> None:
            for channel in wanted:
                if channel not in self._standing.rooms:
                    await self.join(channel)
            await self._connection()

        inbox = Inbox(lambda message: chosen.wants(message, ()), start, self._hearing.miss)
        self._hearing.subscribe(inbox)
        return inbox

    def _on(self, event: str, function: Handler[Event]) -> Handler[Event]:
        require_handler(function, event)
        self._handlers.add(event, function)
        return function

    def _catch_up_with_court(self, function: Registrant) -> Registrant:
        if self.is_connected:
            self._court.catch_up_soon()
        return function

    def _want(self, channel: str) -> None:
        if channel in self._standing.wanted:
            return
        self._standing.wanted[channel] = None
        if self._lifeline is not None and not self._lifeline.is_over:
            self._handlers.start(self._join_later(channel))

    async def _join_later(self, channel: str) -> None:
        try:
            await self.join(channel)
        except MoothallError as error:
            log.warning("cannot join %s: %s", channel, error)


def _check_name(name: str) -> None:
    if AGENT_NAME.match(name) is None:
        raise UsageError(f"{name!r} is no name for an agent: 1 to 32 letters, digits, - or _")


def _load_identity(
    given: str | os.PathLike[str] | Identity | PrivateKey | None, name: str | None, *, create: bool
) -> Identity | None:
    if given is None or isinstance(given, Identity):
        return given
    if isinstance(given, PrivateKey):
        return Identity(given)
    path = Path(given).expanduser()
    if create:
        return _load_or_create(path, name)
    try:
        return load(path)
    except KeyFileMissing as error:
        raise KeyFileMissing(f"{error}, or with `create=True`") from None


def _load_or_create(path: Path, name: str | None) -> Identity:
    made: Identity | None = None

    def make() -> Identity:
        nonlocal made
        created = timestamp_text(int(time.time() * 1000))
        made = Identity(PrivateKey(os.urandom(SEED_BYTES)), name=name, created=created)
        return made

    identity = load_or_create(path, make)
    if made is not None and made.key == identity.key:  # another program may have been first
        log.warning("made a new key: %s", path)
    return identity


_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def _watch_signals(stop: Callable[[], None]) -> None:
    """Where that is possible: in the main thread, and not on Windows."""
    for number in _SIGNALS:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            asyncio.get_running_loop().add_signal_handler(number, stop)


def _unwatch_signals() -> None:
    for number in _SIGNALS:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            asyncio.get_running_loop().remove_signal_handler(number)

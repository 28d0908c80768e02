"""The stay of a model's agent in a hall: connected when a tool needs it, quiet when none does.

The agent connects with the first tool call. A lost connection is taken up again in the background; a call
meanwhile tries at once, so it never waits for a back-off. After a while without calls the agent leaves, and the
next call brings it back. An agent of a worker, which reports what it uses, connects at once and stays. An agent
that was displaced by a takeover, kicked or banned stays away until the model says `agentchat_connect`.
"""

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from moothall.client import Agent, Backoff, Member
from moothall.client.dialling import shown_url
from moothall.client.logs import log
from moothall.errors import (
    Banned,
    ClientError,
    Displaced,
    KeyFileMissing,
    Kicked,
    MoothallError,
    NotConnected,
    Refusal,
)
from moothall.identity.keyfile import Identity, require
from moothall.tools.floor import Floor
from moothall.tools.intake import Intake
from moothall.tools.keep_line import KeepLine
from moothall.tools.mailbox import Mailbox
from moothall.tools.mailboxes import Place
from moothall.tools.news import event_record
from moothall.tools.options import Options, may_create
from moothall.wire.agentchat.names import with_hash

TIMEOUT: Final = 10.0  # seconds for one answer of the hall
RETRY: Final = Backoff()

_FINAL: Final = (Displaced, Kicked, Banned)


class Ticket(NamedTuple):
    """How the agent was connected last, and is connected again."""

    url: str
    name: str | None
    identity: Path | Identity | None
    channels: tuple[str, ...]


class Session:
    """One agent for one model."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.floor = Floor()
        self.keep = KeepLine()
        self.status_text: str | None = None  # what the model shows of itself, also while it listens
        self.watchers: list[Callable[[str], None]] = []  # told which kind of thing has changed
        self._ticket = Ticket(options.url, options.name, options.chosen_key(None, None), options.channels)
        self._agent: Agent | None = None
        self._intake: Intake | None = None
        self._place: Place | None = None
        self._mailbox: Mailbox | None = None
        self._connecting = asyncio.Lock()
        self._ended: MoothallError | None = None  # why the agent must not come back by itself
        self._down: ClientError | None = None  # why the last attempt failed
        self._failures = 0  # to connect
        self._returning: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._idle: asyncio.TimerHandle | None = None
        self._busy = 0
        self.is_watched = False  # a host waits for news of a resource

    def __repr__(self) -> str:
        return f"<Session {shown_url(self.url)} {'connected' if self.connected else 'not connected'}>"

    # -- who and where -----------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return self._ticket.url

    @property
    def key(self) -> Path | Identity | None:
        """The key file, or a key that is in no file."""
        return self._ticket.identity

    @property
    def connected(self) -> Agent | None:
        """The agent, if it is in the hall."""
        return self._agent if self._agent is not None and self._agent.is_connected else None

    def require_return(self) -> None:
        """Raise what keeps the agent from coming back by itself, if anything does."""
        if self._ended is not None:
            raise self._ended

    async def agent(self) -> Agent:
        """The agent, in the hall. Raises at once what keeps it from there."""
        if (agent := self.connected) is not None:
            return agent
        await self._learn_the_end()
        self.require_return()
        failures = self._failures
        async with self._connecting:
            if (agent := self.connected) is not None:
                return agent
            if self._failures > failures and self._down is not None:
                raise self._down  # another attempt has just failed: a second one would double the wait
            return await self._open("reconnected")

    async def connect(self, ticket: Ticket) -> Agent:
        """Connect as the model asks. An agent that is in the hall like that already joins more channels.

        A key file that cannot be used changes nothing: the agent stays who it is. From a hall that it cannot reach
        it goes back to the one where it was.
        """
        async with self._connecting:
            previous, was_connected = self._ticket, self.connected is not None
            is_same = self._ticket[:3] == ticket[:3]
            successor = self._agent if is_same else _agent_of(ticket)
            self._ended = None
            self._ticket = ticket
            if is_same and (agent := self.connected) is not None:
                for channel in ticket.channels:
                    with suppress(Refusal):
                        await self.join(channel)
                return agent
            await self._leave()
            if not is_same:
                self._agent, self._intake = successor, None
                self._close_mailbox()
            try:
                return await self._open("connected")
            except ClientError:
                if was_connected:
                    self._ticket = previous
                    self._agent = self._intake = None
                    self._close_mailbox()
                raise

    async def close(self) -> None:
        """Leave, and write down what was read."""
        self._stop_idle_timer()
        async with self._connecting:
            await self._leave()
        self._close_mailbox()
        await self.keep.close()

    # -- the inbox ---------------------------------------------------------------------------------

    def mailbox(self) -> Mailbox:
        """The inbox, whether the agent is in the hall or not. Raises UsageError if its folder cannot be used."""
        if self._mailbox is None:
            self._place = Place.of(self.key)
            self._mailbox = Mailbox(self._place.folder)
        return self._mailbox

    def withdraw(self, call: object) -> None:
        """The host has cancelled a call: what it was told counts as unread."""
        if self._mailbox is not None:
            self._mailbox.withdraw(call)

    def last_reply(self, kind: str) -> Mapping[str, Any]:
        """The newest frame of a kind that answers a request, for what the SDK does not tell."""
        return {} if self._intake is None else self._intake.last_reply(kind)

    def note(self, event: str, fields: Mapping[str, Any]) -> None:
        """Tell the model of something that happened here, and not in the hall."""
        record = event_record(event, {**fields, "ts": round(time.time() * 1000)})
        if self._intake is not None:
            self._intake.take(record)

    def _confirm(self) -> None:
        if self._mailbox is not None:
            try:
                self._mailbox.confirm()
            except OSError as error:
                log.warning("what was read is not remembered: %s", error.strerror)

    def _close_mailbox(self) -> None:
        self._confirm()
        self._mailbox = None
        if self._place is not None:
            self._place.leave()
            self._place = None

    # -- tool calls --------------------------------------------------------------------------------

    @contextmanager
    def busy(self) -> Iterator[None]:
        """While a tool runs, the agent does not leave. A new call says that the model has the answers before."""
        self._busy += 1
        self._stop_idle_timer()
        self._confirm()
        try:
            yield
        finally:
            self._busy -= 1
            if not self._busy and self.options.idle:
                loop = asyncio.get_running_loop()
                self._idle = loop.call_later(self.options.idle, self._leave_if_idle)

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that the answer of a tool does not wait for."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _stop_idle_timer(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _leave_if_idle(self) -> None:
        self.in_background(self._leave_quietly())

    async def _leave_quietly(self) -> None:
        async with self._connecting:
            if not (self._busy or self.is_watched or self.options.budget_file):
                log.info("no tool call for %g s: leaving until the next one", self.options.idle)
                await self._leave()

    # -- channels ----------------------------------------------------------------------------------

    async def join(self, channel: str) -> list[Member]:
        """Enter a channel, and keep what the agent has not heard of it. Raises what `Agent.join` raises."""
        agent, intake = self.connected, self._intake
        if agent is None or intake is None:
            raise NotConnected("the connection was lost meanwhile")
        channel = with_hash(channel)
        if channel not in agent.rooms:
            with intake.holding():
                await intake.enter(channel)
        self.remember_channel(channel, wanted=True)
        return await agent.members(channel)

    def remember_channel(self, channel: str, *, wanted: bool) -> None:
        """Whether the agent enters this channel when it comes back."""
        rest = tuple(each for each in self._ticket.channels if each != channel)
        self._ticket = self._ticket._replace(channels=(*rest, channel) if wanted else rest)

    # -- coming and going --------------------------------------------------------------------------

    async def _open(self, reason: str) -> Agent:
        """Connect, and catch up with what happened meanwhile. The caller has the lock."""
        agent, intake = self._with_ears()
        with intake.holding():
            try:
                await agent.connect(self.url)
            except ClientError as error:
                self._failures += 1
                self._down = error
                self._return_later()
                raise
            self._down = None
            channels = tuple(dict.fromkeys(map(with_hash, self._ticket.channels)))
            await intake.catch_up(channels, reason)
        self._tell("agents")
        return agent

    def _with_ears(self) -> tuple[Agent, Intake]:
        """The agent of this ticket: the same for all its stays, so that it remembers offers of files."""
        if self._agent is None or self._intake is None:
            self._agent = agent = self._agent or _agent_of(self._ticket)
            self._intake = Intake(agent, self.mailbox(), self.floor, self._tell)

            async def lost(error: MoothallError) -> None:
                if self._agent is agent:
                    self._lost(error)

            agent.on_disconnect(lost)
        self.mailbox().load()  # another process with this key may have read on
        self._intake.look_back()
        return self._agent, self._intake

    async def _learn_the_end(self) -> None:
        """A stay ends a moment after its connection. Before it is known how, the agent must not come back: it would
        fight a takeover."""
        if self._agent is None:
            return
        try:
            await self._agent.wait_closed()
        except _FINAL as error:
            self._ended = error
        except MoothallError:
            return  # it may come back

    async def _leave(self) -> None:
        if self._returning is not None:
            self._returning.cancel()
            self._returning = None
        if self._agent is not None:
            await self._agent.close()

    def _lost(self, error: MoothallError) -> None:
        self.floor.clear()
        self._tell("agents")
        if not isinstance(error, _FINAL):
            self._return_later()
            return
        self._ended = error
        if self._mailbox is not None:
            self._mailbox.wake()  # a call that listens must not wait for what cannot come

    def _return_later(self) -> None:
        if self._returning is None or self._returning.done():
            self._returning = asyncio.create_task(self._come_back())

    async def _come_back(self) -> None:
        """Try again and again, more and more seldom, until the agent is back or has no business there."""
        for attempt in count():
            await asyncio.sleep(RETRY.delay(attempt, random.random))
            async with self._connecting:
                if self.connected is not None or self._ended is not None:
                    return
                try:
                    await self._open("reconnected")
                except ClientError as error:
                    log.debug("attempt %d: %s", attempt, error)
                except MoothallError as error:
                    log.warning("cannot connect: %s", error)
                    return

    def _tell(self, what: str) -> None:
        for watcher in self.watchers:
            watcher(what)


def _agent_of(ticket: Ticket) -> Agent:
    """A new agent. Raises KeyFileError."""
    name, key = ticket.name, ticket.identity
    if key is None:
        return Agent(
            name or f"anon_{secrets.token_hex(3)}",
            timeout=TIMEOUT,
            reconnect=False,
            delivery_receipts="manual",
        )
    is_ours = isinstance(key, Path) and may_create(key)
    if isinstance(key, Path):
        if is_ours:
            key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        else:
            _require(key)
    return Agent(
        name,
        identity=key,
        create=is_ours,
        timeout=TIMEOUT,
        reconnect=False,
        delivery_receipts="manual",
    )


def _require(path: Path) -> None:
    try:
        require(path)
    except KeyFileMissing as error:
        raise KeyFileMissing(f"{error}; a key file below ~/.agentchat is made when it is missing") from None

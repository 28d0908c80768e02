"""The stay of a model's agent in a hall: connected when a tool needs it, quiet when none does.

The agent connects with the first tool call. A lost connection is taken up again in the background; a call
meanwhile tries at once, so it never waits for a back-off. After a while without calls the agent leaves, and the
next call brings it back. An agent that was displaced by a takeover, kicked or banned stays away until the model
says `agentchat_connect`.
"""

import asyncio
import fcntl
import os
import random
import secrets
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from moothall.client import Agent, Backoff, Member
from moothall.client.connection import shown_url
from moothall.client.logs import log
from moothall.daemon.folder import Folder
from moothall.errors import (
    Banned,
    ClientError,
    Displaced,
    KeyFileMissing,
    Kicked,
    MoothallError,
    NotConnected,
    Refusal,
    UsageError,
)
from moothall.identity import load
from moothall.identity.keyfile import require
from moothall.tools import catching_up, news
from moothall.tools.catching_up import Known, Missed
from moothall.tools.floor import Floor
from moothall.tools.mailbox import Mailbox
from moothall.tools.options import Options, may_create
from moothall.wire.agentchat.names import bare_id, with_hash

TIMEOUT: Final = 10.0  # seconds for one answer of the hall
MAX_HELD: Final = 10_000  # frames that wait while the agent catches up
FOLDER_PREFIX: Final = "mcp"
ID_LENGTH: Final = 16  # hex digits
MAX_FOLDERS: Final = 100  # keyless agents of one user at a time
RETRY: Final = Backoff()

_FINAL: Final = (Displaced, Kicked, Banned)


class Ticket(NamedTuple):
    """How the agent was connected last, and is connected again."""

    url: str
    name: str | None
    identity: Path | None
    channels: tuple[str, ...]


class Session:
    """One agent for one model."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.floor = Floor()
        self._agent: Agent | None = None
        self._mailbox: Mailbox | None = None
        self._ticket = Ticket(
            options.url, options.name, options.chosen_key_file(None, None), options.channels
        )
        self._connecting = asyncio.Lock()
        self._ended: MoothallError | None = None  # why the agent must not come back by itself
        self._down: ClientError | None = None  # why the last attempt failed
        self._attempts = 0  # that failed
        self._known = Known()
        self._held: list[Mapping[str, Any]] | None = None  # frames, while the agent catches up
        self._returning: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._busy = 0
        self._lock: int | None = None  # descriptor: this process has the folder
        self.watchers: list[Callable[[str], None]] = []  # told which kind of thing has changed

    # -- what tools need ---------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return self._ticket.url

    @property
    def key_file(self) -> Path | None:
        return self._ticket.identity

    @property
    def connected(self) -> Agent | None:
        """The agent, if it is in the hall."""
        return self._agent if self._agent is not None and self._agent.is_connected else None

    async def agent(self) -> Agent:
        """The agent, in the hall. Raises at once what keeps it from there."""
        if (agent := self.connected) is not None:
            return agent
        if self._ended is not None:
            raise self._ended
        failed_before = self._attempts
        async with self._connecting:
            if (agent := self.connected) is not None:
                return agent
            if self._attempts > failed_before and self._down is not None:
                raise self._down  # another attempt has just ended: a second one would double the wait
            return await self._open("reconnected")

    async def connect(self, ticket: Ticket) -> Agent:
        """Connect as the model asks. If the agent is in the hall like that already, it only joins more channels."""
        async with self._connecting:
            self._ended = None
            is_same = self._ticket[:3] == ticket[:3]
            self._ticket = ticket
            if is_same and self.connected is not None:
                agent = self.connected
                for channel in ticket.channels:
                    with suppress(Refusal):
                        await self.join(channel)
                return agent
            await self._leave()
            if not is_same:
                self._forget_mailbox()
            return await self._open("connected")

    def mailbox(self) -> Mailbox:
        """The inbox, whether the agent is in the hall or not. Raises UsageError if its folder cannot be used."""
        if self._mailbox is None:
            folder = self._folder()
            folder.make()
            self._mailbox = Mailbox(folder)
        return self._mailbox

    @contextmanager
    def busy(self) -> Iterator[None]:
        """While a tool runs, the agent does not leave. What the last answers had, the model has."""
        self._busy += 1
        self._cancel_idle()
        if self._mailbox is not None:
            with suppress(OSError):
                self._mailbox.confirm()
        try:
            yield
        finally:
            self._busy -= 1
            if not self._busy and self.options.idle:
                loop = asyncio.get_running_loop()
                self._idle = loop.call_later(self.options.idle, self._leave_soon)

    async def join(self, channel: str) -> list[Member]:
        """Enter a channel, and keep what the agent has not heard of it. Raises what `Agent.join` raises."""
        agent = self._present()
        channel = with_hash(channel)
        if channel not in agent.rooms:
            with self._holding():
                self._keep(await self._caught_up(agent, channel))
        return await agent.members(channel)

    def withdraw(self, call: object) -> None:
        """The host has cancelled a call: what it was told counts as unread."""
        if self._mailbox is not None:
            self._mailbox.withdraw(call)

    def require_return(self) -> None:
        """Raise what keeps the agent from coming back by itself, if anything does."""
        if self._ended is not None:
            raise self._ended

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that the answer of a tool does not wait for."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def remember_channel(self, channel: str, *, wanted: bool) -> None:
        """Whether the agent enters this channel when it comes back."""
        rest = tuple(each for each in self._ticket.channels if each != channel)
        self._ticket = self._ticket._replace(channels=(*rest, channel) if wanted else rest)

    async def close(self) -> None:
        """Leave, and write down what was read."""
        self._cancel_idle()
        if self._returning is not None:
            self._returning.cancel()
        async with self._connecting:
            await self._leave()
        self._forget_mailbox()

    # -- coming and going --------------------------------------------------------------------------

    def _present(self) -> Agent:
        agent = self.connected
        if agent is None:
            raise NotConnected("the connection was lost meanwhile: call the tool again")
        return agent

    async def _open(self, reason: str) -> Agent:
        """Connect, and catch up with what happened meanwhile. The caller has the lock."""
        ticket = self._ticket
        agent = self._new_agent(ticket)
        mailbox = self.mailbox()
        mailbox.load()
        records, _ = mailbox.last_lines(catching_up.LOOKED_AT)
        self._known = Known.from_records(records)
        self._listen_to(agent)
        with self._holding():
            try:
                await agent.connect(ticket.url)
            except ClientError as error:
                self._attempts += 1
                self._down = error
                self._return_later()
                raise
            self._agent, self._down = agent, None
            self._keep(await self._catch_up(agent, reason))
        self._tell("agents")
        return agent

    def _new_agent(self, ticket: Ticket) -> Agent:
        name, path = ticket.name, ticket.identity
        if path is None:
            return Agent(name or f"anon_{secrets.token_hex(3)}", timeout=TIMEOUT, reconnect=False)
        if not may_create(path):
            _require(path)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Agent(name, identity=path, create=may_create(path), timeout=TIMEOUT, reconnect=False)

    async def _leave(self) -> None:
        if self._returning is not None:
            self._returning.cancel()
            self._returning = None
        agent, self._agent = self._agent, None
        if agent is not None:
            await agent.close()

    def _leave_soon(self) -> None:
        if not self._busy and self.connected is not None:
            self._returning = asyncio.create_task(self._leave_idle())

    async def _leave_idle(self) -> None:
        self._returning = None  # this task ends with the connection, and must not cancel itself
        async with self._connecting:
            if not self._busy:
                log.info("no tool call for %g s: leaving until the next one", self.options.idle)
                await self._leave()

    def _cancel_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _return_later(self) -> None:
        if self._returning is None or self._returning.done():
            self._returning = asyncio.create_task(self._come_back())

    async def _come_back(self) -> None:
        """Try again and again, more and more seldom, until the agent is back or has no business there."""
        for attempt in count():
            await asyncio.sleep(RETRY.delay(attempt, random.random))
            async with self._connecting:
                if not self._is_away:
                    return
                try:
                    await self._open("reconnected")
                except ClientError as error:
                    log.debug("attempt %d: %s", attempt, error)
                except MoothallError as error:
                    log.warning("cannot connect: %s", error)
                    return

    @property
    def _is_away(self) -> bool:
        """True if the agent is not in the hall, and should be."""
        return self.connected is None and self._ended is None

    async def _lost(self, error: MoothallError) -> None:
        self.floor.clear()
        self._tell("agents")
        if isinstance(error, _FINAL):
            self._ended = error
            if self._mailbox is not None:
                self._mailbox.wake()
        else:
            self._return_later()

    # -- hearing -----------------------------------------------------------------------------------

    def _listen_to(self, agent: Agent) -> None:
        async def hear(frame: Mapping[str, Any]) -> None:
            if frame.get("replay") is True:
                return  # the request for history returns it
            if self._held is None:
                self._keep([frame])
            elif len(self._held) < MAX_HELD:
                self._held.append(frame)

        async def lost(error: MoothallError) -> None:
            if self._agent is agent:
                await self._lost(error)

        agent.on_event(hear)
        agent.on_disconnect(lost)

    @contextmanager
    def _holding(self) -> Iterator[None]:
        """Keep back what is heard meanwhile, so that the past comes first."""
        if self._held is not None:
            yield
            return
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held, None
            self._keep(held)

    def _keep(self, frames: "list[Mapping[str, Any]]") -> None:
        """Write what concerns the agent into its inbox."""
        records = []
        for frame in frames:
            self.floor.hear(frame, self._is_own)
            record = dict(frame) if frame.get("type") == news.EVENT else news.record_of(frame, self._is_own)
            if record is not None and not self._known.is_told(record):
                self._known.note(record)
                records.append(record)
        if records:
            try:
                self.mailbox().append(records)
            except OSError as error:
                log.error("the inbox cannot be written: %s", error.strerror)
            self._tell("inbox")

    def _is_own(self, address: str) -> bool:
        agent = self._agent
        return agent is not None and bool(address) and bare_id(address) == self._own_id(agent)

    @staticmethod
    def _own_id(agent: Agent) -> str | None:
        try:
            return agent.id
        except NotConnected:
            return None

    async def _catch_up(self, agent: Agent, reason: str) -> "list[Mapping[str, Any]]":
        found: dict[str, Missed] = {}
        frames: list[Mapping[str, Any]] = []
        for channel in dict.fromkeys(map(with_hash, self._ticket.channels)):
            try:
                missed = await self._missed(agent, channel)
            except Refusal as refusal:
                log.info("cannot join %s: %s", channel, refusal)
                continue
            found[channel] = missed
            frames += missed.frames
        gap = catching_up.gap_record(self._known, time.time() * 1000, reason, found)
        if gap is not None:
            frames.append(gap)
        return sorted(frames, key=lambda frame: frame.get("ts", 0))

    async def _caught_up(self, agent: Agent, channel: str) -> "list[Mapping[str, Any]]":
        return (await self._missed(agent, channel)).frames

    async def _missed(self, agent: Agent, channel: str) -> Missed:
        repeated = [message.raw for message in await agent.history(channel)]
        return catching_up.missed_in(channel, repeated, self._known)

    # -- the folder --------------------------------------------------------------------------------

    def _folder(self) -> Folder:
        """One for each key. Agents without a key share a few: each process takes one that is free."""
        path = self._ticket.identity
        if path is not None:
            return Folder.of(f"{FOLDER_PREFIX}-{_id_in(path)}")
        for number in range(1, MAX_FOLDERS + 1):
            folder = Folder.of(FOLDER_PREFIX if number == 1 else f"{FOLDER_PREFIX}-{number}")
            folder.make()
            if (lock := _locked(folder)) is not None:
                self._lock = lock
                return folder
        raise UsageError(f"{MAX_FOLDERS} MCP servers without a key run already: end some, or use a key file")

    def _forget_mailbox(self) -> None:
        if self._mailbox is not None:
            with suppress(OSError):
                self._mailbox.confirm()
        self._mailbox = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _tell(self, what: str) -> None:
        for watcher in self.watchers:
            watcher(what)

    def __repr__(self) -> str:
        return f"<Session {shown_url(self.url)} {'connected' if self.connected else 'not connected'}>"


def _require(path: Path) -> None:
    try:
        require(path)
    except KeyFileMissing as error:
        raise KeyFileMissing(f"{error}; a key file below ~/.agentchat is made when it is missing") from None


def _id_in(path: Path) -> str:
    """The id of the key in a file, which may be longer in some halls."""
    try:
        return load(path).public.fingerprint[:ID_LENGTH]
    except KeyFileMissing:
        raise UsageError(f"{path} is not there yet: call agentchat_connect, which makes it") from None


def _locked(folder: Folder) -> int | None:
    """A lock that ends with the process; None if another process has it."""
    descriptor = folder.open(".mcp.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor

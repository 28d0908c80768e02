"""`SyncAgent`: the same agent for scripts and notebooks, without `await`."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Literal, Self, overload

from moothall.client.agent import TIMEOUT, Agent
from moothall.client.asking import ASK_TIMEOUT
from moothall.client.background import (
    BackgroundLoop,
    SyncAdmin,
    SyncDelivery,
    SyncDispute,
    SyncFileOffer,
    SyncFileTransfer,
    SyncMessage,
    SyncProposal,
    documented_by,
)
from moothall.client.backoff import DEFAULT_BACKOFF, Backoff
from moothall.client.delivery import ReceiptMode
from moothall.client.dispute import Dispute
from moothall.client.events import Answering, ApiToken, Budget, ChannelInfo, Member
from moothall.client.file_offer import FileOffer, OnProgress
from moothall.client.files import Paths
from moothall.client.floor import MAX_ROUNDS, AnswerHumans
from moothall.client.message import Message
from moothall.client.proposal import Proposal
from moothall.client.sync_trading import SyncTrades
from moothall.files.sending import OFFER_EXPIRY
from moothall.identity import Identity, PrivateKey, PublicKey
from moothall.wire.agentchat.client import PresenceState, ReportedStatus


@documented_by(Agent)
class SyncAgent(SyncTrades):
    """An `Agent` on an event loop in the background: every method waits for its result and returns it.

    `with SyncAgent("script", url=...) as agent:` connects and closes. Instead of handlers there is `messages()`.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        identity: str | os.PathLike[str] | Identity | PrivateKey | None = None,
        create: bool = False,
        channels: str | Iterable[str] = (),
        human: bool = False,
        markers: bool = True,
        skills: str | Iterable[str] = (),
        answer_humans: AnswerHumans = "one",
        max_rounds: int = MAX_ROUNDS,
        timeout: float = TIMEOUT,
        reconnect: bool = True,
        backoff: Backoff = DEFAULT_BACKOFF,
        on_captcha: Callable[[str], str | Awaitable[str]] | None = None,
        url: str | None = None,
        delivery_receipts: ReceiptMode = "auto",
    ) -> None:
        agent = Agent(
            name,
            identity=identity,
            create=create,
            channels=channels,
            human=human,
            markers=markers,
            skills=skills,
            answer_humans=answer_humans,
            max_rounds=max_rounds,
            timeout=timeout,
            reconnect=reconnect,
            backoff=backoff,
            on_captcha=on_captcha,
            url=url,
            delivery_receipts=delivery_receipts,
        )
        super().__init__(agent)

    def __repr__(self) -> str:
        return f"<Sync{repr(self._agent)[1:]}"

    # -- who it is ---------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self._agent.id

    @property
    def address(self) -> str:
        return self._agent.address

    @property
    def name(self) -> str:
        return self._agent.name

    @property
    def identity(self) -> Identity | None:
        return self._agent.identity

    @property
    def verified(self) -> bool:
        return self._agent.verified

    @property
    def is_connected(self) -> bool:
        return self._agent.is_connected

    @property
    def server(self) -> str:
        return self._agent.server

    @property
    def motd(self) -> str | None:
        return self._agent.motd

    @property
    def rooms(self) -> frozenset[str]:
        return self._agent.rooms

    @property
    def features(self) -> frozenset[str]:
        return self._agent.features

    def answering(self, channel: str | None = None) -> list[Answering]:
        async def look() -> list[Answering]:
            return self._agent.answering(channel)

        return self._wait(look())

    # -- coming and going --------------------------------------------------------------------------

    def connect(self, url: str | None = None) -> None:
        if self._loop is not None:
            raise RuntimeError("the agent is connected already")
        self._loop = BackgroundLoop()
        try:
            self._loop.wait(self._agent.connect(url))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.wait(self._agent.close())
            loop.stop()

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- what arrives ------------------------------------------------------------------------------

    def messages(
        self,
        *channels: str,
        dms: bool = False,
        replay: bool = False,
        server: bool = False,
        timeout: float | None = None,
    ) -> Iterator[SyncMessage]:
        """Return an iterator: `for message in agent.messages("#general")`. It raises what `join` raises.

        `channels`, `dms`, `replay` and `server` are as for `Agent.messages`. It ends when the agent leaves, or when
        `timeout` seconds were quiet.
        """
        loop = self._running()

        async def subscribe() -> AsyncIterator[Message]:
            return self._agent.messages(*channels, dms=dms, replay=replay, server=server)

        return self._read(loop, loop.wait(subscribe()), timeout)

    def _read(
        self, loop: BackgroundLoop, source: AsyncIterator[Message], timeout: float | None
    ) -> Iterator[SyncMessage]:
        async def read() -> Message | None:
            try:
                async with asyncio.timeout(timeout):
                    return await anext(source, None)
            except TimeoutError:
                return None

        while (message := loop.wait(read())) is not None:
            yield SyncMessage(message, loop)

    def history(self, channel: str, *, timeout: float | None = None) -> list[SyncMessage]:
        loop = self._running()
        return [
            SyncMessage(message, loop)
            for message in self._wait(self._agent.history(channel, timeout=timeout))
        ]

    # -- operations --------------------------------------------------------------------------------

    @overload
    def send(
        self,
        to: str,
        content: str,
        *,
        in_reply_to: str | None = None,
        receipt: Literal[False] = False,
        timeout: float | None = None,
    ) -> str | None: ...
    @overload
    def send(
        self,
        to: str,
        content: str,
        *,
        in_reply_to: str | None = None,
        receipt: Literal[True],
        timeout: float | None = None,
    ) -> SyncDelivery: ...
    def send(
        self,
        to: str,
        content: str,
        *,
        in_reply_to: str | None = None,
        receipt: bool = False,
        timeout: float | None = None,
    ) -> str | SyncDelivery | None:
        if receipt:
            work = self._agent.send(to, content, in_reply_to=in_reply_to, receipt=True, timeout=timeout)
            return SyncDelivery(self._wait(work), self._running())
        return self._wait(self._agent.send(to, content, in_reply_to=in_reply_to, timeout=timeout))

    def report(
        self,
        msg_id: str,
        status: ReportedStatus,
        reason: str | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        self._wait(self._agent.report(msg_id, status, reason, timeout=timeout))

    def ask(self, target: str, text: str, *, timeout: float = ASK_TIMEOUT) -> SyncMessage:
        return SyncMessage(self._wait(self._agent.ask(target, text, timeout=timeout)), self._running())

    def wait_for(
        self,
        event: str,
        check: Callable[[Any], object] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Return the next `event` of a kind: see `Agent.wait_for`. Events count from the call on.

        `check` gets what a handler of an `Agent` gets, on the thread of the event loop. Messages, proposals,
        disputes and offers of files come back as those that are used without `await`.
        """
        loop = self._running()

        async def wait() -> object:
            return await self._agent.wait_for(event, check, timeout)

        found = loop.wait(wait())
        if isinstance(found, Message):
            return SyncMessage(found, loop)
        if isinstance(found, Proposal):
            return SyncProposal(found, loop)
        if isinstance(found, FileOffer):
            return SyncFileOffer(found, loop)
        return SyncDispute(found, loop) if isinstance(found, Dispute) else found

    def send_chunk(self, to: str, content: str, *, timeout: float | None = None) -> None:
        self._wait(self._agent.send_chunk(to, content, timeout=timeout))

    def typing(self, channel: str, *, timeout: float | None = None) -> None:
        self._wait(self._agent.typing(channel, timeout=timeout))

    def claim(
        self, msg_id: str, channel: str, started_at: float | None = None, *, timeout: float | None = None
    ) -> bool:
        return self._wait(self._agent.claim(msg_id, channel, started_at, timeout=timeout))

    def release(self, msg_id: str, channel: str, *, timeout: float | None = None) -> None:
        self._wait(self._agent.release(msg_id, channel, timeout=timeout))

    def join(self, channel: str, *, timeout: float | None = None) -> list[Member]:
        return self._wait(self._agent.join(channel, timeout=timeout))

    def leave(self, channel: str, *, timeout: float | None = None) -> None:
        self._wait(self._agent.leave(channel, timeout=timeout))

    def create_channel(
        self,
        channel: str,
        *,
        invite_only: bool = False,
        verified_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        self._wait(
            self._agent.create_channel(
                channel, invite_only=invite_only, verified_only=verified_only, timeout=timeout
            )
        )

    def invite(self, channel: str, agent: str, *, timeout: float | None = None) -> None:
        self._wait(self._agent.invite(channel, agent, timeout=timeout))

    def channels(self, *, timeout: float | None = None) -> list[ChannelInfo]:
        return self._wait(self._agent.channels(timeout=timeout))

    def members(self, channel: str, *, timeout: float | None = None) -> list[Member]:
        return self._wait(self._agent.members(channel, timeout=timeout))

    def agents(self, ids: Iterable[str] | None = None, *, timeout: float | None = None) -> list[Member]:
        return self._wait(self._agent.agents(ids, timeout=timeout))

    def set_nick(self, nick: str, *, timeout: float | None = None) -> None:
        self._wait(self._agent.set_nick(nick, timeout=timeout))

    def set_presence(
        self,
        status: PresenceState,
        text: str | None = None,
        *,
        budget: Budget | None = None,
        timeout: float | None = None,
    ) -> None:
        self._wait(self._agent.set_presence(status, text, budget=budget, timeout=timeout))

    def report_budget(self, budget: Budget, *, timeout: float | None = None) -> None:
        self._wait(self._agent.report_budget(budget, timeout=timeout))

    def api_token(self, *, timeout: float | None = None) -> ApiToken:
        return self._wait(self._agent.api_token(timeout=timeout))

    def ping(self, *, timeout: float | None = None) -> float:
        return self._wait(self._agent.ping(timeout=timeout))

    def verify(self, agent: str, *, timeout: float | None = None) -> PublicKey:
        return self._wait(self._agent.verify(agent, timeout=timeout))

    def revoke(self, notice: Mapping[str, Any], *, timeout: float | None = None) -> str:
        return self._wait(self._agent.revoke(notice, timeout=timeout))

    # -- files -------------------------------------------------------------------------------------

    def send_files(
        self,
        target: str,
        paths: Paths,
        *,
        progress: OnProgress | None = None,
        timeout: float = OFFER_EXPIRY,
    ) -> SyncFileTransfer:
        sent = self._wait(self._agent.send_files(target, paths, progress=progress, timeout=timeout))
        return SyncFileTransfer(sent, self._running())

    def offer_files(
        self,
        target: str,
        paths: Paths,
        *,
        progress: OnProgress | None = None,
        timeout: float = OFFER_EXPIRY,
    ) -> SyncFileTransfer:
        offered = self._wait(self._agent.offer_files(target, paths, progress=progress, timeout=timeout))
        return SyncFileTransfer(offered, self._running())

    def file_offers(self) -> list[SyncFileOffer]:
        async def look() -> list[FileOffer]:
            return self._agent.file_offers()

        return [SyncFileOffer(offer, self._running()) for offer in self._wait(look())]

    def file_offer(self, transfer_id: str) -> SyncFileOffer:
        async def look() -> FileOffer:
            return self._agent.file_offer(transfer_id)

        return SyncFileOffer(self._wait(look()), self._running())

    # -- the operator ------------------------------------------------------------------------------

    def admin(self, key: str) -> SyncAdmin:
        return SyncAdmin(self._agent.admin(key), self._running())

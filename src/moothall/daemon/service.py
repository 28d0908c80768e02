"""The daemon itself: an agent that stores what it hears, and sends what it finds in its outbox."""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from moothall.client import Agent, Backoff, Welcome
from moothall.client.delivery import RECEIPTS
from moothall.daemon.delivery import Confirmed, Delivery
from moothall.daemon.drafts import Draft
from moothall.daemon.inbox import Inbox
from moothall.daemon.instance import Instance, Status
from moothall.daemon.outbox import Outbox
from moothall.daemon.recorder import Recorder
from moothall.errors import MoothallError, Refusal

DEFAULT_CHANNELS: Final = ("#general", "#agents", "#code-review", "#servers")  # agentchat wire 19.2
MAX_RECONNECT: Final = 600.0  # seconds (agentchat wire 19.2)
BACKOFF: Final = Backoff(first=2.0, longest=60.0)  # agentchat wire 19.2
RECEIPT_TIMEOUT: Final = 2.0  # seconds; the next line waits for it
LAST_MESSAGE: Final = 10.0  # seconds for a message that is on its way when the daemon is stopped

log: Final = logging.getLogger("moothall.daemon")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a daemon is to do."""

    url: str
    shown_url: str  # without a password
    channels: tuple[str, ...] = DEFAULT_CHANNELS
    max_reconnect: float | None = MAX_RECONNECT  # seconds; None is for ever


class Messenger:
    """Sends drafts as an agent, with a delivery receipt where the hall gives them."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.join = agent.join

    @property
    def is_connected(self) -> bool:
        return self._agent.is_connected

    @property
    def rooms(self) -> frozenset[str]:
        return self._agent.rooms

    async def send(self, draft: Draft) -> Confirmed:
        agent, reply = self._agent, draft.in_reply_to
        if RECEIPTS not in agent.features:
            return Confirmed(await agent.send(draft.to, draft.content, in_reply_to=reply))
        delivery = await agent.send(draft.to, draft.content, in_reply_to=reply, receipt=True)
        try:
            delivered = await delivery.delivered(RECEIPT_TIMEOUT)
        except MoothallError:
            return Confirmed(delivery.id, delivery.recipients)  # the hall has the message, whatever came then
        return Confirmed(delivery.id, delivery.recipients, delivered)


class Daemon:
    """`ready` is called with one line when the agent is in the hall."""

    def __init__(
        self, agent: Agent, instance: Instance, inbox: Inbox, plan: Plan, ready: Callable[[str], None]
    ) -> None:
        self._agent = agent
        self._instance = instance
        self._plan = plan
        self._ready = ready
        self._recorder = Recorder(inbox)
        self._outbox = Outbox(instance.folder)
        self._delivery = Delivery(Messenger(agent), self._outbox)
        self._started_at = _now()

    async def run(self) -> None:
        """Stay in the hall until SIGTERM, Ctrl-C, or until `max_reconnect` has passed without a connection.

        Raises what keeps the agent out of the hall, or ends its stay, and OSError.
        """
        self._ending = asyncio.Event()
        self._giving_up: asyncio.TimerHandle | None = None
        self._recorder.begin()
        self._outbox.make()
        agent = self._agent
        agent.listen(self._recorder.hear)
        agent.on_gap(self._recorder.miss)
        agent.on_connect(self._connected)
        agent.on_disconnect(self._disconnected)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._end, "asked to stop")
        try:
            async with agent.connected(self._plan.url):
                refused = await self._enter()
                self._tell(connected=True)
                greeting = self._greeting(refused)
                log.info("ready: %s", greeting)
                self._ready(greeting)
                await self._stay()
        finally:
            self._recorder.flush()

    async def _stay(self) -> None:
        """Until the end of the daemon, or of the agent's stay: then raise its error."""
        delivering = asyncio.create_task(self._delivery.run())
        leaving = asyncio.create_task(self._agent.wait_closed())
        ending = asyncio.create_task(self._ending.wait())
        await asyncio.wait((delivering, leaving, ending), return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        self._delivery.stop()
        await asyncio.wait((delivering,), timeout=LAST_MESSAGE)
        for task in (delivering, leaving):
            if task.done():
                task.result()
            task.cancel()  # a message that is still on its way is told as in doubt by the next daemon

    async def _enter(self) -> list[str]:
        """Enter the channels. Return why not, for those that are given up (agentchat wire 18.1)."""
        refused = []
        for channel in self._plan.channels:
            try:
                await self._agent.join(channel)
            except Refusal as refusal:
                log.warning("cannot enter %s: %s", channel, refusal)
                refused.append(f"{channel} ({refusal.code})")
        return refused

    def _greeting(self, refused: list[str]) -> str:
        channels = ", ".join(sorted(self._agent.rooms)) or "no channel"
        left_out = f"; the hall refuses {', '.join(refused)}" if refused else ""
        return (
            f"{self._agent.address} ({self._agent.name}) at {self._plan.shown_url}, in {channels}{left_out}"
        )

    # -- coming and going --------------------------------------------------------------------------

    async def _connected(self, _: Welcome) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None
        self._tell(connected=True)

    async def _disconnected(self, _: MoothallError) -> None:
        self._tell(connected=False)
        limit = self._plan.max_reconnect
        if limit is not None and self._giving_up is None:
            why = f"no connection for {limit:g} s"
            self._giving_up = asyncio.get_running_loop().call_later(limit, self._end, why)

    def _end(self, why: str) -> None:
        if not self._ending.is_set():
            log.info("ending: %s", why)
            self._ending.set()

    def _tell(self, *, connected: bool) -> None:
        agent = self._agent
        status = Status(
            pid=os.getpid(),
            url=self._plan.shown_url,
            agent=agent.address,
            name=agent.name,
            channels=sorted(agent.rooms),
            connected=connected,
            started_at=self._started_at,
            since=_now(),
        )
        try:
            self._instance.tell(status)
        except OSError as error:
            log.warning("the status cannot be written: %s", error.strerror)


def _now() -> int:
    return time.time_ns() // 1_000_000

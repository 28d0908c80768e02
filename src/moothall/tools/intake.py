"""Takes in everything that the hall says to an agent, and keeps what concerns it in its inbox.

Live frames come one by one. What happened while the agent was away comes in one go after it has connected: the
history of its channels, offers that wait, deals that changed, and cases. Meanwhile live frames are held back, so
that the inbox is in order.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from moothall.client import Agent, Assignment, Case, Dispute, FileOffer, Proposal
from moothall.client.logs import log
from moothall.errors import MoothallError, NotConnected, Refusal
from moothall.tools import catching_up, news
from moothall.tools.catching_up import Known, Missed
from moothall.tools.floor import Floor
from moothall.tools.mailbox import Mailbox
from moothall.tools.receipts import ReceiptSums
from moothall.wire.agentchat.names import bare_id

REPLIES: Final = frozenset(("SKILLS_REGISTERED", "SEARCH_RESULTS"))
# Which lists other frames change.
LISTS: Final[Mapping[str, tuple[str, ...]]] = {
    "AGENT_JOINED": ("agents", "channels"),
    "AGENT_LEFT": ("agents", "channels"),
    "JOINED": ("channels",),
    "LEFT": ("channels",),
    "NICK_CHANGED": ("agents",),
    "PRESENCE_CHANGED": ("agents",),
}
MAX_HELD: Final = 10_000  # frames that wait while the agent catches up
MAX_CAUGHT_UP: Final = 100  # deals, and as many cases

Frame = Mapping[str, Any]


class Intake:
    """The ears of one agent."""

    def __init__(self, agent: Agent, mailbox: Mailbox, floor: Floor, changed: Callable[[str], None]) -> None:
        self._agent = agent
        self._mailbox = mailbox
        self._floor = floor
        self._changed = changed  # told which kind of thing has changed
        self._replies: dict[str, Frame] = {}
        self._held: list[Frame] | None = None
        self._known = Known()
        self._receipts = ReceiptSums()
        self._attach()

    def look_back(self) -> None:
        """Take from the inbox what the agent knows. Another process with its key may have been in the hall."""
        records, _ = self._mailbox.last_lines(catching_up.LOOKED_AT)
        self._known = Known.from_records(records)

    def last_reply(self, kind: str) -> Frame:
        """The newest frame of a kind that answers a request, for what the SDK does not tell."""
        return self._replies.get(kind, {})

    # -- live --------------------------------------------------------------------------------------

    def _attach(self) -> None:
        def hear(frame: Frame) -> None:
            kind = frame.get("type")
            for what in LISTS.get(str(kind), ()):
                self._changed(what)
            if kind in REPLIES:
                self._replies[str(kind)] = frame
            elif kind == "RECEIPT":
                for receipt in self._receipts.summed(frame):
                    self.take(receipt)
            elif (
                kind != news.EVENT and frame.get("replay") is not True
            ):  # the request for history returns those
                self.take(frame)

        async def offered(deal: Proposal) -> None:
            if deal.status == "pending" and not deal.is_mine:
                self.take(catching_up.offer_record(deal))

        async def sued(case: Dispute) -> None:
            self.take(catching_up.panel_record(case))

        async def assigned(assignment: Assignment) -> None:
            self.take(catching_up.assignment_record(assignment))

        async def shown(case: Case) -> None:
            self.take(catching_up.case_record(case))

        async def tendered(offer: FileOffer) -> None:
            self.take(file_offer_record(offer))

        agent = self._agent
        agent.listen(hear)
        agent.on_file_offer(tendered)
        if agent.identity is not None:
            # These also tell of what was waiting when the agent came; the inbox has each of them once.
            agent.on_proposal(offered)
            agent.on_dispute(sued)
            agent.on_arbiter_assigned(assigned)
            agent.on_case(shown)

    def take(self, frame: Frame) -> None:
        """Keep a frame, or a record that was made of one."""
        if self._held is None:
            self._keep([frame])
        elif len(self._held) < MAX_HELD:
            self._held.append(frame)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Hold back what is heard meanwhile, so that the past comes first."""
        if self._held is not None:
            yield
            return
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held, None
            self._keep(held)

    def _keep(self, frames: list[Frame]) -> None:
        records = []
        for frame in frames:
            self._floor.hear(frame, self.is_own)
            record = dict(frame) if frame.get("type") == news.EVENT else news.record_of(frame, self.is_own)
            if record is not None and not self._known.is_told(record):
                self._known.note(record)
                records.append(record)
        if not records:
            return
        try:
            self._mailbox.append(records)
        except OSError as error:
            log.error("the inbox cannot be written: %s", error.strerror)
        for what in {"inbox"}.union(*map(news.lists_changed_by, records)):
            self._changed(what)

    def is_own(self, address: str) -> bool:
        try:
            return bool(address) and bare_id(address) == self._agent.id
        except NotConnected:
            return False

    # -- the past ----------------------------------------------------------------------------------

    async def catch_up(self, channels: "tuple[str, ...]", reason: str) -> None:
        """Enter the channels, and keep what happened while the agent was away."""
        found: dict[str, Missed] = {}
        frames: list[Frame] = []
        for channel in channels:
            try:
                found[channel] = missed = await self._missed_in(channel)
            except Refusal as refusal:
                log.info("cannot join %s: %s", channel, refusal)
            else:
                frames += missed.frames
        frames += await self._changes()
        gap = catching_up.gap_record(self._known, time.time() * 1000, reason, found)
        if gap is not None:
            frames.append(gap)
        self._keep(sorted(frames, key=catching_up.moment_of))

    async def enter(self, channel: str) -> None:
        """Enter one channel more, and keep what it remembers. Raises what `Agent.join` raises."""
        self._keep((await self._missed_in(channel)).frames)

    async def _missed_in(self, channel: str) -> Missed:
        repeated = [message.raw for message in await self._agent.history(channel)]
        return catching_up.missed_in(channel, repeated, self._known)

    async def _changes(self) -> list[Frame]:
        """What became of deals and cases, for an agent that has been here before."""
        agent, since = self._agent, self._known.newest
        if agent.identity is None or since is None:
            return []
        found: list[Frame] = []
        try:
            if "lists" in agent.features:
                deals = await agent.proposals(open_only=False, limit=MAX_CAUGHT_UP)
                found += catching_up.changed_deals(deals, since, self.is_own)
            if "cases" in agent.features:
                found += catching_up.decided_cases(
                    await agent.disputes(open_only=False, limit=MAX_CAUGHT_UP), self._known
                )
        except MoothallError as error:
            log.warning("deals and cases of the time away are not known: %s", error)
        return found


def file_offer_record(offer: FileOffer) -> dict[str, Any]:
    return news.event_record(
        "FILE_OFFER",
        {
            "transfer_id": offer.transfer_id,
            "from": offer.sender,
            "from_name": offer.sender_name,
            "verified": offer.verified,
            "files": [{"name": file.name, "size": file.size} for file in offer.files],
            "total_size": offer.size,
            "chunks": offer.chunks,
            "ts": round(time.time() * 1000),
        },
    )

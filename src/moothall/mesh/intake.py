"""What arrives, one after the other: verified, applied to its conversation, and told to handlers.

Envelopes of the inbox come before those that arrive meanwhile. They are confirmed, and so removed from the inbox,
when handlers were told of them; an agent that is killed before gets them again.
"""

import asyncio
from base64 import b64decode
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from moothall.client.handlers import Handlers
from moothall.client.logs import log
from moothall.errors import MoothallError, OutOfOrder, UnknownRefusal
from moothall.hall.mesh import frames
from moothall.identity import verify
from moothall.market.mesh import step_of
from moothall.mesh.catching_up import MissedPart, missed
from moothall.mesh.conversation import Conversation
from moothall.mesh.events import Assigned, Away, Change, Missed
from moothall.mesh.line import Line
from moothall.mesh.marks import Marks, is_mail
from moothall.mesh.message import Message, read
from moothall.mesh.post import now_us
from moothall.mesh.records import Seen
from moothall.wire.mesh.announcements import Beacon
from moothall.wire.mesh.envelope import NO_CONVERSATION, NO_RECIPIENT, Envelope, decode
from moothall.wire.mesh.faults import EnvelopeRefused, PayloadParseError
from moothall.wire.mesh.msg_types import BILATERAL, NAMED_TOPIC, MsgType
from moothall.wire.mesh.validation import check, prove, topic_of

MAX_WAITING: Final = 10_000  # envelopes and notices; beyond that, the agent does not read
MAX_WAITING_BYTES: Final = 32 * 1024 * 1024  # of envelopes, likewise
MAX_NAMES: Final = 10_000


Work = Callable[[], Awaitable[None]]


class Affairs(Protocol):
    """What the intake asks of the agent."""

    @property
    def id(self) -> str: ...

    def conversation_of(self, conversation_id: bytes) -> Conversation: ...

    def find(self, conversation_id: bytes) -> Conversation | None: ...

    def remember(self, conversation: Conversation, *messages: Message) -> None: ...

    async def refresh(self, conversation: Conversation) -> None: ...


class Intake:
    def __init__(
        self, affairs: Affairs, handlers: Handlers, marks: Marks, *, inbox_limit: int | None = None
    ) -> None:
        """An agent that reads its inbox without a limit also learns what it missed: `marks` has what it saw."""
        self._affairs = affairs
        self._handlers = handlers
        self._marks = marks
        self._catches_up = inbox_limit is None
        self._is_caught_up = False  # on this connection
        self._inbox_left = inbox_limit  # envelopes that are still read of the inbox; None for all
        self._waiting: asyncio.Queue[tuple[Work, int]] = asyncio.Queue(MAX_WAITING)
        self._bytes = 0  # of envelopes that wait
        self._room = asyncio.Event()
        self._seen = Seen()
        self._working: asyncio.Task[None] | None = None
        self._searches: dict[str, list[asyncio.Future[frames.DiscoverResults]]] = {}
        self.names: dict[str, str] = {}  # of agents, as their BEACONs have them
        self._hall = b""

    def begin(self) -> None:
        if self._catches_up:
            self._marks.load()
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())

    async def end(self) -> None:
        if self._working is not None:
            self._working.cancel()
            await asyncio.wait((self._working,))
        self._marks.save()

    # -- what the line tells -----------------------------------------------------------------------------

    async def opened(self, line: Line) -> None:
        self._hall = line.hall
        self._is_caught_up = False
        if self._catches_up:
            opened_at = now_us()
            await self._waiting.put((lambda: self._catch_up(line, opened_at), 0))
        if self._inbox_left != 0:
            await self._waiting.put((lambda: self._read_inbox(line), 0))

    def is_there(self) -> None:
        """The hall has just said something on this connection: all that it sent before has arrived."""
        if self._is_caught_up:
            self._marks.reached(now_us())

    async def received(self, raw: bytes) -> None:
        while self._bytes and self._bytes + len(raw) > MAX_WAITING_BYTES:
            self._room.clear()
            await self._room.wait()
        self._bytes += len(raw)
        await self._waiting.put((lambda: self._take(raw), len(raw)))

    async def noticed(self, frame: frames.HallFrame) -> None:
        if isinstance(frame, frames.DiscoverResults):
            self._found(frame)
        else:
            await self._waiting.put((lambda: self._note(frame), 0))

    def search(self, query: str) -> "asyncio.Future[frames.DiscoverResults]":
        """The answer to the next DISCOVER with this query. The hall answers those of one query in their order."""
        future: asyncio.Future[frames.DiscoverResults] = asyncio.get_running_loop().create_future()
        self._searches.setdefault(query, []).append(future)
        return future

    def give_up(self, query: str, search: "asyncio.Future[frames.DiscoverResults]") -> None:
        searches = self._searches.get(query, [])
        if search in searches:
            searches.remove(search)
        if not searches:
            self._searches.pop(query, None)

    def _found(self, frame: frames.DiscoverResults) -> None:
        searches = self._searches.get(frame.query)
        if searches:
            search = searches.pop(0)
            if not search.done():
                search.set_result(frame)

    # -- one after the other -----------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            if self._waiting.empty():
                self._marks.save()
            work, size = await self._waiting.get()
            try:
                await work()
            except (MoothallError, ValueError) as error:  # a hall may send anything
                log.warning("what arrived could not be read: %s", error)
            finally:
                self._bytes -= size
                self._room.set()

    async def _catch_up(self, line: Line, opened_at: int) -> None:
        """Tell what the hall's log has and this agent has not seen. It is told in the order of the log, and what
        was said since comes after it."""
        if self._marks.since is None:
            self._marks.begin(opened_at)
        else:
            async for part in missed(self._affairs, line, self._marks):
                self._tell_missed(part)
            self._marks.reached(opened_at)
        self._is_caught_up = True

    def _tell_missed(self, part: MissedPart) -> None:
        for message in part.messages:
            self._tell(message)
        if part.changed:
            change = Change(part.conversation, part.conversation.state, "away")
            self._handlers.tell("change", change)

    async def _read_inbox(self, line: Line) -> None:
        after: int | None = None
        while self._inbox_left != 0:
            limit = frames.MAX_PAGE if self._inbox_left is None else min(self._inbox_left, frames.MAX_PAGE)
            try:
                page = await line.ask(frames.ReadInbox(after=after, limit=limit), frames.Inbox)
            except UnknownRefusal as refusal:
                if refusal.code == frames.NO_INBOX:
                    return
                raise
            if page.lost:
                log.warning("%d envelopes had to make way while the agent was away", page.lost)
                self._handlers.tell("missed", Missed(page.lost))
            for kept in page.envelopes:
                await self._take(b64decode(kept.envelope))
            if not page.envelopes:
                return
            after = page.cursor
            if self._inbox_left is not None:
                self._inbox_left -= len(page.envelopes)
        await line.ask(frames.ReadInbox(after=after, limit=1), frames.Inbox)  # confirms the last ones

    async def _take(self, raw: bytes) -> None:
        envelope = verified(raw)
        if envelope is None or envelope.recipient not in (NO_RECIPIENT, bytes.fromhex(self._affairs.id)):
            log.warning("the hall passed on an envelope that does not hold, or is for another agent: dropped")
            return
        if not self._is_new(envelope):
            return
        conversation = await self._apply(envelope)
        message = read(envelope, conversation)
        if conversation is not None:
            self._affairs.remember(conversation, message)
            conversation.notify()
        if isinstance(message.payload, Beacon):
            self._name(message.sender, message.payload.name)
        self._tell(message)
        self.is_there()

    def _is_new(self, envelope: Envelope) -> bool:
        """Messages of conversations are remembered apart: a crowd of BEACONs must not push them out."""
        return self._marks.is_new(envelope) if is_mail(envelope) else self._seen.is_new(envelope)

    def _tell(self, message: Message) -> None:
        self._handlers.tell(message.type, message, message.size)
        self._handlers.tell("*", message, message.size)

    async def _apply(self, envelope: Envelope) -> Conversation | None:
        if envelope.msg_type is MsgType.FEEDBACK:
            return self._rated(envelope)
        if envelope.msg_type is MsgType.NOTARIZE_BID:
            return self._own(envelope.conversation_id)
        if envelope.msg_type not in BILATERAL or envelope.conversation_id == NO_CONVERSATION:
            return None
        conversation = self._affairs.conversation_of(envelope.conversation_id)
        try:
            known = envelope.sender != self._hall and conversation.record.fits(step_of(envelope))
        except OutOfOrder:
            known = False
        if not known:
            await self._refresh(conversation)
        return conversation

    def _rated(self, envelope: Envelope) -> Conversation | None:
        """FEEDBACK is on a topic: most of it is about others."""
        try:
            step = step_of(envelope)
        except OutOfOrder:
            return None
        conversation = self._own(step.conversation_id)
        if conversation is not None:
            conversation.record.fits(step)
        return conversation

    def _own(self, conversation_id: bytes) -> Conversation | None:
        """A conversation that is known, and that this agent takes part in."""
        conversation = self._affairs.find(conversation_id)
        facts = None if conversation is None else conversation.record.facts
        is_own = facts is not None and bytes.fromhex(self._affairs.id) in facts.participants
        return conversation if is_own else None

    async def _refresh(self, conversation: Conversation) -> None:
        conversation.record.is_stale = True
        try:
            await self._affairs.refresh(conversation)
        except MoothallError as error:
            log.warning("conversation %s cannot be read from the hall: %s", conversation.id, error)

    async def _note(self, frame: frames.HallFrame) -> None:
        if isinstance(frame, frames.NotaryAssigned):
            conversation = self._affairs.conversation_of(bytes.fromhex(frame.conversation_id))
            conversation.record.assigned(bytes.fromhex(frame.notary))
            conversation.notify()
            self._handlers.tell("notary", Assigned(conversation, frame.notary, frame.fee))
        elif isinstance(frame, frames.ConversationChanged):
            conversation = self._affairs.conversation_of(bytes.fromhex(frame.conversation_id))
            if frame.cause in ("message", "court"):
                await self._refresh(conversation)
            else:
                conversation.record.changed(frame.state)
            conversation.notify()
            self._handlers.tell("change", Change(conversation, frame.state, frame.cause))
        elif isinstance(frame, frames.Offline):
            away = Away(frame.recipient, frame.msg_type, frame.nonce, frame.conversation_id, frame.stored)
            self._handlers.tell("away", away)
        elif isinstance(frame, frames.Refused | frames.NotInOrder):
            log.warning("the hall did not take an envelope: %s", frame.reason)
        elif isinstance(frame, frames.Error):
            log.warning("the hall says: %s", frame.message)

    def _name(self, agent_id: str, name: str) -> None:
        self.names.pop(agent_id, None)
        if name:
            self.names[agent_id] = name
        while len(self.names) > MAX_NAMES:
            del self.names[next(iter(self.names))]


def verified(raw: bytes) -> Envelope | None:
    """The envelope, if its sender signed it and it belongs where it came from. The hall has checked its time."""
    try:
        envelope = decode(raw)
        prove(envelope, verify)
        check(envelope, topic=_topic(envelope))
    except EnvelopeRefused:
        return None
    return envelope


def _topic(envelope: Envelope) -> str | None:
    try:
        return topic_of(envelope)
    except PayloadParseError:
        return NAMED_TOPIC  # of a BROADCAST that cannot be read

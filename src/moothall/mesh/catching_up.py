"""What an agent of the mesh missed while it was away: it is in the hall's log (mesh wire 8).

An inbox in memory ends with its hall, and an envelope that was sent into a dead connection is gone. What they did
is committed. So an agent that comes back asks which of its conversations have changed, and reads their histories.
"""

from collections.abc import AsyncIterator
from typing import Final, NamedTuple, Protocol

from moothall.client.logs import log
from moothall.errors import MoothallError
from moothall.hall.mesh import frames
from moothall.mesh.conversation import Conversation
from moothall.mesh.line import Line
from moothall.mesh.marks import Marks, is_mail
from moothall.mesh.message import Message

MAX_LISTED: Final = 1000  # conversations, the latest ones
MILLI_TO_MICRO: Final = 1000


class Affairs(Protocol):
    @property
    def id(self) -> str: ...

    def conversation_of(self, conversation_id: bytes) -> Conversation: ...

    async def refresh(self, conversation: Conversation) -> None: ...


class MissedPart(NamedTuple):
    """Of one conversation: messages to the agent, the oldest first."""

    conversation: Conversation
    messages: list[Message]
    changed: bool  # it changed otherwise


async def missed(affairs: Affairs, line: Line, marks: Marks) -> AsyncIterator[MissedPart]:
    """All that the agent has not seen. It counts as seen then. Raises what `Line.ask` raises."""
    since = marks.since or 0
    async for summary in _listed(line):
        # The hall rounds down to milliseconds, and the marks have microseconds.
        if not marks.concerns((summary.updated_at + 1) * MILLI_TO_MICRO):
            continue
        conversation = affairs.conversation_of(bytes.fromhex(summary.conversation_id))
        known = None if conversation.record.facts is None else conversation.state
        try:
            await affairs.refresh(conversation)
        except MoothallError as error:
            if not line.is_open:
                raise
            log.warning("conversation %s cannot be read from the hall: %s", conversation.id, error)
            continue
        messages, others = _unseen(conversation, affairs.id, marks)
        is_other = (
            summary.updated_at * MILLI_TO_MICRO > since if known is None else known != conversation.state
        )
        changed = others or (is_other and not messages)
        if messages or changed:
            yield MissedPart(conversation, messages, changed)


async def _listed(line: Line) -> AsyncIterator[frames.ConversationSummary]:
    before: str | None = None
    for _ in range(MAX_LISTED // frames.MAX_PAGE):
        question = frames.ListConversations(limit=frames.MAX_PAGE, before=before)
        page = await line.ask(question, frames.Conversations)
        for summary in page.conversations:
            yield summary
        before = page.before
        if before is None:
            return


def _unseen(conversation: Conversation, own_id: str, marks: Marks) -> tuple[list[Message], bool]:
    """Messages to this agent, and whether there were some between others."""
    messages, others = [], False
    for message in conversation.history:
        envelope = message.envelope
        if message.sender == own_id or not is_mail(envelope):
            continue
        if not marks.concerns(envelope.timestamp) or not marks.is_new(envelope):
            continue
        if message.recipient in (own_id, None):
            messages.append(message)
        else:
            others = True
    return messages, others

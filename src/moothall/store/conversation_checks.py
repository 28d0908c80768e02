"""Whether conversations and escrows hold together: a part of `checks`."""

from collections.abc import Iterator
from typing import Final

import msgspec

from moothall.market.conversations import Conversation
from moothall.market.credits import Escrow, deal_name
from moothall.store.dialect import Connection
from moothall.store.rows import listed_conversation

_conversation: Final = msgspec.json.Decoder(Conversation).decode
_escrow: Final = msgspec.json.Decoder(Escrow).decode

_CONVERSATIONS: Final = (
    "SELECT conversations.id, requester, provider, proposer, created_at, notary, conversations.is_open, deadline,"
    " completed_at, state, conversations.record, escrows.record"
    " FROM conversations LEFT JOIN escrows ON conversation_id = conversations.id ORDER BY conversations.id"
)
_COMPLETED: Final = (
    "SELECT DISTINCT deal FROM audit WHERE operation = 'complete' AND deal LIKE 'mesh:%' ORDER BY deal"
)


_CASES: Final = "SELECT proposal_id, id FROM disputes WHERE is_open = 1 AND proposal_id LIKE 'mesh:%'"


def conversation_problems(connection: Connection) -> Iterator[str]:
    told = {row[0] for row in connection.stream(_COMPLETED)}
    cases: dict[str, str] = dict(connection.stream(_CASES))
    for *columns, record, aside in connection.stream(_CONVERSATIONS):
        conversation = _conversation(record)
        name = deal_name(columns[0])
        said = (
            conversation.id,
            conversation.requester,
            conversation.provider,
            conversation.proposer,
            conversation.created_at,
            *listed_conversation(conversation),
            conversation.state,
        )
        if said != tuple(columns):
            yield f"conversation {name}: the columns do not say what the record says"
        if name in told and conversation.completed_at is None:
            yield f"conversation {name}: the audit trail completes it, and the record does not"
        if conversation.case != cases.pop(name, None):
            yield f"conversation {name}: {conversation.case} holds it, which is not its open court case"
        yield from _escrow_problems(name, conversation, None if aside is None else _escrow(aside))


def _escrow_problems(name: str, conversation: Conversation, escrow: Escrow | None) -> Iterator[str]:
    is_open = escrow is not None and escrow.settled is None
    held = escrow.amount if escrow is not None and is_open else 0
    if conversation.elsewhere and escrow is not None:
        yield f"conversation {name}: its credits are elsewhere, and it has an escrow"
    elif conversation.held != held:
        yield f"conversation {name}: {conversation.held} is put aside, and its escrow has {held}"
    elif escrow is not None and is_open:
        parties = (escrow.requester, escrow.provider, escrow.notary, escrow.ends_at)
        if parties != (*conversation.parties, conversation.notary, conversation.timeout_at):
            yield f"conversation {name}: its escrow has other agents, or another timeout"

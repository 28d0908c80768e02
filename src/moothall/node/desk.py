"""Units of work of a node: what an envelope does, and what is kept of it (mesh wire 7, 8).

An envelope that arrives is decided, logged and put into the inbox in one transaction. So is one that is sent, with
the letter that is to be delivered: all of it is on the disk, or nothing is. Both go through the same state machine.

A message that its conversation does not allow is refused if our agent wants to send it. If it arrives, it is logged
and noted in the inbox, and changes nothing.

A notary gets no message of the conversation that it judges but its NOTARIZE_ASSIGN, and DISPUTEs. So its node does
not know the state: an agent that was assigned may send VERDICTs, and each party's node decides whether it counts.
"""

from collections.abc import Callable, Collection
from typing import Final, Protocol

from msgspec import Struct, structs

from moothall.errors import CreditsRefused, NoCover, NodeRefused, OutOfOrder, RateLimited
from moothall.market import conversing, feedback
from moothall.market.conversing import Dealt, MeshRules
from moothall.market.epoch_log import LogBooks
from moothall.market.mesh import assigned_notary, authority_of, conversation_id_of, step_of
from moothall.market.mesh_books import MeshBooks
from moothall.market.node_books import Letter, NodeBooks
from moothall.node.reports import AgentReputation
from moothall.wire.mesh.envelope import NO_CONVERSATION, NO_RECIPIENT, Envelope, decode
from moothall.wire.mesh.faults import PayloadParseError
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import BILATERAL, MsgType
from moothall.wire.mesh.notaries import BidType, NotarizeAssign, NotarizeBid
from moothall.wire.mesh.outcomes import Feedback

_LOOKED_AT: Final = 100  # envelopes of a conversation, to find an assignment


class Books(MeshBooks, LogBooks, NodeBooks, Protocol):
    """One unit of work of a node."""


class Rated(Struct, frozen=True):
    """FEEDBACK that counts."""

    score: int
    reputation: AgentReputation


class Taken(Struct, frozen=True):
    """What became of an envelope. `cursors` are its numbers in the inboxes of these agents."""

    cursors: tuple[tuple[bytes, int], ...]
    note: str | None  # why it changed nothing
    rated: Rated | None = None


class Posted(Struct, frozen=True):
    """A message that our agent sends. `letters` are to be delivered: itself, and the assignment of a notary."""

    taken: Taken
    letters: tuple[Letter, ...]


class Desk:
    """All methods run inside a transaction. Times are Unix milliseconds."""

    def __init__(self, rules: MeshRules) -> None:
        self._rules = rules

    # -- what arrives ----------------------------------------------------------------------------------

    def receive(
        self, books: Books, envelope: Envelope, raw: bytes, now: int, recipients: Collection[bytes]
    ) -> Taken | None:
        """An envelope of a stranger, which was checked, for these agents of the node. None: it came before."""
        known = keccak256(raw)
        if books.logged_envelope(known) is not None:
            return None
        note, dealt = None, None
        try:
            dealt = self._decide(books, envelope, raw, now, is_ours=False)
        except (OutOfOrder, CreditsRefused, RateLimited) as error:
            note = str(error)
        return self._keep(books, envelope, raw, now, recipients, note, dealt)

    def _keep(
        self,
        books: Books,
        envelope: Envelope,
        raw: bytes,
        now: int,
        recipients: Collection[bytes],
        note: str | None,
        dealt: Dealt | None,
    ) -> Taken:
        known = keccak256(raw)
        books.log(envelope, raw, now, belongs=_belongs(envelope, note, dealt), envelope_hash=known)
        cursors: tuple[tuple[bytes, int], ...] = ()
        if envelope.msg_type is not MsgType.BEACON:  # there is a newer one in half a minute
            cursors = tuple((each, books.put_arrived(each, known, now, note)) for each in recipients)
        return Taken(cursors, note, _rated(books, envelope, dealt, now))

    # -- what our agents send --------------------------------------------------------------------------

    def send(
        self, books: Books, envelope: Envelope, raw: bytes, now: int, recipients: Collection[bytes]
    ) -> Posted:
        """An envelope of one of our agents. `recipients` are those of our agents that get it here.

        Raises NodeRefused.
        """
        letter = Letter(
            number=0,  # the store chooses it
            sender=envelope.sender,
            recipient=envelope.recipient,
            msg_type=envelope.msg_type,
            conversation_id=envelope.conversation_id,
            is_logged=True,
            at=now,
            payload=envelope.payload,
        )
        dealt = None
        if not books.take_failure(letter):  # else it is the same message once more
            dealt = self._refusing(lambda: self._decide(books, envelope, raw, now, is_ours=True))
        taken = self._keep(books, envelope, raw, now, recipients, None, dealt)
        letters = []
        if envelope.recipient == NO_RECIPIENT or not recipients:
            letters.append(_numbered(books, letter))
        if dealt is not None and dealt.assigned is not None:
            letters.append(_numbered(books, _assignment(letter, dealt.assigned)))
        return Posted(taken, tuple(letters))

    def _refusing(self, decide: Callable[[], Dealt | None]) -> Dealt | None:
        try:
            return decide()
        except NoCover as error:
            raise NodeRefused(402, str(error)) from None
        except RateLimited as error:
            raise NodeRefused(429, str(error)) from None
        except (OutOfOrder, CreditsRefused) as error:
            raise NodeRefused(409, str(error)) from None

    # -- both ------------------------------------------------------------------------------------------

    def _decide(
        self, books: Books, envelope: Envelope, raw: bytes, now: int, *, is_ours: bool
    ) -> Dealt | None:
        """None: the message belongs to no conversation that this node knows, and need not."""
        if envelope.msg_type is MsgType.NOTARIZE_BID:
            return _bid(books, envelope, now)
        if envelope.msg_type not in BILATERAL and envelope.msg_type is not MsgType.FEEDBACK:
            return None
        conversation_id = conversation_id_of(envelope)
        if books.conversation(conversation_id) is None:
            if envelope.msg_type is MsgType.FEEDBACK and not is_ours:
                return None  # strangers rate each other
            if _is_for_notary(books, envelope, conversation_id):
                return None
        return conversing.take(
            books, step_of(envelope), authority_of(envelope, raw), now=now, rules=self._rules
        )

    def lapse(self, books: Books, now: int, most: int) -> int:
        """Act upon deadlines that have passed, and return how many conversations changed."""
        due = books.due_conversations(now, most)
        return sum(conversing.lapse(books, each, now=now) is not None for each in due)


def reputation_of(books: Books, key: bytes, now: int) -> AgentReputation:
    vector = feedback.vector_at(books.standing(key), now)
    return AgentReputation(
        agent_id=key,
        reliability=vector.reliability,
        cooperation=vector.cooperation,
        notary_accuracy=vector.notary_accuracy,
        total_tasks=vector.total_tasks,
        total_notarized=vector.total_notarized,
        total_disputes=vector.total_disputes,
        last_active_epoch=vector.last_active_epoch,
    )


def _numbered(books: Books, letter: Letter) -> Letter:
    return structs.replace(letter, number=books.put_letter(letter))


def _assignment(letter: Letter, notary: bytes) -> Letter:
    """The node tells the notary, and logs nothing of it, as the reference (mesh wire 7, 9)."""
    return structs.replace(
        letter,
        recipient=notary,
        msg_type=MsgType.NOTARIZE_ASSIGN,
        is_logged=False,
        payload=NotarizeAssign(notary).encode(),
    )


def _bid(books: Books, envelope: Envelope, now: int) -> Dealt | None:
    try:
        bid = NotarizeBid.decode(envelope.payload)
    except PayloadParseError:
        return None
    offers = bid.bid_type is BidType.OFFER
    return conversing.bid(books, bid.conversation_id, envelope.sender, offers=offers, now=now)


def _belongs(envelope: Envelope, note: str | None, dealt: Dealt | None) -> bool:
    """True if the envelope is a part of the conversation that it names. Any agent may name any conversation."""
    if note is not None or envelope.conversation_id == NO_CONVERSATION:
        return False
    if envelope.msg_type is MsgType.NOTARIZE_BID:
        return dealt is not None and envelope.sender in dealt.conversation.parties
    return dealt is not None or envelope.msg_type in BILATERAL


def _is_for_notary(books: Books, envelope: Envelope, conversation_id: bytes) -> bool:
    """True for a NOTARIZE_ASSIGN to the agent that it names; and after that, for VERDICTs of this agent and
    DISPUTEs to it."""
    if envelope.msg_type is MsgType.NOTARIZE_ASSIGN:
        return assigned_notary(envelope) == envelope.recipient
    notary = {MsgType.VERDICT: envelope.sender, MsgType.DISPUTE: envelope.recipient}.get(envelope.msg_type)
    if notary is None:
        return False
    found = books.logged(conversation_id, limit=_LOOKED_AT).items
    return any(assigned_notary(decode(each.envelope)) == notary for each in found)


def _rated(books: Books, envelope: Envelope, dealt: Dealt | None, now: int) -> Rated | None:
    if dealt is None or envelope.msg_type is not MsgType.FEEDBACK:
        return None
    rating = Feedback.decode(envelope.payload)
    return Rated(rating.score, reputation_of(books, rating.target_agent, now))

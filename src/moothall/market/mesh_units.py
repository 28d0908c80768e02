"""What an envelope of the mesh does to the books, in one unit of work (mesh wire 8 to 11).

It is decided (`conversing`), appended to the log, and put into the inbox of a recipient that is away. Credits move
only on envelopes of an agent that has proven its key to this hall, or has never done so. An envelope that came from
the network of peers spends none of its sender's.
"""

from typing import Final

from msgspec import structs

from moothall.errors import OutOfOrder, VerificationRequired
from moothall.hall.elsewhere import Elsewhere
from moothall.hall.mesh.frames import encode_frame
from moothall.hall.mesh.market import Mail, Told
from moothall.hall.mesh.own_envelopes import OwnEnvelopes, Stamp
from moothall.market import conversing, mesh_notices
from moothall.market.conversations import Conversation
from moothall.market.conversing import Dealt, MeshRules
from moothall.market.credits import Authority
from moothall.market.desk_books import DeskBooks
from moothall.market.ledger import agent_account
from moothall.market.mesh import authority_of, conversation_id_of, step_of
from moothall.wire.mesh.envelope import NO_RECIPIENT, Envelope, encode
from moothall.wire.mesh.faults import PayloadParseError
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.notaries import BidType, NotarizeAssign, NotarizeBid

# An envelope names no hall. One that was sent to another hall must not spend credits of the same key here. Agents
# that never answer a challenge, because they send envelopes alone, have to live with that.
_PROVE_FIRST: Final = "Credits are at stake. Prove your key to this hall first, with the text frame `prove`"
_TO_AND_FROM_NOTARIES: Final = frozenset((MsgType.NOTARIZE_ASSIGN, MsgType.VERDICT, MsgType.DISPUTE))


class EnvelopeUnits:
    def __init__(
        self,
        rules: MeshRules,
        own: OwnEnvelopes,
        elsewhere: Elsewhere,
        here: set[bytes],
        *,
        logs: bool,
        stores_inboxes: bool,
    ) -> None:
        """`here` are the keys that are proven to this hall at the moment."""
        self._rules = rules
        self._own = own
        self._elsewhere = elsewhere
        self._here = here
        self._logs = logs
        self._stores_inboxes = stores_inboxes

    def take(
        self,
        books: DeskBooks,
        envelope: Envelope,
        raw: bytes,
        now: int,
        stamp: Stamp | None,
        *,
        is_away: bool,
        is_proven: bool,
        abroad: bytes | None,
    ) -> tuple[Told, Conversation | None]:
        """See `hall.mesh.market.Dealings.take`. `stamp` is for the envelope that assigns a notary."""
        if envelope.msg_type is MsgType.NOTARIZE_BID:
            return self._bid(books, envelope, raw, now)
        conversation = None
        if abroad is not None and _is_of_other_halls(books, envelope):
            self.log(books, envelope, raw, now)
            told = Told()
        else:
            told, conversation = self._take(
                books, envelope, raw, now, stamp, is_proven=is_proven, abroad=abroad
            )
        return self._sent(books, envelope, raw, now, told, is_away=is_away, abroad=abroad), conversation

    def _bid(
        self, books: DeskBooks, envelope: Envelope, raw: bytes, now: int
    ) -> tuple[Told, Conversation | None]:
        if self._logs and books.logged_envelope(keccak256(raw)) is not None:
            return Told(), None  # it was taken before a restart, or by another hall
        try:
            bid = NotarizeBid.decode(envelope.payload)
        except PayloadParseError:
            self.log(books, envelope, raw, now, belongs=False)
            return Told(), None  # it is passed on and logged all the same (mesh wire 4)
        offers = bid.bid_type is BidType.OFFER
        dealt = conversing.bid(books, bid.conversation_id, envelope.sender, offers=offers, now=now)
        # The history of a conversation has the wishes of its parties. Strangers could fill it with their offers.
        is_wish = dealt is not None and not offers and envelope.conversation_id == bid.conversation_id
        self.log(books, envelope, raw, now, belongs=is_wish)
        return Told(), None if dealt is None else dealt.conversation

    def _take(
        self,
        books: DeskBooks,
        envelope: Envelope,
        raw: bytes,
        now: int,
        stamp: Stamp | None,
        *,
        is_proven: bool,
        abroad: bytes | None,
    ) -> tuple[Told, Conversation | None]:
        authority = authority_of(envelope, raw)
        dealt = self._step(books, envelope, authority, now, abroad)
        conversation = dealt.conversation
        if not (dealt.resent or conversation.elsewhere) and (conversation.amount or conversation.held):
            if abroad == envelope.sender:
                self._require_no_payer(conversation, envelope)
            else:
                self._require_proof(books, envelope.sender, is_proven=is_proven)
        self.log(books, envelope, raw, now, envelope_hash=authority.envelope)
        notices = mesh_notices.of_envelope(dealt, envelope)
        for key, notice in notices:
            self._elsewhere.notify(books, (key,), encode_frame(notice))
        told = Told(
            state=conversation.state_of(envelope.sender),
            notices=notices,
            mail=self._assignment(books, dealt, now, stamp),
        )
        return told, conversation

    def _sent(
        self,
        books: DeskBooks,
        envelope: Envelope,
        raw: bytes,
        now: int,
        told: Told,
        *,
        is_away: bool,
        abroad: bytes | None,
    ) -> Told:
        """A recipient that is not here finds the envelope in the inbox, or at another hall of this store. That one
        comes before a peer that reaches the recipient."""
        recipient = envelope.recipient
        if recipient == NO_RECIPIENT:
            return told
        if is_away:
            stored, carried = self._post(books, recipient, raw, now)
            return structs.replace(told, stored=stored, carried=carried)
        if abroad == recipient:
            return structs.replace(told, carried=self._elsewhere.carry(books, recipient, raw))
        return told

    def _require_no_payer(self, conversation: Conversation, envelope: Envelope) -> None:
        """An envelope from the network spends no credits of its sender: it can be carried to any hall. That of the
        provider or the notary is the second half of what the requester has sent to this hall itself. An agent that
        has proven its key to this hall speaks through its own connection."""
        is_payer = envelope.sender == conversation.requester and envelope.msg_type is not MsgType.FEEDBACK
        if is_payer or envelope.sender in self._here:
            raise VerificationRequired(_PROVE_FIRST)

    def _require_proof(self, books: DeskBooks, key: bytes, *, is_proven: bool) -> None:
        """An agent that has proven its key to this hall spends its credits with a proof from then on. A key that is
        proven right now counts too: its first credits may have come after the proof."""
        account = agent_account(key)
        is_guarded = books.is_guarded(account)
        if is_proven:
            if not is_guarded:
                books.guard(account)
        elif is_guarded or key in self._here:
            raise VerificationRequired(_PROVE_FIRST)

    def _post(self, books: DeskBooks, recipient: bytes, raw: bytes, now: int) -> tuple[bool, bool]:
        """An envelope for an agent that is not here. Is it in the inbox now, and does another hall bring it?

        With an inbox in the store it is there in both cases: the other hall takes it out when it has brought it. So
        it is not lost if that hall dies, or if the agent has just left it.
        """
        kept = 0 if not self._stores_inboxes else books.put_envelope(recipient, raw, now)
        return bool(kept), self._elsewhere.carry(books, recipient, raw, kept)

    def _assignment(self, books: DeskBooks, dealt: Dealt, now: int, stamp: Stamp | None) -> tuple[Mail, ...]:
        """The hall plays the node that assigns the notary (mesh wire 9)."""
        notary = dealt.assigned
        if notary is None:
            return ()
        envelope = self._own.make(
            MsgType.NOTARIZE_ASSIGN,
            NotarizeAssign(notary).encode(),
            recipient=notary,
            conversation_id=dealt.conversation.id,
            stamp=stamp,
        )
        raw = encode(envelope)
        self.log(books, envelope, raw, now)
        stored, carried = (False, False) if notary in self._here else self._post(books, notary, raw, now)
        return (Mail(notary, raw, stored=stored, carried=carried),)

    def _step(
        self, books: DeskBooks, envelope: Envelope, authority: Authority, now: int, abroad: bytes | None
    ) -> Dealt:
        try:
            step = step_of(envelope)
            return conversing.take(books, step, authority, now=now, rules=self._rules, abroad=abroad)
        except OutOfOrder as error:
            raise OutOfOrder(str(error), _state_for(books, envelope)) from None

    def log(
        self,
        books: DeskBooks,
        envelope: Envelope,
        raw: bytes,
        now: int,
        *,
        belongs: bool = True,
        envelope_hash: bytes | None = None,
    ) -> None:
        if self._logs:
            books.log(envelope, raw, now, belongs=belongs, envelope_hash=envelope_hash)


def _is_of_other_halls(books: DeskBooks, envelope: Envelope) -> bool:
    """A message to or from a notary, in a conversation that this hall does not know: only the notary is here. The
    hall of the conversation decides what it does there.

    NOTARIZE_BID makes ids of conversations public, so a stranger can open one with the same id here, also with the
    notary. That must not keep the notary from its work.
    """
    if envelope.msg_type not in _TO_AND_FROM_NOTARIES:
        return False
    known = books.conversation(envelope.conversation_id, hold=False)
    if known is None:
        return True
    if envelope.msg_type is MsgType.VERDICT:
        return envelope.sender != known.notary and envelope.recipient not in known.participants
    is_for_a_party = envelope.msg_type is MsgType.DISPUTE and envelope.recipient in known.participants
    return envelope.sender not in known.participants and not is_for_a_party


def _state_for(books: DeskBooks, envelope: Envelope) -> str:
    """The state of the conversation as this agent may know it: for others, it does not exist."""
    conversation = books.conversation(conversation_id_of(envelope), hold=False)
    if conversation is None or envelope.sender not in conversation.participants:
        return "IDLE"
    return conversation.state_of(envelope.sender)

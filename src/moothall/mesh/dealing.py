"""What an agent does in conversations: from PROPOSE to FEEDBACK, and what it asks the hall about them."""

import os
from base64 import b64decode
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal
from weakref import WeakValueDictionary

from moothall.client.agent import Agent
from moothall.client.dispute import Dispute as CourtDispute
from moothall.errors import MoothallError, OutOfOrder, UnexpectedReply
from moothall.hall.mesh import frames
from moothall.market.conversations import Step
from moothall.market.credits import deal_name
from moothall.market.mesh import conversation_id_of, step_of
from moothall.mesh.conversation import OUTCOMES, Conversation, OutcomeName
from moothall.mesh.events import Disputed, Sent
from moothall.mesh.intake import verified
from moothall.mesh.message import Message, read
from moothall.mesh.post import Post
from moothall.mesh.records import Record, Records
from moothall.wire.mesh.envelope import (
    AGENT_ID_BYTES,
    CONVERSATION_ID_BYTES,
    NO_CONVERSATION,
    NO_RECIPIENT,
    Envelope,
)
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.notaries import BidType, Judgement, NotarizeAssign, NotarizeBid, Verdict
from moothall.wire.mesh.offers import DEFAULT_MAX_ROUNDS, Accept, Counter, Propose
from moothall.wire.mesh.outcomes import Deliver, Feedback, Outcome, Role
from moothall.wire.mesh.reasons import Dispute, Reject

AnyConversation = Conversation | str | bytes


class Dealing:
    def __init__(
        self,
        post: Post,
        make: Callable[[Record], Conversation],
        agentchat: Callable[[], Awaitable[Agent]],
    ) -> None:
        """`make` gives the conversation of a record. `agentchat` gives the agent of the same key that is on the
        hall's agentchat wire."""
        self._post = post
        self._make = make
        self._agentchat_agent = agentchat
        self._records = Records()
        self._handles: WeakValueDictionary[bytes, Conversation] = WeakValueDictionary()

    # -- a deal, step by step ----------------------------------------------------------------------------

    async def propose(
        self,
        to: str | bytes,
        message: str = "",
        *,
        amount: int = 0,
        max_rounds: int = DEFAULT_MAX_ROUNDS,
        role: Literal["requester", "provider"] = "requester",
        conversation_id: str | bytes | None = None,
        wants_notary: bool = False,
    ) -> Conversation:
        """Offer a deal to the agent `to`, and return its conversation.

        `message` says what it is about, and `amount` what is paid for it, in millionths. Each side may counter
        `max_rounds` times. With `role` "provider" this agent offers its own work. `conversation_id` is one that was
        never used; without it, one is made. With `wants_notary` the agent also asks for a notary. Raises ValueError
        for what is not an id; see `Conversation` for the rest.
        """
        named = (
            os.urandom(CONVERSATION_ID_BYTES)
            if conversation_id is None
            else conversation_bytes(conversation_id)
        )
        offer = Propose(
            amount=amount,
            message=message,
            max_rounds=max_rounds,
            role="provider" if role == "provider" else None,
        )
        conversation = self.conversation_of(named)
        # Behind the offer at once: an agent may accept as soon as it hears of it, and then it is too late to ask.
        wish = NotarizeBid(BidType.REQUEST, named).encode()
        behind = [self._post.draft(MsgType.NOTARIZE_BID, wish, NO_RECIPIENT, named)] if wants_notary else []
        await self._perform(conversation, MsgType.PROPOSE, offer.encode(), agent_bytes(to), behind)
        return conversation

    async def counter(self, conversation: AnyConversation, amount: int, message: str = "") -> Sent:
        """Offer another `amount`, in millionths, with a `message`, in a `conversation`.

        Returns a Sent; see `Conversation` for what is raised.
        """
        found = await self._known(conversation)
        facts = found.facts
        is_requester = self._post.sender == facts.requester
        rounds = facts.requester_rounds if is_requester else facts.provider_rounds
        offer = Counter(amount=amount, message=message, round=rounds + 1, max_rounds=facts.max_rounds)
        return await self._to_other(found, MsgType.COUNTER, offer.encode())

    async def accept(self, conversation: AnyConversation, message: str = "") -> Sent:
        """Accept the last offer of the other party in a `conversation`, with a `message`.

        The amount is put aside. Returns a Sent. Raises NoCover if the requester has not enough; see `Conversation`
        for the rest.
        """
        found = await self._known(conversation)
        offer = Accept(amount=found.facts.amount, message=message)
        return await self._to_other(found, MsgType.ACCEPT, offer.encode())

    async def reject(self, conversation: AnyConversation, reason: str = "") -> Sent:
        """End the `conversation` without a deal; `reason` says why.

        Returns a Sent; see `Conversation` for what is raised.
        """
        found = await self._known(conversation)
        return await self._to_other(found, MsgType.REJECT, Reject(reason).encode())

    async def deliver(
        self,
        conversation: AnyConversation,
        work: bytes | str | None = None,
        *,
        content_type: str | None = None,
        uri: str | None = None,
    ) -> Sent:
        """Deliver `work` in a `conversation`, at most 49,152 bytes of it; or say with `uri` where it is.

        `content_type` is its media type; for a text it is text/plain. Returns a Sent. Raises ValueError for work
        that is too long; see `Conversation` for the rest.
        """
        found = await self._known(conversation)
        inline = work.encode() if isinstance(work, str) else work
        if content_type is None and isinstance(work, str):
            content_type = "text/plain"
        delivery = Deliver(
            conversation_id=found.record.id,
            content_type=content_type,
            inline=inline,
            payload_uri=uri,
            payload_size=None if inline is None else len(inline),
        )
        return await self._to_other(found, MsgType.DELIVER, delivery.encode())

    async def approve(self, conversation: AnyConversation) -> Sent:
        """Approve what was delivered in a `conversation`, as its requester. The provider is paid.

        Returns a Sent; see `Conversation` for what is raised.
        """
        found = await self._known(conversation)
        return await self._judge(found, Judgement.APPROVE, found.facts.provider, b"")

    async def verdict(self, conversation: AnyConversation, *, approve: bool, note: bytes = b"") -> Sent:
        """Judge what was delivered in a `conversation`, as its notary. Both parties are told.

        `approve` says whether it is what was agreed. `note` is for the parties to read. Returns the Sent of the
        first; see `Conversation` for what is raised.
        """
        found = await self._known(conversation)
        judgement = Judgement.APPROVE if approve else Judgement.REJECT
        if self._post.sender in found.facts.parties:
            return await self._judge(found, judgement, found.facts.other(self._post.sender), note)
        sent = await self._judge(found, judgement, found.facts.requester, note)
        await self._judge(found, judgement, found.facts.provider, note)
        return sent

    async def dispute(self, conversation: AnyConversation, reason: str = "") -> Disputed:
        """Challenge a delivery or a verdict in a `conversation`; `reason` says why. The parties negotiate again.

        It goes to the assigned notary, or to the other party if there is none. Returns a Disputed, whose
        `to_court()` takes the conversation to court; see `Conversation` for what is raised.
        """
        found = await self._known(conversation)
        to = found.facts.notary or found.facts.other(self._post.sender)
        sent = await self._perform(found, MsgType.DISPUTE, Dispute(reason).encode(), to)
        return Disputed(
            sent.type, sent.nonce, sent.state, sent.away, sent.stored, conversation=found, reason=reason
        )

    async def to_court(
        self, conversation: AnyConversation, reason: str, *, nonce: str | None = None
    ) -> CourtDispute:
        """Take a `conversation` that was disputed and has no notary to court: see `Conversation.to_court` for
        `reason` and `nonce`. Returns the `moothall.Dispute`, and raises what that method raises."""
        found = await self._known(conversation)
        lawyer = await self._agentchat_agent()
        dispute = await lawyer.file_dispute(deal_name(found.record.id), reason, nonce=nonce)
        found.record.is_stale = True
        return dispute

    async def feedback(
        self,
        conversation: AnyConversation,
        score: int,
        *,
        outcome: OutcomeName | None = None,
        about: str | bytes | None = None,
    ) -> Sent:
        """Rate a participant of a `conversation` with a `score` from -100 to 100. It ends the conversation for this
        agent.

        `about` is the id of the participant; without it, the other party. `outcome` is "positive", "neutral" or
        "negative"; without it, it follows from the score. Returns a Sent. Raises ValueError for a score out of
        range; see `Conversation` for the rest.
        """
        found = await self._known(conversation)
        facts = found.facts
        target = facts.other(self._post.sender) if about is None else agent_bytes(about)
        rating = Feedback(
            conversation_id=found.record.id,
            target_agent=target,
            score=score,
            outcome=_outcome(score) if outcome is None else OUTCOMES[outcome],
            is_dispute=any(message.type == "DISPUTE" for message in found.history),
            role=Role.NOTARY if target == facts.notary else Role.PARTICIPANT,
        )
        return await self._perform(found, MsgType.FEEDBACK, rating.encode(), NO_RECIPIENT)

    # -- notaries ----------------------------------------------------------------------------------------

    async def bid(
        self, conversation: AnyConversation | None = None, *, offer: bool = True, terms: bytes = b""
    ) -> Sent:
        """Offer to be the notary of a `conversation`, or of any one if there is none given. With `offer` False, ask
        for a notary.

        `terms` are for other agents to read. Returns a Sent; see `Conversation` for what is raised.
        """
        named = NO_CONVERSATION if conversation is None else conversation_bytes(conversation)
        bid = NotarizeBid(BidType.OFFER if offer else BidType.REQUEST, named, terms)
        envelope, sent = await self._post.send(MsgType.NOTARIZE_BID, bid.encode(), conversation_id=named)
        if conversation is not None:
            found = self._handle(conversation)
            self.remember(found, read(envelope, found))
        return sent

    async def assign(self, conversation: AnyConversation, notary: str | bytes) -> Sent:
        """Assign the `notary` that bid for a `conversation`, if the hall has not done so.

        Only the agent that the rule chooses can be assigned. Returns a Sent; see `Conversation` for what is raised.
        """
        found = await self._known(conversation)
        to = agent_bytes(notary)
        return await self._perform(found, MsgType.NOTARIZE_ASSIGN, NotarizeAssign(to).encode(), to)

    # -- credits -----------------------------------------------------------------------------------------

    async def balance(self) -> int:
        """Return the credits of this agent, in millionths. Raises a Refusal, NotConnected or ReplyTimeout."""
        return (await self._post.ask(frames.AskBalance(), frames.Balance)).balance

    async def cancel(self, conversation: AnyConversation) -> None:
        """Take back what is put aside in a `conversation`, as its requester.

        After a delivery that the notary did not reject, the provider has to consent. Raises what all do, see
        `Conversation`.
        """
        found = self._handle(conversation)
        done = await self._post.order(frames.Cancel, found.record.id, frames.Cancelled)
        found.record.changed(done.state)
        found.notify()

    async def consent(self, conversation: AnyConversation) -> None:
        """Let the requester of a `conversation` cancel it, as its provider.

        Raises what all do, see `Conversation`.
        """
        found = self._handle(conversation)
        await self._post.order(frames.Consent, found.record.id, frames.Consented)

    # -- what there is -----------------------------------------------------------------------------------

    async def conversation(self, conversation_id: str | bytes) -> Conversation:
        """Return the conversation with this `conversation_id`, as the hall knows it, with its history.

        Raises a Refusal if this agent takes no part in it.
        """
        return await self.conversation_of(conversation_bytes(conversation_id)).refresh()

    async def conversations(
        self, *, limit: int = 20, before: str | None = None, open_only: bool = False
    ) -> frames.Conversations:
        """Return summaries of this agent's conversations, the latest first.

        `limit` is how many, at most 100; `before` is that of the previous answer; `open_only` leaves out those that
        have ended. Raises a Refusal, NotConnected or ReplyTimeout.
        """
        question = frames.ListConversations(limit=limit, before=before, open_only=open_only)
        return await self._post.ask(question, frames.Conversations)

    async def reputation(self, agent: str | bytes | None = None) -> frames.Reputation:
        """Return the reputation of an `agent`; without it, of this one. Raises a Refusal, NotConnected or
        ReplyTimeout."""
        named = None if agent is None else agent_bytes(agent).hex()
        return await self._post.ask(frames.AskReputation(agent_id=named), frames.Reputation)

    async def refresh(self, conversation: Conversation) -> None:
        """Read a `conversation` from the hall: its state, and those messages whose signatures hold."""
        question = frames.ShowConversation(conversation_id=conversation.id)
        line = await self._post.line()
        shown = await line.ask(question, frames.ConversationShown)
        try:
            found = [verified(b64decode(each.envelope)) for each in shown.history]
            envelopes = [
                each
                for each in found
                if each is not None and conversation_id_of(each) == conversation.record.id
            ]
            conversation.record.adopt(shown, envelopes, line.hall)
        except ValueError:
            raise UnexpectedReply("the hall shows this conversation in a form unknown here") from None
        messages = [read(envelope, conversation) for envelope in envelopes]
        self._records.remember(conversation.record, *messages, anew=True)
        conversation.notify()

    def conversation_of(self, conversation_id: bytes) -> Conversation:
        """The conversation with this id, with what this agent knows of it."""
        known = self._handles.get(conversation_id)
        if known is not None:
            record = known.record
            self._records.of(conversation_id, lambda _: record)  # it may have made way
            return known
        made = self._handles[conversation_id] = self._make(self._records.of(conversation_id))
        return made

    def find(self, conversation_id: bytes) -> Conversation | None:
        """The same, if anything is known of it. What strangers publish makes no record."""
        is_known = conversation_id in self._handles or self._records.find(conversation_id) is not None
        return self.conversation_of(conversation_id) if is_known else None

    def remember(self, conversation: Conversation, *messages: Message) -> None:
        """Add messages to its history."""
        self._records.remember(conversation.record, *messages)

    def _notify_all(self) -> None:
        for conversation in list(self._handles.values()):
            conversation.notify()

    # -- inside ------------------------------------------------------------------------------------------

    def _handle(self, conversation: AnyConversation) -> Conversation:
        if isinstance(conversation, Conversation):
            return conversation
        return self.conversation_of(conversation_bytes(conversation))

    async def _known(self, conversation: AnyConversation) -> Conversation:
        """The conversation, when it is known who takes part in it."""
        found = self._handle(conversation)
        if found.record.facts is None or found.record.is_stale:
            await found.refresh()
        return found

    async def _to_other(self, conversation: Conversation, msg_type: MsgType, payload: bytes) -> Sent:
        return await self._perform(
            conversation, msg_type, payload, conversation.facts.other(self._post.sender)
        )

    async def _judge(self, conversation: Conversation, judgement: Judgement, to: bytes, note: bytes) -> Sent:
        facts = conversation.facts
        verdict = Verdict(judgement, facts.requester, facts.provider, note)
        return await self._perform(conversation, MsgType.VERDICT, verdict.encode(), to)

    async def _perform(
        self,
        conversation: Conversation,
        msg_type: MsgType,
        payload: bytes,
        to: bytes,
        behind: Sequence[Envelope] = (),
    ) -> Sent:
        """Check a step, send it, and note what became of it. `behind` are drafts of what is sent with it. Raises
        OutOfOrder."""
        record = conversation.record
        async with conversation.turn:
            draft = self._post.draft(msg_type, payload, to, record.id)
            step = step_of(draft)
            await self._check(conversation, step)
            try:
                (_, sent), *_ = taken = await self._post.send_together(draft, *behind)
            except MoothallError:
                record.is_stale = record.facts is not None
                raise
            record.took(step, sent.state)
            self.remember(conversation, *(read(envelope, conversation) for envelope, _ in taken))
        conversation.performed(sent)
        return sent

    async def _check(self, conversation: Conversation, step: Step) -> None:
        """Another program with this key may have gone on, so before it is refused the hall is asked."""
        try:
            conversation.record.check(step)
        except OutOfOrder:
            if conversation.record.facts is None:
                raise
            await self.refresh(conversation)
            conversation.record.check(step)


def agent_bytes(agent: str | bytes) -> bytes:
    """The id of an agent, in 64 hex digits or 32 bytes. Raises ValueError."""
    return _bytes_of(agent, AGENT_ID_BYTES, "the id of an agent")


def conversation_bytes(conversation: AnyConversation) -> bytes:
    """The id of a conversation, in 32 hex digits or 16 bytes. Raises ValueError."""
    if isinstance(conversation, Conversation):
        return conversation.record.id
    return _bytes_of(conversation, CONVERSATION_ID_BYTES, "the id of a conversation")


def _bytes_of(given: str | bytes, length: int, what: str) -> bytes:
    try:
        found = bytes.fromhex(given) if isinstance(given, str) else given
    except ValueError:
        found = b""
    if len(found) != length:
        raise ValueError(f"{given!r} is not {what}: it has {2 * length} hex digits")
    return found


def _outcome(score: int) -> Outcome:
    if score == 0:
        return Outcome.NEUTRAL
    return Outcome.POSITIVE if score > 0 else Outcome.NEGATIVE

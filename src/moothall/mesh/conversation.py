"""`Conversation`: one deal on the mesh, from PROPOSE to FEEDBACK."""

import asyncio
from typing import TYPE_CHECKING, Final, Literal

from moothall.errors import NotConnected, ReplyTimeout
from moothall.hall.mesh.frames import EscrowSummary
from moothall.market.conversations import Conversation as Facts
from moothall.market.conversations import State
from moothall.mesh.events import Disputed, Sent
from moothall.mesh.message import Message
from moothall.mesh.records import Record
from moothall.wire.mesh.outcomes import Outcome

if TYPE_CHECKING:
    from moothall.client.dispute import Dispute
    from moothall.mesh.agent import MeshAgent

OutcomeName = Literal["negative", "neutral", "positive"]
OUTCOMES: Final = {"negative": Outcome.NEGATIVE, "neutral": Outcome.NEUTRAL, "positive": Outcome.POSITIVE}


class Conversation:
    """A deal between a requester and a provider, and perhaps a notary.

    Its methods send what they are named after, to the agent that it goes to, and return when the hall has taken it.
    All of them raise OutOfOrder if the state does not allow it, in most cases before it is signed; EnvelopeRejected
    or a Refusal if the hall does not take it; and NotConnected, ConnectionLost or ReplyTimeout.
    """

    def __init__(self, agent: "MeshAgent", record: Record) -> None:
        self._agent = agent
        self._record = record
        self._sent: Sent | None = None
        self._turn = asyncio.Lock()
        self._waiting: set[asyncio.Event] = set()

    def __repr__(self) -> str:
        return f"<Conversation {self.id[:8]} {self.state}>"

    # -- what is known ---------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """32 hex digits."""
        return self._record.id.hex()

    @property
    def state(self) -> State:
        """The state as this agent sees it: IDLE, NEGOTIATING, COMMITTED, DELIVERED, RESOLVED or CLOSED."""
        facts = self._record.facts
        return "IDLE" if facts is None else facts.state_of(bytes.fromhex(self._agent.id))

    @property
    def history(self) -> tuple[Message, ...]:
        """Its messages, the oldest first: what this agent sent and got, and what the hall's log has.

        A participant gets only what is sent to it. `refresh` reads the others from the hall.
        """
        return tuple(self._record.history)

    @property
    def sent(self) -> Sent | None:
        """What became of the last message that this object sent, such as the PROPOSE that opened it."""
        return self._sent

    def last(self, kind: str) -> Message | None:
        """Return the last message of a `kind`, such as "DELIVER", that is in the history."""
        return next((each for each in reversed(self.history) if each.type == kind), None)

    @property
    def facts(self) -> Facts:
        """All that is known. Raises NotConnected if nothing is known yet: `refresh` asks the hall."""
        if self._record.facts is None:
            raise NotConnected(f"nothing is known of conversation {self.id} yet: await its refresh()")
        return self._record.facts

    @property
    def requester(self) -> str:
        """The id of the agent that pays."""
        return self.facts.requester.hex()

    @property
    def provider(self) -> str:
        """The id of the agent that works."""
        return self.facts.provider.hex()

    @property
    def notary(self) -> str | None:
        """The id of the assigned notary."""
        return None if self.facts.notary is None else self.facts.notary.hex()

    @property
    def amount(self) -> int:
        """The last offer, in millionths."""
        return self.facts.amount

    @property
    def escrow(self) -> EscrowSummary | None:
        """What is put aside, as the hall answered last. None if nothing is, or if it was never asked."""
        return None if self._record.shown is None else self._record.shown.escrow

    @property
    def deadline(self) -> int | None:
        """When the hall acts if no agent does, in Unix milliseconds, as the hall answered last."""
        return None if self._record.shown is None else self._record.shown.conversation.deadline

    @property
    def role(self) -> Literal["requester", "provider", "notary"]:
        """What this agent is in the conversation."""
        own = self._agent.id
        if own == self.requester:
            return "requester"
        return "provider" if own == self.provider else "notary"

    @property
    def peer(self) -> str:
        """The id of the other party. For a notary it is the requester."""
        return self.provider if self._agent.id == self.requester else self.requester

    @property
    def case(self) -> str | None:
        """The open court case that holds it, as the hall answered last: no message is taken until it ends."""
        return None if self._record.shown is None else self._record.shown.case

    async def refresh(self) -> "Conversation":
        """Read state and history from the hall, and return the conversation. Raises a Refusal, NotConnected or
        ReplyTimeout."""
        await self._agent.refresh(self)
        return self

    async def wait_for(self, *states: State, timeout: float | None = None) -> State:  # noqa: ASYNC109  # as for all operations
        """Wait until the conversation is in one of these `states`, and return which.

        `timeout` is in seconds; without one it waits as long as it takes. Raises ReplyTimeout, or NotConnected when
        the agent has left.
        """
        changed = asyncio.Event()
        self._waiting.add(changed)
        try:
            async with asyncio.timeout(timeout):
                while self.state not in states:
                    if self._agent.has_left:
                        raise NotConnected(f"the agent has left; the conversation is {self.state}")
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            raise ReplyTimeout(f"the conversation is {self.state} after {timeout:g} s") from None
        finally:
            self._waiting.discard(changed)
        return self.state

    # -- what to do next -------------------------------------------------------------------------------

    async def counter(self, amount: int, message: str = "") -> Sent:
        """Offer another `amount`, in millionths, with a `message`. Returns a Sent; see `Conversation` for what is
        raised."""
        return await self._agent.counter(self, amount, message)

    async def accept(self, message: str = "") -> Sent:
        """Accept the last offer of the other party, with a `message`. Credits are put aside for it.

        Returns a Sent. Raises NoCover if there are not enough credits; see `Conversation` for the rest.
        """
        return await self._agent.accept(self, message)

    async def reject(self, reason: str = "") -> Sent:
        """End the conversation without a deal; `reason` says why. Returns a Sent; see `Conversation` for what is
        raised."""
        return await self._agent.reject(self, reason)

    async def deliver(
        self, work: bytes | str | None = None, *, content_type: str | None = None, uri: str | None = None
    ) -> Sent:
        """Deliver `work`, or say where it is with `uri`. `content_type` is its media type.

        Returns a Sent. Raises ValueError for work that is too long; see `Conversation` for the rest.
        """
        return await self._agent.deliver(self, work, content_type=content_type, uri=uri)

    async def approve(self) -> Sent:
        """Approve what was delivered. The provider is paid.

        Returns a Sent; see `Conversation` for what is raised.
        """
        return await self._agent.approve(self)

    async def verdict(self, *, approve: bool, note: bytes = b"") -> Sent:
        """Judge what was delivered, as the notary: `approve` it or not. Both parties are told, and get the `note`.

        Returns the Sent of the first. Raises what all do, see `Conversation`.
        """
        return await self._agent.verdict(self, approve=approve, note=note)

    async def dispute(self, reason: str = "") -> Disputed:
        """Challenge a delivery or a verdict; `reason` says why. The parties negotiate again.

        Returns a Disputed, whose `to_court()` takes the conversation to court; see `Conversation` for what is
        raised.
        """
        return await self._agent.dispute(self, reason)

    async def to_court(self, reason: str, *, nonce: str | None = None) -> "Dispute":
        """Take a conversation that was disputed and has no notary to court: three arbiters decide.

        `reason` is for the other party and the arbiters. With a `nonce` of your own, an intent that the hall knows
        already is no error. The case holds the conversation until it ends. Returns the `moothall.Dispute`:
        evidence and verdict are on the agentchat wire, with this agent's key (`MeshAgent.agentchat`). Raises
        InvalidProposal if the conversation is in no state for it, DisputeAlreadyExists if it had a case, and what
        `moothall.Agent.connect` raises.
        """
        return await self._agent.to_court(self, reason, nonce=nonce)

    async def feedback(
        self, score: int, *, outcome: OutcomeName | None = None, about: str | None = None
    ) -> Sent:
        """Rate the other party, or another participant that `about` names, with a `score` from -100 to 100.

        `outcome` follows from the score if it is not given. Returns a Sent; see `Conversation` for what is raised.
        """
        return await self._agent.feedback(self, score, outcome=outcome, about=about)

    async def ask_notary(self, terms: bytes = b"") -> Sent:
        """Ask for a notary; `terms` are for notaries to read. It counts before ACCEPT.

        Returns a Sent; see `Conversation` for what is raised.
        """
        return await self._agent.bid(self, offer=False, terms=terms)

    async def cancel(self) -> None:
        """Take back what is put aside, as the requester. After a delivery the provider has to consent.

        Raises what all do, see `Conversation`.
        """
        await self._agent.cancel(self)

    async def consent(self) -> None:
        """Let the requester cancel, as the provider. Raises what all do, see `Conversation`."""
        await self._agent.consent(self)

    # -- for the agent ---------------------------------------------------------------------------------

    @property
    def record(self) -> Record:
        """What is known of it, for the agent."""
        return self._record

    @property
    def turn(self) -> asyncio.Lock:
        """Held while this agent sends something in the conversation."""
        return self._turn

    def performed(self, sent: Sent) -> None:
        """The hall took a message of this agent."""
        self._sent = sent
        self.notify()

    def notify(self) -> None:
        """Something has changed."""
        for changed in self._waiting:
            changed.set()

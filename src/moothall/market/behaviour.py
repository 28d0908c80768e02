"""What agents did in an epoch, from its log: the batch of one agent (mesh wire 12), and the risk of all (11.3).

Both take the log message by message, and never hold it whole. A slot is the second in which the hall got an
envelope: `block_ref` is what its sender says. The batch of an agent counts the envelopes that it sent or got, and
FEEDBACK about it. Its Merkle root is that of the hall's log.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from moothall.market.entropy import FLAG, Entropy, Samples
from moothall.market.epoch_log import Act
from moothall.market.mesh import assigned_notary
from moothall.wire.mesh.envelope import Envelope, decode
from moothall.wire.mesh.epochs import (
    EPOCH_SECONDS,
    BehaviorBatch,
    BidValue,
    FeedbackEvent,
    TaskSelection,
    VerifierId,
)
from moothall.wire.mesh.faults import PayloadParseError
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.notaries import Verdict
from moothall.wire.mesh.offers import decode_amount
from moothall.wire.mesh.outcomes import Feedback

# Upper bounds of anomalies in the metric; there is no higher one than 1.6.
ANOMALY_BOUNDS: Final = (0.0, 0.1, 0.2, 0.3, 0.4, FLAG, 0.8, 1.2)

_BIDS: Final = frozenset((MsgType.PROPOSE, MsgType.COUNTER))
_TYPE_COUNTS: Final = max(MsgType) + 1


# -- the batch of one agent ----------------------------------------------------------------------------


def concerns(agent: bytes, envelope: Envelope) -> bool:
    """True if the batch of the agent counts this envelope."""
    if agent in (envelope.sender, envelope.recipient):
        return True
    if envelope.msg_type is not MsgType.FEEDBACK:
        return False
    feedback = _feedback(envelope)
    return feedback is not None and feedback.target_agent == agent


class Batch:
    """The batch of an agent while its epoch's log is read. It grows with what the agent did, not with the log."""

    def __init__(self, agent: bytes, epoch: int) -> None:
        self._agent = agent
        self._epoch = epoch
        self._types: Counter[int] = Counter()
        self._senders: set[bytes] = set()
        self._completed = 0
        self._notarizations = 0
        self._bids: list[BidValue] = []
        self._selections: list[TaskSelection] = []
        self._verifiers: dict[bytes, VerifierId] = {}  # by conversation
        self._feedback: list[FeedbackEvent] = []

    def add(self, envelope: Envelope, slot: int, notary: bytes | None = None) -> None:
        """An envelope that concerns the agent. `notary` is the one that the hall assigned after this ACCEPT."""
        self.count(envelope)
        conversation, sender = envelope.conversation_id, envelope.sender
        if envelope.msg_type in _BIDS:
            self._bids.append(BidValue(conversation, sender, decode_amount(envelope.payload), slot))
        elif envelope.msg_type is MsgType.ACCEPT:
            self._selections.append(TaskSelection(conversation, sender, slot))
            if notary is not None:
                self._verifiers.setdefault(conversation, VerifierId(conversation, notary, slot))
        elif envelope.msg_type is MsgType.NOTARIZE_ASSIGN:
            self._add_assignment(envelope, slot)
        elif envelope.msg_type is MsgType.VERDICT:
            self._add_verdict(envelope)
        elif envelope.msg_type is MsgType.FEEDBACK:
            self._add_feedback(envelope, slot)

    def count(self, envelope: Envelope) -> None:
        """By type and sender, and nothing else of it."""
        self._types[envelope.msg_type] += 1
        self._senders.add(envelope.sender)

    def finished(self, root: bytes) -> BehaviorBatch:
        return BehaviorBatch(
            agent_id=self._agent,
            epoch_number=self._epoch,
            slot_start=self._epoch * EPOCH_SECONDS,
            slot_end=(self._epoch + 1) * EPOCH_SECONDS - 1,
            message_count=self._types.total(),
            msg_type_counts=tuple(self._types[code] for code in range(_TYPE_COUNTS)),
            unique_counterparties=len(self._senders),
            tasks_completed=self._completed,
            notarizations=self._notarizations,
            disputes=self._types[MsgType.DISPUTE],
            bid_values=self._bids,
            task_selections=self._selections,
            verifier_ids=list(self._verifiers.values()),
            feedback_events=self._feedback,
            log_merkle_root=root,
        )

    def _add_assignment(self, envelope: Envelope, slot: int) -> None:
        notary, conversation = assigned_notary(envelope), envelope.conversation_id
        if notary is not None:
            self._verifiers.setdefault(conversation, VerifierId(conversation, notary, slot))

    def _add_verdict(self, envelope: Envelope) -> None:
        """A verdict that was received is a task; one that was sent is a notarization, unless it is the requester's
        own approval."""
        if envelope.recipient == self._agent:
            self._completed += 1
        if envelope.sender != self._agent:
            return
        try:
            requester = Verdict.decode(envelope.payload).requester
        except PayloadParseError:
            return
        self._notarizations += requester != self._agent

    def _add_feedback(self, envelope: Envelope, slot: int) -> None:
        feedback = _feedback(envelope)
        if feedback is not None and feedback.target_agent == self._agent:
            self._feedback.append(
                FeedbackEvent(
                    feedback.conversation_id,
                    envelope.sender,
                    feedback.score,
                    int(feedback.outcome),
                    int(feedback.role),
                    slot,
                )
            )


def _feedback(envelope: Envelope) -> Feedback | None:
    try:
        return Feedback.decode(envelope.payload)
    except PayloadParseError:
        return None


# -- the risk of all agents ----------------------------------------------------------------------------


class Risk(Struct, frozen=True, kw_only=True):
    """How suspicious the agents of an epoch were. Only those that did enough to tell are counted."""

    epoch: int
    agents: int = 0
    flagged: int = 0
    total: float = 0.0  # of all anomalies
    buckets: tuple[int, ...] = (0,) * len(ANOMALY_BOUNDS)  # agents up to each of ANOMALY_BOUNDS

    @property
    def systemic(self) -> float:
        """The share of agents that are suspicious."""
        return self.flagged / self.agents if self.agents else 0.0


class RiskCount:
    """Takes the messages of an epoch in their order, and keeps how often each agent did what."""

    def __init__(
        self,
        epoch: int,
        hall: bytes,
        *,
        most: int | None = None,
        scored: Callable[[bytes, Entropy], None] = lambda agent, entropy: None,
        accepted: Callable[[bytes, bytes], None] = lambda agent, other: None,
    ) -> None:
        """`hall` is the key of the hall, which is not an agent. Of agents, the first `most` are counted. `scored`
        hears of each agent that did enough, and `accepted` of each agent that accepted an offer, and whose."""
        self._epoch = epoch
        self._hall = hall
        self._most = most
        self._scored = scored
        self._accepted = accepted
        self._agents: dict[bytes, Samples] = {}

    def add(self, acts: Iterable[Act]) -> None:
        for act in acts:
            samples = self._samples(act.sender)
            if samples is None:
                continue
            samples.message(act.at // 1000)
            if act.envelope is not None:
                self._add_offer(samples, decode(act.envelope), act.notary)

    def finished(self) -> Risk:
        agents = flagged = 0
        total = 0.0
        buckets = [0] * len(ANOMALY_BOUNDS)
        for agent, samples in self._agents.items():
            entropy = samples.entropy()
            if not entropy.is_known:
                continue
            anomaly = entropy.anomaly
            agents += 1
            flagged += entropy.is_flagged
            total += anomaly
            for place, bound in enumerate(ANOMALY_BOUNDS):
                buckets[place] += anomaly <= bound
            self._scored(agent, entropy)
        return Risk(epoch=self._epoch, agents=agents, flagged=flagged, total=total, buckets=tuple(buckets))

    def _samples(self, agent: bytes) -> Samples | None:
        found = self._agents.get(agent)
        is_counted = agent != self._hall and (self._most is None or len(self._agents) < self._most)
        if found is None and is_counted:
            found = self._agents[agent] = Samples()
        return found

    def _add_offer(self, samples: Samples, envelope: Envelope, notary: bytes | None) -> None:
        if envelope.msg_type in _BIDS:
            samples.bid(decode_amount(envelope.payload))
            return
        samples.selected(envelope.recipient)
        self._accepted(envelope.sender, envelope.recipient)
        if notary is not None:
            samples.notary(notary)


def cluster_coefficients(neighbours: dict[bytes, set[bytes]], agents: Iterable[bytes]) -> dict[bytes, float]:
    """For each agent, the share of pairs of its neighbours that are neighbours too. `neighbours` goes both ways."""
    return {agent: _coefficient(neighbours, neighbours.get(agent, set())) for agent in agents}


def _coefficient(neighbours: dict[bytes, set[bytes]], near: set[bytes]) -> float:
    if len(near) < 2:
        return 0.0
    linked = sum(len(neighbours[each] & near) for each in near)
    return linked / (len(near) * (len(near) - 1))

"""The rows of one unit of work: those that it knows without asking the database, and those that it changes.

Its own changes come first, then those of the units before it in the transaction, then committed rows in the cache.
"""

from moothall.court.records import Dispute
from moothall.market.conversations import Conversation
from moothall.market.credits import Escrow
from moothall.market.records import Entry, Proposal, RatingPoint, Standing
from moothall.store.row_cache import RowCache
from moothall.store.rows import Draft
from moothall.store.stored import Stored


class UnitRows:
    __slots__ = ("_before", "_cache", "_draft")

    def __init__(self, draft: Draft, before: Draft, cache: RowCache) -> None:
        """`draft` has the changes of this unit, and `before` those of the units before it."""
        self._draft = draft
        self._before = before
        self._cache = cache

    # -- what is known -------------------------------------------------------------------------------

    def proposal(self, proposal_id: str) -> Stored[Proposal] | None:
        return (
            self._draft.proposals.get(proposal_id)
            or self._before.proposals.get(proposal_id)
            or self._cache.proposals.get(proposal_id)
        )

    def standing(self, key: bytes) -> Stored[Standing] | None:
        return (
            self._draft.standings.get(key)
            or self._before.standings.get(key)
            or self._cache.standings.get(key)
        )

    def case(self, dispute_id: str) -> Stored[Dispute] | None:
        return (
            self._draft.disputes.get(dispute_id)
            or self._before.disputes.get(dispute_id)
            or self._cache.disputes.get(dispute_id)
        )

    def conversation(self, conversation_id: bytes) -> Stored[Conversation] | None:
        return (
            self._draft.conversations.get(conversation_id)
            or self._before.conversations.get(conversation_id)
            or self._cache.conversations.get(conversation_id)
        )

    def escrow(self, conversation_id: bytes) -> Stored[Escrow] | None:
        return (
            self._draft.escrows.get(conversation_id)
            or self._before.escrows.get(conversation_id)
            or self._cache.escrows.get(conversation_id)
        )

    def has_entry(self, entry: Entry) -> bool:
        """True if a unit of this transaction has saved it."""
        saved = (entry.book, entry.deal, entry.operation)
        return saved in self._draft.entries or saved in self._before.entries

    # -- what is changed -----------------------------------------------------------------------------

    def put_key(self, key: bytes) -> None:
        if key not in self._cache.keys and key not in self._before.keys and key not in self._draft.keys:
            self._draft.put_key(key)

    def put_proposal(self, proposal: Proposal) -> None:
        self.put_key(proposal.proposer)
        self.put_key(proposal.recipient)
        self._draft.put_proposal(proposal, self.proposal(proposal.id))

    def put_standing(self, standing: Standing) -> None:
        key = standing.key
        self.put_key(key)
        self._draft.put_standing(standing, self.standing(key))

    def put_point(self, point: RatingPoint) -> None:
        self.put_key(point.key)
        self._draft.put_point(point)

    def put_case(self, case: Dispute) -> None:
        self._draft.put_dispute(case, self.case(case.id))

    def put_conversation(self, conversation: Conversation) -> None:
        self._draft.put_conversation(conversation, self.conversation(conversation.id))

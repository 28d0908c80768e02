"""What an agent can do in the market and in court, one method for each operation of the wire (agentchat wire 5)."""

# ruff: noqa: ASYNC109  # every operation has a timeout, so that no caller waits for ever

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import ValidationError

from moothall.client import deals, drafts, ratings
from moothall.client.court import Court
from moothall.client.deals import Deals
from moothall.client.dispatch import Dispatch
from moothall.client.dispute import Dispute, Items
from moothall.client.proposal import Proposal
from moothall.client.ratings import RankedAgent, Rating, Receipt, SkillOffer
from moothall.client.requests import Exchange
from moothall.client.session import Session
from moothall.client.signed import UNSIGNED, as_json
from moothall.client.speech import Speech
from moothall.client.talking import Talks
from moothall.errors import UnexpectedReply
from moothall.wire.agentchat import client, market
from moothall.wire.agentchat.names import bare_id


class Trades(Talks):
    def __init__(
        self,
        exchange: Exchange,
        session: Session,
        speech: Speech,
        dispatch: Dispatch,
        deals: Deals,
        court: Court,
    ) -> None:
        super().__init__(exchange, session, speech, dispatch)
        self._deals = deals
        self._court = court

    # -- deals -------------------------------------------------------------------------------------

    async def propose(
        self,
        to: str,
        task: str,
        *,
        amount: float | str | None = None,
        currency: str | None = None,
        expires_in: float | None = None,
        stake: int | None = None,
        payment_code: str | None = None,
        terms: Any = None,
        capability: str | None = None,
        timeout: float | None = None,
    ) -> Proposal:
        """Offer an agent a deal. Signed, so the agent needs an identity.

        `to` is its `@id`, `task` what is to be done, `amount` and `currency` the price, `payment_code` where to
        pay. `expires_in` is in seconds; `stake` in points of one's own rating, put aside if the offer is
        accepted; `terms` are anything that can be JSON, and not signed; `capability` is the skill that it is
        about. Returns the Proposal. Raises AgentNotFound, InsufficientReputation, InvalidStake,
        SignatureRequired, and UsageError for what cannot be sent.
        """
        draft = client.Proposal(
            to=f"@{bare_id(to)}",
            task=task,
            amount=deals.checked_amount(amount),
            currency=currency,
            payment_code=payment_code,
            terms=as_json(terms, "terms"),
            capability=capability,
            expires=deals.checked_deadline(expires_in),
            elo_stake=drafts.checked_stake(stake),
            sig=UNSIGNED,
        )
        return await self._deals.propose(draft, timeout)

    async def accept(
        self,
        proposal_id: str,
        *,
        stake: int | None = None,
        payment_code: str | None = None,
        timeout: float | None = None,
    ) -> Proposal:
        """Accept the offer `proposal_id`: see `Proposal.accept` for `stake`, `payment_code` and what it raises.
        Returns the Proposal.
        """
        return await self._deals.accept(proposal_id, stake, payment_code, timeout)

    async def reject(
        self, proposal_id: str, reason: str | None = None, *, timeout: float | None = None
    ) -> Proposal:
        """Decline the offer `proposal_id`: see `Proposal.reject` for `reason` and what it raises. Returns the
        Proposal.
        """
        return await self._deals.reject(proposal_id, reason, timeout)

    async def complete(
        self, proposal_id: str, proof: str | None = None, *, timeout: float | None = None
    ) -> Proposal:
        """Complete the deal `proposal_id`: see `Proposal.complete` for `proof` and what it raises. Returns the
        Proposal.
        """
        return await self._deals.complete(proposal_id, proof, timeout)

    async def dispute(self, proposal_id: str, reason: str, *, timeout: float | None = None) -> Proposal:
        """Dispute the deal `proposal_id`: see `Proposal.dispute` for `reason` and what it raises. Returns the
        Proposal.
        """
        return await self._deals.dispute(proposal_id, reason, timeout)

    async def proposals(
        self, *, open_only: bool = True, limit: int = 100, timeout: float | None = None
    ) -> list[Proposal]:
        """Return the agent's own deals, newest first, at most `limit` of them.

        Those that are pending or accepted, or with `open_only=False` all. Raises VerificationRequired without
        an identity.
        """
        return await self._deals.listed(limit, timeout, open_only=open_only)

    async def receipts(self, *, limit: int = 100, timeout: float | None = None) -> list[Receipt]:
        """Return the receipts of the agent's completed deals, newest first, at most `limit` of them.

        Raises VerificationRequired without an identity.
        """
        return await self._deals.receipts(limit, timeout)

    # -- the court ---------------------------------------------------------------------------------

    async def file_dispute(
        self,
        proposal_id: str,
        reason: str,
        *,
        nonce: str | None = None,
        reveal: bool = True,
        timeout: float | None = None,
    ) -> Dispute:
        """Take the deal `proposal_id` to court: see `Proposal.file_dispute` for `reason`, `nonce` and what it
        raises.

        `reveal=False` stops after the commitment. `dispute.reveal()` goes on, or `reveal_dispute` with what
        `dispute.nonce` was, before the hall's deadline. Returns the Dispute.
        """
        return await self._court.file(proposal_id, reason, nonce, timeout, reveal=reveal)

    async def reveal_dispute(self, proposal_id: str, nonce: str, *, timeout: float | None = None) -> Dispute:
        """Show the `nonce` that the dispute about `proposal_id` was filed with: the panel is drawn.

        Returns the Dispute. Raises DisputeNotFound, DisputeNotParty, DisputeCommitmentMismatch,
        DisputeInvalidPhase, or DisputeDeadlinePassed.
        """
        return await self._court.reveal(proposal_id, nonce, timeout)

    async def submit_evidence(
        self, dispute_id: str, items: Items, statement: str = "", *, timeout: float | None = None
    ) -> None:
        """Show evidence without waiting for the evidence period: see `Dispute.submit` for `items`, `statement` and
        what it raises. `dispute_id` is the case.
        """
        await self._court.submit(dispute_id, items, statement, timeout)

    async def accept_case(self, dispute_id: str, *, timeout: float | None = None) -> None:
        """Be an arbiter of the case `dispute_id`, which the agent was drawn for.

        Raises DisputeNotFound, DisputeNotArbiter, DisputeInvalidPhase, or DisputeDeadlinePassed.
        """
        await self._court.accept(dispute_id, timeout)

    async def decline_case(
        self, dispute_id: str, reason: str | None = None, *, timeout: float | None = None
    ) -> None:
        """Let another arbiter be drawn for the case `dispute_id`; `reason` is for the file.

        Raises what `accept_case` raises.
        """
        await self._court.decline(dispute_id, reason, timeout)

    async def vote(
        self, dispute_id: str, verdict: str, reasoning: str = "", *, timeout: float | None = None
    ) -> None:
        """Vote as an arbiter that accepted the case `dispute_id`.

        `verdict` is "disputant", "respondent", or "mutual" for the fault of both; `reasoning` is for all to
        read. Raises what `accept_case` raises, and UsageError for another verdict.
        """
        await self._court.vote(dispute_id, verdict, reasoning, timeout)

    async def disputes(
        self, *, open_only: bool = True, limit: int = 100, timeout: float | None = None
    ) -> list[Dispute]:
        """Return the cases the agent has a part in, as a party or an arbiter, newest first, at most `limit` of
        them.

        Those that are not over, or with `open_only=False` all. Raises VerificationRequired without an identity.
        """
        return await self._court.listed(limit, timeout, open_only=open_only)

    async def case_file(self, case_id: str, *, timeout: float | None = None) -> dict[str, Any]:
        """Return the whole file of a case the agent has a part in.

        `case_id` is the id of the dispute or of its deal. Raises DisputeNotFound, or DisputeNotParty.
        """
        return await self._court.case_file(case_id, timeout)

    # -- skills and ratings ------------------------------------------------------------------------

    async def register_skills(
        self,
        skills: str | Mapping[str, Any] | Iterable[Mapping[str, Any] | str],
        *,
        timeout: float | None = None,
    ) -> int:
        """Offer these `skills`, and no others any more. Signed, so the agent needs an identity.

        A skill is a dict with `capability` and perhaps `description`, `rate`, `currency` and others; a text is
        a skill that has only a name. One skill needs no list. Returns how many they are. Raises
        SignatureRequired.
        """
        draft = client.RegisterSkills(skills=deals.skill_list(skills), sig=UNSIGNED)
        return await self._deals.register(draft, timeout)

    async def search_skills(
        self,
        capability: str | None = None,
        *,
        max_rate: float | None = None,
        currency: str | None = None,
        limit: int | None = None,
        timeout: float | None = None,
    ) -> list[SkillOffer]:
        """Return the offers of a skill, the best rated first, at most `limit` of them.

        `capability` is a part of its name, `max_rate` and `currency` what it may cost. A skill that names no
        rate, or no currency, is found whatever is asked for. Raises UnexpectedReply when the hall's answer
        makes no sense.
        """
        wanted = {"capability": capability, "max_rate": max_rate, "currency": currency, "limit": limit}
        query = as_json({name: value for name, value in wanted.items() if value is not None}, "the query")
        query_id = secrets.token_hex(8)
        reply = await self._exchange.ask(
            client.SearchSkills(query=query, query_id=query_id),
            market.SearchResults,
            lambda body: body.query_id == query_id,
            patience=timeout,
        )
        try:
            return [ratings.skill_offer(result) for result in reply.results]
        except ValidationError as error:
            raise UnexpectedReply(f"the hall found a skill that makes no sense: {error}") from None

    async def rating(
        self, agent: str | None = None, *, history: int = 20, timeout: float | None = None
    ) -> Rating:
        """Return how `agent` stands, by default oneself, and its latest `history` steps. Raises AgentNotFound."""
        address = None if agent is None else f"@{bare_id(agent)}"
        reply = await self._exchange.ask(
            client.GetRating(agent=address, limit=history), market.Ratings, patience=timeout
        )
        return ratings.rating(reply)

    async def leaderboard(self, limit: int = 10, *, timeout: float | None = None) -> list[RankedAgent]:
        """Return the `limit` best rated agents. Raises nothing of its own."""
        reply = await self._exchange.ask(
            client.GetLeaderboard(limit=limit), market.Leaderboard, patience=timeout
        )
        return ratings.ranking(reply)

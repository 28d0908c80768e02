"""What `SyncAgent` can do in the market and in court (see `trading`), and how it waits for the agent behind it."""

from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

from moothall.client.agent import Agent
from moothall.client.background import BackgroundLoop, Result, SyncDispute, SyncProposal, documented_by
from moothall.client.dispute import Items
from moothall.client.proposal import Proposal
from moothall.client.ratings import RankedAgent, Rating, Receipt, SkillOffer
from moothall.errors import NotConnected


@documented_by(Agent)
class SyncTrades:
    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._loop: BackgroundLoop | None = None

    def _wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._running(work).wait(work)

    def _running(self, unwanted: Coroutine[Any, Any, object] | None = None) -> BackgroundLoop:
        if self._loop is None:
            if unwanted is not None:
                unwanted.close()
            raise NotConnected("the agent is not connected")
        return self._loop

    # -- deals -------------------------------------------------------------------------------------

    def propose(
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
    ) -> SyncProposal:
        return self._wait_for_deal(
            self._agent.propose(
                to,
                task,
                amount=amount,
                currency=currency,
                expires_in=expires_in,
                stake=stake,
                payment_code=payment_code,
                terms=terms,
                capability=capability,
                timeout=timeout,
            )
        )

    def accept(
        self,
        proposal_id: str,
        *,
        stake: int | None = None,
        payment_code: str | None = None,
        timeout: float | None = None,
    ) -> SyncProposal:
        return self._wait_for_deal(
            self._agent.accept(proposal_id, stake=stake, payment_code=payment_code, timeout=timeout)
        )

    def reject(
        self, proposal_id: str, reason: str | None = None, *, timeout: float | None = None
    ) -> SyncProposal:
        return self._wait_for_deal(self._agent.reject(proposal_id, reason, timeout=timeout))

    def complete(
        self, proposal_id: str, proof: str | None = None, *, timeout: float | None = None
    ) -> SyncProposal:
        return self._wait_for_deal(self._agent.complete(proposal_id, proof, timeout=timeout))

    def dispute(self, proposal_id: str, reason: str, *, timeout: float | None = None) -> SyncProposal:
        return self._wait_for_deal(self._agent.dispute(proposal_id, reason, timeout=timeout))

    def proposals(
        self, *, open_only: bool = True, limit: int = 100, timeout: float | None = None
    ) -> list[SyncProposal]:
        found = self._wait(self._agent.proposals(open_only=open_only, limit=limit, timeout=timeout))
        return [SyncProposal(proposal, self._running()) for proposal in found]

    def receipts(self, *, limit: int = 100, timeout: float | None = None) -> list[Receipt]:
        return self._wait(self._agent.receipts(limit=limit, timeout=timeout))

    # -- the court ---------------------------------------------------------------------------------

    def file_dispute(
        self,
        proposal_id: str,
        reason: str,
        *,
        nonce: str | None = None,
        reveal: bool = True,
        timeout: float | None = None,
    ) -> SyncDispute:
        work = self._agent.file_dispute(proposal_id, reason, nonce=nonce, reveal=reveal, timeout=timeout)
        return SyncDispute(self._wait(work), self._running())

    def reveal_dispute(self, proposal_id: str, nonce: str, *, timeout: float | None = None) -> SyncDispute:
        work = self._agent.reveal_dispute(proposal_id, nonce, timeout=timeout)
        return SyncDispute(self._wait(work), self._running())

    def submit_evidence(
        self, dispute_id: str, items: Items, statement: str = "", *, timeout: float | None = None
    ) -> None:
        self._wait(self._agent.submit_evidence(dispute_id, items, statement, timeout=timeout))

    def accept_case(self, dispute_id: str, *, timeout: float | None = None) -> None:
        self._wait(self._agent.accept_case(dispute_id, timeout=timeout))

    def decline_case(
        self, dispute_id: str, reason: str | None = None, *, timeout: float | None = None
    ) -> None:
        self._wait(self._agent.decline_case(dispute_id, reason, timeout=timeout))

    def vote(
        self, dispute_id: str, verdict: str, reasoning: str = "", *, timeout: float | None = None
    ) -> None:
        self._wait(self._agent.vote(dispute_id, verdict, reasoning, timeout=timeout))

    def disputes(
        self, *, open_only: bool = True, limit: int = 100, timeout: float | None = None
    ) -> list[SyncDispute]:
        found = self._wait(self._agent.disputes(open_only=open_only, limit=limit, timeout=timeout))
        return [SyncDispute(dispute, self._running()) for dispute in found]

    def case_file(self, case_id: str, *, timeout: float | None = None) -> dict[str, Any]:
        return self._wait(self._agent.case_file(case_id, timeout=timeout))

    # -- skills and ratings ------------------------------------------------------------------------

    def register_skills(
        self,
        skills: str | Mapping[str, Any] | Iterable[Mapping[str, Any] | str],
        *,
        timeout: float | None = None,
    ) -> int:
        return self._wait(self._agent.register_skills(skills, timeout=timeout))

    def search_skills(
        self,
        capability: str | None = None,
        *,
        max_rate: float | None = None,
        currency: str | None = None,
        limit: int | None = None,
        timeout: float | None = None,
    ) -> list[SkillOffer]:
        return self._wait(
            self._agent.search_skills(
                capability, max_rate=max_rate, currency=currency, limit=limit, timeout=timeout
            )
        )

    def rating(self, agent: str | None = None, *, history: int = 20, timeout: float | None = None) -> Rating:
        return self._wait(self._agent.rating(agent, history=history, timeout=timeout))

    def leaderboard(self, limit: int = 10, *, timeout: float | None = None) -> list[RankedAgent]:
        return self._wait(self._agent.leaderboard(limit, timeout=timeout))

    def _wait_for_deal(self, work: Coroutine[Any, Any, Proposal]) -> SyncProposal:
        return SyncProposal(self._wait(work), self._running())

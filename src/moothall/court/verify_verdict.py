"""Check the end of a case from its file: that it was due, the tally, what arbiters get, ratings and stakes."""

from typing import NamedTuple

from moothall.court.casefile import Arbiter, Case, CaseSettlement, Result
from moothall.court.panel import PANEL_SIZE
from moothall.court.phases import OPEN
from moothall.court.records import Verdict
from moothall.court.verdict import FORFEIT, REWARD, rating_changes, tally
from moothall.court.verify_panel import is_unreplaced
from moothall.market.curbs import payable
from moothall.market.proof import Proof
from moothall.market.settlement import floored
from moothall.market.transfers import split


def check_verdict(case: Case, stakes: tuple[int, int], proof: Proof) -> None:
    """`stakes` are what disputant and respondent have signed."""
    _Verdict(case, stakes, proof).check()


class _Expected(NamedTuple):
    """What an agent leaves a case with."""

    earned: int
    staked: int
    awarded: int
    withheld: int

    @property
    def change(self) -> int:
        return self.earned + self.awarded - self.staked


class _Verdict:
    def __init__(self, case: Case, stakes: tuple[int, int], proof: Proof) -> None:
        self._case = case
        self._signed = stakes
        self._claim = proof.claim

    def check(self) -> None:
        self._ending()
        self._judgement()
        self._settlement()

    def _ending(self) -> None:
        case = self._case
        self._claim(
            "fallback",
            (case.fallback is not None) == (case.phase == "fallback"),
            "There is a reason to fall back where the case fell back, and only there",
        )
        for field, value in (("judgement", case.judgement), ("settlement", case.settlement)):
            self._claim(
                field,
                (value is not None) == (case.phase == "resolved"),
                f"There is a {field} where the case is resolved, and only there",
            )
        self._claim(
            "deadline",
            (case.deadline is not None) == (case.phase in OPEN),
            "There is a deadline where the case is open, and only there",
        )
        if case.phase in ("evidence", "deliberation", "resolved"):
            seated = sum(arbiter.status != "declined" for arbiter in case.arbiters)
            self._claim("arbiters", seated == PANEL_SIZE, f"The panel has {PANEL_SIZE} arbiters")
        self._phase_not_over()

    def _phase_not_over(self) -> None:
        """A panel that is complete hears the case, and votes that are complete are the verdict."""
        case = self._case
        statuses = [arbiter.status for arbiter in case.arbiters]
        if case.phase in ("arbiter_response", "fallback"):
            self._claim(
                "phase",
                statuses.count("accepted") < PANEL_SIZE,
                f"Fewer than {PANEL_SIZE} arbiters accepted, so that no evidence was asked for",
            )
        if case.phase == "deliberation":
            self._claim("phase", "accepted" in statuses, "There is no verdict, because a vote is missing")
        if case.phase == "fallback" and statuses:
            # Either no agent was left to replace one that declined, and then the others did not have to answer any
            # more; or time was up, and then those that had not answered forfeited.
            self._claim(
                "fallback",
                "forfeited" not in statuses
                if is_unreplaced(case)
                else "forfeited" in statuses and "pending" not in statuses,
                "An arbiter is missing, because no agent was left or because one did not answer",
            )

    def _judgement(self) -> None:
        case, judgement = self._case, self._case.judgement
        if judgement is None:
            return
        cast = {arbiter.id: arbiter.vote for arbiter in case.arbiters if arbiter.vote is not None}
        self._claim(
            "judgement.votes",
            sorted(judgement.votes) == sorted(cast)
            and judgement.votes == sorted(judgement.votes, key=lambda each: cast[each].at),
            "The votes are those of the arbiters, in their order",
        )
        self._claim(
            "judgement.verdict",
            judgement.verdict == tally(vote.verdict for vote in cast.values()),
            f"The votes give the verdict {judgement.verdict}",
        )
        expected = [
            Result(
                arbiter=arbiter.id,
                verdict=None if arbiter.vote is None else arbiter.vote.verdict,
                reward=_reward(arbiter, judgement.verdict),
            )
            for arbiter in case.arbiters
            if arbiter.status != "declined"
        ]
        self._claim(
            "judgement.results", judgement.results == expected, "Arbiters get what their votes are worth"
        )

    def _settlement(self) -> None:
        case, settlement, judgement = self._case, self._case.settlement, self._case.judgement
        if settlement is None or judgement is None:
            return
        shares = settlement.shares
        names = [case.disputant.id, case.respondent.id, *(each.arbiter for each in judgement.results)]
        if not self._claim(
            "settlement.shares",
            [share.agent for share in shares] == names,
            "The parties and the arbiters that voted or forfeited have their shares",
        ):
            return
        stakes = self._signed
        points = rating_changes(shares[0].rating_before, shares[1].rating_before, judgement.verdict)
        parties, won_stake = self._party_shares(settlement, judgement.verdict, points, stakes)
        arbiters = [
            _Expected(each.reward - share.withheld, 0, 0, min(max(share.withheld, 0), max(each.reward, 0)))
            for each, share in zip(judgement.results, shares[2:], strict=True)
        ]
        expected = (*parties, *arbiters)
        for number, share in enumerate(shares):
            field = f"settlement.shares[{number}]"
            self._claim(
                f"{field}.earned",
                (share.earned, share.withheld) == (expected[number].earned, expected[number].withheld),
                f"The rating of {share.agent} moves by what the verdict gives",
            )
            self._claim(
                f"{field}.staked",
                share.staked == expected[number].staked,
                f"The stake of {share.agent} was signed",
            )
            self._claim(
                f"{field}.awarded",
                share.awarded == expected[number].awarded,
                f"{share.agent} gets of the stakes what the verdict gives",
            )
            after = floored(share.rating_before + expected[number].change)
            self._claim(
                f"{field}.rating_after",
                share.rating_after == after,
                f"The rating of {share.agent} is what it was, plus that, and not below the floor",
            )
        self._stakes(stakes, judgement.verdict, won_stake)

    def _party_shares(
        self,
        settlement: CaseSettlement,
        verdict: Verdict,
        points: tuple[int, int],
        stakes: tuple[int, int],
    ) -> tuple[list[_Expected], int]:
        """Disputant and respondent, and what the winner gets of the loser's stake."""
        expected = [_Expected(points[side], stakes[side], 0, 0) for side in (0, 1)]
        if verdict == "mutual":
            return expected, 0
        winner = 0 if verdict == "disputant" else 1
        due, given = points[winner] + stakes[1 - winner], settlement.transfer
        paid = due
        if given is not None:
            paid = payable(due, given.left, given.nth, given.room)
            self._claim(
                "settlement.transfer",
                (given.due, given.paid) == (due, paid),
                "The winner gets of the loser's points what the rules against farming leave",
            )
        earned, stake = split(paid, points[winner])
        expected[winner] = _Expected(earned, stakes[winner], stakes[winner] + stake, due - paid)
        return expected, stake

    def _stakes(self, stakes: tuple[int, int], verdict: Verdict, won: int) -> None:
        assert self._case.settlement is not None  # noqa: S101  # the caller has looked
        told = self._case.settlement.stakes
        self._claim(
            "settlement.stakes",
            (told.disputant, told.respondent) == stakes,
            "The stakes are those that were signed",
        )
        fate: tuple[str, str | None, int, int]
        if verdict == "mutual":
            fate = ("burned", None, sum(stakes), 0)
        elif verdict == "disputant":
            fate = ("transferred", self._case.disputant.id, won, stakes[1] - won)
        else:
            fate = ("transferred", self._case.respondent.id, won, stakes[0] - won)
        self._claim(
            "settlement.stakes",
            (told.settlement, told.to, told.amount, told.burned) == fate,
            "The stakes went where the verdict sends them",
        )


def _reward(arbiter: Arbiter, verdict: Verdict) -> int:
    if arbiter.vote is None:
        return FORFEIT
    return REWARD if arbiter.vote.verdict == verdict else 0

"""Check the file of a case without the hall: what parties and arbiters signed, and what the hall vouches for.

From the file alone, this recomputes the commitment, the seed, the panel and every replacement, the hashes of the
evidence, every signature, the tally, what the arbiters get, and what the verdict did to ratings and stakes. That
shows that the file does not contradict itself, not that the case took place: of all that went into it, parties and
arbiters signed only their own steps. The hall's signature covers the rest, and is as good as the hall's word.

The file may be a stranger's, so the work is proportional to its size.
"""

from collections.abc import Collection, Sequence, Set
from typing import Final, NamedTuple

import msgspec

from moothall.court.bounds import MAX_EVIDENCE, MAX_ITEMS
from moothall.court.casefile import FORMAT, Arbiter, Case, CaseSettlement, Evidence, Person, Result, parsed
from moothall.court.evidence import item_hash
from moothall.court.panel import (
    MAX_POOL,
    PANEL_SIZE,
    commitment_of,
    draw_replacement,
    pool_hash_of,
    seed_of,
    shuffled,
)
from moothall.court.phases import OPEN
from moothall.court.records import Verdict
from moothall.court.verdict import FORFEIT, REWARD, rating_changes, tally
from moothall.errors import InvalidKey, InvalidMessage
from moothall.identity import PublicKey
from moothall.identity.seals import CASE
from moothall.market.curbs import payable
from moothall.market.proof import Proof
from moothall.market.receipts import check_accept, check_offer, is_id_of
from moothall.market.settlement import floored
from moothall.market.storable import bounded_json, require_bounded
from moothall.market.transfers import split
from moothall.wire.agentchat import client, signing

HALL_WORD: Final = (
    "That the case took place, about this PROPOSAL: its signature does not name the deal's id.",
    "Times, server nonce, pools, who was told what, who did not answer; ratings, terms and capability.",
    "Statements, reasonings and unsigned declines; whether a signed value was a number or a text, null or zero.",
)


def verify_case(case: object, halls: Collection[str] = ()) -> Proof:
    """Check the `case` of a CASE message, as it came out of a JSON parser; any other value is a contradiction.

    `halls` are the key ids of halls whose word counts (`identity.seals.key_id`).
    """
    proof = inspect_case(case)
    if not isinstance(case, dict) or not proof.hall_word:  # it is not a case at all
        return proof
    if case["phase"] in OPEN:
        proof.unproven.append("`phase`: the case is open, and the hall signs it when it is closed.")
    else:
        proof.vouch(CASE, case, halls)
    return proof


def inspect_case(case: object) -> Proof:
    """Whether the file contradicts itself, and what it says; not whether a hall vouches for it."""
    proof = Proof()
    try:
        read = parsed(case)
        _require_bounded(read)
        inspection = _Inspection(read, proof)
    except (msgspec.ValidationError, InvalidMessage) as error:
        proof.contradictions.append(f"This is not the file of a case: {error}")
    except InvalidKey as error:
        proof.contradictions.append(f"A `key` cannot be read: {error}")
    except RecursionError:
        proof.contradictions.append("This is not the file of a case: it is nested too deeply")
    except UnicodeEncodeError:
        proof.contradictions.append("This is not the file of a case: a lone surrogate stands where none can")
    else:
        inspection.run()
        proof.hall_word += HALL_WORD
    return proof


class _Inspection:
    def __init__(self, case: Case, proof: Proof) -> None:
        self.case = case
        self.proof = proof
        self.claim = proof.claim
        self.signature = proof.signed
        self.disputant = PublicKey.from_pem(case.disputant.key)
        self.respondent = PublicKey.from_pem(case.respondent.key)
        self.arbiters = [PublicKey.from_pem(arbiter.key) for arbiter in case.arbiters]
        self.proposer = PublicKey.from_pem(case.deal.proposal.key)
        self.acceptor = PublicKey.from_pem(case.deal.accept.key)
        self._barred = {case.disputant.id, case.respondent.id}  # from the pool of the next replacement

    def run(self) -> None:
        self.people()
        self.deal()
        self.intent()
        self.revelation()
        self.panel()
        for number in range(len(self.case.arbiters)):
            self.slot(number)
        self.submission("disputant", self.case.evidence.disputant, self.disputant)
        self.submission("respondent", self.case.evidence.respondent, self.respondent)
        self.ending()
        self.judgement()
        self.settlement()

    # -- who and what it is about ------------------------------------------------------------------

    def people(self) -> None:
        case = self.case
        people: list[tuple[str, Person | Arbiter, PublicKey]] = [
            ("disputant", case.disputant, self.disputant),
            ("respondent", case.respondent, self.respondent),
            *(
                (f"arbiters[{number}]", arbiter, self.arbiters[number])
                for number, arbiter in enumerate(case.arbiters)
            ),
        ]
        for field, person, key in people:
            self.claim(f"{field}.id", is_id_of(person.id, key), f"{person.id} is the id of its key")
        keys, ids = {key for _, _, key in people}, {person.id for _, person, _ in people}
        self.claim(
            "arbiters",
            len(keys) == len(ids) == len(people),
            "Parties and arbiters are different agents with different ids",
        )

    def deal(self) -> None:
        case, deal = self.case, self.case.deal
        proposal, accept = deal.proposal, deal.accept
        check_offer(
            self.proof, "deal.proposal.sig", self.proposer, proposal, "The proposer signed the PROPOSAL"
        )
        self.claim(
            "deal.proposal",
            proposal.terms is None and proposal.capability is None,
            "The PROPOSAL is shown without what its signature does not cover",
        )
        check_accept(self.proof, "deal.accept.sig", self.acceptor, accept, "The acceptor signed the ACCEPT")
        self.claim(
            "deal.accept.proposal_id",
            accept.proposal_id == case.proposal_id,
            "The ACCEPT is about the disputed deal",
        )
        self.claim("deal.from", is_id_of(deal.from_, self.proposer), "The deal is from the proposer")
        self.claim(
            "deal.to",
            is_id_of(deal.to, self.acceptor) and proposal.to == deal.to,
            "The deal is with the one it was proposed to",
        )
        self.claim(
            "deal",
            {self.disputant, self.respondent} == {self.proposer, self.acceptor}
            and {case.disputant.id, case.respondent.id} == {deal.from_, deal.to},
            "The parties of the case are the parties of the deal",
        )

    def intent(self) -> None:
        case = self.case
        message = client.DisputeIntent(
            proposal_id=case.proposal_id,
            reason=case.reason,
            commitment=case.commitment,
            sig=case.intent_sig,
        )
        self.signature(
            "intent_sig",
            "DISPUTE_INTENT",
            self.disputant,
            signing.dispute_intent_text(message),
            message.sig,
            "The disputant signed the reason and the commitment",
        )

    # -- the panel ---------------------------------------------------------------------------------

    def revelation(self) -> None:
        case, reveal = self.case, self.case.reveal
        if reveal is None:
            self.claim(
                "reveal",
                case.phase in ("reveal_pending", "fallback")
                and case.seed is None
                and case.pool is None
                and not case.arbiters,
                "Nothing was drawn, because nothing was revealed",
            )
            return
        self.claim("phase", case.phase != "reveal_pending", "The case went on when the nonce was revealed")
        self.claim(
            "commitment",
            commitment_of(reveal.nonce) == case.commitment,
            "The commitment is the hash of the nonce",
        )
        message = client.DisputeReveal(proposal_id=case.proposal_id, nonce=reveal.nonce, sig=reveal.sig)
        self.signature(
            "reveal.sig",
            "DISPUTE_REVEAL",
            self.disputant,
            signing.dispute_reveal_text(message),
            message.sig,
            "The disputant signed the nonce",
        )
        self.claim(
            "seed",
            case.seed == seed_of(case.proposal_id, reveal.nonce, case.server_nonce),
            "The seed is the hash of the proposal's id and both nonces",
        )

    def panel(self) -> None:
        case = self.case
        self.claim(
            "pool_hash",
            (case.pool_hash is not None) == (case.format == FORMAT),
            "There is a hash of the pool, except in cases of the old format",
        )
        if case.seed is None or case.pool is None:
            self.claim("seed", case.reveal is None, "There is a seed and a pool since the nonce was revealed")
            return
        self._pool("pool", case.pool, {case.disputant.id, case.respondent.id})
        if case.pool_hash is not None:
            self._committed_pool(case.pool, case.pool_hash)
        self._walk(shuffled(case.seed, case.pool))
        declines = sum(arbiter.status == "declined" for arbiter in case.arbiters)
        # The last decline is not replaced when no agent is left, and then there is a fallback.
        missing = declines - len(case.arbiters[PANEL_SIZE:])
        self.claim(
            "arbiters",
            missing == 0 or (missing == 1 and case.phase == "fallback"),
            "Each arbiter that declined was replaced, or no agent was left",
        )

    def _pool(self, field: str, pool: Sequence[str], barred: Set[str]) -> None:
        self.claim(field, list(pool) == sorted(set(pool)), "The pool is sorted and names each agent once")
        self.claim(field, barred.isdisjoint(pool), "The pool has neither a party nor an arbiter from before")

    def _committed_pool(self, pool: Sequence[str], pool_hash: str) -> None:
        keys = [_raw_key(text) for text in self.case.pool_keys or ()]
        self.claim("pool", len(pool) <= MAX_POOL, f"The pool has at most {MAX_POOL} agents")
        self.claim("pool_hash", pool_hash == pool_hash_of(pool), "The hash is that of the pool")
        self.claim(
            "pool_keys",
            len(keys) == len(pool)
            and all(key is not None and is_id_of(each, key) for each, key in zip(pool, keys, strict=True)),
            "The ids in the pool are those of its keys",
        )
        held = dict(zip(pool, keys, strict=False))
        self.claim(
            "arbiters",
            all(
                held.get(each.id) == key for each, key in zip(self.case.arbiters, self.arbiters, strict=True)
            ),
            "The arbiters have the keys that the pool names",
        )

    def _walk(self, order: Sequence[str]) -> None:
        """Seats go down the order to those that were not passed over. A replacement with a pool of its own, of the
        old format, is checked in `slot`."""
        case = self.case
        drawn = [arbiter.id for arbiter in case.arbiters if arbiter.pool is None]
        skipped = [each.id for each in case.skipped]
        passed_over = set(skipped)
        others = {arbiter.id for arbiter in case.arbiters if arbiter.pool is not None}
        self.claim(
            "skipped",
            skipped == [each for each in order if each in passed_over] and others.isdisjoint(skipped),
            "The agents that were passed over are of the pool, in the order of the draw",
        )
        free = [each for each in order if each not in passed_over and each not in others]
        self.claim("arbiters", drawn == free[: len(drawn)], "The seed and the pool give the arbiters")
        if self._is_exhausted(len(free) - len(drawn)):
            return
        last = order.index(drawn[-1]) if drawn and drawn[-1] in order else 0
        self.claim(
            "skipped",
            passed_over.isdisjoint(order[last:]),
            "No agent was passed over after the last arbiter was found",
        )

    def _is_exhausted(self, left: int) -> bool:
        """The walk went to the end of the pool, because there were fewer than it needed."""
        case = self.case
        if not case.arbiters:
            return self.claim(
                "arbiters",
                case.phase == "fallback" and left < PANEL_SIZE,
                f"No panel was drawn, because fewer than {PANEL_SIZE} agents of the pool were eligible",
            )
        if not self._is_unreplaced():
            return False
        # Of an old case the file does not say which agents were eligible then.
        return case.format != FORMAT or self.claim(
            "arbiters",
            left == 0,
            "The last arbiter that declined was not replaced, because no agent was left",
        )

    def _is_unreplaced(self) -> bool:
        """True if the case fell back because an arbiter that declined could not be replaced."""
        statuses = [arbiter.status for arbiter in self.case.arbiters]
        return self.case.phase == "fallback" and statuses.count("declined") > len(statuses) - PANEL_SIZE

    def slot(self, number: int) -> None:
        case, arbiter = self.case, self.case.arbiters[number]
        field = f"arbiters[{number}]"
        replaces = number >= PANEL_SIZE
        self.claim(
            f"{field}.is_replacement",
            arbiter.is_replacement == replaces,
            f"{arbiter.id} {'is a replacement' if replaces else 'is of the first panel'}",
        )
        if arbiter.pool is not None:
            self.claim(
                f"{field}.pool",
                replaces and case.format != FORMAT,
                f"{arbiter.id} replaced an arbiter in a case of the old format",
            )
            self._pool(f"{field}.pool", arbiter.pool, self._barred)
            self.claim(
                f"{field}.pool",
                case.seed is not None and draw_replacement(case.seed, number, arbiter.pool) == arbiter.id,
                f"The seed and its pool give {arbiter.id}",
            )
        self._barred.add(arbiter.id)
        self._slot_signatures(field, arbiter, self.arbiters[number])
        self._slot_status(field, arbiter)

    def _slot_signatures(self, field: str, arbiter: Arbiter, key: PublicKey) -> None:
        dispute_id = self.case.dispute_id
        if arbiter.accepted is not None:
            accepted = client.ArbiterAccept(dispute_id=dispute_id, sig=arbiter.accepted.sig)
            self.signature(
                f"{field}.accepted.sig",
                "ARBITER_ACCEPT",
                key,
                signing.arbiter_accept_text(accepted),
                accepted.sig,
                f"{arbiter.id} signed that it accepts",
            )
        if arbiter.declined is not None and arbiter.declined.sig is not None:
            declined = client.ArbiterDecline(
                dispute_id=dispute_id, reason=arbiter.declined.reason, sig=arbiter.declined.sig
            )
            self.signature(
                f"{field}.declined.sig",
                "ARBITER_DECLINE",
                key,
                signing.arbiter_decline_text(declined),
                arbiter.declined.sig,
                f"{arbiter.id} signed that it declines",
            )
        if arbiter.vote is not None:
            vote = client.ArbiterVote(
                dispute_id=dispute_id,
                verdict=arbiter.vote.verdict,
                reasoning=arbiter.vote.reasoning,
                sig=arbiter.vote.sig,
            )
            self.signature(
                f"{field}.vote.sig",
                "ARBITER_VOTE",
                key,
                signing.vote_text(vote),
                vote.sig,
                f"{arbiter.id} signed its vote",
            )

    def _slot_status(self, field: str, arbiter: Arbiter) -> None:
        case = self.case
        accepted, declined, voted = (
            arbiter.accepted is not None,
            arbiter.declined is not None,
            arbiter.vote is not None,
        )
        said = {
            "pending": not accepted and not declined and not voted,
            "accepted": accepted and not declined and not voted,
            "declined": declined and not accepted and not voted,
            # A vote is not shown before the verdict.
            "voted": accepted and not declined and (voted or case.phase == "deliberation"),
            "forfeited": not declined and not voted and accepted == (case.phase == "resolved"),
        }
        possible = {
            "reveal_pending": (),
            "arbiter_response": ("pending", "accepted", "declined"),
            "evidence": ("accepted", "declined"),
            "deliberation": ("accepted", "declined", "voted"),
            "resolved": ("declined", "voted", "forfeited"),
            "fallback": ("pending", "accepted", "declined", "forfeited"),
        }
        self.claim(
            f"{field}.status",
            said[arbiter.status] and arbiter.status in possible[case.phase],
            f"{arbiter.id} did what its status says",
        )

    # -- evidence ----------------------------------------------------------------------------------

    def submission(self, party: str, evidence: Evidence | None, key: PublicKey) -> None:
        if evidence is None:
            return
        field = f"evidence.{party}"
        self.claim(
            field,
            self.case.phase in ("evidence", "deliberation", "resolved"),
            f"The {party}'s evidence came when it was asked for",
        )
        self.claim(
            f"{field}.items", len(evidence.items) <= MAX_ITEMS, f"The {party} sent at most {MAX_ITEMS} items"
        )
        self.claim(
            f"{field}.hashes",
            evidence.hashes == [item_hash(item) for item in evidence.items],
            f"The hashes are those of the {party}'s items",
        )
        message = client.Evidence(
            dispute_id=self.case.dispute_id,
            items=evidence.items,
            statement=evidence.statement,
            sig=evidence.sig,
        )
        self.signature(
            f"{field}.sig",
            "EVIDENCE",
            key,
            signing.evidence_text(message),
            message.sig,
            f"The {party} signed its items",
        )

    # -- the end -----------------------------------------------------------------------------------

    def ending(self) -> None:
        case = self.case
        self.claim(
            "fallback",
            (case.fallback is not None) == (case.phase == "fallback"),
            "There is a reason to fall back where the case fell back, and only there",
        )
        for field, value in (("judgement", case.judgement), ("settlement", case.settlement)):
            self.claim(
                field,
                (value is not None) == (case.phase == "resolved"),
                f"There is a {field} where the case is resolved, and only there",
            )
        self.claim(
            "deadline",
            (case.deadline is not None) == (case.phase in OPEN),
            "There is a deadline where the case is open, and only there",
        )
        if case.phase in ("evidence", "deliberation", "resolved"):
            seated = sum(arbiter.status != "declined" for arbiter in case.arbiters)
            self.claim("arbiters", seated == PANEL_SIZE, f"The panel has {PANEL_SIZE} arbiters")
        self._phase_not_over()

    def _phase_not_over(self) -> None:
        """A panel that is complete hears the case, and votes that are complete are the verdict."""
        case = self.case
        statuses = [arbiter.status for arbiter in case.arbiters]
        if case.phase in ("arbiter_response", "fallback"):
            self.claim(
                "phase",
                statuses.count("accepted") < PANEL_SIZE,
                f"Fewer than {PANEL_SIZE} arbiters accepted, so that no evidence was asked for",
            )
        if case.phase == "deliberation":
            self.claim("phase", "accepted" in statuses, "There is no verdict, because a vote is missing")
        if case.phase == "fallback" and statuses:
            # Either no agent was left to replace one that declined, and then the others did not have to answer any
            # more; or time was up, and then those that had not answered forfeited.
            self.claim(
                "fallback",
                "forfeited" not in statuses
                if self._is_unreplaced()
                else "forfeited" in statuses and "pending" not in statuses,
                "An arbiter is missing, because no agent was left or because one did not answer",
            )

    def judgement(self) -> None:
        case, judgement = self.case, self.case.judgement
        if judgement is None:
            return
        cast = {arbiter.id: arbiter.vote for arbiter in case.arbiters if arbiter.vote is not None}
        self.claim(
            "judgement.votes",
            sorted(judgement.votes) == sorted(cast)
            and judgement.votes == sorted(judgement.votes, key=lambda each: cast[each].at),
            "The votes are those of the arbiters, in their order",
        )
        self.claim(
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
        self.claim(
            "judgement.results", judgement.results == expected, "Arbiters get what their votes are worth"
        )

    def settlement(self) -> None:
        case, settlement, judgement = self.case, self.case.settlement, self.case.judgement
        if settlement is None or judgement is None:
            return
        shares = settlement.shares
        names = [case.disputant.id, case.respondent.id, *(each.arbiter for each in judgement.results)]
        if not self.claim(
            "settlement.shares",
            [share.agent for share in shares] == names,
            "The parties and the arbiters that voted or forfeited have their shares",
        ):
            return
        stakes = self._signed_stakes()
        points = rating_changes(shares[0].rating_before, shares[1].rating_before, judgement.verdict)
        parties, won_stake = self._party_shares(settlement, judgement.verdict, points, stakes)
        arbiters = [
            _Expected(each.reward - share.withheld, 0, 0, min(max(share.withheld, 0), max(each.reward, 0)))
            for each, share in zip(judgement.results, shares[2:], strict=True)
        ]
        expected = (*parties, *arbiters)
        for number, share in enumerate(shares):
            field = f"settlement.shares[{number}]"
            self.claim(
                f"{field}.earned",
                (share.earned, share.withheld) == (expected[number].earned, expected[number].withheld),
                f"The rating of {share.agent} moves by what the verdict gives",
            )
            self.claim(
                f"{field}.staked",
                share.staked == expected[number].staked,
                f"The stake of {share.agent} was signed",
            )
            self.claim(
                f"{field}.awarded",
                share.awarded == expected[number].awarded,
                f"{share.agent} gets of the stakes what the verdict gives",
            )
            after = floored(share.rating_before + expected[number].change)
            self.claim(
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
    ) -> "tuple[list[_Expected], int]":
        """Disputant and respondent, and what the winner gets of the loser's stake."""
        expected = [_Expected(points[side], stakes[side], 0, 0) for side in (0, 1)]
        if verdict == "mutual":
            return expected, 0
        winner = 0 if verdict == "disputant" else 1
        due, given = points[winner] + stakes[1 - winner], settlement.transfer
        paid = due
        if given is not None:
            paid = payable(due, given.left, given.nth, given.room)
            self.claim(
                "settlement.transfer",
                (given.due, given.paid) == (due, paid),
                "The winner gets of the loser's points what the rules against farming leave",
            )
        earned, stake = split(paid, points[winner])
        expected[winner] = _Expected(earned, stakes[winner], stakes[winner] + stake, due - paid)
        return expected, stake

    def _signed_stakes(self) -> tuple[int, int]:
        """The stakes of disputant and respondent, from PROPOSAL and ACCEPT."""
        deal = self.case.deal
        own, other = int(deal.proposal.elo_stake or 0), int(deal.accept.elo_stake or 0)
        return (own, other) if self.disputant == self.proposer else (other, own)

    def _stakes(self, stakes: tuple[int, int], verdict: Verdict, won: int) -> None:
        assert self.case.settlement is not None  # noqa: S101  # the caller has looked
        told = self.case.settlement.stakes
        self.claim(
            "settlement.stakes",
            (told.disputant, told.respondent) == stakes,
            "The stakes are those that were signed",
        )
        fate: tuple[str, str | None, int, int]
        if verdict == "mutual":
            fate = ("burned", None, sum(stakes), 0)
        elif verdict == "disputant":
            fate = ("transferred", self.case.disputant.id, won, stakes[1] - won)
        else:
            fate = ("transferred", self.case.respondent.id, won, stakes[0] - won)
        self.claim(
            "settlement.stakes",
            (told.settlement, told.to, told.amount, told.burned) == fate,
            "The stakes went where the verdict sends them",
        )


class _Expected(NamedTuple):
    """What an agent leaves a case with."""

    earned: int
    staked: int
    awarded: int
    withheld: int

    @property
    def change(self) -> int:
        return self.earned + self.awarded - self.staked


def _reward(arbiter: Arbiter, verdict: Verdict) -> int:
    if arbiter.vote is None:
        return FORFEIT
    return REWARD if arbiter.vote.verdict == verdict else 0


def _raw_key(text: str) -> PublicKey | None:
    try:
        return PublicKey(bytes.fromhex(text))
    except (ValueError, InvalidKey):
        return None


def _require_bounded(case: Case) -> None:
    """Before anything is hashed: the file may be a stranger's. Halls once took any number of values that fit."""
    for evidence in (case.evidence.disputant, case.evidence.respondent):
        if evidence is not None:
            require_bounded(evidence.items, "evidence", MAX_EVIDENCE)
            bounded_json(evidence.items, "evidence", MAX_EVIDENCE)

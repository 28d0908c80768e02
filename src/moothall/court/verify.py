"""Check the file of a case without the hall: what parties and arbiters signed, and what the hall vouches for.

From the file alone, this recomputes the commitment, the seed, the panel and every replacement, the hashes of the
evidence, every signature, the tally, what the arbiters get, and what the verdict did to ratings and stakes. That
shows that the file does not contradict itself, not that the case took place: of all that went into it, parties and
arbiters signed only their own steps. The hall's signature covers the rest, and is as good as the hall's word.

The file may be a stranger's, so the work is proportional to its size.
"""

from collections.abc import Collection
from typing import Final

import msgspec

from moothall.court.bounds import MAX_EVIDENCE, MAX_ITEMS
from moothall.court.casefile import Arbiter, Case, Evidence, Person, parsed
from moothall.court.evidence import item_hash
from moothall.court.panel import commitment_of, seed_of
from moothall.court.phases import OPEN
from moothall.court.verify_envelopes import check_envelopes
from moothall.court.verify_panel import check_panel
from moothall.court.verify_verdict import check_verdict
from moothall.errors import InvalidKey, InvalidMessage
from moothall.identity import PublicKey
from moothall.identity.seals import CASE
from moothall.market.proof import Proof
from moothall.market.receipts import check_accept, check_offer, is_id_of
from moothall.market.storable import bounded_json, require_bounded
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

    def run(self) -> None:
        self.people()
        self.deal()
        self.intent()
        self.revelation()
        check_panel(self.case, self.arbiters, self.proof)
        for number, arbiter in enumerate(self.case.arbiters):
            self.arbiter(f"arbiters[{number}]", arbiter, self.arbiters[number])
        self.submission("disputant", self.case.evidence.disputant, self.disputant)
        self.submission("respondent", self.case.evidence.respondent, self.respondent)
        check_verdict(self.case, self.stakes(), self.proof)

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
        check_envelopes(case, self.proposer, self.acceptor, self.proof)
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

    def stakes(self) -> tuple[int, int]:
        """The stakes of disputant and respondent, from PROPOSAL and ACCEPT."""
        deal = self.case.deal
        own, other = int(deal.proposal.elo_stake or 0), int(deal.accept.elo_stake or 0)
        return (own, other) if self.disputant == self.proposer else (other, own)

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

    def arbiter(self, field: str, arbiter: Arbiter, key: PublicKey) -> None:
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


def _require_bounded(case: Case) -> None:
    """Before anything is hashed: the file may be a stranger's. Halls once took any number of values that fit."""
    for evidence in (case.evidence.disputant, case.evidence.respondent):
        if evidence is not None:
            require_bounded(evidence.items, "evidence", MAX_EVIDENCE)
            bounded_json(evidence.items, "evidence", MAX_EVIDENCE)

"""Conversations of the mesh that go to court, on a real store: envelopes and court steps are signed and checked."""

from collections.abc import Callable
from itertools import count
from typing import Any, Final

import msgspec

from moothall.court import agentchat, clerk
from moothall.court.news import CourtOutcome
from moothall.court.panel import Candidate
from moothall.court.records import Dispute
from moothall.court.rules import CourtRules
from moothall.identity import PrivateKey
from moothall.market import conversing
from moothall.market.agentchat import sent
from moothall.market.conversations import Conversation
from moothall.market.conversing import Dealt
from moothall.market.credits import deal_name
from moothall.market.mesh import authority_of, step_of
from moothall.market.records import Proposal
from moothall.market.signed import check_signature
from moothall.store.books import SqlBooks
from moothall.wire.agentchat import client
from moothall.wire.mesh.envelope import Envelope, encode, seal
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.offers import Accept, Counter, Propose
from moothall.wire.mesh.outcomes import Deliver
from moothall.wire.mesh.reasons import Dispute as Disputed
from tests.identity.vectors import ALICE, BOB
from tests.store.support import Place
from tests.support.cases import ARBITERS, COMMITMENT, MESSAGES, NONCE, signed_step
from tests.support.seals import SEAL
from tests.support.talks import CREDIT, TALK, Talks

RULES: Final = CourtRules(arbiter_rating=0, arbiter_transactions=0)
DEAL: Final = deal_name(TALK)
JUDGES: Final = ARBITERS[:3]

_READ: Final[dict[str, Callable[[Any], Any]]] = {
    "DISPUTE_INTENT": agentchat.file_intent,
    "DISPUTE_REVEAL": agentchat.reveal,
    "ARBITER_ACCEPT": agentchat.accept,
    "ARBITER_DECLINE": agentchat.decline,
    "EVIDENCE": agentchat.submit_evidence,
    "ARBITER_VOTE": agentchat.vote,
}
_numbers = count(1)


class CourtTalks(Talks):
    """Alice asks Bob for work, and either goes to court. The three judges are connected."""

    def __init__(self, place: Place, *, logs: bool = True) -> None:
        super().__init__(place)
        self.logs = logs
        self.cases = 0
        self.deposit(ALICE.public.raw, 10 * CREDIT)

    # -- on the mesh -----------------------------------------------------------------------------------

    def send(
        self, sender: PrivateKey, msg_type: MsgType, payload: bytes, to: PrivateKey | None = None
    ) -> Dealt:
        other = BOB if sender is ALICE else ALICE
        made = seal(
            msg_type,
            payload,
            sender=sender.public.raw,
            sign=sender.sign_bytes,
            nonce=next(_numbers),
            now=self.now * 1000,
            recipient=(to or other).public.raw,
            conversation_id=TALK,
        )
        return self.unit(lambda books: self._dealt(books, made))

    def _dealt(self, books: SqlBooks, made: Envelope) -> Dealt:
        raw = encode(made)
        dealt = conversing.take(books, step_of(made), authority_of(made, raw), now=self.now, rules=self.rules)
        if self.logs:
            books.log(made, raw, self.now)
        return dealt

    def offer(self, sender: PrivateKey = ALICE, amount: int = CREDIT, **fields: Any) -> Dealt:
        return self.send(sender, MsgType.PROPOSE, Propose(amount=amount, message="work", **fields).encode())

    def counter(self, sender: PrivateKey, amount: int) -> Dealt:
        return self.send(sender, MsgType.COUNTER, Counter(amount=amount, message="more").encode())

    def agree(self, sender: PrivateKey = BOB, amount: int = CREDIT) -> Dealt:
        return self.send(sender, MsgType.ACCEPT, Accept(amount=amount).encode())

    def hand_over(self) -> Dealt:
        return self.send(BOB, MsgType.DELIVER, Deliver(conversation_id=TALK, inline=b"half").encode())

    def challenge(self, sender: PrivateKey = ALICE) -> Dealt:
        return self.send(sender, MsgType.DISPUTE, Disputed("half of it").encode())

    def quarrel(self, amount: int = CREDIT, by: PrivateKey = ALICE) -> None:
        """To a delivery that is disputed."""
        self.offer(amount=amount)
        self.agree(amount=amount)
        self.hand_over()
        self.challenge(by)

    # -- in court --------------------------------------------------------------------------------------

    def step(self, key: PrivateKey, kind: str, **fields: Any) -> CourtOutcome:
        message = msgspec.convert(signed_step(key, kind, **fields), MESSAGES[kind])
        order = check_signature(sent(message, _READ[kind](message), key.public), "VERIFICATION_FAILED")
        here = [Candidate(judge.public.raw, f"@{judge.public.agent_id(8)}") for judge in JUDGES]
        common: dict[str, Any] = {"now": self.now, "rules": RULES, "seal": SEAL}
        if isinstance(message, client.DisputeIntent):
            self.cases += 1
            name = f"disp_{self.cases}"
            return self.unit(
                lambda books: clerk.file_intent(
                    books, order, here, dispute_id=name, server_nonce="5e", **common
                )
            )
        if isinstance(message, client.DisputeReveal):
            return self.unit(lambda books: clerk.reveal(books, order, here, **common))
        if isinstance(message, client.ArbiterDecline):
            return self.unit(lambda books: clerk.decline(books, order, here, **common))
        decide: Any = {
            "ARBITER_ACCEPT": clerk.accept,
            "EVIDENCE": clerk.submit_evidence,
            "ARBITER_VOTE": clerk.vote,
        }[kind]
        outcome: CourtOutcome = self.unit(lambda books: decide(books, order, **common))
        return outcome

    def file(self, key: PrivateKey = ALICE) -> str:
        self.step(key, "DISPUTE_INTENT", proposal_id=DEAL, reason="half of it", commitment=COMMITMENT)
        return f"disp_{self.cases}"

    def reveal(self, key: PrivateKey = ALICE) -> None:
        self.step(key, "DISPUTE_REVEAL", proposal_id=DEAL, nonce=NONCE)

    def judge(self, case: str, *verdicts: str) -> CourtOutcome:
        """From the reveal on: to the last vote."""
        for judge in JUDGES:
            self.step(judge, "ARBITER_ACCEPT", dispute_id=case)
        for party in (ALICE, BOB):
            self.step(party, "EVIDENCE", dispute_id=case, items=[{"kind": "work"}], statement="see")
        for judge, verdict in zip(JUDGES, verdicts, strict=True):
            outcome = self.step(judge, "ARBITER_VOTE", dispute_id=case, verdict=verdict, reasoning="so")
        return outcome

    def lapse_case(self, case: str) -> CourtOutcome | None:
        """Act upon the deadline of a case."""
        deadline = self.case(case).deadline
        assert deadline is not None
        self.now = deadline
        return self.lapse_due(case)

    def lapse_due(self, case: str) -> CourtOutcome | None:
        """The same, now."""
        return self.unit(lambda books: clerk.lapse(books, case, now=self.now, rules=RULES, seal=SEAL))

    # -- what is so ------------------------------------------------------------------------------------

    def case(self, case: str) -> Dispute:
        found = self.unit(lambda books: books.case(case))
        assert found is not None
        return found

    def deal(self) -> Proposal:
        found = self.unit(lambda books: books.proposal(DEAL))
        assert found is not None
        return found

    def talk(self) -> Conversation:
        found = self.conversation()
        assert found is not None
        return found

    def file_of(self, case: str) -> dict[str, Any]:
        raw = self.unit(lambda books: clerk.get_case(books, case, None, ALICE.public.raw))
        file: dict[str, Any] = msgspec.json.decode(bytes(raw))
        return file

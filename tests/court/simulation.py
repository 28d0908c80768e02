"""A year at court in a moment: agents that come and go, keep their word or not, and a hall that restarts at will.

Whatever happens, every case must end, every stake must be accounted for, and every file must verify.
"""

from collections.abc import Callable
from hashlib import sha256
from random import Random
from typing import Any, Protocol, TypeVar

import msgspec

from moothall.court.books import Books
from moothall.court.casefile import case_file
from moothall.court.records import Dispute
from moothall.court.verify import verify_case
from moothall.hall.outside import Store
from moothall.identity import PrivateKey
from moothall.market import ledger
from moothall.market.records import Standing
from tests.support.cases import ARBITERS, signed_step
from tests.support.deals import signed
from tests.support.seals import HALL_ID
from tests.support.world import Clock, Guest, Message, World

Result = TypeVar("Result")

PARTIES = tuple(PrivateKey(sha256(f"party {number}".encode()).digest()) for number in range(3))
JUDGES = ARBITERS[:7]
AGENTS = {key.public.raw: key for key in (*PARTIES, *JUDGES)}
MOST_OPEN = 4  # cases at once
FOR_EVER = 4 * 3600.0  # longer than a case can take from here, if nobody does anything


class Archive(Protocol):
    """Where the hall's books are."""

    def open(self) -> Store[Books]:
        """As a hall does when it starts."""

    def look(self, work: Callable[[Books], Result]) -> Result: ...


class Simulation:
    def __init__(self, seed: object, archive: Archive) -> None:
        self.dice = Random(f"court {seed}")  # noqa: S311  # a story, not a secret
        self.archive = archive
        self.clock = Clock()
        self.guests: dict[PrivateKey, Guest] = {}
        self.deals: list[str] = []
        self.nonces: dict[str, str] = {}  # by case
        self.world = self._opened()
        for key in AGENTS.values():
            rating = self.dice.choice((1150, 1200, 1300, 1800) if key in JUDGES else (150, 1200, 1500))
            self.archive.look(lambda books, key=key, rating=rating: _rate(books, key, rating))  # type: ignore[misc]
            self.arrive(key)

    def run(self, cases: int) -> None:
        while len(self.nonces) < cases:
            self.step()
        for _ in range(40):
            self.step()
        self.world.advance(FOR_EVER)

    def step(self) -> None:
        """Mostly somebody does what can be done; sometimes anything; sometimes the world turns."""
        roll = self.dice.random()
        if roll < 0.80:
            self.go_on()
        elif roll < 0.86:
            self.try_anything()
        elif roll < 0.93:
            self.come_or_go()
        elif roll < 0.98:
            self.world.advance(self.dice.choice((0.001, 1, 1, 60, 60, 299, 300, 1800, 3600)))
        else:
            self.restart()

    # -- the world ---------------------------------------------------------------------------------

    def _opened(self) -> World:
        return World(
            no_limits=True,
            idle_prompts=False,
            store=self.archive.open(),
            clock=self.clock,
            dice=self.dice,
        )

    def restart(self) -> None:
        """Killed between two messages; some of its agents find their way back."""
        connected = list(self.guests)
        self.guests.clear()
        if self.dice.random() < 0.2:
            self.clock.move_to(self.clock.monotonic() + self.dice.choice((1, 400, 4000)))
        self.world = self._opened()
        for key in connected:
            if self.dice.random() < 0.9:
                self.arrive(key)

    def come_or_go(self) -> None:
        key = self.dice.choice(list(AGENTS.values()))
        if key in self.guests and self.dice.random() < 0.4:
            self.world.disconnect(self.guests.pop(key))
        elif key in self.guests:
            self.world.send(self.guests[key], "SET_PRESENCE", status=self.dice.choice(("away", "online")))
        else:
            self.arrive(key)

    def arrive(self, key: PrivateKey) -> None:
        self.guests[key] = self.world.agent("someone", key=key)

    def send(self, key: PrivateKey, kind: str, **fields: Any) -> list[Message]:
        """A signed step of an agent, if it is here; what it got for it."""
        if key not in self.guests:
            return []
        guest = self.guests[key]
        guest.read()
        sign = signed_step if kind.startswith(("DISPUTE_", "ARBITER", "EVIDENCE")) else signed
        self.world.send(guest, kind, **sign(key, kind, **fields))
        return guest.read()

    # -- what agents do ----------------------------------------------------------------------------

    def begin(self) -> None:
        """A deal, which most likely ends in court."""
        proposer, recipient = self.dice.sample(PARTIES, 2)
        stakes = self.dice.choice(((0, 0), (10, 0), (25, 40)))
        optional: dict[str, Any] = self.dice.choice(({}, {"expires": 1000}, {"capability": "review"}))
        to = f"@{recipient.public.agent_id()}"
        offered = self.send(proposer, "PROPOSAL", to=to, task="it", elo_stake=stakes[0], **optional)
        deals = [message["id"] for message in offered if message["type"] == "PROPOSAL"]
        if not deals:
            return
        deal = deals[0]
        self.deals.append(deal)
        self.send(recipient, "ACCEPT", proposal_id=deal, elo_stake=stakes[1])
        self.file(self.dice.choice((proposer, recipient)), deal)

    def file(self, by: PrivateKey, deal: str) -> None:
        nonce = self.dice.randbytes(16).hex()
        commitment = sha256(nonce.encode()).hexdigest()
        answer = self.send(by, "DISPUTE_INTENT", proposal_id=deal, reason="bad", commitment=commitment)
        for message in answer:
            if message["type"] == "DISPUTE_INTENT_ACK":
                self.nonces[message["dispute_id"]] = nonce

    def go_on(self) -> None:
        cases = self._open_cases()
        if len(cases) < MOST_OPEN and self.dice.random() < 0.3:
            if self.deals and self.dice.random() < 0.3:
                self.file(self.dice.choice(PARTIES), self.dice.choice(self.deals[-4:]))
            else:
                self.begin()
            return
        if not cases:
            return
        case = self.dice.choice(cases)
        if case.phase == "reveal_pending":
            nonce = self.nonces[case.id] if self.dice.random() < 0.8 else "wrong"
            self.send(AGENTS[case.disputant], "DISPUTE_REVEAL", proposal_id=case.proposal_id, nonce=nonce)
        elif case.phase == "evidence":
            self.plead(case, self.dice.choice(case.parties))
        else:
            waiting = [slot for slot in case.slots if slot.status in ("pending", "accepted")]
            self.judge(case, AGENTS[self.dice.choice(waiting).arbiter])

    def plead(self, case: Dispute, party: bytes) -> None:
        items = [{"kind": "other", "value": self.dice.random()} for _ in range(self.dice.randrange(4))]
        self.send(AGENTS[party], "EVIDENCE", dispute_id=case.id, items=items, statement="so it was")

    def judge(self, case: Dispute, key: PrivateKey) -> None:
        if case.phase == "deliberation":
            verdict = self.dice.choice(("disputant", "respondent", "mutual"))
            self.send(key, "ARBITER_VOTE", dispute_id=case.id, verdict=verdict, reasoning="so I found")
        elif self.dice.random() < 0.85:
            self.send(key, "ARBITER_ACCEPT", dispute_id=case.id)
        else:
            self.send(key, "ARBITER_DECLINE", dispute_id=case.id, reason="no time")

    def try_anything(self) -> None:
        """What is not theirs to do, or not now."""
        if not self.deals:
            return
        deal, key = self.dice.choice(self.deals), self.dice.choice(list(AGENTS.values()))
        case = next(iter(self.archive.look(lambda books: books.cases_about(deal))), None)
        kind = self.dice.choice(
            ("COMPLETE", "DISPUTE", "DISPUTE_INTENT", "EVIDENCE", "ARBITER_VOTE", "ARBITER_ACCEPT")
        )
        if kind == "DISPUTE_INTENT":
            self.file(self.dice.choice(PARTIES), deal)
        elif kind == "COMPLETE":
            self.send(key, kind, proposal_id=deal)
        elif kind == "DISPUTE":
            self.send(key, kind, proposal_id=deal, reason="bad")
        elif case is not None and kind == "EVIDENCE":
            self.plead(case, key.public.raw)
        elif case is not None:
            self.judge(case, key)

    def _open_cases(self) -> list[Dispute]:
        latest = list(self.nonces)[-2 * MOST_OPEN :]
        found = self.archive.look(lambda books: [books.case(case) for case in latest])
        return [case for case in found if case is not None and case.is_open]

    # -- what must hold at the end -----------------------------------------------------------------

    def check(self) -> list[Dispute]:
        """The cases, each closed, with its deal in the state that follows from it, and a file that verifies."""
        cases = []
        for dispute_id in self.nonces:
            case = self.archive.look(lambda books, dispute_id=dispute_id: books.case(dispute_id))  # type: ignore[misc]
            deal = self.archive.look(lambda books, case=case: books.proposal(case.proposal_id))  # type: ignore[misc]
            assert case.phase in ("resolved", "fallback")
            assert case.deadline is None
            assert deal.frozen_by is None
            assert (case.settlement is not None) == (case.phase == "resolved")
            assert not case.is_unrevealed or case.disputant in deal.unrevealed_by
            if case.phase == "resolved":
                assert deal.status == "disputed"
            file = self.archive.look(lambda books, case=case: books.signed_file(case.id))  # type: ignore[misc]
            assert verify_case(msgspec.json.decode(file), [HALL_ID]).problems == []
            for viewer in case.parties:
                exported = msgspec.json.decode(msgspec.json.encode(case_file(case, deal, viewer)))
                assert verify_case(exported).contradictions == []
            cases.append(case)
        return cases


def _rate(books: Any, key: PrivateKey, rating: int) -> None:
    """From the beginning, as an imported agent is."""
    books.save_standing(Standing(key=key.public.raw, rating=rating, transactions=20))
    books.save_entry(ledger.opening(key.public.raw, rating, 1))

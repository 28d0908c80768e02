"""A courtroom: a made-up hall with two parties, a deal between them, and agents that may judge it."""

from collections.abc import Sequence
from typing import Any

from moothall.court.panel import PANEL_SIZE, shuffled
from moothall.court.records import Dispute
from moothall.court.verify import verify_case
from moothall.identity import PrivateKey
from moothall.market import ledger
from moothall.market.proof import Proof
from moothall.market.records import Proposal, Standing
from tests.court.books import MemoryBooks
from tests.identity.vectors import ALICE, BOB
from tests.support.cases import ARBITERS, COMMITMENT, NONCE, signed_step
from tests.support.deals import signed
from tests.support.seals import HALL_ID
from tests.support.world import Guest, Message, World, assert_sent

ITEM = {"kind": "commit", "label": "Feature", "value": "abc123"}


def draw_panel(seed: str, pool: Sequence[str]) -> list[str]:
    """The panel where all of the pool are eligible."""
    return shuffled(seed, pool)[:PANEL_SIZE]


def rated(books: MemoryBooks, key: PrivateKey, rating: int = 1300, transactions: int = 20) -> None:
    """The agent has this standing from the beginning, as an imported one does."""
    standing = Standing(key=key.public.raw, rating=rating, transactions=transactions)
    books.entries.pop(("elo", ledger.agent_account(standing.key), "opening"), None)
    books._save(standing)
    books._save(ledger.opening(standing.key, rating, 1))


class Courtroom:
    """Alice disputes a deal that she offered to Bob; `judges` agents are eligible and present."""

    def __init__(self, judges: int = 3, profile: str = "seeds", **settings: Any) -> None:
        self.world = World(profile, no_limits=True, idle_prompts=False, **settings)
        self.judges = list(ARBITERS[:judges])
        for key in self.judges:
            rated(self.world.books, key)
        self.guests: dict[PrivateKey, Guest] = {}
        for number, key in enumerate((ALICE, BOB, *self.judges)):
            self.arrive(key, f"agent{number}")
        self.deal_id = ""
        self.dispute_id = ""

    # -- who ---------------------------------------------------------------------------------------

    def arrive(self, key: PrivateKey, name: str = "someone") -> Guest:
        self.guests[key] = self.world.agent(name, key=key)
        return self.guests[key]

    def leave(self, key: PrivateKey) -> None:
        self.world.disconnect(self.guests.pop(key))

    @property
    def alice(self) -> Guest:
        return self.guests[ALICE]

    @property
    def bob(self) -> Guest:
        return self.guests[BOB]

    @property
    def panel(self) -> list[PrivateKey]:
        """Whoever has a live slot, in the order of the slots."""
        keys = {key.public.raw: key for key in ARBITERS}
        return [keys[slot.arbiter] for slot in self.case.slots if slot.status != "declined"]

    @property
    def case(self) -> Dispute:
        case = self.world.books.case(self.dispute_id)
        assert case is not None
        return case

    @property
    def deal(self) -> Proposal:
        return self.world.books.deals[self.deal_id]

    # -- what they do ------------------------------------------------------------------------------

    def act(self, key: PrivateKey, kind: str, **fields: Any) -> list[Message]:
        """A signed step; what its sender got for it."""
        guest = self.guests[key]
        ref = fields.pop("ref", None)
        self.world.send(guest, kind, **signed_step(key, kind, **fields), **({"ref": ref} if ref else {}))
        return guest.read()

    def agree(self, stakes: tuple[int, int] = (0, 0), **fields: Any) -> str:
        offer = signed(ALICE, "PROPOSAL", to=self.bob.id, task="review", elo_stake=stakes[0], **fields)
        self.world.send(self.alice, "PROPOSAL", **offer)
        self.deal_id = next(message for message in self.alice.read() if message["type"] == "PROPOSAL")["id"]
        self.world.send(
            self.bob, "ACCEPT", **signed(BOB, "ACCEPT", proposal_id=self.deal_id, elo_stake=stakes[1])
        )
        self.world.hush()
        return self.deal_id

    def file(self, stakes: tuple[int, int] = (0, 0), **fields: Any) -> str:
        self.agree(stakes, **fields)
        (answer,) = self.act(
            ALICE,
            "DISPUTE_INTENT",
            proposal_id=self.deal_id,
            reason="nothing came",
            commitment=COMMITMENT,
        )
        assert answer["type"] == "DISPUTE_INTENT_ACK", answer
        self.dispute_id = answer["dispute_id"]
        self.world.hush()
        return self.dispute_id

    def reveal(self, stakes: tuple[int, int] = (0, 0), **fields: Any) -> None:
        self.file(stakes, **fields)
        self.act(ALICE, "DISPUTE_REVEAL", proposal_id=self.deal_id, nonce=NONCE)

    def seat(self, stakes: tuple[int, int] = (0, 0), **fields: Any) -> None:
        self.reveal(stakes, **fields)
        for key in self.panel:
            self.act(key, "ARBITER_ACCEPT", dispute_id=self.dispute_id)
        self.world.hush()

    def plead(self, stakes: tuple[int, int] = (0, 0), **fields: Any) -> None:
        self.seat(stakes, **fields)
        for key in (ALICE, BOB):
            self.act(key, "EVIDENCE", dispute_id=self.dispute_id, items=[ITEM], statement="see here")
        self.world.hush()

    def vote(self, key: PrivateKey, verdict: str, reasoning: str = "so I found") -> list[Message]:
        return self.act(key, "ARBITER_VOTE", dispute_id=self.dispute_id, verdict=verdict, reasoning=reasoning)

    def judge(self, *verdicts: str, stakes: tuple[int, int] = (0, 0), **fields: Any) -> None:
        """To the end; if there are fewer than three verdicts, time runs out."""
        self.plead(stakes, **fields)
        for key, verdict in zip(self.panel, verdicts, strict=False):
            self.world.hush()
            self.vote(key, verdict)
        if len(verdicts) < 3:
            self.world.hush()
            self.world.advance(self.world.settings.court_vote_period + 1)

    def file_of(self, key: PrivateKey = ALICE) -> Any:
        """The case as GET_CASE shows it."""
        guest = self.guests[key]
        guest.read()
        self.world.send(guest, "GET_CASE", dispute_id=self.dispute_id)
        return assert_sent(guest, "CASE")["case"]

    def report(self, key: PrivateKey = ALICE) -> Proof:
        return verify_case(self.file_of(key), [HALL_ID])


def kinds(messages: list[Message]) -> list[str]:
    return [message["type"] for message in messages]

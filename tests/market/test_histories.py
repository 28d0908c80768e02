"""Random histories: whatever agents try, in whatever order, the books stay right."""

from collections import Counter
from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import Refusal
from moothall.identity import PrivateKey
from moothall.market import escrow
from moothall.market.receipts import verify_receipt
from moothall.market.records import Book, Proposal, Standing, Status
from moothall.market.replay import ENDS, replay
from moothall.market.reputation import FLOOR
from moothall.market.rules import MarketRules
from moothall.market.statuses import TRANSITIONS, Event
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.market.support import REFERENCE, Market
from tests.support.seals import HALL_ID

pytestmark = pytest.mark.slow

agents = st.sampled_from((ALICE, BOB, CAROL))
pairs = st.permutations((ALICE, BOB, CAROL)).map(lambda agents: (agents[0], agents[1]))
stakes = st.none() | st.integers(0, 2500)
recent = st.integers(0, 3)  # how far back the deal is
offers = st.fixed_dictionaries(
    {},
    optional={
        "expires": st.sampled_from((30, 60, 7200)),
        "amount": st.sampled_from((1.5, 10**9)),
        "capability": st.just("review"),
    },
)
moments = st.sampled_from((0, 1, 30_000, 60_000, 3_600_000))


class History:
    def __init__(self, rules: MarketRules, imported: dict[PrivateKey, dict[str, int]]) -> None:
        self.market = Market(rules)
        self.imported = {agent.public.raw for agent in imported}
        for agent, fields in imported.items():
            self.market.rated(agent, **fields)

    # -- what happens ------------------------------------------------------------------------------------

    def propose(self, pair: tuple[PrivateKey, PrivateKey], stake: int | None, offer: dict[str, Any]) -> None:
        self.attempt(lambda: self.market.propose(*pair, elo_stake=stake, **offer))

    def strike(self, pair: tuple[PrivateKey, PrivateKey], share: int, offer: dict[str, Any]) -> None:
        """A deal offered and accepted, so that histories get to the interesting part: all that one has at
        stake, or half of it, or nothing."""
        own, other = (escrow.available(self.market.standing(agent)) * share // 2 for agent in pair)
        self.propose(pair, own, offer)
        self.accept(0, other)

    def accept(self, back: int, stake: int | None) -> None:
        deal = self.find(back)
        if deal is not None and self.attempt(
            lambda: self.market.accept(self.agent(deal.recipient), deal.id, elo_stake=stake)
        ):
            for key, staked in self.stakes_of(self.market.deal(deal.id)).items():
                standing = self.market.books.standing(key)
                assert not staked or standing.rating - standing.escrowed - FLOOR >= 0, (
                    "staked what it had not"
                )

    def end(self, back: int, proposer: bool, event: Event) -> None:
        deal = self.find(back, "accepted")
        if deal is not None:
            self.try_to(event, deal, self.agent(deal.proposer if proposer else deal.recipient))

    def act(self, back: int, agent: PrivateKey, event: Event) -> None:
        """Anybody tries anything."""
        deal = self.find(back)
        if deal is not None:
            self.try_to(event, deal, agent)

    def try_to(self, event: Event, deal: Proposal, agent: PrivateKey) -> None:
        if self.attempt(lambda: getattr(self.market, event)(agent, deal.id)):
            assert self.market.deal(deal.id).status == TRANSITIONS[deal.status, event]
            assert agent.public.raw in (deal.proposer, deal.recipient)
            assert deal.frozen_by is None

    def wait(self, moment: int) -> None:
        self.market.now += moment

    def expire(self) -> None:
        self.market.expire()
        assert self.market.books.due(self.market.now) == []

    def court(self, back: int, frozen: bool) -> None:
        deal = self.find(back)
        if deal is not None and deal.status == "accepted":
            self.market.freeze(deal.id, "disp_1" if frozen else None)

    def attempt(self, command: Callable[[], object]) -> bool:
        """Whether it worked; if not, nothing may have changed."""
        before = (len(self.market.books.audit), dict(self.market.books.stands), dict(self.market.books.deals))
        try:
            command()
        except Refusal:
            books = self.market.books
            assert before == (len(books.audit), books.stands, books.deals)
            return False
        return True

    def find(self, back: int, status: Status | None = None) -> Proposal | None:
        deals = self.market.books.deals.values()
        made = [deal for deal in deals if status is None or deal.status == status]
        return made[-1 - back] if back < len(made) else None

    @staticmethod
    def agent(key: bytes) -> PrivateKey:
        return next(agent for agent in (ALICE, BOB, CAROL) if agent.public.raw == key)

    @staticmethod
    def stakes_of(deal: Proposal) -> dict[bytes, int]:
        return {deal.proposer: deal.proposer_stake, deal.recipient: deal.acceptor_stake}

    # -- what must hold ----------------------------------------------------------------------------------

    def check(self) -> None:
        self.ledger_sums_to_zero()
        self.accounts_say_what_standings_say()
        self.floor_is_held_and_nobody_has_less_than_nothing_to_stake()
        self.nothing_comes_from_nowhere()
        self.no_deal_is_settled_twice()
        self.the_audit_trail_rebuilds_the_standings()
        self.the_latest_receipt_holds()
        self.ratings_over_time_end_at_the_rating()

    def ledger_sums_to_zero(self) -> None:
        for entry in self.market.books.entries.values():
            assert sum(posting.amount for posting in entry.postings) == 0
        for book in get_args(Book):
            assert sum(self.market.books.balances(book).values()) == 0

    def accounts_say_what_standings_say(self) -> None:
        balances = self.market.books.balances()
        open_stakes: Counter[bytes] = Counter()
        for deal in self.market.books.deals.values():
            held = self.stakes_of(deal) if escrow.is_open(deal) else {}
            open_stakes.update(held)
            assert balances.get(f"escrow:{deal.id}", 0) == sum(held.values())
        for key, standing in self.market.books.stands.items():
            assert standing.escrowed == open_stakes[key]
            assert standing.rating == balances[f"agent:{key.hex()}"] + standing.escrowed

    def floor_is_held_and_nobody_has_less_than_nothing_to_stake(self) -> None:
        for standing in self.market.books.stands.values():
            assert standing.rating >= FLOOR
            assert all(skill.rating >= FLOOR for skill in standing.skills.values())
            assert escrow.available(standing) >= 0
            assert standing.escrowed >= 0

    def nothing_comes_from_nowhere(self) -> None:
        balances = self.market.books.balances()
        assert balances.get("mint", 0) <= 0
        assert balances.get("floor", 0) <= 0
        assert balances.get("burn", 0) >= 0

    def no_deal_is_settled_twice(self) -> None:
        ends = Counter(row.deal for row in self.market.books.audit if row.operation in ENDS)
        assert all(times == 1 for times in ends.values())
        settlements = Counter(
            deal for _, deal, operation in self.market.books.entries if operation not in ("lock", "opening")
        )
        assert all(times == 1 for times in settlements.values())

    def the_audit_trail_rebuilds_the_standings(self) -> None:
        rebuilt = replay(self.market.books.audit)
        assert rebuilt.problems == []
        kept = self.market.books.stands
        assert set(rebuilt.standings) | self.imported == set(kept)
        for key, standing in rebuilt.standings.items():
            assert standing == kept[key]

    def the_latest_receipt_holds(self) -> None:
        for receipt in self.market.books.kept_receipts[-1:]:
            assert verify_receipt(receipt.body, [HALL_ID]).holds

    def ratings_over_time_end_at_the_rating(self) -> None:
        for key, standing in self.market.books.stands.items():
            latest = self.market.books.history(key, 1)
            assert not latest or latest[0][1] == standing.rating


def step(name: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    return st.tuples(st.just(name), st.fixed_dictionaries(arguments))


ends = step("end", back=recent, proposer=st.booleans(), event=st.sampled_from(("complete", "dispute")))
strikes = step("strike", pair=pairs, share=st.integers(0, 2), offer=offers)
steps = st.one_of(
    strikes,
    strikes,
    ends,
    ends,
    step("propose", pair=pairs, stake=stakes, offer=offers),
    step("accept", back=recent, stake=stakes),
    step(
        "act", back=recent, agent=agents, event=st.sampled_from(("accept", "reject", "complete", "dispute"))
    ),
    step("wait", moment=moments),
    step("expire"),
    step("court", back=recent, frozen=st.booleans()),
)
ratings = st.integers(FLOOR, 300) | st.integers(FLOOR, 2500)
imports = st.dictionaries(
    agents, st.fixed_dictionaries({"rating": ratings, "transactions": st.integers(0, 120)})
)


@pytest.mark.parametrize("rules", [MarketRules(), REFERENCE], ids=["seeds", "reference"])
@given(imported=imports, story=st.lists(steps, min_size=25, max_size=50))
def test_the_books_stay_right(
    rules: MarketRules, imported: dict[PrivateKey, dict[str, int]], story: list[tuple[str, dict[str, Any]]]
) -> None:
    history = History(rules, imported)
    for name, arguments in story:
        getattr(history, name)(**arguments)
        history.check()


def test_a_loss_can_reach_into_a_stake_but_not_below_the_floor() -> None:
    """The one way to owe more than one has: to lose rating elsewhere while a stake is open. The wire's formula
    (12.5) then says that nothing is available, and the floor pays what the loser cannot."""
    market = Market()
    market.rated(ALICE, rating=150, transactions=50)
    market.propose(ALICE, BOB, elo_stake=50)
    market.accept(BOB)
    market.propose(ALICE, CAROL)
    market.accept(CAROL, "prop_2")
    market.dispute(CAROL, "prop_2")
    assert market.standing(ALICE) == Standing(
        key=ALICE.public.raw, rating=149, transactions=51, escrowed=50, updated=market.now
    )
    assert escrow.available(market.standing(ALICE)) == 0
    market.dispute(BOB, "prop_1")
    assert market.rating(ALICE) == FLOOR
    assert market.books.balances()["floor"] == -(FLOOR - (149 - 50 - 1))
    assert sum(market.books.balances().values()) == 0

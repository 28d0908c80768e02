"""The budget of an address over several nodes: loads, portions, and what comes of them."""

from collections.abc import Sequence
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.budgets import Price
from moothall.hall.shared_budgets import CALMING, MOST_TOLD, OVERLOOKED, SharedAccounts, portion
from moothall.settings.limits import Rate

NOTHING: Final = Rate(0, 1)
RATE: Final = Rate(40, 0.2)  # 200 a second
RATES: Final = (RATE, NOTHING, NOTHING, NOTHING)
FRAME: Final = Price(frames=1)
FLOODER: Final = "192.0.2.1"
STEP: Final = 0.05  # seconds


class Nodes:
    """Several nodes, whose seconds begin at different moments. Reports arrive at once."""

    def __init__(self, phases: Sequence[float]) -> None:
        self.books = [SharedAccounts(RATES) for _ in phases]
        self.now = 0.0
        self._due = list(phases)
        self._last = [0.0] * len(phases)

    def advance(self) -> None:
        self.now += STEP
        for number, book in enumerate(self.books):
            if self.now >= self._due[number]:
                book.end_period(max(0.5, self.now - self._last[number]), len(self.books))
                self._last[number] = self.now
                self._due[number] += 1.0
                self._divide()

    def _divide(self) -> None:
        for book in self.books:
            others = [other.loads for other in self.books if other is not book]
            book.divide([FLOODER], others, len(self.books))

    def flood(self, book: SharedAccounts) -> int:
        """As many frames as the address can have at this moment."""
        taken = 0
        while not book.of(FLOODER, self.now).take(FRAME, self.now):
            taken += 1
        return taken


PHASES = st.lists(st.floats(0.0, 0.99), min_size=2, max_size=6)


@given(st.lists(st.floats(0, 3), min_size=2, max_size=8))
def test_portions_add_up_to_about_one_budget_and_none_is_less_than_an_equal_part(loads: list[float]) -> None:
    nodes, total = len(loads), sum(loads)
    portions = [portion(load, total - load, nodes) for load in loads]
    assert all(1 / nodes <= each <= 1 for each in portions)
    if total > 1:
        assert sum(portions) < 2


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8))
def test_an_address_within_one_budget_keeps_what_it_uses(loads: list[float]) -> None:
    total = sum(loads)
    if total <= 1:
        assert all(portion(load, total - load, len(loads)) >= load - 1e-9 for load in loads)


@given(PHASES, st.data())
def test_an_address_that_floods_nodes_gets_about_one_budget(phases: list[float], data: st.DataObject) -> None:
    nodes = Nodes(phases)
    flooded = data.draw(st.integers(1, len(phases)))
    taken: list[int] = []
    for _ in range(round(12 / STEP)):
        nodes.advance()
        taken.append(sum(nodes.flood(book) for book in nodes.books[:flooded]))
    settled = taken[round(4 / STEP) :]
    budget = 200 * STEP * len(settled)
    assert 0.8 * budget <= sum(settled) <= 1.5 * budget


@given(PHASES, st.integers(1, 4), st.integers(1, 8))
def test_floods_with_pauses_get_no_more(phases: list[float], on: int, off: int) -> None:
    nodes = Nodes(phases)
    taken: list[int] = []
    for _ in range(round(30 / STEP)):
        nodes.advance()
        is_on = nodes.now % (on + off) < on
        taken.append(sum(nodes.flood(book) for book in nodes.books) if is_on else 0)
    settled = taken[round(6 / STEP) :]
    assert sum(settled) <= 1.5 * 200 * STEP * len(settled)


def test_an_address_that_stops_has_its_whole_budget_again() -> None:
    nodes = Nodes([0.0, 0.3])
    for _ in range(round(5 / STEP)):
        nodes.advance()
        for book in nodes.books:
            nodes.flood(book)
    assert all(book.portions for book in nodes.books)
    for _ in range(round(8 / STEP)):
        nodes.advance()
    assert not any(book.portions or book.loads for book in nodes.books)


def test_an_address_that_moves_to_another_node_gets_its_budget_there() -> None:
    nodes = Nodes([0.0, 0.5])
    for place in (0, 1):
        for _ in range(round(8 / STEP)):
            nodes.advance()
            nodes.flood(nodes.books[place])
    before = nodes.now
    taken = 0
    while nodes.now < before + 2:
        nodes.advance()
        taken += nodes.flood(nodes.books[1])
    assert taken >= 0.95 * 400


def test_a_small_load_is_not_told() -> None:
    accounts = SharedAccounts(RATES)
    accounts.end_period(1.0, nodes=2)
    least = round(OVERLOOKED / 2 * 200)
    for frames, told in ((least - 1, []), (least, [FLOODER])):
        accounts.of(FLOODER, 0.0).charge(Price(frames=frames), 0.0)
        accounts.end_period(1.0, nodes=2)
        assert list(accounts.loads) == told


def test_a_load_is_that_of_the_part_that_is_spent_most() -> None:
    accounts = SharedAccounts((RATE, Rate(1000, 0.1), NOTHING, NOTHING))
    accounts.end_period(1.0, nodes=2)
    accounts.of(FLOODER, 0.0).charge(Price(frames=20, bytes=6000), 0.0)
    accounts.end_period(1.0, nodes=2)
    assert accounts.loads == {FLOODER: 0.6}
    accounts.end_period(1.0, nodes=2)
    assert accounts.loads == {FLOODER: 0.6 * CALMING}


def test_only_the_highest_loads_are_told() -> None:
    accounts = SharedAccounts(RATES)
    accounts.end_period(1.0, nodes=2)
    for number in range(MOST_TOLD + 100):
        accounts.of(f"address {number}", 0.0).charge(Price(frames=200 + number), 0.0)
    accounts.end_period(1.0, nodes=2)
    assert accounts.loads.keys() == {f"address {number}" for number in range(100, MOST_TOLD + 100)}


def test_a_portion_makes_prices_dearer_and_holds_for_an_account_that_is_made_later() -> None:
    accounts = SharedAccounts(RATES)
    accounts.divide([FLOODER], [{FLOODER: 1.0}], nodes=4)
    assert accounts.portions == {FLOODER: 0.25}
    account = accounts.of(FLOODER, 0.0)
    assert account.refill_time(FRAME) == 4 * 0.2 / 40
    taken = 0
    while not account.take(FRAME, 0.0):
        taken += 1
    assert taken == 10
    accounts.divide([FLOODER], [{}], nodes=4)
    assert account.refill_time(FRAME) == 0.2 / 40


def test_what_was_spent_in_this_second_is_not_forgotten_with_a_quiet_account() -> None:
    accounts = SharedAccounts(RATES)
    accounts.end_period(1.0, nodes=2)
    accounts.of(FLOODER, 0.0).charge(Price(frames=20), 0.0)
    for number in range(2000):
        accounts.of(f"address {number}", 1.0).charge(FRAME, 1.0)
    accounts.of(FLOODER, 1.0).charge(Price(frames=80), 1.0)
    accounts.end_period(1.0, nodes=2)
    assert accounts.loads == {FLOODER: 0.5}

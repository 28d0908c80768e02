"""Credits: each operation, each reason for which one is refused, and no credit lost in any order of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from moothall.errors import CreditsRefused, NoCover
from moothall.market import credits, ledger
from moothall.market.credits import MAX_AMOUNT, Authority, Escrow, Posted
from moothall.market.records import Entry

A, B, N, STRANGER = (letter * 32 for letter in (b"A", b"B", b"N", b"S"))
TALK: Final = b"conversation-id!"
ENVELOPE: Final = Authority(b"h" * 32, A, 7)
HOUR: Final = 3_600_000

amounts = st.integers(1, 10**12)


def lock(amount: int = 1000, **others: Any) -> Posted:
    chosen = {"balance": MAX_AMOUNT, "now": 5, "authority": ENVELOPE, "timeout": HOUR, **others}
    return credits.lock(TALK, A, B, amount, **chosen)


def approve(escrow: Escrow, by: bytes = A, now: int = 6) -> Posted:
    return credits.approve(escrow, by=by, now=now, authority=ENVELOPE)


def claim(
    escrow: Escrow, by: bytes = B, now: int = 5 + HOUR, delivered: bool = True, rejected: bool = False
) -> Posted:
    return credits.claim(escrow, by=by, now=now, authority=ENVELOPE, delivered=delivered, rejected=rejected)


def cancel(escrow: Escrow, by: bytes = A, now: int = 6, **others: bool) -> Posted:
    facts = {"delivered": False, "rejected": False, "consented": False, **others}
    return credits.cancel(escrow, by=by, now=now, authority=ENVELOPE, **facts)


def moved(posted: Posted) -> dict[str, int]:
    assert posted.entry is not None
    assert posted.entry.book == "credits"
    assert posted.entry.deal == f"mesh:{TALK.hex()}"
    return {posting.account: posting.amount for posting in posted.entry.postings}


@contextmanager
def refused(reason: str) -> Iterator[None]:
    with pytest.raises(CreditsRefused) as caught:
        yield
    assert caught.value.reason == reason


def agent(key: bytes) -> str:
    return f"agent:{key.hex()}"


ACCOUNT: Final = f"escrow:{A.hex()}:{B.hex()}:{TALK.hex()}"


def test_a_conversation_has_one_name_in_the_ledger() -> None:
    talk = bytes(range(16))
    name = credits.deal_name(talk)
    assert credits.conversation_named(name) == talk
    for other in ("prop_1", "mesh:", name[:-1], f"{name}0", name.upper(), name.replace(":", "")):
        assert credits.conversation_named(other) is None


# -- lock_payment ----------------------------------------------------------------------------------------


@given(amounts, st.booleans())
def test_a_lock_moves_the_amount_and_the_fee_of_a_notary(amount: int, with_notary: bool) -> None:
    posted = lock(amount, notary=N if with_notary else None)
    fee = amount // 10 if with_notary else 0
    assert moved(posted) == {agent(A): -amount - fee, ACCOUNT: amount + fee}
    assert posted.escrow.notary_fee == fee
    assert posted.authority == ENVELOPE
    assert posted.entry is not None
    assert (posted.entry.operation, posted.entry.at) == ("lock", 5)


def test_a_timeout_of_zero_is_the_default_one() -> None:
    assert lock(timeout=0).escrow.ends_at == 5 + 604_800_000


def test_a_lock_of_nothing_is_refused() -> None:
    with refused("ZeroAmount"):
        lock(0)
    with refused("ZeroAmount"):
        lock(-1)


def test_a_fee_needs_a_notary() -> None:
    with refused("NotaryFeeWithoutNotary"):
        lock(notary_fee=1)
    assert lock(notary_fee=0).escrow.notary_fee == 0


def test_a_sum_that_no_store_holds_is_refused() -> None:
    assert lock(MAX_AMOUNT).escrow.total == MAX_AMOUNT
    with refused("AmountOverflow"):
        lock(MAX_AMOUNT, notary=N, notary_fee=1)
    with refused("AmountOverflow"):
        lock(notary=N, notary_fee=-1)


def test_a_lock_needs_cover_for_amount_and_fee() -> None:
    assert lock(1000, notary=N, balance=1100).escrow.total == 1100
    with pytest.raises(NoCover) as caught:
        lock(1000, notary=N, balance=1099)
    assert "and has fewer" in str(caught.value)  # the provider may be told: not how much it has
    assert caught.value.reason == "NoCover"


def test_a_lock_stands_on_an_envelope_of_the_requester() -> None:
    with refused("Unauthorized"):
        lock(authority=Authority(b"h" * 32, B, 7))


def test_a_repeated_lock_moves_nothing() -> None:
    first = lock(notary=N)
    again = lock(notary=None, held=first.escrow, balance=0, now=9)
    assert again.entry is None
    assert again.escrow == first.escrow


@given(amounts, st.lists(amounts, max_size=5))
def test_another_amount_adjusts_the_escrow(first: int, others: list[int]) -> None:
    """After a DISPUTE. The fee and the timeout stay as they were."""
    posted = lock(first, notary=N)
    entries = [posted.entry]
    for now, amount in enumerate(others, 6):
        posted = lock(amount, held=posted.escrow, now=now)
        entries.append(posted.entry)
    happened = [entry for entry in entries if entry is not None]
    assert len({entry.operation for entry in happened}) == len(happened)
    last = others[-1] if others else first
    assert posted.escrow.amount == last
    assert (posted.escrow.notary_fee, posted.escrow.created_at) == (first // 10, 5)
    assert ledger.balances(happened, "credits") == {
        agent(A): -last - first // 10,
        ACCOUNT: last + first // 10,
    }


def test_an_adjustment_needs_cover_for_what_is_added() -> None:
    held = lock(1000).escrow
    assert lock(1500, held=held, balance=500).escrow.amount == 1500
    with pytest.raises(NoCover):
        lock(1500, held=held, balance=499)
    assert moved(lock(400, held=held, balance=0)) == {agent(A): 600, ACCOUNT: -600}


def test_a_settled_escrow_is_never_locked_again() -> None:
    with refused("AlreadySettled"):
        lock(held=cancel(lock().escrow).escrow)


def test_a_notary_that_is_named_late_gets_no_fee() -> None:
    escrow = credits.appoint(lock().escrow, N)
    assert (escrow.notary, escrow.notary_fee) == (N, 0)
    assert moved(approve(escrow, by=N)) == {agent(B): 995, "treasury": 5, ACCOUNT: -1000}
    with refused("Unauthorized"):
        credits.appoint(escrow, STRANGER)
    with refused("AlreadySettled"):
        credits.appoint(approve(lock().escrow).escrow, N)


# -- approve_payment -------------------------------------------------------------------------------------


@given(amounts)
def test_an_approval_pays_provider_treasury_and_notary(amount: int) -> None:
    posted = approve(lock(amount, notary=N).escrow, by=N)
    fee = amount * 50 // 10000
    expected = {
        agent(B): amount - fee,
        "treasury": fee,
        agent(N): amount // 10,
        ACCOUNT: -amount - amount // 10,
    }
    assert moved(posted) == {account: sum_ for account, sum_ in expected.items() if sum_}
    assert (posted.escrow.settled, posted.escrow.settled_at) == ("approve", 6)


@pytest.mark.parametrize("by", [B, STRANGER])
def test_no_other_agent_approves(by: bytes) -> None:
    with refused("Unauthorized"):
        approve(lock(notary=N).escrow, by=by)
    with refused("Unauthorized"):
        approve(lock().escrow, by=by)


# -- claim_timeout ---------------------------------------------------------------------------------------


def test_a_claim_pays_the_provider_the_notarys_fee_too() -> None:
    assert moved(claim(lock(1000, notary=N).escrow)) == {agent(B): 1095, "treasury": 5, ACCOUNT: -1100}


def test_a_claim_waits_for_the_timeout() -> None:
    with refused("TimeoutNotReached"):
        claim(lock().escrow, now=4 + HOUR)


@pytest.mark.parametrize("by", [A, N, STRANGER])
def test_no_other_agent_claims(by: bytes) -> None:
    with refused("Unauthorized"):
        claim(lock(notary=N).escrow, by=by)


def test_a_rejecting_verdict_blocks_the_claim() -> None:
    with refused("Unauthorized"):
        claim(lock(notary=N).escrow, rejected=True)


def test_a_claim_needs_a_delivery() -> None:
    with refused("Unauthorized"):
        claim(lock().escrow, delivered=False)


# -- cancel_escrow ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rejected", [False, True])
@pytest.mark.parametrize("now", [6, 5 + HOUR])
def test_a_cancel_returns_everything_where_the_provider_cannot_claim(now: int, rejected: bool) -> None:
    posted = cancel(lock(1000, notary=N).escrow, now=now, delivered=rejected, rejected=rejected)
    assert moved(posted) == {agent(A): 1100, ACCOUNT: -1100}


def test_a_cancel_after_the_delivery_needs_consent_and_comes_before_the_timeout() -> None:
    escrow = lock().escrow
    with refused("Unauthorized"):
        cancel(escrow, delivered=True)
    assert cancel(escrow, delivered=True, consented=True, now=4 + HOUR).entry is not None
    with refused("TimeoutAlreadyReached"):
        cancel(escrow, delivered=True, consented=True, now=5 + HOUR)


@pytest.mark.parametrize("by", [B, N, STRANGER])
def test_no_other_agent_cancels(by: bytes) -> None:
    with refused("Unauthorized"):
        cancel(lock(notary=N).escrow, by=by)


# -- exactly one settlement ------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [approve, claim, cancel])
@pytest.mark.parametrize("second", [approve, claim, cancel])
def test_an_escrow_is_settled_once(first: Any, second: Any) -> None:
    settled = first(lock(notary=N).escrow)
    if first is second:
        again = second(settled.escrow)
        assert (again.escrow, again.entry) == (settled.escrow, None)
    else:
        with refused("AlreadySettled"):
            second(settled.escrow)


@given(amounts, st.booleans(), st.integers(0, 3 * HOUR), st.booleans(), st.booleans(), st.booleans())
def test_after_the_timeout_exactly_one_side_can_settle_alone(
    amount: int, with_notary: bool, now: int, delivered: bool, rejected: bool, consented: bool
) -> None:
    """So credits never stay locked, and the two never race for them."""
    escrow = lock(amount, notary=N if with_notary else None).escrow
    possible = 0
    settlements: tuple[Callable[[], Posted], ...] = (
        lambda: claim(escrow, now=now, delivered=delivered, rejected=rejected),
        lambda: cancel(escrow, now=now, delivered=delivered, rejected=rejected, consented=consented),
    )
    for settle in settlements:
        try:
            posted = settle()
        except CreditsRefused:
            continue
        possible += 1
        assert moved(posted)[ACCOUNT] == -escrow.total
    assert possible <= 1
    if now >= escrow.ends_at:
        assert possible == 1


# -- deposits and withdrawals ----------------------------------------------------------------------------


def deposit(amount: int = 500, reference: str = "bill 1", **others: Any) -> Entry:
    return credits.deposit(A, amount, reference, **{"external": 0, "now": 3, **others})


def withdraw(amount: int = 500, reference: str = "bill 1", **others: Any) -> Entry:
    return credits.withdraw(A, amount, reference, **{"balance": 500, "now": 3, **others})


def test_credits_come_from_outside_and_go_there() -> None:
    entries = [deposit(), withdraw(200)]
    assert ledger.balances(entries, "credits") == {agent(A): 300, "external": -300}


def test_a_reference_counts_once_per_operation() -> None:
    first = deposit()
    assert deposit(posted=first, now=9, external=-MAX_AMOUNT) is first
    with refused("ReferenceUsed"):
        deposit(501, posted=first)
    taken = withdraw()
    assert withdraw(posted=taken, balance=0) is taken


@pytest.mark.parametrize("reference", ["", "x" * 129, "tab\t", "caf\xe9"])
def test_a_reference_is_short_and_plain(reference: str) -> None:
    with refused("InvalidReference"):
        deposit(reference=reference)


@pytest.mark.parametrize("operation", [deposit, withdraw])
def test_an_amount_is_more_than_nothing_and_no_more_than_a_store_holds(operation: Any) -> None:
    with refused("ZeroAmount"):
        operation(0)
    with refused("AmountOverflow"):
        operation(MAX_AMOUNT + 1)


def test_no_more_is_issued_than_an_account_can_hold() -> None:
    assert deposit(1, external=1 - MAX_AMOUNT).operation == "deposit"
    with refused("AmountOverflow"):
        deposit(1, external=-MAX_AMOUNT)


def test_no_more_is_withdrawn_than_there_is() -> None:
    with pytest.raises(NoCover):
        withdraw(501)


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0"), (1, "0.000001"), (1_500_000, "1.5"), (-2_000_000, "-2"), (-1, "-0.000001")],
)
def test_amounts_are_shown_as_credits(amount: int, text: str) -> None:
    assert credits.shown(amount) == text


# -- any order of operations -----------------------------------------------------------------------------


class Operations(RuleBasedStateMachine):
    """Any agent tries any operation at any time, again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.escrow: Escrow | None = None
        self.delivered = self.rejected = False
        self.entries: list[Entry] = [credits.deposit(A, 10_000, "start", external=0, now=0)]

    def balance(self, account: str) -> int:
        return ledger.balances(self.entries, "credits").get(account, 0)

    def post(self, posted: Posted) -> None:
        if posted.entry is None:
            assert posted.escrow == self.escrow
        else:
            self.entries.append(posted.entry)
        self.escrow = posted.escrow

    @rule(passed=st.integers(0, HOUR))
    def wait(self, passed: int) -> None:
        self.now += passed

    @rule(delivered=st.booleans(), rejected=st.booleans())
    def work(self, delivered: bool, rejected: bool) -> None:
        self.delivered, self.rejected = delivered, delivered and rejected

    @rule(amount=st.integers(-1, 20_000), notary=st.sampled_from((None, N)))
    def lock(self, amount: int, notary: bytes | None) -> None:
        before = self.balance(agent(A))
        try:
            self.post(lock(amount, balance=before, now=self.now, notary=notary, held=self.escrow))
        except CreditsRefused:
            assert self.balance(agent(A)) == before

    @precondition(lambda self: self.escrow is not None)
    @rule(
        which=st.sampled_from((approve, claim, cancel)),
        by=st.sampled_from((A, B, N)),
        consented=st.booleans(),
    )
    def settle(self, which: Any, by: bytes, consented: bool) -> None:
        assert self.escrow is not None
        facts: dict[str, Any] = {}
        if which is not approve:
            facts = {"delivered": self.delivered, "rejected": self.rejected}
        if which is cancel:
            facts["consented"] = consented
        with suppress(CreditsRefused):
            self.post(which(self.escrow, by=by, now=self.now, **facts))

    @invariant()
    def nothing_is_lost(self) -> None:
        balances = ledger.balances(self.entries, "credits")
        assert sum(balances.values()) == 0
        assert balances["external"] == -10_000
        assert all(amount >= 0 for account, amount in balances.items() if account != "external")
        operations = [entry.operation for entry in self.entries]
        assert len(operations) == len(set(operations))
        assert sum(operation in ("approve", "claim", "cancel") for operation in operations) <= 1
        if self.escrow is not None:
            held = 0 if self.escrow.settled else self.escrow.total
            assert balances.get(self.escrow.account, 0) == held


TestOperations = Operations.TestCase

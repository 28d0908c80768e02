"""The check of credits: each kind of damage is done, and must be named."""

import pytest

from tests.store.support import NOW_MS, Place
from tests.store.test_checks import Damage, changed, edited, executed
from tests.store.test_credits import AT_A, TALK, approve, converse, credit_problems, deposit, lock

OTHER = bytes([7]) * 16
DEAL = f"mesh:{TALK.hex()}"
OPEN = f"mesh:{OTHER.hex()}"

DAMAGES: dict[str, tuple[Damage, str]] = {
    "an amount": (
        changed("postings", "UPDATE postings SET amount = amount + 1 WHERE account = 'treasury'"),
        f"ledger: approve of {DEAL} sums to 1, not to zero (book credits)",
    ),
    "a balance given": (
        executed(f"UPDATE balances SET amount = amount + 1 WHERE account = '{AT_A}'"),  # noqa: S608
        f"credits: {AT_A} holds 2801, and the journal says 2800",
    ),
    "a balance gone": (
        executed("DELETE FROM balances WHERE account = 'treasury'"),
        "credits: treasury holds 0, and the journal says 5",
    ),
    "an account overdrawn": (
        executed("UPDATE balances SET amount = -1 WHERE account = 'treasury'"),
        "credits: treasury is below zero (-1)",
    ),
    "an escrow settled twice": (
        executed(f"INSERT INTO postings VALUES ('credits', '{DEAL}', 'cancel', 'treasury', 0, 0)"),  # noqa: S608
        f"credits: {DEAL} was settled 2 times",
    ),
    "an authority gone": (
        changed("authorisations", "DELETE FROM authorisations WHERE operation = 'approve'"),
        f"credits: no envelope authorised approve of {DEAL}",
    ),
    "an authority for nothing": (
        executed(
            f"INSERT INTO authorisations SELECT '{DEAL}', 'x', envelope, sender, nonce"  # noqa: S608
            " FROM authorisations WHERE operation = 'approve'"
        ),
        f"credits: an envelope authorised x of {DEAL}, and the journal does not have it",
    ),
    "an escrow reopened": (
        executed("UPDATE escrows SET is_open = 1"),
        f"credits: {DEAL}: the columns do not say what the record says",
    ),
    "an escrow emptied": (
        edited("escrows", "is_open = 1", b'"amount":1000', b'"amount":0'),
        f"credits: the escrow of {OPEN} holds 1100, and should hold 100",
    ),
    "an escrow gone": (
        executed("DELETE FROM escrows WHERE is_open = 1"),
        "and there is no escrow of it",
    ),
}


def some_deals(place: Place) -> None:
    converse(place, TALK, OTHER)
    with place.books() as books:
        deposit(5000)(books)
        lock(1000)(books)
        approve(books)
        lock(1000, OTHER, NOW_MS + 5)(books)


def test_credits_that_were_only_used_have_no_problems(place: Place) -> None:
    some_deals(place)
    assert credit_problems(place) == []


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named(place: Place, name: str) -> None:
    damage, complaint = DAMAGES[name]
    some_deals(place)
    with place.connected() as connection:
        damage(connection)
    assert any(complaint in problem for problem in credit_problems(place)), credit_problems(place)

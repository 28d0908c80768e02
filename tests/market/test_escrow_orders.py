"""Orders about payments, as units of work on the real store."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moothall.errors import CreditsRefused
from moothall.market import escrow_orders
from moothall.market.conversing import MeshRules
from moothall.market.credits import Escrow
from moothall.store.files import DataDirectory
from tests.store.support import Place
from tests.support.talks import CREDIT, TALK, A, B, N, Talks

RULES = MeshRules(approval="manual", cover="optional")


@pytest.fixture
def talks(tmp_path: Path) -> Iterator[Talks]:
    place = Place(DataDirectory(tmp_path / "data"), "")
    talks = Talks(place, RULES)
    yield talks
    talks.close()
    assert place.problems() == []


def put_aside(talks: Talks, amount: int = CREDIT, *, by: bytes = A, notary: bytes | None = None) -> Escrow:
    return talks.unit(
        lambda books: escrow_orders.put_aside(books, TALK, by, B, amount, now=talks.now, notary=notary)
    )


def payable(talks: Talks, by: bytes = A) -> Escrow:
    return talks.unit(lambda books: escrow_orders.payable(books, TALK, A, B, by))


def refusal(order: Callable[[], object]) -> str | None:
    with pytest.raises(CreditsRefused) as refused:
        order()
    return refused.value.reason


def test_credits_that_came_after_the_accept(talks: Talks) -> None:
    talks.commit()
    assert refusal(lambda: put_aside(talks)) == "NoCover"
    talks.deposit(A, CREDIT)
    escrow = put_aside(talks)
    assert (escrow.amount, talks.balance(A)) == (CREDIT, 0)
    assert put_aside(talks) == escrow  # a repeated order changes nothing
    assert refusal(lambda: payable(talks)) == "Unauthorized"  # nothing was delivered
    talks.say("DELIVER", B, A)
    assert payable(talks) == escrow
    assert refusal(lambda: payable(talks, B)) == "Unauthorized"
    assert refusal(lambda: payable(talks, N)) == "Unauthorized"


def test_an_order_needs_an_agreement(talks: Talks) -> None:
    talks.deposit(A, 2 * CREDIT)
    assert refusal(lambda: put_aside(talks)) == "Unauthorized"  # there is no conversation
    talks.propose()
    assert refusal(lambda: put_aside(talks)) == "Unauthorized"  # nor an ACCEPT
    assert refusal(lambda: put_aside(talks, 0)) == "ZeroAmount"
    assert refusal(lambda: put_aside(talks, by=B)) == "Unauthorized"
    assert refusal(lambda: payable(talks)) == "Unauthorized"


def test_only_the_amount_that_was_agreed_on(talks: Talks) -> None:
    talks.commit()
    talks.deposit(A, 2 * CREDIT)
    for amount in (CREDIT - 1, CREDIT + 1):
        with pytest.raises(CreditsRefused, match=f"agreed on {CREDIT}"):
            put_aside(talks, amount)
    assert refusal(lambda: put_aside(talks, notary=N)) == "Unauthorized"
    put_aside(talks)
    with pytest.raises(CreditsRefused, match="put aside already"):
        put_aside(talks, CREDIT + 1)

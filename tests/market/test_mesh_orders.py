"""Orders of the parties: the audit trail keeps what was signed, and the posting names its hash."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from moothall.errors import OutOfOrder
from moothall.hall.mesh.frames import Cancel, Consent
from moothall.market import mesh_orders
from moothall.market.conversing import Dealt
from moothall.store.files import DataDirectory
from moothall.wire.mesh.keccak import keccak256
from tests.store.support import Place
from tests.support.talks import CREDIT, TALK, A, B, Talks

CANCEL, CONSENT = (
    order(conversation_id=TALK.hex(), nonce=7, timestamp=8, signature="ab" * 64)
    for order in (Cancel, Consent)
)


@pytest.fixture
def talks(tmp_path: Path) -> Iterator[Talks]:
    place = Place(DataDirectory(tmp_path / "data"), "")
    talks = Talks(place)
    talks.deposit(A, CREDIT)
    yield talks
    talks.close()
    assert place.problems() == []


def carry_out(talks: Talks, key: bytes, order: Cancel | Consent) -> Dealt:
    return talks.unit(lambda books: mesh_orders.carry_out(books, key, order, order.text("hall"), talks.now))


def orders(talks: Talks) -> list[tuple[str, bytes, dict[str, str]]]:
    rows = talks.select(
        "SELECT operation, actor, data FROM audit WHERE operation LIKE 'mesh_%' ORDER BY number"
    )
    return [(operation, actor, json.loads(data)["message"]) for operation, actor, data in rows]


def test_a_cancel_after_consent_gives_the_credits_back_and_both_orders_are_kept(talks: Talks) -> None:
    talks.deliver()
    assert not carry_out(talks, B, CONSENT).changed
    assert carry_out(talks, A, CANCEL).conversation.state == "CLOSED"
    assert talks.balance(A) == CREDIT
    assert orders(talks) == [
        (f"mesh_{order.word}", key, {"order": order.text("hall").decode(), "sig": "ab" * 64})
        for order, key in ((CONSENT, B), (CANCEL, A))
    ]
    rows = talks.select("SELECT envelope, sender, nonce FROM authorisations WHERE operation LIKE '%cancel%'")
    assert rows == [(keccak256(CANCEL.text("hall")), A, "7")]


@pytest.mark.parametrize(("key", "order"), [(B, CANCEL), (A, CONSENT), (A, CANCEL)])
def test_an_order_that_is_not_allowed_leaves_nothing(
    talks: Talks, key: bytes, order: Cancel | Consent
) -> None:
    talks.deliver()
    before = talks.facts()
    with pytest.raises(OutOfOrder):
        carry_out(talks, key, order)
    assert talks.facts() == before

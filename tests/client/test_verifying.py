"""What programs get when they check a receipt or a case."""

import msgspec
import pytest

from moothall import Proof, verify_case, verify_receipt
from moothall.errors import InvalidKey
from moothall.known_halls import KnownHalls
from tests.court.support import Courtroom
from tests.identity.vectors import ALICE, BOB
from tests.market.support import Market
from tests.support.seals import HALL, HALL_ID


def test_a_receipt() -> None:
    market = Market()
    market.propose(ALICE, BOB)
    market.accept(BOB)
    market.complete(BOB)
    body = market.books.kept_receipts[0].body
    for hall in (HALL.public, HALL.public.pem, HALL_ID):
        proof = verify_receipt(body, hall)
        assert isinstance(proof, Proof)
        assert (proof.holds, proof.problems, proof.hall) == (True, [], HALL.public)
        assert (len(proof.proven), len(proof.hall_word)) == (3, 2)
    assert not verify_receipt(body, ALICE.public).holds
    assert not verify_receipt(body).holds
    KnownHalls().pin("hall.example.org:443", HALL.public.raw.hex())
    assert verify_receipt(body).holds
    with pytest.raises(InvalidKey):
        verify_receipt(body, "a hall")


def test_a_case() -> None:
    court = Courtroom()
    court.judge("disputant", "disputant", "mutual")
    case = msgspec.json.decode(msgspec.json.encode(court.file_of()))
    assert verify_case(case, HALL.public).holds
    assert not verify_case(case, ALICE.public).holds
    assert not verify_case(case).holds
    KnownHalls().pin("hall.example.org:443", HALL.public.raw.hex())
    assert verify_case(case).holds

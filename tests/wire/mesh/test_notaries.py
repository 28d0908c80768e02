"""NOTARIZE_BID, NOTARIZE_ASSIGN and VERDICT: fixed fields, and what is too short or of another kind."""

import pytest

from moothall.wire.mesh.faults import PayloadParseError
from moothall.wire.mesh.notaries import BidType, Judgement, NotarizeAssign, NotarizeBid, Verdict

TALK, NOTARY, A, B = bytes(range(16)), b"n" * 32, b"a" * 32, b"b" * 32


@pytest.mark.parametrize(("byte", "kind"), [(0, BidType.REQUEST), (1, BidType.OFFER)])
def test_a_bid_asks_or_offers(byte: int, kind: BidType) -> None:
    assert NotarizeBid.decode(bytes((byte,)) + TALK + b"terms") == NotarizeBid(kind, TALK, b"terms")


@pytest.mark.parametrize("payload", [b"", b"\x02" + TALK, b"\xff" + TALK, b"\x00" + TALK[1:]])
def test_other_bids_do_not_parse(payload: bytes) -> None:
    with pytest.raises(PayloadParseError):
        NotarizeBid.decode(payload)


def test_an_assignment_names_the_notary() -> None:
    assert NotarizeAssign.decode(NOTARY + b"note") == NotarizeAssign(NOTARY, b"note")
    with pytest.raises(PayloadParseError):
        NotarizeAssign.decode(NOTARY[1:])


@pytest.mark.parametrize(("byte", "judgement"), [(0, Judgement.APPROVE), (1, Judgement.REJECT)])
def test_a_verdict_approves_or_rejects(byte: int, judgement: Judgement) -> None:
    found = Verdict.decode(bytes((byte,)) + A + B + b"why")
    assert found == Verdict(judgement, A, B, b"why")


@pytest.mark.parametrize("payload", [b"", b"\x02" + A + B, b"\x00" + A + B[1:]])
def test_other_verdicts_do_not_parse(payload: bytes) -> None:
    with pytest.raises(PayloadParseError):
        Verdict.decode(payload)

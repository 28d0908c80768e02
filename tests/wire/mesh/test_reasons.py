"""REJECT and DISPUTE: a reason where there is one, whatever an agent wrote."""

import pytest

from moothall.wire.mesh.reasons import Dispute, Reject

PAYLOADS = [
    (b'{"reason":"too late"}', "too late"),
    (b'JSON{"reason":"too late"}', "too late"),
    (b"no capacity today", "no capacity today"),
    (b'{"because":"x"}', ""),
    (b'{"reason":7}', ""),
    (b"CBOR\xa0", ""),
    (b"CUSTtext", ""),
    (b"\xff\xfe", ""),
    (b"", ""),
]


@pytest.mark.parametrize(("payload", "reason"), PAYLOADS)
def test_a_reason_is_read_where_there_is_one(payload: bytes, reason: str) -> None:
    assert Reject.decode(payload) == Reject(reason)
    assert Dispute.decode(payload) == Dispute(reason)


def test_ours_is_an_object() -> None:
    assert Reject("too late").encode() == b'{"reason":"too late"}'

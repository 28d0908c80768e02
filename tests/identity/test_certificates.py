import copy
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import InvalidCertificate
from moothall.identity import (
    PrivateKey,
    PublicKey,
    revoke,
    rotate,
    verify_chain,
    verify_revocation,
    verify_rotation,
)
from moothall.identity.certificates import MAX_ROTATIONS, MAX_TEXT, timestamp_text
from tests.identity.vectors import ALICE, BOB, CAROL, DAVE, NOW_MS, VECTORS

RECORD: dict[str, Any] = VECTORS["key_rotation"]["record"]
NOTICE: dict[str, Any] = VECTORS["key_revocation"]["notice"]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def chain(*keys: PrivateKey) -> list[dict[str, Any]]:
    return [
        dict(rotate(old, new.public, now_ms=NOW_MS + number))
        for number, (old, new) in enumerate(pairwise(keys))
    ]


def fault(records: list[Any], current: PublicKey) -> str:
    with pytest.raises(InvalidCertificate) as caught:
        verify_chain(records, current)
    return str(caught.value)


# rotation


def test_rotation_vector_byte_for_byte() -> None:
    record = rotate(ALICE, CAROL.public, now_ms=NOW_MS)
    assert json.dumps(record) == json.dumps(RECORD)
    assert ALICE.public.verifies(VECTORS["key_rotation"]["signing_text"], record["signature"])
    assert verify_rotation(RECORD) == (ALICE.public, CAROL.public)


def test_a_chain_leads_back_to_its_first_key() -> None:
    assert verify_chain(chain(ALICE, BOB, CAROL, DAVE), DAVE.public) == ALICE.public


def test_an_identity_never_rotated_is_its_own_first_key() -> None:
    assert verify_chain([], ALICE.public) == ALICE.public


def test_a_chain_ends_in_the_current_key() -> None:
    message = fault(chain(ALICE, BOB, CAROL), DAVE.public)
    assert message.startswith("rotation 2 of 2: new_pubkey")
    assert DAVE.public.fingerprint in message


def test_a_chain_has_no_gap() -> None:
    records = chain(ALICE, BOB) + chain(CAROL, DAVE)
    assert fault(records, DAVE.public).startswith("rotation 1 of 2: new_pubkey")


def test_a_chain_is_in_order() -> None:
    assert "rotation" in fault(chain(ALICE, BOB, CAROL)[::-1], CAROL.public)


@pytest.mark.parametrize("broken", [1, 2, 3])
def test_the_link_with_a_bad_signature_is_named(broken: int) -> None:
    records = chain(ALICE, BOB, CAROL, DAVE)
    records[broken - 1]["timestamp"] = "2020-01-01T00:00:00.000Z"
    assert fault(records, DAVE.public) == f"rotation {broken} of 3: the signature is not by old_pubkey"


def test_a_rotation_signed_by_the_new_key_does_not_hold() -> None:
    record = chain(ALICE, BOB)[0]
    record["signature"] = BOB.sign(VECTORS["key_rotation"]["signing_text"])
    assert "signature" in fault([record], BOB.public)


@pytest.mark.parametrize("field", list(RECORD))
@pytest.mark.parametrize("value", [None, 7, True, ["x"], {}])
def test_a_rotation_field_of_the_wrong_type_is_named(field: str, value: object) -> None:
    assert fault([RECORD | {field: value}], CAROL.public) == f"rotation 1 of 1: {field} is not a text"


@pytest.mark.parametrize("field", list(RECORD))
def test_a_missing_rotation_field_is_named(field: str) -> None:
    record = {name: value for name, value in RECORD.items() if name != field}
    assert fault([record], CAROL.public) == f"rotation 1 of 1: {field} is missing"


@pytest.mark.parametrize("field", ["old_agent_id", "new_agent_id"])
def test_an_id_that_is_not_its_keys_is_named_although_it_is_not_signed(field: str) -> None:
    assert field in fault([RECORD | {field: BOB.public.fingerprint}], CAROL.public)


@pytest.mark.parametrize("field", ["old_pubkey", "new_pubkey"])
def test_a_text_that_is_no_key_is_named(field: str) -> None:
    assert f"{field}: not a public key" in fault([RECORD | {field: "x"}], CAROL.public)


def test_a_private_key_in_a_record_is_refused_and_not_repeated() -> None:
    message = fault([RECORD | {"old_pubkey": ALICE.to_pem()}], CAROL.public)
    assert "private key" in message
    assert ALICE.to_pem().splitlines()[1] not in message


def test_a_record_of_the_reference_keeps_its_own_spelling_and_id() -> None:
    variant = VECTORS["pem_text_variants"]["variants"][1]
    text = json.dumps(
        {"old_pubkey": variant["pem"], "new_pubkey": CAROL.public.pem, "timestamp": RECORD["timestamp"]},
        separators=(",", ":"),
    )
    record = RECORD | {
        "old_pubkey": variant["pem"],
        "old_agent_id": variant["agent_id_16"],
        "signature": ALICE.sign(text),
    }
    assert verify_chain([record], CAROL.public) == ALICE.public


@given(json_values)
def test_any_value_is_refused_as_a_rotation(value: object) -> None:
    with pytest.raises(InvalidCertificate):
        verify_rotation(value)


# revocation


def test_revocation_vector_byte_for_byte() -> None:
    notice = revoke(BOB, now_ms=NOW_MS, reason="laptop lost")
    assert json.dumps(notice) == json.dumps(NOTICE)
    assert BOB.public.verifies(VECTORS["key_revocation"]["signing_text"], notice["signature"])
    assert verify_revocation(NOTICE) == BOB.public


def test_without_a_reason_the_notice_says_revoked() -> None:
    assert revoke(BOB, now_ms=NOW_MS)["reason"] == "revoked"


def test_a_notice_carries_the_rotations_and_the_first_id() -> None:
    rotations = chain(ALICE, BOB, CAROL)
    notice = revoke(CAROL, now_ms=NOW_MS, rotations=rotations)
    assert notice["rotations"] == rotations
    assert notice["original_agent_id"] == ALICE.public.fingerprint
    assert verify_revocation(notice) == CAROL.public


def test_no_notice_is_made_with_rotations_that_do_not_hold() -> None:
    with pytest.raises(InvalidCertificate, match="rotation 2 of 2"):
        revoke(DAVE, now_ms=NOW_MS, rotations=chain(ALICE, BOB, CAROL))


@pytest.mark.parametrize("field", ["agent_id", "fingerprint", "original_agent_id"])
def test_a_notice_with_a_foreign_id_does_not_hold(field: str) -> None:
    notice: dict[str, Any] = dict(revoke(CAROL, now_ms=NOW_MS, rotations=chain(ALICE, CAROL)))
    notice[field] = DAVE.public.fingerprint
    with pytest.raises(InvalidCertificate, match=field):
        verify_revocation(notice)


@pytest.mark.parametrize(
    ("field", "value"), [("reason", "retired"), ("timestamp", "2026-01-02T03:04:05.679Z")]
)
def test_a_changed_notice_does_not_hold(field: str, value: str) -> None:
    with pytest.raises(InvalidCertificate, match="signature"):
        verify_revocation(NOTICE | {field: value})


def test_nobody_revokes_the_key_of_another() -> None:
    forged = dict(revoke(ALICE, now_ms=NOW_MS)) | {
        "pubkey": BOB.public.pem,
        "agent_id": BOB.public.fingerprint,
        "fingerprint": BOB.public.fingerprint,
    }
    with pytest.raises(InvalidCertificate, match="signature"):
        verify_revocation(forged)


@pytest.mark.parametrize("field", list(NOTICE))
def test_a_missing_or_mistyped_notice_field_is_named(field: str) -> None:
    with pytest.raises(InvalidCertificate, match=f"^{field} is missing"):
        verify_revocation({name: value for name, value in NOTICE.items() if name != field})
    with pytest.raises(InvalidCertificate, match=f"^{field} is not a text"):
        verify_revocation(NOTICE | {field: 1})


@pytest.mark.parametrize("rotations", [7, "x", {}, [1], [{}], [RECORD]])
def test_a_notice_whose_rotations_do_not_hold_does_not_hold(rotations: object) -> None:
    with pytest.raises(InvalidCertificate, match="rotation"):
        verify_revocation(NOTICE | {"rotations": rotations, "original_agent_id": NOTICE["agent_id"]})


def test_another_type_is_not_a_notice() -> None:
    with pytest.raises(InvalidCertificate, match="REVOCATION"):
        verify_revocation(NOTICE | {"type": "RECOVERY"})


@pytest.mark.parametrize("field", list(NOTICE))
def test_the_length_of_a_field_is_checked_before_its_signature(field: str) -> None:
    with pytest.raises(InvalidCertificate, match=f"^{field} has more than {MAX_TEXT} characters"):
        verify_revocation(NOTICE | {field: "x" * (MAX_TEXT + 1)})


def test_a_reason_may_be_as_long_as_a_field() -> None:
    assert verify_revocation(revoke(ALICE, now_ms=NOW_MS, reason="x" * MAX_TEXT)) == ALICE.public


def test_the_length_of_a_chain_is_checked_before_its_signatures() -> None:
    records: list[object] = [None] * (MAX_ROTATIONS + 1)
    with pytest.raises(InvalidCertificate, match="there are more than"):
        verify_chain(records, ALICE.public)
    with pytest.raises(InvalidCertificate, match=f"^rotation {MAX_ROTATIONS} of"):
        verify_chain(records[:-1], ALICE.public)


@given(st.sampled_from(list(NOTICE)), json_values)
def test_any_value_in_any_field_is_refused(field: str, value: object) -> None:
    changed = copy.deepcopy(NOTICE) | {field: value}
    with pytest.raises(InvalidCertificate):
        verify_revocation(changed)


# time


@pytest.mark.parametrize(
    ("now_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (NOW_MS, "2026-01-02T03:04:05.678Z"),
        (1_000, "1970-01-01T00:00:01.000Z"),
        (7, "1970-01-01T00:00:00.007Z"),
    ],
)
def test_a_timestamp_has_milliseconds_and_z(now_ms: int, text: str) -> None:
    assert timestamp_text(now_ms) == text

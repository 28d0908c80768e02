"""Rotation records and revocation notices: what a key says about its successor, or about its own end.

Both are plain JSON objects that travel outside the hall: no message carries them and no server reads them
(agentchat wire 3.6 and 3.7). They are kept as the objects they are on disk, because a signature covers the
PEM texts as they were spelled. The ids in them are mostly not signed, so verifying compares each with its
key.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final, NotRequired, TypedDict

from moothall.errors import InvalidCertificate, InvalidKey
from moothall.identity.keys import FINGERPRINT_LENGTH, MAX_PEM_LENGTH, PrivateKey, PublicKey
from moothall.wire.agentchat.jstext import json_text, utf8

REVOCATION: Final = "REVOCATION"
DEFAULT_REASON: Final = "revoked"  # agentchat wire 3.7
# What is checked may be a stranger's, so its size is, before any text is built or hashed.
MAX_TEXT: Final = MAX_PEM_LENGTH  # characters of one field
MAX_ROTATIONS: Final = 2000  # in one chain: about as many as a key file has room for

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Rotation(TypedDict):
    old_pubkey: str
    old_agent_id: str
    new_pubkey: str
    new_agent_id: str
    signature: str
    timestamp: str


class Revocation(TypedDict):
    type: str
    pubkey: str
    agent_id: str
    fingerprint: str
    reason: str
    timestamp: str
    signature: str
    rotations: NotRequired[list[object]]
    original_agent_id: NotRequired[str]


def timestamp_text(now_ms: int) -> str:
    """ISO 8601 with milliseconds and `Z`, as JavaScript's toISOString writes it."""
    moment = _EPOCH + timedelta(milliseconds=now_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def rotate(old: PrivateKey, new: PublicKey, *, now_ms: int) -> Rotation:
    timestamp = timestamp_text(now_ms)
    return {
        "old_pubkey": old.public.pem,
        "old_agent_id": old.public.fingerprint,
        "new_pubkey": new.pem,
        "new_agent_id": new.fingerprint,
        "signature": old.sign(_rotation_text(old.public.pem, new.pem, timestamp)),
        "timestamp": timestamp,
    }


def verify_rotation(record: object) -> tuple[PublicKey, PublicKey]:
    """The old and the new key of a record that holds."""
    fields = _fields(record)
    old = _key(fields, "old_pubkey", id_field="old_agent_id")
    new = _key(fields, "new_pubkey", id_field="new_agent_id")
    signed = _rotation_text(*(_text(fields, name) for name in ("old_pubkey", "new_pubkey", "timestamp")))
    if not old.verifies(signed, _text(fields, "signature")):
        raise InvalidCertificate("the signature is not by old_pubkey")
    return old, new


def verify_chain(records: Sequence[object], current: PublicKey) -> PublicKey:
    """The first key of a chain that leads to `current`; without records that is `current` itself."""
    if len(records) > MAX_ROTATIONS:
        raise InvalidCertificate(f"there are more than {MAX_ROTATIONS} rotations")
    expected = current
    # From the newest back: what is expected is then always known, and ends as the first key.
    for number in range(len(records), 0, -1):
        try:
            expected = _predecessor(records[number - 1], expected)
        except InvalidCertificate as error:
            raise InvalidCertificate(f"rotation {number} of {len(records)}: {error}") from None
    return expected


def _predecessor(record: object, successor: PublicKey) -> PublicKey:
    old, new = verify_rotation(record)
    if new != successor:
        raise InvalidCertificate(f"new_pubkey is not the key that follows, {successor.fingerprint}")
    return old


def revoke(
    key: PrivateKey, *, now_ms: int, reason: str = DEFAULT_REASON, rotations: Sequence[object] = ()
) -> Revocation:
    public = key.public
    timestamp = timestamp_text(now_ms)
    notice: Revocation = {
        "type": REVOCATION,
        "pubkey": public.pem,
        "agent_id": public.fingerprint,
        "fingerprint": public.fingerprint,
        "reason": reason,
        "timestamp": timestamp,
        "signature": key.sign(_revocation_text(public.pem, public.fingerprint, reason, timestamp)),
    }
    if rotations:
        notice["rotations"] = list(rotations)
        notice["original_agent_id"] = verify_chain(rotations, public).fingerprint
    return notice


def verify_revocation(notice: object) -> PublicKey:
    """The key that a notice revokes, if the notice holds."""
    fields = _fields(notice)
    if _text(fields, "type") != REVOCATION:
        raise InvalidCertificate(f"type is not {REVOCATION}")
    key = _key(fields, "pubkey", id_field="agent_id")
    _check_id(fields, "fingerprint", _text(fields, "pubkey"), key)
    covered = ("pubkey", "agent_id", "reason", "timestamp")
    signed = _revocation_text(*(_text(fields, name) for name in covered))
    if not key.verifies(signed, _text(fields, "signature")):
        raise InvalidCertificate("the signature is not by pubkey")
    _check_origin(fields, key)
    return key


def _check_origin(fields: Mapping[str, object], key: PublicKey) -> None:
    """A notice with the rotations behind its key also names the first id (agentchat wire 3.7)."""
    if "rotations" not in fields and "original_agent_id" not in fields:
        return
    rotations = rotation_records(fields)
    first = verify_chain(rotations, key)
    spelled = _text(_fields(rotations[0]), "old_pubkey") if rotations else _text(fields, "pubkey")
    _check_id(fields, "original_agent_id", spelled, first)


def rotation_records(fields: Mapping[str, object]) -> Sequence[object]:
    """The list under `rotations`, empty when there is none; the records in it are not verified."""
    records = fields.get("rotations")
    if records is None:
        return ()
    if not isinstance(records, list):
        raise InvalidCertificate("rotations is not a list")
    return records


def _rotation_text(old_pem: str, new_pem: str, timestamp: str) -> str:
    return json_text({"old_pubkey": old_pem, "new_pubkey": new_pem, "timestamp": timestamp})


def _revocation_text(pem: str, agent_id: str, reason: str, timestamp: str) -> str:
    return json_text(
        {"type": REVOCATION, "pubkey": pem, "agent_id": agent_id, "reason": reason, "timestamp": timestamp}
    )


def _fields(record: object) -> Mapping[str, object]:
    if not isinstance(record, dict):
        raise InvalidCertificate("not a JSON object")
    return record


def _text(fields: Mapping[str, object], name: str) -> str:
    if name not in fields:
        raise InvalidCertificate(f"{name} is missing")
    value = fields[name]
    if not isinstance(value, str):
        raise InvalidCertificate(f"{name} is not a text")
    if len(value) > MAX_TEXT:
        raise InvalidCertificate(f"{name} has more than {MAX_TEXT} characters")
    return value


def _key(fields: Mapping[str, object], name: str, *, id_field: str) -> PublicKey:
    pem = _text(fields, name)
    try:
        key = PublicKey.from_pem(pem)
    except InvalidKey as error:
        raise InvalidCertificate(f"{name}: {error}") from None
    _check_id(fields, id_field, pem, key)
    return key


def _check_id(fields: Mapping[str, object], name: str, pem: str, key: PublicKey) -> None:
    # The reference derives the id from the text as it is spelled (agentchat wire 3.2).
    as_spelled = sha256(utf8(pem)).hexdigest()[:FINGERPRINT_LENGTH]
    if _text(fields, name) not in (key.fingerprint, as_spelled):
        raise InvalidCertificate(f"{name} is not the id of its key")

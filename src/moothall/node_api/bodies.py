"""What the routes of a node take: JSON objects as types, and ids in hexadecimal digits. Errors are NodeRefused."""

import base64
import binascii
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from moothall.errors import NodeRefused
from moothall.wire.mesh.cbor import UINT8_MAX, UINT32_MAX
from moothall.wire.mesh.envelope import AGENT_ID_BYTES, CONVERSATION_ID_BYTES

MAX_PAYLOAD_TEXT: Final = 87_384  # characters of `payload_b64` (mesh wire 13)
MAX_MESSAGE: Final = 4096  # bytes of the message of an offer
MAX_SIGNED: Final = 256  # bytes
INT64_MAX: Final = 2**63 - 1

JSON: Final = "application/json"

T = TypeVar("T")
Number = Annotated[int, Meta(ge=0, le=INT64_MAX)]  # as much as the store holds
Rounds = Annotated[int, Meta(ge=0, le=UINT8_MAX)]
Milliseconds = Annotated[int, Meta(ge=0, le=UINT32_MAX)]


class SignBody(Struct):
    bytes_hex: str


class SendBody(Struct):
    msg_type: str
    conversation_id: str
    payload_b64: str
    recipient: str | None = None


class HostedSendBody(Struct):
    msg_type: str
    conversation_id: str
    payload_hex: str
    recipient: str | None = None


class ProposeBody(Struct):
    recipient: str
    message: str
    conversation_id: str | None = None
    amount_usdc_micro: Number | None = None
    max_rounds: Rounds | None = None
    token_mint: str | None = None
    payment_tx: str | None = None
    payment_usd_micro: Number | None = None
    total_price_usd_micro: Number | None = None


class CounterBody(Struct):
    recipient: str
    conversation_id: str
    amount_usdc_micro: Number
    round: Rounds
    max_rounds: Rounds | None = None
    message: str | None = None
    token_mint: str | None = None


class AcceptBody(Struct):
    recipient: str
    conversation_id: str
    amount_usdc_micro: Number
    message: str | None = None
    token_mint: str | None = None
    downpayment_usd_micro: Number | None = None
    remaining_usd_micro: Number | None = None


class BroadcastBody(Struct):
    title: str
    tags: list[str] | None = None
    format: str | None = None
    content_url: str | None = None
    content_type: str | None = None
    duration_ms: Milliseconds | None = None
    price_per_epoch_micro: Number | None = None
    epoch: Number | None = None


class LockBody(Struct):
    provider: str
    conversation_id: str
    amount_usdc_micro: Number
    notary_fee: Number | None = None
    timeout_slots: Number | None = None
    notary: str | None = None


class ApproveBody(Struct):
    requester: str
    provider: str
    conversation_id: str
    notary: str | None = None


class TaskBody(Struct):
    category: str
    outcome: str
    summary: str
    amount_usd: float = 0.0
    duration_min: Number = 0


class SharedBody(Struct):
    shared: bool = True


def read_body(text: bytes, content_type: str, kind: type[T]) -> T:
    """Raises NodeRefused: 415 if it does not say that it is JSON, 400 if it is none, 422 for wrong fields."""
    if content_type.partition(";")[0].strip().lower() != JSON:
        raise NodeRefused(415, f"Expected request with `Content-Type: {JSON}`")
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        raise NodeRefused(422, f"The body of the request does not fit: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise NodeRefused(400, "The body of the request is not JSON") from None


def agent_id(text: str, field: str) -> bytes:
    """Raises NodeRefused (400)."""
    return _hex(text, field, AGENT_ID_BYTES)


def conversation_id(text: str) -> bytes:
    """Raises NodeRefused (400)."""
    return _hex(text, "conversation_id", CONVERSATION_ID_BYTES)


def _hex(text: str, field: str, length: int) -> bytes:
    value = hex_bytes(text, f"{field}: invalid hex")
    if len(value) != length:
        raise NodeRefused(400, f"{field} must be {length} bytes")
    return value


def hex_bytes(text: str, fault: str) -> bytes:
    """Raises NodeRefused (400). Only digits: Python would also take blanks between them."""
    try:
        return binascii.unhexlify(text)
    except (ValueError, binascii.Error):
        raise NodeRefused(400, fault) from None


def payload(text: str) -> bytes:
    """Raises NodeRefused: 413, or 400 for what is not base64."""
    if len(text) > MAX_PAYLOAD_TEXT:
        raise NodeRefused(413, "payload_b64: exceeds maximum envelope size")
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise NodeRefused(400, "payload_b64: invalid base64") from None


def number(text: str | None, field: str, *, default: int, least: int = 0, most: int = INT64_MAX) -> int:
    """A parameter of a query. Raises NodeRefused (400)."""
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise NodeRefused(400, f"{field} must be a whole number from {least} to {most}")
    return int(text)

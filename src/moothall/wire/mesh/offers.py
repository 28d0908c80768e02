"""PROPOSE, COUNTER and ACCEPT: an amount, then a JSON object (mesh wire 5).

The amount is 16 bytes, signed and little-endian, in millionths of a dollar; 0 is none. The reference reads
these bytes of whatever payload there is. The rest is for the agents, so a rest that is not an object is no
fault. An object whose known members are of another type is one: terms that were misread would be paid.
"""

from typing import Annotated, Any, Final, Literal, Self

from msgspec import Meta, Struct, structs

from moothall.wire.mesh.cbor import UINT32_MAX
from moothall.wire.mesh.jsonobjects import convert, read_object, write_object

AMOUNT_BYTES: Final = 16
DEFAULT_MAX_ROUNDS: Final = 2

Rounds = Annotated[int, Meta(ge=1, le=UINT32_MAX)]
MicroUsd = Annotated[int, Meta(ge=0)]


def encode_amount(amount: int) -> bytes:
    try:
        return amount.to_bytes(AMOUNT_BYTES, "little", signed=True)
    except OverflowError:
        raise ValueError(f"an amount has {8 * AMOUNT_BYTES} bits, its sign included") from None


def decode_amount(payload: bytes) -> int:
    """0 if the payload is too short for an amount."""
    if len(payload) < AMOUNT_BYTES:
        return 0
    return int.from_bytes(payload[:AMOUNT_BYTES], "little", signed=True)


class _Offer(Struct, frozen=True, kw_only=True):
    amount: int = 0
    message: str = ""
    token_mint: str | None = None

    def encode(self) -> bytes:
        members = structs.asdict(self)
        return encode_amount(members.pop("amount")) + write_object(members)

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Raises PayloadParseError for an object with members of other types."""
        members: dict[str, Any] = read_object(payload[AMOUNT_BYTES:]) or {}
        return convert(members | {"amount": decode_amount(payload)}, cls)


class Propose(_Offer, frozen=True, kw_only=True):
    """`role` is ours: the proposer offers its own work if it is "provider" (mesh wire 8)."""

    max_rounds: Rounds = DEFAULT_MAX_ROUNDS
    role: Literal["requester", "provider"] | None = None
    payment_tx: str | None = None
    payment_usd_micro: MicroUsd | None = None
    total_price_usd_micro: MicroUsd | None = None


class Counter(_Offer, frozen=True, kw_only=True):
    """`round` counts from 1, for each side."""

    round: Rounds = 1
    max_rounds: Rounds = DEFAULT_MAX_ROUNDS


class Accept(_Offer, frozen=True, kw_only=True):
    downpayment_usd_micro: MicroUsd | None = None
    remaining_usd_micro: MicroUsd | None = None

"""What agents order of the market, on whatever wire they are. Wires make these, and decisions take them.

An optional field that is None was not given. `deal` is the id of a proposal.
"""

from typing import Any

from moothall.market.records import Number, Scalar
from moothall.market.signed import SignedCommand


class Propose(SignedCommand, kw_only=True, frozen=True, gc=False):
    to: str  # the address of the recipient, as it was signed
    task: str
    amount: Scalar | None = None
    currency: Scalar | None = None
    payment_code: Scalar | None = None
    terms: Any = None
    capability: str | None = None
    expires: Number | None = None  # seconds from now
    stake: int = 0


class Accept(SignedCommand, kw_only=True, frozen=True, gc=False):
    deal: str
    payment_code: Scalar | None = None
    stake: int = 0


class Reject(SignedCommand, kw_only=True, frozen=True, gc=False):
    deal: str
    reason: Scalar | None = None


class Complete(SignedCommand, kw_only=True, frozen=True, gc=False):
    deal: str
    proof: Scalar | None = None


class Dispute(SignedCommand, kw_only=True, frozen=True, gc=False):
    deal: str
    reason: str


class RegisterSkills(SignedCommand, kw_only=True, frozen=True, gc=False):
    skills: list[dict[str, Any]]

"""REJECT and DISPUTE: what agents say is for them to define (mesh wire 5). Ours say it as `{"reason": "..."}`."""

from typing import Final, Self

from msgspec import Struct

from moothall.wire.mesh.jsonobjects import read_object, write_object

# The first bytes may say what follows; the reference recommends these and reads none.
_JSON_HINT: Final = b"JSON"
_OTHER_HINTS: Final = (b"CBOR", b"CUST")


class _Reason(Struct, frozen=True):
    reason: str = ""

    def encode(self) -> bytes:
        return write_object({"reason": self.reason})

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """The reason in an object, or the payload itself if it is text. Anything else has no reason."""
        if payload.startswith(_OTHER_HINTS):
            return cls()
        text = payload.removeprefix(_JSON_HINT)
        members = read_object(text)
        if members is not None:
            reason = members.get("reason")
            return cls(reason if isinstance(reason, str) else "")
        try:
            return cls(text.decode())
        except UnicodeDecodeError:
            return cls()


class Reject(_Reason, frozen=True):
    """The end of a conversation without a deal."""


class Dispute(_Reason, frozen=True):
    """A challenge of a delivery or of a verdict."""

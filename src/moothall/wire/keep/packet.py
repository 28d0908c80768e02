"""A keep packet as its fields say it (keep wire 2). `codec` reads and writes it."""

from typing import Final, final

MAX_PACKET: Final = 65_536  # bytes (seed 004, wire format)

ASK: Final = 0
OFFER: Final = 1  # also every reply of the server
HEARTBEAT: Final = 2

_FIELDS: Final = ("typ", "id", "src", "dst", "body", "fee", "ttl", "scar", "pk", "sig", "unknown")


@final
class Packet:
    """What is absent on the wire is zero or empty here (proto3)."""

    __slots__ = _FIELDS

    def __init__(
        self,
        typ: int = 0,
        id: str = "",  # noqa: A002  # the field's name on the wire
        src: str = "",
        dst: str = "",
        body: str = "",
        fee: int = 0,
        ttl: int = 0,
        scar: bytes = b"",
        pk: bytes = b"",
        sig: bytes = b"",
        unknown: bytes = b"",
    ) -> None:
        self.typ = typ
        self.id = id
        self.src = src
        self.dst = dst
        self.body = body
        self.fee = fee
        self.ttl = ttl
        self.scar = scar
        self.pk = pk
        self.sig = sig
        self.unknown = unknown  # fields that no schema has, as received: no signature covers them

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Packet):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _FIELDS)

    __hash__ = None  # type: ignore[assignment]  # its fields can be changed

    def __repr__(self) -> str:
        said = ", ".join(
            f"{name}={getattr(self, name)!r}" for name in _FIELDS if getattr(self, name) not in (0, "", b"")
        )
        return f"Packet({said})"

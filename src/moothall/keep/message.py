"""A packet that arrived, and what is known about it."""

from dataclasses import dataclass

from moothall.keep.signing import is_signed
from moothall.keep.sorting import ERROR
from moothall.wire.keep.packet import Packet


@dataclass(frozen=True, slots=True)
class Message:
    """`verified` says that `public_key` signed it. One that is not verified was made by the server."""

    packet: Packet
    verified: bool

    @property
    def public_key(self) -> bytes | None:
        """The key that signed it. Any client may claim any `src`; the key identifies the sender."""
        return self.packet.pk if self.verified else None

    @property
    def error(self) -> str | None:
        """`offline` or `delivery_failed`: what became of the message of yours that has this `id`."""
        if is_signed(self.packet) or not self.packet.body.startswith(ERROR):
            return None
        return self.packet.body.removeprefix(ERROR)

    @property
    def id(self) -> str:
        return self.packet.id

    @property
    def src(self) -> str:
        return self.packet.src

    @property
    def dst(self) -> str:
        return self.packet.dst

    @property
    def body(self) -> str:
        return self.packet.body

    @property
    def typ(self) -> int:
        return self.packet.typ

    @property
    def fee(self) -> int:
        return self.packet.fee

    @property
    def ttl(self) -> int:
        return self.packet.ttl

    @property
    def scar(self) -> bytes:
        return self.packet.scar

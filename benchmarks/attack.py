"""A row of the abuse benchmark: what one hostile connection sends."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from moothall.identity import PrivateKey

Wire = Literal["agentchat", "keep", "mesh"]

LONG: Final = "x" * 4000


@dataclass(frozen=True, slots=True)
class Attacker:
    """One hostile connection, and whom it knows."""

    number: int
    id: str  # its own; empty on keep
    target: str  # an honest agent that reads
    key: PrivateKey

    def sign(self, signed: str) -> str:
        return self.key.sign(signed)


Frames = Callable[[Attacker], Sequence[bytes]]


@dataclass(frozen=True, slots=True)
class Attack:
    name: str
    wire: Wire
    frames: Frames
    verified: bool = False
    prepare: Frames | None = None  # sent once, before the window
    reconnects: bool = False  # each connection is closed and opened again after its frames


def describe(attack: Attack) -> str:
    return f"{attack.wire} {attack.name or '(empty dst)'}"

"""How far a transfer is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a transfer is. `size` is that of all files, in bytes; `seconds` have passed since it was accepted."""

    chunks: int
    total: int  # chunks
    size: int
    seconds: float

    @property
    def fraction(self) -> float:
        """From 0 to 1."""
        return self.chunks / self.total

    @property
    def rate(self) -> float:
        """Bytes a second, on average."""
        return self.size * self.fraction / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """None before anything has arrived."""
        return self.seconds * (1 - self.fraction) / self.fraction if self.chunks else None

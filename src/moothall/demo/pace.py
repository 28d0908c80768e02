"""How fast the play goes."""

import asyncio
from typing import Final

BEAT: Final = 2.4  # seconds: a person reads a line in it


class Pace:
    """`factor` 1 is for people who read along, 0.1 is ten times as fast."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    @property
    def is_hasty(self) -> bool:
        """True if agents say more than a hall takes from one agent by default."""
        return self.factor < 1

    def seconds(self, seconds: float) -> float:
        """So many seconds of a calm play."""
        return seconds * self.factor

    async def beat(self, beats: float = 1.0) -> None:
        """Wait until the next line may come."""
        await asyncio.sleep(self.seconds(BEAT * beats))

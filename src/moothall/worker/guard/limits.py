"""What a guarded command may use, and the options that say so (agentchat wire 19.5)."""

from typing import Final, NamedTuple

WARN_AT: Final = 0.8  # of a limit
WINDOW: Final = 60.0  # seconds that the rates per minute look back


class Limits(NamedTuple):
    """Times are in seconds. 0 turns the three timeouts of silence off."""

    budget: int = 1_000_000
    timeout: float = 3600
    max_sends: int = 10
    max_tool_calls: int = 30
    stall_timeout: float = 3600
    startup_timeout: float = 180  # in place of `stall_timeout` until the first output
    dead_air_timeout: float = 5 * 60
    max_nudges: int = 3
    cooldown: float = 5


DEFAULTS: Final = Limits()

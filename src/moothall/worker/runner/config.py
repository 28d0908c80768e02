"""What a runner is told, by variables of its environment (agentchat wire 19.4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moothall.daemon.folder import Folder
from moothall.errors import UsageError
from moothall.worker.agent_folder import RUNNER_LOG, folder_of
from moothall.worker.runner.transcript import LINES

MISSION: Final = "Take part in the hall: answer what you are asked, and help where you can."
PERSONALITIES: Final = "~/.claude/personalities"
HALL_VARIABLE: Final = "AGENTCHAT_URL"
MOST_LINES: Final = 10_000

# Variable, flag of the guard, default. The budget, the time and the sends are those of seed 001.
LIMITS: Final = (
    ("NIKI_BUDGET", "--budget", "1000000"),
    ("NIKI_TIMEOUT", "--timeout", "3600"),
    ("NIKI_MAX_SENDS", "--max-sends", "10"),
    ("NIKI_MAX_TOOLS", "--max-tool-calls", "30"),
    ("NIKI_STALL_TIMEOUT", "--stall-timeout", "0"),
    ("NIKI_STARTUP_TIMEOUT", "--startup-timeout", "600"),
    ("NIKI_DEAD_AIR_TIMEOUT", "--dead-air-timeout", "1440"),
    ("NIKI_MAX_NUDGES", "--max-nudges", "3"),
)

_TRUE: Final = frozenset(("1", "true", "yes", "on"))


@dataclass(frozen=True, slots=True)
class Config:
    name: str
    mission: str
    folder: Folder
    log_file: Path
    runtime: str
    personalities: Path
    history_lines: int  # 0: the next session is told nothing
    is_public: bool
    resumes: bool  # the conversation with `claude` goes on over sessions
    limits: tuple[str, ...]  # arguments of the guard

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> "Config":
        """Raises UsageError."""
        if not environment.get(HALL_VARIABLE):
            raise UsageError(
                f"{HALL_VARIABLE} is missing: set it to the address of the hall, such as ws://127.0.0.1:6667"
            )
        name = environment.get("AGENT_NAME") or "default"
        folder = folder_of(name, environment.get("STATE_DIR"))
        wants_history = environment.get("INJECT_TRANSCRIPT", "1").lower() in _TRUE
        return cls(
            name=name,
            mission=environment.get("MISSION") or MISSION,
            folder=folder,
            log_file=Path(environment.get("LOG_FILE") or folder.path / RUNNER_LOG),
            runtime=environment.get("AGENT_RUNTIME") or "cli",
            personalities=Path(environment.get("PERSONALITY_DIR") or PERSONALITIES).expanduser(),
            history_lines=_lines(environment) if wants_history else 0,
            is_public=environment.get("AGENTCHAT_PUBLIC", "").lower() in _TRUE,
            resumes=environment.get("AGENT_RESUME", "").lower() in _TRUE,
            limits=tuple(
                word for name, flag, default in LIMITS for word in (flag, environment.get(name) or default)
            ),
        )


def _lines(environment: Mapping[str, str]) -> int:
    text = environment.get("MAX_TRANSCRIPT") or str(LINES)
    if not text.isascii() or not text.isdigit() or int(text[:9]) > MOST_LINES:
        raise UsageError(f"MAX_TRANSCRIPT {text[:80]!r}: give a whole number of lines up to {MOST_LINES:,}")
    return int(text)

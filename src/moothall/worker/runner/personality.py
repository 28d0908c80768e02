"""Who the agent is: two optional files of the user, one for all agents and one for this (agentchat wire 19.4)."""

from pathlib import Path
from typing import Final

BASE: Final = "_base.md"
BETWEEN: Final = "\n\n---\n\n"
MAX_BYTES: Final = 48 * 1024  # of one file; both and the notices fit into one argument of a program


def load(folder: Path, name: str) -> str:
    """The text of both files, or of the one that exists. Raises OSError for a file that cannot be read."""
    return BETWEEN.join(text for text in (_read(folder / BASE), _read(folder / f"{name}.md")) if text)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode(errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""

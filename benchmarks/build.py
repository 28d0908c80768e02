"""The load generator, compiled when its sources are newer than the last build."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

SOURCES: Final = Path(__file__).parent / "generator"
BINARY: Final = Path(__file__).parent / "build" / "generator"


class BuildFailed(Exception):
    """The message says what to install."""


def build_generator() -> Path:
    if _is_current():
        return BINARY
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise BuildFailed(
            "The load generator is a C program and there is no C compiler here.\n"
            "Debian, Ubuntu:  apt-get install gcc libc6-dev libsodium-dev"
        )
    BINARY.parent.mkdir(exist_ok=True)
    sources = [str(source) for source in sorted(SOURCES.glob("*.c"))]
    command = [compiler, "-O2", "-Wall", "-Wextra", "-o", str(BINARY), *sources, "-lsodium"]
    compilation = subprocess.run(command, capture_output=True, text=True, check=False)
    if compilation.returncode != 0:
        raise BuildFailed(_explain(compilation.stderr))
    return BINARY


def _is_current() -> bool:
    if not BINARY.exists():
        return False
    return all(source.stat().st_mtime < BINARY.stat().st_mtime for source in SOURCES.iterdir())


def _explain(complaint: str) -> str:
    if "sodium.h" in complaint or "lsodium" in complaint:
        return (
            "The load generator signs handshakes with libsodium, whose headers are missing here.\n"
            "Debian, Ubuntu:  apt-get install libsodium-dev"
        )
    return f"The load generator does not compile:\n{complaint}"

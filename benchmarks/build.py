"""The programs in C, compiled when their sources are newer than the last build."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
BUILD: Final = HERE / "build"
GENERATOR: Final = BUILD / "generator"
SLOW_DISK: Final = BUILD / "slow_disk.so"


class BuildFailed(Exception):
    """The message says what to install."""


def build_generator() -> Path:
    return _built(GENERATOR, HERE / "generator", "-lsodium")


def build_slow_disk() -> Path:
    """A library to preload: with it, a disk takes longer to sync."""
    return _built(SLOW_DISK, HERE / "slow_disk", "-shared", "-fPIC", "-ldl")


def _built(binary: Path, sources: Path, *options: str) -> Path:
    if _is_current(binary, sources):
        return binary
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise BuildFailed(
            "The load generator is a C program and there is no C compiler here.\n"
            "Debian, Ubuntu:  apt-get install gcc libc6-dev libsodium-dev"
        )
    BUILD.mkdir(exist_ok=True)
    files = [str(source) for source in sorted(sources.glob("*.c"))]
    command = [compiler, "-O2", "-Wall", "-Wextra", "-o", str(binary), *files, *options]
    compilation = subprocess.run(command, capture_output=True, text=True, check=False)
    if compilation.returncode != 0:
        raise BuildFailed(_explain(compilation.stderr))
    return binary


def _is_current(binary: Path, sources: Path) -> bool:
    if not binary.exists():
        return False
    return all(source.stat().st_mtime < binary.stat().st_mtime for source in sources.iterdir())


def _explain(complaint: str) -> str:
    if "sodium.h" in complaint or "lsodium" in complaint:
        return (
            "The load generator signs with libsodium, whose headers are missing here.\n"
            "Debian, Ubuntu:  apt-get install libsodium-dev"
        )
    return f"The load generator does not compile:\n{complaint}"

"""Unpack archives that another agent made up to do harm, and look for anything outside of the folder.

    python -m benchmarks.hostile_archives [COUNT] [--seed N]

Each archive is made of markers, names that lead elsewhere, and noise; then some of its bytes are changed. The
folder has links that lead out of it. After each archive the surroundings must be as they were, and nothing
temporary may stay. The first archive that does harm, or raises, is printed with its number, and ends the run with
1.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moothall.files.saving import Unpacked, unpack

_NAMES: Final = (
    *("a", "b", "A", "a/b", "a/b/c", "b/a", "new/file", "END a", "x [binary]", "naïve", "😀", ".hidden"),
    *(
        "..",
        "../up",
        "../../up",
        "a/../../up",
        "$OUTSIDE/up",
        "//up",
        "C:up",
        "C:/up",
        "..\\up",
        "a\\..\\up",
        "./a",
        "a//b",
    ),
    *(
        "link",
        "link/up",
        "link/../up",
        "filelink",
        "a/link",
        "loop/loop",
        "CON",
        "nul.txt",
        "a. ",
        "a\0b",
        "\u202egpj.exe",
    ),
    *("x" * 10_000, "x" * 255, "x" * 256, "d/" * 40 + "x", ".moothall-0", "", " ", "\r", "\ud800"),
)
_CONTENTS: Final = (
    b"",
    b"hello\n",
    b"aGVsbG8=\n",
    b"=\n",
    b"AAAA\n" * 20,
    b"\0\xff",
    b"=== ===\n",
    b"x" * 300,
)
SECRET: Final = b"secret"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A folder to unpack into, with links that lead out of it to files that must not change."""

    top: Path

    @classmethod
    def made(cls, top: Path) -> "Surroundings":
        (top / "outside").mkdir()
        (top / "outside" / "file").write_bytes(SECRET)
        (top / "target").mkdir()
        found = cls(top)
        found.reset()
        return found

    @property
    def target(self) -> Path:
        return self.top / "target"

    def reset(self) -> None:
        """Empty the folder, except for its links."""
        for path in self.target.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        (self.target / "link").symlink_to(self.top / "outside")
        (self.target / "filelink").symlink_to(self.top / "outside" / "file")
        (self.target / "loop").symlink_to("loop")

    def check(self) -> None:
        """Raise AssertionError if anything is where it must not be."""
        harm = [
            sorted(os.listdir(self.top)) != ["outside", "target"],  # noqa: PTH208  # a million times: no objects
            os.listdir(self.top / "outside") != ["file"],  # noqa: PTH208
            (self.top / "outside" / "file").read_bytes() != SECRET,
            any(name.startswith(".moothall-") for name in os.listdir(self.target)),  # noqa: PTH208
            not all((self.target / name).is_symlink() for name in ("link", "filelink", "loop")),
        ]
        if any(harm):
            raise AssertionError(f"harm was done: {harm}")


def hostile_archive(luck: random.Random, outside: Path) -> bytes:
    """An archive that no honest program writes."""
    parts = [b"# --- SLURP v4 ---\n#\n"]
    for _ in range(luck.randrange(1, 5)):
        name = luck.choice(_NAMES).replace("$OUTSIDE", str(outside)).encode("utf-8", "surrogatepass")
        if luck.random() < 0.1:
            name = bytes(luck.randrange(256) for _ in range(luck.randrange(20)))
        mark = luck.choice((b"", b"", b" [binary]"))
        parts += [
            b"\n=== ",
            name,
            mark,
            b" ===\n",
            *(luck.choice(_CONTENTS) for _ in range(luck.randrange(3))),
        ]
        if luck.random() < 0.9:
            parts += [b"=== END ", name, b" ===\n"]
    archive = bytearray(b"".join(parts))
    for _ in range(luck.choice((0, 0, 0, 1, 3))):
        place = luck.randrange(len(archive))
        archive[place : place + luck.randrange(3)] = bytes(
            luck.randrange(256) for _ in range(luck.randrange(3))
        )
    return bytes(archive)


def unpack_hostile(number: int, seed: int, place: Surroundings) -> Unpacked:
    """Unpack one of them, in blocks of some size, and check the surroundings. Raises what goes wrong."""
    luck = random.Random(seed * 1_000_000_007 + number)  # noqa: S311  # to be repeated, not to be secret
    archive = hostile_archive(luck, place.top / "outside")
    size = luck.choice((1, 13, 4096, 1 << 20))
    blocks = [archive[start : start + size] for start in range(0, len(archive), size)]
    found = unpack(blocks, place.target)
    place.check()
    if found.files:
        place.reset()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile_archives", description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    saved = skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        place = Surroundings.made(Path(folder))
        for number in range(options.count):
            try:
                found = unpack_hostile(number, options.seed, place)
            except Exception as error:  # noqa: BLE001  # any of them is the finding
                sys.exit(f"archive {number} of seed {options.seed}: {type(error).__name__}: {error}")
            saved += len(found.files)
            skipped += len(found.skipped)
            if (number + 1) % 100_000 == 0:
                print(f"{number + 1:,} archives, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{options.count:,} archives: {saved:,} files saved, {skipped:,} entries skipped, no harm done")


if __name__ == "__main__":
    main()

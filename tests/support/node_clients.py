"""MCP clients that are written for node. Tests are not run where they cannot be installed."""

import os
import subprocess
from pathlib import Path
from typing import Final

from tests.support import npm

PINNED: Final = Path(__file__).parents[1] / "node"
KIT: Final = "@modelcontextprotocol/conformance"
INSPECTOR: Final = "@modelcontextprotocol/inspector"

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
    """The pinned packages. Skips the test if they cannot be had."""
    packages = npm.installed(PINNED)
    return NodeClients(packages.folder / "node_modules", packages.node)

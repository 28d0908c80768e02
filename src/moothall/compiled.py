"""Which build of moothall runs: the wheel with a compiled hot path, or pure Python.

A wheel has each compiled module as source too. With MOOTHALL_PURE=1 Python takes the sources, whose tracebacks and
profiles tell more. `import moothall` imports this module before any other one, so it imports next to nothing.
"""

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import FileFinder, ModuleSpec
    from types import ModuleType

PURE_VARIABLE: Final = "MOOTHALL_PURE"
COMPILED: Final = "compiled"
PURE: Final = "pure"

_OFF: Final = frozenset(("", "0", "false", "no", "off"))
_PACKAGE: Final = "moothall"
_WITNESS: Final = "moothall.wire.websocket"  # a module that is compiled in each compiled wheel


class SourceFinder:
    """Finds the modules of a package as sources. Their extension modules, and the library of these, stay unused."""

    def __init__(self, package: str) -> None:
        self._prefix = f"{package}."
        self._finders: dict[str, FileFinder] = {}  # by folder, because each has a list of its files

    def find_spec(
        self, name: str, path: "Sequence[str] | None", _target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """None: another finder has to look."""
        if path is None or not name.startswith(self._prefix):
            return None
        from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader

        for folder in path:
            if folder not in self._finders:
                self._finders[folder] = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))
            found = self._finders[folder].find_spec(name)
            if found is not None:
                return found
        return None

    def invalidate_caches(self) -> None:
        """Called by importlib when files were added."""
        for finder in self._finders.values():
            finder.invalidate_caches()


def is_pure_wanted() -> bool:
    return os.environ.get(PURE_VARIABLE, "").lower() not in _OFF


def choose() -> None:
    """Take sources from now on, if the environment says so."""
    if is_pure_wanted():
        sys.meta_path.insert(0, SourceFinder(_PACKAGE))


def build() -> str:
    """`compiled` or `pure`: what this process imports."""
    from importlib.machinery import EXTENSION_SUFFIXES
    from importlib.util import find_spec

    spec = find_spec(_WITNESS)  # of the module itself, if it is imported already
    is_compiled = spec is not None and (spec.origin or "").endswith(tuple(EXTENSION_SUFFIXES))
    return COMPILED if is_compiled else PURE

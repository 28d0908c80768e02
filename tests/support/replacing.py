"""What tests replace in the program, where it can be replaced."""

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from types import ModuleType
from typing import Any

import pytest


class Replacing(pytest.MonkeyPatch):  # type: ignore[misc]  # it is final, and has no other way in
    """A compiled module has constants and calls in its code, which cannot be replaced: the test is skipped."""

    def setattr(self, target: Any, *change: Any, **options: Any) -> None:
        owner = target.rpartition(".")[0] if isinstance(target, str) else target
        if is_compiled(owner):
            pytest.skip(f"replaces a part of {getattr(owner, '__name__', owner)}, which is compiled")
        super().setattr(target, *change, **options)


def is_compiled(owner: object) -> bool:
    """True for a compiled module, or its name, and for a class of one, and its objects."""
    if isinstance(owner, ModuleType):
        name = owner.__name__
    elif isinstance(owner, str):
        name = owner
    else:
        name = getattr(owner if isinstance(owner, type) else type(owner), "__module__", "")
    place = getattr(sys.modules.get(name), "__file__", None)
    return place is not None and name.startswith("moothall.") and place.endswith(tuple(EXTENSION_SUFFIXES))

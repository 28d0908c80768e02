"""How the programs of an agent begin and end: help, version, and errors in one line.

They stay in memory for long, so this needs no library.
"""

import os
import sys
from collections.abc import Callable, Mapping
from typing import Final

from moothall import __version__
from moothall.errors import MoothallError

_NO_USER_MODULES: Final = "PYTHONNOUSERSITE"
_OURS: Final = "moothall"  # any text turns them off; this one tells that the user did not


def program(module: str) -> list[str]:
    """The beginning of a command that starts a module."""
    # -P and -s: a module in the working directory or below the home folder, where an agent can write, must not
    # become a part of the program.
    return [sys.executable, "-P", "-s", "-m", module]


def no_user_modules(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables for a program of ours whose command cannot have options: as `-s`."""
    return {} if environment.get(_NO_USER_MODULES) else {_NO_USER_MODULES: _OURS}


def of_the_user(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables without that of `no_user_modules`, for a program that is not ours."""
    return {key: value for key, value in environment.items() if (key, value) != (_NO_USER_MODULES, _OURS)}


def run(name: str, usage: str, act: Callable[[list[str]], int], failed: int) -> int:
    """Act on the arguments, and return the exit code. It is `failed` after an error, which the user is told."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        _tell(1, f"moothall {__version__}")
        return 0
    if arguments in (["--help"], ["-h"]):
        _tell(1, usage)
        return 0
    try:
        return act(arguments)
    except MoothallError as error:
        _tell(2, f"error: {error}")
    except OSError as error:
        _tell(2, f"error: {error.filename or f'the {name}'}: {error.strerror}")
    return failed


def _tell(descriptor: int, text: str) -> None:
    os.write(descriptor, text.encode(errors="backslashreplace") + b"\n")

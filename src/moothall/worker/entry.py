"""How the programs of an agent begin and end: help, version, and errors in one line.

They stay in memory for long, so this needs no library.
"""

import os
import sys
from collections.abc import Callable

from moothall import __version__
from moothall.errors import MoothallError


def program(module: str) -> list[str]:
    """The beginning of a command that starts a module."""
    # -P: a module in the working directory, where an agent can write, must not become a part of the program.
    return [sys.executable, "-P", "-m", module]


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

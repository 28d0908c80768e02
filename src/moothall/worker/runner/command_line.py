"""The command line of the runner, under both of its names: `agent-runner` and `moothall worker run`.

All that a session needs comes from variables of the environment (agentchat wire 19.4).
"""

import os
import sys
from typing import Final

from moothall import __version__
from moothall.errors import MoothallError, UsageError
from moothall.worker import lifeline
from moothall.worker.runner.backends import TOKEN_VARIABLE
from moothall.worker.runner.config import Config
from moothall.worker.runner.verdict import FAILED

USAGE: Final = "usage: agent-runner; AGENTCHAT_URL, AGENT_NAME, MISSION and others are variables"


def program() -> list[str]:
    """The beginning of a command that starts the runner."""
    # -P: a module in the working directory, where an agent can write, must not become a part of the runner.
    return [sys.executable, "-P", "-m", "moothall.worker.runner"]


def main() -> int:
    """Run one session. Return the exit code."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        _tell(1, f"moothall {__version__}")
        return 0
    if arguments in (["--help"], ["-h"]):
        _tell(1, USAGE)
        return 0
    try:
        if arguments:
            raise UsageError(f"there is no option {arguments[0][:80]}; {USAGE}")
        lifeline.leave_environment(os.environ, TOKEN_VARIABLE)
        from moothall.worker.runner.service import run

        return run(Config.read(os.environ), os.environ)
    except MoothallError as error:
        _tell(2, f"error: {error}")
    except OSError as error:
        _tell(2, f"error: {error.filename or 'the runner'}: {error.strerror}")
    return FAILED


def _tell(descriptor: int, text: str) -> None:
    os.write(descriptor, text.encode(errors="backslashreplace") + b"\n")

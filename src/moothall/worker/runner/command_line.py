"""The command line of the runner, under both of its names: `agent-runner` and `moothall worker run`.

All that a session needs comes from variables of the environment (agentchat wire 19.4).
"""

import os
from typing import Final

from moothall.errors import UsageError
from moothall.worker import entry, lifeline
from moothall.worker.runner.backends import TOKEN_VARIABLE
from moothall.worker.runner.config import Config
from moothall.worker.runner.verdict import FAILED

USAGE: Final = "usage: agent-runner; AGENTCHAT_URL, AGENT_NAME, MISSION and others are variables"


def program() -> list[str]:
    """The beginning of a command that starts the runner."""
    return entry.program("moothall.worker.runner")


def main() -> int:
    """Run one session. Return the exit code."""
    return entry.run("runner", USAGE, _run, FAILED)


def _run(arguments: list[str]) -> int:
    if arguments:
        raise UsageError(f"there is no option {arguments[0][:80]}; {USAGE}")
    lifeline.leave_environment(os.environ, TOKEN_VARIABLE)
    from moothall.worker.runner.service import run

    return run(Config.read(os.environ), os.environ)

"""The command line of the runner, under both of its names: `agent-runner` and `moothall worker run`.

All that a session needs comes from variables of the environment (agentchat wire 19.4).
"""

import os
from typing import Final

from moothall.errors import UsageError
from moothall.worker import entry, lifeline
from moothall.worker.runner.backends import NO_GRO, TOKEN_VARIABLE
from moothall.worker.runner.config import Config
from moothall.worker.runner.verdict import FAILED

USAGE: Final = "usage: agent-runner [--use-claude-code]; AGENTCHAT_URL, AGENT_NAME and others are variables"
USE_CLAUDE_CODE: Final = "--use-claude-code"  # these two are for scripts that start the reference's runner
USE_GRO: Final = "--use-gro"


def program() -> list[str]:
    """The beginning of a command that starts the runner."""
    return entry.program("moothall.worker.runner")


def main() -> int:
    """Run one session. Return the exit code."""
    return entry.run("runner", USAGE, _run, FAILED)


def _run(arguments: list[str]) -> int:
    environment = dict(os.environ)
    if unknown := [word for word in arguments if word not in (USE_CLAUDE_CODE, USE_GRO)]:
        raise UsageError(f"there is no option {unknown[0][:80]}; {USAGE}")
    if USE_GRO in arguments:
        raise UsageError(f"{NO_GRO}: choose another AGENT_RUNTIME, such as cli or api")
    if USE_CLAUDE_CODE in arguments:
        environment["AGENT_RUNTIME"] = "cli"
    lifeline.leave_environment(os.environ, TOKEN_VARIABLE)
    from moothall.worker.runner.service import run

    return run(Config.read(environment), environment)

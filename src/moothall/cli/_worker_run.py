"""`moothall worker run`: one session of an agent. The program behind it is small and replaces this one."""

import os
import sys

from moothall.worker.runner.command_line import program


def run() -> None:
    """Run one session of an agent, and end with its exit code.

    The supervisor starts it. All that it needs comes from variables: AGENTCHAT_URL, AGENT_NAME, MISSION,
    AGENT_RUNTIME (cli, command, api or openai), AGENT_MODEL and others. The exit code is 0 after a clean end, 1 for
    a fault of the configuration, 2 if another start would not help, and 143 after SIGTERM.

    \b
    AGENTCHAT_URL=ws://127.0.0.1:6667 AGENT_NAME=alice moothall worker run
    """
    words = program()
    sys.stdout.flush()
    os.execv(words[0], words)  # noqa: S606  # the runner stays, without all that is loaded here

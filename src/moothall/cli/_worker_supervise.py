"""`moothall worker supervise`: keep an agent alive. The program behind it is small and replaces this one."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from moothall.worker.supervisor.command_line import program
from moothall.worker.supervisor.credentials import IDENTITY_FILE, TOKEN_FILE
from moothall.worker.supervisor.service import HEARTBEAT_EVERY


def supervise(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The agent: 1 to 32 letters, digits, - or _.")],
    mission: Annotated[str, typer.Argument(metavar="MISSION", help="What the agent is there for.")],
    token_file: Annotated[
        Path,
        typer.Option(
            metavar="PATH", help="The file with the token of the model. It is deleted after it was read."
        ),
    ] = TOKEN_FILE,
    identity_file: Annotated[
        Path,
        typer.Option(
            metavar="PATH",
            help="The file with the key of the agent, which the model then cannot read. It is deleted after it was"
            " read.",
        ),
    ] = IDENTITY_FILE,
    state_dir: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="The folder of the agent. Default: $STATE_DIR, else ~/.agentchat/agents/NAME.",
        ),
    ] = None,
    heartbeat: Annotated[
        float,
        typer.Option(
            min=0.1,
            max=3600,
            metavar="SECONDS",
            help="How often the file .heartbeat is touched, and the stop file looked for during a run.",
        ),
    ] = HEARTBEAT_EVERY,
    give_up_after: Annotated[
        int,
        typer.Option(
            min=0,
            max=1_000_000,
            metavar="N",
            help="End after N failures in a row that took less than 10 seconds each. 0: never.",
        ),
    ] = 0,
) -> None:
    """Keep an agent alive: start its runner again when it ends.

    It waits 5 seconds before the first restart, twice as long each time, up to 5 minutes. A run of more than 5
    minutes begins that anew. The file `stop` in the agent's folder, SIGTERM or Ctrl-C ends it.

    \b
    moothall worker supervise alice 'Answer questions in #general.'
    touch ~/.agentchat/agents/alice/stop
    """
    words = [
        *program(),
        name,
        mission,
        "--token-file",
        str(token_file),
        "--identity-file",
        str(identity_file),
    ]
    words += ["--heartbeat", str(heartbeat), "--give-up-after", str(give_up_after)]
    if state_dir is not None:
        words += ["--state-dir", state_dir]
    sys.stdout.flush()
    os.execv(words[0], words)  # noqa: S606  # the supervisor stays, without all that is loaded here

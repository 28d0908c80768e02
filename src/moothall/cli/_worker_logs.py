"""`moothall worker logs`: what agents have said and done."""

import sys
import time
from contextlib import suppress
from typing import Annotated, Final

import typer

from moothall.cli._exits import tell
from moothall.cli._worker_crew import CrewName, office_of, places_of
from moothall.errors import UsageError
from moothall.tui.printable import one_line
from moothall.worker.agent_folder import PREVIOUS_TRANSCRIPT, RUNNER_LOG, SUPERVISOR_LOG, TRANSCRIPT
from moothall.worker.runner.events import readable

SHOWN: Final = 50  # lines
LOOK: Final = 0.2  # seconds between two looks at a file


def logs(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The agent. Default: all of the crew.")
    ] = None,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, max=1_000_000, metavar="N", help="The last N lines.")
    ] = SHOWN,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    supervisor: Annotated[
        bool, typer.Option("--supervisor", help="The log of the supervisor: starts, ends and waits.")
    ] = False,
    runner: Annotated[
        bool, typer.Option("--runner", help="The log of the runner and the guard: sessions and limits.")
    ] = False,
    crew: CrewName = None,
) -> None:
    """Print what agents have said and done.

    That is the transcript: the words of the model, and the tools that it has used, in this session and the one
    before. With the transcripts of several agents, each line begins with the name of the agent.

    \b
    moothall worker logs planner -f
    moothall worker logs -n 5
    moothall worker logs coder --supervisor
    """
    from moothall.worker.crew.tail import Tail

    if supervisor and runner:
        raise UsageError("choose one of --supervisor and --runner")
    places, record = places_of(crew), office_of(crew).record()
    if name is not None and name not in record.aims:
        record.crew.member(name)
    names = [name] if name is not None else [member.name for member in record.crew.members]
    file = SUPERVISOR_LOG if supervisor else RUNNER_LOG if runner else TRANSCRIPT
    tails = [(each, Tail(places.member(each).state / file)) for each in names]
    for each, tail in tails:
        found = tail.last(lines)
        if file == TRANSCRIPT:
            found = Tail(tail.path.with_name(PREVIOUS_TRANSCRIPT)).last(lines - len(found)) + found
        _show(each if name is None else None, found)
        if lines and not found:
            hint = ": --runner or --supervisor may say why" if file == TRANSCRIPT else ""
            tell(f"{each} has no {file} yet{hint}")
    with suppress(KeyboardInterrupt):
        while follow:
            fresh = [(each, tail.more()) for each, tail in tails]
            for each, found in fresh:
                _show(each if name is None else None, found)
            if not any(found for _, found in fresh):
                time.sleep(LOOK)


def _show(name: str | None, lines: list[str]) -> None:
    for line in lines:
        for text in readable(line):
            typer.echo(one_line(text) if name is None else f"{name}: {one_line(text)}")
    sys.stdout.flush()

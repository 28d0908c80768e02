"""`moothall worker exec`, `wake` and `rm`: what can be done with one agent of a crew."""

from typing import Annotated

import typer

from moothall.cli._worker_crew import AgentName, CrewName, office_of, places_of, say


def exec_(
    name: AgentName,
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="The command and its arguments.")],
    crew: CrewName = None,
) -> None:
    """Run a command where an agent runs, in its workspace.

    The exit code is that of the command. Options of `exec` itself come before NAME.

    \b
    moothall worker exec planner -- ls -l
    moothall worker exec --crew demo planner -- sh
    """
    from moothall.worker.crew import runtimes
    from moothall.worker.crew.runtime import Recipe

    places, record = places_of(crew), office_of(crew).record()
    recipe = Recipe(record.crew, record.crew.member(name), places.member(name), record.hall)
    runtime = runtimes.open_runtime(record.isolation, record.crew, places)
    code = runtime.exec(recipe, command[1:] if command[0] == "--" else command)
    if code:
        raise typer.Exit(code)


def wake(name: AgentName, crew: CrewName = None) -> None:
    """Start the next session of an agent now.

    It does not wait as the supervisor would. An agent that is stopped is started. An agent whose session runs is
    left alone.

    \b
    moothall worker wake planner
    """
    office_of(crew).order({"do": "wake", "name": name}, say)


def rm(
    name: AgentName,
    state: Annotated[
        bool,
        typer.Option("--state", help="Also delete its state, transcript and workspace. Its key stays."),
    ] = False,
    crew: CrewName = None,
) -> None:
    """Remove what is left of a stopped agent.

    That is its container, and with --state also its folders.

    \b
    moothall worker rm planner
    moothall worker rm planner --state
    """
    office_of(crew).end({"do": "remove", "name": name, "with_folders": state}, say)

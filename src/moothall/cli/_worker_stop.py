"""`moothall worker stop` and `moothall worker kill`: end agents, or a whole crew."""

import typer

from moothall.cli._exits import tell
from moothall.cli._worker_crew import AgentNames, CrewName, office_of, say


def stop(names: AgentNames = None, crew: CrewName = None) -> None:
    """Stop agents; without names, everything that `up` has started.

    Each agent gets time to end its session. Without names, protected agents stay, and the hall with them: they are
    stopped by name. The folders of all agents stay, and `up` starts them again.

    \b
    moothall worker stop
    moothall worker stop planner coder
    """
    _end(names, crew, at_once=False)


def kill(names: AgentNames = None, crew: CrewName = None) -> None:
    """Kill agents at once; without names, all that are not protected.

    No process of an agent gets time to end by itself. Otherwise it is like `stop`.

    \b
    moothall worker kill planner
    """
    _end(names, crew, at_once=True)


def _end(names: list[str] | None, crew: str | None, *, at_once: bool) -> None:
    given = list(dict.fromkeys(names or ()))
    done = office_of(crew).end({"do": "stop", "names": given, "at_once": at_once}, say)
    if done["spared"]:
        spared = " ".join(done["spared"])
        tell(f"protected, and not stopped: {spared}. Stop by name: moothall worker stop {spared}")
    elif done["is_over"]:
        typer.echo("the crew is down")

"""`moothall worker up`: start a crew."""

import os
from pathlib import Path
from typing import Annotated

import typer

from moothall.cli._exits import FAILED, tell
from moothall.cli._worker_crew import say

FileArgument = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", help="The crew file. Default: crew.toml in this folder."),
]


def up(file: FileArgument = None) -> None:
    """Start all agents of a crew file, and return when they are up.

    Without a hall in the file, a hall of their own is started on a free port of this machine. What runs already is
    left alone. The exit code is 1 if an agent does not come up.

    \b
    moothall worker up
    moothall worker up examples/crew/crew.toml
    """
    from moothall.worker.crew import plan
    from moothall.worker.crew.office import Office
    from moothall.worker.crew.places import places_of

    path = (file or Path(plan.FILE)).absolute()
    path = path / plan.FILE if path.is_dir() else path
    tables = plan.document(path)
    crew = plan.parse(tables, path)
    office = Office(places_of(crew.name, os.environ), os.environ)
    done = office.order({"do": "up", "tables": tables, "file": str(path)}, say)
    if done["failed"]:
        names = ", ".join(done["failed"])
        tell(f"error: not up: {names}; `moothall worker logs NAME --runner` may say more")
        raise typer.Exit(FAILED)

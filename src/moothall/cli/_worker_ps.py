"""`moothall worker ps`: how a crew is."""

import json

import typer

from moothall.cli._connecting import AsJson
from moothall.cli._exits import tell
from moothall.cli._tables import Right, show_table
from moothall.cli._worker_crew import CrewName, office_of, places_of

HEADERS = ("agent", "state", Right("session"), Right("tokens"), Right("restarts"), "since", "last error")


def ps(crew: CrewName = None, as_json: AsJson = False) -> None:
    """Show how the agents of a crew are.

    \b
    moothall worker ps
    moothall worker ps --json | jq '.agents[] | select(.running | not) | .name'
    """
    from moothall.worker.crew import runtimes
    from moothall.worker.crew.overview import overview

    places, office = places_of(crew), office_of(crew)
    found = overview(places, office.record(), is_kept=office.is_kept())
    if as_json:
        typer.echo(json.dumps(found))
        return
    hall = found["hall"] + (" (does not run)" if found["hall_running"] is False else "")
    keeper = "" if found["keeper_running"] else ", no keeper"
    tell(f"crew {found['crew']}, hall {hall}, {found['isolation']}{keeper}")
    if not found["isolated"]:
        tell(runtimes.NO_ISOLATION)
    rows = [
        (
            each["name"] + (" (protected)" if each["protected"] else ""),
            each["state"],
            each["session"],
            each["tokens"],
            each["restarts"],
            each["since"],
            each["last_error"],
        )
        for each in found["agents"]
    ]
    show_table(HEADERS, rows, empty="the crew has no agents")
    if failed := [
        each["name"] for each in found["agents"] if each["last_error"] and each["state"] != "running"
    ]:
        tell(f"`moothall worker logs {failed[0]}` may say why, or with --runner or --supervisor")

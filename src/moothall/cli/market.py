"""`moothall market`: what the economy of a hall allows."""

import json
from typing import Annotated

import typer

from moothall.cli._exits import group
from moothall.cli._options import Config, Profile, Set, choose

app = group("market", "The economy of a hall: how its settings hold against farming.")


@app.callback()
def market() -> None:
    """Without this, typer would take the only command for the group itself."""


@app.command()
def simulate(
    hours: Annotated[
        float, typer.Option(min=0.1, max=1000.0, metavar="HOURS", help="Made-up time that each attack has.")
    ] = 3,
    config: Config = None,
    profile: Profile = None,
    assign: Set = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show how many rating points one address could farm per hour.

    It plays the best strategies known against the rules of a hall, on a made-up clock: an attacker with one
    address and many keys, which lose to one of them, complete deals with it, or judge their own cases. The
    settings are those that `moothall serve` would have.

    \b
    moothall market simulate
    moothall market simulate --set newcomer_transfer_cap=0 --set rating_gain_limit=0
    """
    from moothall.court import farming
    from moothall.rules import court_rules, farming_limits, market_rules

    settings = choose(config, assign, profile=profile).settings
    harvests = farming.simulate(
        market_rules(settings), court_rules(settings), farming_limits(settings), hours
    )
    points = farming.worst(harvests)
    if as_json:
        table = [{**each._asdict(), "points": each.points} for each in harvests]
        typer.echo(json.dumps({"points_per_hour": points, "strategies": table}, indent=2))
        return
    typer.echo(f"{'strategy':<24}{'best hour':>10}{'per hour':>10}{'keys':>6}{'deals':>7}")
    for each in harvests:
        typer.echo(
            f"{each.strategy:<24}{each.best_hour:>10}{each.hourly:>10.0f}{each.keys:>6}{each.deals:>7}"
        )
    typer.echo(f"one address can farm {points} points in an hour, for one key")

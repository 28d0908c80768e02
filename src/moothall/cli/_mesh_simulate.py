"""`moothall mesh simulate`: how well the entropy score finds cartels, and which stake makes them unprofitable."""

import json
import secrets
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from moothall.cli._connecting import AsJson
from moothall.cli._tables import Right, show_table
from moothall.errors import UsageError
from moothall.extras import install_command

if TYPE_CHECKING:
    from moothall.simulation import Result

LARGEST_SEED: Final = 2**32 - 1

_HEADERS: Final = (
    "cartel",
    Right("share"),
    Right("detected"),
    Right("false alarms"),
    Right("median epoch"),
    Right("95 % epoch"),
    Right("profit"),
    Right("least stake"),
)


class CartelType(StrEnum):
    C1 = "c1"
    C2 = "c2"


def simulate(
    agents: Annotated[int, typer.Option(metavar="N", min=2, max=10_000, help="Agents on the mesh.")] = 100,
    cartel_fraction: Annotated[
        float, typer.Option(metavar="SHARE", min=0.0, max=1.0, help="The share of them that are a cartel.")
    ] = 0.10,
    cartel_type: Annotated[
        CartelType,
        typer.Option(metavar="TYPE", help="c1 follows its script in everything, c2 in one thing at a time."),
    ] = CartelType.C1,
    epochs: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="Epochs of a trial.")] = 30,
    trials: Annotated[int, typer.Option(metavar="N", min=1, max=100_000, help="How often to play.")] = 500,
    base_stake: Annotated[
        float, typer.Option(metavar="CREDITS", min=0.0, max=1e12, help="What each agent puts aside.")
    ] = 10.0,
    rep_premium: Annotated[
        float,
        typer.Option(metavar="CREDITS", min=0.0, max=1e12, help="What a high reputation earns, per epoch."),
    ] = 5.0,
    slash_rate: Annotated[
        float,
        typer.Option(metavar="SHARE", min=0.0, max=1.0, help="The share of the stake that a flag costs."),
    ] = 0.5,
    anomaly_threshold: Annotated[
        float,
        typer.Option(metavar="LEVEL", min=0.0, max=10.0, help="The anomaly above which an agent is flagged."),
    ] = 0.55,
    seed: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=LARGEST_SEED, help="The same seed, the same result; 0 is a new one."
        ),
    ] = 42,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Both types of cartel, with 5, 10, 20 and 30 % of the agents.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Play cartels against the entropy score, to choose a stake.

    Agents of a cartel deal with each other by a script, for their reputation. Shown is how many are detected and
    when, how many honest agents are, what a cartel earns, and the least stake that makes it lose.

    \b
    moothall mesh simulate
    moothall mesh simulate --sweep --trials 100
    moothall mesh simulate --cartel-type c2 --anomaly-threshold 0.75 --json
    """
    try:
        from moothall import simulation
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        raise UsageError(
            f"`moothall mesh simulate` needs the extra simulate: {install_command('simulate')}"
        ) from None

    model = simulation.Model(
        agents=agents,
        cartel_fraction=cartel_fraction,
        cartel_type=cartel_type.value,
        epochs=epochs,
        trials=trials,
        base_stake=base_stake,
        rep_premium=rep_premium,
        slash_rate=slash_rate,
        anomaly_threshold=anomaly_threshold,
        seed=seed or 1 + secrets.randbelow(LARGEST_SEED),
    )
    if sweep:
        _show_all(list(simulation.sweep(model)), as_json=as_json)
    else:
        _show(simulation.simulate(model), as_json=as_json)


def _show_all(results: "Iterable[Result]", *, as_json: bool) -> None:
    from msgspec import to_builtins

    if as_json:
        typer.echo(json.dumps(to_builtins(results), indent=2))
        return
    show_table(_HEADERS, (_row(result) for result in results), empty="nothing was played")


def _row(result: "Result") -> tuple[str, ...]:
    return (
        result.cartel_type,
        f"{result.cartel_fraction:.0%}",
        f"{result.detection_rate:.1%}",
        f"{result.false_positive_rate:.1%}",
        _epoch(result.median_detection_epoch),
        _epoch(result.p95_detection_epoch),
        f"{result.median_cartel_profit:.2f}",
        "none" if result.min_stake is None else f"{result.min_stake:.2f}",
    )


def _show(result: "Result", *, as_json: bool) -> None:
    from msgspec import to_builtins

    if as_json:
        typer.echo(json.dumps(to_builtins(result), indent=2))
        return
    weights = ", ".join(f"{name} {weight:.0%}" for name, weight in result.component_weights.items())
    typer.echo(f"detected             {result.detection_rate:.1%} of the cartel's agents")
    typer.echo(f"false alarms         {result.false_positive_rate:.1%} of the honest agents")
    typer.echo(
        f"detection epoch      median {_epoch(result.median_detection_epoch)}, "
        f"95 % by {_epoch(result.p95_detection_epoch)}"
    )
    typer.echo(
        f"profit of an agent   median {result.median_cartel_profit:.2f}, mean {result.mean_cartel_profit:.2f}"
    )
    typer.echo(f"least stake          {_stake(result)}")
    typer.echo(f"detections due to    {weights}")
    typer.echo(f"seed                 {result.seed}")


def _epoch(epoch: float | None) -> str:
    return "never" if epoch is None else f"{epoch:g}"


def _stake(result: "Result") -> str:
    from moothall.simulation import MOST_STAKE

    if result.min_stake is None:
        return f"none up to {MOST_STAKE * result.base_stake:g} makes this cartel lose"
    return f"{result.min_stake:.2f} makes the median profit 0 or less"

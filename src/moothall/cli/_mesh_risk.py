"""`moothall mesh batch|risk`: how agents behaved in an epoch, from the log."""

import heapq
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from moothall.cli._agent_keys import AGENT_HELP, agent_key
from moothall.cli._connecting import AsJson
from moothall.cli._mesh_log import day_of, epoch_now
from moothall.cli._options import Config
from moothall.cli._stores import DataDir, StoreUrl, look_into, opened_store
from moothall.cli._tables import Right, show_table
from moothall.errors import UsageError

if TYPE_CHECKING:
    from moothall.market.behaviour import Risk
    from moothall.market.entropy import Entropy
    from moothall.store.dialect import Connection
    from moothall.wire.mesh.epochs import BehaviorBatch

COMPONENTS: Final = ("ht", "hb", "hs", "hv")
MILLIONTHS: Final = 1_000_000

Epoch = Annotated[
    int | None,
    typer.Option("--epoch", "-e", metavar="N", min=0, help="By default, today's.", show_default=False),
]


def batch(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help=AGENT_HELP, show_default=False)],
    epoch: Epoch = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the batch itself, in CBOR, to this file."),
    ] = None,
    data_dir: DataDir = None,
    store: StoreUrl = None,
    config: Config = None,
) -> None:
    """Sum up what an agent did in an epoch, as JSON.

    The behaviour batch of the mesh: counts of messages, bids, accepted offers, notaries and feedback, and the root
    of the hall's log. `batch_hash` is the Keccak-256 of the CBOR that -o writes.

    \b
    moothall mesh batch 03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8 --epoch 20773
    """
    chosen = epoch_now() if epoch is None else epoch
    day_of(chosen)
    key = look_into(data_dir, store, config, lambda books: agent_key(books, agent))
    with opened_store(data_dir, store, config) as connection:
        made = _batch(connection, key, chosen)
    if output is not None:
        try:
            output.expanduser().write_bytes(made.encode())
        except OSError as error:
            raise UsageError(f"{output}: {error.strerror}") from None
    typer.echo(json.dumps(_shown(made)))


def _batch(connection: "Connection", agent: bytes, epoch: int) -> "BehaviorBatch":
    from moothall.market.behaviour import Batch, concerns
    from moothall.store import reading_mesh_log as reading
    from moothall.store.migrations import require_current
    from moothall.wire.mesh.envelope import decode

    require_current(connection)
    with reading.one_moment(connection):
        batch = Batch(agent, epoch)
        for raw, at, notary in reading.around(connection, agent, epoch):
            envelope = decode(raw)
            if concerns(agent, envelope):
                batch.add(envelope, at // 1000, notary)
        return batch.finished(reading.tree(connection, epoch).root())


def _shown(made: "BehaviorBatch") -> dict[str, Any]:
    from msgspec import structs

    return {
        **{name: _plain(value) for name, value in structs.asdict(made).items()},
        "batch_hash": made.hash().hex(),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, int):
        return value
    if hasattr(value, "__struct_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    return [_plain(each) for each in value]


def risk(
    epoch: Epoch = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="Agents to show.")
    ] = 20,
    data_dir: DataDir = None,
    store: StoreUrl = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show how suspicious the agents of an epoch are.

    The most suspicious come first. Agents that follow a script have little entropy in their times (ht), bids (hb),
    the agents they choose (hs) and their notaries (hv). What is missing adds up to the anomaly. Above 0.55 an agent
    is suspicious. That proves nothing against it, but a stake can be chosen by it. The systemic risk is the share
    of suspicious agents.

    \b
    moothall mesh risk
    moothall mesh risk --epoch 20773 --json
    """
    chosen = epoch_now() if epoch is None else epoch
    day = day_of(chosen)
    with opened_store(data_dir, store, config) as connection:
        found, scores = _risk(connection, chosen, limit)
    from moothall.market.entropy import CIRCUIT_BREAKER

    report = {
        "epoch": chosen,
        "day": day,
        "agents": found.agents,
        "flagged": found.flagged,
        "systemic_risk": found.systemic,
        "circuit_breaker": found.systemic > CIRCUIT_BREAKER,
        "scores": scores,
    }
    if as_json:
        typer.echo(json.dumps(report))
        return
    _show_risk(report)


def _risk(connection: "Connection", epoch: int, limit: int) -> "tuple[Risk, list[dict[str, Any]]]":
    from moothall.identity.lockbox import public_of
    from moothall.market.behaviour import RiskCount, cluster_coefficients
    from moothall.store import reading_mesh_log as reading
    from moothall.store.hall_key import stored_key
    from moothall.store.migrations import require_current

    require_current(connection)
    worst: list[tuple[float, bytes, Entropy]] = []
    neighbours: dict[bytes, set[bytes]] = {}

    def scored(agent: bytes, entropy: "Entropy") -> None:
        entry = (entropy.anomaly, agent, entropy)
        if len(worst) < limit:
            heapq.heappush(worst, entry)
        else:
            heapq.heappushpop(worst, entry)

    def accepted(agent: bytes, other: bytes) -> None:
        neighbours.setdefault(agent, set()).add(other)
        neighbours.setdefault(other, set()).add(agent)

    with reading.one_moment(connection):
        key = stored_key(connection)
        count = RiskCount(epoch, b"" if key is None else public_of(key).raw, scored=scored, accepted=accepted)
        count.add(reading.acts(connection, epoch))
        found = count.finished()
    shown = sorted(worst, key=lambda entry: (-entry[0], entry[1]))
    clusters = cluster_coefficients(neighbours, [agent for _, agent, _ in shown])
    return found, [_score(agent, entropy, clusters[agent]) for _, agent, entropy in shown]


def _score(agent: bytes, entropy: "Entropy", cluster: float) -> dict[str, Any]:
    from moothall.market.entropy import required_stake

    return {
        "agent_id": agent.hex(),
        **{name: getattr(entropy, name) for name in COMPONENTS},
        "anomaly": entropy.anomaly,
        "flagged": entropy.is_flagged,
        "cluster_coefficient": cluster,
        "required_stake": required_stake(entropy.anomaly, cluster),
    }


def _show_risk(report: dict[str, Any]) -> None:
    over = "; over the circuit breaker" if report["circuit_breaker"] else ""
    typer.echo(
        f"epoch {report['epoch']} ({report['day']}): {report['flagged']} of {report['agents']} agents suspicious,"
        f" systemic risk {report['systemic_risk']:.2f}{over}"
    )
    show_table(
        ("agent", *map(Right, COMPONENTS), Right("anomaly"), "", Right("stake")),
        (
            (
                score["agent_id"],
                *("-" if score[name] is None else f"{score[name]:.2f}" for name in COMPONENTS),
                f"{score['anomaly']:.3f}",
                "suspicious" if score["flagged"] else "",
                f"{score['required_stake'] / MILLIONTHS:.2f}",
            )
            for score in report["scores"]
        ),
        empty="no agent did enough in this epoch to say anything about it",
    )

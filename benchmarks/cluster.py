"""`python -m benchmarks.cluster`: what several nodes cost. `--faults`: many operations while nodes fail.

All nodes are on this machine, with a NATS and a PostgreSQL of their own. Runs of one row are interleaved, a ratio
is taken between runs of the same round, and the median counts. A bound that is not reached is printed as MUST
MISSED; the exit code is 0 all the same. `--faults` ends with 1 if a promise was broken, and prints which; so does
`--stories`, which needs neither NATS nor PostgreSQL.
"""

import argparse
import asyncio
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.build import BuildFailed, build_generator
from benchmarks.measure import TIME_LIMIT, WARM_UP, RunFailed
from benchmarks.servers import ROOT
from benchmarks.workloads import Run
from tests.store.server import Server
from tests.support.namespaces import BACK, Machine, Networks, missing
from tests.support.nats_server import NatsServer
from tests.support.real_cluster import RealCluster
from tests.support.stories import broken
from tests.support.storm import Storm, wounds_of

FLAGS: Final = ("--no-keep", "--set", "idle_prompts=false")
PER_FAULT: Final = 500  # operations
LONG: Final = 600.0  # seconds for a crowd to come in


@dataclass(frozen=True, slots=True)
class Setup:
    """`nodes` of one hall. Without a bus there is one."""

    label: str
    nodes: int
    workload: tuple[str, ...]
    ports: int = 1  # nodes that agents connect to
    place: str = "round"
    has_bus: bool = True
    both_cores: bool = False


def cpu(run: Run) -> float:
    return run.server_cpu_us_per_delivery


def capacity(run: Run) -> float:
    """Deliveries per second, if each node had a core for itself and did nothing else."""
    return 1e6 / run.server_cpu_us_per_delivery


def memory(run: Run) -> float:
    return (run.rss_after_kb - run.rss_before_kb) / run.deliveries


def seconds(run: Run) -> float:
    return run.seconds


@dataclass(frozen=True, slots=True)
class Row:
    """`setups[1]` as a multiple of `setups[0]`, or `setups[0]` as it is."""

    name: str
    title: str
    unit: str
    of: Callable[[Run], float]
    setups: tuple[Setup, ...]
    at_most: float | None = None
    at_least: float | None = None
    times: float = 1.0  # of the ratio: cores that the second setup has for each one of the first
    rounds: int | None = None


_FAN_OUT: Final = ("fanout", "--members", "100", "--in-flight", "8")
_PAIRS: Final = ("dm", "--agents", "200")
_ONE: Final = Setup("one node", 1, _PAIRS, has_bus=False)

ROWS: Final = (
    Row(
        "local",
        "fan-out 1 -> 100 on one node, with a bus and an empty node; beside no bus",
        "CPU us per delivery",
        cpu,
        (Setup("no bus", 1, _FAN_OUT, has_bus=False), Setup("bus", 2, _FAN_OUT)),
        at_most=1.1,
    ),
    Row(
        "local-dm",
        "200 agents in pairs on one node, with a bus and an empty node; beside no bus",
        "CPU us per delivery",
        cpu,
        (_ONE, Setup("bus", 2, _PAIRS)),
        at_most=1.1,
    ),
    Row(
        "hop",
        "fan-out 1 -> 100: the sender on another node than all members; beside all on one node of two",
        "CPU us per delivery, of both nodes",
        cpu,
        (Setup("local", 2, _FAN_OUT), Setup("remote", 2, _FAN_OUT, ports=2, place="apart")),
        at_most=3.0,
    ),
    Row(
        "spread",
        "fan-out 1 -> 200, half of them on each of two nodes; beside 1 -> 200 on one of them",
        "CPU us per delivery, of both nodes",
        cpu,
        (
            Setup("local", 2, ("fanout", "--members", "200", "--in-flight", "8")),
            Setup("spread", 2, ("fanout", "--members", "200", "--in-flight", "8"), ports=2),
        ),
    ),
    Row(
        "two-nodes",
        "200 agents in pairs, each pair on one of two nodes; beside one node without a bus",
        "deliveries per second of cores of their own",
        capacity,
        (_ONE, Setup("two nodes", 2, _PAIRS, ports=2, place="pairs", both_cores=True)),
        at_least=1.7,
        times=2.0,
    ),
    Row(
        "two-nodes-remote",
        "the same, the two of each pair on different nodes",
        "deliveries per second of cores of their own",
        capacity,
        (_ONE, Setup("two nodes", 2, _PAIRS, ports=2, both_cores=True)),
        times=2.0,
    ),
    Row(
        "crowd",
        "10,000 agents over 4 nodes, all of which know all of them",
        "KB per agent, of all nodes",
        memory,
        (Setup("four nodes", 4, ("hold", "--connections", "10000"), ports=4, both_cores=True),),
        rounds=1,
    ),
    Row(
        "storm",
        "5,000 agents join one channel over 4 nodes as fast as they can",
        "seconds",
        seconds,
        (Setup("four nodes", 4, ("storm", "--connections", "5000"), ports=4, both_cores=True),),
        rounds=1,
    ),
)


def main() -> None:
    options = _options()
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, lambda *_: sys.exit(1))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if options.stories:
        sys.exit(_tell(options.seed, options.stories))
    if options.faults:
        _storm(options.seed, options.operations)
        return
    try:
        generator = build_generator()
    except BuildFailed as failure:
        sys.exit(str(failure))
    print("| row | | each round | ratio | bound |\n|---|---|---|---|---|")
    for row in ROWS:
        if not options.only or row.name in options.only:
            _measure(row, generator, row.rounds or options.rounds, options.seconds)


def _measure(row: Row, generator: Path, rounds: int, window: float) -> None:
    values: list[list[float]] = []
    try:
        for number in range(1, rounds + 1):
            values.append([])
            for setup in row.setups:
                print(f"{row.name}: round {number}, {setup.label}", file=sys.stderr, flush=True)
                values[-1].append(row.of(_run(setup, generator, window)))
    except RunFailed as failure:
        print(f"| `{row.name}` | {row.title} | failed: {failure} | | |", flush=True)
        return
    texts = "; ".join(" / ".join(f"{value:.3g}" for value in each) for each in values)
    labels = " / ".join(setup.label for setup in row.setups)
    ratio = ""
    verdict = ""
    if len(row.setups) == 2:
        middle = statistics.median(row.times * each[1] / each[0] for each in values)
        ratio = f"{middle:.2f}"
        if row.at_most is not None:
            verdict = f"<= {row.at_most}: {'met' if middle <= row.at_most else 'MUST MISSED'}"
        if row.at_least is not None:
            verdict = f">= {row.at_least}: {'met' if middle >= row.at_least else 'MUST MISSED'}"
    print(f"| `{row.name}` | {row.title}; {row.unit} | {labels}: {texts} | {ratio} | {verdict} |", flush=True)


def _run(setup: Setup, generator: Path, window: float) -> Run:
    first, second = sorted(os.sched_getaffinity(0))[:2]
    with _cluster(setup.nodes, has_bus=setup.has_bus) as cluster:
        asyncio.run(cluster.together())
        for number, node in enumerate(cluster.nodes):
            core = second if setup.both_cores and number % 2 else first
            os.sched_setaffinity(node.process.pid, {core})
        command = [
            *(str(generator), *setup.workload, "--place", setup.place),
            *("--port", ",".join(str(node.port) for node in cluster.nodes[: setup.ports])),
            *("--pid", ",".join(str(node.process.pid) for node in cluster.nodes)),
            *("--seconds", str(window), "--warm-up", str(WARM_UP)),
        ]
        is_long = setup.workload[0] in ("hold", "storm")
        try:
            outcome = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=LONG if is_long else TIME_LIMIT,
                check=False,
                cwd=ROOT,
                preexec_fn=None if setup.both_cores else lambda: os.sched_setaffinity(0, {second}),
            )
        except subprocess.TimeoutExpired:
            raise RunFailed(f"{setup.label} was not finished in time") from None
        if outcome.returncode != 0:
            raise RunFailed(f"{setup.label}: {outcome.stderr.strip() or outcome.returncode}")
        return msgspec.json.decode(outcome.stdout, type=Run)


@contextmanager
def _cluster(nodes: int, *, has_bus: bool) -> Iterator[RealCluster]:
    server = Server()
    try:
        with tempfile.TemporaryDirectory(prefix="moothall-bench-") as name:
            folder = Path(name)
            nats = NatsServer(folder / "nats")
            cluster = RealCluster(
                folder, server.new_database(), nats.url if has_bus else "", *FLAGS, nodes=nodes
            )
            try:
                if has_bus:
                    nats.start()
                cluster.start()
                yield cluster
            finally:
                cluster.kill()
                nats.kill()
    finally:
        server.stop()


def _tell(first: int, number: int) -> int:
    """Stories of nodes that fail, in memory. 1 if a promise was broken in one of them."""
    is_broken = False
    for seed in range(first, first + number):
        if problems := broken(seed):
            is_broken = True
            print(f"seed {seed}:", *problems, sep="\n    ", flush=True)
    return int(is_broken)


def _storm(seed: int, operations: int) -> None:
    """Three nodes, and each fault in turn, again and again."""
    print(f"seed {seed}", flush=True)
    if (reason := missing()) is not None:
        print(f"no cables are cut: {reason}")
        _storm_on((), "127.0.0.1", seed, operations)
        return
    with Networks(3) as networks:
        _storm_on(networks.machines, BACK, seed, operations)


def _storm_on(machines: Sequence[Machine], address: str, seed: int, operations: int) -> None:
    server = Server(address)
    try:
        with tempfile.TemporaryDirectory(prefix="moothall-storm-") as name:
            folder = Path(name)
            nats = NatsServer(folder / "nats", address=address)
            cluster = RealCluster(folder, server.new_database(), nats.url, nodes=3, machines=machines)
            try:
                nats.start()
                cluster.start()
                asyncio.run(_rage(cluster, nats, server, folder, seed, operations))
            finally:
                cluster.kill()
                nats.kill()
    finally:
        server.stop()


async def _rage(
    cluster: RealCluster, nats: NatsServer, server: Server, folder: Path, seed: int, operations: int
) -> None:
    await cluster.together()
    storm = Storm(cluster, random.Random(seed), agents=24, channels=5, dealers=8)  # noqa: S311
    wounds = wounds_of(storm, cluster, nats, server)
    await storm.run(wounds * max(1, operations // PER_FAULT // len(wounds)), operations)
    await storm.go()
    cluster.kill()
    try:
        storm.check(folder)
    except AssertionError as broken:
        sys.exit(str(broken))
    print(f"{storm.operations} operations, {storm.deals} steps of deals: no promise was broken")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    names: Sequence[str] = [row.name for row in ROWS]
    parser.add_argument("--only", action="append", choices=names, help="this row (may be repeated)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each measured window (2)")
    parser.add_argument("--rounds", type=int, default=3, help="runs per setup, interleaved (3)")
    parser.add_argument("--faults", action="store_true", help="try the promises instead of measuring")
    parser.add_argument("--stories", type=int, help="tell so many stories of nodes that fail, in memory")
    parser.add_argument("--operations", type=int, default=6000, help="with --faults: so many (6000)")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the random choices (1), or of the first story"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()

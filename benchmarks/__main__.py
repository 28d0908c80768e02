"""`python -m benchmarks`: measure the hall beside the relay, nats-server and Redis.

The exit code is 0 whatever the numbers are: a machine with company cannot fail a build. A missed bound is
printed as MUST MISSED.
"""

import argparse
import os
import resource
import signal
import sys
from pathlib import Path

import msgspec

from benchmarks import abuse
from benchmarks.attacks import ATTACKS
from benchmarks.build import BUILD, BuildFailed, build_generator, build_slow_disk
from benchmarks.compiled import NotCompiled, beside_compiled, check
from benchmarks.deals import DEALS
from benchmarks.envelopes import ENVELOPES
from benchmarks.keep import KEEP
from benchmarks.measure import ATTEMPTS, Bench, Measurement, measure
from benchmarks.report import as_json, summary, table
from benchmarks.store import fsync_time
from benchmarks.workloads import WORKLOADS

ALL = (*WORKLOADS, *DEALS, *KEEP, *ENVELOPES)
ABUSE = "abuse"
NAMES = (*(workload.name for workload in ALL), ABUSE)


def main() -> None:
    BUILD.mkdir(exist_ok=True)
    options = _options()
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, lambda *_: sys.exit(1))  # on the way out, the server under test is stopped too
    _raise_file_limit()
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        sys.exit("The benchmarks need two processors: one for the server, one for the generator.")
    try:
        generator = build_generator()
        build_slow_disk()
        if options.compiled:
            check(options.compiled)
    except (BuildFailed, NotCompiled) as failure:
        sys.exit(str(failure))

    rounds, seconds, attempts = (1, 1.0, 1) if options.quick else (options.rounds, options.seconds, ATTEMPTS)
    disk: Path = options.disk
    bench = Bench(
        generator,
        disk,
        server_cpu=cpus[0],
        generator_cpu=cpus[1],
        seconds=seconds,
        rounds=rounds,
        attempts=attempts,
    )
    measurements: list[Measurement] = []
    fsync = fsync_time(disk)
    print(f"An fsync in {disk} takes {fsync * 1e3:.2f} ms.", end="\n\n", flush=True)
    for workload in ALL:
        if not options.only or workload.name in options.only:
            chosen = beside_compiled(workload, options.compiled) if options.compiled else workload
            measurements.append(measure(bench, chosen))
            print(table(measurements[-1]), end="\n\n", flush=True)
    print(summary(measurements))
    if not options.only or ABUSE in options.only:
        print("\nWhat honest agents notice of hostile ones:\n")
        abuse.run(ATTACKS[:1] if options.quick else ATTACKS, abuse.CONNECTIONS, cpus)
    if options.json:
        options.json.write_bytes(
            msgspec.json.format(msgspec.json.encode(as_json(bench, fsync, measurements)))
        )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", choices=NAMES, help="this workload (may be repeated)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each measured window (2)")
    parser.add_argument("--rounds", type=int, default=3, help="runs per server, interleaved (3)")
    parser.add_argument(
        "--compiled",
        type=lambda path: Path(path).resolve(),
        metavar="VENV",
        help="measure the compiled wheel in this virtual environment too",
    )
    parser.add_argument("--quick", action="store_true", help="one round of one second: a smoke test")
    parser.add_argument(
        "--disk",
        type=Path,
        default=BUILD,
        metavar="FOLDER",
        help="where databases are; a real disk, not tmpfs",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run to this file")
    return parser.parse_args()


def _raise_file_limit() -> None:
    """Servers and generator inherit it; 5,000 agents are more than the usual 1,024 files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    main()

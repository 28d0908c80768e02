"""Rounds of runs: every server in turn, on one processor, with the generator on another."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.servers import ROOT, SCRIPTS, SERVERS, ServerFailed, running
from benchmarks.workloads import Contender, Run, Workload

WARM_UP: Final = 0.5  # seconds
TIME_LIMIT: Final = 120.0
MAX_OTHERS: Final = 0.02  # a run that had to share more of the machine than this is repeated
ATTEMPTS: Final = 3


class RunFailed(Exception):
    """The generator gave up on a server. The message is the generator's."""


@dataclass(frozen=True, slots=True)
class Bench:
    generator: Path
    disk: Path
    server_cpu: int
    generator_cpu: int
    seconds: float
    rounds: int
    attempts: int = ATTEMPTS  # at a run that had the machine to itself


@dataclass(slots=True)
class Measurement:
    """The runs of one workload, one per round and contender, and why others have none."""

    workload: Workload
    runs: dict[str, list[Run]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def measure(bench: Bench, workload: Workload) -> Measurement:
    measurement = Measurement(workload)
    seconds = max(bench.seconds, workload.at_least_seconds)
    for number in range(1, bench.rounds + 1):
        for contender in workload.contenders:
            if contender.label in measurement.failures:
                continue
            print(f"{workload.name}: round {number}, {contender.label}", file=sys.stderr, flush=True)
            try:
                run = _undisturbed_run(bench, contender, seconds)
            except (RunFailed, ServerFailed) as failure:
                measurement.failures[contender.label] = str(failure)
                measurement.runs.pop(contender.label, None)
            else:
                measurement.runs.setdefault(contender.label, []).append(run)
    return measurement


def _undisturbed_run(bench: Bench, contender: Contender, seconds: float) -> Run:
    """The first run that had the machine to itself, or else the one that was disturbed least."""
    runs: list[Run] = []
    while len(runs) < bench.attempts:
        runs.append(_run(bench, contender, seconds))
        if runs[-1].others <= MAX_OTHERS:
            break
    return min(runs, key=lambda run: run.others)


def _run(bench: Bench, contender: Contender, seconds: float) -> Run:
    cpus = {bench.server_cpu, bench.generator_cpu} if contender.both_cores else {bench.server_cpu}
    if contender.server is None:
        module = [sys.executable, "-m", *contender.arguments, str(seconds)]
        return _outcome(module, cpus)
    scripts = contender.venv / "bin" if contender.venv else SCRIPTS
    with running(SERVERS[contender.server], cpus, bench.disk, scripts) as server:
        generator = (
            [sys.executable, "-m", contender.generator] if contender.generator else [str(bench.generator)]
        )
        command = [
            *(*generator, *contender.arguments),
            *("--wire", server.server.wire, "--port", str(server.port), "--pid", str(server.pid)),
            *("--seconds", str(seconds), "--warm-up", str(WARM_UP)),
        ]
        return _outcome(command, {bench.generator_cpu})


def _outcome(command: list[str], cpus: set[int]) -> Run:
    """What a program that measures says at its end."""
    try:
        outcome = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
            check=False,
            cwd=ROOT,
            preexec_fn=lambda: os.sched_setaffinity(0, cpus),
        )
    except subprocess.TimeoutExpired:
        raise RunFailed(f"not finished after {TIME_LIMIT:.0f} s") from None
    if outcome.returncode != 0:
        raise RunFailed(outcome.stderr.strip() or f"the generator ended with {outcome.returncode}")
    return msgspec.json.decode(outcome.stdout, type=Run)

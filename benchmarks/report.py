"""Medians, ratios and verdicts, as tables for people and as JSON for programs."""

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec

from benchmarks.measure import MAX_OTHERS, Bench, Measurement
from benchmarks.results import Judged, Machine, Results, Spread, WorkloadResult, spread
from benchmarks.servers import ServerFailed, installed
from benchmarks.workloads import Bound, Quantity, Run

LABEL: Final = 30  # characters of a contender's label
GENERATOR_LIMIT: Final = 0.9  # busier than this, the generator may be what is measured


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a bound's quantity came to in each round; empty when it could not be measured."""

    bound: Bound
    values: tuple[float, ...]

    @property
    def value(self) -> float | None:
        return median(self.values) if self.values else None

    @property
    def must_missed(self) -> bool:
        return self.value is not None and self.value > self.bound.must

    def __str__(self) -> str:
        against = f" / {self.bound.against}" if self.bound.against else ""
        text = f"{self.bound.measured + against:<48}"
        if self.bound.quantity is not None:
            text += f" {self.bound.quantity.unit}"
        if self.value is None:
            return f"{text} not measured; must <= {self.bound.must:.3g}"
        text += f" {self.value:>6.3f}"
        if len(self.values) > 1:
            text += f" ({min(self.values):.3f} - {max(self.values):.3f})"
        text += f"   must <= {self.bound.must:.3g} " + ("MUST MISSED" if self.must_missed else "met")
        if self.bound.aim is not None:
            text += f", aim <= {self.bound.aim:.3g} " + ("met" if self.value <= self.bound.aim else "missed")
        return text


def judge(measurement: Measurement) -> list[Verdict]:
    return [
        Verdict(bound, _values(measurement, bound.measured, bound.against, bound.quantity))
        for bound in measurement.workload.bounds
    ]


def _values(
    measurement: Measurement, measured: str, against: str | None, quantity: Quantity | None = None
) -> tuple[float, ...]:
    """Ratios are taken within a round, whose runs shared the same minute of a machine that changes its speed."""
    of = (quantity or measurement.workload.quantity).of
    ours = measurement.runs.get(measured, [])
    if against is None:
        return tuple(of(run) for run in ours)
    theirs = measurement.runs.get(against, [])
    return tuple(of(one) / of(other) for one, other in zip(ours, theirs, strict=False) if of(other))


def table(measurement: Measurement) -> str:
    workload = measurement.workload
    heading = f"{workload.quantity.unit:>26}  {'per second':>11}  {'p50':>9}  {'p99':>9}  {'generator':>9}"
    lines = [workload.title, f"  {'':<{LABEL}}{heading}"]
    for contender in workload.contenders:
        if contender.label in measurement.failures:
            lines.append(f"  {contender.label:<{LABEL}}  {measurement.failures[contender.label]}")
        else:
            lines.append(
                f"  {contender.label:<{LABEL}}{_row(measurement, measurement.runs[contender.label])}"
            )
    lines += [f"  {verdict}" for verdict in judge(measurement)]
    return "\n".join(lines)


def _row(measurement: Measurement, runs: list[Run]) -> str:
    value = median(measurement.workload.quantity.of(run) for run in runs)
    rate = median(run.deliveries_per_second for run in runs)
    load = median(run.generator_load for run in runs)
    others = max(run.others for run in runs)
    row = f"{value:>26,.2f}  {rate:>11,.0f}  {_duration(median(run.p50_us for run in runs)):>9}  "
    row += f"{_duration(median(run.p99_us for run in runs)):>9}  {load:>9.0%}"
    if load > GENERATOR_LIMIT:
        row += "  (the generator is the limit)"
    if others > MAX_OTHERS:
        row += f"  (disturbed: {others:.0%})"
    return row


def _duration(us: float) -> str:
    return f"{us:,.0f} us" if us < 10_000 else f"{us / 1000:,.1f} ms"


def summary(measurements: list[Measurement]) -> str:
    verdicts = [(m.workload.name, verdict) for m in measurements for verdict in judge(m)]
    missed = [f"  {name}: {verdict}" for name, verdict in verdicts if verdict.must_missed]
    unknown = sorted({name for name, verdict in verdicts if verdict.value is None})
    lines = ["MUST MISSED:", *missed] if missed else ["No bound that was measured is missed."]
    if unknown:
        lines.append(f"Not measured: {', '.join(unknown)}")
    disturbed = [m.workload.name for m in measurements if _was_disturbed(m)]
    if disturbed:
        lines.append(f"Disturbed by others, so neither met nor missed is worth much: {', '.join(disturbed)}")
    return "\n".join(lines)


def _was_disturbed(measurement: Measurement) -> bool:
    return any(run.others > MAX_OTHERS for runs in measurement.runs.values() for run in runs)


def as_json(bench: Bench, fsync: float, measurements: list[Measurement]) -> dict[str, Any]:
    """The results, with every run."""
    results = Results(
        date=datetime.now(UTC).date().isoformat(),
        machine=Machine(_processor(), os.cpu_count(), platform.release()),
        versions=_versions(),
        seconds=bench.seconds,
        rounds=bench.rounds,
        fsync_seconds=fsync,
        workloads=[_result(measurement) for measurement in measurements],
    )
    found: dict[str, Any] = msgspec.to_builtins(results)
    for row, measurement in zip(found["workloads"], measurements, strict=True):
        row |= {"runs": measurement.runs, "failures": measurement.failures}
    return found


def _result(measurement: Measurement) -> WorkloadResult:
    workload = measurement.workload
    medians = {label: spread(_values(measurement, label, None)) for label in measurement.runs}
    ratios = {
        label: {other: spread(_values(measurement, label, other)) for other in medians if other != label}
        for label in medians
    }
    return WorkloadResult(
        name=workload.name,
        title=workload.title,
        unit=workload.quantity.unit,
        medians=_present(medians),
        ratios={label: _present(row) for label, row in ratios.items()},
        bounds=[
            Judged(
                measured=verdict.bound.measured,
                against=verdict.bound.against,
                unit=(verdict.bound.quantity or workload.quantity).unit,
                must=verdict.bound.must,
                aim=verdict.bound.aim,
                spread=spread(verdict.values),
            )
            for verdict in judge(measurement)
        ],
        disturbed=_was_disturbed(measurement),
    )


def _present(found: dict[str, Spread | None]) -> dict[str, Spread]:
    return {label: each for label, each in found.items() if each is not None}


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _versions() -> dict[str, str]:
    """Of all programs and libraries that were measured; those that are not installed are left out."""
    found = {"Python": platform.python_version(), "moothall": version("moothall")}
    found |= {library: version(library) for library in ("websockets", "uvloop", "msgspec")}
    for program in ("nats-server", "redis-server"):
        try:
            words = [installed(program), "--version"]
        except ServerFailed:
            continue
        answer = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        number = re.search(r"v=?(\d+(\.\d+)+)", answer)
        found[program] = number[1] if number else answer.strip()
    return found

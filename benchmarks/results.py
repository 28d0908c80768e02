"""What a run of the benchmarks comes to: medians and ranges.

`--json` writes them with every run; results.json has them without.
"""

from pathlib import Path
from statistics import median
from typing import Final

import msgspec

HERE: Final = Path(__file__).parent
RESULTS: Final = HERE / "results.json"  # what the tables in the documentation are made of


class Spread(msgspec.Struct, frozen=True):
    """The median of the rounds, and their range."""

    value: float
    low: float
    high: float


class Judged(msgspec.Struct, frozen=True):
    """A bound, and what was measured; None when one of the two was not."""

    measured: str
    against: str | None
    unit: str
    must: float
    aim: float | None
    spread: Spread | None


class WorkloadResult(msgspec.Struct, frozen=True):
    name: str
    title: str
    unit: str
    medians: dict[str, Spread]  # by contender
    ratios: dict[str, dict[str, Spread]]  # of each contender to each other one, taken within rounds
    bounds: list[Judged]
    disturbed: bool  # True when others took more of the machine than a run may lose


class Machine(msgspec.Struct, frozen=True):
    processor: str
    cpus: int | None
    kernel: str


class Results(msgspec.Struct, frozen=True):
    date: str
    machine: Machine
    versions: dict[str, str]
    seconds: float
    rounds: int
    fsync_seconds: float
    workloads: list[WorkloadResult]


def spread(values: tuple[float, ...]) -> Spread | None:
    """None of no values."""
    return Spread(*(_rounded(v) for v in (median(values), min(values), max(values)))) if values else None


def _rounded(value: float) -> float:
    """Four digits are more than any machine can repeat."""
    return float(f"{value:.4g}")


def read(path: Path = RESULTS) -> Results:
    """From either kind of file."""
    return msgspec.json.decode(path.read_bytes(), type=Results)

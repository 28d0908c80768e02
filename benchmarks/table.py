"""The tables in the documentation, made of one run of the benchmarks.

    python -m benchmarks.table [RESULT]

keeps the medians and ranges of RESULT in results.json, and writes the tables into README.md and
benchmarks/README.md. `python -m benchmarks --json RESULT` makes RESULT; without it, the tables are made of
results.json.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from benchmarks.compiled import COMPILED
from benchmarks.results import HERE, RESULTS, Results, Spread, WorkloadResult, read

BEGIN: Final = "<!-- Made by `python -m benchmarks.table`. -->"
END: Final = "<!-- End of what is made. -->"
OTHERS: Final = {"relay": "the relay", "nats": "nats-server", "redis": "Redis"}


class Row(NamedTuple):
    """Of a table in the README."""

    workload: str
    measured: str
    title: str


class SignedRow(NamedTuple):
    workload: str
    measured: str
    yardstick: str  # the contender that only verifies
    title: str


TO_SERVERS: Final = (
    Row("fanout-10", "moothall", "one speaker, 10 members"),
    Row("fanout-100", "moothall", "one speaker, 100 members"),
    Row("fanout-500", "moothall", "one speaker, 500 members"),
    Row("busy", "moothall", "20 speakers, 100 listeners"),
    Row("dm", "moothall", "direct messages, all rules on"),
    Row("handshake", "moothall", "verified handshake (the relay's is unverified)"),
    Row("memory", "moothall", "memory of an idle agent"),
)
TO_SIGNATURES: Final = (
    SignedRow(
        "deals", "moothall", "3 verifications", "a deal: three steps, each on the disk before its answer"
    ),
    SignedRow("keep", "16 senders", "1 verification", "a keep packet"),
    SignedRow("mesh", "BROADCAST, 1 sender", "1 verification", "a broadcast on the mesh, logged"),
    SignedRow("mesh", "PROPOSE, 16 senders", "1 verification", "an offer on the mesh, on the disk"),
)


def short_tables(results: Results) -> str:
    """For README.md."""
    found = {workload.name: workload for workload in results.workloads}
    compiled = _has_compiled(results)
    others = [(label, f"to {name}") for label, name in OTHERS.items()]
    builds = [("", ""), *([(COMPILED, "compiled, ")] if compiled else [])]
    columns = [(build, label, prefix + title) for build, prefix in builds for label, title in others]
    servers = _table(
        ["", *(title for _, _, title in columns)],
        (
            [
                row.title,
                *(_times(found, row.workload, row.measured + build, other) for build, other, _ in columns),
            ]
            for row in TO_SERVERS
        ),
    )
    signatures = _table(
        ["", *(f"{prefix}to its signatures alone" for _, prefix in builds)],
        (
            [
                row.title,
                *(_times(found, row.workload, row.measured + build, row.yardstick) for build, _ in builds),
            ]
            for row in TO_SIGNATURES
        ),
    )
    return "\n\n".join((_circumstances(results), servers, signatures))


def long_tables(results: Results) -> str:
    """For benchmarks/README.md."""
    measured = _table(
        ["workload", "unit", "median"],
        ([workload.title, workload.unit, _medians(workload)] for workload in results.workloads),
    )
    bounds = _table(
        ["workload", "bound on", "median (range)", "must", "aim"],
        (
            [
                workload.name,
                bound.measured
                + (f" / {bound.against}" if bound.against else "")
                + (f", {bound.unit}" if bound.unit != workload.unit else ""),
                _with_range(bound.spread),
                _verdict(bound.spread, bound.must),
                _verdict(bound.spread, bound.aim),
            ]
            for workload in results.workloads
            for bound in workload.bounds
        ),
    )
    return "\n\n".join((_circumstances(results), measured, bounds))


def _circumstances(results: Results) -> str:
    machine, versions = results.machine, results.versions
    programs = ", ".join(f"{name} {number}" for name, number in versions.items() if name != "moothall")
    sentences = [
        f"{results.date}: {machine.processor}, {machine.cpus} processors, Linux {machine.kernel}, {programs}.",
        f"Medians of {results.rounds} rounds of {results.seconds:g} seconds; ratios are taken within rounds."
        if results.rounds > 1
        else f"**One round of {results.seconds:g} second: a smoke test, which says little.**",
    ]
    if disturbed := [workload.name for workload in results.workloads if workload.disturbed]:
        all_of_them = len(disturbed) == len(results.workloads)
        names = "all workloads" if all_of_them else ", ".join(f"`{name}`" for name in disturbed)
        sentences.append(f"Other work on the machine disturbed {names}.")
    return "\n".join(sentences)


def _has_compiled(results: Results) -> bool:
    return any(label.endswith(COMPILED) for workload in results.workloads for label in workload.medians)


def _times(found: dict[str, WorkloadResult], name: str, measured: str, against: str) -> str:
    workload = found.get(name)
    ratio = workload.ratios.get(measured, {}).get(against) if workload else None
    return f"{ratio.value:.2f}x" if ratio else ""


def _medians(workload: WorkloadResult) -> str:
    return ", ".join(
        f"{label.replace(', ', ' ')} {_number(each.value)}" for label, each in workload.medians.items()
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _with_range(found: Spread | None) -> str:
    if found is None:
        return "not measured"
    return f"{found.value:.3g}" + (f" ({found.low:.3g} - {found.high:.3g})" if found.low < found.high else "")


def _verdict(found: Spread | None, bound: float | None) -> str:
    if bound is None:
        return ""
    if found is None:
        return f"{bound:.3g}"
    return f"{bound:.3g}: met" if found.value <= bound else f"{bound:.3g}: **missed**"


def _table(head: list[str], rows: Iterator[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


PAGES: Final[dict[Path, Callable[[Results], str]]] = {
    HERE.parent / "README.md": short_tables,
    HERE / "README.md": long_tables,
}


def written(page: str, tables: str) -> str:
    """The page with these tables between its two comments."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"The page lacks {BEGIN} or {END}")
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.table", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("result", type=Path, nargs="?", default=RESULTS, help="what `--json` wrote")
    results = read(parser.parse_args().result)
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")
    for page, tables in PAGES.items():
        page.write_text(written(page.read_text(), tables(results)))


if __name__ == "__main__":
    main()

"""What the benchmarks make of their runs: ratios, rows of the compiled build, tables in the documentation."""

from pathlib import Path

import msgspec
import pytest
from benchmarks.build import BUILD
from benchmarks.compiled import COMPILED, NotCompiled, beside_compiled, check
from benchmarks.deals import DEALS
from benchmarks.envelopes import ENVELOPES
from benchmarks.keep import KEEP
from benchmarks.measure import Bench, Measurement
from benchmarks.report import as_json
from benchmarks.results import RESULTS, Results, read
from benchmarks.servers import SERVERS, ServerFailed, installed
from benchmarks.table import BEGIN, END, PAGES, TO_SERVERS, TO_SIGNATURES, long_tables, short_tables, written
from benchmarks.workloads import WORKLOADS, Run, Workload

ALL = {workload.name: workload for workload in (*WORKLOADS, *DEALS, *KEEP, *ENVELOPES)}
VENV = Path("elsewhere")


def run_of(cost: float, others: float = 0.0) -> Run:
    return Run(
        workload="fanout",
        wire="agentchat",
        deliveries=1000,
        seconds=2.0,
        deliveries_per_second=500.0,
        server_cpu_seconds=cost / 1000,
        server_cpu_us_per_delivery=cost,
        p50_us=1.0,
        p99_us=2.0,
        max_us=3.0,
        generator_load=0.5,
        others=others,
        rss_before_kb=0,
        rss_after_kb=0,
        notices=0,
    )


def results_of(workload: Workload, runs: dict[str, list[Run]]) -> Results:
    """As they come back from the file that `--json` writes."""
    bench = Bench(Path("generator"), BUILD, server_cpu=0, generator_cpu=1, seconds=2.0, rounds=2)
    written_there = msgspec.json.encode(as_json(bench, 0.001, [Measurement(workload, runs)]))
    return msgspec.json.decode(written_there, type=Results)


@pytest.mark.parametrize("page", PAGES, ids=("README", "benchmarks"))
def test_the_tables_in_the_documentation_are_those_of_the_results(page: Path) -> None:
    assert written(page.read_text(), PAGES[page](read())) == page.read_text()


def test_the_results_are_kept_as_they_are_written() -> None:
    assert msgspec.json.format(msgspec.json.encode(read())) + b"\n" == RESULTS.read_bytes()


def test_a_page_without_the_comments_is_not_overwritten() -> None:
    assert written(f"a{BEGIN}old{END}b", "new") == f"a{BEGIN}\n\nnew\n\n{END}b"
    with pytest.raises(ValueError, match="lacks"):
        written(f"a{BEGIN}old", "new")


def test_the_readme_names_what_is_measured() -> None:
    wanted = [(row.workload, row.measured) for row in (*TO_SERVERS, *TO_SIGNATURES)]
    wanted += [(row.workload, row.yardstick) for row in TO_SIGNATURES]
    for name, label in wanted:
        assert label in {contender.label for contender in ALL[name].contenders}


def test_ratios_are_taken_within_rounds() -> None:
    runs = {"nats": [run_of(2.0), run_of(4.0)], "moothall": [run_of(3.0), run_of(3.0)]}
    (found,) = results_of(ALL["fanout-10"], runs).workloads
    ratio = found.ratios["moothall"]["nats"]
    assert (ratio.value, ratio.low, ratio.high) == (1.125, 0.75, 1.5)
    assert [bound.spread == ratio for bound in found.bounds] == [False, True]
    assert found.bounds[0].spread is None  # the relay was not measured
    assert not found.disturbed


def test_a_compiled_hall_has_columns_and_bounds_of_its_own() -> None:
    twins = beside_compiled(ALL["busy"], VENV)
    compiled = "moothall" + COMPILED
    assert [each.label for each in twins.contenders] == ["relay", "nats", "redis", "moothall", compiled]
    assert [each.venv for each in twins.contenders] == [None, None, None, None, VENV]
    assert [(each.measured, each.against) for each in twins.bounds] == [
        ("moothall", "redis"),
        (compiled, "redis"),
    ]

    runs = {"redis": [run_of(2.0)], "moothall": [run_of(3.0)], compiled: [run_of(1.0, others=0.5)]}
    results = results_of(twins, runs)
    assert "compiled, to Redis" in short_tables(results)
    assert "| 20 speakers, 100 listeners |  |  | 1.50x |  |  | 0.50x |" in short_tables(results)
    assert "| busy | moothall, compiled / redis | 0.5 | 0.8: met | 0.7: met |" in long_tables(results)
    assert "Other work on the machine disturbed all workloads." in long_tables(results)


def test_compiled_halls_are_compared_with_compiled_ones() -> None:
    for workload in ALL.values():
        twins = beside_compiled(workload, VENV)
        halls = {each.label for each in workload.contenders if each.server and SERVERS[each.server].is_hall}
        labels = {each.label for each in twins.contenders}
        assert len(labels) == len(workload.contenders) + len(halls)
        for bound in twins.bounds:
            assert bound.measured in labels
            is_compiled = bound.measured.endswith(COMPILED)
            assert bound.against is None or bound.against not in halls or not is_compiled


def test_an_environment_without_a_compiled_wheel(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "python3.11" / "site-packages" / "moothall" / "hall"
    package.mkdir(parents=True)
    (package / "hall.py").touch()
    with pytest.raises(NotCompiled, match="make build-wheel"):
        check(tmp_path)
    (package / "hall.cpython-311-x86_64-linux-gnu.so").touch()
    check(tmp_path)


def test_a_missing_program_comes_with_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerFailed, match="apt-get install redis-server"):
        installed("redis-server", tmp_path)

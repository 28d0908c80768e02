import json
import sys
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from moothall.cli.main import app

QUICK = ("--agents", "10", "--epochs", "3", "--trials", "2")


def simulate(*arguments: str) -> Result:
    result = CliRunner().invoke(app, ["mesh", "simulate", *QUICK, *arguments], prog_name="moothall")
    assert "Traceback" not in result.output
    return result


def printed(*arguments: str) -> str:
    result = simulate(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_result_for_people() -> None:
    shown = printed()
    assert "detected             100.0% of the cartel's agents" in shown
    assert "least stake          0.00 makes the median profit 0 or less" in shown
    assert shown.endswith("seed                 42\n")


def test_the_result_for_programs() -> None:
    result: dict[str, Any] = json.loads(printed("--json", "--cartel-type", "c2", "--seed", "7"))
    assert result.keys() == {
        "agents",
        "cartel_fraction",
        "cartel_type",
        "epochs",
        "trials",
        "base_stake",
        "rep_premium",
        "slash_rate",
        "anomaly_threshold",
        "seed",
        "detection_rate",
        "false_positive_rate",
        "median_detection_epoch",
        "p95_detection_epoch",
        "mean_cartel_profit",
        "median_cartel_profit",
        "min_stake",
        "component_weights",
    }
    assert (result["cartel_type"], result["seed"], result["trials"]) == ("c2", 7, 2)
    assert result["component_weights"].keys() == {"ht", "hb", "hs", "hv"}


def test_a_seed_repeats_a_result_and_zero_makes_a_new_one() -> None:
    assert printed("--json") == printed("--json", "--seed", "42")
    seeds = {json.loads(printed("--json", "--seed", "0"))["seed"] for _ in range(2)}
    assert len(seeds) == 2
    (seed, _) = seeds
    assert json.loads(printed("--json", "--seed", str(seed)))["seed"] == seed


def test_a_cartel_that_is_never_flagged() -> None:
    shown = printed("--anomaly-threshold", "10", "--epochs", "20")
    assert "median never, 95 % by never" in shown
    assert "none up to 5000 makes this cartel lose" in shown


def test_a_sweep_is_a_table() -> None:
    rows = printed("--sweep").splitlines()
    assert [row.split()[:2] for row in rows[:2]] == [["c1", "5%"], ["c1", "10%"]]
    assert len(rows) == 8
    assert len(json.loads(printed("--sweep", "--json"))) == 8


def test_numpy_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    monkeypatch.delitem(sys.modules, "moothall.simulation", raising=False)
    monkeypatch.delattr("moothall.simulation", raising=False)
    result = simulate()
    assert (result.exit_code, result.stdout) == (2, "")
    assert "moothall[simulate]" in result.stderr

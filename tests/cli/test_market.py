"""`moothall market simulate`: what one address can farm, under the settings of a hall."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from moothall.cli.main import app
from tests.support.server import environment

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs" / "reputation.md"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for variable in list(os.environ):
        if variable.startswith("MOOTHALL_"):
            monkeypatch.delenv(variable)
    return tmp_path


def simulate(*arguments: str, **variables: str) -> str:
    result = CliRunner().invoke(app, ["market", "simulate", *arguments], env=environment(**variables))
    assert result.exit_code == 0, result.output
    return result.stdout


def as_json(*arguments: str, **variables: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(simulate("--json", *arguments, **variables))
    return found


def test_the_documented_table_is_what_it_says_with_the_default_settings() -> None:
    assert f"```text\n{simulate()}```" in DOCS.read_text()


def test_the_default_is_under_200_an_hour() -> None:
    found = as_json()
    assert found["points_per_hour"] < 200
    assert max(each["points"] for each in found["strategies"]) == found["points_per_hour"]


def test_settings_come_from_where_serve_has_them(elsewhere: Path) -> None:
    (elsewhere / "moothall.toml").write_text("rating_gain_limit = '50/4000'\n")
    assert as_json()["points_per_hour"] <= 95
    assert as_json("--set", "rating_gain_limit=20/4000")["points_per_hour"] <= 38
    assert as_json(MOOTHALL_RATING_GAIN_LIMIT="10/4000")["points_per_hour"] <= 19


def test_what_was_possible_before_is_shown_when_the_rules_are_off() -> None:
    found = as_json("--hours", "1", "--set", "rating_gain_limit=0", "--set", "newcomer_transfer_cap=0")
    by_name = {each["strategy"]: each["points"] for each in found["strategies"]}
    assert by_name["losing stakes"] > 50_000

"""What a guard writes for the MCP server of its agent."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from moothall import Budget
from moothall.tools import budget_file
from moothall.tools.budget_file import BudgetFile, read_budget
from moothall.tools.options import BUDGET_VARIABLE, Options
from moothall.wire.agentchat.client import MAX_TOKENS
from moothall.worker import agent_folder
from moothall.worker.guard.watch import Reason
from moothall.worker.supervisor import registration

STATE: dict[str, Any] = {"session": "8f2d", "tokensTotal": 70, "budget": 1000, "pid": None}


def test_names_are_those_of_the_worker(tmp_path: Path) -> None:
    file = BudgetFile(tmp_path / agent_folder.GUARD_STATE)
    assert file.previous == tmp_path / agent_folder.PREVIOUS_GUARD_STATE
    assert (budget_file.ABORT, budget_file.BUDGET) == (agent_folder.ABORT, Reason.BUDGET)
    assert registration.BUDGET_VARIABLE == BUDGET_VARIABLE


def test_the_user_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert Options.from_environment({BUDGET_VARIABLE: str(path)}).budget_file == path
    assert Options.from_environment({}).budget_file is None


def test_a_state_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert read_budget(path) is None
    path.write_text(json.dumps(STATE))
    assert read_budget(path) == Budget(1000, 70, "8f2d")
    path.write_text(json.dumps(STATE | {"tokensTotal": 10**18}))
    assert read_budget(path) == Budget(1000, MAX_TOKENS, "8f2d")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1]",
        b"[" * 100_000,
        b"\xff",
        *(
            json.dumps(STATE | wrong).encode()
            for wrong in (
                {"session": ""},
                {"session": "a b"},
                {"session": 5},
                {"tokensTotal": -1},
                {"tokensTotal": 1.5},
                {"tokensTotal": True},
                {"budget": None},
            )
        ),
    ],
)
def test_what_is_not_a_guards_is_ignored(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(content)
    assert read_budget(path) is None


def test_only_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(json.dumps(STATE))
    (tmp_path / "link").symlink_to("secret")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "."):
        assert read_budget(tmp_path / name) is None


def test_the_order_to_end_is_whole_when_it_appears(tmp_path: Path) -> None:
    file = BudgetFile(tmp_path / "state.json")
    file.abort("too\nmuch \ud800" + "x" * 1000)
    first, second, end = (tmp_path / "abort").read_text().split("\n")
    assert (first, end) == ("budget", "")
    assert second.startswith("too much ?xxx")
    assert len(second) == 300
    assert [path.name for path in tmp_path.iterdir()] == ["abort"]

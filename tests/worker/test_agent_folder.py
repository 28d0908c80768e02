"""The folder of one agent."""

from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.worker.agent_folder import (
    GUARD_STATE,
    PREVIOUS_GUARD_STATE,
    folder_of,
    set_guard_state_aside,
)


def test_it_is_below_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert folder_of("alice").path == Path("/home/someone/.agentchat/agents/alice")
    assert folder_of("alice", "~/state").path == Path("/home/someone/state")
    assert folder_of("alice", "state").path == Path.cwd() / "state"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../alice", "al ice", "a\n", "é", "a" * 33])
def test_a_name_cannot_lead_elsewhere(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of an agent"):
        folder_of(name)


def test_the_guard_state_of_the_session_before_is_set_aside(tmp_path: Path) -> None:
    set_guard_state_aside(tmp_path)
    assert list(tmp_path.iterdir()) == []
    for content in ("first", "second"):
        (tmp_path / GUARD_STATE).write_text(content)
        set_guard_state_aside(tmp_path)
        assert (tmp_path / PREVIOUS_GUARD_STATE).read_text() == content
    set_guard_state_aside(tmp_path)
    assert (tmp_path / PREVIOUS_GUARD_STATE).read_text() == "second"
    assert not (tmp_path / GUARD_STATE).exists()

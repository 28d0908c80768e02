"""One supervisor for each name."""

import os
import re
from pathlib import Path

import pytest

from moothall.daemon.folder import Folder
from moothall.errors import UsageError
from moothall.worker.agent_folder import SUPERVISOR_PID
from moothall.worker.supervisor.only_one import only_one


def test_the_second_is_told_of_the_first(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    pid_file = tmp_path / SUPERVISOR_PID
    told = f"a supervisor of alice runs already (pid {os.getpid()}): stop it with `touch {tmp_path}/stop`"
    with only_one(folder, "alice"):
        assert pid_file.read_text() == f"{os.getpid()}\n"
        with pytest.raises(UsageError, match=re.escape(told)), only_one(folder, "alice"):
            pass
        assert pid_file.exists()  # that of the first
    assert not pid_file.exists()


@pytest.mark.parametrize("content", ["1\n", "", "no number"])
def test_a_pid_file_alone_keeps_no_one_out(tmp_path: Path, content: str) -> None:
    (tmp_path / SUPERVISOR_PID).write_text(content)
    with only_one(Folder(tmp_path), "alice"):
        assert (tmp_path / SUPERVISOR_PID).read_text() == f"{os.getpid()}\n"


def test_a_damaged_pid_file_is_not_shown(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with only_one(folder, "alice"):
        (tmp_path / SUPERVISOR_PID).write_text("no number")
        with (
            pytest.raises(UsageError, match="a supervisor of alice runs already: stop it"),
            only_one(folder, "alice"),
        ):
            pass

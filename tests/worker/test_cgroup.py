"""Cgroups: where they are, and that one ends all that is in it."""

import os
import subprocess
from pathlib import Path

import pytest

from moothall.worker.cgroup import Cgroup, own_directory
from tests.worker.processes import assert_ended

MOUNTS = """\
25 20 0:23 / /sys rw,nosuid shared:7 - sysfs sysfs rw
30 25 0:27 {root} /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate
"""


@pytest.mark.parametrize(
    ("root", "own", "found"),
    [
        ("/", "0::/user.slice/a\n", "/sys/fs/cgroup/user.slice/a"),
        ("/", "4:memory:/x\n0::/\n", "/sys/fs/cgroup"),
        ("/user.slice", "0::/user.slice/a\n", "/sys/fs/cgroup/a"),
        ("/other", "0::/user.slice/a\n", None),
        ("/", "4:memory:/x\n", None),
    ],
)
def test_the_own_cgroup_is_found(tmp_path: Path, root: str, own: str, found: str | None) -> None:
    (tmp_path / "mounts").write_text(MOUNTS.format(root=root))
    (tmp_path / "own").write_text(own)
    place = own_directory(tmp_path / "mounts", tmp_path / "own")
    assert place == (None if found is None else Path(found))


def test_without_version_2_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "mounts").write_text(MOUNTS.splitlines()[0])
    (tmp_path / "own").write_text("0::/\n")
    assert own_directory(tmp_path / "mounts", tmp_path / "own") is None
    assert own_directory(tmp_path / "missing", tmp_path / "own") is None


def test_what_killed_programs_have_left_is_removed() -> None:
    here = own_directory()
    group = Cgroup.create("moothall-test")
    if here is None or group is None:
        pytest.skip("not run: this user may not create cgroups")
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = here / f"moothall-test-{ended.pid}-0"
    left.mkdir()
    other = Cgroup.create("moothall-test")
    assert other is not None
    assert not left.exists()
    assert group.path.exists()
    other.remove()
    group.remove()


def test_all_processes_in_it_end_and_it_is_removed() -> None:
    group = Cgroup.create("moothall-test")
    if group is None:
        pytest.skip("not run: this user may not create cgroups")
    command = ["sh", "-c", 'echo 0 > "$1/cgroup.procs"; setsid sleep 100 & sleep 100 & echo $!; wait', "sh"]
    with subprocess.Popen([*command, str(group.path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        other = int(process.stdout.readline())
        group.remove()
        assert group.path.exists()
        group.kill()
        assert_ended([process.pid, other])
    assert Path(f"/proc/{os.getpid()}").exists()
    while "populated 1" in (group.path / "cgroup.events").read_text():
        pass
    group.remove()
    assert not group.path.exists()

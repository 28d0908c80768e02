"""With which flags Podman runs here, and why not, with a stand-in for the program."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.worker.crew import podman_program, runtimes
from moothall.worker.crew.plan import Crew
from moothall.worker.crew.podman_program import PodmanFailed, find, has_limits, installed

CREW = Crew("demo", Path("/srv/demo/crew.toml"), ())

StandIn = Callable[[str], Path]


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """A program `podman` with this script. What it was called with is in the file `calls`."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    podman_program._found.cache_clear()

    def write(script: str) -> Path:
        program = tmp_path / "podman"
        program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n{script}\n')
        program.chmod(0o755)
        return tmp_path / "calls"

    return write


def test_flags_are_tried_until_a_container_runs_and_then_known(stand_in: StandIn) -> None:
    calls = stand_in(
        'case "$*" in *--runtime=crun*|image*) echo 16;; *) echo Error: no cgroup >&2; exit 125;; esac'
    )
    assert find(CREW).flags == ("--cgroup-manager=cgroupfs", "--runtime=crun")
    tries = [line for line in calls.read_text().splitlines() if " run " in f" {line}"]
    assert len(tries) == 4
    assert all(
        word in tries[0] for word in ("--network=none", "--cap-drop=all", "--read-only", "--pids-limit=16")
    )
    calls.unlink()
    assert find(CREW).flags
    assert has_limits(CREW)
    assert calls.read_text() == "image exists moothall-worker:latest\n"


def test_why_containers_do_not_run_is_said_in_podman_s_words(stand_in: StandIn) -> None:
    stand_in(
        'case "$1" in image) ;; *) echo noise >&2; echo "Error: no user namespaces" >&2; exit 125;; esac'
    )
    with pytest.raises(UsageError, match="podman cannot run containers here: podman run: no user namespaces"):
        find(CREW)


def test_an_image_that_is_missing(stand_in: StandIn) -> None:
    stand_in("exit 1")
    with pytest.raises(
        UsageError, match="podman has no image moothall-worker:latest: make it with `make image`"
    ):
        find(CREW)


def test_containers_without_limits_are_used_and_the_user_is_told(stand_in: StandIn) -> None:
    stand_in("echo max")
    assert runtimes.choose(CREW) == ("podman", runtimes.NO_LIMITS)


def test_a_root_that_is_not_one_or_that_others_cannot_enter(
    stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in("echo 16")
    root = tmp_path / "private" / "root"
    crew = Crew("demo", Path("/srv/demo/crew.toml"), (), rootfs=root)
    with pytest.raises(UsageError, match="is not the root of a worker"):
        find(crew)
    (root / "usr" / "bin").mkdir(parents=True)
    (root / "usr" / "bin" / "python3").touch()
    root.parent.chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(UsageError, match="private is closed to other users"):
        find(crew)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert find(crew).flags == ()


def test_podman_gets_no_variables_that_are_not_for_it(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in("env")
    monkeypatch.setenv("OWN_SECRET", "hush")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1")
    printed = installed().run("version", variables={"GIVEN": "yes"})
    assert "hush" not in printed
    assert "XDG_RUNTIME_DIR=/run/user/1\n" in printed
    assert "GIVEN=yes\n" in printed


def test_a_command_that_does_not_end_is_ended(stand_in: StandIn) -> None:
    stand_in("exec sleep 60")
    with pytest.raises(PodmanFailed, match="podman ps does not end"):
        installed().run("ps", patience=0.1)

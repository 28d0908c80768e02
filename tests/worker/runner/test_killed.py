"""A runner that is killed with SIGKILL before each of its operations: nothing is left, lost or counted twice."""

import signal

import pytest

from tests.support.workers import Workplace, finish, until

# What the runner is about to do: the audit event, a part of its arguments, how many times it has come.
POINTS = {
    "take the lock": ("fcntl.flock", "-", 1),
    "read the number": ("open", "session_num", 1),
    "write the number": ("open", ".session_num.new", 1),
    "put the number in place": ("os.rename", "session_num", 1),
    "set the transcript aside": ("os.rename", "transcript.prev.log", 1),
    "read the transcript": ("open", "transcript.prev.log", 1),
    "read the personality": ("open", "_base.md", 1),
    "write the prompt": ("open", ".prompt.md.new", 1),
    "put the prompt in place": ("os.rename", "prompt.md", 1),
    "put the system prompt in place": ("os.rename", "system.md", 1),
    "log the beginning": ("open", "runner.log", 1),
    "forget the last reason of the guard": ("os.rename", "niki-state.json", 1),
    "begin the transcript": ("open", "transcript.log", 1),
    "start the guard": ("subprocess.Popen", "-", 1),
    "look at the guard's state": ("open", "niki-state.json", 1),
    "log the end": ("open", "runner.log", 2),
}


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_killed_before(place: Workplace, point: tuple[str, str, int]) -> None:
    assert place.session("echo remember this") == 0
    killed = place.run_session("exit 0", program="killed-runner", KILLED_AT=" ".join(map(str, point)))
    assert finish(killed)[0] == -signal.SIGKILL
    place.until_nothing_is_left()
    number = int((place.folder / "session_num").read_text())
    assert number in (1, 2)
    assert place.session("echo again") == 0
    assert int((place.folder / "session_num").read_text()) == number + 1
    assert "remember this" in place.prompt()
    assert "again" in place.transcript()
    assert not [path for path in place.folder.iterdir() if path.name.endswith(".new")]


def test_killed_after_the_guard_was_started(place: Workplace) -> None:
    """The guard, which has not heard of its command yet, sees the end of its pipe."""
    process = place.run_session("exec sleep 1000")
    until(lambda: len(place.left()) >= 2, "the guard")
    process.kill()
    finish(process)
    place.until_nothing_is_left()

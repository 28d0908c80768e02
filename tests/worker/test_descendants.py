"""The tree of processes below one: found, signalled and ended, for real."""

import os
import signal
import sys
import textwrap
from collections.abc import Iterator

import pytest

from moothall.worker.descendants import children_of, descendants, kill_tree, look_at, send, tree
from tests.worker.processes import Meeting, assert_ended, is_alive, meeting, python, started

REPORT = """
import os, signal
def report(and_then=signal.pause):
    os.write(FD, b"%d\\n" % os.getpid())
    and_then()
"""

# A child, its child in a session of its own, and an orphan in a session of its own.
FAMILY = """
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        report()
    report()
middle = os.fork()
if middle == 0:
    if os.fork() == 0:
        os.setsid()
        report()
    os._exit(0)
os.waitpid(middle, 0)
"""

# It forks, and its parent ends, as fast as it can: no list of the tree is ever complete.
COMET = """
if os.fork() == 0:
    os.setsid()
    os.write(FD, b"%d\\n" % os.getpid())
    while True:
        if os.fork():
            os._exit(0)
"""


@pytest.fixture
def pipe() -> Iterator[Meeting]:
    with meeting() as made:
        yield made


def program(pipe: Meeting, *parts: str) -> list[str]:
    return python("".join((REPORT, *parts)).replace("FD", str(pipe.writing)))


def with_ours(pipe: Meeting, *parts: str) -> list[str]:
    """A program that may import moothall."""
    return [
        sys.executable,
        "-P",
        "-c",
        textwrap.dedent("".join((REPORT, *parts)).replace("FD", str(pipe.writing))),
    ]


def test_the_tree_has_children_in_sessions_of_their_own(pipe: Meeting) -> None:
    with started(program(pipe, FAMILY, "report()"), pass_fds=[pipe.writing]) as process:
        reported = set(pipe.take(4))
        found = {each.pid for each in tree(process.pid)}
        assert len(found) == 2  # the orphan has gone to a parent of ours
        assert found < reported - {process.pid}
        assert process.pid in children_of(os.getpid())
        assert set(descendants()) >= found | {process.pid}
        kill_tree(process.pid)
        for pid in reported - found - {process.pid}:
            os.kill(pid, signal.SIGKILL)
        assert_ended(reported - {process.pid})


def test_what_is_spared_is_not_in_the_tree(pipe: Meeting) -> None:
    with started(program(pipe, "report()"), pass_fds=[pipe.writing]) as process:
        pipe.next()
        spared = frozenset({process.pid})
        assert process.pid not in {each.pid for each in tree(os.getpid(), spared)}
        kill_tree(os.getpid(), frozenset(children_of(os.getpid())))
        assert is_alive(process.pid)


def test_a_process_that_has_the_id_of_another_gets_no_signal(pipe: Meeting) -> None:
    with started(program(pipe, "report()"), pass_fds=[pipe.writing]) as process:
        pipe.next()
        found = look_at(process.pid)
        assert found is not None
        assert send(found._replace(started=found.started - 1), signal.SIGKILL)
        assert is_alive(process.pid)
        assert send(found, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert look_at(process.pid) is None
        assert send(found, signal.SIGKILL)


def test_a_zombie_is_not_alive(pipe: Meeting) -> None:
    with started(program(pipe, "report(lambda: None)"), pass_fds=[pipe.writing]) as process:
        pid = pipe.next()
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert look_at(pid) is None
        assert pid in children_of(os.getpid())
        assert process.wait() == 0


@pytest.mark.parametrize("family", [FAMILY, COMET, FAMILY + COMET])
@pytest.mark.parametrize("grace", [0, 0.2])
def test_all_descendants_end(pipe: Meeting, family: str, grace: float) -> None:
    ending = f"from moothall.worker.descendants import adopt_orphans, end_all\nadopt_orphans()\n{family}"
    command = with_ours(pipe, ending, f"end_all({grace})\n")
    with started(command, pass_fds=[pipe.writing]) as process:
        assert process.wait(30) == 0
        pipe.assert_over()


def test_descendants_that_ignore_sigterm_end(pipe: Meeting) -> None:
    ending = "from moothall.worker.descendants import adopt_orphans, end_all\nadopt_orphans()\n"
    ignoring = f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{FAMILY}"
    with started(with_ours(pipe, ending, ignoring, "end_all(0.1)\n"), pass_fds=[pipe.writing]) as process:
        assert process.wait(30) == 0
        pipe.assert_over()


def test_descendants_are_asked_to_end_first(pipe: Meeting) -> None:
    ending = "from moothall.worker.descendants import adopt_orphans, end_all\nadopt_orphans()\n"
    asked = """
import time
reading, writing = os.pipe()
child = os.fork()
if child == 0:
    def tidy(*_):
        os.write(FD, b"1\\n")
        os._exit(0)
    signal.signal(signal.SIGTERM, tidy)
    os.write(writing, b"ready")
    while True:
        signal.pause()
os.read(reading, 5)
end_all(25)
"""
    with started(with_ours(pipe, ending, asked), pass_fds=[pipe.writing]) as process:
        assert pipe.next() == 1
        pipe.pids.clear()
        assert process.wait(30) == 0

"""A command that starts its own program again: the second one is killed, and forks of the first are not."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from moothall.worker.guard.only_one import OnlyOne
from tests.worker.guard.guarding import QUIET, guarded

# A shell under another name is a native program that can start programs, and fork without starting one.
SHELL = "/bin/sh"
STARTS = 1_000


@pytest.fixture
def native(tmp_path: Path) -> Path:
    return Path(shutil.copy(SHELL, tmp_path / "model"))


def output_of(folder: Path, words: list[str], *options: str) -> tuple[str, str, int]:
    """What the command printed, what the guard said, and how many second runs it counted."""
    with guarded(folder, words, *QUIET, *options) as guard:
        output, errors = guard.finish()
        return output.decode(), errors.decode(), guard.state["secondRuns"]


# Each starts the program again, prints how that ended, and goes on: 137 is SIGKILL.
SECOND = {
    "by its path": "{model} -c 'read x </dev/zero; true'; echo $?",
    "by a link": "ln -s {model} other; ./other -c 'read x </dev/zero'; echo $?",
    "by a hard link": "ln {model} other; ./other -c 'read x </dev/zero'; echo $?",
    "by the loader": "{loader} {model} -c 'read x </dev/zero'; echo $?",
    "in a session of its own": "setsid -w {model} -c 'read x </dev/zero'; echo $?",
    "as a fork of the second": "{model} -c '(read x </dev/zero; echo lives) & wait'; echo $?",
}


@pytest.mark.parametrize("way", SECOND)
def test_a_second_run_of_a_native_program_is_killed(
    tmp_path: Path, native: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.chdir(tmp_path)
    loader = next(Path("/").glob("lib*/ld-linux*.so.*"), None)
    if loader is None and "loader" in way:
        pytest.skip("not run: this machine has no loader of its own")
    script = SECOND[way].format(model=native, loader=loader)
    printed, said, count = output_of(tmp_path, [str(native), "-c", script], "--only-one", str(native))
    assert printed == "137\n"
    assert f"guard: killed a second run of {native}: " in said
    assert count >= 1


def test_forks_and_other_programs_are_left_alone(tmp_path: Path, native: Path) -> None:
    script = f"cat {native} >/dev/null; (cat {native} >/dev/null; echo fork); /bin/sh -c 'echo other'"
    printed, said, count = output_of(tmp_path, [str(native), "-c", script], "--only-one", str(native))
    assert (printed, said, count) == ("fork\nother\n", "", 0)


def test_the_same_file_may_run_under_another_name(tmp_path: Path, native: Path) -> None:
    (tmp_path / "rg").symlink_to(native)
    script = f"{tmp_path}/rg -c 'sleep 0.3; echo found'"
    printed, _, count = output_of(
        tmp_path, [str(native), "-c", script], "--only-one", str(native), "--also-as", "rg"
    )
    assert (printed, count) == ("found\n", 0)


def test_a_program_that_has_no_words_yet_is_left_alone(tmp_path: Path, native: Path) -> None:
    """For a moment of its start, the kernel tells its file but not its name. Many starts come upon that moment."""
    (tmp_path / "rg").symlink_to(native)
    script = f"i=0; while [ $i -lt {STARTS} ]; do i=$((i + 1)); {tmp_path}/rg -c 'exit 0' || exit 1; done; echo all"
    printed, _, count = output_of(
        tmp_path, [str(native), "-c", script], "--only-one", str(native), "--also-as", "rg"
    )
    assert (printed, count) == ("all\n", 0)


SCRIPT = """#!{python} -IS
import subprocess, sys
if len(sys.argv) > 1:
    print("two", flush=True)
    sys.stdin.readline()
    while True: pass
for words in ([__file__, "x"], [sys.executable, "-IS", __file__, "x"]):
    print(subprocess.run(words).returncode, flush=True)
print(subprocess.run([sys.executable, "-ISc", "print(1)", __file__]).returncode, flush=True)
"""


def test_a_second_run_of_a_script_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_text(SCRIPT.format(python=sys.executable))
    script.chmod(0o755)
    printed, _, count = output_of(tmp_path, [str(script)], "--only-one", str(script))
    assert [line for line in printed.split() if line != "two"][:2] == ["-9", "-9"]
    assert count >= 2


def test_a_command_may_run_it_again_after_the_first_has_ended(tmp_path: Path, native: Path) -> None:
    script = f"{native} -c 'echo one'; {native} -c 'echo two'"
    printed, _, count = output_of(tmp_path, ["/bin/sh", "-c", script], "--only-one", str(native))
    assert (printed, count) == ("one\ntwo\n", 0)


def test_a_fork_that_has_not_become_the_command_yet_is_left_alone(tmp_path: Path) -> None:
    """Its words are those of the keeper, which name the file."""
    script = tmp_path / "model.py"
    script.write_text(f"#!{sys.executable}\n")
    forking = "import os, sys\nif os.fork(): print(flush=True); os.wait()\nelse: sys.stdin.read()"
    words = [sys.executable, "-c", forking, str(script)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as keeper:
        assert keeper.stdout is not None
        keeper.stdout.readline()
        assert OnlyOne(script, frozenset(), 1.0).look(0.0, keeper.pid) == []

"""Supervisors and runners as real processes, with stand-ins for what they start; what is left of them in /proc."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from moothall.worker import lifeline
from tests.support.server import PATIENCE

# Waits until its supervisor has gone, as a runner does, or for a signal.
IDLE_RUNNER: Final = """
echo $$ >> "$STATE_DIR/runs"
cat <&"$AGENT_LIFELINE" >/dev/null & wait $!
"""

# A program that signals itself before an operation, with SIGKILL if $KILLED_WITH names no other: $KILLED_AT is the
# audit event of Python, a part of its arguments, and how many times it has to come.
KILLED_AT: Final = """
import os, signal, sys
event, part, times = os.environ["KILLED_AT"].split()
left = int(times)
def look(name, arguments):
    global left
    if name == event and (part == "-" or part in repr(arguments)):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), int(os.environ.get("KILLED_WITH", signal.SIGKILL)))
sys.addaudithook(look)
"""


def until(is_so: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Wait for another process, which tells nothing but by what it does.

    A look at all processes takes milliseconds. Four times as long is left to the process that is waited for.
    """
    deadline = time.monotonic() + patience
    looked = time.monotonic()
    while not is_so():
        now = time.monotonic()
        assert now < deadline, f"not in {patience:g} s: {what}"
        time.sleep(min(max(0.01, 4 * (now - looked)), 0.2))
        looked = time.monotonic()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def parent_of(pid: int) -> int:
    """0 if the process has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def command_line(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def environment_of(pid: int) -> dict[str, str]:
    """What a process was started with; empty if it has ended."""
    with suppress(OSError):
        pairs = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
        return dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    return {}


def processes_with(variable: str, value: str) -> list[int]:
    """All that were started with this variable, and live."""
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if environment_of(pid).get(variable) == value and is_alive(pid)]


@dataclass
class Workplace:
    """A folder of programs, `agent-supervisor` and a stand-in `agent-runner`, and the folder of one agent."""

    root: Path
    name: str = "alice"
    started: list["subprocess.Popen[str]"] = field(default_factory=list)
    lifelines: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.programs.mkdir()
        main = "import sys; from moothall.worker.supervisor.command_line import main; sys.exit(main())"
        self.write_program("agent-supervisor", main)
        self.write_program("killed-supervisor", f"{KILLED_AT}\n{main}")
        main = main.replace("supervisor", "runner")
        self.write_program("real-runner", main)
        self.write_program("killed-runner", f"{KILLED_AT}\n{main}")
        self.set_runner(IDLE_RUNNER)

    @property
    def programs(self) -> Path:
        return self.root / "bin"

    @property
    def folder(self) -> Path:
        return self.root / "state"

    @property
    def token_file(self) -> Path:
        return self.root / "token"

    @property
    def identity_file(self) -> Path:
        return self.root / "identity"

    def write_program(self, name: str, text: str, interpreter: str = sys.executable) -> Path:
        path = self.programs / name
        path.write_text(f"#!{interpreter}\n{text}\n")
        path.chmod(0o755)
        return path

    def set_runner(self, script: str) -> None:
        self.write_program("agent-runner", script, "/bin/sh")

    def environment(self, **more: str) -> dict[str, str]:
        kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
        own = {"STATE_DIR": str(self.folder), "AGENTCHAT_URL": "ws://127.0.0.1:1", "AGENT_RUNTIME": "command"}
        return {**kept, **own, **more}

    def supervise(
        self, *options: str, program: str = "agent-supervisor", **variables: str
    ) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [
                str(self.programs / program),
                self.name,
                "Greet them.",
                "--token-file",
                str(self.token_file),
                "--identity-file",
                str(self.identity_file),
                "--heartbeat",
                "0.2",
                *options,
            ],
            env=self.environment(**variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def run_session(
        self,
        script: str | None = None,
        *,
        program: str = "real-runner",
        token: str | None = None,
        identity: str | None = None,
        **variables: str,
    ) -> "subprocess.Popen[str]":
        """A runner. `script` is the model's program, for the runtime `command`. The secrets come through a pipe."""
        if script is not None:
            variables["AGENT_COMMAND"] = str(self.write_program("model", script, "/bin/sh"))
        reading, writing = lifeline.with_secrets(lifeline.Secrets(token, identity))
        self.lifelines.append(writing)
        process = subprocess.Popen(
            [str(self.programs / program)],
            env=self.environment(**{"AGENT_NAME": self.name, lifeline.VARIABLE: str(reading), **variables}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=[reading],
            start_new_session=True,
        )
        os.close(reading)
        self.started.append(process)
        return process

    def session(self, script: str | None = None, **variables: str) -> int:
        """The exit code of a session that ends by itself."""
        return finish(self.run_session(script, **variables))[0]

    def transcript(self) -> str:
        with suppress(FileNotFoundError):
            return (self.folder / "transcript.log").read_text()
        return ""

    def prompt(self) -> str:
        return (self.folder / "prompt.md").read_text()

    def drop_lifelines(self) -> None:
        """What the end of a supervisor does."""
        while self.lifelines:
            os.close(self.lifelines.pop())

    def state(self) -> dict[str, Any]:
        """What state.json says: whole, whenever it is read."""
        try:
            return dict(json.loads((self.folder / "state.json").read_text()))
        except FileNotFoundError:
            return {}

    def until_status(self, *statuses: str) -> dict[str, Any]:
        until(lambda: self.state().get("status") in statuses, f"{statuses}, but {self.state()}")
        return self.state()

    def runs(self) -> list[int]:
        """The pids of the stand-in runners so far."""
        with suppress(FileNotFoundError):
            return [int(line) for line in (self.folder / "runs").read_text().splitlines()]
        return []

    def until_running(self, times: int = 1) -> int:
        until(lambda: len(self.runs()) >= times, f"{times} runs")
        return self.runs()[-1]

    def until_nothing_is_left(self) -> None:
        """Nothing of the agent lives. Its processes can be told by the folder in their environment."""
        until(lambda: not self.left(), f"no process is left, but {self.left()}")

    def left(self) -> list[int]:
        return processes_with("STATE_DIR", str(self.folder))

    def close(self) -> None:
        self.drop_lifelines()
        for process in self.started:
            process.kill()
            process.communicate()
        for pid in self.left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def workplace(root: Path) -> Iterator[Workplace]:
    place = Workplace(root)
    try:
        yield place
    finally:
        place.close()


def finish(process: "subprocess.Popen[str]", patience: float = PATIENCE) -> tuple[int, str]:
    """The exit code of a process that ends by itself, and its last words."""
    _, errors = process.communicate(timeout=patience)
    return process.returncode, errors

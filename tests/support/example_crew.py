"""A crew as users start it, with `moothall worker up`: its processes in /proc, and what its hall has settled."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from moothall.worker.descendants import children_of
from tests.support.server import PROGRAM, environment
from tests.support.workers import command_line, is_alive, processes_with, until

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "crew"
QUICKLY: Final = 'CREW_PAUSE = "0", CREW_PATIENCE = "2", CREW_THINKING = "0", AGENTCHAT_SETTLE_MS = "20"'
LONGEST: Final = 120.0  # seconds for a command; only a failing test waits that long


@dataclass(frozen=True)
class RunningCrew:
    """Everything it writes is below `root`, which is also the home of its processes: so they can be told."""

    root: Path
    file: Path
    name: str = "crew"
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.root / "crews" / self.name

    def command(self, *words: str) -> str:
        """What a command of `moothall worker` prints. It must succeed."""
        result = subprocess.run(
            [PROGRAM, "worker", *words],
            cwd=self.file.parent,
            env=environment(HOME=str(self.root), MOOTHALL_CREWS=str(self.root / "crews"), **self.variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def stands(self) -> dict[str, Any]:
        """What `ps --json` says."""
        return dict(json.loads(self.command("ps", "--json")))

    def state(self, agent: str) -> dict[str, Any]:
        with suppress(FileNotFoundError):
            return dict(json.loads((self.folder / "agents" / agent / "state.json").read_text()))
        return {}

    def settlements(self) -> list[str]:
        """The deals that the hall has settled, one entry for each time."""
        with suppress(FileNotFoundError):
            lines = (self.folder / "hall" / "receipts.jsonl").read_text().splitlines()
            return [str(json.loads(line)["proposal_id"]) for line in lines]
        return []

    # -- processes ---------------------------------------------------------------------------------

    def processes(self) -> list[int]:
        return processes_with("HOME", str(self.root))

    def find(self, part: str, agent: str | None = None) -> int | None:
        """The process that plays a part in the crew, such as its hall, or in one of its agents."""
        if agent is None:
            words = {"hall": b"\0serve\0", "keeper": b"crew.keeper\0", "understudy": b"crew.understudy\0"}
            return next((pid for pid in self.processes() if words[part] in command_line(pid)), None)
        return self._parts_of(agent).get(part)

    def _parts_of(self, agent: str) -> dict[str, int]:
        pid = self.state(agent).get("pid")
        if pid is None or not is_alive(pid) or b"supervisor" not in command_line(pid):
            return {}
        found = {"supervisor": pid}
        chain = (
            ("runner", b"agent-runner"),
            ("guard", b"worker.guard"),
            ("guard's keeper", b"worker.guard"),
            ("model", b"stand_in.py"),
            ("MCP server", b"\0mcp\0"),
        )
        for part, word in chain:
            pid = next((child for child in children_of(pid) if word in command_line(child)), None)
            if pid is None:
                break
            found[part] = pid
        return found

    def kill(self, part: str, agent: str | None = None) -> None:
        """End a process with SIGKILL, and wait until another one plays its part."""
        until(lambda: self._find_awake(part, agent), f"there is a {part} of {agent or 'the crew'}")
        victim = self.find(part, agent)
        assert victim is not None
        os.kill(victim, signal.SIGKILL)
        until(
            lambda: self._find_awake(part, agent) not in (None, victim),
            f"there is another {part} of {agent or 'the crew'}: {self.state(agent or '')}",
        )

    def _find_awake(self, part: str, agent: str | None) -> int | None:
        """Users may wait after a crash. A test ends the wait, as `worker wake` does."""
        found = self.find(part, agent)
        if found is None and agent is not None:
            state = self.state(agent)
            if state.get("status") in ("crashed", "killed") and is_alive(state["pid"]):
                os.kill(state["pid"], signal.SIGUSR1)
        return found

    def end(self) -> None:
        """What a failing test leaves behind."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def example(crew_folder: str = str(EXAMPLE), variables: str = "", **changes: str) -> str:
    """The crew file of the example, for a test: quicker, without a limit of calls, and with other lines."""
    text = (EXAMPLE / "crew.toml").read_text().replace("{crew}", crew_folder)
    lines = {
        "environment": f"environment = {{ {QUICKLY}{variables} }}",
        "max_tool_calls": "max_sends = 1000\nmax_tool_calls = 1000",
        **changes,
    }
    replaced = [
        lines.get(line.partition(" = ")[0], line) if "=" in line else line for line in text.splitlines()
    ]
    return "\n".join(replaced) + "\n"


@contextmanager
def running_crew(
    root: Path, text: str, file: Path | None = None, variables: Mapping[str, str] | None = None
) -> Iterator[RunningCrew]:
    """A crew that is up. What the test does not stop is killed in the end."""
    crew = RunningCrew(root, file or root / "crew.toml", variables=variables or {})
    crew.file.write_text(text)
    try:
        crew.command("up")
        yield crew
    finally:
        with suppress(AssertionError, subprocess.TimeoutExpired):
            if crew.processes():
                crew.command("kill")
        crew.end()

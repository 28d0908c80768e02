"""Workers: what a guard costs while its command prints 10 MB a second, and what an idle worker costs.

    python -m benchmarks.worker [--seconds N] [--idle N]

The processor time of guard and keeper is a share of the time that passed. The yardstick is `cat`, a program in C
that only copies the same output in the same minute: a machine with company makes both slower.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Final, NamedTuple

from moothall.worker.descendants import children_of
from moothall.worker.guard.command_line import program
from moothall.worker.supervisor.command_line import program as supervisor_program

MOST_CPU: Final = 2.0  # percent of a processor at 10 MB/s
MOST_MEMORY: Final = 40.0  # MB, supervisor and guard together
BEATS: Final = 6.0  # heartbeats of a supervisor in a minute
RATE: Final = 10_000_000  # bytes per second
BLOCK: Final = 4096
WARM_UP: Final = 1.0  # seconds

PRINTING: Final = f"""
import os, time
line = b"the quick brown fox jumps over the lazy dog and runs away from here, 0123456789\\n"
block, began, written = (line * 60)[:{BLOCK}], time.monotonic(), 0
while True:
    written += os.write(DESCRIPTOR, block)
    ahead = written / {RATE} - (time.monotonic() - began)
    if ahead > 0.002:
        time.sleep(ahead)
"""


class Cost(NamedTuple):
    cpu: float  # percent of a processor
    wakes: float  # per second
    memory: float  # MB: proportional set size


def cost(
    command: list[str], seconds: float, *, stdin: IO[bytes] | None = None, with_keeper: bool = True
) -> Cost:
    """Run it, read its output, and measure it after a while."""
    with subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        reader = threading.Thread(target=_drain, args=(process,))
        reader.start()
        time.sleep(WARM_UP)
        pids = [process.pid, *(children_of(process.pid)[:1] if with_keeper else ())]
        before, began = [used_by(pid) for pid in pids], time.monotonic()
        time.sleep(seconds)
        after, took = [used_by(pid) for pid in pids], time.monotonic() - began
        memory = sum(memory_of(pid) for pid in pids)
        process.kill()
        reader.join()
    cpu, wakes = (
        sum(late[number] - early[number] for early, late in zip(before, after, strict=True))
        for number in (0, 1)
    )
    return Cost(100 * cpu / took, wakes / took, memory)


def cost_of_cat(printing: list[str], seconds: float) -> Cost:
    """The same output through `cat`."""
    with subprocess.Popen(printing, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as source:
        found = cost(["cat"], seconds, stdin=source.stdout, with_keeper=False)
        source.kill()
    return found


class Idle(NamedTuple):
    """One process of an idle worker."""

    name: str
    memory: float  # MB: proportional set size
    private: float  # MB: what no other process shares
    wakes: float  # per minute


def idle_worker(folder: Path, seconds: float) -> list[Idle]:
    """Supervisor, runner, guard and keeper of a command that is silent."""
    environment = os.environ | {
        "AGENTCHAT_URL": "ws://127.0.0.1:1",
        "AGENT_RUNTIME": "command",
        "AGENT_COMMAND": "sh -c 'echo here; exec sleep 100000'",  # an agent that listens
    }
    words = [*supervisor_program(), "idle", "Be silent.", "--token-file", f"{folder}/token"]
    with subprocess.Popen([*words, "--state-dir", f"{folder}/state"], env=environment) as supervisor:
        try:
            pids = _chain(supervisor.pid, 4)
            time.sleep(WARM_UP)
            before, began = [used_by(pid) for pid in pids], time.monotonic()
            time.sleep(seconds)
            minutes = (time.monotonic() - began) / 60
            wakes = [
                (used_by(pid)[1] - early) / minutes for pid, (_, early) in zip(pids, before, strict=True)
            ]
            return [
                Idle(name, memory_of(pid), memory_of(pid, "Private_Dirty:"), woken)
                for name, pid, woken in zip(
                    ("supervisor", "runner", "guard", "keeper"), pids, wakes, strict=True
                )
            ]
        finally:
            supervisor.terminate()


def _chain(pid: int, length: int) -> list[int]:
    """A process, its child, and so on, when the last of them has a child of its own."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = [pid]
        while below := children_of(found[-1]):
            found.append(below[0])
        if len(found) > length:
            return found[:length]
        time.sleep(0.1)
    raise TimeoutError("the worker has not started its command")


def _drain(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdout is not None
    while os.read(process.stdout.fileno(), 1 << 20):
        pass


def used_by(pid: int) -> tuple[float, int]:
    """Seconds on a processor, and how often it went to sleep."""
    status = Path(f"/proc/{pid}/status").read_text()
    sleeps = next(line for line in status.splitlines() if line.startswith("voluntary"))
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9, int(sleeps.split()[1])


def memory_of(pid: int, kind: str = "Pss:") -> float:
    """MB, by default the proportional set size."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(next(line for line in rollup.splitlines() if line.startswith(kind)).split()[1]) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.worker", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each is measured")
    parser.add_argument("--idle", type=float, default=60.0, help="how long an idle worker is measured")
    chosen = parser.parse_args()
    seconds = chosen.seconds
    with tempfile.TemporaryDirectory() as folder:
        guard = [*program(), "--state", f"{folder}/state.json", "--abort-file", f"{folder}/abort", "--"]
        silent = cost([*guard, "sleep", "1000"], seconds)
        print(
            f"silent command       {silent.cpu:6.2f} % {silent.wakes:7.1f} wake-ups/s {silent.memory:6.1f} MB"
        )
        for name, descriptor in (("standard output", 1), ("standard error", 2)):
            printing = [sys.executable, "-IS", "-c", PRINTING.replace("DESCRIPTOR", str(descriptor))]
            found, copied = cost([*guard, *printing], seconds), cost_of_cat(printing, seconds)
            missed = "" if found.cpu < MOST_CPU else f"  MUST MISSED: {MOST_CPU:g} %"
            print(
                f"{name:<20} {found.cpu:6.2f} % {found.wakes:7.1f} wake-ups/s {found.memory:6.1f} MB, "
                f"{found.cpu / copied.cpu:.1f} times cat ({copied.cpu:.2f} %){missed}"
            )

        worker = idle_worker(Path(folder), chosen.idle)
        for name, memory, private, wakes in worker:
            print(f"idle {name:<15} {memory:6.1f} MB, {private:.1f} MB of its own, {wakes:.1f} wake-ups/min")
        memory = sum(each.memory for each in worker)
        missed = "" if memory < MOST_MEMORY else f"  MUST MISSED: {MOST_MEMORY:g} MB"
        wakes = sum(each.wakes for each in worker)
        print(f"idle worker          {memory:6.1f} MB, {wakes / BEATS:.1f} wake-ups to a heartbeat{missed}")


if __name__ == "__main__":
    main()

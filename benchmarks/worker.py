"""Workers: what a guard costs while its command prints 10 MB a second, and while it is silent.

    python -m benchmarks.worker [--seconds N]

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

MOST_CPU: Final = 2.0  # percent of a processor at 10 MB/s
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
        before, began = [_used(pid) for pid in pids], time.monotonic()
        time.sleep(seconds)
        after, took = [_used(pid) for pid in pids], time.monotonic() - began
        memory = sum(_memory(pid) for pid in pids)
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


def _drain(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdout is not None
    while os.read(process.stdout.fileno(), 1 << 20):
        pass


def _used(pid: int) -> tuple[float, int]:
    """Seconds on a processor, and how often it went to sleep."""
    status = Path(f"/proc/{pid}/status").read_text()
    sleeps = next(line for line in status.splitlines() if line.startswith("voluntary"))
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9, int(sleeps.split()[1])


def _memory(pid: int) -> float:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(next(line for line in rollup.splitlines() if line.startswith("Pss:")).split()[1]) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.worker", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each is measured")
    seconds = parser.parse_args().seconds
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


if __name__ == "__main__":
    main()

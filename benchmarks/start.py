"""`python -m benchmarks.start`: what the start of a command costs, beside the start of Python and of asyncio.

CPU time of processes that run in turns, the cheapest of each: a machine with company makes some of them slower, and
none cheaper. `send` says a line to a hall on this machine. A missed bound is printed as MUST MISSED; the exit code
is 0.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.build import BUILD
from benchmarks.servers import SERVERS, installed, running

PYTHON: Final = "python -c pass"
IMPORT_MUST: Final = 15.0  # ms of `import moothall`, beyond those of Python
SEND_AIM: Final = 150.0  # ms


def cpu_ms(command: Sequence[str]) -> float:
    """User and system time of one run."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1e3


def in_turns(commands: dict[str, Sequence[str]], rounds: int) -> dict[str, list[float]]:
    for command in commands.values():
        cpu_ms(command)  # compiles what is imported
    found: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            found[name].append(cpu_ms(command))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.start", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=20, help="runs of each, in turns (20)")
    rounds = parser.parse_args().rounds
    BUILD.mkdir(exist_ok=True)
    cpus = sorted(os.sched_getaffinity(0))
    with (
        running(SERVERS["moothall"], {cpus[0]}, BUILD) as hall,
        tempfile.TemporaryDirectory(dir=BUILD) as folder,
    ):
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder))
        send = (installed("moothall"), "send", "#general", "hello", "--url", f"ws://127.0.0.1:{hall.port}")
        commands: dict[str, Sequence[str]] = {PYTHON: (sys.executable, "-c", "pass"), "moothall send": send}
        for module in ("asyncio", "typer", "moothall", "moothall.client.agent", "moothall.cli.main"):
            commands[f"import {module}"] = (sys.executable, "-c", f"import {module}")
        found = in_turns(commands, rounds)
    least = min(found[PYTHON])
    for name, values in found.items():
        ratio = min(values) / least
        print(f"{name:<28} {min(values):6.1f} ms, median {median(values):6.1f}   {ratio:5.1f} times {PYTHON}")
    imported, sent = min(found["import moothall"]) - least, min(found["moothall send"])
    print(
        f"import moothall takes {imported:.1f} ms, must be < {IMPORT_MUST:g}: {_verdict(imported, IMPORT_MUST)}"
    )
    print(f"moothall send takes {sent:.0f} ms, aim {SEND_AIM:g}: {'met' if sent <= SEND_AIM else 'missed'}")


def _verdict(value: float, must: float) -> str:
    return "met" if value < must else "MUST MISSED"


if __name__ == "__main__":
    main()

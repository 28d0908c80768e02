"""A crew of stand-in agents on this machine: memory, processor and wake-ups of all, and one call that each answers.

    python -m benchmarks.crew [--agents N] [--seconds N]

Each agent is a guest of examples/crew, as plain processes: supervisor, runner, guard and its keeper, the model's
program and its MCP server.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.worker import memory_of, used_by
from moothall import Agent, Message
from tests.support.example_crew import EXAMPLE, running_crew
from tests.support.workers import command_line

PATIENCE: Final = 900.0  # seconds
QUIET: Final = 20.0  # seconds between the last answer and the measurement

# What a process of an agent is, by a part of its command line; the first that fits.
KINDS: Final = (
    ("supervisor", b"supervisor"),
    ("runner", b"agent-runner"),
    ("guard and its keeper", b"moothall.worker.guard"),
    ("MCP server", b"\0mcp"),
    ("model", b"stand_in.py"),
    ("hall", b"\0serve"),
    ("keeper and understudy", b"worker.crew."),
)


class Sum(NamedTuple):
    processes: int = 0
    memory: float = 0.0  # MB: proportional set size
    cpu: float = 0.0  # seconds
    wakes: int = 0


def crew_file(count: int) -> str:
    """A crew of guests, as plain processes."""
    command = f"{sys.executable} {EXAMPLE / 'stand_in.py'}"
    lines = ["[crew]", 'name = "crew"', 'isolation = "process"', "[defaults]", 'runtime = "command"']
    lines += [f'command = "{command}"', 'mission = "Answer when you are asked."']
    lines += [f"[agents.guest-{number}]" for number in range(1, count + 1)]
    return "\n".join(lines) + "\n"


async def call_all(url: str, count: int) -> float:
    """Ask each agent, and wait for all answers. Return how many seconds that took."""
    answered = set[str]()
    done = asyncio.Event()
    caller = Agent("caller")

    @caller.on_message
    async def note(message: Message) -> None:
        answered.add(message.sender)
        if len(answered) == count:
            done.set()

    async with caller.connected(url), asyncio.timeout(PATIENCE):
        while True:
            members = await caller.join("#general")
            found = [member.id for member in members if (member.name or "").startswith("guest-")]
            if len(found) == count:
                break
            await caller.leave("#general")
            await asyncio.sleep(1)
        began = time.monotonic()
        for guest in found:
            await caller.send(guest, "Are you there?")
        await done.wait()
    return time.monotonic() - began


def measure(pids: list[int], seconds: float) -> tuple[dict[str, Sum], float]:
    """What the processes of the crew take, by their kinds, and how long that was looked at."""
    before, began = {pid: used_by(pid) for pid in pids}, time.monotonic()
    time.sleep(seconds)
    sums: dict[str, Sum] = {}
    for pid, (cpu, wakes) in before.items():
        later_cpu, later_wakes = used_by(pid)
        words = command_line(pid)
        kind = next((name for name, part in KINDS if part in words), "others")
        total = sums.get(kind, Sum())
        sums[kind] = Sum(
            total.processes + 1,
            total.memory + memory_of(pid),
            total.cpu + later_cpu - cpu,
            total.wakes + later_wakes - wakes,
        )
    return sums, time.monotonic() - began


def show(sums: dict[str, Sum], seconds: float, agents: int) -> None:
    for kind, found in sums.items():
        print(
            f"{kind:<22} {found.processes:4} processes {found.memory:8.1f} MB"
            f" {100 * found.cpu / seconds:6.2f} % {60 * found.wakes / seconds:8.1f} wake-ups/min"
        )
    memory = sum(found.memory for found in sums.values())
    cpu = 100 * sum(found.cpu for found in sums.values()) / seconds
    print(
        f"all: {memory:.0f} MB, {memory / agents:.1f} MB for an agent, {cpu:.1f} % of a processor when idle"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crew", description=__doc__.partition("\n")[0])
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the idle crew is measured")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        began = time.monotonic()
        hall = Path(root) / "crews" / "crew" / "hall"
        hall.mkdir(mode=0o700, parents=True)
        (hall / "moothall.toml").write_text(
            "no_limits = true\n"
        )  # the caller sends more than an agent should
        with running_crew(Path(root), crew_file(chosen.agents)) as crew:
            url = crew.stands()["hall"]
            asyncio.run(call_all(url, chosen.agents))
            print(
                f"all {chosen.agents} agents are there and have answered after {time.monotonic() - began:.0f} s"
            )
            took = asyncio.run(call_all(url, chosen.agents))
            print(f"all {chosen.agents} have answered the next call in {took:.1f} s")
            time.sleep(QUIET)
            show(*measure(crew.processes(), chosen.seconds), chosen.agents)
            crew.command("stop")


if __name__ == "__main__":
    main()

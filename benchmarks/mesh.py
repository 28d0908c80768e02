"""`python -m benchmarks.mesh`: what agents of the mesh cost a hall while they do nothing.

The memory of an agent that is connected and idle, and what 10,000 open conversations cost. The hall has one
processor, this program another. A missed bound is printed as MUST MISSED; the exit code is 0. What an envelope
costs is a workload of `python -m benchmarks` (envelopes.py).
"""

import argparse
import os
import resource
import selectors
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from benchmarks.agents import frame
from benchmarks.build import BUILD
from benchmarks.mesh_agents import Failed, Key, Line, arrivals, binary, proposes, resident_kb, worked
from benchmarks.servers import SERVERS, RunningServer, running

IDLE_AGENTS: Final = 5000
AT_ONCE: Final = 50  # of them
NOT_COUNTED: Final = 100  # of them: what a hall needs once
OPEN_CONVERSATIONS: Final = 10_000
IDLE_SECONDS: Final = 5.0

MEMORY: Final = 6.0  # KB

_PING: Final = b"\x89\x00"
_PONG: Final = frame(b"", 0x8A)


def idle_agents(server: RunningServer) -> tuple[float, float]:
    """KB of the hall's memory for each agent that is connected and has sent a BEACON, and CPU us of its arrival."""
    with ExitStack() as lines, selectors.DefaultSelector() as selector:

        def connect(count: int) -> None:
            for number in range(count):
                line = Line(server.port, Key().beacon())
                lines.enter_context(line.socket)
                selector.register(line.socket, selectors.EVENT_READ, line)
                if number % AT_ONCE == 0:
                    _discard(selector, 0.0)
            while _discard(selector, 1.0):
                pass

        connect(NOT_COUNTED)
        before, cpu = resident_kb(server.pid), worked(server.pid)
        connect(IDLE_AGENTS)
        cpu = worked(server.pid) - cpu
        return (resident_kb(server.pid) - before) / IDLE_AGENTS, cpu / IDLE_AGENTS * 1e6


def _discard(selector: selectors.BaseSelector, seconds: float) -> bool:
    """Read what has come."""
    found = selector.select(seconds)
    for key, _ in found:
        line: Line = key.data
        some = line.socket.recv(1 << 20)
        if not some:
            raise Failed("the hall closed a connection")
        if _PING in some:
            line.send(_PONG)
    return bool(found)


def open_conversations(server: RunningServer) -> tuple[float, float, float]:
    """Shares of a processor that an idle hall takes, without conversations and with them; and KB of memory for
    each."""
    sender, receiver = Key(), Key()
    time.sleep(1.0)
    without = _idle_share(server)
    with ExitStack() as lines:
        hears, says = Line(server.port, receiver.beacon()), Line(server.port, sender.beacon())
        for line in (hears, says):
            lines.enter_context(line.socket)
        hears.prove(receiver)
        arrived = arrivals(hears, [says])
        before = resident_kb(server.pid)
        landed = 0
        while landed < OPEN_CONVERSATIONS:
            some = proposes(sender, receiver, 100)
            says.send(b"".join(map(binary, some)))
            missing = len(some)
            while missing:
                missing -= len(next(arrived))
            landed += len(some)
        memory = (resident_kb(server.pid) - before) / landed
        time.sleep(2.0)
        return without, _idle_share(server), memory


def _idle_share(server: RunningServer) -> float:
    began, cpu = time.monotonic(), worked(server.pid)
    time.sleep(IDLE_SECONDS)
    return (worked(server.pid) - cpu) / (time.monotonic() - began)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mesh", description=__doc__)
    parser.add_argument("--only", choices=("memory", "conversations"), help="this part alone")
    parser.add_argument("--disk", type=Path, default=BUILD, metavar="FOLDER", help="where databases are")
    options = parser.parse_args()
    options.disk.mkdir(exist_ok=True)
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        sys.exit("The benchmarks need two processors: one for the hall, one for the agents.")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.sched_setaffinity(0, {cpus[1]})
    if options.only in (None, "memory"):
        with running(SERVERS["moothall"], {cpus[0]}, options.disk) as server:
            size, arrival = idle_agents(server)
        verdict = "met" if size < MEMORY else "MUST MISSED"
        print(
            f"{IDLE_AGENTS:,} idle agents: each takes {size:.2f} KB, and {arrival:.0f} us of CPU to arrive"
            f"   below {MEMORY:g} KB: {verdict}",
            flush=True,
        )
    if options.only in (None, "conversations"):
        with running(SERVERS["moothall"], {cpus[0]}, options.disk) as server:
            without, with_them, memory = open_conversations(server)
        print(
            f"{OPEN_CONVERSATIONS:,} open conversations: an idle hall takes {100 * without:.2f} % of a processor"
            f" without them, {100 * with_them:.2f} % with them, and {memory:.2f} KB of memory for each",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""Files: 50 MB from one agent to another, and what chat in the same hall notices of it.

    python -m benchmarks.files [--size MB] [--cuts N]

A fresh hall with its default limits has honest chat (`honest`). It is measured for some seconds while no file is
under way, and for as long while one is. Then the same files are sent again, through a proxy that cuts the line of
the sender or of the receiver several times. Sender and receiver share a process of their own, with the SDK's
default throttle.
"""

import argparse
import asyncio
import hashlib
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.abuse import hall_command, helper, honest_window, ready
from benchmarks.build import BUILD
from benchmarks.honest import Window
from benchmarks.servers import Server, free_port, is_healthy, running
from moothall import Agent, FileOffer, PrivateKey, Progress
from tests.support.faults import FaultProxy

TIME: Final = 120.0  # seconds from accept to complete (seed 001, file transfer)
CHAT_P99: Final = 2.0  # multiples of quiet
LEAST_P99: Final = 5.0  # milliseconds; the honest side alone varies by as much
WINDOW: Final = 20.0  # seconds
KEYS: Final = (PrivateKey(bytes(range(32))), PrivateKey(bytes(range(1, 33))))


async def transfer(ports: tuple[int, int], source: Path, folder: Path, cuts: "Cuts | None" = None) -> float:
    """Send a file, and return the seconds from accept to delivery. End the program if another file arrives."""
    sender, receiver = (
        Agent(name, identity=key) for name, key in zip(("sender", "receiver"), KEYS, strict=True)
    )
    taken: asyncio.Future[Path] = asyncio.get_running_loop().create_future()

    @receiver.on_file_offer
    async def take(offer: FileOffer) -> None:
        received = await offer.accept(folder, progress=None if cuts is None else cuts.look)
        taken.set_result(received.files[0].path)

    urls = [f"ws://127.0.0.1:{port}" for port in ports]
    async with sender.connected(urls[0]), receiver.connected(urls[1]):
        sent = await sender.send_files(receiver.address, source)
        path = await taken
    if digest(path) != digest(source):
        sys.exit("what arrived is not what was sent")
    return sent.progress.seconds


class Cuts:
    """Cut a line whenever another part of the chunks has arrived."""

    def __init__(self, proxies: list[FaultProxy], count: int) -> None:
        self._proxies = proxies
        self._count = count
        self.done = 0

    def look(self, progress: Progress) -> None:
        if self.done < self._count and progress.fraction > (self.done + 1) / (self._count + 1):
            self._proxies[self.done % len(self._proxies)].drop()
            self.done += 1


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


async def beside_chat(
    honest: "subprocess.Popen[str]", port: int, source: Path, folder: Path
) -> tuple[float, Window]:
    sending = asyncio.create_task(transfer((port, port), source, folder))
    busy = await asyncio.to_thread(honest_window, honest, WINDOW)
    return await sending, busy


async def with_cuts(port: int, source: Path, folder: Path, count: int) -> float:
    async with FaultProxy(port) as first, FaultProxy(port) as second:
        cuts = Cuts([first, second], count)
        places = tuple(int(proxy.url.rpartition(":")[2]) for proxy in (first, second))
        seconds = await transfer((places[0], places[1]), source, folder, cuts)
    if cuts.done != count:
        sys.exit(f"only {cuts.done} of {count} cuts were made")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.files", description=__doc__)
    parser.add_argument("--size", type=int, default=50, metavar="MB")
    parser.add_argument("--cuts", type=int, default=3)
    options = parser.parse_args()
    BUILD.mkdir(exist_ok=True)
    cpus = sorted(os.sched_getaffinity(0))
    server = Server("moothall, limits on", "agentchat", partial(hall_command, free_port()), is_healthy)
    with tempfile.TemporaryDirectory(dir=BUILD) as name, running(server, {cpus[0]}, BUILD) as hall:
        folder = Path(name)
        source = folder / "noise"
        source.write_bytes(os.urandom(options.size * 1024 * 1024))
        with helper("honest", (str(hall.port),), cpus[-1]) as honest:
            ready(honest)
            quiet = honest_window(honest, WINDOW)
            seconds, busy = asyncio.run(beside_chat(honest, hall.port, source, folder / "one"))
        report("seconds from accept to delivery", seconds, TIME)
        print(
            f"p99 of chat: {quiet.chat_p99:.1f} ms alone, {busy.chat_p99:.1f} ms beside it; {busy.lost} lost"
        )
        report("p99 of chat, to quiet", busy.chat_p99 / max(quiet.chat_p99, LEAST_P99), CHAT_P99)
        seconds = asyncio.run(with_cuts(hall.port, source, folder / "two", options.cuts))
        report(f"seconds with {options.cuts} cuts; the hash holds", seconds, TIME)


def report(what: str, value: float, must: float) -> None:
    print(f"{what}: {value:.2f}, must <= {must:g} {'met' if value <= must else 'MUST MISSED'}", flush=True)


if __name__ == "__main__":
    main()

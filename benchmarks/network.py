"""`python -m benchmarks.network`: what a host of the mesh's network costs, beside its signatures and js-libp2p.

Messages in a topic, envelopes with their ACK, and connections, from hosts in this process to one in another; then
200 peers with 1,000 messages a second. Only CPU time counts: that of the measured process, with its kernel's, and
for envelopes and connections that of this side too. js-libp2p is measured in the same way, in the same round, where
node and npm are (`tests/strangers/README.md`). A missed bound is printed as MUST MISSED; the exit code is 0.
"""

import argparse
import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import pytest

from benchmarks.mesh_agents import resident_kb, worked
from benchmarks.network_peer import SIZE, TOPIC, Counting, new_host
from benchmarks.servers import ROOT
from benchmarks.yardstick import verification_on
from moothall.identity.signatures import expand
from moothall.network.host import Host
from moothall.p2p.multiaddr import Multiaddr
from moothall.p2p.pubsub import signed_message
from tests.strangers.conftest import PINNED
from tests.strangers.js_peer import JsPeer, js_peer
from tests.strangers.sandbox import only_loopback
from tests.support import npm
from tests.support.npm import Packages

WARM_UP: Final = 500  # messages
MESSAGES: Final = 3000  # a round
ENVELOPES: Final = 300
CONNECTIONS: Final = 30
AHEAD: Final = 512 * 1024  # bytes of messages that may wait here
CROWD: Final = 200
CROWD_PROCESSES: Final = 2
RATE: Final = 1000  # messages a second of the whole crowd
CROWD_SECONDS: Final = 25.0  # two heartbeats

MUST_SHARE: Final = 0.70  # of the rate at which one core verifies
MUST_ENVELOPE: Final = 1000.0  # us, of both sides
MUST_CONNECTION: Final = 50_000.0  # us, of both sides


class Measured(NamedTuple):
    """CPU us of one. Envelopes and connections have two sides: the measured one, and this one."""

    verification: float
    message: float
    envelope: tuple[float, float]
    connection: tuple[float, float]


class Peer:
    """A process that is measured."""

    def __init__(self, talk: JsPeer) -> None:
        self._talk = talk
        self.address = talk.address
        self.pid = talk.process.pid
        self.messages = 0

    async def do(self, name: str, **options: object) -> Any:
        return await self._talk.do(name, **options)

    def cpu_us(self) -> float:
        return worked(self.pid) * 1e6


@asynccontextmanager
async def process(cpu: int, *arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A process of `network_peer`, and its first line."""
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.network_peer", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        preexec_fn=lambda: os.sched_setaffinity(0, {cpu}),
    )
    assert running.stdin is not None
    assert running.stdout is not None
    try:
        yield running, (await running.stdout.readline()).decode().strip()
    finally:
        running.stdin.close()
        await running.wait()


@asynccontextmanager
async def ours(cpu: int) -> AsyncIterator[Peer]:
    async with process(cpu) as (running, address):
        talk = JsPeer(running, Multiaddr.parse(address))
        listening = asyncio.create_task(talk.listen())
        yield Peer(talk)
        listening.cancel()


@asynccontextmanager
async def js(cpu: int, packages: Packages) -> AsyncIterator[Peer]:
    with tempfile.TemporaryDirectory() as state:
        async with js_peer(packages, Path(state), "js") as talk:
            os.sched_setaffinity(talk.process.pid, {cpu})
            yield Peer(talk)


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[Host, Counting]]:
    """A host of this process."""
    resident = Counting()
    host = new_host(resident)
    try:
        yield host, resident
    finally:
        await host.close()


# -- what is measured ----------------------------------------------------------------------------------------


async def gossip(peer: Peer) -> float:
    """CPU us of the peer for a message in a topic."""
    async with opened() as (host, resident):
        host.join(TOPIC)
        await peer.do("subscribe", topic=TOPIC)
        await host.dial(peer.address)
        await resident.until(lambda: resident.in_topic)
        await _publish(host, peer, WARM_UP)
        before = peer.cpu_us()
        await _publish(host, peer, MESSAGES)
        return (peer.cpu_us() - before) / MESSAGES


async def _publish(host: Host, peer: Peer, number: int) -> None:
    peer.messages += number
    for _ in range(number):
        host.publish(TOPIC, os.urandom(SIZE))
        while host.statistics().waiting > AHEAD:  # noqa: ASYNC110  # there is no event for it
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)
    await peer.do("messages", count=peer.messages)


async def envelopes(peer: Peer) -> tuple[float, float]:
    """CPU us for an envelope and its ACK, one after the other: of the peer, and of this side."""
    async with opened() as (host, _):
        name = await host.dial(peer.address)
        for _ in range(100):
            await host.send(name, os.urandom(SIZE))
        before, own = peer.cpu_us(), time.process_time()
        for _ in range(ENVELOPES):
            await host.send(name, os.urandom(SIZE))
        own = time.process_time() - own
        return (peer.cpu_us() - before) / ENVELOPES, own * 1e6 / ENVELOPES


async def connections(peer: Peer) -> tuple[float, float]:
    """CPU us from dialling to knowing who the peer is, and of the end: of the peer, and of this side."""
    before, own = peer.cpu_us(), time.process_time()
    for _ in range(CONNECTIONS):
        async with opened() as (host, resident):
            await host.dial(peer.address)
            await resident.until(lambda: resident.identified_peers)
    own = time.process_time() - own
    return (peer.cpu_us() - before) / CONNECTIONS, own * 1e6 / CONNECTIONS


async def crowd(cpus: Sequence[int]) -> None:
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(ours(cpus[0]))
        await hub.do("subscribe", topic=TOPIC)
        alone = resident_kb(hub.pid)
        groups = []
        for _ in range(CROWD_PROCESSES):
            size = str(CROWD // CROWD_PROCESSES)
            group, _ready = await stack.enter_async_context(process(cpus[1], size, str(hub.address)))
            groups.append(group)
        memory = (resident_kb(hub.pid) - alone) / CROWD
        began, before = time.monotonic(), hub.cpu_us()
        published = sum(
            await asyncio.gather(
                *(
                    _asked(group, "publish", seconds=CROWD_SECONDS, rate=RATE // CROWD_PROCESSES)
                    for group in groups
                )
            )
        )
        share = (hub.cpu_us() - before) / 1e6 / (time.monotonic() - began)
        await hub.do("messages", count=published)
        numbers = await hub.do("numbers")
    lost = published - numbers["messages"] + numbers["dropped"]
    verdict = "met" if share < 1 and not lost and numbers["in_topic"] == CROWD else "MUST MISSED"
    print(
        f"{CROWD} peers ({memory:.0f} KB each), {published / CROWD_SECONDS:,.0f} messages a second,"
        f" {numbers['mesh']} in the mesh: {100 * share:.0f} % of a processor, {lost} lost   {verdict}",
        flush=True,
    )


async def _asked(group: asyncio.subprocess.Process, name: str, **options: object) -> int:
    assert group.stdin is not None
    assert group.stdout is not None
    group.stdin.write(json.dumps({"id": 0, "name": name, **options}).encode() + b"\n")
    result: int = json.loads(await group.stdout.readline())["result"]
    return result


# -- the report ----------------------------------------------------------------------------------------------


async def rounds(cpus: Sequence[int], number: int, packages: Packages | None) -> None:
    signed = [
        b"libp2p-pubsub:"
        + signed_message(expand(os.urandom(32)), each, TOPIC, os.urandom(SIZE)).encoded[:-66]
        for each in range(500)
    ]
    found: dict[str, list[Measured]] = {}
    for _ in range(number):
        kinds = {"moothall": ours(cpus[0])}
        if packages is not None:
            kinds["js-libp2p"] = js(cpus[0], packages)
        for name, starting in kinds.items():
            async with starting as peer:
                bound = await asyncio.to_thread(verification_on, cpus[0], 0.5, signed)
                measured = Measured(bound, await gossip(peer), await envelopes(peer), await connections(peer))
            found.setdefault(name, []).append(measured)
    for name, runs in found.items():
        share = median(run.verification / run.message for run in runs)
        print(
            f"{name:<10} message {median(run.message for run in runs):7.1f} us, a verification"
            f" {median(run.verification for run in runs):5.1f} us: {100 * share:3.0f} % of its rate"
            + _verdict(name, f"at least {100 * MUST_SHARE:.0f} %", is_met=share >= MUST_SHARE)
        )
        for what, must in (("envelope", MUST_ENVELOPE), ("connection", MUST_CONNECTION)):
            sides = [median(getattr(run, what)[side] for run in runs) for side in (0, 1)]
            print(
                f"{name:<10} {what} {sides[0]:7.0f} us, and {sides[1]:.0f} us of the other side"
                + _verdict(name, f"below {must:,.0f} us together", is_met=sum(sides) < must)
            )


def _verdict(name: str, bound: str, *, is_met: bool) -> str:
    return f"   {bound}: {'met' if is_met else 'MUST MISSED'}" if name == "moothall" else ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.network", description=__doc__)
    parser.add_argument("--only", choices=("rounds", "crowd"), help="this part alone")
    parser.add_argument("--rounds", type=int, default=3, help="of each stack, in turn (3)")
    options = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        sys.exit("The benchmarks need two processors: one for the host, one for its peers.")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.sched_setaffinity(0, {cpus[1]})
    if options.only in (None, "rounds"):
        try:
            packages = npm.installed(PINNED)
            with only_loopback():
                asyncio.run(rounds(cpus, options.rounds, packages))
        except pytest.skip.Exception as reason:
            print(f"js-libp2p: {reason}")
            asyncio.run(rounds(cpus, options.rounds, None))
    if options.only in (None, "crowd"):
        asyncio.run(crowd(cpus))


if __name__ == "__main__":
    main()

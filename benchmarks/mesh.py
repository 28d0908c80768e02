"""`python -m benchmarks.mesh`: what the mesh costs a hall, beside what its signatures alone cost.

Envelopes go from agents to another one, bilaterally and on a topic. A bilateral envelope is a PROPOSE of a new
conversation: it is on the disk, with its row in the log, before it is routed. Then: the memory of an agent that is
connected and idle, and what 10,000 open conversations cost while nothing happens. The hall has one processor, this
program another. Envelopes are signed before the window opens. A missed bound is printed as MUST MISSED; the exit
code is 0.
"""

import argparse
import json
import os
import resource
import selectors
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.agents import frame, text
from benchmarks.build import BUILD
from benchmarks.servers import SERVERS, RunningServer, running
from benchmarks.yardstick import verify_for
from moothall.hall.mesh.frames import proof_text
from moothall.identity.signatures import expand, sign_expanded
from moothall.wire.mesh.announcements import Beacon
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import Envelope, decode, encode, seal, signing_bytes
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.offers import Propose

SENDERS: Final = 16
IN_FLIGHT: Final = 8  # of each sender
WARM_UP: Final = 0.5  # seconds
FASTEST: Final = 12_000  # envelopes a second that are prepared
STUCK: Final = 10.0  # seconds without an envelope end a run
IDLE_AGENTS: Final = 5000
AT_ONCE: Final = 50  # of them
NOT_COUNTED: Final = 100  # of them: what a hall needs once
OPEN_CONVERSATIONS: Final = 10_000
IDLE_SECONDS: Final = 5.0

# 60 % of the rate at which one core verifies; the aim is 75 %.
MUST: Final = 1 / 0.60
AIM: Final = 1 / 0.75
MEMORY: Final = 6.0  # KB
TEXT: Final = "The parser is done. " * 5

_UPGRADE: Final = (
    b"GET /mesh HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"Sec-WebSocket-Protocol: moothall.mesh.v1\r\n\r\n"
)
_PING: Final = b"\x89\x00"
_PONG: Final = frame(b"", 0x8A)
_SENDER: Final = slice(5, 37)  # of an encoded envelope


class Failed(Exception):
    """The hall did not do what it should, so that there is nothing to measure."""


class Key:
    """Signs envelopes, with nonces that begin at the time."""

    def __init__(self) -> None:
        self._secret = expand(os.urandom(32))
        self.id = self._secret[32:]
        self._nonce = time.time_ns() // 1000

    def envelope(
        self, msg_type: MsgType, payload: bytes, to: bytes = bytes(32), about: bytes = bytes(16)
    ) -> Envelope:
        self._nonce += 1
        return seal(
            msg_type,
            payload,
            sender=self.id,
            sign=self.sign,
            nonce=self._nonce,
            now=time.time_ns() // 1000,
            recipient=to,
            conversation_id=about,
        )

    def sign(self, message: bytes) -> bytes:
        return sign_expanded(self._secret, message)

    def beacon(self) -> bytes:
        return binary(
            encode(self.envelope(MsgType.BEACON, Beacon(self.id, f"agent {self.id.hex()[:8]}").encode()))
        )


def binary(envelope: bytes) -> bytes:
    return frame(envelope, 0x82)


class Line:
    """A connection. `take` gets each frame of the hall."""

    def __init__(self, port: int, first: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(_UPGRADE)
        answer = b""
        while b"\r\n\r\n" not in answer:
            some = self.socket.recv(65_536)
            if not some:
                raise Failed(f"the hall hung up: {answer!r}")
            answer += some
        head, _, self._buffer = answer.partition(b"\r\n\r\n")
        if b" 101 " not in head:
            raise Failed(head.splitlines()[0].decode())
        self.socket.sendall(first)
        self.socket.setblocking(False)

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """What has come: opcodes and payloads."""
        try:
            some = self.socket.recv(1 << 20)
        except BlockingIOError:
            return
        if not some:
            raise Failed("the hall closed a connection")
        data = self._buffer + some
        place = 0
        while len(data) - place >= 4:
            size, start = data[place + 1], place + 2
            if size == 126:
                size, start = int.from_bytes(data[place + 2 : place + 4]), place + 4
            elif size == 127:
                if len(data) - place < 10:
                    break
                size, start = int.from_bytes(data[place + 2 : place + 10]), place + 10
            if len(data) < start + size:
                break
            yield data[place], data[start : start + size]
            place = start + size
        self._buffer = data[place:]

    def prove(self, key: Key) -> None:
        """As agents do that want their inbox: then nothing is put into it while they are here."""
        self.send(text(type="prove", agent_id=key.id.hex()))
        asked = self._answer("challenge")
        said = proof_text(asked["challenge"], asked["hall"], key.id.hex())
        self.send(text(type="prove", signature=key.sign(said).hex()))
        self._answer("proven")

    def _answer(self, wanted: str) -> dict[str, Any]:
        end = time.monotonic() + STUCK
        while time.monotonic() < end:
            for opcode, payload in self.frames():
                if opcode == 0x81 and (found := json.loads(payload))["type"] == wanted:
                    return dict(found)
            time.sleep(0.001)
        raise Failed(f"the hall did not answer {wanted}")

    def send(self, data: bytes) -> None:
        while data:
            try:
                data = data[self.socket.send(data) :]
            except BlockingIOError:
                time.sleep(0.0001)


@dataclass
class Clocked:
    """What a hall did in a window."""

    envelopes: int
    seconds: float
    cpu: float

    @property
    def cpu_us(self) -> float:
        return self.cpu / self.envelopes * 1e6


def worked(pid: int) -> float:
    """Seconds on a processor so far, of all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1])


def proposes(sender: Key, receiver: Key, count: int) -> list[bytes]:
    payload = Propose(amount=0, message=TEXT).encode()
    return [
        encode(sender.envelope(MsgType.PROPOSE, payload, receiver.id, os.urandom(16))) for _ in range(count)
    ]


def broadcasts(sender: Key, receiver: Key, count: int) -> list[bytes]:
    payload = Broadcast(topic="bench", title="", tags=(), format="data", content=TEXT.encode()).encode()
    return [encode(sender.envelope(MsgType.BROADCAST, payload)) for _ in range(count)]


Prepared = Callable[[Key, Key, int], list[bytes]]


def drive(server: RunningServer, seconds: float, senders: int, in_flight: int, prepared: Prepared) -> Clocked:
    """Each sender has `in_flight` envelopes under way, and sends the next when one has arrived."""
    receiver, keys = Key(), [Key() for _ in range(senders)]
    most = int(FASTEST * (WARM_UP + seconds)) // senders
    ready = {key.id: iter([binary(raw) for raw in prepared(key, receiver, most)]) for key in keys}
    with ExitStack() as lines:
        hears = Line(server.port, receiver.beacon() + text(type="subscribe", topic="bench"))
        lines.enter_context(hears.socket)
        hears.prove(receiver)
        says = {key.id: Line(server.port, key.beacon()) for key in keys}
        for line in says.values():
            lines.enter_context(line.socket)
        arrived = _arrivals(hears, says)
        time.sleep(0.2)  # until all beacons have arrived
        next(arrived)
        for sender, line in says.items():
            for _ in range(in_flight):
                line.send(next(ready[sender]))
        _until(time.monotonic() + WARM_UP, arrived, says, ready)
        began, cpu = time.monotonic(), worked(server.pid)
        envelopes = _until(began + seconds, arrived, says, ready)
        return Clocked(envelopes, time.monotonic() - began, worked(server.pid) - cpu)


def _until(
    end: float, arrived: Iterator[list[bytes]], says: dict[bytes, Line], ready: dict[bytes, Iterator[bytes]]
) -> int:
    envelopes = 0
    while time.monotonic() < end:
        answers: dict[bytes, list[bytes]] = {}
        for sender in next(arrived):
            envelopes += 1
            answers.setdefault(sender, []).append(next(ready[sender]))
        for sender, frames in answers.items():
            says[sender].send(b"".join(frames))
    return envelopes


def _arrivals(hears: Line, says: dict[bytes, Line]) -> Iterator[list[bytes]]:
    """Again and again: the senders of the envelopes that have come to the receiver."""
    with selectors.DefaultSelector() as selector:
        for line in (hears, *says.values()):
            selector.register(line.socket, selectors.EVENT_READ, line)
        last = time.monotonic()
        while True:
            senders: list[bytes] = []
            for key, _ in selector.select(0.01):
                line = key.data
                for opcode, payload in line.frames():
                    if opcode == 0x81 and b'"subscribed"' not in payload:
                        raise Failed(payload.decode())
                    if line is hears and opcode == 0x82 and payload[2] != MsgType.BEACON:
                        senders.append(payload[_SENDER])
            if senders:
                last = time.monotonic()
            elif time.monotonic() - last > STUCK:
                raise Failed(f"no envelope for {STUCK:.0f} s")
            yield senders


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
        arrived = _arrivals(hears, {sender.id: says})
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


# -- the report ----------------------------------------------------------------------------------------------


def yardstick(cpu: int, seconds: float, messages: Sequence[bytes]) -> float:
    """CPU us of one verification."""
    with ProcessPoolExecutor(1, initializer=os.sched_setaffinity, initargs=(0, {cpu})) as processes:
        return processes.submit(verify_for, seconds, messages, 1).result().server_cpu_us_per_delivery


def routes(cpus: Sequence[int], disk: Path, seconds: float, rounds: int) -> None:
    ways: tuple[tuple[str, int, int, Prepared], ...] = (
        (f"PROPOSE, {SENDERS} senders", SENDERS, IN_FLIGHT, proposes),
        ("PROPOSE, 1 sender", 1, 4 * IN_FLIGHT, proposes),
        ("BROADCAST, 1 sender", 1, 4 * IN_FLIGHT, broadcasts),
    )
    messages = [signing_bytes(decode(raw)) for raw in proposes(Key(), Key(), 1000)]
    found: dict[str, list[tuple[float, Clocked]]] = {}
    for _ in range(rounds):
        bound = yardstick(cpus[0], seconds, messages)
        for name, senders, in_flight, prepared in ways:
            with running(SERVERS["moothall"], {cpus[0]}, disk) as server:
                clocked = drive(server, seconds, senders, in_flight, prepared)
            found.setdefault(name, []).append((bound, clocked))
    for name, runs in found.items():
        ratio = median(clocked.cpu_us / bound for bound, clocked in runs)
        bound = median(bound for bound, _ in runs)
        cost = median(clocked.cpu_us for _, clocked in runs)
        rate = median(clocked.envelopes / clocked.seconds for _, clocked in runs)
        verdict = ("met" if ratio <= AIM else "aim missed") if ratio <= MUST else "MUST MISSED"
        print(
            f"{name:<22} {cost:7.1f} us of CPU, a verification {bound:5.1f} us: {100 / ratio:3.0f} % of its rate"
            f" ({rate:,.0f} a second)   at least 60 %, aim 75 %: {verdict}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mesh", description=__doc__)
    parser.add_argument("--only", choices=("routes", "memory", "conversations"), help="this part alone")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each measured window (2)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each kind, interleaved (3)")
    parser.add_argument("--disk", type=Path, default=BUILD, metavar="FOLDER", help="where databases are")
    options = parser.parse_args()
    options.disk.mkdir(exist_ok=True)
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        sys.exit("The benchmarks need two processors: one for the hall, one for the agents.")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.sched_setaffinity(0, {cpus[1]})
    if options.only in (None, "routes"):
        routes(cpus, options.disk, options.seconds, options.rounds)
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

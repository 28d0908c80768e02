"""Agents of the mesh: keys, connections, and envelopes that go from some of them to another one.

    python -m benchmarks.mesh_agents KIND --port PORT --pid PID [options]

is a generator, as that in C is for the other wires: it plays the agents of a workload and prints one run. A PROPOSE
opens a new conversation: it is on the disk, with its row in the log, before it is routed. BROADCASTs are logged
together. Envelopes are signed before the window opens.
"""

import argparse
import json
import os
import selectors
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

import msgspec

from benchmarks.agents import frame, text
from benchmarks.workloads import Run
from moothall.hall.mesh.frames import proof_text
from moothall.identity.signatures import expand, sign_expanded
from moothall.wire.mesh.announcements import Beacon
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import Envelope, encode, seal
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.offers import Propose

FASTEST: Final = 30_000  # envelopes a second that are prepared
STUCK: Final = 10.0  # seconds without an envelope end a run
TEXT: Final = "The parser is done. " * 5

_UPGRADE: Final = (
    b"GET /mesh HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"Sec-WebSocket-Protocol: moothall.mesh.v1\r\n\r\n"
)
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


KINDS: Final[dict[str, Callable[[Key, Key, int], list[bytes]]]] = {
    "PROPOSE": proposes,
    "BROADCAST": broadcasts,
}


@dataclass(slots=True)
class Sender:
    """Sends the next envelope when one has arrived. They arrive in the order in which they were sent."""

    line: Line
    ready: Iterator[bytes]
    sent: deque[float] = field(default_factory=deque)  # when, those under way

    def send(self, count: int) -> None:
        frames = list(islice(self.ready, count))
        if len(frames) < count:
            raise Failed(f"the hall took more than the {FASTEST} envelopes a second that were prepared")
        self.sent.extend([time.monotonic()] * count)
        self.line.send(b"".join(frames))


def drive(options: argparse.Namespace) -> Run:
    """Each sender has `in_flight` envelopes under way."""
    receiver, keys = Key(), [Key() for _ in range(options.senders)]
    most = int(FASTEST * (options.warm_up + options.seconds)) // options.senders
    prepare = KINDS[options.kind]
    ready = {key.id: iter([binary(raw) for raw in prepare(key, receiver, most)]) for key in keys}
    with ExitStack() as lines:
        hears = Line(options.port, receiver.beacon() + text(type="subscribe", topic="bench"))
        lines.enter_context(hears.socket)
        hears.prove(receiver)
        senders = {key.id: Sender(Line(options.port, key.beacon()), ready[key.id]) for key in keys}
        for sender in senders.values():
            lines.enter_context(sender.line.socket)
        arrived = arrivals(hears, [sender.line for sender in senders.values()])
        time.sleep(0.2)  # until all beacons have arrived
        next(arrived)
        for sender in senders.values():
            sender.send(options.in_flight)
        _until(time.monotonic() + options.warm_up, arrived, senders)
        began, machine, cpu, own = time.monotonic(), _machine(), worked(options.pid), time.process_time()
        took = _until(began + options.seconds, arrived, senders)
        seconds, own = time.monotonic() - began, time.process_time() - own
        cpu = worked(options.pid) - cpu
    busy, passed = (after - before for before, after in zip(machine, _machine(), strict=True))
    cuts = quantiles(took, n=100)
    return Run(
        workload=options.kind,
        wire="mesh",
        deliveries=len(took),
        seconds=seconds,
        deliveries_per_second=len(took) / seconds,
        server_cpu_seconds=cpu,
        server_cpu_us_per_delivery=cpu / len(took) * 1e6,
        p50_us=cuts[49] * 1e6,
        p99_us=cuts[98] * 1e6,
        max_us=max(took) * 1e6,
        generator_load=own / seconds,
        others=max(0.0, busy - cpu - own) / passed,
        rss_before_kb=0,
        rss_after_kb=resident_kb(options.pid),
        notices=0,
    )


def _until(end: float, arrived: Iterator[list[bytes]], senders: dict[bytes, Sender]) -> list[float]:
    """How long each envelope took that has arrived."""
    took: list[float] = []
    while time.monotonic() < end:
        answers: dict[bytes, int] = {}
        for sender in next(arrived):
            answers[sender] = answers.get(sender, 0) + 1
        now = time.monotonic()
        for sender, count in answers.items():
            took += [now - senders[sender].sent.popleft() for _ in range(count)]
            senders[sender].send(count)
    return took


def _machine() -> tuple[float, float]:
    """Seconds of all processors that processes and other guests took, and that passed."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    user, nice, system, *_, steal = ticks
    hertz = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + steal) / hertz, sum(ticks) / hertz


def arrivals(hears: Line, says: Sequence[Line]) -> Iterator[list[bytes]]:
    """Again and again: the senders of the envelopes that have come to the receiver."""
    with selectors.DefaultSelector() as selector:
        for line in (hears, *says):
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


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mesh_agents")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--wire", choices=("mesh",))
    for name in ("--port", "--pid", "--senders", "--in-flight"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--seconds", "--warm-up"):
        parser.add_argument(name, type=float, required=True)
    try:
        sys.stdout.buffer.write(msgspec.json.encode(drive(parser.parse_args())))
    except Failed as failure:
        sys.exit(str(failure))


if __name__ == "__main__":
    main()

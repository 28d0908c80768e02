"""The hostile side of the abuse benchmark: connections that send the same frames as fast as the hall reads them.

    python -m benchmarks.attacker PORT KEEP_PORT ATTACK CONNECTIONS TARGET

says READY when all connections are in, attacks when a line arrives on stdin, and ends with it. What it gets back is
read and thrown away: a client that does not read is closed, and that is another test.
"""

import os
import selectors
import socket
import sys
import time
from contextlib import suppress
from typing import Final

from benchmarks.agents import Client, Refused, key_of
from benchmarks.attack import Attack, Attacker, describe
from benchmarks.attacks import ATTACKS, CROWD

ADDRESS: Final = "203.0.113.7"  # of all of them
LEAST: Final = 64 * 1024  # bytes to have at hand for one write
REST: Final = 0.02  # seconds until a connection that was refused is tried again


class Line:
    """One connection, and how far it has sent its frames."""

    def __init__(self, attacker: Attacker, frames: bytes) -> None:
        self.attacker = attacker
        self.frames = memoryview(frames)
        self.sent = 0
        self.sock: socket.socket | None = None
        self.again_at = 0.0


def main() -> None:
    port, keep_port = int(sys.argv[1]), int(sys.argv[2])
    (attack,) = [each for each in ATTACKS if describe(each) == sys.argv[3]]
    count, target = int(sys.argv[4]), sys.argv[5]
    os.nice(19)
    attackers = [Attacker(number, "", target, key_of(f"attacker-{number}")) for number in range(count)]
    if attack.verified:
        _make_known(port, attackers)
    socks = [_connect(port, keep_port, attack, attacker) for attacker in attackers]
    lines = [Line(attacker, _frames(attack, attacker)) for attacker in attackers]
    print("READY", flush=True)
    sys.stdin.readline()
    _attack(port, keep_port, attack, lines, socks)


def _make_known(port: int, attackers: list[Attacker]) -> None:
    """Keys that the hall knows: an address may bring a few new ones an hour, and an attacker has time."""
    for attacker in attackers:
        client = Client(port, f"192.0.2.{attacker.number % 250}")
        client.identify("attacker", attacker.key)
        client.close()


def _frames(attack: Attack, attacker: Attacker) -> bytes:
    frames = b"".join(attack.frames(attacker))
    if attack.reconnects or not frames:
        return frames
    return frames * max(1, LEAST // len(frames))


def _connect(port: int, keep_port: int, attack: Attack, attacker: Attacker) -> socket.socket | None:
    """Ready to attack. None: the hall does not want it now."""
    try:
        if attack.wire == "keep":
            return socket.create_connection(("127.0.0.1", keep_port), 10)
        client = Client(port, ADDRESS, "/mesh" if attack.wire == "mesh" else "/")
        if attack.reconnects:
            return client.sock
        if attack.wire == "agentchat":
            client.identify("attacker", attacker.key if attack.verified else None, features=["receipts"])
            client.join(CROWD)
        for prepared in attack.prepare(attacker) if attack.prepare is not None else ():
            client.sock.sendall(prepared)
        client.sock.setblocking(False)
    except (OSError, Refused):
        return None
    return client.sock


def _attack(
    port: int, keep_port: int, attack: Attack, lines: list[Line], socks: list[socket.socket | None]
) -> None:
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ, None)
    for line, sock in zip(lines, socks, strict=True):
        _begin(selector, line, sock)
    while True:
        now = time.monotonic()
        for line in lines:
            if line.sock is None and line.again_at <= now:
                _begin(selector, line, _connect(port, keep_port, attack, line.attacker))
        for key, events in selector.select(REST):
            line = key.data
            if line is None:
                return
            if not _go_on(attack, line, events):
                selector.unregister(key.fileobj)
                key.fileobj.close()  # type: ignore[union-attr]  # a socket
                line.sock = None
                line.again_at = time.monotonic() + (0 if attack.reconnects else REST)


def _begin(selector: selectors.BaseSelector, line: Line, sock: socket.socket | None) -> None:
    line.sock, line.sent = sock, 0
    if sock is None:
        line.again_at = time.monotonic() + REST
        return
    sock.setblocking(False)
    selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE, line)


def _go_on(attack: Attack, line: Line, events: int) -> bool:
    """Send and read what can be sent and read. False: this connection has ended."""
    assert line.sock is not None
    try:
        if events & selectors.EVENT_READ and not line.sock.recv(1 << 20):
            return False
        if events & selectors.EVENT_WRITE:
            line.sent += line.sock.send(line.frames[line.sent :])
            if line.sent == len(line.frames):
                line.sent = 0
                return not attack.reconnects
    except BlockingIOError:
        pass
    except OSError:
        return False
    return True


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()

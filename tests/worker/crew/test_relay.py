"""The relay inside of a container: ports of the loopback that lead to sockets in a folder."""

import selectors
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from moothall.worker.crew import relay
from moothall.worker.crew.relay import Relay

PATIENCE = 30.0  # seconds; only a failing test waits that long
MANY = b"0123456789abcdef" * 64 * 1024  # more than all buffers on the way


class Running:
    """A relay in a thread, with one door."""

    def __init__(self, door: Path) -> None:
        self.selector = selectors.DefaultSelector()
        self._ending, wakes = socket.socketpair()
        self.selector.register(wakes, selectors.EVENT_READ, self)
        self._wakes = wakes
        self.relay = Relay({0: door}, self.selector)
        self.turns = 0
        self._thread = Thread(target=self._run)
        self._thread.start()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.relay.ports[0]), PATIENCE)

    def _run(self) -> None:
        while True:
            for key, _ in self.selector.select():
                if key.data is self:
                    return
                self.relay.handle(key.data)
            self.turns += 1

    def stop(self) -> None:
        self._ending.close()
        self._thread.join(PATIENCE)
        self.relay.close()
        self.selector.unregister(self._wakes)
        self._wakes.close()
        assert not self.selector.get_map()
        self.selector.close()


@contextmanager
def running(door: Path) -> Iterator[Running]:
    found = Running(door)
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The listening socket that the host has put into the container."""
    monkeypatch.chdir(tmp_path)  # paths of sockets are short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("hall.sock")
        listener.listen(100)
        listener.settimeout(PATIENCE)
        yield listener


@pytest.fixture
def inside(host: socket.socket) -> Iterator[Running]:
    with running(Path(host.getsockname())) as found:
        yield found


def accepted(host: socket.socket) -> socket.socket:
    connection, _ = host.accept()
    connection.settimeout(PATIENCE)
    return connection


@contextmanager
def saying(connection: socket.socket, content: bytes) -> Iterator[None]:
    """Send it all in a thread, and then the end."""

    def say() -> None:
        connection.sendall(content)
        connection.shutdown(socket.SHUT_WR)

    thread = Thread(target=say)
    thread.start()
    yield
    thread.join(PATIENCE)


def read_all(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_bytes_go_both_ways_and_each_end_is_passed_on(inside: Running, host: socket.socket) -> None:
    with inside.connect() as client, accepted(host) as server:
        with saying(client, MANY):
            assert read_all(server) == MANY  # the end of the client's flow has arrived
        with saying(server, MANY):  # and the other flow still works
            assert read_all(client) == MANY


def test_a_reader_that_does_not_read_stops_its_own_sender_alone(inside: Running, host: socket.socket) -> None:
    with inside.connect() as client, accepted(host) as server:
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):  # no more fits in: the relay holds one buffer, the kernel the rest
            client.sendall(b"x" * 256 * 1024 * 1024)
        with inside.connect() as other, accepted(host) as far:
            other.sendall(b"hello")
            assert far.recv(5) == b"hello"
        turns = inside.turns
        with inside.connect() as third, accepted(host):
            third.shutdown(socket.SHUT_WR)
        assert inside.turns - turns < 20  # a full buffer does not wake the loop
        assert server.recv(1) == b"x"


def test_an_idle_half_closed_connection_does_not_wake_the_loop(inside: Running, host: socket.socket) -> None:
    with inside.connect() as client, accepted(host) as server:
        client.shutdown(socket.SHUT_WR)
        assert server.recv(1) == b""
        turns = inside.turns
        for _ in range(5):
            with inside.connect() as other, accepted(host) as far:
                other.sendall(b"x")
                assert far.recv(1) == b"x"
        assert inside.turns - turns < 100
        server.sendall(b"late")
        assert client.recv(4) == b"late"


def test_a_lost_connection_ends_at_the_other_side(inside: Running, host: socket.socket) -> None:
    with inside.connect() as client:
        accepted(host).close()
        assert is_closed(client)
    with inside.connect() as client:
        server = accepted(host)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # closing resets it
        client.close()
        assert is_closed(server)
        server.close()


def test_without_a_host_a_client_is_turned_away(tmp_path: Path) -> None:
    with running(tmp_path / "none.sock") as found:
        for _ in range(3):
            with found.connect() as client:
                assert is_closed(client)


def test_connections_above_the_limit_wait(
    monkeypatch: pytest.MonkeyPatch, inside: Running, host: socket.socket
) -> None:
    monkeypatch.setattr(relay, "MAX_CONNECTIONS", 2)
    first, second = inside.connect(), inside.connect()
    servers = [accepted(host), accepted(host)]
    with inside.connect() as third:
        third.sendall(b"me too")
        host.settimeout(0.2)
        with pytest.raises(TimeoutError):
            host.accept()
        host.settimeout(PATIENCE)
        for end in (first, second, *servers):
            end.close()
        with accepted(host) as server:
            assert server.recv(6) == b"me too"

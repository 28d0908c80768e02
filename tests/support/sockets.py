"""A peer that says exactly the bytes a test gives it, and frames that need not be valid."""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import wraps
from types import TracebackType
from typing import Any, Final, NamedTuple, ParamSpec, Self

import uvloop

from moothall.gateways.port import Port
from moothall.wire.websocket import CLOSE, TEXT

MASK: Final = b"\x37\xfa\x21\x3d"
PATIENCE: Final = 10.0  # seconds until what does not come is taken to be missing
LONGEST_TEST: Final = 30.0  # seconds until a test that goes in circles fails
LARGE_READ: Final = 256 * 1024

HANDSHAKE: Final = {
    "Host": "127.0.0.1",
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
ACCEPT: Final = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # the answer to that key (RFC 6455, 1.3)


Arguments = ParamSpec("Arguments")


def on_uvloop(
    test: Callable[Arguments, Coroutine[Any, Any, None]],
) -> Callable[Arguments, None]:
    """Run a test on the event loop that the gateway runs on; what fails in one of its callbacks fails the test."""

    @wraps(test)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        complaints: list[dict[str, Any]] = []

        async def watched() -> None:
            asyncio.get_running_loop().set_exception_handler(
                lambda _, complaint: complaints.append(complaint)
            )
            async with asyncio.timeout(LONGEST_TEST):
                await test(*args, **kwargs)

        uvloop.run(watched())
        assert complaints == [], str(complaints)

    return run


async def turn() -> None:
    """One turn of the event loop."""
    await asyncio.sleep(0)


async def until_empty(port: Port) -> None:
    """Wait until everybody is gone."""
    if port.connections:
        port._drained.clear()
        async with asyncio.timeout(PATIENCE):
            await port._drained.wait()


class Frame(NamedTuple):
    opcode: int
    payload: bytes

    @property
    def close_code(self) -> int | None:
        assert self.opcode == CLOSE
        return int.from_bytes(self.payload[:2], "big") if self.payload else None


def masked(payload: bytes, mask: bytes) -> bytes:
    size = len(payload)
    pattern = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(pattern, "big")).to_bytes(size, "big")


def frame(
    opcode: int,
    payload: bytes = b"",
    *,
    final: bool = True,
    reserved: int = 0,
    mask: bytes | None = MASK,
    length_bytes: int | None = None,
    announced: int | None = None,
) -> bytes:
    """One frame of a client's; `length_bytes` 0, 2 or 8 forces a form of its length, `announced` a length."""
    size = len(payload) if announced is None else announced
    if length_bytes is None:
        length_bytes = 0 if size < 126 else 2 if size < 65536 else 8
    first = (0x80 if final else 0) | reserved << 4 | opcode
    second = (0 if mask is None else 0x80) | {0: size, 2: 126, 8: 127}[length_bytes]
    head = bytes((first, second)) + (size.to_bytes(length_bytes, "big") if length_bytes else b"")
    return head + payload if mask is None else head + mask + masked(payload, mask)


def text(content: str, *, final: bool = True) -> bytes:
    return frame(TEXT, content.encode(), final=final)


def closing(code: int, reason: bytes = b"") -> bytes:
    return frame(CLOSE, code.to_bytes(2, "big") + reason)


def chopped(content: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


def head(
    changes: Mapping[str, str | None] | None = None,
    *,
    method: str = "GET",
    target: str = "/",
    version: str = "HTTP/1.1",
    base: Mapping[str, str] = HANDSHAKE,
) -> bytes:
    """A valid WebSocket handshake but for these changes; a header changed to None is left out."""
    headers = {**base, **(changes or {})}
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join([f"{method} {target} {version}", *lines, "", ""]).encode("latin-1")


class Peer:
    """The other end of one TCP connection, in the same event loop as the port it talks to."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._loop = asyncio.get_running_loop()
        self._unread = b""
        self.was_reset = False  # the port closed its socket under bytes of ours

    @classmethod
    async def connect(cls, port: Port, *, receive_buffer: int | None = None) -> Self:
        """TCP only; a small `receive_buffer` makes a peer that does not read a burden sooner."""
        connection = socket.socket()
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        await asyncio.get_running_loop().sock_connect(connection, port.address)
        return cls(connection)

    @classmethod
    async def upgraded(cls, port: Port, *, receive_buffer: int | None = None) -> Self:
        peer = await cls.connect(port, receive_buffer=receive_buffer)
        await peer.say(head())
        answer = await peer.read_head()
        assert answer.startswith("HTTP/1.1 101 "), answer
        return peer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def stop_talking(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    async def say(self, *chunks: bytes) -> None:
        """One send for each chunk. A port that has hung up meanwhile is no reason to stop."""
        async with asyncio.timeout(PATIENCE):
            for chunk in chunks:
                try:
                    await self._loop.sock_sendall(self._socket, chunk)
                except (BrokenPipeError, ConnectionResetError):
                    self.was_reset = True
                    return

    def say_now(self, chunk: bytes) -> None:
        """Send a few bytes, which the kernel takes at once."""
        assert self._socket.send(chunk) == len(chunk)

    async def read_head(self) -> str:
        while b"\r\n\r\n" not in self._unread:
            assert await self._receive(), f"the head ended early: {self._unread!r}"
        answer, _, self._unread = self._unread.partition(b"\r\n\r\n")
        return answer.decode("latin-1")

    async def read_frame(self) -> Frame | None:
        """The next frame, which must be one that a server may send; None when the port hung up or cut the line."""
        opcode_and_length = await self._take(2)
        if opcode_and_length is None:
            return None
        first, size = opcode_and_length
        assert first & 0xF0 == 0x80, "servers here neither fragment nor use reserved bits"
        assert size < 128, "servers do not mask"
        if size >= 126:
            shortest = 126 if size == 126 else 65536
            extended = await self._take(2 if size == 126 else 8)
            assert extended is not None
            size = int.from_bytes(extended, "big")
            assert size >= shortest
        payload = await self._take(size)
        assert payload is not None, "a frame ended early"
        return Frame(first & 0x0F, payload)

    async def read_frames(self) -> list[Frame]:
        """Everything until the port hangs up."""
        frames: list[Frame] = []
        while (received := await self.read_frame()) is not None:
            frames.append(received)
        return frames

    async def read_frames_until_close(self) -> list[Frame]:
        """Everything up to the close frame, which must come."""
        frames: list[Frame] = []
        while not frames or frames[-1].opcode != CLOSE:
            received = await self.read_frame()
            assert received is not None, f"no close frame after {len(frames)} others"
            frames.append(received)
        return frames

    async def read_to_end(self) -> bytes:
        while await self._receive():
            pass
        rest, self._unread = self._unread, b""
        return rest

    async def read_exactly(self, size: int) -> bytes:
        return await self._take(size) or b""

    def has_received(self) -> bool:
        """Whether bytes are there right now. Does not wait."""
        try:
            arrived = self._socket.recv(LARGE_READ)
        except BlockingIOError:
            return bool(self._unread)
        self._unread += arrived
        return bool(self._unread)

    async def _take(self, size: int) -> bytes | None:
        pieces = [self._unread]
        missing = size - len(self._unread)
        while missing > 0:
            self._unread = b""
            if not await self._receive():
                assert pieces == [b""], "a frame ended early"
                return None
            pieces.append(self._unread)
            missing -= len(self._unread)
        whole = b"".join(pieces)
        self._unread = whole[size:]
        return whole[:size]

    async def _receive(self) -> bool:
        async with asyncio.timeout(PATIENCE):
            try:
                arrived = await self._loop.sock_recv(self._socket, LARGE_READ)
            except ConnectionResetError:
                self.was_reset = True
                return False
        self._unread += arrived
        return bool(arrived)

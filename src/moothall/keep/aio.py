"""`AsyncKeepClient`: the same client for asyncio, which stays connected.

A connection that is lost is taken up again, and every `src` that was used on it is registered again, because
the server forgets an agent with its connection (keep wire 5). What was sent to the agent meanwhile is gone: a
keep server holds nothing for those who are away.
"""

import asyncio
import logging
import random
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from errno import ECONNREFUSED
from typing import Any, Final, Self, Unpack

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from moothall.keep.cache import DEFAULT_HOST, DEFAULT_PORT
from moothall.keep.client import DEFAULT_SRC, DEFAULT_TIMEOUT
from moothall.keep.message import Message
from moothall.keep.signing import DEFAULT_TTL, Fields, compose, is_signed
from moothall.keep.sorting import DISCOVER, SERVER, Sorting, asks_server, read_discovery
from moothall.wire.keep.codec import MalformedPacket, decode, encode
from moothall.wire.keep.frames import FrameReader, frame
from moothall.wire.keep.packet import OFFER, Packet

READ_SIZE: Final = 64 * 1024
MAX_NEWS: Final = 1000  # messages not taken yet; beyond that, back-pressure on the server
MOST_NEWS: Final = 10_000  # even while a caller waits for an answer behind them
SILENCE: Final = 180.0  # seconds; a registered connection hears a heartbeat every 60 (keep wire 7)
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
# Two clients with one `src` throw each other out. Only a connection that held for a while begins the series of
# pauses anew, so that they do so ever more slowly.
STEADY: Final = 60.0

_ERRNO: Final = re.compile(r"\[Errno (\d+)\]")
_log: Final = logging.getLogger("moothall.keep")


def pauses(draw: Callable[[], float] = random.random) -> Iterator[float]:
    """Seconds before each attempt to connect again, in [half, whole] of a span that doubles: those who were
    lost together do not come back together."""
    span = FIRST_PAUSE
    while True:
        yield span * (1 + draw()) / 2
        span = min(2 * span, LONGEST_PAUSE)


class AsyncKeepClient:
    """A client of the keep wire for asyncio, which stays connected: `async with AsyncKeepClient() as client:`.

    Its arguments are those of `keep.client.KeepClient`. What fails raises OSError, of which ConnectionError and
    TimeoutError are kinds.
    """

    def __init__(
        self,
        host: str = DEFAULT_HOST,
        port: int = DEFAULT_PORT,
        private_key: Ed25519PrivateKey | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        src: str | None = None,
        *,
        reconnect: bool = True,
    ) -> None:
        self.host = host
        self.port = port
        self.timeout = timeout
        self.src = DEFAULT_SRC if src is None else src
        self._key = private_key or Ed25519PrivateKey.generate()
        self._reconnect = reconnect
        self._sorting = Sorting()
        self._used: dict[str, None] = {}  # every src, in the order of its first use
        self._pending: set[asyncio.Future[Packet]] = set()
        self._news: deque[Message] = deque()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._up = asyncio.Event()
        self._is_on = False  # connected, or about to be again
        self._writer: asyncio.StreamWriter | None = None
        self._stay: asyncio.Task[None] | None = None

    @property
    def is_connected(self) -> bool:
        """True while there is a connection."""
        return self._is_on and self._up.is_set()

    async def connect(self) -> None:
        """Connect. Raises what connecting raised; only a connection that has been there is taken up again."""
        if self._is_on:
            return
        reader = await self._open()
        self._is_on = True
        self._stay = asyncio.create_task(self._stay_connected(reader), name=f"keep {self.host}:{self.port}")

    async def disconnect(self) -> None:
        """Close the connection, for good. Raises nothing."""
        task, self._stay = self._stay, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))
        self._end()  # a task that never got its turn has not
        if self._writer is not None:
            with suppress(OSError):
                await self._writer.wait_closed()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.disconnect()

    async def send(
        self,
        body: str,
        src: str | None = None,
        dst: str = SERVER,
        typ: int = 0,
        fee: int = 0,
        ttl: int = DEFAULT_TTL,
        msg_id: str | None = None,
        scar: bytes = b"",
        wait_reply: bool | None = None,
    ) -> Packet | None:
        """Sign and send a packet, and return the answer if one was waited for; while the connection is being taken
        up again it waits.

        `body`, `src`, `dst`, `typ`, `fee`, `ttl`, `msg_id`, `scar` and `wait_reply` are as for
        `KeepClient.send` when it is connected, and so is what it raises.
        """
        packet = self._packet(body, src, dst, typ=typ, fee=fee, ttl=ttl, msg_id=msg_id, scar=scar)
        async with asyncio.timeout(self.timeout):
            if asks_server(dst) if wait_reply is None else wait_reply:
                return await self._ask(packet)
            await self._write(packet)
        return None

    async def deliver(
        self,
        body: str,
        dst: str,
        *,
        src: str | None = None,
        typ: int = 0,
        fee: int = 0,
        ttl: int = DEFAULT_TTL,
        msg_id: str | None = None,
        scar: bytes = b"",
        wait: float = 0.0,
    ) -> Packet | None:
        """Send to an agent, and return what became of it: the server's `error:...`, the agent's answer, or None
        once it is passed on.

        `body`, `dst`, `src`, `typ`, `fee`, `ttl`, `msg_id`, `scar` and `wait` are as for `KeepClient.deliver`,
        and so is what it raises.
        """
        message = self._packet(body, src, dst, typ=typ, fee=fee, ttl=ttl, msg_id=msg_id, scar=scar)
        check = self._packet("", message.src, SERVER)
        with self._expecting(message) as answer, self._expecting(check) as passed:
            async with asyncio.timeout(self.timeout):
                await self._write(message, check)
                await asyncio.wait((answer, passed), return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            passed.result()  # the connection may have been lost
            await asyncio.wait((answer,), timeout=wait)
            return answer.result() if answer.done() and answer.exception() is None else None

    async def reply(self, message: Message, body: str) -> None:
        """Answer a `message` with `body` under its own id, so that its sender knows what is answered. Raises
        OSError.
        """
        # What is sent registers its src, and `swarm:x` is the name of many.
        src = message.dst if message.dst in self._used else None
        await self.send(body, src, message.src, typ=OFFER, msg_id=message.id, wait_reply=False)

    async def messages(self) -> AsyncIterator[Message]:
        """Return the packets that are neither heartbeats nor answers, until `disconnect`."""
        while True:
            while self._news:
                self._room.set()
                yield self._news.popleft()
            if not self._is_on:
                return
            self._arrived.clear()
            await self._arrived.wait()

    def __aiter__(self) -> AsyncIterator[Message]:
        return self.messages()

    async def discover(self, query: str = "info") -> dict[str, Any]:
        """Return what the server tells about itself: the `query` is `info`, `agents` or `stats`. Raises OSError or
        ValueError.
        """
        async with asyncio.timeout(self.timeout):
            reply = await self._ask(self._packet("", None, DISCOVER + query))
        return read_discovery(reply.body)

    async def discover_agents(self) -> list[str]:
        """Return the names of the agents that the server knows. Raises what `discover` raises."""
        agents: list[str] = (await self.discover("agents"))["agents"]
        return agents

    def _packet(self, body: str, src: str | None, dst: str, **fields: Unpack[Fields]) -> Packet:
        return compose(self._key, body, self.src if src is None else src, dst, **fields)

    async def _ask(self, question: Packet) -> Packet:
        with self._expecting(question) as answer:
            await self._write(question)
            return await answer

    @contextmanager
    def _expecting(self, question: Packet) -> Iterator[asyncio.Future[Packet]]:
        answer: asyncio.Future[Packet] = asyncio.get_running_loop().create_future()

        def take(packet: Packet) -> None:
            if not answer.done():
                answer.set_result(packet)

        self._sorting.expect(question, take)
        self._pending.add(answer)
        self._room.set()  # the answer may be behind more news than there is room for
        try:
            yield answer
        finally:
            self._pending.discard(answer)
            self._sorting.give_up(question)
            if answer.done() and not answer.cancelled():
                answer.exception()  # noted: a message that had its answer does not care about a lost check
            answer.cancel()

    async def _write(self, *packets: Packet) -> None:
        if self._is_on:
            await self._up.wait()
        if not self._is_on or self._writer is None:
            raise ConnectionError("not connected: call connect() first, or use `async with`")
        for packet in packets:
            if packet.src:
                self._used[packet.src] = None
        self._writer.write(b"".join(frame(encode(packet)) for packet in packets))
        await self._writer.drain()

    async def _open(self) -> asyncio.StreamReader:
        async with asyncio.timeout(self.timeout):
            try:
                reader, self._writer = await asyncio.open_connection(self.host, self.port)
            except OSError as error:
                raise _told_apart(error) from None
        self._sorting.begin_anew()
        for src in self._used:
            hello = self._packet("", src, SERVER)
            self._sorting.ignore(hello)
            self._writer.write(frame(encode(hello)))
        self._up.set()
        return reader

    async def _stay_connected(self, reader: asyncio.StreamReader) -> None:
        loop = asyncio.get_running_loop()
        series = pauses()
        try:
            while True:
                begun = loop.time()
                why = await self._read_until_lost(reader)
                self._hang_up(why)
                if not self._reconnect:
                    return
                _log.warning("the connection to %s:%d is lost: %s", self.host, self.port, why)
                series = pauses() if loop.time() - begun >= STEADY else series
                reader = await self._open_again(series)
        finally:
            self._end()

    def _end(self) -> None:
        self._is_on = False
        self._hang_up("the connection was closed")
        for waited_for in (self._up, self._arrived):
            waited_for.set()  # the waiting callers learn that it will not come

    async def _open_again(self, series: Iterator[float]) -> asyncio.StreamReader:
        for pause in series:
            await asyncio.sleep(pause)
            with suppress(OSError):  # no server yet; a timeout is an OSError too
                return await self._open()
        raise AssertionError("the series of pauses has no end")

    def _hang_up(self, why: str) -> None:
        self._up.clear()
        if self._writer is not None:
            self._writer.close()
        for answer in self._pending:
            if not answer.done():
                answer.set_exception(ConnectionError(why))

    async def _read_until_lost(self, reader: asyncio.StreamReader) -> str:
        """Read until the connection is lost. Return the reason."""
        frames = FrameReader()
        try:
            while content := await self._read(reader):
                for payload in frames.feed(content):
                    await self._take(decode(payload))
                if frames.broken:
                    return "the server sent a frame with a length that no packet has"
        except MalformedPacket as error:
            return f"the server sent something else than a packet: {error}"
        except OSError as error:
            return str(error)
        return "the server closed the connection"

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        while True:
            try:
                async with asyncio.timeout(SILENCE):
                    return await reader.read(READ_SIZE)
            except TimeoutError:
                if self._used:
                    raise TimeoutError("nothing was heard for too long") from None

    async def _take(self, packet: Packet) -> None:
        news = self._sorting.sort(packet)
        if news is None:
            return
        # A caller must get its answer even if many messages arrive before it.
        while len(self._news) >= (MOST_NEWS if self._sorting.is_waiting else MAX_NEWS):
            self._room.clear()
            await self._room.wait()
        self._news.append(Message(news, verified=is_signed(news)))
        self._arrived.set()


def _told_apart(error: OSError) -> OSError:
    """`localhost` has two addresses, and asyncio melts two refusals into an error that says neither."""
    if error.errno is None and set(_ERRNO.findall(str(error))) == {str(ECONNREFUSED)}:
        return ConnectionRefusedError(ECONNREFUSED, str(error))
    return error

"""`KeepClient`: the published SDK's names, defaults and errors (keep wire 10), without its traps (keep wire 15).

Beyond it: an answer is matched to its question, so that a heartbeat or another agent's message is never taken for
it; what is not the answer waits for `listen`; signatures are verified; a timeout inside a frame loses nothing;
threads may share a client; `deliver` tells what became of a message to an agent.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Generic, Self, TypeVar, Unpack

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from moothall.keep import cache, server
from moothall.keep.cache import DEFAULT_HOST, DEFAULT_PORT
from moothall.keep.line import Line
from moothall.keep.signing import DEFAULT_TTL, Fields, compose
from moothall.keep.sorting import DISCOVER, SERVER, asks_server, read_discovery
from moothall.wire.keep.packet import Packet

DEFAULT_TIMEOUT: Final = 10.0
DEFAULT_SRC: Final = "bot:keep-client"
CACHE_TIMEOUT: Final = 5.0
MAX_NEWS: Final = 1000  # packets that wait for `listen`; of those who never call it, the oldest go

Shown = TypeVar("Shown")


class PacketClient(ABC, Generic[Shown]):
    """A client of the keep wire, for threads and scripts.

    `host` and `port` are the server's, `private_key` signs packets (a new one if left out), `timeout` is how
    many seconds an answer may take, `src` the name that packets come from. What fails raises OSError, of which
    ConnectionError and TimeoutError are kinds.
    """

    def __init__(
        self,
        host: str = DEFAULT_HOST,
        port: int = DEFAULT_PORT,
        private_key: Ed25519PrivateKey | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        src: str | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.timeout = timeout
        self.src = DEFAULT_SRC if src is None else src
        self._key = private_key or Ed25519PrivateKey.generate()
        self._line: Line | None = None
        self._news: deque[Packet] = deque(maxlen=MAX_NEWS)

    @staticmethod
    @abstractmethod
    def _shown(packet: Packet) -> Shown: ...

    def connect(self) -> None:
        """Stay connected from now on. The server knows `src` from the first packet that is sent with it.

        Raises OSError when the server cannot be reached.
        """
        if self._line is not None and self._line.is_open:
            return
        self.disconnect()
        self._line = self._open()

    def disconnect(self) -> None:
        """Close the connection, if there is one. Raises nothing."""
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def send(
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
    ) -> Shown | None:
        """Sign and send a packet, and return the answer if one was waited for.

        `body` is the text, `src` who sends it (by default the client's), `dst` whom it is for, `typ`, `fee`,
        `ttl`, `msg_id` and `scar` the other fields of the packet. Connected, it waits for an answer of the
        server's own, and for one of another agent's only with `wait_reply`. Not connected, it connects for this
        one packet and always waits; since a server does not acknowledge what it forwards, a message to an agent
        that does not answer ends in TimeoutError although it arrived: use `deliver`. Raises OSError, and
        ValueError for a packet that is too large.
        """
        packet = self._packet(body, src, dst, typ=typ, fee=fee, ttl=ttl, msg_id=msg_id, scar=scar)
        reply = self._send(packet, wait_reply)
        return None if reply is None else self._shown(reply)

    def deliver(
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
    ) -> Shown | None:
        """Send to an agent, and return what became of it.

        That is the server's `error:...`, the agent's answer if it comes within `wait` seconds, or None once the
        server has passed the message on. `body`, `dst`, `src`, `typ`, `fee`, `ttl`, `msg_id` and `scar` are as
        for `send`, and so is what it raises.
        """
        message = self._packet(body, src, dst, typ=typ, fee=fee, ttl=ttl, msg_id=msg_id, scar=scar)
        check = self._packet("", message.src, SERVER)
        line = self._line or self._open()
        try:
            reply = line.deliver(message, check, wait, self.timeout)
        finally:
            if line is not self._line:
                line.close()
        return None if reply is None else self._shown(reply)

    def listen(self, callback: Callable[[Shown], object], timeout: float | None = None) -> None:
        """Call `callback` for each packet that is neither a heartbeat nor an answer.

        It ends when nothing arrived for `timeout` seconds (by default the client's) or the connection ended. A
        packet with a `pk` was verified with it; one without comes from the server, and is usually the
        `error:...` of an earlier message with the same id. Raises RuntimeError without a connection.
        """
        line = self._line
        if line is None:
            raise RuntimeError("listen() needs a connection: call connect() first, or use `with`")
        gap = self.timeout if timeout is None else timeout
        while (packet := line.next_news(gap)) is not None:
            callback(self._shown(packet))

    def discover(self, query: str = "info") -> dict[str, Any]:
        """Return what the server tells about itself: the `query` is `info`, `agents` or `stats`.

        Raises OSError, and ValueError for an answer that makes no sense.
        """
        reply = self._send(self._packet("", None, DISCOVER + query), None)
        if reply is None:  # never: the server answers these itself
            raise ConnectionError("no answer")
        return read_discovery(reply.body)

    def discover_agents(self) -> list[str]:
        """Return the names of the agents that the server knows. Raises what `discover` raises."""
        agents: list[str] = self.discover("agents")["agents"]
        return agents

    @staticmethod
    def cache_endpoint(host: str, port: int, info: Mapping[str, Any]) -> None:
        """Remember a server that answered, in `~/.keep/endpoints.json`: its `host`, its `port`, and the `info` it
        gave. Raises OSError when the file cannot be written.
        """
        cache.remember(host, port, info)

    @classmethod
    def from_cache(
        cls,
        src: str = DEFAULT_SRC,
        private_key: Ed25519PrivateKey | None = None,
        timeout: float = CACHE_TIMEOUT,
    ) -> Self:
        """Return a client, not connected yet, of the first remembered server that answers.

        `src`, `private_key` and `timeout` are the client's. Raises ConnectionError when none answers.
        """
        for host, port in cache.endpoints():
            client = cls(host, port, private_key, timeout, src)
            try:
                info = client.discover("info")
            except (OSError, ValueError):
                continue  # no server there, or not a keep server
            with suppress(OSError):  # it has answered; that nothing can be written here is another matter
                cache.remember(host, port, info)
            return client
        raise ConnectionError("none of the servers in ~/.keep/endpoints.json answers")

    @classmethod
    def ensure_server(
        cls,
        host: str = DEFAULT_HOST,
        port: int = DEFAULT_PORT,
        timeout: float = server.START_TIMEOUT,
        docker_image: str | None = None,  # keep wire 11: the signature stays; no container is run
    ) -> bool:
        """Return whether a server answers at `host` and `port`, after starting one of our own if need be.

        `timeout` is how many seconds that may take. `docker_image` is not used. Raises nothing of its own.
        """
        return server.ensure_server(host, port, timeout)

    def _packet(self, body: str, src: str | None, dst: str, **fields: Unpack[Fields]) -> Packet:
        return compose(self._key, body, self.src if src is None else src, dst, **fields)

    def _send(self, packet: Packet, wait_reply: bool | None) -> Packet | None:
        line = self._line
        if line is None:
            return self._send_alone(packet)
        if asks_server(packet.dst) if wait_reply is None else wait_reply:
            return line.ask(packet, self.timeout)
        line.write(packet)
        return None

    def _send_alone(self, packet: Packet) -> Packet:
        line = self._open()
        try:
            return line.ask(packet, self.timeout)
        finally:
            line.close()

    def _open(self) -> Line:
        return Line(self.host, self.port, self.timeout, self._news)


class KeepClient(PacketClient[Packet]):
    """A keep client for threads and scripts. `moothall.keep.AsyncKeepClient` is the one for asyncio."""

    @staticmethod
    def _shown(packet: Packet) -> Packet:
        return packet

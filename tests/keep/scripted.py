"""A keep server that does what a test tells it, on a thread of its own, and some packets to tell it."""

import json
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from moothall.keep import sign
from moothall.wire.keep.codec import decode, encode
from moothall.wire.keep.frames import FrameReader, frame
from moothall.wire.keep.packet import HEARTBEAT, OFFER, Packet

PATIENCE: Final = 10.0  # seconds until what does not come is taken to be missing
VECTORS: Final[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "vectors" / "keep.json").read_text())
ALICE: Final = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(VECTORS["keys"]["alice"]["seed_hex"]))
BOB: Final = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(VECTORS["keys"]["bob"]["seed_hex"]))
BEAT: Final = Packet(typ=HEARTBEAT, src="server")

Answer = Callable[[Packet], Iterable[Packet]]


def reply(question: Packet, body: str = "done") -> Packet:
    return Packet(typ=OFFER, id=question.id, src="server", body=body)


def from_bob(body: str, dst: str = "bot:alice", **fields: Any) -> Packet:
    return sign(Packet(src="bot:bob", dst=dst, body=body, ttl=60, **fields), BOB)


def forged(body: str) -> Packet:
    packet = from_bob(body)
    packet.sig = packet.sig[:32] + bytes(32)
    return packet


def done(question: Packet) -> list[Packet]:
    return [reply(question)] if question.dst in ("server", "") else []


def nothing(question: Packet) -> list[Packet]:
    return []


class Call:
    """One connection of a client's."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self.heard: Queue[Packet] = Queue()
        self.ended: Queue[None] = Queue()

    def say(self, *packets: Packet) -> None:
        """All of them in one piece."""
        self.say_bytes(b"".join(frame(encode(packet)) for packet in packets))

    def say_bytes(self, content: bytes) -> None:
        with suppress(OSError):  # the client may be gone already
            self._socket.sendall(content)

    def hang_up(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def next(self) -> Packet:
        return self.heard.get(timeout=PATIENCE)

    def serve(self, answer: Answer) -> None:
        frames = FrameReader()
        with closing(self._socket), suppress(OSError):
            while content := self._socket.recv(65536):
                for payload in frames.feed(content):
                    packet = decode(payload)
                    self.heard.put(packet)
                    self.say(*answer(packet))
        self.ended.put(None)


class Scripted:
    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.calls: Queue[Call] = Queue()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def next_call(self) -> Call:
        return self.calls.get(timeout=PATIENCE)

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                call = Call(connection)
                self.calls.put(call)
                Thread(target=call.serve, args=(self.answer,), daemon=True).start()


@contextmanager
def scripted(answer: Answer = done) -> Iterator[Scripted]:
    with closing(Scripted(answer)) as server:
        yield server

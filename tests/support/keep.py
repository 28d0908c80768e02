"""A keep client in a few lines, which sends and sees the very bytes; and its keys."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from moothall.identity.signatures import expand, sign_expanded
from moothall.wire.keep.codec import decode, encode, signing_bytes
from moothall.wire.keep.frames import frame
from moothall.wire.keep.packet import Packet

VECTORS: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "vectors" / "keep.json").read_text()
)
PATIENCE: Final = 15.0


class Signer:
    def __init__(self, seed: bytes) -> None:
        self._secret = expand(seed)
        self.pk = self._secret[32:]

    def sign(self, packet: Packet) -> Packet:
        packet.pk = self.pk
        packet.sig = sign_expanded(self._secret, signing_bytes(packet))
        return packet

    def packet(self, **fields: Any) -> Packet:
        return self.sign(Packet(**fields))


ALICE: Final = Signer(bytes.fromhex(VECTORS["keys"]["alice"]["seed_hex"]))
BOB: Final = Signer(bytes.fromhex(VECTORS["keys"]["bob"]["seed_hex"]))
CAROL: Final = Signer(bytes(range(64, 96)))


class KeepSocket:
    """Blocking, as the reference's own SDK is."""

    def __init__(self, port: int, signer: Signer = ALICE, src: str = "bot:alice") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._signer = signer
        self.src = src

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send(self, dst: str = "server", body: str = "", **fields: Any) -> Packet:
        """The packet, signed and sent."""
        packet = self._signer.packet(**{"src": self.src, "dst": dst, "body": body, **fields})
        self.send_bytes(frame(encode(packet)))
        return packet

    def ask(self, dst: str = "server", body: str = "", **fields: Any) -> Packet:
        """What the reference's SDK does: the next frame that arrives is the reply."""
        self.send(dst, body, **fields)
        return self.receive()

    def discover(self, question: str) -> Any:
        return json.loads(self.ask(f"discover:{question}").body)

    def receive(self) -> Packet:
        return decode(self.receive_payload())

    def receive_payload(self) -> bytes:
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    def end(self) -> None:
        """Say no more, and listen."""
        self._socket.shutdown(socket.SHUT_WR)

    def assert_closed(self) -> None:
        try:
            rest = self._socket.recv(1)
        except ConnectionResetError:
            rest = b""
        assert rest == b"", "the connection is open"

    def assert_nothing_waits(self) -> None:
        """The next thing that arrives is the answer to what is asked now."""
        assert self.ask(id="is-there-anything").id == "is-there-anything"

    def shrink_receive_buffer(self) -> None:
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self._socket.recv(count - len(data))
            if not piece:
                raise ConnectionError("closed")
            data += piece
        return data


@contextmanager
def keep_client(port: int, signer: Signer = ALICE, src: str = "bot:alice") -> Iterator[KeepSocket]:
    client = KeepSocket(port, signer, src)
    try:
        yield client
    finally:
        client.close()

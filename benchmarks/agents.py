"""The least client that the abuse benchmark needs: blocking sockets, frames masked with zeros, one handshake.

It comes through a proxy that the hall trusts, so that it can have any address: see `abuse`.
"""

import base64
import json
import os
import socket
import time
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from moothall.identity import PrivateKey
from moothall.wire.agentchat.signing import auth_text

PATIENCE: Final = 10.0  # seconds


class Refused(Exception):
    """The hall did not let the client in, or answered ERROR where an answer was needed."""


def key_of(name: str) -> PrivateKey:
    """The same for the same name, so that an agent can come back."""
    return PrivateKey(sha256(name.encode()).digest())


def frame(payload: bytes, opcode: int = 0x81) -> bytes:
    """A client's frame. A mask of zeros is a mask, and leaves the payload readable."""
    length = len(payload)
    if length < 126:
        head = bytes((opcode, 0x80 | length))
    elif length < 65536:
        head = bytes((opcode, 0x80 | 126)) + length.to_bytes(2, "big")
    else:
        head = bytes((opcode, 0x80 | 127)) + length.to_bytes(8, "big")
    return head + bytes(4) + payload


def text(**fields: Any) -> bytes:
    return frame(json.dumps(fields).encode())


class Client:
    """One connection. Messages are read one by one until `sock` is used for more."""

    def __init__(self, port: int, address: str, path: str = "/") -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.id = ""
        self.key: PrivateKey | None = None
        self._buffer = b""
        nonce = base64.b64encode(os.urandom(16)).decode()
        lines = (
            f"GET {path} HTTP/1.1",
            f"Host: 127.0.0.1:{port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {nonce}",
            "Sec-WebSocket-Version: 13",
            f"X-Forwarded-For: {address}",
        )
        self.sock.sendall("\r\n".join((*lines, "", "")).encode())
        head = self._until(b"\r\n\r\n")
        if b" 101 " not in head:
            raise Refused(head.partition(b"\r\n")[0].decode())

    def send(self, **fields: Any) -> None:
        self.sock.sendall(text(**fields))

    def receive(self) -> dict[str, Any]:
        """The next message. Pings of the hall are passed over: a benchmark is shorter than its patience."""
        while True:
            first, length = self._take(2)
            if length >= 126:
                length = int.from_bytes(self._take(2 if length == 126 else 8), "big")
            payload = self._take(length)
            if first == 0x88:
                raise Refused(f"closed: {payload[2:].decode(errors='replace')}")
            if first == 0x81:
                message: dict[str, Any] = json.loads(payload)
                return message

    def wait_for(self, *types: str) -> dict[str, Any]:
        while True:
            message = self.receive()
            if message["type"] in types:
                return message
            if message["type"] == "ERROR":
                raise Refused(f"{message['code']}: {message['message']}")

    def identify(self, name: str, key: PrivateKey | None = None, features: Sequence[str] = ()) -> None:
        self.key = key
        self.send(type="IDENTIFY", name=name, pubkey=key and key.public.pem, features=features)
        if key is not None:
            challenge = self.wait_for("CHALLENGE")
            now = int(time.time() * 1000)
            signature = key.sign(auth_text(challenge["nonce"], challenge["challenge_id"], now))
            self.send(
                type="VERIFY_IDENTITY",
                challenge_id=challenge["challenge_id"],
                signature=signature,
                timestamp=now,
            )
        self.id = self.wait_for("WELCOME")["agent_id"]

    def join(self, channel: str) -> None:
        self.send(type="JOIN", channel=channel)
        self.wait_for("JOINED")

    def close(self) -> None:
        self.sock.close()

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._read()
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def _until(self, end: bytes) -> bytes:
        while end not in self._buffer:
            self._read()
        taken, _, self._buffer = self._buffer.partition(end)
        return taken

    def _read(self) -> None:
        data = self.sock.recv(65536)
        if not data:
            raise Refused("the connection was closed")
        self._buffer += data

"""An agent of the mesh on a plain WebSocket: it signs what it is told to, and keeps what it gets."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from moothall.hall.mesh.frames import proof_text
from moothall.identity import PrivateKey
from moothall.wire.mesh.envelope import NO_CONVERSATION, NO_RECIPIENT, Envelope, decode, encode, seal
from moothall.wire.mesh.msg_types import MsgType

PATIENCE: Final = 20.0  # seconds for what takes milliseconds
OUTCOMES: Final = ("accepted", "refused", "out_of_order")


class MeshPeer:
    """Without a reader of its own: what comes while it waits for something else is kept."""

    def __init__(self, socket: ClientConnection, key: PrivateKey) -> None:
        self._socket = socket
        self._key = key
        self._floor = 0
        self._last = 0  # nonce
        self.envelopes: list[Envelope] = []
        self.notices: list[dict[str, Any]] = []

    @property
    def id(self) -> bytes:
        return self._key.public.raw

    async def prove(self) -> None:
        await self._say({"type": "prove", "agent_id": self.id.hex(), "acks": True})
        challenge = await self.notice("challenge")
        text = proof_text(challenge["challenge"], challenge["hall"], self.id.hex())
        await self._say({"type": "prove", "signature": self._key.sign_bytes(text).hex()})
        self._floor = (await self.notice("proven"))["floor"]

    def seal(
        self,
        msg_type: MsgType,
        payload: bytes = b"",
        to: bytes = NO_RECIPIENT,
        talk: bytes = NO_CONVERSATION,
    ) -> Envelope:
        now = max(time.time_ns() // 1000, self._floor + 1, self._last + 1)
        self._last = now
        return seal(
            msg_type,
            payload,
            sender=self.id,
            sign=self._key.sign_bytes,
            nonce=now,
            now=now,
            recipient=to,
            conversation_id=talk,
        )

    async def post(self, envelope: Envelope) -> None:
        await self._socket.send(encode(envelope))

    async def send(self, *fields: Any, **others: Any) -> dict[str, Any]:
        """What the hall says of it: `accepted`, `refused` or `out_of_order`."""
        envelope = self.seal(*fields, **others)
        await self.post(envelope)
        return await self._next(
            lambda frame: frame["type"] in OUTCOMES and frame.get("nonce") == envelope.nonce
        )

    async def ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        """The answer of the hall, or its `error`."""
        self._last += 1
        ref = str(self._last)
        await self._say({"type": kind, "ref": ref, **fields})
        return await self._next(lambda frame: frame.get("ref") == ref)

    async def notice(self, kind: str) -> dict[str, Any]:
        """The first notice of this type, which may have come before."""
        return await self._next(lambda frame: frame["type"] == kind)

    async def envelope(self, msg_type: MsgType) -> Envelope:
        """The first envelope of this type, which may have come before."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for envelope in self.envelopes:
                    if envelope.msg_type is msg_type:
                        self.envelopes.remove(envelope)
                        return envelope
                await self._read()

    async def _next(self, is_wanted: Any) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            while True:
                for frame in self.notices:
                    if is_wanted(frame):
                        self.notices.remove(frame)
                        return frame
                await self._read()

    async def _read(self) -> None:
        frame = await self._socket.recv()
        if isinstance(frame, bytes):
            self.envelopes.append(decode(frame))
        else:
            self.notices.append(json.loads(frame))

    async def _say(self, frame: dict[str, Any]) -> None:
        await self._socket.send(json.dumps(frame))


@asynccontextmanager
async def mesh_peer(url: str, key: PrivateKey) -> AsyncIterator[MeshPeer]:
    """A peer that has proven its key. The hall may end in between."""
    async with connect(f"{url}/mesh", proxy=None, max_queue=None) as socket:
        peer = MeshPeer(socket, key)
        await peer.prove()
        try:
            yield peer
        except ConnectionClosed:
            raise AssertionError("the hall closed the connection") from None

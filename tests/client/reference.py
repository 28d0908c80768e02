"""A server that behaves like the reference where a client notices (agentchat wire 18.2).

No `ref`; ids of 16 digits; membership in every public channel right after WELCOME, without a word; messages come
back to their sender; JOINED before the history, and with bare ids after CREATE_CHANNEL; service lines; silence
where the reference is silent; YIELD with `holder`; more than 60 frames in 10 seconds close the connection.
"""

import asyncio
import json
from collections import deque
from contextlib import suppress
from hashlib import sha256
from itertools import count
from time import monotonic, time
from types import TracebackType
from typing import Any, Self

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from moothall.identity import PublicKey

MAX_FRAMES = 60
WINDOW = 10.0

Frame = dict[str, Any]


class Peer:
    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket
        self.id = ""
        self.name = ""
        self.pubkey: str | None = None
        self.challenge: Frame = {}
        self.times: deque[float] = deque(maxlen=MAX_FRAMES)

    async def send(self, **frame: Any) -> None:
        with suppress(ConnectionClosed):
            await self.socket.send(json.dumps({"ts": int(time() * 1000), **frame}))


class Reference:
    """`async with Reference() as server`: agents connect to `server.url`."""

    def __init__(self) -> None:
        self.received: list[Frame] = []
        self.dropped: set[str] = set()  # types that are not answered at all
        self.peers: dict[str, Peer] = {}
        self.channels: dict[str, set[str]] = {"#general": set(), "#agents": set()}
        self.buffers: dict[str, list[Frame]] = {"#general": [], "#agents": []}
        self.claims: dict[tuple[str, str], tuple[float, str]] = {}
        self.flooded = False
        self._numbers = count(1)

    async def __aenter__(self) -> Self:
        self._server: Server = await serve(self._serve, "127.0.0.1", 0, compression=None)
        self.url = f"ws://127.0.0.1:{next(iter(self._server.sockets)).getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await self._server.wait_closed()

    def types(self, *, of: str | None = None) -> list[str]:
        return [frame["type"] for frame in self.received if of is None or frame["_from"] == of]

    async def _serve(self, socket: ServerConnection) -> None:
        peer = Peer(socket)
        try:
            async for text in socket:
                now = monotonic()
                if len(peer.times) == MAX_FRAMES and now - peer.times[0] < WINDOW:
                    self.flooded = True
                    await socket.close(1008, "Rate limit exceeded")
                    break
                peer.times.append(now)
                frame: Frame = json.loads(text)
                self.received.append({**frame, "_from": peer.id})
                if frame["type"] not in self.dropped:
                    await self._handle(peer, frame)
        except ConnectionClosed:
            pass
        finally:
            await self._leave(peer)

    async def _leave(self, peer: Peer) -> None:
        if self.peers.get(peer.id) is not peer:
            return
        del self.peers[peer.id]
        for channel, members in self.channels.items():
            if peer.id in members:
                members.discard(peer.id)
                await self._tell(channel, type="AGENT_LEFT", channel=channel, agent=peer.id)

    # -- the commands a client can send --------------------------------------------------------------

    async def _handle(self, peer: Peer, frame: Frame) -> None:
        kind = frame["type"]
        if kind == "PING":
            await peer.send(type="PONG")
        elif (do := getattr(self, f"_do_{kind.lower()}", None)) is not None:
            await do(peer, frame)
        else:
            await peer.send(type="ERROR", code="INVALID_MSG", message=f"Unknown message type: {kind}")

    async def _do_identify(self, peer: Peer, frame: Frame) -> None:
        peer.name = frame["name"]
        peer.pubkey = frame.get("pubkey")
        if peer.pubkey is None:
            await self._welcome(peer, f"@{next(self._numbers):08d}")
            return
        peer.challenge = {"challenge_id": "chal_1_0a1b2c3d", "nonce": "00112233445566778899aabbccddeeff"}
        await peer.send(type="CHALLENGE", expires_at=int(time() * 1000) + 60_000, **peer.challenge)

    async def _do_verify_identity(self, peer: Peer, frame: Frame) -> None:
        assert peer.pubkey is not None
        nonce, challenge_id = peer.challenge["nonce"], peer.challenge["challenge_id"]
        proof = f"AGENTCHAT_AUTH|{nonce}|{challenge_id}|{frame['timestamp']}"
        if not PublicKey.from_pem(peer.pubkey).verifies(proof, frame["signature"]):
            await peer.send(type="ERROR", code="VERIFICATION_FAILED", message="Signature verification failed")
            return
        await self._welcome(peer, f"@{sha256(peer.pubkey.encode()).hexdigest()[:16]}", verified=False)

    async def _welcome(self, peer: Peer, peer_id: str, **more: Any) -> None:
        peer.id = peer_id
        self.peers[peer_id] = peer
        await peer.send(
            type="WELCOME", agent_id=peer_id, name=peer.name, server="agentchat", disclaimer="beware", **more
        )
        for channel, members in self.channels.items():
            joined = {"type": "AGENT_JOINED", "channel": channel, "agent": peer_id, "name": peer.name}
            await self._tell(channel, None, **joined, verified=False)
            members.add(peer_id)
        await self._service_line("#general", f"{peer.name} came online")

    async def _do_join(self, peer: Peer, frame: Frame) -> None:
        channel = frame["channel"]
        if channel not in self.channels:
            await peer.send(type="ERROR", code="CHANNEL_NOT_FOUND", message=f"no channel {channel}")
            return
        self.channels[channel].add(peer.id)
        agents = [
            {"id": member, "name": self.peers[member].name, "verified": False}
            for member in self.channels[channel]
        ]
        await peer.send(type="JOINED", channel=channel, agents=agents)
        for line in self.buffers[channel]:
            await peer.send(**{**line, "replay": True})

    async def _do_create_channel(self, peer: Peer, frame: Frame) -> None:
        channel = frame["channel"]
        if channel in self.channels:
            await peer.send(type="ERROR", code="CHANNEL_EXISTS", message="exists")
            return
        self.channels[channel], self.buffers[channel] = {peer.id}, []
        await peer.send(type="JOINED", channel=channel, agents=[peer.id])

    async def _do_leave(self, peer: Peer, frame: Frame) -> None:
        channel = frame["channel"]
        if channel in self.channels:
            self.channels[channel].discard(peer.id)
            await self._tell(channel, type="AGENT_LEFT", channel=channel, agent=peer.id, name=peer.name)
            await peer.send(type="LEFT", channel=channel)

    async def _do_list_channels(self, peer: Peer, frame: Frame) -> None:
        entries = [{"name": name, "agents": len(members)} for name, members in self.channels.items()]
        await peer.send(type="CHANNELS", list=entries)

    async def _do_list_agents(self, peer: Peer, frame: Frame) -> None:
        channel = frame.get("channel")
        if channel is None:
            await peer.send(type="ERROR", code="INVALID_MSG", message="Missing or invalid channel")
            return
        if channel not in self.channels:
            await peer.send(type="ERROR", code="CHANNEL_NOT_FOUND", message=f"no channel {channel}")
            return
        entries = [
            {
                "id": member,
                "name": self.peers[member].name,
                "presence": "online",
                "status_text": None,
                "verified": False,
            }
            for member in self.channels[channel]
        ]
        await peer.send(type="AGENTS", channel=channel, list=entries)

    async def _do_msg(self, peer: Peer, frame: Frame) -> None:
        to = frame["to"]
        if to.startswith("@"):
            await peer.send(type="ERROR", code="INVALID_MSG", message="Direct messages are disabled")
        elif to not in self.channels:
            await peer.send(type="ERROR", code="CHANNEL_NOT_FOUND", message=f"no channel {to}")
        elif peer.id not in self.channels[to]:
            await peer.send(type="ERROR", code="NOT_INVITED", message="not a member")
        else:
            now = int(time() * 1000)
            line = {
                "type": "MSG",
                "ts": now,
                "from": peer.id,
                "from_name": peer.name,
                "to": to,
                "content": frame["content"],
                "msg_id": f"{now}-{next(self._numbers):06d}",
                "verified": False,
            }
            if frame.get("in_reply_to"):
                line["in_reply_to"] = frame["in_reply_to"]
            await self._say(to, line)

    async def _do_set_nick(self, peer: Peer, frame: Frame) -> None:
        change = {
            "type": "NICK_CHANGED",
            "agent_id": peer.id,
            "old_nick": peer.name,
            "new_nick": frame["nick"],
        }
        peer.name = frame["nick"]
        for channel, members in self.channels.items():
            if peer.id in members:
                await self._tell(channel, **change)
        await peer.send(**change)

    async def _do_set_presence(self, peer: Peer, frame: Frame) -> None:
        assert frame.get("status_text", "") is not None  # null is invalid (agentchat wire 5.1)

    async def _do_typing(self, peer: Peer, frame: Frame) -> None:
        await self._tell(
            frame["channel"],
            but=peer,
            type="TYPING",
            channel=frame["channel"],
            **{"from": peer.id, "from_name": peer.name},
        )

    async def _do_invite(self, peer: Peer, frame: Frame) -> None:
        await peer.send(type="ERROR", code="INVALID_MSG", message="Private channels are disabled")

    async def _do_file_chunk(self, peer: Peer, frame: Frame) -> None:
        await peer.send(type="ERROR", code="INVALID_MSG", message="File transfers are disabled")

    async def _do_responding_to(self, peer: Peer, frame: Frame) -> None:
        channel, msg_id, started_at = frame["channel"], frame["msg_id"], frame["started_at"]
        claim = (started_at, peer.id)
        standing = self.claims.get((channel, msg_id))
        if standing is not None and claim >= standing:
            await self._yield(peer, channel, msg_id, standing)
            return
        self.claims[channel, msg_id] = claim
        await self._tell(
            channel,
            but=peer,
            type="FLOOR_CLAIMED",
            msg_id=msg_id,
            channel=channel,
            holder=peer.id,
            holder_name=peer.name,
            started_at=started_at,
        )
        if standing is not None:
            await self._yield(self.peers[standing[1]], channel, msg_id, claim)

    async def _yield(self, peer: Peer, channel: str, msg_id: str, claim: tuple[float, str]) -> None:
        await peer.send(
            type="YIELD",
            msg_id=msg_id,
            channel=channel,
            holder=claim[1],
            holder_started_at=claim[0],
            reason="Earlier claim exists",
        )

    async def _do_verify_request(self, peer: Peer, frame: Frame) -> None:
        target = self.peers.get(frame["target"])
        if target is None:
            await peer.send(type="ERROR", code="AGENT_NOT_FOUND", message="no such agent")
            return
        self._requests = {"verify_1": (peer, target, frame["nonce"])}
        await target.send(
            type="VERIFY_REQUEST", request_id="verify_1", nonce=frame["nonce"], **{"from": peer.id}
        )
        await peer.send(type="VERIFY_REQUEST", request_id="verify_1", target=target.id, status="pending")

    async def _do_verify_response(self, peer: Peer, frame: Frame) -> None:
        requester, target, nonce = self._requests[frame["request_id"]]
        assert peer is target
        assert target.pubkey is not None
        assert PublicKey.from_pem(target.pubkey).verifies(nonce, frame["sig"])
        await requester.send(
            type="VERIFY_SUCCESS", request_id="verify_1", agent=target.id, pubkey=target.pubkey
        )
        await target.send(type="VERIFY_SUCCESS", request_id="verify_1", verified=True)

    # -- to everybody ----------------------------------------------------------------------------------

    async def _service_line(self, channel: str, content: str) -> None:
        line = {"type": "MSG", "ts": int(time() * 1000), "from": "@server", "from_name": "Server"}
        await self._say(channel, {**line, "to": channel, "content": content})

    async def _say(self, channel: str, line: Frame) -> None:
        self.buffers[channel].append(line)
        await self._tell(channel, **line)

    async def _tell(self, place: str, /, but: Peer | None = None, **frame: Any) -> None:
        others = [self.peers[member] for member in self.channels[place] if member in self.peers]
        await asyncio.gather(*(peer.send(**frame) for peer in others if peer is not but))

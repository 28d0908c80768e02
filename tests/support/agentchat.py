"""A client that behaves as the reference's does (agentchat wire 18.1), over the `websockets` library.

It sends what was queued and then IDENTIFY as soon as the socket is open, takes any ERROR before WELCOME as a
failed connect, takes the first message of the awaited type as the answer, and ignores types it does not know.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from ssl import SSLContext
from time import time
from types import TracebackType
from typing import Any, Final, Self

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from moothall.identity import PrivateKey

PATIENCE: Final = 10.0

Message = dict[str, Any]


class Refused(Exception):
    """The server answered ERROR."""

    def __init__(self, error: Message) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: str = error["code"]
        self.message: str = error["message"]


class Closed(Exception):
    """The server closed the connection while something was awaited."""


class AgentChat:
    def __init__(self, socket: ClientConnection, name: str, key: PrivateKey | None) -> None:
        self.socket = socket
        self.name = name
        self.key = key
        self.agent_id = ""
        self.welcome: Message = {}
        self.received: list[Message] = []  # everything, in order
        self.texts: list[str] = []  # the same, as it was on the wire
        self._inbox: list[Message] = []  # what nobody has waited for yet
        self._waiters: list[tuple[Callable[[Message], bool], asyncio.Future[Message]]] = []
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(
        cls,
        url: str,
        name: str = "agent",
        key: PrivateKey | None = None,
        *,
        origin: str | None = None,
        headers: Mapping[str, str] | None = None,
        tls: SSLContext | None = None,
    ) -> Self:
        """A socket that has not identified."""
        socket = await connect(
            url,
            ssl=tls,
            origin=origin,  # type: ignore[arg-type]  # a NewType of str
            additional_headers=headers,
            compression=None,
            max_size=None,
            ping_interval=None,
            open_timeout=PATIENCE,
            close_timeout=PATIENCE,
            proxy=None,
        )
        return cls(socket, name, key)

    @classmethod
    async def connect(
        cls,
        url: str,
        name: str = "agent",
        key: PrivateKey | None = None,
        *,
        queued: Iterable[Message] = (),
        tls: SSLContext | None = None,
    ) -> Self:
        """Resolves on WELCOME; raises Refused on any ERROR before it (agentchat wire 18.1, 2 and 12)."""
        agent = await cls.open(url, name, key, tls=tls)
        try:
            for message in queued:
                await agent.send(**message)
            await agent.identify()
        except BaseException:
            await agent.close()
            raise
        return agent

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self.socket.close()
        await self._reading

    def cut(self) -> None:
        """Go without a word."""
        self.socket.transport.abort()

    # -- what the reference client does ------------------------------------------------------------

    async def identify(self) -> None:
        pubkey = self.key.public.pem if self.key is not None else None
        await self.send(type="IDENTIFY", name=self.name, pubkey=pubkey)
        if self.key is not None:
            challenge = await self.answer("CHALLENGE")
            await self.prove(self.key, challenge)
        self.welcome = await self.answer("WELCOME")
        self.agent_id = self.welcome["agent_id"]

    async def prove(self, key: PrivateKey, challenge: Message, timestamp: int | None = None) -> None:
        timestamp = int(time() * 1000) if timestamp is None else timestamp
        text = f"AGENTCHAT_AUTH|{challenge['nonce']}|{challenge['challenge_id']}|{timestamp}"
        await self.send(
            type="VERIFY_IDENTITY",
            challenge_id=challenge["challenge_id"],
            signature=key.sign(text),
            timestamp=timestamp,
        )

    async def join(self, channel: str) -> Message:
        await self.send(type="JOIN", channel=channel)
        return await self.answer("JOINED", channel=channel)

    async def create_channel(self, channel: str, **flags: bool) -> Message:
        await self.send(type="CREATE_CHANNEL", channel=channel, **flags)
        return await self.answer("JOINED", channel=channel)

    async def leave(self, channel: str) -> Message:
        await self.send(type="LEAVE", channel=channel)
        return await self.answer("LEFT", channel=channel)

    async def say(self, to: str, content: str, **more: Any) -> None:
        await self.send(type="MSG", to=to, content=content, **more)

    async def list_channels(self) -> list[Message]:
        await self.send(type="LIST_CHANNELS")
        channels: list[Message] = (await self.answer("CHANNELS"))["list"]
        return channels

    async def list_agents(self, channel: str) -> list[Message]:
        await self.send(type="LIST_AGENTS", channel=channel)
        agents: list[Message] = (await self.answer("AGENTS"))["list"]
        return agents

    async def verify(self, target: str, nonce: str = "00112233445566778899aabbccddeeff") -> Message:
        """VERIFY_SUCCESS or VERIFY_FAILED, whichever concerns the target."""
        await self.send(type="VERIFY_REQUEST", target=target, nonce=nonce)
        return await self._first(
            lambda message: (
                message["type"] in ("VERIFY_SUCCESS", "VERIFY_FAILED")
                and target in (message.get("agent"), message.get("target"))
            )
        )

    # -- plain traffic -----------------------------------------------------------------------------

    async def send(self, **message: Any) -> None:
        await self.send_text(json.dumps(message))

    async def send_text(self, text: str | bytes) -> None:
        await self.socket.send(text)

    async def ask(self, kind: str, **message: Any) -> Message:
        """Send, and take the first message of this type as the answer."""
        await self.send(**message)
        return await self.answer(kind)

    async def answer(self, kind: str, **fields: Any) -> Message:
        """The first message of this type with these fields; an ERROR meanwhile fails the call."""
        message = await self._first(lambda message: message["type"] == "ERROR" or _is(message, kind, fields))
        if message["type"] == "ERROR" and kind != "ERROR":
            raise Refused(message)
        return message

    async def expect(self, kind: str, **fields: Any) -> Message:
        """The next message of this type with these fields, whatever else arrives."""
        return await self._first(lambda message: _is(message, kind, fields))

    async def refusal(self) -> Message:
        return await self.expect("ERROR")

    async def settle(self) -> None:
        """Everything that the hall put on this line before now has arrived."""
        await self.send(type="PING")
        await self.expect("PONG")

    def pending(self, kind: str) -> list[Message]:
        """Messages of this type that have arrived and that nobody has waited for."""
        return [message for message in self._inbox if message["type"] == kind]

    def forget(self) -> None:
        """What has arrived so far is of no interest."""
        self._inbox.clear()

    def types(self) -> list[str]:
        return [message["type"] for message in self.received]

    async def closed(self) -> tuple[int | None, str | None]:
        """Code and reason, when the server has closed the connection."""
        async with asyncio.timeout(PATIENCE):
            await asyncio.shield(self._reading)
        return self.socket.close_code, self.socket.close_reason

    # -- inside ------------------------------------------------------------------------------------

    async def _first(self, wanted: Callable[[Message], bool]) -> Message:
        for index, message in enumerate(self._inbox):
            if wanted(message):
                return self._inbox.pop(index)
        if self._reading.done():
            raise Closed(f"{self.socket.close_code} {self.socket.close_reason}")
        arrival: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        entry = (wanted, arrival)
        self._waiters.append(entry)
        try:
            async with asyncio.timeout(PATIENCE):
                return await arrival
        finally:
            if entry in self._waiters:
                self._waiters.remove(entry)

    async def _read(self) -> None:
        try:
            async for text in self.socket:
                assert isinstance(text, str)  # the hall never sends binary frames
                self.texts.append(text)
                await self._take(json.loads(text))
        except ConnectionClosed:
            pass
        for _, arrival in self._waiters:
            arrival.set_exception(Closed(f"{self.socket.close_code} {self.socket.close_reason}"))
        self._waiters.clear()

    async def _take(self, message: Message) -> None:
        self.received.append(message)
        if message["type"] == "VERIFY_REQUEST" and "nonce" in message and self.key is not None:
            # The reference client proves itself to whoever asks, without asking its owner.
            nonce = message["nonce"]
            request_id = message["request_id"]
            await self.send(
                type="VERIFY_RESPONSE", request_id=request_id, nonce=nonce, sig=self.key.sign(nonce)
            )
        for index, (wanted, arrival) in enumerate(self._waiters):
            if wanted(message) and not arrival.done():
                del self._waiters[index]
                arrival.set_result(message)
                return
        self._inbox.append(message)


def _is(message: Message, kind: str, fields: Mapping[str, Any]) -> bool:
    return message["type"] == kind and all(message.get(name) == value for name, value in fields.items())

"""Agents that write down what they do and see, for `history`."""

import asyncio
from itertools import count
from typing import Any, Final, Self

from websockets.exceptions import ConnectionClosed, WebSocketException

from moothall.identity import PrivateKey
from tests.support.agentchat import PATIENCE, AgentChat, Closed, Message, Refused
from tests.support.notes import Notes, Record
from tests.support.server import HallProcess

RETRY: Final = 0.1  # seconds


class Witness(AgentChat, Notes):
    """Takes as the answer to a command what carries the command's `ref`."""

    is_open = True

    def __init__(self, *arguments: Any) -> None:
        AgentChat.__init__(self, *arguments)
        Notes.__init__(self)
        self._refs = count(1)
        self._answers: dict[str, asyncio.Future[Message]] = {}
        self._reading.add_done_callback(lambda _: self._end())
        self.newly_heard = asyncio.Event()
        self._notices: list[Message] = []  # that were not looked for yet

    @classmethod
    async def enter(cls, record: Record, url: str, key: PrivateKey, name: str = "agent") -> Self:
        """Raises Refused, Closed, OSError."""
        try:
            agent = await cls.open(url, name, key)
        except WebSocketException as error:
            raise Closed(str(error)) from None
        agent.open_notes(record, url)
        try:
            await agent.identify()
        except BaseException:
            await agent.close()
            raise
        return agent

    async def do(self, kind: str, **fields: Any) -> Message:
        """The answer to a command. Raises Refused, Closed, TimeoutError."""
        ref = f"r{next(self._refs)}"
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._answers[ref] = answer
        try:
            await self._send(type=kind, ref=ref, **fields)
            async with asyncio.timeout(PATIENCE):
                message = await answer
        finally:
            self._answers.pop(ref, None)
            if not answer.cancel() and not answer.cancelled():  # the time-out may have cancelled it
                answer.exception()  # nobody may have waited for it, if nothing could be sent
        if message["type"] == "ERROR":
            raise Refused(message)
        return message

    async def tell(self, to: str, filling: str = "") -> str:
        """Say a text that was never said before, and return it. ACK comes later, and is written down then."""
        ref = f"r{next(self._refs)}"
        text = self.says(to, ref)
        await self._send(type="MSG", ref=ref, to=to, content=f"{text} {filling}")
        return text

    async def join_channel(self, channel: str) -> None:
        """A channel ends with its last member. Of several agents that make it anew, one succeeds."""
        try:
            await self.do("JOIN", channel=channel)
        except Refused as refused:
            if refused.code != "CHANNEL_NOT_FOUND":
                raise
            await self.do("CREATE_CHANNEL", channel=channel)

    async def claim(self, channel: str, text: str, started_at: int) -> None:
        """Say that it answers a message. ACK means that it has the floor, and YIELD that another agent has it."""
        ref = f"r{next(self._refs)}"
        msg_id = self.claims(text, ref)
        await self._send(type="RESPONDING_TO", ref=ref, channel=channel, msg_id=msg_id, started_at=started_at)

    async def acked(self) -> None:
        """Until each text and claim has been acknowledged or refused."""
        async with asyncio.timeout(PATIENCE):
            while (self.saying or self.claiming) and self.is_open:
                await self._changed()

    async def finds(self, *others: "Witness") -> None:
        """Until the hall lists these agents: other nodes hear of an arrival a moment later."""
        ids = [other.agent_id for other in others]
        async with asyncio.timeout(PATIENCE):
            while len((await self.do("LIST_AGENTS", agents=ids))["list"]) < len(ids):  # noqa: ASYNC110
                await asyncio.sleep(RETRY)

    async def hears(self, text: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while text not in self.heard:
                if not self.is_open:
                    raise Closed(f"before {text} came")
                await self._changed()

    async def sees(self, kind: str, **fields: Any) -> Message:
        """The next notice of this type with these fields."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for message in self._notices:
                    if message["type"] == kind and fields.items() <= message.items():
                        self._notices.remove(message)
                        return message
                if not self.is_open:
                    raise Closed(f"before {kind} came")
                await self._changed()

    async def told_of_gap(self, channel: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while channel not in self.told_of_gaps:
                await self._changed()

    async def _changed(self) -> None:
        self.newly_heard.clear()
        await self.newly_heard.wait()

    async def _send(self, **message: Any) -> None:
        try:
            await self.send(**message)
        except ConnectionClosed:
            raise Closed("the connection is gone") from None

    async def _take(self, message: Message) -> None:
        self.note(message)
        self.newly_heard.set()
        answer = self._answers.pop(message.get("ref", ""), None)
        if answer is not None and not answer.done():
            answer.set_result(message)
        elif not self.agent_id or message["type"] == "VERIFY_REQUEST":
            await super()._take(message)
        elif message["type"] not in ("MSG", "ACK"):
            self._notices.append(message)

    def _end(self) -> None:
        self.is_open = False
        self.note_end()
        self.newly_heard.set()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(Closed("the connection is gone"))
        self._answers.clear()


async def enter(record: Record, node: HallProcess, key: PrivateKey, *channels: str) -> Witness:
    witness = await Witness.enter(record, node.url, key)
    for channel in channels:
        await witness.join_channel(channel)
    return witness


async def come_back(record: Record, node: HallProcess, key: PrivateKey) -> Witness:
    """An agent whose node is gone: its id is free when the other nodes have given the node up."""
    async with asyncio.timeout(2 * PATIENCE):
        while True:
            try:
                return await Witness.enter(record, node.url, key)
            except Refused as refused:
                if refused.code != "UNAVAILABLE":
                    raise
                await asyncio.sleep(RETRY)

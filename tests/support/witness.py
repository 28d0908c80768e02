"""Agents that write down what they do and see, for `history`."""

import asyncio
from itertools import count
from typing import Any, Final, Self

from websockets.exceptions import ConnectionClosed, WebSocketException

from moothall.identity import PrivateKey
from tests.support.agentchat import PATIENCE, AgentChat, Closed, Message, Refused
from tests.support.history import (
    Acked,
    Claimed,
    Ended,
    Entered,
    Event,
    Gap,
    Heard,
    Left,
    Said,
    Welcomed,
    Yielded,
    violations,
)
from tests.support.history import Refused as RefusedText
from tests.support.server import HallProcess

RETRY: Final = 0.1  # seconds


class Record:
    """What all agents of a test did and saw, in one order."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.texts: dict[str, str] = {}  # by the hall's id of the message
        self.ids: dict[str, str] = {}  # and by text
        self._lines = count(1)
        self._texts = count(1)

    def new_line(self) -> int:
        return next(self._lines)

    def new_text(self) -> str:
        return f"text-{next(self._texts)}"

    def name(self, msg_id: str, text: str) -> None:
        self.texts[msg_id] = text
        self.ids[text] = msg_id

    def text_of(self, msg_id: str) -> str:
        return self.texts.get(msg_id, msg_id)

    def check(self) -> None:
        problems = violations(self.events)
        assert not problems, "\n".join(problems)


class Witness(AgentChat):
    """Takes as the answer to a command what carries the command's `ref`."""

    record: Record | None = None
    line = 0
    _node = ""  # the URL
    is_open = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._refs = count(1)
        self._answers: dict[str, asyncio.Future[Message]] = {}
        self._saying: dict[str, str] = {}  # texts by ref
        self._claiming: dict[str, str] = {}  # ids of messages by ref
        self._reading.add_done_callback(lambda _: self._end())
        self.channels: set[str] = set()
        self.heard: set[str] = set()
        self.newly_heard = asyncio.Event()
        self.told_of_gaps: set[str] = set()  # channels
        self._notices: list[Message] = []  # that were not looked for yet
        self.displaced = False
        self.latest: tuple[str, str] | None = None  # the channel and text of a message that it heard

    @classmethod
    async def enter(cls, record: Record, url: str, key: PrivateKey, name: str = "agent") -> Self:
        """Raises Refused, Closed, OSError."""
        try:
            agent = await cls.open(url, name, key)
        except WebSocketException as error:
            raise Closed(str(error)) from None
        agent.record, agent.line, agent._node = record, record.new_line(), url
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
        if message["type"] == "ERROR":
            raise Refused(message)
        return message

    async def tell(self, to: str, filling: str = "") -> str:
        """Say a text that was never said before, and return it. ACK comes later, and is written down then."""
        assert self.record is not None
        text = self.record.new_text()
        ref = f"r{next(self._refs)}"
        self._saying[ref] = text
        self.record.events.append(Said(self.line, to, text))
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
        assert self.record is not None
        msg_id = self.record.ids[text]
        ref = f"r{next(self._refs)}"
        self._claiming[ref] = msg_id
        await self._send(type="RESPONDING_TO", ref=ref, channel=channel, msg_id=msg_id, started_at=started_at)

    async def acked(self) -> None:
        """Until each text and claim has been acknowledged or refused."""
        async with asyncio.timeout(PATIENCE):
            while (self._saying or self._claiming) and self.is_open:
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
        if self.record is not None:
            self._note(self.record, message)
            self.newly_heard.set()
        answer = self._answers.pop(message.get("ref", ""), None)
        if answer is not None and not answer.done():
            answer.set_result(message)
        elif not self.agent_id or message["type"] == "VERIFY_REQUEST":
            await super()._take(message)
        elif message["type"] not in ("MSG", "ACK"):
            self._notices.append(message)

    def _note(self, record: Record, message: Message) -> None:
        match message:
            case {"type": "WELCOME"}:
                record.events.append(Welcomed(self.line, message["agent_id"].removeprefix("@"), self._node))
            case {"type": "JOINED", "channel": channel}:
                self.channels.add(channel)
                record.events.append(Entered(self.line, channel))
            case {"type": "LEFT", "channel": channel}:
                self.channels.discard(channel)
                record.events.append(Left(self.line, channel))
            case {"type": "MSG", "from": sender, "to": to, "content": content} if content.startswith("text-"):
                if not message.get("replay"):
                    text = content.partition(" ")[0]
                    self.heard.add(text)
                    record.name(message["msg_id"], text)
                    if to.startswith("#"):
                        self.latest = to, text
                    record.events.append(Heard(self.line, to, sender.removeprefix("@"), text))
            case {"type": "ACK", "ref": ref} if ref in self._saying:
                record.name(message["msg_id"], self._saying[ref])
                record.events.append(Acked(self.line, self._saying.pop(ref)))
            case {"type": "ERROR", "ref": ref} if ref in self._claiming:
                del self._claiming[ref]
            case {"type": "ERROR", "ref": ref} if ref in self._saying:
                record.events.append(RefusedText(self.line, self._saying.pop(ref)))
            case {"type": "MSG", "from": "@server", "to": channel, "content": content} if content.startswith(
                "Messages may be missing here"
            ):
                self.told_of_gaps.add(channel)
                record.events.append(Gap(self.line, channel))
            case {"type": "ACK", "ref": ref} if ref in self._claiming:
                record.events.append(Claimed(self.line, record.text_of(self._claiming.pop(ref))))
            case {"type": "YIELD", "msg_id": lost}:
                self._claiming.pop(message.get("ref", ""), None)
                record.events.append(Yielded(self.line, record.text_of(lost)))
            case {"type": "FLOOR_RELEASED", "msg_id": free, "from": who} if who.removeprefix(
                "@"
            ) == self.agent_id.removeprefix("@"):
                record.events.append(Yielded(self.line, record.text_of(free)))
            case {"type": "SESSION_DISPLACED"}:
                self.displaced = True

    def _end(self) -> None:
        self.is_open = False
        if self.record is not None:
            self.record.events.append(Ended(self.line))
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

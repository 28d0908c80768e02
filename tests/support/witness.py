"""Agents that write down what they do and see, for `history`."""

import asyncio
from itertools import count
from typing import Any, Self

from websockets.exceptions import ConnectionClosed

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


class Record:
    """What all agents of a test did and saw, in one order."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.texts: dict[str, str] = {}  # by the hall's id of the message
        self._lines = count(1)
        self._texts = count(1)

    def new_line(self) -> int:
        return next(self._lines)

    def new_text(self) -> str:
        return f"text-{next(self._texts)}"

    def text_of(self, msg_id: str) -> str:
        return self.texts.get(msg_id, msg_id)

    def check(self) -> None:
        problems = violations(self.events)
        assert not problems, "\n".join(problems)


class Witness(AgentChat):
    """Takes as the answer to a command what carries the command's `ref`."""

    record: Record | None = None
    line = 0
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
        self.displaced = False
        self.latest: tuple[str, str] | None = None  # the channel and id of a message that it heard

    @classmethod
    async def enter(cls, record: Record, url: str, key: PrivateKey, name: str = "agent") -> Self:
        """Raises Refused, Closed, OSError."""
        agent = await cls.open(url, name, key)
        agent.record, agent.line = record, record.new_line()
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

    async def tell(self, to: str, text: str | None = None) -> str:
        """Say a text that was never said before, and return it. ACK comes later, and is written down then."""
        assert self.record is not None
        text = text or self.record.new_text()
        ref = f"r{next(self._refs)}"
        self._saying[ref] = text
        self.record.events.append(Said(self.line, to, text))
        await self._send(type="MSG", ref=ref, to=to, content=text)
        return text

    async def claim(self, channel: str, msg_id: str, started_at: int) -> None:
        """Say that it answers a message. ACK means that it has the floor, and YIELD that another agent has it."""
        ref = f"r{next(self._refs)}"
        self._claiming[ref] = msg_id
        await self._send(type="RESPONDING_TO", ref=ref, channel=channel, msg_id=msg_id, started_at=started_at)

    async def acked(self) -> None:
        """Until each text that was said has been acknowledged or refused."""
        async with asyncio.timeout(PATIENCE):
            while self._saying and self.is_open:
                await self._changed()

    async def hears(self, text: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while text not in self.heard:
                if not self.is_open:
                    raise Closed(f"before {text} came")
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

    def _note(self, record: Record, message: Message) -> None:
        match message:
            case {"type": "WELCOME"}:
                record.events.append(Welcomed(self.line, message["agent_id"].removeprefix("@")))
            case {"type": "JOINED", "channel": channel}:
                self.channels.add(channel)
                record.events.append(Entered(self.line, channel))
            case {"type": "LEFT", "channel": channel}:
                self.channels.discard(channel)
                record.events.append(Left(self.line, channel))
            case {"type": "MSG", "from": sender, "to": to, "content": text} if text.startswith("text-"):
                if not message.get("replay"):
                    self.heard.add(text)
                    record.texts[message["msg_id"]] = text
                    if to.startswith("#"):
                        self.latest = to, message["msg_id"]
                    record.events.append(Heard(self.line, to, sender.removeprefix("@"), text))
            case {"type": "ACK", "ref": ref} if ref in self._saying:
                record.texts[message["msg_id"]] = self._saying[ref]
                record.events.append(Acked(self.line, self._saying.pop(ref)))
            case {"type": "ERROR", "ref": ref} if ref in self._saying:
                record.events.append(RefusedText(self.line, self._saying.pop(ref)))
            case {"type": "GAP", "channel": channel}:
                self.told_of_gaps.add(channel)
                record.events.append(Gap(self.line, channel))
            case {"type": "ACK", "ref": ref} if ref in self._claiming:
                record.events.append(Claimed(self.line, record.text_of(self._claiming.pop(ref))))
            case {"type": "YIELD", "msg_id": lost}:
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

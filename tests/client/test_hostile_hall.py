"""A hall may send anything: no frame of it ends an agent, or keeps it from answering the next honest one."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from msgspec import inspect
from websockets.asyncio.server import ServerConnection, serve

from moothall import Agent, Message
from moothall.client.incoming import _KNOWN
from moothall.identity import Identity, save
from tests.client.meeting import soon
from tests.identity.vectors import ALICE

FRAMES = 4000
SELF: Final = "@hostile0"


class HostileHall:
    """Welcomes the agent, answers whatever it asks with ACK, and sends it frames of the test's choosing."""

    def __init__(self, socket: ServerConnection) -> None:
        self._socket = socket
        self._said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def serve(self) -> None:
        async for frame in self._socket:
            message = json.loads(frame)
            ref = {"ref": message["ref"]} if "ref" in message else {}
            match message["type"]:
                case "IDENTIFY" if "pubkey" in message:
                    await self.send(type="CHALLENGE", challenge_id="c", nonce="0" * 32, expires_at=1, **ref)
                case "IDENTIFY" | "VERIFY_IDENTITY":
                    await self.send(type="WELCOME", agent_id=SELF, name="visitor", server="evil", **ref)
                case "JOIN":
                    await self.send(type="JOINED", channel=message["channel"], agents=[SELF], **ref)
                case "PING":
                    await self.send(type="PONG", **ref)
                case "MSG":
                    self._said.put_nowait(message)
                    await self.send(type="ACK", msg_id="1-a", **ref)
                case _:
                    await self.send(type="ACK", **ref)

    async def send(self, **fields: Any) -> None:
        await self.send_raw(json.dumps({"ts": 1, **fields}))

    async def send_raw(self, frame: str | bytes) -> None:
        await self._socket.send(frame)

    async def ask(self, question: str) -> str:
        """An honest message; what the agent answers."""
        await self.send(
            type="MSG",
            **{"from": "@honest"},
            from_name="honest",
            to="#general",
            content=question,
            msg_id=question,
        )
        while True:
            answer = await soon(self._said.get())
            if answer["content"] == f"answer to {question}":
                content: str = answer["content"]
                return content


def listener(agent: Agent) -> None:
    """Everything that an agent can listen to, so that every kind of frame goes all the way."""

    @agent.on_message("#general", dms=True)
    async def answer(message: Message) -> None:
        if message.content.startswith("question"):
            await message.reply(f"answer to {message.content}")

    async def ignore(*_: object) -> None:
        pass

    for decorate in (
        agent.on_event("*"),
        agent.on_join,
        agent.on_leave,
        agent.on_nick,
        agent.on_presence,
        agent.on_typing,
        agent.on_gap,
        agent.on_proposal,
        agent.on_arbiter_assigned,
        agent.on_case,
    ):
        decorate(ignore)


@asynccontextmanager
async def visiting(**options: Any) -> AsyncIterator[HostileHall]:
    """An agent in a hostile hall."""
    arrived: asyncio.Future[HostileHall] = asyncio.get_running_loop().create_future()

    async def host(socket: ServerConnection) -> None:
        hall = HostileHall(socket)
        arrived.set_result(hall)
        await hall.serve()

    async with serve(host, "127.0.0.1", 0, compression=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        agent = Agent("visitor", reconnect=False, **options)
        listener(agent)
        await agent.connect(f"ws://127.0.0.1:{port}")
        try:
            yield await arrived
            assert agent.is_connected
        finally:
            await agent.close()


# -- frames that were once enough ------------------------------------------------------------------------

CHAT: Final = '"from": "@x", "from_name": "x", "to": "#general", "content": "hello", "ts": 1'
DEEP: Final = "[" * 990 + "]" * 990
NASTY: Final = {
    "a field name with half a character": f'{{"type": "MSG", {CHAT}, "\\ud800": 1}}',
    "one inside": '{"type": "AGENTS", "ts": 1, "channel": "#general", "list": [{"\\ud800": 1}]}',
    "half a character in place of a word": '{"type": "SETTLEMENT_COMPLETE", "ts": 1, "dispute_id": "d",'
    ' "proposal_id": "p", "verdict": "\\ud800"}',
    "half a character as type": '{"type": "\\ud800", "ts": 1}',
    "half a character as ref": '{"type": "PONG", "ts": 1, "ref": "\\ud800"}',
    "a reason that is nested": f'{{"type": "KICKED", "ts": 1, "reason": {DEEP}}}',
    "an error that is nested": f'{{"type": "ERROR", "ts": 1, "code": {DEEP}}}',
    "nested deeper than Python": '{"type": "MSG", "x": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "a long number": '{"type": "PONG", "ts": ' + "9" * 10_000 + "}",
    "a number beyond all time": f'{{"type": "MSG", {CHAT.replace("1", "9" * 30)}}}',
    "a number beyond all bounds": f'{{"type": "MSG", {CHAT.replace("1", "1e999")}}}',
    "no object": "[1, 2]",
    "nothing": "",
    "null": "null",
}


@pytest.mark.parametrize("name", NASTY)
async def test_a_nasty_frame_does_not_end_an_agent(name: str) -> None:
    async with visiting() as hall:
        await hall.send_raw(NASTY[name])
        assert await hall.ask("question") == "answer to question"


async def test_frames_that_are_no_messages_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with visiting() as hall:
        for frame in ("null", "[]", "oops", "{}"):
            await hall.send_raw(frame)
        await hall.ask("question")
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len([warning for warning in warnings if "not a message" in warning]) == 1


# -- thousands of others -----------------------------------------------------------------------------------


ODD: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1,
    10**30,
    1e300,
    "",
    "\0",
    "\ud800",
    [],
    {},
    [None],
    {"\ud800": "\udfff"},
    {"@x": {"x": 1}},
    [[["deep"]] * 3] * 3,
)
TEXTS: Final = (
    "",
    "x",
    "#general",
    SELF,
    "@x",
    "prop_1",
    "disp_1",
    "question",
    "1-a",
    "0" * 32,
    "\ud800",
    "x" * 5000,
)
NUMBERS: Final = (0, 1, -1, 1_760_000_000_000, 2**53, 10**18, -(10**18))


def made(kind: inspect.Type, dice: Random) -> Any:
    """A value of this type, at the edge of what it allows."""
    match kind:
        case inspect.StrType():
            return dice.choice(TEXTS)
        case inspect.IntType():
            return dice.choice(NUMBERS)
        case inspect.FloatType():
            return dice.choice((*NUMBERS, 0.5, 1e300, -1e300, 10**30))
        case inspect.BoolType():
            return dice.random() < 0.5
        case inspect.LiteralType():
            return dice.choice(kind.values)
        case inspect.ListType():
            return [made(kind.item_type, dice) for _ in range(dice.randrange(4))]
        case inspect.DictType():
            return {made(kind.key_type, dice): made(kind.value_type, dice) for _ in range(dice.randrange(4))}
        case inspect.UnionType():
            return made(dice.choice(kind.types), dice)
        case inspect.StructType():
            tag = {} if kind.tag_field is None else {kind.tag_field: kind.tag}
            given = [field for field in kind.fields if field.required or dice.random() < 0.7]
            return tag | {field.encode_name: made(field.type, dice) for field in given}
        case _:
            return dice.choice(ODD)


def mutated(frame: dict[str, Any], dice: Random) -> bytes:
    """The frame as it is, or broken in one of six ways."""
    match dice.randrange(12):
        case 0:
            frame[dice.choice(("\ud800", "", "x" * 1000, "ref"))] = dice.choice(ODD)
        case 1 if frame:
            del frame[dice.choice(list(frame))]
        case 2:
            frame["ref"] = str(dice.randrange(5))
        case 3:
            text = json.dumps(frame)
            return text[: dice.randrange(len(text))].encode()
        case 4:
            raw = bytearray(json.dumps(frame).encode())
            for _ in range(3):
                raw[dice.randrange(len(raw))] = dice.randrange(256)
            return bytes(raw)
        case 5:
            frame[dice.choice(list(frame))] = dice.choice(ODD)
    return json.dumps(frame, ensure_ascii=dice.random() < 0.9).encode(errors="surrogatepass")


KINDS: Final = [inspect.type_info(known) for known in _KNOWN]


@pytest.mark.parametrize("seed", range(3))
async def test_thousands_of_broken_frames_do_not_end_an_agent(seed: int, tmp_path: Path) -> None:
    dice = Random(seed)  # noqa: S311  # the same every time is the point
    identity = tmp_path / "identity.json"
    save(Identity(ALICE), identity)
    async with visiting(identity=identity) as hall:
        for number in range(FRAMES):
            await hall.send_raw(mutated(made(dice.choice(KINDS), dice), dice))
            if number % 500 == 0:
                assert await hall.ask(f"question {number}") == f"answer to question {number}"
        assert await hall.ask("question at last") == "answer to question at last"

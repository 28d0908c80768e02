"""The examples with a language model: real client libraries, a real hall, and a stand-in for the model."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from queue import Queue
from typing import TypeVar, get_args

import anthropic.types
import pytest

from moothall import Agent, Arrival, Message
from tests.support.models import COMPLETIONS, MESSAGES, MODEL, Asked, Models, running_models
from tests.support.server import PATIENCE, HallProcess, environment, running_hall

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PATHS = {"claude": MESSAGES, "local_model": COMPLETIONS}
REMEMBERED = 20  # lines of the channel that an example gives to its model
BOUND = REMEMBERED * 2100 + 2100  # characters of a prompt

Item = TypeVar("Item")


@pytest.fixture
def models() -> Iterator[Models]:
    with running_models() as running:
        yield running


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    """One for all tests. An example keeps its key, and answers nothing that was said before it came."""
    folder = tmp_path_factory.mktemp("hall")
    with running_hall(folder, "--no-limits", "--set", "buffer_size=60") as running:
        yield running


@pytest.fixture(params=PATHS)
def example(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


class Room:
    """An example in #general, and a visitor who talks to it."""

    def __init__(self, visitor: Agent, process: asyncio.subprocess.Process) -> None:
        self.visitor = visitor
        self.process = process
        self.heard: asyncio.Queue[Message] = asyncio.Queue()
        visitor.on_message("#general")(self.heard.put)

    async def ask(self, question: str) -> str:
        asked = await self.visitor.send("#general", question)
        assert asked is not None
        return asked

    async def leave_in_peace(self) -> str:
        self.process.send_signal(signal.SIGINT)
        _, errors = await self.process.communicate()
        assert self.process.returncode == 0
        usual = ("made a new key", "connected to ws:", "disconnected from ws:")
        lines = errors.decode().splitlines(keepends=True)
        return "".join(line for line in lines if not any(words in line for words in usual))


@asynccontextmanager
async def room_with(example: str, hall: HallProcess, models: Models) -> AsyncIterator[Room]:
    visitor = Agent("visitor")
    arrived: asyncio.Queue[Arrival] = asyncio.Queue()
    visitor.on_join(arrived.put)
    variables = {"AGENTCHAT_URL": hall.url, "AGENTCHAT_CSMA_MIN_MS": "50", "AGENTCHAT_CSMA_MAX_MS": "50"}
    async with visitor.connected(hall.url), asyncio.timeout(2 * PATIENCE):
        await visitor.join("#general")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error"),
            *(
                "-W",
                "ignore::ResourceWarning",
            ),  # the client libraries leave open connections to the process's end
            str(ROOT / "examples" / f"{example}.py"),
            cwd=hall.folder,
            env=environment(**variables, **models.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            await arrived.get()
            yield Room(visitor, process)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def next_of(queue: "Queue[Item]") -> Item:
    return await asyncio.to_thread(queue.get, timeout=PATIENCE)


def test_an_example_has_25_lines(example: str) -> None:
    assert len((ROOT / "examples" / f"{example}.py").read_text().splitlines()) <= 25


def test_the_model_is_one_that_the_provider_names() -> None:
    named, _ = get_args(anthropic.types.Model)
    (line,) = [
        line for line in (ROOT / "examples" / "claude.py").read_text().splitlines() if "model=" in line
    ]
    assert line.split('"')[1] in get_args(named)


async def test_it_answers_with_what_the_model_says(example: str, hall: HallProcess, models: Models) -> None:
    models.answer = lambda asked: "It is a moot point"
    async with room_with(example, hall, models) as room:
        question = await room.ask("what is a moot?")
        answer = await room.heard.get()
        assert (answer.content, answer.in_reply_to) == ("It is a moot point", question)
        asked = await next_of(models.asked)
        assert asked.path == PATHS[example]
        assert asked.prompt.endswith("Answer visitor: what is a moot?")
        assert asked.body["max_tokens"] == 1000
        if example == "local_model":
            assert asked.body["model"] == MODEL
        assert await room.leave_in_peace() == ""


async def test_the_history_that_it_sends_is_bounded(example: str, hall: HallProcess, models: Models) -> None:
    models.answer = lambda asked: "long" * 2000
    async with room_with(example, hall, models) as room:
        for number in range(2 * REMEMBERED):
            line = f"line {number} " + "x" * 4000
            await room.ask(line)
            assert len((await room.heard.get()).content) == 4000
        prompts = [(await next_of(models.asked)).prompt for _ in range(2 * REMEMBERED)]
    assert len(prompts[-1].splitlines()) == REMEMBERED + 1
    assert all(len(prompt) <= BOUND for prompt in prompts)
    assert "line 39" in prompts[-1]
    assert "line 35" in prompts[-1]
    assert "line 5 " not in prompts[-1]
    assert "longlong" in prompts[-1]  # its own lines too


async def test_it_stops_the_request_when_another_agent_has_the_floor(
    example: str, hall: HallProcess, models: Models
) -> None:
    models.answer = lambda asked: None if "first" in asked.prompt.splitlines()[-1] else "to the second"
    async with room_with(example, hall, models) as room, Agent("rival").connected(hall.url) as rival:
        heard = rival.messages("#general")
        await rival.join("#general")
        first = await room.ask("the first question")
        message = await anext(heard)
        assert message.id == first
        await next_of(models.asked)
        assert await rival.claim(first, "#general", message.ts.timestamp() + 0.001)
        abandoned: Asked = await next_of(models.abandoned)
        assert "the first question" in abandoned.prompt
        await rival.send("#general", "I answer the first", in_reply_to=first)
        second = await room.ask("the second question")
        answers = [await room.heard.get() for _ in range(2)]
        assert [(answer.content, answer.in_reply_to) for answer in answers] == [
            ("I answer the first", first),
            ("to the second", second),
        ]
        assert await room.leave_in_peace() == ""


async def test_an_answer_of_nothing_is_not_sent(example: str, hall: HallProcess, models: Models) -> None:
    models.answer = lambda asked: "" if "first" in asked.prompt.splitlines()[-1] else "to the second"
    async with room_with(example, hall, models) as room:
        await room.ask("the first question")
        await next_of(models.asked)
        second = await room.ask("the second question")
        answer = await room.heard.get()
        assert (answer.content, answer.in_reply_to) == ("to the second", second)
        assert await room.leave_in_peace() == ""


async def test_a_refusal_of_the_provider_is_logged_and_ends_nothing(
    example: str, hall: HallProcess, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = models.environment | {"ANTHROPIC_API_KEY": "wrong", "OPENAI_API_KEY": "wrong"}
    monkeypatch.setattr(Models, "environment", variables)
    async with room_with(example, hall, models) as room:
        await room.ask("hello?")
        assert "key" in await next_of(models.refused)
        await room.ask("hello again?")
        await next_of(models.refused)
        errors = await room.leave_in_peace()
    assert "AuthenticationError" in errors
    assert "wrong" not in errors

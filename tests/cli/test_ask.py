"""`moothall ask`: a question, and its answer on standard output."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from moothall import Agent, Message
from moothall.cli.main import app
from tests.support.agentchat import AgentChat
from tests.support.server import PATIENCE, PROGRAM, HallProcess, environment, running_hall


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall"), "--no-limits") as hall:
        yield hall


@asynccontextmanager
async def bob(hall: HallProcess, content: str = "you asked: {}") -> AsyncIterator[Agent]:
    agent = Agent("bob")

    @agent.on_message("general", dms=True)
    async def answer(message: Message) -> None:
        await message.reply(content.format(message.content))

    async with agent.connected(hall.url):
        yield agent


async def ask(hall: HallProcess, *arguments: str, typed: str | bytes | None = None) -> Result:
    """`moothall ask`, on a thread of its own because it has its own event loop."""
    order = ["ask", "--url", hall.url, *arguments]
    result = await asyncio.to_thread(CliRunner().invoke, app, order, input=typed)
    assert "Traceback" not in result.output
    return result


async def complaint(hall: HallProcess, code: int, *arguments: str, typed: str | None = None) -> str:
    result = await ask(hall, *arguments, typed=typed)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.parametrize("target", ["general", "#general", "@bob", "bob"])
async def test_the_answer_alone_is_on_standard_output(hall: HallProcess, target: str) -> None:
    async with bob(hall) as agent:
        result = await ask(hall, target, "how", "are", "you?")
        assert (result.exit_code, result.stdout) == (0, "you asked: how are you?\n")
        where = "in #general" if "general" in target else "directly"
        assert result.stderr == f"bob ({agent.address}) answers {where}:\n"


async def test_the_question_comes_from_standard_input(hall: HallProcess) -> None:
    async with bob(hall):
        result = await ask(hall, "general", "-", typed=b"line one\nline \xff two\n")
        assert result.stdout == "you asked: line one\nline � two\n"


async def test_json_is_the_message_as_it_came(hall: HallProcess) -> None:
    async with bob(hall) as agent:
        result = await ask(hall, "general", "why?", "--json")
        answer = json.loads(result.stdout)
        assert (answer["from"], answer["content"], answer["to"]) == (
            agent.address,
            "you asked: why?",
            "#general",
        )
        assert answer["in_reply_to"]
        assert result.stderr == ""


async def test_an_answer_cannot_steer_the_terminal(hall: HallProcess) -> None:
    async with bob(hall, "\x1b[2J\x9b31m gone\rtwo\nlines"):
        assert (await ask(hall, "general", "why?")).stdout == "[2J31m gonetwo\nlines\n"


async def test_an_agent_that_claims_and_does_not_reply(hall: HallProcess) -> None:
    async with await AgentChat.connect(hall.url, "plain") as plain:
        await plain.join("#general")
        asked = asyncio.create_task(ask(hall, "general", "who claims this?"))
        question = await plain.expect("MSG", content="who claims this?")
        await plain.send(
            type="RESPONDING_TO", msg_id=question["msg_id"], channel="#general", started_at=question["ts"]
        )
        await plain.say("#general", "because")
        assert (await asked).stdout == "because\n"


async def test_no_answer_has_an_exit_code_of_its_own(hall: HallProcess) -> None:
    async with Agent("mute", channels="general").connected(hall.url):
        text = await complaint(hall, 6, "general", "why?", "--timeout", "0.2")
        assert "no answer from #general within 0.2 s" in text
        assert "--timeout" in text


async def test_mistakes(hall: HallProcess) -> None:
    assert "AGENT_NOT_FOUND" in await complaint(hall, 4, "@1f3a9c02", "why?")
    assert "there is no channel or agent 'nowhere'" in await complaint(hall, 4, "nowhere", "why?")
    assert "there is no agent 'nobody'" in await complaint(hall, 4, "@nobody", "why?")
    assert "CHANNEL_NOT_FOUND" in await complaint(hall, 4, "#nowhere", "why?")
    assert "@server answers no questions" in await complaint(hall, 2, "@server", "why?")
    assert "nothing to ask" in await complaint(hall, 2, "general", " ")
    assert "nothing to ask" in await complaint(hall, 2, "general", "-", typed="\n")
    assert "Missing argument 'QUESTION" in await complaint(hall, 2, "general")


async def test_a_name_that_several_have(hall: HallProcess) -> None:
    async with bob(hall) as one, bob(hall) as two:
        text = await complaint(hall, 2, "@bob", "why?")
        assert "2 agents are called bob" in text
        assert one.address in text
        assert two.address in text


async def test_as_a_process_with_a_pipe(hall: HallProcess, tmp_path: Path) -> None:
    async with bob(hall):
        process = await asyncio.create_subprocess_exec(
            PROGRAM,
            *("ask", hall.url, "general", "-"),
            cwd=tmp_path,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        async with asyncio.timeout(PATIENCE):
            output, errors = await process.communicate(b"why?\n")
        assert (process.returncode, output) == (0, b"you asked: why?\n")
        assert errors.count(b"\n") == 1

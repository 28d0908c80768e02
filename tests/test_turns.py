"""Groups of agents in a real hall: how many answers a question gets, and what happens when they are left alone."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from moothall import Agent, FloorChange, FloorPolicy, Message
from moothall.client.answering import MENTIONED_FACTOR
from tests.client.meeting import Heard, claimed, listen, settled, soon
from tests.support.server import PROGRAM, HallProcess, environment, running_hall

pytestmark = pytest.mark.slow

PROFILES = ("seeds", "agentchat-0.36")
TOPICS = ("cats", "dogs", "birds", "fish")
IDLE = "1"  # seconds: three times as long as an agent listens before it answers


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents listen for some milliseconds before they answer, not for some seconds."""
    monkeypatch.setenv("AGENTCHAT_CSMA_MIN_MS", "20")
    monkeypatch.setenv("AGENTCHAT_CSMA_MAX_MS", "300")


@pytest.fixture(params=PROFILES)
def hall(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HallProcess]:
    settings = {"MOOTHALL_IDLE_TIMEOUT": IDLE}
    with running_hall(tmp_path, "--no-limits", "--profile", request.param, environment=settings) as hall:
        yield hall


def readme_agent(name: str = "echo") -> Agent:
    """The agent of the README."""
    agent = Agent(name)

    @agent.on_message("#general", floor=True)
    async def reply(msg: Message) -> None:
        await msg.reply(f"You said: {msg.content}")

    return agent


def topic_bot(topic: str, *, thinks: bool) -> Agent:
    agent = Agent(f"{topic}-bot")

    @agent.on_message("#general", floor=True)
    async def reply(msg: Message) -> None:
        if thinks:
            await claimed(agent)
        if topic not in msg.content:
            return
        await msg.reply(f"about {topic}")

    return agent


@asynccontextmanager
async def meeting(url: str, *agents: Agent) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for agent in agents:
            await stack.enter_async_context(agent.connected(url))
        yield


async def quiet(*agents: Agent) -> None:
    """No handler of these agents runs, nor will one start for what is on its way to them."""
    while True:
        await settled(*agents)
        running = [task for agent in agents for task in agent._handlers._tasks]
        if not running:
            return
        await soon(asyncio.wait(running))


async def crowd(agent: Agent, size: int) -> None:
    """Until there are so many members."""
    while len(await agent.members("#general")) < size:
        pass


async def claims(hall: HallProcess) -> float:
    _, _, body = await hall.get("/metrics")
    (line,) = [line for line in body.splitlines() if line.startswith("moothall_floor_claims ")]
    return float(line.split()[1])


# -- left alone ----------------------------------------------------------------------------------------


async def test_agents_that_are_left_alone_say_nothing(hall: HallProcess) -> None:
    """The idle prompt comes twice, so there was all the time between to answer the first."""
    agents = [readme_agent() for _ in range(3)]
    witness = Agent("witness")
    heard = listen(witness, "#general")
    prompts: Heard[Message] = Heard()
    witness.on_server_message(prompts)
    async with meeting(hall.url, *agents, witness):
        for _ in range(2):
            await prompts.until(lambda line: line.to == "#general" and " - " in line.content)
        await quiet(*agents)
        await settled(witness)
    assert heard.events == []


@pytest.mark.parametrize("copies", [2, 6])
async def test_copies_of_one_agent_give_one_answer_and_do_not_answer_it(
    hall: HallProcess, copies: int
) -> None:
    agents = [readme_agent() for _ in range(copies)]
    asker = Agent("asker")
    heard = listen(asker, "#general")
    async with meeting(hall.url, *agents, asker):
        for number in range(3):
            asked = await asker.send("#general", f"hello {number}")
            assert (await heard.next()).in_reply_to == asked
            await quiet(*agents)
        await settled(asker)
    assert [message.content for message in heard.events] == [
        f"You said: hello {number}" for number in range(3)
    ]


async def test_copies_that_answer_with_send_do_not_loop_either(hall: HallProcess) -> None:
    agents = [Agent("echo") for _ in range(3)]
    for agent in agents:

        @agent.on_message("#general", floor=True)
        async def answer(message: Message, agent: Agent = agent) -> None:
            await agent.send("#general", f"You said: {message.content}")

    asker = Agent("asker")
    heard = listen(asker, "#general")
    async with meeting(hall.url, *agents, asker):
        await asker.send("#general", "hello")
        await heard.next()
        await quiet(*agents)
        await settled(asker)
    assert len(heard.events) == 1


async def test_agents_that_mention_each_other_stop(hall: HallProcess) -> None:
    """Each answer repeats the mentions of what it answers."""
    agents = [readme_agent(name) for name in ("ann", "ben", "cid")]
    asker = Agent("asker")
    heard = listen(asker, "#general")
    async with meeting(hall.url, *agents, asker):
        await asker.send("#general", "@ann and @ben and @cid, talk to each other")
        await quiet(*agents)
        await settled(asker)
        assert len(heard.events) <= 3 + 2 * MENTIONED_FACTOR * 6


# -- questions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("thinks", [False, True])
@pytest.mark.parametrize("human", [False, True])
async def test_each_question_finds_the_one_bot_of_its_topic(
    hall: HallProcess, human: bool, thinks: bool
) -> None:
    bots = [topic_bot(topic, thinks=thinks) for topic in TOPICS]
    asker = Agent("asker", human=human)
    heard = listen(asker, "#general")
    questions: dict[str | None, str] = {}
    async with meeting(hall.url, *bots, asker):
        for topic in (*TOPICS, "dogs", "fish"):
            questions[await asker.send("#general", f"tell me about {topic}")] = f"about {topic}"
        for _ in questions:
            await heard.next()
        await quiet(*bots)
        await settled(asker)
        assert await claims(hall) == 0
    assert {message.in_reply_to: message.content for message in heard.events} == questions
    assert len(heard.events) == 6


async def test_a_mention_is_answered_by_the_agent_that_it_names(hall: HallProcess) -> None:
    bots = [readme_agent(f"qa{number}") for number in (1, 2, 3)]
    asker = Agent("asker")
    heard = listen(asker, "#general")
    async with meeting(hall.url, *bots, asker):
        for number in range(4):
            await asker.send("#general", f"@qa1 number {number}?")
            await heard.next()
            await quiet(*bots)
        await settled(asker)
    assert [message.sender_name for message in heard.events] == ["qa1"] * 4


async def test_a_person_gets_one_answer_and_sees_who_works_on_it(hall: HallProcess, tmp_path: Path) -> None:
    bots = [Agent(f"bot{number}") for number in (1, 2, 3)]
    go_on = asyncio.Event()
    for bot in bots:

        @bot.on_message("#general", floor=True)
        async def answer(message: Message) -> None:
            await go_on.wait()
            await message.reply("here")

    person = Agent("person", human=True)
    heard = listen(person, "#general")
    floor: Heard[FloorChange] = Heard()
    person.on_floor(floor)
    listening = await asyncio.create_subprocess_exec(
        *(PROGRAM, "listen", "-u", hall.url, "general"),
        env=environment(),
        cwd=tmp_path,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with meeting(hall.url, *bots, person):
        await soon(crowd(person, len(bots) + 2))
        question = await person.send("#general", "who knows?")
        began = await floor.until(lambda change: change.state == "claimed")
        assert (began.msg_id, began.channel) == (question, "#general")
        go_on.set()
        answer_ = await heard.next()
        await quiet(*bots)
        await settled(person)
        assert len(heard.events) == 1
        assert answer_.in_reply_to == question
        assert person.answering() == []
        assert await claims(hall) == 0
    assert [change.id for change in floor.events if change.state == "answered"] == [answer_.sender]
    assert listening.stdout is not None
    while b": here" not in await soon(listening.stdout.readline()):
        pass
    listening.terminate()
    output, errors = await soon(listening.communicate())
    assert b": here" not in output
    assert f"#general {answer_.sender_name} is answering" in errors.decode()


# -- claims that come to nothing -----------------------------------------------------------------------


@pytest.mark.parametrize("end", ["dies", "expires"])
async def test_another_agent_answers_when_the_first_cannot(tmp_path: Path, end: str) -> None:
    settings = {"MOOTHALL_FLOOR_TTL": "1" if end == "expires" else "45"}
    stuck, ready, asker = Agent("stuck"), Agent("ready"), Agent("asker")
    started = asyncio.Event()

    @stuck.on_message("#general", floor=FloorPolicy(0, 0))
    async def think(message: Message) -> None:
        started.set()
        await asyncio.Event().wait()

    @ready.on_message("#general", floor=FloorPolicy(0.3, 0.3))
    async def answer(message: Message) -> None:
        await message.reply("here")

    heard = listen(asker, "#general")
    floor: Heard[FloorChange] = Heard()
    asker.on_floor(floor)
    with running_hall(tmp_path, "--no-limits", environment=settings) as hall:
        async with meeting(hall.url, stuck, ready, asker):
            await asker.send("#general", "who knows?")
            await soon(started.wait())
            await floor.until(lambda change: change.state == "claimed")
            if end == "dies":  # in the other case the claim may have ended by now
                assert await claims(hall) == 1
                await stuck.close()
            assert (await heard.next()).sender == ready.address
            await quiet(ready)
            assert await claims(hall) == 0

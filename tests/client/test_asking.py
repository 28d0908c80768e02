"""`agent.ask`: a question, and its answer."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from moothall import (
    Agent,
    AgentNotFound,
    ChannelNotFound,
    ConnectionLost,
    InvalidMessage,
    Message,
    NoAnswer,
    PrivateKey,
    ReplyTimeout,
    SyncAgent,
    UsageError,
)
from moothall.client import asking
from moothall.client.question import GRANTED, Question
from tests.client.conftest import OpenHall
from tests.client.door import Door
from tests.client.meeting import AT_ONCE, PATIENCE, listen, settled, soon
from tests.client.reference import Reference
from tests.support.agentchat import AgentChat

BOB = PrivateKey(bytes(range(32)))


@pytest.fixture
async def reference() -> AsyncIterator[Reference]:
    async with Reference() as server:
        yield server


def answering(agent: Agent, *channels: str, floor: bool = False) -> Agent:
    @agent.on_message(*channels, dms=True, floor=AT_ONCE if floor else False)
    async def answer(message: Message) -> None:
        await message.reply(f"{agent.name} says: {message.content.upper()}")

    return agent


@pytest.mark.parametrize("target", ["#general", "general"])
@pytest.mark.parametrize("floor", [False, True])
async def test_a_channel_answers(url: str, target: str, floor: bool) -> None:
    async with (
        answering(Agent("bob"), "general", floor=floor).connected(url),
        Agent("ann").connected(url) as ann,
    ):
        answer = await ann.ask(target, "why?", timeout=PATIENCE)
        assert (answer.content, answer.channel, answer.sender_name) == ("bob says: WHY?", "#general", "bob")
        assert answer.in_reply_to is not None
        await answer.reply("thanks")  # it is a message like any other


@pytest.mark.parametrize("target", ["@{id}", "{id}", "@bob", "bob"])
@pytest.mark.parametrize("key", [BOB, None])
async def test_an_agent_answers(url: str, target: str, key: PrivateKey | None) -> None:
    bob = answering(Agent("bob", identity=key, channels="general"))
    async with bob.connected(url), Agent("ann").connected(url) as ann:
        answer = await ann.ask(target.format(id=bob.id), "why?", timeout=PATIENCE)
        assert (answer.content, answer.is_dm, answer.sender) == ("bob says: WHY?", True, bob.address)


async def test_an_agent_in_no_channel_is_found_too(url: str) -> None:
    async with answering(Agent("bob")).connected(url) as bob, Agent("ann").connected(url) as ann:
        for target in (bob.address, "@bob"):
            assert (await ann.ask(target, "why?", timeout=PATIENCE)).sender == bob.address
        with pytest.raises(AgentNotFound, match="by its id"):
            await ann.ask("@eve", "why?", timeout=PATIENCE)


async def test_the_floor_holder_need_not_say_that_it_replies(url: str) -> None:
    async with (
        Agent("ann", channels="general").connected(url) as ann,
        await AgentChat.connect(url, "bob") as bob,
        await AgentChat.connect(url, "eve") as eve,
    ):
        await bob.join("#general")
        await eve.join("#general")
        asked = asyncio.create_task(ann.ask("general", "why?", timeout=PATIENCE))
        question = await bob.expect("MSG", content="why?")
        await bob.send(
            type="RESPONDING_TO", msg_id=question["msg_id"], channel="#general", started_at=question["ts"]
        )
        await eve.expect("FLOOR_CLAIMED")
        await eve.send(type="MSG", to="#general", content="something else")
        await bob.expect("MSG", content="something else")
        await bob.send(type="MSG", to="#general", content="because")
        assert (await soon(asked)).content == "because"


async def test_an_agent_that_knows_neither_replies_nor_claims(
    reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "GUESS_AFTER", 0.05)
    bob = Agent("bob")

    @bob.on_message("general")
    async def answer(message: Message) -> None:
        if message.content == "why?":
            await bob.send("general", "because")

    async with bob.connected(reference.url), Agent("ann").connected(reference.url) as ann:
        assert (await ann.ask("general", "why?", timeout=PATIENCE)).content == "because"


async def test_an_agent_that_mentions_the_asker(reference: Reference) -> None:
    bob = Agent("bob")

    @bob.on_message("general")
    async def answer(message: Message) -> None:
        if message.content == "why?":
            await bob.send("general", "let me see")
            await bob.send("general", f"@{message.sender_name} because")

    async with bob.connected(reference.url), Agent("ann").connected(reference.url) as ann:
        assert (await ann.ask("general", "why?", timeout=PATIENCE)).content == "@ann because"


async def test_a_server_that_refuses_direct_messages(reference: Reference) -> None:
    async with Agent("bob").connected(reference.url), Agent("ann").connected(reference.url) as ann:
        with pytest.raises(InvalidMessage, match="disabled"):
            await ann.ask("@bob", "why?", timeout=PATIENCE)


async def test_two_questions_at_once_have_their_own_answers(url: str) -> None:
    async with answering(Agent("bob"), "general").connected(url), Agent("ann").connected(url) as ann:
        answers = await asyncio.gather(
            *(ann.ask("general", word, timeout=PATIENCE) for word in ("one", "two"))
        )
        assert [answer.content for answer in answers] == ["bob says: ONE", "bob says: TWO"]


# -- no answer -------------------------------------------------------------------------------------------


async def test_no_answer_is_an_error_of_its_own(url: str) -> None:
    async with Agent("bob", channels="general").connected(url), Agent("ann").connected(url) as ann:
        with pytest.raises(NoAnswer, match=r"no answer from #general within 0\.05 s") as silence:
            await ann.ask("general", "why?", timeout=0.05)
        assert isinstance(silence.value, ReplyTimeout)
        assert "on_message" not in ann._handlers.watches


def test_the_error_names_the_agents_that_claimed_the_question() -> None:
    question = Question("#general", ())
    question.sent("1-a")
    question.hear(GRANTED, {"msg_id": "1-a", "channel": "#general", "holder": "@bob"})
    assert asking._silence(question, 60).endswith(
        "within 60 s; @bob claimed the question and may still answer"
    )


async def test_what_cannot_be_asked(url: str) -> None:
    async with Agent("ann").connected(url) as ann:
        with pytest.raises(UsageError, match="answers no questions"):
            await ann.ask("@server", "why?")
        with pytest.raises(ChannelNotFound):
            await ann.ask("#nowhere", "why?")
        for nobody in ("nobody", "@nobody", "@1f3a9c02", "1f3a9c02"):
            with pytest.raises(AgentNotFound):
                await ann.ask(nobody, "why?")


async def test_a_name_that_several_have(url: str) -> None:
    one, two = (Agent("bob", channels="general") for _ in range(2))
    async with one.connected(url), two.connected(url), Agent("ann").connected(url) as ann:
        ids = ", ".join(sorted((one.address, two.address)))
        with pytest.raises(UsageError, match=f"2 agents are called bob: {ids}"):
            await ann.ask("@bob", "why?")


async def test_a_name_that_looks_like_the_id_of_a_key_is_not_asked(url: str) -> None:
    """Else an agent could take the id of another as its name, and get its questions while it is away."""
    thief = Agent(BOB.public.agent_id(), channels="general")
    heard = listen(thief)
    async with thief.connected(url), Agent("ann").connected(url) as ann:
        with pytest.raises(AgentNotFound):
            await ann.ask(f"@{BOB.public.agent_id()}", "secret")
        await settled(ann, thief)
        assert heard.events == []


async def test_the_connection_is_lost_meanwhile(open_hall: OpenHall) -> None:
    async with open_hall() as app, Door(app.port.address[1]) as door:
        bob, ann = Agent("bob"), Agent("ann", reconnect=False)
        heard = listen(bob, "general")
        async with bob.connected(app.url), ann.connected(door.url):
            asked = asyncio.create_task(ann.ask("general", "why?"))
            await heard.next()
            door.drop()
            with pytest.raises(ConnectionLost):
                await soon(asked)


async def test_a_question_that_is_cancelled_leaves_nothing_behind(url: str) -> None:
    bob = Agent("bob")
    heard = listen(bob, "general")
    async with bob.connected(url), Agent("ann").connected(url) as ann:
        asked = asyncio.create_task(ann.ask("general", "why?"))
        await heard.next()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert "on_message" not in ann._handlers.watches


# -- without await ---------------------------------------------------------------------------------------


async def test_a_sync_agent_asks(url: str) -> None:
    def ask() -> str:
        with SyncAgent("ann", url=url) as ann:
            answer = ann.ask("general", "why?", timeout=PATIENCE)
            answer.reply("thanks")
            return answer.content

    bob = answering(Agent("bob"), "general")
    heard = listen(bob, "general")
    async with bob.connected(url):
        assert await asyncio.to_thread(ask) == "bob says: WHY?"
        assert (await heard.until(lambda message: message.content == "thanks")).in_reply_to is not None


async def test_a_sync_agent_waits_for_events(url: str) -> None:
    ann = SyncAgent("ann", url=url)

    def wait() -> list[str]:
        with ann:
            ann.join("general")
            message = ann.wait_for("message", lambda message: message.content == "go", PATIENCE)
            message.reply("gone")  # without await
            return [message.content, ann.name]

    bob = Agent("bob")
    heard = listen(bob, "general")
    async with bob.connected(url):
        waiting = asyncio.create_task(asyncio.to_thread(wait))
        async with asyncio.timeout(PATIENCE):
            while not waiting.done():  # it cannot be seen from here when the wait has begun
                await bob.send("general", "go")
        assert await soon(waiting) == ["go", "ann"]
        assert (await heard.next()).content == "gone"

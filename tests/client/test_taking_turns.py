"""One question, many agents, one answer."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from moothall import Agent, FloorChange, FloorLost, FloorPolicy, FloorTaken, Message
from moothall.client.floor import AnswerHumans
from moothall.client.handlers import MAX_STARTS
from moothall.hall.voice import announce
from tests.client.conftest import OpenHall
from tests.client.meeting import AT_ONCE, Heard, claimed, listen, settled, soon

QUESTIONS = 4


class Thinker:
    """An agent that answers when all others know of its claim, and remembers how each of its answers ended."""

    def __init__(self, name: str, policy: FloorPolicy | bool) -> None:
        self.agent = Agent(name)
        self.others: list[Agent] = []
        self.started: list[str] = []
        self.cancelled: list[str] = []
        self.answered: list[str] = []

        @self.agent.on_message("#general", floor=policy)
        async def answer(message: Message) -> None:
            if not message.content.startswith("question"):
                return
            self.started.append(message.content)
            try:
                await self._think()
                await message.reply(f"answer to {message.content}")
            except asyncio.CancelledError:
                self.cancelled.append(message.content)
                raise
            self.answered.append(message.content)

    async def _think(self) -> None:
        """Until a claim that precedes ours, of an agent that has heard the same question, would have ended this."""
        await claimed(self.agent)
        await settled(*self.others)  # they have the question, and claim it if they want to
        await settled(*self.others)  # their claims are in the hall
        await settled(self.agent)  # and so are its decisions about them here

    async def idle(self) -> None:
        while self.agent._handlers._tasks:
            await soon(asyncio.wait(self.agent._handlers._tasks))


async def meet(url: str, thinkers: list[Thinker], *others: Agent) -> None:
    for thinker in thinkers:
        thinker.others = [each.agent for each in thinkers if each is not thinker]
    await asyncio.gather(
        *(agent.connect(url) for agent in (*(thinker.agent for thinker in thinkers), *others))
    )


async def part(thinkers: list[Thinker], *others: Agent) -> None:
    await asyncio.gather(*(agent.close() for agent in (*(thinker.agent for thinker in thinkers), *others)))


async def test_twenty_agents_give_one_answer_to_each_question(url: str) -> None:
    thinkers = [Thinker(f"agent-{number}", FloorPolicy(0.01, 0.1)) for number in range(20)]
    asker = Agent("asker")
    heard = listen(asker, "#general")
    await meet(url, thinkers, asker)
    for number in range(QUESTIONS):
        question = f"question {number}"
        asked = await asker.send("#general", question)
        assert (await heard.next()).in_reply_to == asked
        for thinker in thinkers:
            await thinker.idle()
        assert sum(question in thinker.answered for thinker in thinkers) == 1
        for thinker in thinkers:
            if question not in thinker.answered:
                assert question not in thinker.started or question in thinker.cancelled
    await settled(asker)
    answers = [message.content for message in heard.events]
    assert answers == [f"answer to question {number}" for number in range(QUESTIONS)]
    await part(thinkers, asker)


async def test_agents_that_all_start_at_once_are_sorted_out_by_the_hall(url: str) -> None:
    """Without any delay, claims collide; those that lose are cancelled while they think."""
    thinkers = [Thinker(f"agent-{number}", AT_ONCE) for number in range(8)]
    asker = Agent("asker")
    heard = listen(asker, "#general")
    await meet(url, thinkers, asker)
    await asker.send("#general", "question")
    await heard.next()
    for thinker in thinkers:
        await thinker.idle()
    await settled(asker)
    assert len(heard.events) == 1
    assert sum(len(thinker.answered) for thinker in thinkers) == 1
    started = sum(len(thinker.started) for thinker in thinkers)
    assert started == 1 + sum(len(thinker.cancelled) for thinker in thinkers)
    await part(thinkers, asker)


@pytest.mark.parametrize(("answer_humans", "expected"), [("all", 6), ("one", 1), (None, 1)])
async def test_one_agent_answers_a_human_unless_they_are_told_that_all_do(
    url: str, answer_humans: AnswerHumans | None, expected: int
) -> None:
    policy = FloorPolicy(0.05, 0.6)
    if answer_humans is not None:
        policy = replace(policy, answer_humans=answer_humans)
    thinkers = [Thinker(f"agent-{number}", policy) for number in range(6)]
    person = Agent("person", human=True)
    heard = listen(person, "#general")
    await meet(url, thinkers, person)
    await person.send("#general", "question")
    for _ in range(expected):
        await heard.next()
    for thinker in thinkers:
        await thinker.idle()
    await settled(person)
    assert len(heard.events) == expected
    await part(thinkers, person)


async def test_the_relayed_claims_alone_settle_who_answers_a_human(url: str) -> None:
    """The hall arbitrates no claims on a human's message; the agents agree by themselves."""
    policy = FloorPolicy(0, 0, answer_humans="one", settle=0.2)
    thinkers = [Thinker(f"agent-{number}", policy) for number in range(6)]
    person = Agent("person", human=True)
    heard = listen(person, "#general")
    yields: Heard[dict[str, Any]] = Heard()
    for thinker in thinkers:
        thinker.agent.on_event("YIELD")(yields)
    await meet(url, thinkers, person)
    question = await person.send("#general", "question")
    await heard.next()
    for thinker in thinkers:
        await thinker.idle()
    await settled(person)
    assert len(heard.events) == 1
    assert [frame for frame in yields.events if frame["msg_id"] == question] == []
    await part(thinkers, person)


async def test_a_mention_is_answered_at_once_and_by_nobody_else(url: str) -> None:
    never = FloorPolicy(3600, 3600)
    thinkers = [Thinker(f"agent-{number}", never) for number in range(3)]
    asker = Agent("asker")
    heard = listen(asker, "#general")
    await meet(url, thinkers, asker)
    await asker.send("#general", "question for @agent-1")
    assert (await heard.next()).sender_name == "agent-1"
    await settled(asker)
    assert [thinker.started for thinker in thinkers] == [[], ["question for @agent-1"], []]
    await part(thinkers, asker)


async def test_a_direct_message_is_answered_at_once(url: str) -> None:
    bot, asker = Agent("bot"), Agent("asker")
    heard = listen(asker, dms=True)

    @bot.on_message(dms=True, floor=FloorPolicy(3600, 3600))
    async def answer(message: Message) -> None:
        await message.reply("here")

    async with bot.connected(url), asker.connected(url):
        await asker.send(bot.address, "are you there?")
        assert (await heard.next()).content == "here"


async def test_the_range_of_the_environment_counts_for_floor_true(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCHAT_CSMA_MIN_MS", "0")
    monkeypatch.setenv("AGENTCHAT_CSMA_MAX_MS", "1")
    thinkers = [Thinker("bot", policy=True)]
    asker = Agent("asker")
    heard = listen(asker, "#general")
    await meet(url, thinkers, asker)
    await asker.send("#general", "question")
    assert (await heard.next()).content == "answer to question"
    await part(thinkers, asker)


async def test_a_handler_that_only_sometimes_answers(url: str) -> None:
    """`async with message.floor()` claims for the length of the block only."""
    outcomes: list[str] = []

    def make(name: str) -> Agent:
        agent = Agent(name)

        @agent.on_message("#general")
        async def sometimes(message: Message) -> None:
            if not message.content.startswith("question"):
                return
            try:
                async with message.floor(FloorPolicy(0.01, 0.5)):
                    await message.reply("answer")
                    outcomes.append("answered")
            except (FloorTaken, FloorLost):
                outcomes.append("silent")
                raise

        return agent

    agents = [make(f"agent-{number}") for number in range(5)]
    asker = Agent("asker")
    heard = listen(asker, "#general")
    await asyncio.gather(*(agent.connect(url) for agent in (*agents, asker)))
    await asker.send("#general", "question")
    await heard.next()
    for agent in agents:
        while agent._handlers._tasks:
            await soon(asyncio.wait(agent._handlers._tasks))
    assert sorted(outcomes) == ["answered"] + ["silent"] * 4
    await asker.send("#general", "no demand")
    await settled(*agents)
    assert len(outcomes) == 5
    await asyncio.gather(*(agent.close() for agent in (*agents, asker)))


async def test_a_partial_answer_is_not_sent(url: str) -> None:
    """The handler is cancelled in the middle of its thoughts; nothing of them reaches the channel."""
    thinking = asyncio.Event()
    cancelled = asyncio.Event()
    slow = Agent("slow")

    @slow.on_message("#general", floor=AT_ONCE)
    async def answer(message: Message) -> None:
        thinking.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            with pytest.raises(FloorLost):
                await message.reply("half a thought")
            raise

    asker, rival = Agent("asker"), Agent("rival", channels=["#general"])
    heard = listen(asker, "#general")
    async with slow.connected(url), asker.connected(url), rival.connected(url):
        question = await asker.send("#general", "question")
        assert question is not None
        await soon(thinking.wait())
        assert await rival.claim(question, "#general", 1.0)
        await soon(cancelled.wait())
        await rival.send("#general", "mine", in_reply_to=question)
        assert (await heard.next()).content == "mine"
        await settled(slow, asker)
        assert len(heard.events) == 1


async def test_turns_are_taken_with_the_limits_on(open_hall: OpenHall) -> None:
    async with open_hall(no_limits=False) as app:
        thinkers = [Thinker(f"agent-{number}", FloorPolicy(0.05, 0.4)) for number in range(5)]
        asker = Agent("asker")
        heard = listen(asker, "#general")
        await meet(app.url, thinkers, asker)
        for number in range(2):
            await asker.send("#general", f"question {number}")
        await heard.until(lambda message: message.content == "answer to question 1")
        for thinker in thinkers:
            await thinker.idle()
        await settled(asker)
        assert sorted(message.content for message in heard.events) == [
            "answer to question 0",
            "answer to question 1",
        ]
        await part(thinkers, asker)


@pytest.mark.parametrize("human", [False, True])
async def test_a_handler_that_does_not_reply_releases_the_floor(url: str, human: bool) -> None:
    """The one that claims first has nothing to say. The other gets its turn long before the claim would expire."""
    silent, ready, asker = Agent("silent"), Agent("ready"), Agent("asker", human=human)
    heard = listen(asker, "#general")
    floor: Heard[FloorChange] = Heard()
    asker.on_floor(floor)

    @silent.on_message("#general", floor=AT_ONCE)
    async def decline(message: Message) -> None:
        await claimed(silent)

    @ready.on_message("#general", floor=FloorPolicy(0.2, 0.2, settle=0))
    async def answer(message: Message) -> None:
        await message.reply("here")

    async with silent.connected(url), ready.connected(url), asker.connected(url):
        question = await asker.send("#general", "question")
        assert (await heard.next()).sender == ready.address
        changes = [await floor.next() for _ in range(4)]
    assert {change.msg_id for change in changes} == {question}
    assert [(change.name, change.state) for change in changes] == [
        ("silent", "claimed"),
        ("silent", "released"),
        ("ready", "claimed"),
        ("ready", "answered"),
    ]


async def test_a_handler_that_lost_the_floor_is_called_again_if_the_winner_does_not_answer(url: str) -> None:
    calls = 0
    started = asyncio.Event()
    bot, rival, asker = Agent("bot"), Agent("rival", channels=["#general"]), Agent("asker")
    heard = listen(asker, "#general")

    @bot.on_message("#general", floor=AT_ONCE)
    async def answer(message: Message) -> None:
        nonlocal calls
        calls += 1
        started.set()
        if calls == 1:
            await asyncio.Event().wait()
        await message.reply("after all")

    async with bot.connected(url), rival.connected(url), asker.connected(url):
        question = await asker.send("#general", "question")
        assert question is not None
        await soon(started.wait())
        assert await rival.claim(question, "#general", 1.0)
        await settled(bot)
        await rival.release(question, "#general")
        assert (await heard.next()).content == "after all"
    assert calls == 2


async def test_a_rival_cannot_make_a_handler_start_without_end(url: str) -> None:
    """Each start may cost a call of a model."""
    calls: asyncio.Queue[str] = asyncio.Queue()
    bot, rival, asker = Agent("bot"), Agent("rival", channels="general"), Agent("asker", channels="general")

    @bot.on_message("#general", floor=AT_ONCE)
    async def answer(message: Message) -> None:
        calls.put_nowait(message.content)
        await asyncio.Event().wait()

    async with bot.connected(url), rival.connected(url), asker.connected(url):
        question = await asker.send("#general", "question")
        assert question is not None
        for _ in range(MAX_STARTS):
            await soon(calls.get())
            assert await rival.claim(question, "#general", 1.0)
            await settled(bot)
            await rival.release(question, "#general")
        while bot._handlers._tasks:
            await soon(asyncio.wait(bot._handlers._tasks))
        assert calls.empty()


@pytest.mark.parametrize("how", ["reply", "send"])
async def test_what_a_handler_says_in_the_channel_is_its_answer(url: str, how: str) -> None:
    bot, asker = Agent("bot"), Agent("asker")
    heard = listen(asker, "#general")
    frames: Heard[dict[str, Any]] = Heard()
    asker.on_event("FLOOR_RELEASED")(frames)

    @bot.on_message("#general", floor=AT_ONCE)
    async def answer(message: Message) -> None:
        await claimed(bot)
        if how == "reply":
            await message.reply("here")
        else:
            await bot.send("#general", "here")

    async with bot.connected(url), asker.connected(url):
        question = await asker.send("#general", "question")
        assert (await heard.next()).in_reply_to == question
        while bot._handlers._tasks:
            await soon(asyncio.wait(bot._handlers._tasks))
        await settled(asker)
        assert frames.events == []
        assert asker.answering() == []


async def test_a_mention_addresses_an_agent_by_any_of_its_names(open_hall: OpenHall) -> None:
    async with open_hall() as app:
        thinkers = [Thinker(f"agent-{number}", FloorPolicy(0.05, 0.2)) for number in range(3)]
        asker = Agent("asker")
        heard = listen(asker, "#general")
        await meet(app.url, thinkers, asker)
        addressed = thinkers[1].agent
        await addressed.set_nick("helper")
        await settled(*(thinker.agent for thinker in thinkers))
        for name in ("agent-1", "helper", addressed.id):
            asked = await asker.send("#general", f"question for @{name}")
            reply = await heard.next()
            assert (reply.sender, reply.in_reply_to) == (addressed.address, asked)
            for thinker in thinkers:
                await thinker.idle()
        await asker.send("#general", "question for @stranger, who is not here")
        await heard.next()
        for thinker in thinkers:
            await thinker.idle()
        await settled(asker)
        assert len(heard.events) == 4
        await part(thinkers, asker)


async def test_lines_from_the_server_go_to_their_own_handler(open_hall: OpenHall) -> None:
    async with open_hall(service_lines=True) as app:
        bot, guest = Agent("bot"), Agent("guest", channels=["#general"])
        plain, wanted = listen(bot, "#general"), Heard[Message]()
        mentions, lines = Heard[Message](), Heard[Message]()
        bot.on_message("#general", server=True)(wanted)
        bot.on_message(mentions=True, server=True)(mentions)
        bot.on_server_message(lines)
        async with bot.connected(app.url):
            announce(app.hall, "#general", f"{bot.address} - What are you working on?")
            async with guest.connected(app.url):
                await guest.send("#general", "hello")
                await plain.next()
            await settled(bot)
        assert [message.sender_name for message in plain.events] == ["guest"]
        assert mentions.events == []
        assert {message.sender for message in lines.events} == {"@server"}
        assert {message.content for message in lines.events} >= {f"{bot.address} - What are you working on?"}
        assert [message.content for message in wanted.events if message.is_from_server] == [
            message.content for message in lines.events if message.to == "#general"
        ]
        assert not any(message.mentions(bot.id) for message in lines.events)


async def test_two_agents_that_answer_each_other_stop_after_so_many_rounds(url: str) -> None:
    """One of them begins, and each answers the other's answer."""
    agents = [Agent(name) for name in ("ann", "ben")]
    for agent in agents:

        @agent.on_message("#general", floor=replace(AT_ONCE, max_rounds=4))
        async def answer(message: Message) -> None:
            await message.reply(f"you said {message.content}")

    witness = Agent("witness", channels=["#general"])
    ann, ben = agents
    async with ann.connected(url), ben.connected(url), witness.connected(url):
        await ann.send("#general", "hello")
        while any(agent._handlers._tasks for agent in agents):
            for agent in agents:
                while agent._handlers._tasks:
                    await soon(asyncio.wait(agent._handlers._tasks))
            await settled(ann, ben)
        assert len(await witness.history("#general")) == 1 + 4
        await witness.send("#general", "go on")
        await soon(witness.wait_for("message"))


class Watchman:
    """The hall's log: says when an agent has lost its precedence."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()

    def info(self, event: str, **facts: object) -> None:
        pass

    def warning(self, event: str, **facts: object) -> None:
        if event == "floor_precedence_lost":
            self.lost.set()


@pytest.mark.parametrize("human", [False, True])
async def test_an_agent_that_claims_everything_and_answers_nothing_is_soon_ignored(
    open_hall: OpenHall, human: bool
) -> None:
    """Three bots wait, claim and answer as the docs say. `mute` claims first, since 1970."""
    policy = FloorPolicy(0.05, 0.3, answer_humans="one")
    async with open_hall(floor_ttl=1.0) as app:
        app.hall.log = watchman = Watchman()
        asker, mute = Agent("asker", human=human), Agent("mute")
        bots = [Agent(f"bot-{number}") for number in range(3)]
        heard = listen(asker, "#general")

        @mute.on_message("#general")
        async def claim(message: Message) -> None:
            assert message.id is not None
            await mute.claim(message.id, "#general", 0.001)

        for bot in bots:

            @bot.on_message("#general")
            async def answer(message: Message) -> None:
                if message.content.startswith("question"):
                    async with message.floor(policy):
                        await message.reply(f"answer to {message.content}")

        await meet(app.url, [], asker, mute, *bots)
        await asker.send("#general", "question 0")
        await soon(watchman.lost.wait())
        for number in range(1, 4):
            asked = await asker.send("#general", f"question {number}")
            reply = await heard.until(lambda message, asked=asked: message.in_reply_to == asked)  # type: ignore[misc]
            assert reply.content == f"answer to question {number}"
        await part([], asker, mute, *bots)

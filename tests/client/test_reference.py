"""An agent on a server that is not ours: one request at a time, told by type and content."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from moothall import (
    Agent,
    ChannelNotFound,
    FloorPolicy,
    InvalidMessage,
    Message,
    NotInvited,
    NotOffered,
    PrivateKey,
    ReplyTimeout,
)
from tests.client.meeting import QUICKLY, Heard, listen, settled, soon
from tests.client.reference import Reference

ALICE = PrivateKey(bytes(range(32)))


@pytest.fixture
async def reference() -> AsyncIterator[Reference]:
    async with Reference() as server:
        yield server


async def test_ids_are_taken_as_they_are(reference: Reference) -> None:
    async with Agent("alice", identity=ALICE).connected(reference.url) as agent:
        assert agent.id == ALICE.public.fingerprint
        assert not agent.verified
        assert agent.server == "agentchat"
        assert agent.rooms == frozenset()  # it is in all public channels, but nobody said so


async def test_messages_come_without_joining_and_own_ones_are_not_heard(reference: Reference) -> None:
    alice, bob = Agent("alice"), Agent("bob")
    at_alice: Heard[Message] = listen(alice)
    at_bob: Heard[Message] = listen(bob)
    from_server: Heard[Message] = Heard()
    alice.on_server_message(from_server)
    async with alice.connected(reference.url), bob.connected(reference.url):
        online = await from_server.until(lambda message: message.content == "bob came online")
        assert (online.sender, online.id, online.verified) == ("@server", None, False)
        msg_id = await alice.send("#general", "hello")
        message = await at_bob.until(lambda message: message.content == "hello")
        assert message.id == msg_id is not None
        await message.reply("hello yourself")
        answer = await at_alice.until(lambda message: message.content == "hello yourself")
        assert answer.in_reply_to == msg_id
        await settled(alice, bob)
    assert {message.sender for message in at_alice.events} == {bob.address}


async def test_all_agents_are_those_of_the_public_channels(reference: Reference) -> None:
    async with Agent("alice").connected(reference.url) as alice, Agent("bob").connected(reference.url) as bob:
        assert {member.id for member in await alice.agents()} == {alice.address, bob.address}
        with pytest.raises(InvalidMessage):
            await alice.agents([bob.id])


async def test_two_calls_at_once_get_their_own_answers(reference: Reference) -> None:
    async with Agent().connected(reference.url) as agent:
        await agent.create_channel("#mine")
        answers = await asyncio.gather(
            agent.members("#general"),
            agent.members("#nowhere"),
            agent.channels(),
            agent.send("#general", "hi"),
            agent.join("#missing"),
            agent.set_presence("away"),
            agent.invite("#mine", "@bob"),
            agent.join("#agents"),
            agent.send("@bob", "psst"),
            agent.ping(),
            return_exceptions=True,
        )
        general, nowhere, channels, sent, missing, presence, invited, agents, direct, pinged = answers
        assert isinstance(general, list)
        assert [member.name for member in general] == ["agent"]
        assert isinstance(nowhere, ChannelNotFound)
        assert "#nowhere" in str(nowhere)
        assert isinstance(channels, list)
        assert [channel.name for channel in channels] == ["#general", "#agents", "#mine"]
        assert isinstance(sent, str)
        assert isinstance(missing, ChannelNotFound)
        assert "#missing" in str(missing)
        assert presence is None
        assert isinstance(invited, InvalidMessage)
        assert isinstance(agents, list)
        assert isinstance(direct, InvalidMessage)
        assert "Direct" in str(direct)
        assert isinstance(pinged, float)


async def test_silent_commands_are_followed_by_a_ping(reference: Reference) -> None:
    async with Agent().connected(reference.url) as agent:
        before = len(reference.received)
        await agent.typing("#general")
        await agent.leave("#nowhere")
        await agent.set_presence("busy", "thinking")
        assert reference.types()[before:] == ["TYPING", "PING", "LEAVE", "PING", "SET_PRESENCE", "PING"]


async def test_no_field_is_null(reference: Reference) -> None:
    async with Agent().connected(reference.url) as agent:
        await agent.send("#general", "hi")
        await agent.set_presence("away")
    for frame in reference.received:
        assert None not in frame.values()


async def test_both_shapes_of_joined_are_understood(reference: Reference) -> None:
    async with Agent("alice").connected(reference.url) as agent:
        await agent.create_channel("#mine")
        assert agent.rooms == {"#mine"}
        assert [member.name for member in await agent.join("#mine")] == ["alice"]


async def test_history_comes_after_joined(reference: Reference) -> None:
    async with Agent("alice").connected(reference.url) as agent:
        for number in range(3):
            await agent.send("#agents", str(number))
        assert [message.content for message in await agent.history("#agents")] == ["0", "1", "2"]


async def test_leaving(reference: Reference) -> None:
    async with Agent().connected(reference.url) as agent:
        await agent.join("#general")
        await agent.leave("#general")
        assert agent.rooms == frozenset()
        with pytest.raises(NotInvited):
            await agent.send("#general", "still here?")


async def test_nick(reference: Reference) -> None:
    async with Agent("alice").connected(reference.url) as agent:
        await agent.set_nick("ally")
        assert agent.name == "ally"


async def test_a_peer_proves_its_key(reference: Reference) -> None:
    async with (
        Agent("alice", identity=ALICE).connected(reference.url) as alice,
        Agent("bob").connected(reference.url) as bob,
    ):
        assert await bob.verify(alice.address) == ALICE.public


async def test_an_answer_that_never_comes_does_not_spoil_the_next(reference: Reference) -> None:
    async with Agent().connected(reference.url) as agent:
        reference.dropped.add("LIST_CHANNELS")
        with pytest.raises(ReplyTimeout):
            await agent.channels(timeout=0.05)
        reference.dropped.clear()
        with pytest.raises(ChannelNotFound):
            await agent.members("#nowhere")
        assert len(await agent.channels()) == 2


async def test_claims_are_granted_in_silence_and_denied_with_a_yield(reference: Reference) -> None:
    async with Agent("alice").connected(reference.url) as alice, Agent("bob").connected(reference.url) as bob:
        assert await alice.claim("1-a", "#general", 100.0)
        assert not await bob.claim("1-a", "#general", 101.0)
        assert await alice.claim("1-a", "#general", 100.0)  # denied, in favour of alice herself


async def test_agents_take_turns_there_too(reference: Reference) -> None:
    policy = FloorPolicy(min_delay=0.01, max_delay=0.5, settle=0.1)
    agents = [Agent(f"agent-{number}") for number in range(5)]
    for agent in agents:

        @agent.on_message("#general", floor=policy)
        async def answer(message: Message) -> None:
            if message.content == "who is there?":
                await message.reply("me")

    asker = Agent("asker")
    heard = listen(asker, "#general")
    for agent in (*agents, asker):
        await agent.connect(reference.url)
    question = await asker.send("#general", "who is there?")
    answer_heard = await heard.until(lambda message: message.content == "me")
    assert answer_heard.in_reply_to == question
    for agent in agents:
        await soon(_idle(agent))
    await settled(asker)
    assert [message.content for message in heard.events].count("me") == 1
    for agent in (*agents, asker):
        await agent.close()


async def _idle(agent: Agent) -> None:
    while agent._handlers._tasks:
        await asyncio.wait(agent._handlers._tasks)


async def test_a_handler_that_returns_at_once_keeps_no_other_from_answering(reference: Reference) -> None:
    """There is no RELEASE there, so what a handler does not wait for must not be claimed."""
    topics = ("cats", "dogs", "birds", "fish")
    bots = [Agent(f"{topic}-bot") for topic in topics]
    for bot, topic in zip(bots, topics, strict=True):

        @bot.on_message("#general", floor=FloorPolicy(0.01, 0.1, settle=0))
        async def answer(message: Message, topic: str = topic) -> None:
            if topic not in message.content:
                return
            await message.reply(f"about {topic}")

    asker = Agent("asker")
    heard = listen(asker, "#general")
    await asyncio.gather(*(agent.connect(reference.url) for agent in (*bots, asker)))
    assert asker.features == frozenset()
    for topic in (*topics, "dogs", "fish"):
        asked = await asker.send("#general", f"tell me about {topic}")
        answer_ = await heard.next()
        assert (answer_.content, answer_.in_reply_to) == (f"about {topic}", asked)
    assert "RELEASE" not in reference.types()
    assert reference.types().count("RESPONDING_TO") == 6
    await asyncio.gather(*(agent.close() for agent in (*bots, asker)))


async def test_the_limit_on_frames_is_kept(reference: Reference, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server would close the connection; time is made to pass quickly here, for both."""
    waited: list[float] = []
    real_sleep = asyncio.sleep

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        if seconds > 1:
            for peer in reference.peers.values():
                peer.times.clear()
        await real_sleep(0)

    async with Agent().connected(reference.url) as agent:
        monkeypatch.setattr("moothall.client.connection.asyncio.sleep", sleep)
        for _ in range(100):
            await agent.ping()
        monkeypatch.undo()
    assert not reference.flooded
    assert max(waited) > 5


async def test_it_comes_back_and_says_what_it_missed(reference: Reference) -> None:
    alice = Agent("alice", identity=ALICE, channels=["#general"], backoff=QUICKLY)
    heard = listen(alice, "#general")
    gaps: Heard[object] = Heard()
    alice.on_gap(gaps)
    async with alice.connected(reference.url), Agent("bob").connected(reference.url) as bob:
        await bob.send("#general", "one")
        await heard.until(lambda message: message.content == "one")
        reference.peers[alice.address].socket.transport.abort()
        await gaps.next()
        assert alice.id == ALICE.public.fingerprint
        await bob.send("#general", "two")
        await heard.until(lambda message: message.content == "two")
    assert [message.content for message in heard.events].count("one") == 1


async def test_what_the_server_does_not_know_is_said_to_be_not_offered(reference: Reference) -> None:
    async with Agent("alice", identity=ALICE).connected(reference.url) as agent:
        with pytest.raises(NotOffered, match=r"^this server does not offer it: GET_LEADERBOARD$") as refused:
            await agent.leaderboard()
        assert refused.value.code == "INVALID_MSG"
        with pytest.raises(InvalidMessage, match="disabled") as refused_otherwise:
            await agent.send("@1f3a9c02", "hello")
        assert not isinstance(refused_otherwise.value, NotOffered)

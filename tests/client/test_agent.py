"""Every operation against a real hall: it does what it says, and refuses with the wire's code."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    Agent,
    AgentNotFound,
    ChannelExists,
    ChannelInfo,
    ChannelNotFound,
    Gap,
    Identity,
    InvalidMessage,
    KeyFileMissing,
    Message,
    NoPublicKey,
    NotAllowed,
    NotConnected,
    NotInvited,
    PrivateKey,
    RateLimited,
    Refusal,
    ReplyTimeout,
    SyncAgent,
    UsageError,
    VerificationFailed,
    WrongAdminKey,
)
from moothall.client.admin import operator
from moothall.client.events import (
    Arrival,
    Departure,
    NickChange,
    PresenceChange,
    Typing,
    Welcome,
)
from moothall.errors import AuthRequired, Banned, CaptchaFailed, InvalidName, Kicked
from moothall.settings import PROFILES
from moothall.settings.limits import Rate
from tests.client.conftest import OpenHall
from tests.client.meeting import QUICKLY, Heard, listen, settled, soon
from tests.client.reference import Reference
from tests.support.agentchat import AgentChat
from tests.support.server import running_hall

ALICE = PrivateKey(bytes(range(32)))
BOB = PrivateKey(bytes(range(1, 33)))


# -- who one is ------------------------------------------------------------------------------------------


async def test_without_a_key_the_hall_gives_an_id(url: str) -> None:
    async with Agent("bob").connected(url) as agent:
        assert len(agent.id) == 8
        assert agent.address == f"@{agent.id}"
        assert agent.name == "bob"
        assert agent.server == "moothall"
        assert not agent.verified
        assert agent.is_connected
        assert agent.identity is None
    assert not agent.is_connected


async def test_with_a_key_the_id_follows_from_it(url: str) -> None:
    async with Agent("alice", identity=ALICE).connected(url) as agent:
        assert agent.id == ALICE.public.agent_id()
        assert agent.verified


async def test_a_key_file_is_made_and_kept(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "echo.json"
    async with Agent("echo", identity=path, create=True).connected(url) as agent:
        first = agent.id
    assert f"made a new key: {path}" in caplog.messages
    caplog.clear()
    assert Agent(identity=path, create=True).name == "echo"
    assert caplog.messages == []
    assert path.stat().st_mode & 0o777 == 0o600
    async with Agent(identity=str(path)).connected(url) as agent:
        assert agent.id == first
        assert agent.name == "echo"
    assert Agent("other", identity=path).name == "other"
    assert Agent(identity=Identity(ALICE, name="named")).name == "named"
    assert Agent().name == "agent"


def test_a_missing_key_file_is_not_made_unasked(tmp_path: Path) -> None:
    for kind in (Agent, SyncAgent):
        with pytest.raises(KeyFileMissing, match=r"moothall identity new .*create=True"):
            kind("echo", identity=tmp_path / "ehco.json")
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_no_hall_takes_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="letters"):
        Agent("not a name")


async def test_secrets_are_in_no_repr(url: str) -> None:
    secret = ALICE.to_pem().splitlines()[1]
    async with Agent("alice", identity=ALICE).connected(url) as agent:
        assert "alice" in repr(agent)
        for shown in (repr(agent), repr(agent.identity), repr(vars(agent)), repr(agent.admin("hunter2"))):
            assert secret not in shown
            assert "hunter2" not in shown


async def test_the_message_of_the_day(open_hall: OpenHall) -> None:
    async with open_hall(motd="be kind", admin_key="k") as app, Agent().connected(app.url) as agent:
        assert agent.motd == "be kind"
        await agent.admin("k").set_motd("be brief")
        assert agent.motd == "be brief"
        await agent.admin("k").set_motd(None)
        assert agent.motd is None


async def test_before_connecting_everything_says_so() -> None:
    agent = Agent()
    with pytest.raises(NotConnected):
        _ = agent.id
    with pytest.raises(NotConnected):
        await agent.send("#general", "hello")
    with pytest.raises(NotConnected):
        await agent.wait_closed()
    with pytest.raises(NotConnected):
        await anext(agent.messages())
    await agent.close()


async def test_connecting_twice_is_a_mistake(url: str) -> None:
    async with Agent().connected(url) as agent:
        with pytest.raises(RuntimeError, match="already"):
            await agent.connect(url)


async def test_an_agent_can_come_again(url: str) -> None:
    agent = Agent("alice", url=url)
    async with agent:
        await agent.join("#general")
    with pytest.raises(NotConnected):
        await agent.send("#general", "into the void")
    async with agent:
        assert agent.rooms == {"#general"}
        assert await agent.send("#general", "again")


def test_an_agent_can_come_again_on_another_event_loop(tmp_path: Path) -> None:
    agent = Agent("alice", channels=["#general"])

    async def visit(url: str) -> None:
        async with agent.connected(url):
            await asyncio.gather(*(agent.send("#general", str(number)) for number in range(3)))
            await asyncio.gather(agent.history("#general"), agent.history("#general"))

    with running_hall(tmp_path, "--no-limits") as hall:
        asyncio.run(visit(hall.url))
        asyncio.run(visit(hall.url))


async def test_the_address_comes_from_the_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTCHAT_URL", url)
    async with Agent() as agent:
        assert agent.is_connected
    monkeypatch.setenv("AGENTCHAT_URL", "ws://127.0.0.1:1")
    monkeypatch.setenv("MOOTHALL_URL", url)
    async with Agent() as agent:
        assert agent.is_connected


# -- talking ---------------------------------------------------------------------------------------------


async def test_a_message_reaches_the_channel(url: str) -> None:
    alice = Agent("alice", identity=ALICE, channels=["#general"])
    bob = Agent("bob", human=True)
    heard = listen(bob, "#general")
    own = listen(alice)
    async with alice.connected(url), bob.connected(url):
        msg_id = await alice.send("#general", "hello @bob", in_reply_to="1-x")
        message = await heard.next()
        assert message.id == msg_id
        assert (message.sender, message.sender_name) == (alice.address, "alice")
        assert (message.to, message.channel, message.content) == ("#general", "#general", "hello @bob")
        assert message.in_reply_to == "1-x"
        assert message.verified
        assert not any((message.is_dm, message.is_human, message.is_replay))
        assert message.mentions("bob")
        assert message.mentions("@bob")
        assert not message.mentions("bo")
        assert message.ts.tzinfo is not None
        assert message.raw["msg_id"] == msg_id

        await message.reply("hello yourself")
        answer = await own.next()
        assert answer.in_reply_to == msg_id
        assert answer.is_human
        assert not answer.verified
    assert [message.content for message in own.events] == ["hello yourself"]


async def test_a_direct_message_is_answered_to_its_sender(url: str) -> None:
    alice, bob = Agent("alice"), Agent("bob")
    at_bob, at_alice = listen(bob, dms=True), listen(alice, dms=True)
    async with alice.connected(url), bob.connected(url):
        assert await alice.send(bob.address, "psst")
        message = await at_bob.next()
        assert message.is_dm
        assert message.channel is None
        await message.reply("yes?")
        assert (await at_alice.next()).content == "yes?"


@pytest.mark.parametrize("letter", ["x", "\u6f22", "\x01"])
async def test_a_long_message_arrives_where_the_hall_takes_it(open_hall: OpenHall, letter: str) -> None:
    sizes = {name: PROFILES["agentchat-0.36"][name] for name in ("max_content", "max_frame", "outbox_limit")}
    content = letter * sizes["max_content"]
    alice, bob = Agent("alice"), Agent("bob")
    at_bob = listen(bob, dms=True)
    async with open_hall(**sizes) as app, alice.connected(app.url), bob.connected(app.url):
        await alice.send(bob.address, content)
        assert (await at_bob.next()).content == content
        with pytest.raises(InvalidMessage, match="2097152"):
            await alice.send(bob.address, content + "!")


async def test_what_is_not_text_is_named(url: str) -> None:
    answer: Any = 42
    async with Agent(channels="general").connected(url) as agent:
        with pytest.raises(TypeError, match="a message is text, not int"):
            await agent.send("general", answer)


async def test_refusals_carry_the_code(url: str) -> None:
    async with Agent().connected(url) as agent:
        with pytest.raises(ChannelNotFound) as refused:
            await agent.send("#general", "I am not in there")
        assert refused.value.code == "CHANNEL_NOT_FOUND"
        with pytest.raises(AgentNotFound):
            await agent.send("@nobody", "hello")
        for too_long in ("x" * 5000, "\u00e9" * 500_000):  # the second has more than a frame can hold
            with pytest.raises(InvalidMessage, match="4096"):
                await agent.send("#general", too_long)
        with pytest.raises(ChannelNotFound):
            await agent.join("#nowhere")
        with pytest.raises(ChannelNotFound):
            await agent.members("#nowhere")
        with pytest.raises(InvalidName):
            await agent.set_nick("admin")
        with pytest.raises(ChannelExists):
            await agent.create_channel("#general")
        with pytest.raises(Refusal):
            await agent.typing("no channel")


async def test_a_hundred_calls_at_once_get_their_own_answers(url: str) -> None:
    async with Agent().connected(url) as agent:
        for number in range(10):
            await agent.create_channel(f"#room-{number}")

        async def ask(number: int) -> int | None:
            try:
                members = await agent.members(f"#room-{number}")
            except ChannelNotFound as refused:
                return -int(str(refused).rpartition("-")[2].split()[0].strip(".;"))
            return len(members) + number - 1

        answers = await asyncio.gather(*(ask(number % 20) for number in range(100)))
        assert answers == [number % 20 if number % 20 < 10 else -(number % 20) for number in range(100)]


async def test_sends_keep_their_order_through_a_rate_limit(open_hall: OpenHall) -> None:
    async with open_hall(no_limits=False, rate_message=Rate(1, 0.2)) as app:
        alice, bob = Agent("alice", channels=["#general"]), Agent("bob")
        heard = listen(bob, "#general")
        async with alice.connected(app.url), bob.connected(app.url):
            await asyncio.gather(*(alice.send("#general", str(number)) for number in range(3)))
            assert [(await heard.next()).content for _ in range(3)] == ["0", "1", "2"]


async def test_a_limit_that_leaves_no_room_in_time_is_an_error(open_hall: OpenHall) -> None:
    async with (
        open_hall(no_limits=False, rate_message=Rate(1, 60)) as app,
        Agent(channels=["#general"]).connected(app.url) as agent,
    ):
        await agent.send("#general", "one")
        with pytest.raises(RateLimited):
            await agent.send("#general", "two", timeout=0.5)


async def test_chunks_are_passed_on(url: str) -> None:
    alice, bob = Agent("alice"), Agent("bob")
    chunks: Heard[dict[str, object]] = Heard()
    bob.on_event("FILE_CHUNK")(chunks)
    async with alice.connected(url), bob.connected(url):
        await alice.send_chunk(bob.id, "piece")
        chunk = await chunks.next()
        assert (chunk["from"], chunk["content"]) == (alice.address, "piece")


async def test_a_hall_that_behaves_like_the_reference_but_echoes_ref(open_hall: OpenHall) -> None:
    """Own messages come back, members are in every channel unasked, JOINED comes first."""
    async with open_hall(**PROFILES["agentchat-0.36"]) as app:
        alice, bob = Agent("alice", identity=ALICE), Agent("bob")
        at_alice, at_bob = listen(alice), listen(bob)
        async with alice.connected(app.url), bob.connected(app.url):
            assert alice.id == ALICE.public.fingerprint
            msg_id = await alice.send("#general", "hello")
            message = await at_bob.until(lambda message: message.content == "hello")
            assert message.id == msg_id
            await message.reply("hello yourself")
            await at_alice.until(lambda message: message.content == "hello yourself")
            await bob.create_channel("#mine")
            assert [member.name for member in await alice.join("#mine")] == ["bob", "alice"]
            assert "hello" in [line.content for line in await bob.history("#general")]
            await settled(alice)
        assert alice.address not in {message.sender for message in at_alice.events}


# -- channels --------------------------------------------------------------------------------------------


async def test_joining_shows_who_is_there(url: str) -> None:
    alice, bob = Agent("alice", identity=ALICE), Agent("bob", human=True)
    arrivals: Heard[Arrival] = Heard()
    departures: Heard[Departure] = Heard()
    alice.on_join(arrivals)
    alice.on_leave(departures)
    async with alice.connected(url), bob.connected(url):
        assert [member.name for member in await alice.join("#general")] == ["alice"]
        there = {member.name: member for member in await bob.join("#general")}
        assert there["alice"].verified
        assert there["bob"].is_human
        arrival = await arrivals.next()
        assert (arrival.channel, arrival.member.id, arrival.member.is_human) == (
            "#general",
            bob.address,
            True,
        )
        await bob.set_presence("away", "lunch")
        listed = {member.id: member for member in await alice.members("#general")}
        assert (listed[bob.address].presence, listed[bob.address].status_text) == ("away", "lunch")
        await bob.leave("#general")
        assert await departures.next() == Departure("#general", bob.address, "bob")
        assert bob.rooms == frozenset()
        await bob.leave("#nowhere")


async def test_the_list_of_channels(url: str) -> None:
    async with Agent(channels=["#general"]).connected(url) as agent:
        assert ChannelInfo("#general", 1) in await agent.channels()


async def test_a_private_channel_is_entered_by_invitation(url: str) -> None:
    async with Agent("alice").connected(url) as alice, Agent("bob").connected(url) as bob:
        await alice.create_channel("#secret", invite_only=True)
        assert alice.rooms == {"#secret"}
        with pytest.raises(NotInvited):
            await bob.join("#secret")
        invitations = bob.messages(dms=True)
        await alice.invite("#secret", bob.id)
        assert "#secret" in (await soon(anext(invitations))).content
        assert len(await bob.join("#secret")) == 2
        with pytest.raises(NotInvited):
            async with Agent().connected(url) as eve:
                await eve.invite("#secret", eve.id)


async def test_a_channel_for_verified_agents(url: str) -> None:
    async with Agent("alice", identity=ALICE).connected(url) as alice, Agent("bob").connected(url) as bob:
        await alice.create_channel("#vetted", verified_only=True)
        with pytest.raises(AuthRequired):
            await bob.join("#vetted")


@pytest.mark.parametrize("profile_order", [True, False], ids=["history first", "JOINED first"])
async def test_history(open_hall: OpenHall, profile_order: bool) -> None:
    async with open_hall(replay_first=profile_order) as app, Agent("alice").connected(app.url) as alice:
        await alice.join("#general")
        for number in range(3):
            await alice.send("#general", str(number))
        async with Agent("bob").connected(app.url) as bob:
            replayed = await bob.history("#general")
            assert [message.content for message in replayed] == ["0", "1", "2"]
            assert all(message.is_replay for message in replayed)
            assert bob.rooms == {"#general"}
            assert len(await bob.history("#general")) == 3


async def test_history_goes_to_who_asked_for_it_and_not_to_handlers_again(url: str) -> None:
    async with Agent("alice", channels=["#general"]).connected(url) as alice:
        await alice.send("#general", "before")
        bob = Agent("bob")
        heard = listen(bob, "#general", replay=True)
        async with bob.connected(url):
            assert (await heard.next()).content == "before"
            await bob.history("#general")
            await bob.join("#general")
            await alice.send("#general", "after")
            await heard.until(lambda message: message.content == "after")
        assert [message.content for message in heard.events] == ["before", "after"]


async def test_replayed_messages_reach_only_who_wants_them(url: str) -> None:
    async with Agent("alice", channels=["#general"]).connected(url) as alice:
        await alice.send("#general", "before")
        bob = Agent("bob")
        without, with_replay = listen(bob, "#general"), listen(bob, "#general", replay=True)
        async with bob.connected(url):
            assert (await with_replay.next()).is_replay
            await alice.send("#general", "after")
            assert (await without.next()).content == "after"


async def test_a_channel_that_is_not_there_stops_the_start(url: str) -> None:
    with pytest.raises(ChannelNotFound):
        await Agent(channels=["#nowhere"]).connect(url)


async def test_handlers_added_later_join_too(url: str) -> None:
    async with Agent("alice", channels=["#general"]).connected(url) as alice, Agent().connected(url) as bob:
        arrivals: Heard[Arrival] = Heard()
        alice.on_join(arrivals)
        heard = listen(bob, "#general")
        await arrivals.next()
        await alice.send("#general", "welcome")
        assert (await heard.next()).content == "welcome"


# -- oneself and others ----------------------------------------------------------------------------------


async def test_nick_presence_and_typing_are_seen(url: str) -> None:
    alice, bob = (
        Agent("alice", channels=["#general", "#agents"]),
        Agent("bob", channels=["#general", "#agents"]),
    )
    nicks: Heard[NickChange] = Heard()
    presences: Heard[PresenceChange] = Heard()
    typings: Heard[Typing] = Heard()
    bob.on_nick(nicks)
    bob.on_presence(presences)
    bob.on_typing(typings)
    async with alice.connected(url), bob.connected(url):
        await alice.set_nick("ally")
        assert alice.name == "ally"
        await alice.set_presence("busy")
        await alice.typing("#general")
        assert await nicks.next() == NickChange(alice.address, "alice", "ally")
        assert await presences.next() == PresenceChange(alice.address, "ally", "busy", None)
        assert await typings.next() == Typing("#general", alice.address, "ally")
        await settled(bob)
        assert len(nicks.events) == 1  # although they share two channels


async def test_ping_tells_the_distance(url: str) -> None:
    async with Agent().connected(url) as agent:
        assert 0 <= await agent.ping() < 5


async def test_claims(url: str) -> None:
    async with (
        Agent("alice", channels=["#general"]).connected(url) as alice,
        Agent("bob", channels=["#general"]).connected(url) as bob,
    ):
        assert await alice.claim("1-a", "#general", 100.0)
        assert not await bob.claim("1-a", "#general", 101.0)
        assert await bob.claim("1-b", "#general")
        assert await alice.claim("1-a", "#general", 100.0)  # saying it twice is no reason to yield


async def test_every_frame_can_be_watched(url: str) -> None:
    agent = Agent(channels=["#general"])
    everything: Heard[dict[str, object]] = Heard()
    agent.on_event("*")(everything)
    async with agent.connected(url):
        assert (await everything.next())["type"] == "JOINED"
        await agent.ping()
        assert (await everything.next())["type"] == "PONG"


# -- verification ----------------------------------------------------------------------------------------


async def test_a_peer_proves_its_key(url: str) -> None:
    async with (
        Agent("alice", identity=ALICE).connected(url) as alice,
        Agent("bob", identity=BOB).connected(url) as bob,
        Agent("eve").connected(url) as eve,
    ):
        assert await alice.verify(bob.address) == BOB.public
        assert await bob.verify(alice.id) == ALICE.public
        assert await eve.verify(bob.id) == BOB.public
        with pytest.raises(NoPublicKey):
            await alice.verify(eve.id)
        with pytest.raises(AgentNotFound):
            await alice.verify("@nobody")
        both = await asyncio.gather(*(eve.verify(agent.id) for agent in (alice, bob, alice, bob)))
        assert both == [ALICE.public, BOB.public] * 2


@pytest.mark.parametrize(
    "nonce",
    [
        "COMPLETE|prop_1|done",
        "x" * 32,
        "0123456789abcdef",
        "0123456789ABCDEF" * 2,
        "0123456789abcdef" * 2 + "\n",
        " " * 32,
        "20" + "0123456789abcdef" * 3,  # the signing bytes of a keep packet
    ],
)
async def test_only_32_hex_digits_are_signed(url: str, nonce: str, caplog: pytest.LogCaptureFixture) -> None:
    alice = Agent("alice", identity=ALICE)
    asked: Heard[dict[str, object]] = Heard()
    alice.on_event("VERIFY_REQUEST")(asked)
    async with alice.connected(url), await AgentChat.connect(url, "eve") as eve:
        await eve.send(type="VERIFY_REQUEST", target=alice.address, nonce=nonce)
        await asked.next()
        await settled(alice)
        await eve.settle()
        assert eve.pending("VERIFY_SUCCESS") == []
        assert "32 lower-case hex digits" in caplog.text
        assert (await eve.verify(alice.address, "0123456789abcdef" * 2))["type"] == "VERIFY_SUCCESS"


async def test_who_does_not_answer_in_time_is_not_verified(open_hall: OpenHall) -> None:
    async with (
        open_hall(peer_timeout=0.05) as app,
        Agent().connected(app.url) as alice,
        await AgentChat.connect(app.url, "bob", BOB) as bob,
    ):
        bob.key = None  # it keeps silent from here on
        with pytest.raises(VerificationFailed, match="timed out"):
            await alice.verify(bob.agent_id)


# -- coming in -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("difficulty", ["easy", "medium", "hard"])
async def test_the_questions_of_a_hall_are_answered(open_hall: OpenHall, difficulty: str) -> None:
    async with open_hall(captcha=True, captcha_difficulty=difficulty) as app:
        for key in (None, ALICE):
            async with Agent(identity=key).connected(app.url) as agent:
                assert agent.is_connected


async def test_the_allow_list(open_hall: OpenHall) -> None:
    async with open_hall(allowlist=True, admin_key="k") as app:
        with pytest.raises(NotAllowed):
            await Agent("alice", identity=ALICE).connect(app.url)


async def test_the_operators_work(open_hall: OpenHall) -> None:
    async with (
        open_hall(admin_key="k", allowlist=True, allowlist_strict=False) as app,
        Agent("op", identity=BOB).connected(app.url) as op,
    ):
        admin = op.admin("k")
        assert await admin.approve(ALICE.public, "friend") == f"@{ALICE.public.agent_id()}"
        [entry] = await admin.list_approved()
        assert (entry.agent_id, entry.note) == (f"@{ALICE.public.agent_id()}", "friend")
        await admin.revoke(ALICE.public)
        await admin.approve(ALICE.public.pem)
        await admin.revoke(f"@{ALICE.public.agent_id()}")
        assert await admin.list_approved() == []

        alice = Agent("alice", identity=ALICE, backoff=QUICKLY)
        await alice.connect(app.url)
        await admin.set_verified(alice.id, False)
        await settled(alice)
        assert not alice.verified
        await admin.kick(alice.id, "too loud")
        with pytest.raises(Kicked, match="too loud"):
            await soon(alice.wait_closed())

        await alice.connect(app.url)
        await admin.ban(alice.id, "far too loud")
        with pytest.raises(Banned, match="far too loud"):
            await soon(alice.wait_closed())
        with pytest.raises(Banned):
            await alice.connect(app.url)
        bans = await admin.bans()
        assert (bans.total, bans.newest[0].agent_id, bans.newest[0].reason) == (
            1,
            alice.address,
            "far too loud",
        )
        assert bans.newest[0].key == ALICE.public.pem
        await admin.unban(alice.id)
        assert (await admin.bans()).newest == []
        async with alice.connected(app.url):
            assert alice.is_connected
        with pytest.raises(WrongAdminKey) as refused:
            await op.admin("wrong").kick(alice.id)
        assert isinstance(refused.value, AuthRequired)


async def test_the_operator_need_not_join(open_hall: OpenHall) -> None:
    async with open_hall(admin_key="k", allowlist=True) as app:
        with pytest.raises(NotAllowed):  # without a key, and with one that is not approved
            await Agent("op").connect(app.url)
        async with operator(app.url, "k", timeout=10) as admin:
            await admin.approve(ALICE.public)
            await admin.approve(BOB.public)
            assert len(await admin.list_approved()) == 2
            with pytest.raises(AgentNotFound):
                await admin.kick(ALICE.public.agent_id())
        async with Agent(identity=ALICE).connected(app.url), operator(app.url, "no", timeout=10) as stranger:
            with pytest.raises(WrongAdminKey):
                await stranger.kick(ALICE.public.agent_id())


async def test_an_operator_of_a_server_that_lists_no_bans() -> None:
    """An operator has no WELCOME, so what the server offers is not known: its own words are told."""
    async with Reference() as server, operator(server.url, "k", timeout=10) as admin:
        with pytest.raises(InvalidMessage, match="Unknown message type: ADMIN_BANS"):
            await admin.bans()


async def test_an_unknown_question_goes_to_the_callback(
    monkeypatch: pytest.MonkeyPatch, open_hall: OpenHall
) -> None:
    monkeypatch.setattr("moothall.client.connection.solve", lambda question: None)
    questions: list[str] = []

    async def ask_somebody(question: str) -> str:
        questions.append(question)
        return "wrong"

    async with open_hall(captcha=True) as app:
        with pytest.raises(CaptchaFailed, match="on_captcha"):
            await Agent().connect(app.url)
        with pytest.raises(CaptchaFailed, match="Wrong"):
            await Agent(on_captcha=ask_somebody).connect(app.url)
    assert len(questions) == 1


# -- iterators -------------------------------------------------------------------------------------------


async def test_messages_one_after_the_other(url: str) -> None:
    async with (
        Agent("alice", channels=["#general"]).connected(url) as alice,
        Agent("bob").connected(url) as bob,
    ):
        messages = bob.messages("#general")
        first = asyncio.ensure_future(anext(messages))
        while len(await alice.members("#general")) < 2:
            pass
        for number in range(3):
            await alice.send("#general", str(number))
        assert (await soon(first)).content == "0"
        assert [(await soon(anext(messages))).content for _ in range(2)] == ["1", "2"]
        await bob.close()
        with pytest.raises(StopAsyncIteration):
            await soon(anext(messages))


async def test_an_iterator_that_nobody_reads_any_more_is_forgotten(url: str) -> None:
    async with Agent().connected(url) as agent:
        messages = agent.messages()
        assert len(agent._dispatch._inboxes) == 1
        del messages
        assert len(agent._dispatch._inboxes) == 0


async def test_too_slow_a_reader_is_told_what_it_lost(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moothall.client.inbox.Inbox.__init__.__defaults__", (2, 1_000_000))
    alice, bob = Agent("alice", channels=["#general"]), Agent("bob", channels=["#general"])
    gaps: Heard[Gap] = Heard()
    bob.on_gap(gaps)
    async with alice.connected(url), bob.connected(url):
        messages = bob.messages("#general")
        for number in range(5):
            await alice.send("#general", str(number))
        lost: list[Message] = []
        while len(lost) < 3:
            gap = await gaps.next()
            assert gap.reason == "slow consumer"
            assert gap.complete
            lost += gap.channels["#general"].missed
        assert [message.content for message in lost] == ["0", "1", "2"]
        assert [(await soon(anext(messages))).content for _ in range(2)] == ["3", "4"]


# -- time ------------------------------------------------------------------------------------------------


async def test_the_welcome_is_announced(url: str) -> None:
    agent = Agent("alice")
    welcomes: Heard[Welcome] = Heard()
    agent.on_connect(welcomes)
    async with agent.connected(url):
        welcome = await welcomes.next()
        assert welcome == Welcome(
            agent.address,
            "alice",
            "moothall",
            verified=False,
            motd=None,
            lurking=False,
            features=agent.features,
            max_content=4096,
        )
        assert "release" in agent.features


async def test_silence_is_an_error_in_time(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Agent().connected(url) as agent:
        monkeypatch.setattr("moothall.client.requests.ByRef.offer", lambda self, incoming: None)
        with pytest.raises(ReplyTimeout, match="PING"):
            await agent.ping(timeout=0.05)
        with pytest.raises(TimeoutError):
            await agent.send("#general", "x", timeout=0.05)

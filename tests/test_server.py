"""A real hall over loopback, with the seeds' behaviour: connecting, talking, and what operators can ask."""

import json
import re
from collections.abc import Iterator
from itertools import count
from os import urandom
from time import time

import pytest
from websockets.exceptions import InvalidStatus

from moothall.identity import PrivateKey
from tests.identity.vectors import ALICE, BOB
from tests.support.agentchat import AgentChat, Refused
from tests.support.server import ADMIN_KEY, HallProcess, running_hall

_rooms = count(1)


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    """One hall for all: every test has keys and a channel of its own, and says as much as it likes."""
    folder = tmp_path_factory.mktemp("hall")
    environment = {"MOOTHALL_ADMIN_KEY": ADMIN_KEY}
    with running_hall(folder, "--set", "rate_message=0", environment=environment) as running:
        yield running


@pytest.fixture(scope="module")
def strict_hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    """All rate limits of the seeds, very little patience, and two connections per address."""
    settings = {
        "challenge_timeout": "0.2",
        "identify_timeout": "0.4",
        "max_connections_per_ip": "2",
        "trusted_proxies": "127.0.0.1",
    }
    flags = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    with running_hall(tmp_path_factory.mktemp("strict"), *flags) as running:
        yield running


@pytest.fixture
def room() -> str:
    return f"#room-{next(_rooms)}"


def new_key() -> PrivateKey:
    return PrivateKey(urandom(32))


async def join_room(room: str, *agents: AgentChat) -> None:
    first, *others = agents
    await first.create_channel(room)
    for agent in others:
        await agent.join(room)


# -- connecting (seed 000, connect) --------------------------------------------------------------------


async def test_an_agent_without_a_key_is_welcomed_under_a_random_id(hall: HallProcess) -> None:
    async with await AgentChat.connect(hall.url, "alice") as alice:
        assert re.fullmatch(r"@[a-z0-9]{8}", alice.agent_id)
        assert alice.welcome["name"] == "alice"
        assert alice.welcome["server"] == "moothall"
        assert alice.welcome["disclaimer"]
        assert abs(alice.welcome["ts"] - time() * 1000) < 60_000
        assert not {"verified", "lurk", "motd"} & alice.welcome.keys()
        assert alice.types() == ["WELCOME"]


async def test_an_agent_with_a_key_proves_it_and_gets_the_id_of_its_key(hall: HallProcess) -> None:
    async with await AgentChat.connect(hall.url, "alice", ALICE) as alice:
        challenge, welcome = alice.received
        assert re.fullmatch(r"chal_[0-9a-z]+_[0-9a-f]{8}", challenge["challenge_id"])
        assert re.fullmatch(r"[0-9a-f]{32}", challenge["nonce"])
        assert challenge["expires_at"] == challenge["ts"] + 30_000
        assert welcome["agent_id"] == "@b8de75d1"
        assert welcome["verified"] is True


async def test_there_is_no_agent_before_the_proof(hall: HallProcess) -> None:
    key = new_key()
    address = f"@{key.public.agent_id()}"
    async with (
        await AgentChat.open(hall.url, "late", key) as late,
        await AgentChat.connect(hall.url) as witness,
    ):
        await late.send(type="IDENTIFY", name="late", pubkey=key.public.pem)
        challenge = await late.answer("CHALLENGE")
        await witness.say(address, "are you there?")
        assert (await witness.refusal())["code"] == "AGENT_NOT_FOUND"
        await late.prove(key, challenge)
        assert (await late.answer("WELCOME"))["agent_id"] == address
        await witness.say(address, "and now?")
        assert (await late.expect("MSG"))["content"] == "and now?"


async def test_a_failed_proof_leaves_the_connection_open_for_another_try(hall: HallProcess) -> None:
    key = new_key()
    async with await AgentChat.open(hall.url, "alice", key) as alice:
        await alice.send(type="IDENTIFY", name="alice", pubkey=key.public.pem)
        await alice.prove(BOB, await alice.answer("CHALLENGE"))
        assert (await alice.refusal())["code"] == "VERIFICATION_FAILED"
        await alice.send(type="JOIN", channel="#general")
        assert (await alice.refusal())["code"] == "AUTH_REQUIRED"
        await alice.identify()
        assert alice.welcome["verified"] is True


async def test_a_proof_with_a_clock_that_is_off_is_refused(hall: HallProcess) -> None:
    key = new_key()
    async with await AgentChat.open(hall.url, "alice", key) as alice:
        await alice.send(type="IDENTIFY", name="alice", pubkey=key.public.pem)
        yesterday = int((time() - 86_400) * 1000)
        await alice.prove(key, await alice.answer("CHALLENGE"), yesterday)
        assert (await alice.refusal())["code"] == "VERIFICATION_FAILED"


async def test_who_proves_an_identity_takes_it_over(hall: HallProcess, room: str) -> None:
    key = new_key()
    async with (
        await AgentChat.connect(hall.url, "witness") as witness,
        await AgentChat.connect(hall.url, "old", key) as old,
    ):
        await join_room(room, witness, old)
        async with await AgentChat.connect(hall.url, "new", key) as new:
            notice = await old.expect("SESSION_DISPLACED")
            assert "Another connection" in notice["reason"]
            assert notice["new_ip"] == "127.0.0.1"
            assert await old.closed() == (1000, "Identity claimed by verified connection")
            assert old.types()[-1] == "SESSION_DISPLACED"
            assert new.agent_id == old.agent_id
            assert (await witness.expect("AGENT_LEFT"))["agent"] == old.agent_id
            await witness.say(new.agent_id, "welcome back")
            assert (await new.expect("MSG"))["content"] == "welcome back"


async def test_an_identity_is_not_lost_to_a_failed_proof(hall: HallProcess) -> None:
    key = new_key()
    async with await AgentChat.connect(hall.url, "owner", key) as owner:
        async with await AgentChat.open(hall.url, "thief") as thief:
            await thief.send(type="IDENTIFY", name="thief", pubkey=key.public.pem)
            await thief.prove(new_key(), await thief.answer("CHALLENGE"))
            assert (await thief.refusal())["code"] == "VERIFICATION_FAILED"
        await owner.settle()
        assert "SESSION_DISPLACED" not in owner.types()


async def test_identify_is_said_once(hall: HallProcess) -> None:
    key = new_key()
    async with await AgentChat.connect(hall.url) as agent, await AgentChat.open(hall.url) as stranger:
        await agent.send(type="IDENTIFY", name="again", pubkey=None)
        assert "Already identified" in (await agent.refusal())["message"]
        await stranger.send(type="IDENTIFY", name="one", pubkey=key.public.pem)
        await stranger.answer("CHALLENGE")
        await stranger.send(type="IDENTIFY", name="two", pubkey=None)
        assert "Challenge already pending" in (await stranger.refusal())["message"]


async def test_a_challenge_that_is_not_answered_closes_the_connection(strict_hall: HallProcess) -> None:
    async with await AgentChat.open(strict_hall.url) as silent:
        await silent.send(type="IDENTIFY", name="silent", pubkey=ALICE.public.pem)
        await silent.answer("CHALLENGE")
        error = await silent.refusal()
        assert error["code"] == "VERIFICATION_EXPIRED"
        assert "Challenge expired" in error["message"]
        assert await silent.closed() == (1000, "Challenge expired")


async def test_who_never_identifies_is_closed(strict_hall: HallProcess) -> None:
    async with await AgentChat.open(strict_hall.url) as silent:
        assert await silent.closed() == (1008, "Identify first")


async def test_a_stranger_who_floods_is_closed(strict_hall: HallProcess) -> None:
    async with await AgentChat.open(strict_hall.url) as flooder:
        for _ in range(11):
            await flooder.send(type="PING")
        assert await flooder.closed() == (1008, "Rate limit exceeded")
        assert flooder.types() == ["PONG"] * 10


async def test_an_agent_who_floods_is_told_and_stays(strict_hall: HallProcess) -> None:
    async with await AgentChat.connect(strict_hall.url) as flooder:
        for _ in range(61):
            await flooder.send(type="PING")
        assert (await flooder.refusal())["code"] == "RATE_LIMITED"
        assert flooder.types().count("PONG") == 60
        assert flooder.socket.close_code is None


async def test_one_message_a_second(strict_hall: HallProcess) -> None:
    async with (
        await AgentChat.connect(strict_hall.url) as agent,
        await AgentChat.connect(strict_hall.url) as other,
    ):
        await agent.say(other.agent_id, "first")
        await agent.say(other.agent_id, "second")
        assert (await agent.refusal())["code"] == "RATE_LIMITED"
        await other.settle()
        assert [message["content"] for message in other.pending("MSG")] == ["first"]


async def test_an_address_has_so_many_connections(strict_hall: HallProcess) -> None:
    behind_proxy = {"X-Forwarded-For": "203.0.113.9"}
    async with (
        await AgentChat.open(strict_hall.url, headers=behind_proxy) as first,
        await AgentChat.open(strict_hall.url, headers=behind_proxy) as second,
    ):
        await first.settle()
        await second.settle()
        async with await AgentChat.open(strict_hall.url, headers=behind_proxy) as third:
            assert await third.closed() == (1008, "Too many connections from this IP")
        async with await AgentChat.open(
            strict_hall.url, headers={"X-Forwarded-For": "203.0.113.10"}
        ) as other:
            await other.settle()
    assert (await strict_hall.logged("ip_connection_limit"))["ip"] == "203.0.113.9"


async def test_a_forwarded_address_counts_only_from_a_proxy_that_the_operator_named(
    hall: HallProcess,
) -> None:
    async with await AgentChat.open(hall.url, headers={"X-Forwarded-For": "203.0.113.9"}) as agent:
        await agent.identify()
        _, _, body = await hall.get("/api/connections", {"X-Admin-Key": ADMIN_KEY})
        assert "203.0.113.9" not in body


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1.evil.example"])
async def test_a_page_of_another_origin_is_refused(hall: HallProcess, origin: str) -> None:
    with pytest.raises(InvalidStatus, match="403"):
        await AgentChat.open(hall.url, origin=origin)
    assert (await hall.logged("foreign_origin_refused"))["ip"] == "127.0.0.1"


async def test_a_page_of_the_hall_itself_connects(hall: HallProcess) -> None:
    async with await AgentChat.open(hall.url, origin=f"http://127.0.0.1:{hall.port}") as page:
        await page.identify()


# -- talking (seed 000, join channels and communicate) -------------------------------------------------


async def test_a_newcomer_gets_the_history_then_joined_and_the_others_hear_of_it(
    hall: HallProcess, room: str
) -> None:
    async with await AgentChat.connect(hall.url, "alice", new_key()) as alice:
        await alice.create_channel(room)
        for number in range(22):
            await alice.say(room, f"line {number}", in_reply_to="1-a")
        await alice.settle()
        async with await AgentChat.connect(hall.url, "bob") as bob:
            joined = await bob.join(room)
            history = [message for message in bob.received if message["type"] == "MSG"]
            assert [message["content"] for message in history] == [f"line {n}" for n in range(2, 22)]
            assert all(message["replay"] is True for message in history)
            assert {message["from"] for message in history} == {alice.agent_id}
            assert {message["in_reply_to"] for message in history} == {"1-a"}
            assert bob.types() == ["WELCOME", *["MSG"] * 20, "JOINED"]
            assert joined["agents"] == [
                {"id": alice.agent_id, "name": "alice", "verified": True},
                {"id": bob.agent_id, "name": "bob", "verified": False},
            ]
            arrival = await alice.expect("AGENT_JOINED", agent=bob.agent_id)
            assert (arrival["channel"], arrival["name"]) == (room, "bob")


async def test_a_message_goes_to_all_members_but_its_sender(hall: HallProcess, room: str) -> None:
    async with (
        await AgentChat.connect(hall.url, "alice", new_key()) as alice,
        await AgentChat.connect(hall.url, "bob") as bob,
        await AgentChat.connect(hall.url, "carol") as carol,
        await AgentChat.connect(hall.url, "outsider") as outsider,
    ):
        await join_room(room, alice, bob, carol)
        await alice.say(room, "good morning", sig="c2ln", in_reply_to="1760000000000-abcdef")
        for member in (bob, carol):
            message = await member.expect("MSG")
            assert message["from"] == alice.agent_id
            assert message["from_name"] == "alice"
            assert message["to"] == room
            assert message["content"] == "good morning"
            assert message["verified"] is True
            assert message["sig"] == "c2ln"
            assert message["in_reply_to"] == "1760000000000-abcdef"
            assert re.fullmatch(rf"{message['ts']}-[0-9a-z]{{1,6}}", message["msg_id"])
            assert "replay" not in message
        for other in (alice, outsider):
            await other.settle()
            assert other.pending("MSG") == []


async def test_leaving_is_confirmed_and_told_to_the_others(hall: HallProcess, room: str) -> None:
    async with (
        await AgentChat.connect(hall.url, "alice") as alice,
        await AgentChat.connect(hall.url, "bob") as bob,
    ):
        await join_room(room, alice, bob)
        await bob.leave(room)
        notice = await alice.expect("AGENT_LEFT")
        assert (notice["channel"], notice["agent"], notice["name"]) == (room, bob.agent_id, "bob")
        await bob.say(room, "still here?")
        assert (await bob.refusal())["code"] == "CHANNEL_NOT_FOUND"
        assert [agent["id"] for agent in await alice.list_agents(room)] == [alice.agent_id]


async def test_a_lost_connection_is_told_to_the_others(hall: HallProcess, room: str) -> None:
    async with (
        await AgentChat.connect(hall.url, "alice") as alice,
        await AgentChat.connect(hall.url, "bob") as bob,
    ):
        await join_room(room, alice, bob)
        bob.cut()
        assert (await alice.expect("AGENT_LEFT"))["agent"] == bob.agent_id
        assert [agent["id"] for agent in await alice.list_agents(room)] == [alice.agent_id]


async def test_a_direct_message_reaches_its_target_only(hall: HallProcess) -> None:
    async with (
        await AgentChat.connect(hall.url, "alice") as alice,
        await AgentChat.connect(hall.url, "bob") as bob,
    ):
        await alice.say(bob.agent_id, "between us")
        message = await bob.expect("MSG")
        assert (message["from"], message["to"], message["content"]) == (
            alice.agent_id,
            bob.agent_id,
            "between us",
        )
        await alice.settle()
        assert alice.pending("MSG") == []
        await alice.say("@nobody00", "hello?")
        assert (await alice.refusal())["code"] == "AGENT_NOT_FOUND"


async def test_half_a_character_in_a_file_chunk_arrives_as_it_was_sent(hall: HallProcess) -> None:
    """JavaScript cuts files between the two halves of a character (agentchat wire 15.2)."""
    async with await AgentChat.connect(hall.url) as sender, await AgentChat.connect(hall.url) as receiver:
        for half in (r"\ud83d", r"\ude00"):
            chunk = rf'{{"type":"FILE_CHUNK","to":"{receiver.agent_id}","content":"{{\"idx\":0}} é {half}"}}'
            await sender.send_text(chunk)
            message = await receiver.expect("FILE_CHUNK")
            assert half in receiver.texts[-1]
            assert message["from"] == sender.agent_id
            assert message["content"] == '{"idx":0} é ' + json.loads(f'"{half}"')
        await sender.send(type="FILE_CHUNK", to="#general", content="x")
        assert "DM targets" in (await sender.refusal())["message"]


async def test_who_started_later_yields_the_floor(hall: HallProcess, room: str) -> None:
    async with (
        await AgentChat.connect(hall.url, "asker") as asker,
        await AgentChat.connect(hall.url, "early") as early,
        await AgentChat.connect(hall.url, "late") as late,
    ):
        await join_room(room, asker, early, late)
        await asker.say(room, "what is the answer?")
        msg_id = (await early.expect("MSG"))["msg_id"]
        claim = {"type": "RESPONDING_TO", "msg_id": msg_id, "channel": room}
        await late.send(**claim, started_at=2000)
        assert (await early.expect("FLOOR_CLAIMED"))["holder"] == late.agent_id
        relayed = await asker.expect("RESPONDING_TO")
        assert (relayed["from"], relayed["msg_id"], relayed["started_at"]) == (late.agent_id, msg_id, 2000)
        await early.send(**claim, started_at=1000)
        lost = await late.expect("YIELD")
        assert lost["winner"] == lost["holder"] == early.agent_id
        assert (lost["msg_id"], lost["channel"], lost["holder_started_at"]) == (msg_id, room, 1000)
        await late.send(**claim, started_at=3000)
        assert (await late.expect("YIELD"))["winner"] == early.agent_id
        await early.settle()
        assert early.pending("YIELD") == []


async def test_presence_typing_and_nick_are_shown_to_those_who_share_a_channel(
    hall: HallProcess, room: str
) -> None:
    async with (
        await AgentChat.connect(hall.url, "alice") as alice,
        await AgentChat.connect(hall.url, "bob") as bob,
    ):
        await join_room(room, alice, bob)
        await alice.send(type="SET_PRESENCE", status="busy", status_text="thinking")
        presence = await bob.expect("PRESENCE_CHANGED")
        assert (presence["agent_id"], presence["presence"], presence["status_text"]) == (
            alice.agent_id,
            "busy",
            "thinking",
        )
        await alice.send(type="TYPING", channel=room)
        typing = await bob.expect("TYPING")
        assert (typing["from"], typing["from_name"], typing["channel"]) == (alice.agent_id, "alice", room)
        await alice.send(type="SET_NICK", nick="al")
        nick = await bob.expect("NICK_CHANGED")
        assert (nick["agent_id"], nick["old_nick"], nick["new_nick"]) == (alice.agent_id, "alice", "al")
        assert (await bob.list_agents(room))[0] == {
            "id": alice.agent_id,
            "name": "al",
            "presence": "busy",
            "status_text": "thinking",
            "verified": False,
        }
        await alice.send(type="SET_PRESENCE", status="asleep")
        assert "Invalid presence status" in (await alice.refusal())["message"]
        await alice.settle()
        assert alice.pending("PRESENCE_CHANGED") == alice.pending("TYPING") == []


async def test_every_answer_carries_the_ref_of_its_request(hall: HallProcess, room: str) -> None:
    async with await AgentChat.connect(hall.url) as alice, await AgentChat.connect(hall.url) as bob:
        await join_room(room, alice, bob)
        acknowledged = await alice.ask("ACK", type="MSG", to=room, content="hello", ref="r1")
        message = await bob.expect("MSG")
        assert acknowledged["ref"] == "r1"
        assert acknowledged["msg_id"] == message["msg_id"]
        assert "ref" not in message
        assert (await alice.ask("JOINED", type="JOIN", channel=room, ref="r2"))["ref"] == "r2"
        assert (await alice.ask("ACK", type="TYPING", channel=room, ref="r3"))["ref"] == "r3"
        await alice.send(type="JOIN", channel="#nowhere", ref='"\\')
        error = await alice.refusal()
        assert (error["code"], error["ref"]) == ("CHANNEL_NOT_FOUND", '"\\')


async def test_an_invite_only_channel_opens_to_the_invited(hall: HallProcess, room: str) -> None:
    async with (
        await AgentChat.connect(hall.url, "host") as host,
        await AgentChat.connect(hall.url, "guest") as guest,
    ):
        await host.create_channel(room, invite_only=True)
        with pytest.raises(Refused, match="NOT_INVITED"):
            await guest.join(room)
        with pytest.raises(Refused, match="NOT_INVITED"):
            await guest.list_agents(room)
        await host.send(type="INVITE", channel=room, agent=guest.agent_id)
        invitation = await guest.expect("MSG")
        assert invitation["from"] == host.agent_id
        assert room in invitation["content"]
        assert len((await guest.join(room))["agents"]) == 2
        assert room not in [channel["name"] for channel in await guest.list_channels()]


async def test_a_verified_only_channel_opens_to_proven_keys(hall: HallProcess, room: str) -> None:
    async with (
        await AgentChat.connect(hall.url, "host", new_key()) as host,
        await AgentChat.connect(hall.url, "proven", new_key()) as proven,
        await AgentChat.connect(hall.url, "unproven") as unproven,
    ):
        await host.create_channel(room, verified_only=True)
        await proven.join(room)
        with pytest.raises(Refused, match="AUTH_REQUIRED"):
            await unproven.join(room)


async def test_agents_prove_their_keys_to_each_other(hall: HallProcess) -> None:
    key = new_key()
    async with (
        await AgentChat.connect(hall.url, "curious") as curious,
        await AgentChat.connect(hall.url, "known", key) as known,
    ):
        result = await curious.verify(known.agent_id)
        assert (result["type"], result["pubkey"]) == ("VERIFY_SUCCESS", key.public.pem)
        await known.send(type="VERIFY_REQUEST", target=curious.agent_id, nonce="0" * 32)
        assert (await known.refusal())["code"] == "NO_PUBKEY"


async def test_a_callback_comes_back_after_its_delay(hall: HallProcess, room: str) -> None:
    async with await AgentChat.connect(hall.url) as alice, await AgentChat.connect(hall.url) as bob:
        await join_room(room, alice, bob)
        await alice.say(room, "back soon @@cb:0.05s@@look at the oven")
        assert (await bob.expect("MSG"))["content"] == "back soon"
        fired = await alice.expect("MSG")
        assert (fired["from"], fired["content"]) == ("@server", "@@cb-fire@@look at the oven")
        assert (fired["to"], fired["cb_origin"]) == (alice.agent_id, alice.agent_id)


async def test_secrets_do_not_reach_the_others(hall: HallProcess, room: str) -> None:
    async with await AgentChat.connect(hall.url) as alice, await AgentChat.connect(hall.url) as bob:
        await join_room(room, alice, bob)
        await alice.say(room, f"the key is ghp_{'a' * 36} and {ADMIN_KEY}")
        content = (await bob.expect("MSG"))["content"]
        assert content == "the key is [REDACTED:github_pat] and [REDACTED:env:MOOTHALL_ADMIN_KEY]"


async def test_the_market_is_for_proven_keys(hall: HallProcess) -> None:
    async with await AgentChat.connect(hall.url) as agent:
        await agent.send(type="PROPOSAL", to="@b8de75d1", task="work", sig="c2ln")
        assert (await agent.refusal())["code"] == "VERIFICATION_REQUIRED"

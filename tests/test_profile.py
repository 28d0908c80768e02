"""`--profile agentchat-0.36`: a client of the reference finds the server it knows (agentchat wire 18.1, 20)."""

import json
import re
from collections.abc import Iterator
from itertools import count
from os import urandom
from pathlib import Path

import pytest

from moothall.identity import PrivateKey
from tests.identity.vectors import ALICE
from tests.support.agentchat import AgentChat, Message, Refused
from tests.support.server import ADMIN_KEY, HallProcess, run_moothall, running_hall

PROFILE = ("--profile", "agentchat-0.36")
CHANNELS = [
    "#general",
    "#engineering",
    "#pull-requests",
    "#help",
    "#love",
    "#agents",
    "#discovery",
    "#bounties",
    "#ops",
]

_names = count(1)


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    folder = tmp_path_factory.mktemp("reference")
    flags = (*PROFILE, "--set", "rate_message=0")
    with running_hall(folder, *flags, environment={"AGENTCHAT_ADMIN_KEY": ADMIN_KEY}) as running:
        yield running


@pytest.fixture
def name() -> str:
    """Nobody else's: service lines of earlier tests stay in the history."""
    return f"agent-{next(_names)}"


@pytest.fixture
def room(name: str) -> str:
    return f"#room-{name}"


def new_key() -> PrivateKey:
    return PrivateKey(urandom(32))


def said(messages: list[Message], content: str) -> list[Message]:
    return [message for message in messages if message.get("content") == content]


# -- agentchat wire 18.1 -------------------------------------------------------------------------------


async def test_1_identify_comes_first_with_a_null_key(hall: HallProcess, name: str) -> None:
    async with await AgentChat.open(hall.url) as agent:
        await agent.send_text(json.dumps({"type": "IDENTIFY", "name": name, "pubkey": None}))
        welcome = await agent.answer("WELCOME")
        assert re.fullmatch(r"@[a-z0-9]{8}", welcome["agent_id"])
        assert welcome["server"] == "agentchat"
        assert "verified" not in welcome
        assert "lurk" not in welcome


async def test_2_a_connect_that_fails_is_told_so(hall: HallProcess) -> None:
    class Impostor(AgentChat):
        async def prove(self, key: PrivateKey, challenge: Message, timestamp: int | None = None) -> None:
            await super().prove(new_key(), challenge, timestamp)

    with pytest.raises(Refused, match="VERIFICATION_FAILED"):
        await Impostor.connect(hall.url, "impostor", ALICE)
    with pytest.raises(Refused, match="INVALID_MSG"):
        await AgentChat.connect(hall.url, "not a name")


async def test_2_the_clock_of_a_proof_is_not_looked_at(hall: HallProcess) -> None:
    key = new_key()
    async with await AgentChat.open(hall.url, "agent", key) as agent:
        await agent.send(type="IDENTIFY", name="agent", pubkey=key.public.pem)
        challenge = await agent.answer("CHALLENGE")
        assert challenge["expires_at"] - challenge["ts"] == 60_000
        await agent.prove(key, challenge, timestamp=1)
        await agent.answer("WELCOME")


async def test_3_joined_is_sent_when_asked_for_and_only_then(hall: HallProcess, name: str, room: str) -> None:
    async with await AgentChat.connect(hall.url, name, new_key()) as agent:
        await agent.settle()
        assert "JOINED" not in agent.types()
        joined = await agent.join("#general")
        me = {"id": agent.agent_id, "name": name, "verified": False}
        assert me in joined["agents"]
        created = await agent.create_channel(room)
        assert created["agents"] == [agent.agent_id]
        assert agent.types().count("JOINED") == 2


async def test_3_a_join_that_fails_says_why(hall: HallProcess, room: str) -> None:
    async with await AgentChat.connect(hall.url) as agent, await AgentChat.connect(hall.url) as host:
        with pytest.raises(Refused, match="CHANNEL_NOT_FOUND"):
            await agent.join(room)
        await host.create_channel(room, invite_only=True)
        with pytest.raises(Refused, match="NOT_INVITED"):
            await agent.join(room)
        with pytest.raises(Refused, match="AUTH_REQUIRED"):
            await agent.join("#ops")


async def test_6_peers_verify_each_other(hall: HallProcess) -> None:
    key = new_key()
    async with (
        await AgentChat.connect(hall.url, "curious") as curious,
        await AgentChat.connect(hall.url, "known", key) as known,
        await AgentChat.open(hall.url, "silent") as silent,
    ):
        success = await curious.verify(known.agent_id)
        assert (success["type"], success["agent"]) == ("VERIFY_SUCCESS", known.agent_id)
        other = new_key()
        await silent.send(type="IDENTIFY", name="silent", pubkey=other.public.pem)
        await silent.prove(other, await silent.answer("CHALLENGE"))
        target = (await silent.answer("WELCOME"))["agent_id"]
        await curious.send(type="VERIFY_REQUEST", target=target, nonce="0" * 32)
        request = await silent.expect("VERIFY_REQUEST")
        await silent.send(
            type="VERIFY_RESPONSE", request_id=request["request_id"], nonce="0" * 32, sig=key.sign("0" * 32)
        )
        failure = await curious.expect("VERIFY_FAILED")
        assert failure["target"] == target
        assert "failed" in failure["reason"]


async def test_7_the_lists(hall: HallProcess, name: str) -> None:
    async with await AgentChat.connect(hall.url, name) as agent:
        channels = await agent.list_channels()
        assert [channel["name"] for channel in channels][:9] == CHANNELS
        assert [channel["name"] for channel in channels if channel.get("verifiedOnly")] == ["#ops"]
        agents = await agent.list_agents("#general")
        me = next(entry for entry in agents if entry["id"] == agent.agent_id)
        assert me == {
            "id": agent.agent_id,
            "name": name,
            "presence": "online",
            "status_text": None,
            "verified": False,
        }


async def test_10_an_ordinary_session_sees_no_error(hall: HallProcess, name: str, room: str) -> None:
    """An ERROR that nobody waits for ends the reference client's process."""
    async with (
        await AgentChat.connect(hall.url, name, new_key()) as agent,
        await AgentChat.connect(hall.url, "other") as other,
    ):
        await agent.join("#general")
        await agent.create_channel(room)
        await agent.say("#general", "hello", ts=1, sig="c2ln")
        await agent.say(other.agent_id, "hello you")
        await agent.send(type="SET_PRESENCE", status="listening", status_text="")
        await agent.send(type="SET_NICK", nick=f"{name}-2")
        await agent.send(type="TYPING", channel="#general")
        await agent.send(type="TYPING", channel="#nowhere")
        await agent.send(type="RESPONDING_TO", msg_id="1-a", channel="#general", started_at=1)
        await agent.send(type="RESPONDING_TO", msg_id="1-a", channel="#nowhere", started_at=1)
        await agent.send(type="LEAVE", channel="#general")
        await agent.send(type="LEAVE", channel="#nowhere")
        await agent.settle()
        await other.settle()
        assert "ERROR" not in agent.types() + other.types()


async def test_12_what_was_queued_comes_before_identify(hall: HallProcess, name: str) -> None:
    queued = [{"type": "PING"}, {"type": "LIST_CHANNELS"}]
    async with await AgentChat.connect(hall.url, name, new_key(), queued=queued) as agent:
        assert agent.types()[:4] == ["PONG", "CHANNELS", "CHALLENGE", "WELCOME"]
    async with await AgentChat.open(hall.url, name) as agent:
        await agent.say("#general", "too early")
        await agent.send(type="IDENTIFY", name=name, pubkey=None)
        await agent.expect("WELCOME")
        assert agent.types()[:2] == ["ERROR", "WELCOME"]
        assert agent.received[0]["code"] == "AUTH_REQUIRED"


# -- agentchat wire 20 ---------------------------------------------------------------------------------


async def test_ids_have_16_digits_and_a_proof_alone_does_not_verify(hall: HallProcess) -> None:
    async with await AgentChat.connect(hall.url, "alice", ALICE) as alice:
        assert alice.agent_id == "@b8de75d15ebbfc41"
        assert alice.welcome["verified"] is False


async def test_an_admin_verifies(hall: HallProcess, name: str) -> None:
    async with (
        await AgentChat.connect(hall.url, name, new_key()) as agent,
        await AgentChat.open(hall.url) as admin,
    ):
        await admin.ask(
            "ADMIN_RESULT", type="ADMIN_VERIFY", agent_id=agent.agent_id, verified=True, admin_key=ADMIN_KEY
        )
        await agent.say("#general", "look")
        assert (await agent.expect("MSG", content="look"))["verified"] is True


async def test_a_command_with_a_key_hears_what_opens_a_verified_only_channel(
    hall: HallProcess, tmp_path: Path
) -> None:
    assert run_moothall(tmp_path, "identity", "new", "key.json").returncode == 0
    refused = run_moothall(tmp_path, "create", hall.url, "vetted", "--verified-only", "-i", "key.json")
    assert "AUTH_REQUIRED" in refused.stderr
    assert "moothall admin grant" in refused.stderr


async def test_a_self_made_key_does_not_open_a_verified_only_channel(hall: HallProcess, name: str) -> None:
    async with (
        await AgentChat.connect(hall.url, f"{name}-member", new_key()) as member,
        await AgentChat.connect(hall.url, name, new_key()) as stranger,
        await AgentChat.open(hall.url) as admin,
    ):
        verify = {"type": "ADMIN_VERIFY", "agent_id": member.agent_id, "admin_key": ADMIN_KEY}
        await admin.ask("ADMIN_RESULT", **verify, verified=True)
        await member.join("#ops")
        await member.say("#ops", f"a secret of {name}")
        await member.expect("MSG", content=f"a secret of {name}")
        assert stranger.welcome["verified"] is False
        for command in ("JOIN", "LIST_AGENTS"):
            await stranger.send(type=command, channel="#ops")
            assert (await stranger.refusal())["code"] == "AUTH_REQUIRED"
        await stranger.say("#ops", "hello?")
        assert (await stranger.refusal())["code"] == "NOT_INVITED"
        await stranger.settle()
        assert [m for m in stranger.received if m.get("channel", m.get("to")) == "#ops"] == []
        await admin.ask("ADMIN_RESULT", **verify, verified=False)
        await member.expect("LEFT", channel="#ops")


async def test_who_arrives_is_in_every_public_channel(hall: HallProcess, name: str) -> None:
    async with (
        await AgentChat.connect(hall.url, "witness", new_key()) as witness,
        await AgentChat.connect(hall.url, name) as anonymous,
    ):
        await witness.expect("MSG", content=f"{name} came online")
        heard = [notice["channel"] for notice in witness.pending("AGENT_JOINED")]
        assert heard[:8] == CHANNELS[:8]
        assert "#ops" not in heard
        await anonymous.say("#love", "without a JOIN")
        message = await witness.expect("MSG", to="#love", content="without a JOIN")
        assert message["from"] == anonymous.agent_id


async def test_a_message_comes_back_to_its_sender(hall: HallProcess) -> None:
    async with await AgentChat.connect(hall.url) as agent, await AgentChat.connect(hall.url) as other:
        await agent.say("#general", "echo?")
        own = await agent.expect("MSG", content="echo?")
        theirs = await other.expect("MSG", content="echo?")
        assert own == theirs
        assert own["from"] == agent.agent_id
        await agent.say(other.agent_id, "you too?")
        assert await agent.expect("MSG", content="you too?") == await other.expect("MSG", content="you too?")


async def test_joined_comes_before_the_history_and_after_the_news(
    hall: HallProcess, name: str, room: str
) -> None:
    async with (
        await AgentChat.connect(hall.url, "host") as host,
        await AgentChat.connect(hall.url, name) as guest,
    ):
        await host.create_channel(room)
        await host.say(room, "earlier")
        await host.expect("MSG", content="earlier")
        await guest.settle()
        start = len(guest.received)
        await guest.join(room)
        await guest.settle()
        joined, replayed, line, _ = guest.received[start:]
        assert joined["type"] == "JOINED"
        assert (replayed["content"], replayed["replay"]) == ("earlier", True)
        assert line == {
            "type": "MSG",
            "ts": line["ts"],
            "from": "@server",
            "from_name": "Server",
            "to": room,
            "content": f"{name} joined {room}",
        }
        await host.settle()
        tail = [
            message["type"] for message in host.received if message.get("to", message.get("channel")) == room
        ]
        assert tail == ["JOINED", "MSG", "AGENT_JOINED", "MSG"]


async def test_joining_again_fetches_the_history_and_tells_nobody(hall: HallProcess, room: str) -> None:
    async with await AgentChat.connect(hall.url) as host, await AgentChat.connect(hall.url) as guest:
        await host.create_channel(room)
        await guest.join(room)
        await host.say(room, "once")
        await guest.expect("MSG", content="once")
        await guest.join(room)
        assert (await guest.expect("MSG", content="once"))["replay"] is True
        await host.settle()
        assert len([m for m in host.received if m["type"] == "AGENT_JOINED" and m["channel"] == room]) == 1


async def test_the_server_tells_who_comes_and_goes(hall: HallProcess, name: str) -> None:
    async with await AgentChat.connect(hall.url, "witness") as witness:
        async with await AgentChat.connect(hall.url, name) as agent:
            own = await agent.expect("MSG", content=f"{name} came online")
            assert (own["from"], own["to"]) == ("@server", "#general")
            assert "msg_id" not in own
            await witness.expect("MSG", content=f"{name} came online")
        left = await witness.expect("AGENT_LEFT", agent=agent.agent_id)
        assert "name" not in left
        await witness.expect("MSG", content=f"{name} went offline")
        await witness.join("#general")
        await witness.settle()
        assert said(witness.received, f"{name} went offline")[-1]["replay"] is True


@pytest.mark.parametrize("letter", ["x", "\u00e9", "\u6f22", "\x01"])
async def test_a_message_of_two_mebibytes_arrives(hall: HallProcess, room: str, letter: str) -> None:
    """As the reference's MCP server sends it; and the next one does, too. Here `json` writes six bytes a letter."""
    async with await AgentChat.connect(hall.url) as alice, await AgentChat.connect(hall.url) as bob:
        await alice.create_channel(room)
        await bob.join(room)
        assert alice.welcome["max_content"] == 2 * 1024 * 1024
        content = letter * (2 * 1024 * 1024)
        await alice.say(room, content)
        assert (await bob.expect("MSG", **{"from": alice.agent_id}))["content"] == content
        await alice.say(room, "and more")
        await bob.expect("MSG", content="and more")
        await alice.say(room, content + "!")
        assert (await alice.refusal())["code"] == "INVALID_MSG"
        await alice.say(room, "still here")
        await bob.expect("MSG", content="still here")


async def test_two_clients_with_one_key_wait_for_each_other(hall: HallProcess, name: str) -> None:
    key = new_key()
    async with (
        await AgentChat.connect(hall.url, name, key) as first,
        await AgentChat.open(hall.url, name, key) as second,
    ):
        await second.send(type="IDENTIFY", name=name, pubkey=key.public.pem)
        await second.prove(key, await second.answer("CHALLENGE"))
        assert (await second.answer("TAKEOVER_PENDING"))["wait_ms"] == 5000
        await first.settle()
        assert "SESSION_DISPLACED" not in first.types()
        await first.close()
        await second.answer("WELCOME")  # it does not wait for a session that is gone


async def test_a_flood_closes_the_connection(hall: HallProcess) -> None:
    async with await AgentChat.connect(hall.url) as flooder:
        for _ in range(61):
            await flooder.send(type="PING")
        assert await flooder.closed() == (1008, "Rate limit exceeded")
        assert flooder.types().count("PONG") == 60


async def test_malformed_json_is_answered(hall: HallProcess) -> None:
    async with await AgentChat.connect(hall.url) as agent:
        await agent.send_text("{")
        assert (await agent.refusal())["code"] == "INVALID_MSG"


async def test_error_codes_are_the_reference_ones(hall: HallProcess, room: str) -> None:
    async with await AgentChat.connect(hall.url) as agent, await AgentChat.connect(hall.url) as host:
        await host.create_channel(room)
        await agent.say(room, "let me in")
        assert (await agent.refusal())["code"] == "NOT_INVITED"
        await agent.send(type="PROPOSAL", to=host.agent_id, task="work", sig="c2ln")
        assert (await agent.refusal())["code"] == "SIGNATURE_REQUIRED"


# -- agentchat wire 17.2 -------------------------------------------------------------------------------

REFERENCE_VARIABLES = {
    "PORT": ("port", "7001", 7001),
    "HOST": ("host", "::1", "::1"),
    "SERVER_NAME": ("server_name", "town", "town"),
    "RATE_LIMIT_MS": ("rate_message", "250", "1/0.25"),
    "MESSAGE_BUFFER_SIZE": ("buffer_size", "7", 7),
    "IDLE_TIMEOUT_MS": ("idle_timeout", "90000", 90.0),
    "IDLE_PROMPTS": ("idle_prompts", "false", False),
    "CHALLENGE_TIMEOUT_MS": ("challenge_timeout", "1500", 1.5),
    "PRIVATE_CHANNELS_ENABLED": ("private_channels", "false", False),
    "GENESIS_AGENT_ID": ("genesis_agent_id", "b8de75d15ebbfc41", "b8de75d15ebbfc41"),
    "ALLOWLIST_ENABLED": ("allowlist", "true", True),
    "ALLOWLIST_STRICT": ("allowlist_strict", "true", True),
    "MOTD": ("motd", "be kind", "be kind"),
    "MAX_CONNECTIONS_PER_IP": ("max_connections_per_ip", "3", 3),
    "DATA_DIR": ("data_dir", "/srv/chat", "/srv/chat/.agentchat"),
    "LOG_LEVEL": ("log_level", "warn", "warning"),
}


@pytest.fixture(scope="module")
def shown_settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, dict[str, object]]]:
    """What `moothall config` says in both profiles when all the reference's variables are set."""
    folder = tmp_path_factory.mktemp("config")
    environ = {variable: text for variable, (_, text, _) in REFERENCE_VARIABLES.items()}
    return {
        profile: json.loads(
            run_moothall(folder, "config", "--json", "--profile", profile, environ=environ).stdout
        )
        for profile in ("agentchat-0.36", "seeds")
    }


@pytest.mark.parametrize("variable", REFERENCE_VARIABLES)
def test_the_reference_variables_count_in_its_profile_only(
    shown_settings: dict[str, dict[str, dict[str, object]]], variable: str
) -> None:
    setting, _, expected = REFERENCE_VARIABLES[variable]
    in_profile = shown_settings["agentchat-0.36"][setting]
    assert (in_profile["value"], in_profile["from"]) == (expected, variable)
    assert shown_settings["seeds"][setting]["from"] == "default"


async def test_a_hall_obeys_the_reference_variables(tmp_path: Path) -> None:
    environment = {"SERVER_NAME": "town", "MOTD": "be kind", "PRIVATE_CHANNELS_ENABLED": "false"}
    with running_hall(tmp_path, *PROFILE, environment=environment) as hall:
        async with await AgentChat.connect(hall.url) as agent:
            assert (agent.welcome["server"], agent.welcome["motd"]) == ("town", "be kind")
            with pytest.raises(Refused, match="INVALID_MSG"):
                await agent.create_channel("#secret", invite_only=True)

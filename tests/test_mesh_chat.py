"""A real hall, and agents of three wires in one room: the mesh, the WebSocket and keep."""

import asyncio
from base64 import b64decode
from collections.abc import Iterator

import pytest

from moothall.errors import InvalidMessage
from moothall.identity import PrivateKey
from moothall.identity.signatures import verify
from moothall.mesh import MeshAgent, Message
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import decode, signing_bytes
from tests.support.agentchat import PATIENCE, AgentChat
from tests.support.keep import keep_client
from tests.support.server import HallProcess, running_hall

ALICE, BOB, CAROL = (PrivateKey(letter * 32) for letter in (b"a", b"b", b"c"))
ALICE_ID = ALICE.public.agent_id(8)


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    """One for all: what the tests do is in channels of their own."""
    with running_hall(tmp_path_factory.mktemp("hall"), "--set", "rate_message=0") as running:
        yield running


class Listener:
    """The BROADCASTs that an agent gets, in their order."""

    def __init__(self, agent: MeshAgent) -> None:
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        agent.on_broadcast(self._take)

    async def _take(self, message: Message) -> None:
        self._messages.put_nowait(message)

    async def next(self) -> tuple[Message, Broadcast]:
        async with asyncio.timeout(PATIENCE):
            message = await self._messages.get()
        assert isinstance(message.payload, Broadcast)
        return message, message.payload


def mesh_agent(hall: HallProcess, key: PrivateKey, name: str, topic: str) -> MeshAgent:
    return MeshAgent(name, key=key, url=hall.url, topics=topic)


async def test_a_channel_and_its_topic_are_one_room(hall: HallProcess) -> None:
    async with await AgentChat.connect(hall.url, "carol") as carol:
        await carol.create_channel("#one-room")
        alice, bob = mesh_agent(hall, ALICE, "alice", "one-room"), mesh_agent(hall, BOB, "bob", "one-room")
        heard = Listener(bob)
        async with alice, bob:
            joined = await carol.expect("AGENT_JOINED", name="alice")
            assert joined["agent"] == f"@{ALICE_ID}"
            await carol.expect("AGENT_JOINED", name="bob")
            listed = {each["name"]: each for each in await carol.list_agents("#one-room")}
            assert (listed["alice"]["via"], listed["alice"]["verified"]) == ("mesh", True)

            sent = await alice.broadcast("one-room", "hello, hall")
            line = await carol.expect("MSG", content="hello, hall", via="mesh")
            envelope = decode(b64decode(line["packet"]))
            assert envelope.sender == ALICE.public.raw
            assert envelope.nonce == sent.nonce
            assert verify(envelope.sender, signing_bytes(envelope), envelope.signature)
            message, broadcast = await heard.next()
            assert (message.sender, broadcast.content) == (alice.id, b"hello, hall")

            await carol.say("#one-room", "hello, mesh")
            message, broadcast = await heard.next()
            assert message.sender == hall.key.raw.hex()
            assert broadcast == Broadcast(
                topic="one-room", title=f"carol ({carol.agent_id})", tags=("chat",), content=b"hello, mesh"
            )

            await carol.say(f"@{ALICE_ID}", "psst")
            refusal = await carol.refusal()
            assert (refusal["code"], "no direct messages" in refusal["message"]) == ("INVALID_MSG", True)
        await carol.expect("AGENT_LEFT", agent=f"@{ALICE_ID}")


async def test_a_secret_reaches_neither_side(hall: HallProcess) -> None:
    async with await AgentChat.connect(hall.url, "carol") as carol:
        await carol.create_channel("#secrets")
        alice, bob = mesh_agent(hall, ALICE, "alice", "secrets"), mesh_agent(hall, BOB, "bob", "secrets")
        heard = Listener(bob)
        async with alice, bob:
            await carol.expect("AGENT_JOINED", name="bob")
            await alice.broadcast("secrets", "my key is AKIAIOSFODNN7EXAMPLE")
            line = await carol.expect("MSG", via="mesh")
            assert "packet" not in line
            message, broadcast = await heard.next()
            assert message.sender == hall.key.raw.hex()
            assert broadcast.content == line["content"].encode()
            assert "AKIAIOSFODNN7EXAMPLE" not in line["content"]


async def test_a_text_that_is_too_long_for_a_channel_is_refused(hall: HallProcess) -> None:
    async with await AgentChat.connect(hall.url, "carol") as carol:
        await carol.create_channel("#short")
        async with mesh_agent(hall, ALICE, "alice", "short") as alice:
            with pytest.raises(InvalidMessage, match="at most 4096 characters"):
                await alice.broadcast("short", "x" * 5000)
            await alice.broadcast("short", b"x" * 5000)
            await alice.broadcast("short-but-mesh-only", "x" * 5000)


async def test_keep_agents_see_mesh_agents_and_are_told_why_they_cannot_write_to_them(
    hall: HallProcess,
) -> None:
    alice = mesh_agent(hall, ALICE, "alice", "keep")
    heard = Listener(alice)
    with keep_client(hall.keep_port) as keeper:
        await asyncio.to_thread(keeper.ask)
        async with alice:
            assert f"agent:{ALICE_ID}" in (await asyncio.to_thread(keeper.discover, "agents"))["agents"]
            for dst in (f"agent:{ALICE_ID}", "nearest:alice"):
                answer = await asyncio.to_thread(keeper.ask, dst, "psst")
                assert answer.body == f"error:mesh_only:agent:{ALICE_ID}"
            await asyncio.to_thread(keeper.send, "#keep", "hello from keep")
            _, broadcast = await heard.next()
            assert (broadcast.topic, broadcast.content) == ("keep", b"hello from keep")
            await alice.broadcast("keep", "hello from the mesh")
            packet = await asyncio.to_thread(keeper.receive)
            assert (packet.src, packet.body) == (f"agent:{ALICE_ID}", "hello from the mesh")


async def test_skills_of_mesh_agents_are_found_online_from_the_websocket(hall: HallProcess) -> None:
    async with await AgentChat.connect(hall.url, "carol") as carol:
        await carol.create_channel("#weather")
        async with MeshAgent("alice", key=ALICE, url=hall.url, topics="weather", capabilities="weather-mesh"):
            assert (await _search(carol))["online"] is True
        await carol.expect("AGENT_LEFT", agent=f"@{ALICE_ID}")
        assert (await _search(carol))["online"] is False


async def _search(carol: AgentChat) -> dict[str, object]:
    answer = await carol.ask("SEARCH_RESULTS", type="SEARCH_SKILLS", query={"capability": "weather-mesh"})
    (result,) = answer["results"]
    found: dict[str, object] = result
    assert found["agent_id"] == f"@{ALICE_ID}"
    return found


async def test_a_websocket_session_of_the_same_key_is_not_displaced(hall: HallProcess) -> None:
    async with (
        await AgentChat.connect(hall.url, "alice", ALICE) as session,
        MeshAgent("alice", key=ALICE, url=hall.url),
    ):
        assert session.agent_id == f"@{ALICE_ID}"
        await session.settle()
        await session.send(type="LIST_AGENTS")
        listed = (await session.answer("AGENTS"))["list"]
        assert [each.get("via") for each in listed if each["name"] == "alice"] == [None, "mesh"]

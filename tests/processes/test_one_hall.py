"""Agents cannot tell that a hall is several node processes."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.identity.vectors import ALICE, BOB
from tests.processes.support import MOST, NODES, NodesProcess, come, connections, spread
from tests.store.server import Server
from tests.support.agentchat import AgentChat
from tests.support.deals import signed
from tests.support.server import HallProcess

pytestmark = pytest.mark.slow

TAKEOVERS = 6
REQUESTS = 12  # one of them goes to the other node, but for once in 2,000 times


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def hall(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    server = Server() if request.param == "postgres" else None
    environment = {} if server is None else {"MOOTHALL_STORE": server.new_database()}
    flags = ("--no-limits", "--mesh-port", "0")
    hall = NodesProcess(tmp_path_factory.mktemp("hall"), *flags, environment=environment)
    hall.start()
    yield hall
    hall.kill()
    if server is not None:
        server.stop()


async def test_agents_of_all_nodes_talk_in_one_channel(hall: HallProcess) -> None:
    async with spread(hall) as agents:
        one, other = agents.values()
        for agent in agents.values():
            await agent.ask("JOINED", type="JOIN", channel="#general")
        seen = await other.ask("AGENTS", type="LIST_AGENTS", channel="#general")
        assert {one.agent_id, other.agent_id} <= {agent["id"] for agent in seen["list"]}
        await one.send(type="MSG", to="#general", content="hello")
        assert (await other.expect("MSG", to="#general", content="hello"))["from"] == one.agent_id
        await other.send(type="MSG", to=one.agent_id, content="to you")
        assert (await one.expect("MSG", content="to you"))["from"] == other.agent_id
        await one.settle()
        await other.settle()
        assert "to you" not in [message["content"] for message in one.pending("MSG")]
        assert "hello" not in [message["content"] for message in other.pending("MSG")]


async def test_a_deal_between_agents_of_two_nodes(hall: HallProcess) -> None:
    async with await come(hall, NODES[0], ALICE) as alice, await come(hall, NODES[1], BOB) as bob:
        offer = signed(ALICE, "PROPOSAL", to=bob.agent_id, task="review", elo_stake=30)
        deal = (await alice.ask("PROPOSAL", type="PROPOSAL", **offer))["id"]
        assert (await bob.expect("PROPOSAL", id=deal))["elo_stake"] == 30
        await bob.ask("ACCEPT", type="ACCEPT", **signed(BOB, "ACCEPT", proposal_id=deal))
        await alice.expect("ACCEPT", proposal_id=deal)
        await bob.ask("COMPLETE", type="COMPLETE", **signed(BOB, "COMPLETE", proposal_id=deal))
        assert (await alice.expect("COMPLETE", proposal_id=deal))["rating_changes"]


async def test_an_id_is_at_one_node_at_a_time(hall: HallProcess) -> None:
    """The kernel chooses the node of each connection: some of these takeovers are between nodes."""
    agent = await AgentChat.connect(hall.url, "alice", ALICE)
    for _ in range(TAKEOVERS):
        again = await AgentChat.connect(hall.url, "alice", ALICE)
        await agent.expect("SESSION_DISPLACED")
        await agent.closed()
        agent = again
    seen = await agent.ask("AGENTS", type="LIST_AGENTS", channel="#general")
    assert [each["id"] for each in seen["list"]].count(agent.agent_id) <= 1
    await agent.close()


async def test_all_nodes_serve_keep_clients(hall: HallProcess) -> None:
    with ExitStack() as dialled:
        for _ in range(MOST):
            dialled.enter_context(socket.create_connection(("127.0.0.1", hall.keep_port)))
            counts = await connections(hall, "keep")
            if all(counts.values()):
                return
    pytest.fail("one node got all keep clients")


async def test_one_node_is_a_peer_of_the_mesh(hall: HallProcess) -> None:
    _, _, text = await hall.get("/metrics")
    peers = [line for line in text.splitlines() if line.startswith("moothall_network_waiting{")]
    assert [line.partition('node="')[2].partition('"')[0] for line in peers] == ["node1"]


async def test_a_token_of_the_http_api_counts_at_all_nodes(hall: HallProcess) -> None:
    async with await AgentChat.connect(hall.url, "alice", ALICE) as alice:
        token = (await alice.ask("API_TOKEN", type="API_TOKEN"))["token"]
    for _ in range(TAKEOVERS):
        status, _, _ = await hall.get("/api/v1/deals", headers={"Authorization": f"Bearer {token}"})
        assert status == 200


async def test_all_nodes_answer_the_same_about_a_channel_of_one_node(hall: HallProcess) -> None:
    """Only the first node follows the channel. The kernel chooses the node of each request."""
    async with await come(hall, NODES[0], ALICE) as alice, await come(hall, NODES[1]) as bob:
        await alice.create_channel("#den", invite_only=True)
        await alice.ask("ACK", type="MSG", to="#den", content="psst", ref="1")
        token = (await alice.ask("API_TOKEN", type="API_TOKEN"))["token"]
        await alice.create_channel("#after")
        for _ in range(
            MOST
        ):  # until the second node knows the channels that there are, in the order of their making
            if "#after" in [channel["name"] for channel in await bob.list_channels()]:
                break
        await alice.say(bob.agent_id, "I am here")
        await bob.expect("MSG", content="I am here")  # so the second node knows of her
        headers = {"Authorization": f"Bearer {token}"}
        for viewer, path, shown in (
            (headers, "channels/den/messages", '"content":"psst"'),
            (headers, "channels/den/agents", f'"id":"{alice.agent_id}"'),
            (headers, "channels?limit=100", '"name":"#den","members":1,'),
            ({}, "channels/den/messages", "CHANNEL_NOT_FOUND"),
        ):
            replies = [await hall.get(f"/api/v1/{path}", viewer) for _ in range(REQUESTS)]
            assert shown in replies[0][2]
            assert {(status, text) for status, _, text in replies} == {(replies[0][0], replies[0][2])}

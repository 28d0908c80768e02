"""Agents that a node hosts."""

import time
from pathlib import Path

import pytest

from moothall.errors import NodeRefused
from moothall.node import Received, hosted
from moothall.node.hosted import REGISTRATIONS, SENDS, SESSION
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.offers import Accept, Propose
from tests.support.network import MadeUpTime
from tests.support.nodes import TALK, Life, life, options, two, until

OFFER = Propose(amount=0, message="x").encode()


async def test_a_hosted_agent_talks_to_an_agent_of_another_node(tmp_path: Path) -> None:
    async with two(tmp_path) as (alice, bob):
        agent, token = await alice.node.hosted.register()
        assert alice.node.hosted.agent_of(token) == agent
        heard: list[Received] = []
        unlisten = alice.node.hosted.listen(token, heard.append)
        await until(lambda: bob.knows(agent))  # from the BEACON that its node sends for it
        await bob.node.send(MsgType.PROPOSE, OFFER, recipient=agent, conversation_id=TALK)
        await until(lambda: heard)
        assert heard[0].envelope.sender == bob.id
        assert alice.types == []
        await alice.node.hosted.send(
            token, MsgType.ACCEPT, Accept(amount=0).encode(), recipient=bob.id, conversation_id=TALK
        )
        await until(lambda: bob.types == ["ACCEPT"])
        assert bob.received[0].envelope.sender == agent
        assert await alice.node.hosted.read_inbox(token, 0, 10) == heard
        assert await alice.node.read_inbox(0, 10) == []
        unlisten()
        assert alice.node.statistics().hosted == 1


async def test_agents_of_one_node_talk_to_each_other(tmp_path: Path) -> None:
    async with life(options(tmp_path, "alice", address=None)) as alice:
        agent, token = await alice.node.hosted.register()
        await alice.node.hosted.send(token, MsgType.PROPOSE, OFFER, recipient=alice.id, conversation_id=TALK)
        await until(lambda: alice.types == ["PROPOSE"])
        await alice.node.send(
            MsgType.ACCEPT, Accept(amount=0).encode(), recipient=agent, conversation_id=TALK
        )
        (got,) = await alice.node.hosted.read_inbox(token, 0, 10)
        assert got.envelope.msg_type is MsgType.ACCEPT
        await alice.node.hosted.send(token, MsgType.DISCOVER, b'{"query":"x"}', conversation_id=bytes(16))
        await until(lambda: alice.types == ["PROPOSE", "DISCOVER"])
        with pytest.raises(NodeRefused, match="out of order"):
            await alice.node.hosted.send(
                token, MsgType.PROPOSE, OFFER, recipient=alice.id, conversation_id=TALK
            )


async def test_sessions_survive_a_restart_and_end_after_seven_days(tmp_path: Path) -> None:
    shift = [0.0]

    def clock() -> float:
        return time.time() + shift[0]

    async with life(options(tmp_path, "alice", address=None), clock) as alice:
        agent, token = await alice.node.hosted.register()
        stored = (tmp_path / "alice" / "hall.db-wal").read_bytes()
        assert token.encode() not in stored
        assert bytes.fromhex(token) not in stored
    async with life(options(tmp_path, "alice", address=None), clock) as alice:
        assert alice.node.hosted.agent_of(token) == agent
        sent = await alice.node.hosted.send(
            token, MsgType.DISCOVER, b'{"query":"x"}', conversation_id=bytes(16)
        )
        assert sent.nonce
        shift[0] = SESSION / 1000 + 1
        with pytest.raises(NodeRefused) as refused:
            alice.node.hosted.agent_of(token)
        assert refused.value.status == 401
        alice.node.hosted.expire()
        assert len(alice.node.hosted) == 0
    shift[0] = 0.0
    async with life(options(tmp_path, "alice", address=None), clock) as alice:
        with pytest.raises(NodeRefused, match="not known"):
            alice.node.hosted.agent_of(token)


async def test_a_node_with_another_key_does_not_open_the_keys(tmp_path: Path) -> None:
    async with life(options(tmp_path, "alice", address=None)) as alice:
        _, token = await alice.node.hosted.register()
    (tmp_path / "alice").rename(tmp_path / "bob")
    async with life(options(tmp_path, "bob", address=None)) as bob:
        with pytest.raises(NodeRefused, match="not known"):
            bob.node.hosted.agent_of(token)


@pytest.mark.parametrize("token", ["", "x", "\ud800", "0" * 64])
async def test_a_token_that_is_not_known(tmp_path: Path, token: str) -> None:
    async with life(options(tmp_path, "alice", address=None)) as alice:
        await alice.node.hosted.register()
        for ask in (alice.node.hosted.agent_of, lambda token: alice.node.hosted.listen(token, print)):
            with pytest.raises(NodeRefused) as refused:
                ask(token)
            assert refused.value.status == 401


async def refusal(alive: Life, token: str) -> int:
    with pytest.raises(NodeRefused) as refused:
        await alive.node.hosted.send(token, MsgType.PROPOSE, OFFER, recipient=b"x" * 32, conversation_id=TALK)
    return refused.value.status


async def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up = MadeUpTime()
    async with life(options(tmp_path, "alice", address=None), outside=made_up) as alice:
        _, token = await alice.node.hosted.register()
        statuses = [await refusal(alice, token) for _ in range(SENDS.limit + 1)]
        assert statuses == [503] * SENDS.limit + [429]
        made_up.pass_by(1000)
        assert [await refusal(alice, token) for _ in range(2)] == [503, 429]
        for _ in range(REGISTRATIONS.limit):
            await alice.node.hosted.register()
        with pytest.raises(NodeRefused, match="registers") as refused:
            await alice.node.hosted.register()
        assert refused.value.status == 429
        made_up.pass_by(1000)
        monkeypatch.setattr(hosted, "MAX_SESSIONS", 1)
        with pytest.raises(NodeRefused, match="hosts") as refused:
            await alice.node.hosted.register()
        assert refused.value.status == 503


async def test_beacons_of_hosted_agents_take_turns(tmp_path: Path) -> None:
    async with life(options(tmp_path, "alice", address=None)) as alice:
        agents = [(await alice.node.hosted.register())[0] for _ in range(5)]
        first = alice.node.hosted.next_beacons(3)
        second = alice.node.hosted.next_beacons(3)
        assert first == agents[:3]
        assert second == [*agents[3:], agents[0]]

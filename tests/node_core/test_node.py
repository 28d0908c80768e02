"""Two nodes on loopback: a whole deal, restarts, what is out of order, and what the program is told."""

import asyncio
import time
from pathlib import Path

import pytest

from moothall.errors import NodeRefused, UsageError
from moothall.node import BatchClosed, Node, NodeOptions, PeerRegistered, ReputationChanged
from moothall.wire.mesh import merkle
from moothall.wire.mesh.announcements import Advertise
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import NO_CONVERSATION, encode
from moothall.wire.mesh.epochs import EPOCH_SECONDS, epoch_of, log_name
from moothall.wire.mesh.frames import frames
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.offers import Accept, Propose
from tests.support.network import MadeUpTime
from tests.support.nodes import LOOPBACK, TALK, deal, do, life, met, moved, options, seed, two, until


async def test_a_whole_deal(tmp_path: Path) -> None:
    async with two(tmp_path) as (alice, bob):
        for step in deal(alice.id, bob.id):
            await do(step, {"alice": alice, "bob": bob})
        assert bob.types == ["PROPOSE", "ACCEPT", "VERDICT", "FEEDBACK"]
        assert alice.types == ["COUNTER", "DELIVER", "FEEDBACK"]
        for one, other in ((alice, bob), (bob, alice)):
            rated = await one.node.reputation(other.id)
            assert rated is not None
            assert (rated.reliability, rated.total_tasks) == (80_000, 1)
            assert {event.agent_id for event in one.events if isinstance(event, ReputationChanged)} == {
                alice.id,
                bob.id,
            }
            statistics = one.node.statistics()
            assert (statistics.pending, statistics.out_of_order, statistics.delivery_failed) == (0, 0, 0)


@pytest.mark.parametrize("restarted", ["alice", "bob"])
async def test_a_deal_with_a_restart_before_each_step(tmp_path: Path, restarted: str) -> None:
    async with life(options(tmp_path, "alice")) as first:
        address = moved(first.node.address)
    steps = deal(first.id, (await _id_of(tmp_path, "bob")))
    for step in steps:
        async with (
            life(options(tmp_path, "alice", address=address)) as alice,
            life(options(tmp_path, "bob", address)) as bob,
        ):
            await met(alice, bob)
            await do(step, {"alice": alice, "bob": bob})
    async with life(options(tmp_path, restarted)) as again:
        inbox = await again.node.read_inbox(0, 100)
        assert [each.out_of_order for each in inbox] == [None] * len(inbox)
        with pytest.raises(NodeRefused) as refused:
            await again.node.send(MsgType.ADVERTISE, b"{}", conversation_id=b"")
        assert refused.value.status == 400


async def _id_of(folder: Path, name: str) -> bytes:
    async with life(options(folder, name)) as alive:
        return alive.id


async def test_a_message_out_of_order_is_logged_and_noted_and_changes_nothing(tmp_path: Path) -> None:
    """Bob's program sends it past its own node's state machine: with a conversation that Bob alone knows."""
    async with two(tmp_path) as (alice, bob):
        steps = deal(alice.id, bob.id)
        await do(steps[0], {"alice": alice, "bob": bob})
        with pytest.raises(NodeRefused, match="out of order") as refused:
            await alice.node.send(MsgType.DELIVER, b"early", recipient=bob.id, conversation_id=TALK)
        assert refused.value.status == 409
        wild = bob.node._signers.seal(  # as a node without a state machine would
            bob.id, MsgType.DELIVER, b"early", recipient=alice.id, conversation_id=TALK
        )
        await bob.node._host.send(alice.id, encode(wild))
        await until(lambda: alice.types == ["DELIVER"])
        assert alice.received[0].out_of_order is not None
        assert "NEGOTIATING" in alice.received[0].out_of_order
        assert alice.node.statistics().out_of_order == 1
        (kept,) = await alice.node.read_inbox(0, 10)
        assert kept == alice.received[0]
        assert bob.types == ["PROPOSE"]  # no answer
        for step in steps[1:]:
            await do(step, {"alice": alice, "bob": bob})


async def test_what_cannot_be_sent_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async with two(tmp_path) as (alice, bob):
        stranger = bytes(31) + b"\x01"
        offer = Propose(amount=1, message="x").encode()
        for status, msg_type, payload, recipient in (
            (400, MsgType.BEACON, b"", None),
            (400, MsgType.PROPOSE, offer, None),
            (400, MsgType.PROPOSE, offer, alice.id),
            (400, MsgType.BROADCAST, b"", None),
            (503, MsgType.PROPOSE, offer, stranger),
            (409, MsgType.ACCEPT, Accept(amount=1).encode(), bob.id),
            (409, MsgType.PROPOSE, (2**64).to_bytes(16, "little") + b"{}", bob.id),
            (413, MsgType.PROPOSE, offer + bytes(70_000), bob.id),
        ):
            with pytest.raises(NodeRefused) as refused:
                await alice.node.send(msg_type, payload, recipient=recipient, conversation_id=TALK)
            assert refused.value.status == status
        assert await alice.node.batch(epoch_of(int(time.time()))) is not None  # Bob's BEACON
        await alice.node.send(MsgType.PROPOSE, offer, recipient=bob.id, conversation_id=TALK)
        await until(lambda: bob.types == ["PROPOSE"])


async def test_topics_reach_those_that_watch_them(tmp_path: Path) -> None:
    async with two(tmp_path) as (alice, bob):
        payload = Broadcast(topic="news", title="hello", tags=(), format="text", content=b"hi").encode()
        unwatch = bob.node.watch_topic("news")
        again = bob.node.watch_topic("news")
        await until(lambda: bob.id in alice.node._host.peers_in("/0x01/v1/t/news"))
        await alice.node.send(MsgType.BROADCAST, payload, conversation_id=NO_CONVERSATION)
        await until(lambda: bob.types == ["BROADCAST"])
        unwatch()
        unwatch()
        assert bob.id in alice.node._host.peers_in("/0x01/v1/t/news")
        again()
        await until(lambda: bob.id not in alice.node._host.peers_in("/0x01/v1/t/news"))
        assert alice.node.statistics().topics == 4  # an agent that speaks in a topic hears it too
        with pytest.raises(NodeRefused, match="bytes"):
            bob.node.watch_topic("")
        for number in range(256):
            bob.node.watch_topic(str(number))
        with pytest.raises(NodeRefused, match="256"):
            bob.node.watch_topic("one more")


async def test_agents_are_known_from_their_beacons(tmp_path: Path) -> None:
    async with two(tmp_path) as (alice, bob):
        (known,) = alice.node.peers()
        assert (known.agent_id, known.name) == (bob.id, "bob")
        assert known.peer_id.startswith("12D3KooW")
        assert known.last_active_epoch == epoch_of(int(time.time()))
        assert [event.name for event in alice.events if isinstance(event, PeerRegistered)] == ["bob"]
        unrated = await alice.node.reputation(bob.id)
        assert unrated is not None
        assert (unrated.total_tasks, unrated.last_active_epoch) == (0, known.last_active_epoch)
        assert await alice.node.reputation(bytes(32)) is None


async def test_the_file_of_the_epoch_is_the_log(tmp_path: Path) -> None:
    async with two(tmp_path) as (alice, bob):
        for step in deal(alice.id, bob.id):
            await do(step, {"alice": alice, "bob": bob})
        await until(lambda: alice.node.statistics().pending == 0)
        epoch = epoch_of(int(time.time()))
        batch = await alice.node.batch(epoch)
        own = [each.envelope for each in await alice.node.read_inbox(0, 100)]
    assert batch is not None
    logged = list(frames((tmp_path / "alice" / log_name(epoch)).read_bytes()))
    assert merkle.root([merkle.leaf(each) for each in logged]) == batch.log_merkle_root
    assert len(logged) == batch.message_count
    assert {encode(each) for each in own} < set(logged)


async def test_the_end_of_an_epoch(tmp_path: Path) -> None:
    made_up = MadeUpTime()
    epoch, began = 20_000, made_up.now()

    def clock() -> float:
        return (epoch + 1) * EPOCH_SECONDS - 5 + (made_up.now() - began) / 1000

    async with life(options(tmp_path, "alice", address=None), clock, made_up) as alice:
        offer = Advertise(capabilities=("x",)).encode()
        await alice.node.send(MsgType.ADVERTISE, offer, conversation_id=TALK)
        for _ in range(200):
            made_up.pass_by(1000)
            await asyncio.sleep(0.002)
            if any(isinstance(event, BatchClosed) for event in alice.events):
                break
        (closed,) = [event for event in alice.events if isinstance(event, BatchClosed)]
        assert closed.batch == await alice.node.batch(epoch)
        assert (closed.batch.epoch, closed.batch.message_count) == (epoch, 1)
        await alice.node.send(MsgType.ADVERTISE, offer, conversation_id=TALK)
    assert sorted(path.name for path in (tmp_path / "alice").glob("*.cbor")) == [
        "zerox1-epoch-020000.cbor",
        "zerox1-epoch-020001.cbor",
    ]
    assert await _id_of(tmp_path, "alice") == alice.id  # and it opens again


async def test_two_nodes_cannot_share_a_directory_or_an_address(tmp_path: Path) -> None:
    async with life(options(tmp_path, "alice")) as alice:
        with pytest.raises(UsageError, match="another"):
            async with life(options(tmp_path, "alice")):
                raise AssertionError
        with pytest.raises(UsageError, match="cannot listen"):
            async with life(options(tmp_path, "bob", address=moved(alice.node.address))):
                raise AssertionError
    async with life(options(tmp_path, "bob")) as bob:  # what was opened was closed
        assert bob.node.name == "bob"


def test_the_name_of_an_agent_that_chose_none(tmp_path: Path) -> None:
    node = Node(NodeOptions(seed=seed("alice"), log_dir=tmp_path, listen_addr=LOOPBACK))
    assert node.name == node.agent_id.hex()[:8]

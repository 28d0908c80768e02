"""Notaries: how they are chosen, told, and heard by nodes that do not know the conversation."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from moothall.errors import NodeRefused
from moothall.wire.mesh.envelope import NO_CONVERSATION, decode, encode
from moothall.wire.mesh.epochs import log_name
from moothall.wire.mesh.frames import frames
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.notaries import BidType, Judgement, NotarizeBid, Verdict
from moothall.wire.mesh.outcomes import Feedback, Outcome
from tests.support.nodes import TALK, Life, deal, do, life, met, options, until


async def told(alive: Life, msg_type: str, count: int = 1) -> None:
    await until(lambda: alive.types.count(msg_type) >= count)


@asynccontextmanager
async def beside(folder: Path, *others: Life) -> AsyncIterator[Life]:
    """Nora, who is connected to the others: a node passes on no bilateral envelopes."""
    addresses = [other.node.address for other in others]
    async with life(options(folder, "nora", *(each for each in addresses if each is not None))) as nora:
        yield nora


async def test_the_node_that_accepts_assigns_the_notary(tmp_path: Path) -> None:
    async with life(options(tmp_path, "alice")) as alice:
        hub = alice.node.address
        assert hub is not None
        async with life(options(tmp_path, "bob", hub)) as bob, beside(tmp_path, alice, bob) as nora:
            await met(alice, bob)
            await met(alice, nora)
            await met(bob, nora)
            lives, steps = {"alice": alice, "bob": bob}, deal(alice.id, bob.id)
            await do(steps[0], lives)
            await do(steps[1], lives)
            wish = NotarizeBid(BidType.REQUEST, TALK).encode()
            await alice.node.send(MsgType.NOTARIZE_BID, wish, conversation_id=TALK)
            await told(bob, "NOTARIZE_BID")
            await told(nora, "NOTARIZE_BID")
            offer = NotarizeBid(BidType.OFFER, TALK).encode()
            await nora.node.send(MsgType.NOTARIZE_BID, offer, conversation_id=TALK)
            await told(alice, "NOTARIZE_BID")
            await told(bob, "NOTARIZE_BID", 2)
            with pytest.raises(NodeRefused, match="out of order"):  # before it is assigned
                await nora.node.send(
                    MsgType.VERDICT,
                    Verdict(Judgement.APPROVE, alice.id, bob.id).encode(),
                    recipient=alice.id,
                    conversation_id=TALK,
                )
            await do(steps[2], lives)
            await told(nora, "NOTARIZE_ASSIGN")
            assigned = next(
                each for each in nora.received if each.envelope.msg_type is MsgType.NOTARIZE_ASSIGN
            )
            assert assigned.envelope.sender == alice.id
            assert assigned.out_of_order is None
            await do(steps[3], lives)
            for party in (alice, bob):
                verdict = Verdict(Judgement.APPROVE, alice.id, bob.id).encode()
                await nora.node.send(MsgType.VERDICT, verdict, recipient=party.id, conversation_id=TALK)
                await told(party, "VERDICT")
                assert party.received[-1].out_of_order is None
            for step in steps[5:]:
                await do(step, lives)
            assert alice.node.statistics().out_of_order == bob.node.statistics().out_of_order == 0
    # As in the reference, the node does not log what it assigned by itself, and the notary logs what it got.
    assert "NOTARIZE_ASSIGN" not in logged(tmp_path / "alice")
    assert "NOTARIZE_ASSIGN" in logged(tmp_path / "nora")
    assert "BEACON" in logged(tmp_path / "nora")


def logged(folder: Path) -> list[str]:
    (path,) = folder.glob("*.cbor")
    assert log_name(int(path.stem.rpartition("-")[2])) == path.name
    return [decode(each).msg_type.name for each in frames(path.read_bytes())]


async def test_a_notary_that_this_node_hosts_is_told(tmp_path: Path) -> None:
    async with life(options(tmp_path, "alice")) as alice:
        assert alice.node.address is not None
        async with life(options(tmp_path, "bob", alice.node.address)) as bob:
            await met(alice, bob)
            lives, steps = {"alice": alice, "bob": bob}, deal(alice.id, bob.id)
            notary, token = await alice.node.hosted.register()
            offer = NotarizeBid(BidType.OFFER, NO_CONVERSATION).encode()
            await alice.node.hosted.send(token, MsgType.NOTARIZE_BID, offer, conversation_id=NO_CONVERSATION)
            await told(bob, "NOTARIZE_BID")
            await do(steps[0], lives)
            await do(steps[1], lives)
            wish = NotarizeBid(BidType.REQUEST, TALK).encode()
            await alice.node.send(MsgType.NOTARIZE_BID, wish, conversation_id=TALK)
            await told(bob, "NOTARIZE_BID", 2)
            await do(steps[2], lives)
            await until(lambda: alice.node.statistics().pending == 0)
            inbox = await alice.node.hosted.read_inbox(token, 0, 10)
            assert [each.envelope.msg_type for each in inbox] == [MsgType.NOTARIZE_ASSIGN]
            assert inbox[0].envelope.recipient == notary


async def test_strangers_rate_each_other_without_effect(tmp_path: Path) -> None:
    async with life(options(tmp_path, "alice")) as alice:
        assert alice.node.address is not None
        async with life(options(tmp_path, "bob", alice.node.address)) as bob:
            await met(alice, bob)
            rating = Feedback(
                conversation_id=TALK, target_agent=alice.id, score=-100, outcome=Outcome.NEGATIVE
            ).encode()
            with pytest.raises(NodeRefused, match="out of order"):
                await bob.node.send(MsgType.FEEDBACK, rating, conversation_id=TALK)
            host = bob.node._host  # as a node without a state machine would
            wild = bob.node._signers.seal(bob.id, MsgType.FEEDBACK, rating, conversation_id=TALK)
            host.publish("/0x01/v1/reputation", encode(wild))
            await told(alice, "FEEDBACK")
            assert alice.received[-1].out_of_order is None
            seen = await alice.node.reputation(alice.id)
            assert seen is not None
            assert seen.total_tasks == 0

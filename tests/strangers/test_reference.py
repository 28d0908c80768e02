"""Our host and the reference node: all types of messages in both directions, and what both refuse."""

import base64
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import structs

from moothall.identity.signatures import sign, verify
from moothall.market.behaviour import Batch
from moothall.wire.mesh import merkle
from moothall.wire.mesh.announcements import Beacon
from moothall.wire.mesh.envelope import NO_RECIPIENT, Envelope, decode, encode, signing_bytes
from moothall.wire.mesh.epochs import log_name
from moothall.wire.mesh.faults import EnvelopeRefused
from moothall.wire.mesh.frames import frame, frames
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import (
    BILATERAL,
    BROADCAST_TOPIC,
    NAMED_TOPIC,
    NOTARY_TOPIC,
    REPUTATION_TOPIC,
    MsgType,
)
from moothall.wire.mesh.nonces import ReplayGuard
from moothall.wire.mesh.offers import Accept, Counter, Propose
from moothall.wire.mesh.outcomes import Deliver
from moothall.wire.mesh.validation import topic_of, validate
from tests.strangers.ours import Ours, StartHost
from tests.strangers.reference import Clock, Reference, StartReference
from tests.support.mesh import AGENTS, ENVELOPES, SEEDS, VECTORS

TOPICS: Final = (BROADCAST_TOPIC, NOTARY_TOPIC, REPUTATION_TOPIC)
DEMO: Final = "data:demo"
CONVERSATION: Final = bytes(range(16))
EPOCH: Final = 20_454  # of the vectors
MIDNIGHT: Final = EPOCH * 86_400
EMITTED: Final = frozenset(MsgType) - {MsgType.BEACON, MsgType.BOUNTY}
TAKEN: Final = ("trailing byte after the array", "non-minimal nonce encoding")
TAKEN_BEACON: Final = "BEACON key substitution: sender=A, payload verifying key=B, signed by B"


def payload_of(msg_type: MsgType) -> bytes:
    return bytes.fromhex(ENVELOPES[msg_type.name]["payload_hex"])


async def meet(ours: Ours, node: Reference) -> None:
    """Connected, and each in the topics of the other."""
    for topic in (*TOPICS, NAMED_TOPIC + DEMO):
        ours.host.join(topic)
    await ours.host.dial(node.address)
    await ours.until(lambda: {(node.id, topic) for topic in TOPICS} <= ours.resident.joined_topics)
    await node.identifies(ours.id)


async def pass_on(ours: Ours, node: Reference, envelope: bytes, topic: str | None) -> None:
    await node.pace()
    if topic is None:
        await ours.host.send(node.id, envelope)
    else:
        assert ours.host.publish(topic, envelope) == 1


async def test_all_types_that_it_emits_are_rebuilt_byte_for_byte(
    reference: StartReference, host: StartHost
) -> None:
    node = await reference("reference", SEEDS["A"])
    ours = await host()
    await meet(ours, node)
    said: dict[MsgType, Any] = {}
    for msg_type in sorted(EMITTED):
        recipient = ours.id if msg_type in BILATERAL else None
        said[msg_type] = await node.send(
            msg_type.name, payload_of(msg_type), recipient=recipient, conversation_id=CONVERSATION
        )
    await ours.until(lambda: len(ours.resident.envelopes) == 8 and len(ours.resident.messages) == 6)
    got = {decode(raw).msg_type: raw for raw in (*ours.envelopes(), *ours.messages())}
    assert got.keys() == EMITTED | {MsgType.BEACON}
    for msg_type, raw in got.items():
        payload = payload_of(msg_type)
        conversation_id = CONVERSATION
        if msg_type is MsgType.DELIVER:  # it wraps what it is given
            payload = Deliver(conversation_id=CONVERSATION, inline=payload).encode()
        elif msg_type is MsgType.BEACON:
            payload, conversation_id = Beacon(AGENTS["A"], "reference").encode(), bytes(16)
        made = rebuilt(decode(raw), payload, ours.id, conversation_id)
        assert encode(made) == raw
        if msg_type in said:
            assert said[msg_type] == {"nonce": made.nonce, "payload_hash": keccak256(payload).hex()}
            validate(made, topic=topic_of(made), verify=verify, guard=ReplayGuard(), now=made.timestamp)


def rebuilt(like: Envelope, payload: bytes, recipient: bytes, conversation_id: bytes) -> Envelope:
    """From the seed of A, and from what only the node can know: time and number."""
    made = Envelope(
        1,
        like.msg_type,
        AGENTS["A"],
        recipient if like.msg_type in BILATERAL else NO_RECIPIENT,
        like.timestamp,
        like.block_ref,
        like.nonce,
        conversation_id,
        keccak256(payload),
        len(payload),
        payload,
        b"",
    )
    return structs.replace(made, signature=sign(SEEDS["A"], signing_bytes(made)))


async def test_offers_that_it_words_are_read(reference: StartReference, host: StartHost) -> None:
    node = await reference("reference", SEEDS["A"])
    ours = await host()
    await meet(ours, node)
    common = {
        "recipient": ours.id.hex(),
        "conversation_id": CONVERSATION.hex(),
        "amount_usdc_micro": 2_000_000,
    }
    await node.ask("/negotiate/propose", {**common, "message": "translate", "max_rounds": 3})
    await node.ask("/negotiate/counter", {**common, "message": "less", "round": 1, "max_rounds": 3})
    await node.ask("/negotiate/accept", {**common, "message": "yes"})
    await ours.until(lambda: len(ours.resident.envelopes) == 3)
    propose, counter, accept = (decode(raw).payload for raw in ours.envelopes())
    assert Propose.decode(propose) == Propose(amount=2_000_000, message="translate", max_rounds=3)
    assert Counter.decode(counter) == Counter(amount=2_000_000, message="less", round=1, max_rounds=3)
    assert Accept.decode(accept) == Accept(amount=2_000_000, message="yes")


async def test_envelopes_of_all_types_reach_its_inbox(reference: StartReference, host: StartHost) -> None:
    node = await reference("reference", SEEDS["A"])
    ours = await host()
    await meet(ours, node)
    sent = []
    async with node.watching(DEMO):
        await ours.until(lambda: (node.id, NAMED_TOPIC + DEMO) in ours.resident.joined_topics)
        for msg_type in MsgType:
            recipient = node.id if msg_type in BILATERAL else NO_RECIPIENT
            payload = payload_of(msg_type)
            if msg_type is MsgType.BEACON:
                payload = Beacon(ours.id, "ours").encode()
            made = ours.seal(msg_type, payload, recipient, CONVERSATION)
            await pass_on(ours, node, encode(made), topic_of(made))
            sent.append(made)
        received = await node.received(*(made.nonce for made in sent))
    for made, got in zip(sent, received, strict=True):
        assert got["msg_type"] == made.msg_type.name
        assert (got["sender"], got["recipient"]) == (made.sender.hex(), made.recipient.hex())
        assert got["conversation_id"] == made.conversation_id.hex()
        assert base64.b64decode(got["payload_b64"]) == made.payload
    parsed = {got["msg_type"]: got for got in received}
    assert parsed["FEEDBACK"]["feedback"]["score"] == 80
    assert parsed["NOTARIZE_BID"]["notarize_bid"]["bid_type"] == 1
    assert {"agent_id": ours.id.hex()}.items() <= (await node.ask("/peers"))[0].items()


# -- at the time of the vectors ----------------------------------------------------------------------------


@pytest.fixture
async def at_midnight(
    reference: StartReference, host: StartHost, tmp_path: Path
) -> tuple[Reference, Clock, dict[str, Ours]]:
    """A node at the time of the vectors, which knows A, B and N."""
    clock = Clock(tmp_path / "reference")
    clock.set(MIDNIGHT + 7)  # within 30 seconds of all of them
    node = await reference("reference", b"R" * 32, clock=clock)
    agents = {name: await host(name, seed=SEEDS[name]) for name in "ABN"}
    for ours in agents.values():
        await meet(ours, node)
    return node, clock, agents


async def test_the_vectors_and_its_log_and_batch(
    at_midnight: tuple[Reference, Clock, dict[str, Ours]],
) -> None:
    node, clock, agents = at_midnight
    raws = [bytes.fromhex(vector["envelope_cbor_hex"]) for vector in ENVELOPES.values()]
    async with node.watching(DEMO):
        await agents["A"].until(lambda: (node.id, NAMED_TOPIC + DEMO) in agents["A"].resident.joined_topics)
        for vector, raw in zip(ENVELOPES.values(), raws, strict=True):
            await pass_on(agents[vector["signer"]], node, raw, vector["topic"])
        await node.received(*(decode(raw).nonce for raw in raws))
    assert [got["msg_type"] for got in node.inbox] == list(ENVELOPES)
    clock.pass_by(86_400)
    await node.logged(f"Epoch {EPOCH} batch finalised")
    log = (node.state / log_name(EPOCH)).read_bytes()
    assert list(frames(log)) == raws
    assert log == b"".join(map(frame, raws))
    root = merkle.root([merkle.leaf(raw) for raw in raws])
    answer = await node.ask(f"/batch/{node.id.hex()}/{EPOCH}")
    assert answer["log_merkle_root"] == root.hex()
    assert answer["message_count"] == len(raws)
    batch = Batch(node.id, EPOCH)
    for raw in raws:
        batch.add(decode(raw), 0)  # it has no chain, and so no slots
    # It counts each VERDICT that it sees as a task.
    whole = structs.replace(batch.finished(root), slot_start=0, slot_end=0, tasks_completed=1)
    assert answer["batch_hash"] == whole.hash().hex()


@pytest.mark.parametrize("taken", TAKEN)
async def test_negatives_are_refused_by_both(
    at_midnight: tuple[Reference, Clock, dict[str, Ours]], taken: str
) -> None:
    """But for three, which it takes and we must not. Two of them have the same nonce, so each gets its own node."""
    node, _, agents = at_midnight
    negatives = {vector["name"]: bytes.fromhex(vector["envelope_cbor_hex"]) for vector in VECTORS["negative"]}
    for name, raw in negatives.items():
        assert is_refused(raw), name
        if name not in (*TAKEN, TAKEN_BEACON):
            await pass_on(agents["A"], node, raw, None)
    await pass_on(agents["A"], node, negatives[taken], None)
    await pass_on(agents["A"], node, negatives[TAKEN_BEACON], BROADCAST_TOPIC)
    await node.until(lambda: len(node.inbox) >= 2)
    assert [(got["msg_type"], got["nonce"]) for got in node.inbox] == [("PROPOSE", 3), ("BEACON", 21)]


def is_refused(raw: bytes) -> bool:
    try:
        envelope = decode(raw)
        validate(
            envelope,
            topic=topic_of(envelope),
            verify=verify,
            guard=ReplayGuard(),
            now=(MIDNIGHT + 7) * 1_000_000,
        )
    except EnvelopeRefused:
        return True
    return False

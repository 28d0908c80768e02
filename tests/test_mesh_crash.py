"""A whole deal on the mesh, from DISCOVER to FEEDBACK with notary and escrow, over real sockets.

The hall is killed without warning between any two messages. What it acknowledged is a fact, what it did not
acknowledge happened wholly or not at all, and the books balance. No agent is connected while another one sends, so
all of them find their mail in inboxes that survive.
"""

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moothall.identity import PrivateKey
from moothall.wire.mesh.announcements import Advertise, Beacon, Discover
from moothall.wire.mesh.envelope import NO_CONVERSATION, NO_RECIPIENT, decode
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.notaries import BidType, Judgement, NotarizeBid, Verdict
from moothall.wire.mesh.offers import Accept, Counter, Propose
from moothall.wire.mesh.outcomes import Deliver, Feedback, Outcome, Role
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.support.mesh_peer import MeshPeer, mesh_peer
from tests.support.server import HallProcess, run_moothall, running_hall

pytestmark = pytest.mark.slow

TALK = bytes(range(1, 17))
CREDIT = 1_000_000
A, B, N = ALICE.public.raw, BOB.public.raw, CAROL.public.raw  # requester, provider, notary
APPROVAL = Verdict(Judgement.APPROVE, A, B).encode()


def feedback(target: bytes, role: Role = Role.PARTICIPANT) -> bytes:
    return Feedback(
        conversation_id=TALK, target_agent=target, score=90, outcome=Outcome.POSITIVE, role=role
    ).encode()


class Message(NamedTuple):
    sender: PrivateKey
    msg_type: MsgType
    payload: bytes
    to: bytes = NO_RECIPIENT
    state: str | None = None  # of the conversation, as its sender sees it afterwards


DEAL = (
    Message(BOB, MsgType.BEACON, Beacon(B, "bob").encode()),
    Message(BOB, MsgType.ADVERTISE, Advertise(capabilities=("ocr",)).encode()),
    Message(ALICE, MsgType.DISCOVER, Discover("ocr").encode()),
    Message(ALICE, MsgType.PROPOSE, Propose(amount=8 * CREDIT).encode(), B, "NEGOTIATING"),
    Message(BOB, MsgType.COUNTER, Counter(amount=10 * CREDIT).encode(), A, "NEGOTIATING"),
    Message(BOB, MsgType.NOTARIZE_BID, NotarizeBid(BidType.REQUEST, TALK).encode()),
    Message(CAROL, MsgType.NOTARIZE_BID, NotarizeBid(BidType.OFFER, TALK).encode()),
    Message(ALICE, MsgType.ACCEPT, Accept(amount=10 * CREDIT).encode(), B, "COMMITTED"),
    Message(BOB, MsgType.DELIVER, Deliver(conversation_id=TALK, inline=b"work").encode(), A, "DELIVERED"),
    Message(CAROL, MsgType.VERDICT, APPROVAL, A, "RESOLVED"),
    Message(CAROL, MsgType.VERDICT, APPROVAL, B, "RESOLVED"),
    Message(ALICE, MsgType.FEEDBACK, feedback(B), state="CLOSED"),
    Message(ALICE, MsgType.FEEDBACK, feedback(N, Role.NOTARY), state="CLOSED"),
    Message(BOB, MsgType.FEEDBACK, feedback(A), state="CLOSED"),
)
LOGGED = [message for message in DEAL if message.state is not None]


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[HallProcess]:
    with running_hall(tmp_path, "--set", "mesh_inbox=store", "--no-keep") as hall:
        deposit = run_moothall(tmp_path, "ledger", "deposit", A.hex(), "20", "--data-dir", "data")
        assert deposit.returncode == 0, deposit.stderr
        yield hall


def restart(hall: HallProcess) -> None:
    hall.kill()
    hall.restart()


def conversation_of(message: Message) -> bytes:
    return TALK if message.state is not None or message.to != NO_RECIPIENT else NO_CONVERSATION


async def send(peer: MeshPeer, message: Message) -> dict[str, Any]:
    talk = conversation_of(message)
    return await peer.send(message.msg_type, message.payload, message.to, talk)


async def read_inbox(hall: HallProcess, agent: PrivateKey) -> list[tuple[str, bytes]]:
    """Types and senders, the oldest first."""
    async with mesh_peer(hall.url, agent) as peer:
        inbox = await peer.ask("inbox")
        assert (inbox["lost"], inbox["more"]) == (0, False)
        mail = [decode(b64decode(each["envelope"])) for each in inbox["envelopes"]]
        again = await peer.ask("inbox", after=inbox["cursor"])
        assert again["envelopes"] == []
        return [(envelope.msg_type.name, envelope.sender) for envelope in mail]


def without_repeats(types: Iterable[str]) -> list[str]:
    return [each for each, _ in groupby(types)]


async def assert_done(hall: HallProcess, *, may_repeat: bool = False) -> None:
    """The deal is settled: as the agents see it, and as the operator does."""
    async with mesh_peer(hall.url, ALICE) as alice, mesh_peer(hall.url, BOB) as bob:
        assert (await alice.ask("balance"))["balance"] == 9 * CREDIT
        assert (await bob.ask("balance"))["balance"] == 9_950_000
        shown = await alice.ask("conversation", conversation_id=TALK.hex())
        assert shown["conversation"]["state"] == "CLOSED"
        assert shown["conversation"]["notary"] == N.hex()
        assert shown["escrow"]["settled"] == "approve"
        types = [each["msg_type"] for each in shown["history"] if each["sender"] != hall.key.raw.hex()]
        expected = [message.msg_type.name for message in LOGGED]
        if may_repeat:
            types, expected = without_repeats(types), without_repeats(expected)
        assert types == expected
        provider = await alice.ask("reputation", agent_id=B.hex())
        assert (provider["total_tasks"], provider["reliability"], provider["transactions"]) == (1, 90_000, 1)
        notary = await alice.ask("reputation", agent_id=N.hex())
        assert (notary["total_notarized"], notary["notary_accuracy"]) == (1, 90_000)
    async with mesh_peer(hall.url, CAROL) as carol:
        assert (await carol.ask("balance"))["balance"] == CREDIT
    check = run_moothall(hall.folder, "store", "check", "--data-dir", "data")
    assert check.returncode == 0, check.stdout + check.stderr
    ledger = run_moothall(hall.folder, "ledger", "check", "--data-dir", "data")
    assert ledger.returncode == 0, ledger.stdout + ledger.stderr


async def test_a_hall_that_is_killed_after_every_message_forgets_none(hall: HallProcess) -> None:
    for message in DEAL:
        async with mesh_peer(hall.url, message.sender) as peer:
            told = await send(peer, message)
            assert (told["type"], told.get("state")) == ("accepted", message.state), told
            if message.msg_type is MsgType.DISCOVER:
                [found] = (await peer.notice("discover_results"))["results"]
                assert (found["agent_id"], found["online"]) == (B.hex(), False)
            if message.to != NO_RECIPIENT:
                assert (await peer.notice("offline"))["stored"]
            restart(hall)
    await assert_done(hall)
    assert await read_inbox(hall, ALICE) == [("COUNTER", B), ("DELIVER", B), ("VERDICT", N)]
    assert await read_inbox(hall, BOB) == [("PROPOSE", A), ("ACCEPT", A), ("VERDICT", N)]
    assert await read_inbox(hall, CAROL) == [("NOTARIZE_ASSIGN", hall.key.raw)]


async def test_a_message_without_an_answer_happened_wholly_or_not_at_all(hall: HallProcess) -> None:
    """Its sender tries again with a new envelope: the state says whether that is out of order."""
    for message in DEAL:
        async with mesh_peer(hall.url, message.sender) as peer:
            talk = conversation_of(message)
            await peer.post(peer.seal(message.msg_type, message.payload, message.to, talk))
            restart(hall)
        async with mesh_peer(hall.url, message.sender) as peer:
            told = await send(peer, message)
            assert told["type"] in ("accepted", "out_of_order"), told
            if message.state is not None:
                assert told["state"] == message.state
    # What the hall had taken before it was killed is in the history a second time: a resend is in order.
    await assert_done(hall, may_repeat=True)


async def test_an_accept_without_cover_is_refused_and_changes_nothing(hall: HallProcess) -> None:
    async with mesh_peer(hall.url, ALICE) as alice, mesh_peer(hall.url, BOB) as bob:
        offer = Message(ALICE, MsgType.PROPOSE, Propose(amount=30 * CREDIT).encode(), B, "NEGOTIATING")
        assert (await send(alice, offer))["type"] == "accepted"
        await bob.envelope(MsgType.PROPOSE)
        answer = Message(BOB, MsgType.ACCEPT, Accept(amount=30 * CREDIT).encode(), A, "COMMITTED")
        told = await send(bob, answer)
        assert (told["type"], told["fault"]) == ("refused", "NoCover")
        shown = await alice.ask("conversation", conversation_id=TALK.hex())
        assert (shown["conversation"]["state"], len(shown["history"])) == ("NEGOTIATING", 1)
        assert (await alice.ask("balance"))["balance"] == 20 * CREDIT
        assert alice.envelopes == []
    status, _, body = await hall.get("/health")
    assert status == 200
    assert "conversations" in json.loads(body)

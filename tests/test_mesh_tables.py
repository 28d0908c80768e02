"""The three message tables of the specification, in a real hall: a test for each row, and one for each edge of the
diagram. A asks for work, B does it, N is the notary."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from moothall import Agent
from moothall.app import App
from moothall.identity import PrivateKey
from moothall.settings import Settings
from moothall.store.files import DataDirectory
from moothall.wire.mesh.announcements import Advertise, Beacon, Discover
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.notaries import BidType, Judgement, NotarizeAssign, NotarizeBid, Verdict
from moothall.wire.mesh.offers import Accept, Counter, Propose
from moothall.wire.mesh.outcomes import Deliver, Feedback, Outcome, Role
from moothall.wire.mesh.reasons import Dispute, Reject
from tests.store.support import Log, Place
from tests.support.mesh_peer import MeshPeer, mesh_peer
from tests.support.talks import Talks

CREDIT: Final = 1_000_000
TALK: Final = bytes(range(1, 17))
A, B, N = (PrivateKey(bytes([number]) * 32) for number in (21, 22, 23))


class Mesh:
    """The hall, and three agents that have proven their keys."""

    def __init__(self, app: App, a: MeshPeer, b: MeshPeer, n: MeshPeer) -> None:
        self.app, self.a, self.b, self.n = app, a, b, n

    async def step(
        self, sender: MeshPeer, msg_type: MsgType, payload: Any, to: MeshPeer | None = None
    ) -> str:
        """The state after a message that the hall took. Its recipient has it."""
        fields = {} if to is None else {"to": to.id}
        answer = await sender.send(msg_type, payload.encode(), talk=TALK, **fields)
        assert answer["type"] == "accepted", answer
        if to is not None:
            assert (await to.envelope(msg_type)).payload == payload.encode()
        return str(answer.get("state"))

    async def propose(self, amount: int = 0) -> str:
        return await self.step(self.a, MsgType.PROPOSE, Propose(amount=amount), self.b)

    async def accept(self, amount: int = 0) -> str:
        return await self.step(self.b, MsgType.ACCEPT, Accept(amount=amount), self.a)

    async def bid(self, sender: MeshPeer, kind: BidType) -> None:
        await self.step(sender, MsgType.NOTARIZE_BID, NotarizeBid(kind, TALK))

    async def commit(self, amount: int = 0, *, notary: bool = False) -> str:
        await self.propose(amount)
        if notary:
            await self.bid(self.a, BidType.REQUEST)
            await self.bid(self.n, BidType.OFFER)
        return await self.accept(amount)

    async def deliver(self) -> str:
        return await self.step(self.b, MsgType.DELIVER, Deliver(conversation_id=TALK, inline=b"work"), self.a)

    async def verdict(self, sender: MeshPeer, to: MeshPeer, judgement: Judgement = Judgement.APPROVE) -> str:
        return await self.step(sender, MsgType.VERDICT, Verdict(judgement, self.a.id, self.b.id), to)

    async def dispute(self, to: MeshPeer) -> str:
        return await self.step(self.a, MsgType.DISPUTE, Dispute("not what was agreed"), to)

    async def feedback(self) -> str:
        rating = Feedback(
            conversation_id=TALK,
            target_agent=self.b.id,
            score=90,
            outcome=Outcome.POSITIVE,
            is_dispute=False,
            role=Role.PARTICIPANT,
        )
        return await self.step(self.a, MsgType.FEEDBACK, rating)

    async def shown(self) -> Any:
        return await self.a.ask("conversation", conversation_id=TALK.hex())

    async def balances(self) -> list[int]:
        return [(await agent.ask("balance"))["balance"] for agent in (self.a, self.b, self.n)]


@pytest.fixture(params=[60])
async def mesh(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Mesh]:
    """The parameter is `mesh_review`."""
    talks = Talks(Place(DataDirectory(tmp_path / "data"), ""))
    talks.deposit(A.public.raw, 10 * CREDIT)
    talks.close()
    settings = Settings(data_dir=tmp_path / "data", port=0, keep=False, mesh_review=request.param)
    async with App(settings, Log()) as app, AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(mesh_peer(app.url, key)) for key in (A, B, N)]
        yield Mesh(app, *peers)


# -- broadcast messages: any agent to all -------------------------------------------------------------------


async def test_advertise_tells_all_what_an_agent_offers(mesh: Mesh) -> None:
    offer = Advertise(capabilities=("translate",), price_range_usd=(1.0, 5.0), extra={"services": ["de"]})
    await mesh.step(mesh.b, MsgType.ADVERTISE, offer)
    for other in (mesh.a, mesh.n):
        assert Advertise.decode((await other.envelope(MsgType.ADVERTISE)).payload) == offer


async def test_discover_asks_all_and_finds_what_was_advertised(mesh: Mesh) -> None:
    await mesh.step(mesh.b, MsgType.BEACON, Beacon(mesh.b.id, "ben"))
    await mesh.step(mesh.b, MsgType.ADVERTISE, Advertise(capabilities=("translate",)))
    await mesh.step(mesh.a, MsgType.DISCOVER, Discover("translate"))
    for other in (mesh.b, mesh.n):
        assert Discover.decode((await other.envelope(MsgType.DISCOVER)).payload).query == "translate"
    (found,) = (await mesh.a.notice("discover_results"))["results"]
    assert (found["agent_id"], found["online"]) == (mesh.b.id.hex(), True)


async def test_beacon_keeps_an_agent_visible_and_carries_its_identity(mesh: Mesh) -> None:
    await mesh.step(mesh.b, MsgType.BEACON, Beacon(mesh.b.id, "ben"))
    for other in (mesh.a, mesh.n):
        beacon = Beacon.decode((await other.envelope(MsgType.BEACON)).payload)
        assert (beacon.agent_id, beacon.name) == (mesh.b.id, "ben")
    async with Agent("watcher").connected(mesh.app.url) as watcher:
        (member,) = await watcher.agents([B.public.agent_id()])
        assert (member.name, member.via) == ("ben", "mesh")


# -- bilateral messages ---------------------------------------------------------------------------------------


async def test_propose_goes_from_a_to_b_and_moves_no_credits(mesh: Mesh) -> None:
    assert await mesh.propose(2 * CREDIT) == "NEGOTIATING"
    assert await mesh.balances() == [10 * CREDIT, 0, 0]
    assert "escrow" not in await mesh.shown()


async def test_counter_goes_from_b_to_a_with_a_modified_deal(mesh: Mesh) -> None:
    await mesh.propose(2 * CREDIT)
    state = await mesh.step(mesh.b, MsgType.COUNTER, Counter(amount=3 * CREDIT), mesh.a)
    assert (state, (await mesh.shown())["conversation"]["amount"]) == ("NEGOTIATING", 3 * CREDIT)


@pytest.mark.parametrize("amount", [0, 2 * CREDIT])
async def test_accept_locks_the_payment_if_there_is_a_bid_value(mesh: Mesh, amount: int) -> None:
    assert await mesh.commit(amount) == "COMMITTED"
    assert await mesh.balances() == [10 * CREDIT - amount, 0, 0]
    assert (await mesh.shown()).get("escrow", {}).get("amount", 0) == amount


async def test_reject_ends_the_conversation(mesh: Mesh) -> None:
    await mesh.propose()
    assert await mesh.step(mesh.b, MsgType.REJECT, Reject("no time"), mesh.a) == "CLOSED"
    again = await mesh.a.send(MsgType.PROPOSE, Propose().encode(), to=mesh.b.id, talk=TALK)
    assert (again["type"], again["state"]) == ("out_of_order", "CLOSED")


@pytest.mark.parametrize("mesh", [1], indirect=True)
async def test_deliver_goes_from_b_to_a_and_triggers_the_approval(mesh: Mesh) -> None:
    await mesh.commit(2 * CREDIT)
    assert await mesh.deliver() == "DELIVERED"
    notice = await mesh.a.notice("conversation_changed")
    assert (notice["state"], notice["cause"]) == ("RESOLVED", "review")
    assert await mesh.balances() == [8 * CREDIT, 1_990_000, 0]
    assert await mesh.feedback() == "CLOSED"


async def test_notarize_assign_goes_from_the_node_to_the_notary_after_accept(mesh: Mesh) -> None:
    await mesh.commit(2 * CREDIT, notary=True)
    assignment = await mesh.n.envelope(MsgType.NOTARIZE_ASSIGN)
    assert NotarizeAssign.decode(assignment.payload).notary == assignment.recipient == mesh.n.id
    assert assignment.sender not in (mesh.a.id, mesh.b.id)
    for party in (mesh.a, mesh.b):
        assert (await party.notice("notary_assigned"))["notary"] == mesh.n.id.hex()


async def test_verdict_0x00_goes_from_the_notary_to_both_and_approves(mesh: Mesh) -> None:
    await mesh.commit(2 * CREDIT, notary=True)
    await mesh.deliver()
    assert await mesh.verdict(mesh.n, mesh.a) == "RESOLVED"
    assert await mesh.verdict(mesh.n, mesh.b) == "RESOLVED"
    assert await mesh.balances() == [7_800_000, 1_990_000, 200_000]


async def test_verdict_0x01_goes_from_the_notary_to_both_and_rejects(mesh: Mesh) -> None:
    await mesh.commit(2 * CREDIT, notary=True)
    await mesh.deliver()
    for party in (mesh.a, mesh.b):
        assert await mesh.verdict(mesh.n, party, Judgement.REJECT) == "DELIVERED"
    assert await mesh.balances() == [7_800_000, 0, 0]


async def test_dispute_goes_from_a_or_b_to_the_notary_and_the_parties_negotiate_again(mesh: Mesh) -> None:
    await mesh.commit(2 * CREDIT, notary=True)
    await mesh.deliver()
    await mesh.verdict(mesh.n, mesh.a, Judgement.REJECT)
    assert await mesh.dispute(mesh.n) == "NEGOTIATING"
    notice = await mesh.b.notice("conversation_changed")
    assert (notice["state"], notice["cause"]) == ("NEGOTIATING", "message")
    assert (await mesh.a.ask("reputation"))["total_disputes"] == 1


# -- pubsub messages ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BidType)
async def test_notarize_bid_is_published_on_the_notary_topic(mesh: Mesh, kind: BidType) -> None:
    await mesh.propose()
    sender, others = (mesh.a, (mesh.b, mesh.n)) if kind is BidType.REQUEST else (mesh.n, (mesh.a, mesh.b))
    await mesh.bid(sender, kind)
    for other in others:
        bid = NotarizeBid.decode((await other.envelope(MsgType.NOTARIZE_BID)).payload)
        assert (bid.bid_type, bid.conversation_id) == (kind, TALK)


async def test_feedback_is_published_on_the_reputation_topic_and_updates_reputations(mesh: Mesh) -> None:
    await mesh.commit()
    await mesh.deliver()
    await mesh.verdict(mesh.a, mesh.b)
    assert await mesh.feedback() == "CLOSED"
    for other in (mesh.b, mesh.n):
        assert Feedback.decode((await other.envelope(MsgType.FEEDBACK)).payload).score == 90
    reputation = await mesh.n.ask("reputation", agent_id=mesh.b.id.hex())
    assert (reputation["reliability"], reputation["total_tasks"], reputation["transactions"]) == (
        90_000,
        1,
        1,
    )


# -- the diagram ----------------------------------------------------------------------------------------------


async def test_every_edge_of_the_diagram_in_one_conversation(mesh: Mesh) -> None:
    assert await mesh.propose(CREDIT) == "NEGOTIATING"  # IDLE --> NEGOTIATING
    counter = Counter(amount=2 * CREDIT)
    assert await mesh.step(mesh.b, MsgType.COUNTER, counter, mesh.a) == "NEGOTIATING"
    accept = Accept(amount=2 * CREDIT)
    assert await mesh.step(mesh.a, MsgType.ACCEPT, accept, mesh.b) == "COMMITTED"
    assert await mesh.deliver() == "DELIVERED"
    assert await mesh.dispute(mesh.b) == "NEGOTIATING"  # DELIVERED --> NEGOTIATING
    assert await mesh.accept(2 * CREDIT) == "COMMITTED"
    assert await mesh.deliver() == "DELIVERED"
    assert await mesh.verdict(mesh.a, mesh.b) == "RESOLVED"  # direct approval
    assert await mesh.feedback() == "CLOSED"  # RESOLVED --> CLOSED


async def test_reject_leads_from_negotiating_to_closed(mesh: Mesh) -> None:
    await mesh.propose()
    await mesh.step(mesh.b, MsgType.COUNTER, Counter(amount=CREDIT), mesh.a)
    assert await mesh.step(mesh.a, MsgType.REJECT, Reject("too much"), mesh.b) == "CLOSED"

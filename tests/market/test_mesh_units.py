"""What an envelope does to the books if it crosses the network of peers: whose credits move, and what is passed on.

Other envelopes are in `test_mesh_desk.py`.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from moothall.errors import InvalidProposal, OutOfOrder, VerificationRequired
from moothall.hall.elsewhere import Nowhere, PostBooks
from moothall.hall.mesh.frames import AskBalance, ListConversations, ShowConversation
from moothall.hall.mesh.market import Told
from moothall.identity import PrivateKey
from moothall.market import in_court, mesh_desk
from moothall.market.conversing import MeshRules
from moothall.market.mesh_units import EnvelopeUnits
from moothall.wire.mesh.envelope import decode, encode
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.notaries import BidType, Judgement, NotarizeAssign, NotarizeBid, Verdict
from moothall.wire.mesh.offers import Accept, Counter, Propose
from moothall.wire.mesh.outcomes import Deliver
from moothall.wire.mesh.reasons import Dispute
from tests.identity.vectors import ALICE, BOB, CAROL, DAVE
from tests.market.test_mesh_desk import CREDIT, HERE, TALK, Bench, feedback, opened, own_envelopes
from tests.store.conftest import place, postgres, server, sqlite  # noqa: F401
from tests.store.support import Place, run

AMOUNT = 10 * CREDIT
WORK = Deliver(conversation_id=TALK, inline=b"work").encode()


@pytest.fixture
async def bench(place: Place) -> AsyncIterator[Bench]:  # noqa: F811
    async with opened(place) as bench:
        await bench.deposit(ALICE, 2 * AMOUNT)
        yield bench


async def cross(
    bench: Bench,
    sender: PrivateKey,
    msg_type: MsgType,
    payload: bytes,
    to: PrivateKey | None,
    *,
    abroad: PrivateKey,
    **fields: Any,
) -> Told:
    """An envelope that comes from the network, if `abroad` is its sender, or goes there."""
    sent = bench.envelope(sender, msg_type, payload, to)
    how = {"is_away": False, "is_proven": False} | fields
    told: Told = await bench.answer(
        lambda done, failed: bench.desk.take(
            sent, encode(sent), HERE, done, failed, abroad=abroad.public.raw, **how
        )
    )
    return told


async def balance(bench: Bench, agent: PrivateKey) -> int:
    answer: Any = await bench.ask(agent, AskBalance())
    return int(answer.balance)


async def test_an_offer_from_abroad_spends_nothing_here(bench: Bench) -> None:
    """An attacker carries a PROPOSE that Alice sent to another hall. She has credits here too."""
    await cross(bench, ALICE, MsgType.PROPOSE, Propose(amount=AMOUNT).encode(), BOB, abroad=ALICE)
    told = await bench.send(BOB, MsgType.ACCEPT, Accept(amount=AMOUNT).encode(), ALICE)
    assert told.state == "COMMITTED"
    await bench.send(BOB, MsgType.DELIVER, WORK, ALICE)
    assert await balance(bench, ALICE) == 2 * AMOUNT
    shown: Any = await bench.ask(BOB, ShowConversation(conversation_id=TALK.hex()))
    assert (shown.conversation.elsewhere, shown.escrow) == (True, None)
    listed: Any = await bench.ask(BOB, ListConversations())
    assert [each.elsewhere for each in listed.conversations] == [True]


async def test_a_provider_abroad_is_the_second_half_of_a_deal(bench: Bench) -> None:
    await cross(
        bench, ALICE, MsgType.PROPOSE, Propose(amount=AMOUNT).encode(), BOB, abroad=BOB, is_proven=True
    )
    await cross(bench, BOB, MsgType.ACCEPT, Accept(amount=AMOUNT).encode(), ALICE, abroad=BOB)
    assert await balance(bench, ALICE) == AMOUNT
    await cross(bench, BOB, MsgType.DELIVER, WORK, ALICE, abroad=BOB)
    verdict = Verdict(Judgement.APPROVE, ALICE.public.raw, BOB.public.raw).encode()
    await cross(bench, ALICE, MsgType.VERDICT, verdict, BOB, abroad=BOB, is_proven=True)
    assert await balance(bench, BOB) == AMOUNT - AMOUNT * 50 // 10_000


@pytest.mark.parametrize("msg_type", [MsgType.ACCEPT, MsgType.COUNTER])
async def test_a_requester_spends_no_credits_through_the_network(bench: Bench, msg_type: MsgType) -> None:
    """Bob offers work at this hall, and carries the ACCEPT that Alice sent to another one."""
    offer = Propose(amount=AMOUNT, role="provider").encode()
    await cross(bench, BOB, MsgType.PROPOSE, offer, ALICE, abroad=BOB)
    answer: Any = Accept(amount=AMOUNT) if msg_type is MsgType.ACCEPT else Counter(amount=AMOUNT)
    with pytest.raises(VerificationRequired):
        await cross(bench, ALICE, msg_type, answer.encode(), BOB, abroad=ALICE)
    assert await balance(bench, ALICE) == 2 * AMOUNT
    await bench.send(ALICE, MsgType.ACCEPT, Accept(amount=AMOUNT).encode(), BOB)
    assert await balance(bench, ALICE) == AMOUNT


async def test_an_approval_through_the_network_pays_nothing(bench: Bench) -> None:
    await bench.deal(AMOUNT)
    verdict = Verdict(Judgement.APPROVE, ALICE.public.raw, BOB.public.raw).encode()
    with pytest.raises(VerificationRequired):
        await cross(bench, ALICE, MsgType.VERDICT, verdict, BOB, abroad=ALICE)
    assert await balance(bench, BOB) == 0


async def test_feedback_through_the_network_counts(bench: Bench) -> None:
    await bench.deal(AMOUNT)
    verdict = Verdict(Judgement.APPROVE, ALICE.public.raw, BOB.public.raw).encode()
    await bench.send(ALICE, MsgType.VERDICT, verdict, BOB)
    told = await cross(bench, ALICE, MsgType.FEEDBACK, feedback(BOB), None, abroad=ALICE)
    assert told.state == "CLOSED"


async def test_an_agent_that_is_proven_here_speaks_through_its_own_connection(bench: Bench) -> None:
    await bench.propose(AMOUNT)
    bench.desk.present(BOB.public.raw, is_here=True)
    accept = Accept(amount=AMOUNT).encode()
    with pytest.raises(VerificationRequired):
        await cross(bench, BOB, MsgType.ACCEPT, accept, ALICE, abroad=BOB)
    bench.desk.present(BOB.public.raw, is_here=False)
    assert (await cross(bench, BOB, MsgType.ACCEPT, accept, ALICE, abroad=BOB)).state == "COMMITTED"


async def test_the_court_takes_no_case_about_credits_elsewhere(bench: Bench) -> None:
    await cross(bench, ALICE, MsgType.PROPOSE, Propose(amount=AMOUNT).encode(), BOB, abroad=ALICE)
    await bench.send(BOB, MsgType.ACCEPT, Accept(amount=AMOUNT).encode(), ALICE)
    await bench.send(BOB, MsgType.DELIVER, WORK, ALICE)
    await bench.send(BOB, MsgType.DISPUTE, Dispute("no answer").encode(), ALICE)
    with pytest.raises(InvalidProposal, match="at another hall"):
        await run(bench.store, lambda books: in_court.hold(books, TALK, BOB.public.raw, "case", now=1))


# -- resends ---------------------------------------------------------------------------------------------


async def test_a_resend_is_logged_and_routed_again(bench: Bench) -> None:
    await bench.deal(AMOUNT)
    told = await bench.send(BOB, MsgType.DELIVER, WORK, ALICE)
    assert told == Told(state="DELIVERED")
    logged = await run(bench.store, lambda books: books.logged(TALK).items)
    types = [decode(each.envelope).msg_type.name for each in logged]
    assert types == ["PROPOSE", "ACCEPT", "DELIVER", "DELIVER"]
    assert await balance(bench, ALICE) == AMOUNT


async def test_a_resend_of_the_requester_may_come_through_the_network(bench: Bench) -> None:
    await bench.propose(AMOUNT)
    offer = Propose(amount=AMOUNT).encode()
    assert (await cross(bench, ALICE, MsgType.PROPOSE, offer, BOB, abroad=ALICE)).state == "NEGOTIATING"


# -- what is not of this hall ------------------------------------------------------------------------------


@pytest.mark.parametrize("msg_type", [MsgType.NOTARIZE_ASSIGN, MsgType.VERDICT, MsgType.DISPUTE])
async def test_a_notary_serves_a_conversation_of_other_halls(bench: Bench, msg_type: MsgType) -> None:
    payload = NotarizeAssign(CAROL.public.raw).encode()
    assert await cross(bench, ALICE, msg_type, payload, CAROL, abroad=ALICE) == Told()
    assert await cross(bench, CAROL, msg_type, payload, ALICE, abroad=ALICE) == Told()
    with pytest.raises(OutOfOrder):
        await bench.send(CAROL, msg_type, payload, ALICE)  # both would be here
    assert await run(bench.store, lambda books: books.conversation(TALK)) is None


@pytest.mark.parametrize("party", [BOB, CAROL])
async def test_a_stranger_that_uses_the_id_does_not_keep_a_notary_from_its_work(
    bench: Bench, party: PrivateKey
) -> None:
    """The id of a conversation of other halls is in NOTARIZE_BID, for all to read."""
    await cross(bench, DAVE, MsgType.PROPOSE, Propose(amount=0).encode(), party, abroad=DAVE)
    before = await run(bench.store, lambda books: books.conversation(TALK))
    assign = NotarizeAssign(CAROL.public.raw).encode()
    assert await cross(bench, ALICE, MsgType.NOTARIZE_ASSIGN, assign, CAROL, abroad=ALICE) == Told()
    verdict = Verdict(Judgement.APPROVE, ALICE.public.raw, DAVE.public.raw).encode()
    assert await cross(bench, CAROL, MsgType.VERDICT, verdict, ALICE, abroad=ALICE) == Told()
    assert await run(bench.store, lambda books: books.conversation(TALK)) == before


@pytest.mark.parametrize("msg_type", [MsgType.DISPUTE, MsgType.VERDICT])
async def test_a_stranger_does_not_dispute_or_judge_in_a_conversation_of_this_hall(
    bench: Bench, msg_type: MsgType
) -> None:
    await bench.deal(AMOUNT)
    payload = Verdict(Judgement.REJECT, ALICE.public.raw, BOB.public.raw).encode()
    with pytest.raises(OutOfOrder, match="Only the two parties"):
        await cross(bench, CAROL, msg_type, payload, ALICE, abroad=CAROL)


async def test_a_stranger_does_not_speak_in_a_conversation_of_this_hall(bench: Bench) -> None:
    await bench.deal(AMOUNT)
    verdict = Verdict(Judgement.APPROVE, ALICE.public.raw, BOB.public.raw).encode()
    with pytest.raises(OutOfOrder, match="Only the two parties"):
        await cross(bench, CAROL, MsgType.VERDICT, verdict, ALICE, abroad=CAROL)


async def test_a_notary_abroad_is_assigned_and_judges(bench: Bench) -> None:
    await bench.propose(AMOUNT)
    await bench.send(ALICE, MsgType.NOTARIZE_BID, NotarizeBid(BidType.REQUEST, TALK).encode())
    bid = NotarizeBid(BidType.OFFER, TALK).encode()
    await cross(bench, CAROL, MsgType.NOTARIZE_BID, bid, None, abroad=CAROL)
    accepted = await bench.send(BOB, MsgType.ACCEPT, Accept(amount=AMOUNT).encode(), ALICE)
    assert [mail.recipient for mail in accepted.mail] == [CAROL.public.raw]
    await bench.send(BOB, MsgType.DELIVER, WORK, ALICE)
    verdict = Verdict(Judgement.APPROVE, ALICE.public.raw, BOB.public.raw).encode()
    told = await cross(bench, CAROL, MsgType.VERDICT, verdict, ALICE, abroad=CAROL)
    assert told.state == "RESOLVED"
    assert await balance(bench, CAROL) == AMOUNT // 10


# -- which agents the hall knows ---------------------------------------------------------------------------


async def test_the_hall_knows_agents_that_have_proven_their_key(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def is_known(agent: PrivateKey) -> bool:
        answer: Any = await bench.answer(
            lambda done, failed: bench.desk.is_known(agent.public.raw, done, failed)
        )
        return bool(answer)

    monkeypatch.setattr(mesh_desk, "MAX_PROVEN", 1)
    assert not await is_known(BOB)
    bench.desk.proved(BOB.public.raw)
    assert await is_known(BOB)
    await bench.propose(AMOUNT)  # with a proof, so that the credits of Alice are guarded
    bench.desk.proved(CAROL.public.raw)
    assert not await is_known(BOB)  # the memory is bounded
    assert await is_known(ALICE)
    assert await is_known(CAROL)
    monkeypatch.setattr(
        Nowhere, "is_on_mesh", lambda elsewhere, books, key: key == BOB.public.raw
    )  # it has proven its key to another hall of this store
    assert await is_known(BOB)


async def test_what_goes_abroad_is_not_put_into_an_inbox(place: Place) -> None:  # noqa: F811
    async with opened(place, stores_inboxes=True) as bench:
        offer = Propose().encode()
        told = await cross(bench, ALICE, MsgType.PROPOSE, offer, BOB, abroad=BOB)
        assert (told.stored, told.carried) == (False, False)
        told = await cross(
            bench, BOB, MsgType.COUNTER, Counter(amount=1).encode(), ALICE, abroad=BOB, is_away=True
        )
        assert told.stored


class Neighbour(Nowhere):
    """Another hall of the same store, which has every recipient."""

    def carry(self, books: PostBooks, to: bytes, envelope: bytes, kept: int = 0) -> bool:
        return True


async def test_another_hall_of_the_same_store_comes_before_a_peer(bench: Bench) -> None:
    """It has taken the envelope already: from a peer, it would refuse it as a replay."""
    units = EnvelopeUnits(
        MeshRules(), own_envelopes(bench.world), Neighbour(), set(), logs=True, stores_inboxes=False
    )
    sent = bench.envelope(ALICE, MsgType.PROPOSE, Propose().encode(), BOB)
    told, _ = await run(
        bench.store,
        lambda books: units.take(
            books, sent, encode(sent), 1, None, is_away=False, is_proven=True, abroad=BOB.public.raw
        ),
    )
    assert told.carried

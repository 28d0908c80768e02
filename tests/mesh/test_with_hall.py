"""Agents of the mesh in a real hall: whole deals, lost connections, a killed hall, two programs with one key."""

import asyncio
from pathlib import Path

import pytest

from moothall import Backoff, PrivateKey
from moothall.app import App
from moothall.errors import CreditsRefused, EnvelopeRejected, NoCover, OutOfOrder
from moothall.mesh import Assigned, Change, Conversation, MeshAgent, Message
from tests.client.conftest import OpenHall
from tests.client.door import Door
from tests.client.meeting import Heard, soon
from tests.mesh.waiting import state
from tests.support.server import HallProcess, run_moothall

QUICKLY = Backoff(first=0.01, longest=0.05)
ADA, BEN, NORA = (PrivateKey(bytes([number]) * 32) for number in (11, 12, 13))
CREDIT = 1_000_000


def agent(key: PrivateKey, name: str, **options: object) -> MeshAgent:
    return MeshAgent(name, key=key, backoff=QUICKLY, **options)  # type: ignore[arg-type]


async def deposit(folder: Path, to: PrivateKey, amount: int) -> None:
    """Of whole credits."""
    words = ("ledger", "deposit", to.public.raw.hex(), str(amount), "--data-dir", str(folder))
    result = await asyncio.to_thread(run_moothall, folder.parent, *words)
    assert result.returncode == 0, result.stderr


class Parties:
    """Ada asks, Ben works, and Nora judges; what they hear."""

    def __init__(self, **options: object) -> None:
        self.ada, self.ben = agent(ADA, "ada", **options), agent(BEN, "ben", **options)
        self.nora = agent(NORA, "nora", **options)
        self.offers: Heard[Message] = Heard()
        self.bids: Heard[Message] = Heard()
        self.wishes: Heard[Message] = Heard()
        self.assigned: Heard[Assigned] = Heard()
        self.assignments: Heard[Message] = Heard()
        self.changes: Heard[Change] = Heard()
        self.ben.on_propose(self.offers)
        self.ada.on_bid(self.bids)
        self.nora.on_bid(self.wishes)
        self.ada.on_notary(self.assigned)
        self.nora.on_assign(self.assignments)
        self.nora.on_change(self.changes)


async def test_a_whole_deal_with_notary_and_escrow(hall: App) -> None:
    await deposit(hall.settings.data_dir, ADA, 10)
    here = Parties()
    ada, ben, nora = here.ada, here.ben, here.nora
    async with ada.connected(hall.url), ben.connected(hall.url), nora.connected(hall.url):
        await ben.advertise("translate", price_range_usd=(1.0, 5.0))
        (found,) = await ada.discover("translate")
        assert (found.agent_id, found.name, found.online) == (ben.id, "ben", True)

        deal = await ada.propose(ben.id, "hello", amount=2 * CREDIT, wants_notary=True)
        offer = (await here.offers.next()).conversation
        assert offer is not None
        await nora.bid((await here.wishes.next()).conversation_id)
        await here.bids.next()
        await offer.accept("I will")
        assert (await here.assigned.next()).notary == nora.id
        await soon(deal.wait_for("COMMITTED"))
        assert await ada.balance() == 10 * CREDIT - 2_200_000

        case = (await here.assignments.next()).conversation
        assert case is not None
        assert (case.role, case.requester, case.provider) == ("notary", ada.id, ben.id)
        await offer.deliver("Guten Tag")
        change = await here.changes.next()
        assert (change.conversation, change.state, change.cause) == (case, "DELIVERED", "message")
        delivery = case.last("DELIVER")
        assert delivery is not None
        assert delivery.text == "Guten Tag"

        await case.verdict(approve=True)
        await soon(deal.wait_for("RESOLVED"))
        await soon(offer.wait_for("RESOLVED"))
        assert (await ben.balance(), await nora.balance()) == (1_990_000, 200_000)
        await deal.feedback(80)
        await deal.feedback(70, about=nora.id)
        assert state(deal) == "CLOSED"
        await offer.feedback(90)
        await soon(deal.wait_for("CLOSED"))
        reputation = await ada.reputation(ben.id)
        assert (reputation.total_tasks, reputation.transactions) == (1, 1)
        whole = await nora.conversation(deal.id)
        assert [each.type for each in whole.history] == [
            "PROPOSE",
            "NOTARIZE_BID",
            "NOTARIZE_BID",
            "ACCEPT",
            "NOTARIZE_ASSIGN",
            "DELIVER",
            "VERDICT",
            "VERDICT",
            "FEEDBACK",
            "FEEDBACK",
            "FEEDBACK",
        ]


async def agreed(here: Parties, amount: int = 0) -> tuple[Conversation, Conversation]:
    """Ada's side and Ben's side of a deal that is made."""
    deal = await here.ada.propose(here.ben.id, "work", amount=amount)
    offer = (await here.offers.next()).conversation
    assert offer is not None
    await offer.accept()
    await soon(deal.wait_for("COMMITTED"))
    return deal, offer


async def test_without_cover_nothing_changes(hall: App) -> None:
    here = Parties()
    async with here.ada.connected(hall.url), here.ben.connected(hall.url):
        deal = await here.ada.propose(here.ben.id, "work", amount=CREDIT)
        offer = (await here.offers.next()).conversation
        assert offer is not None
        with pytest.raises(NoCover):
            await offer.accept()
        assert state(offer) == state(deal) == "NEGOTIATING"
        await deposit(hall.settings.data_dir, ADA, 1)
        await offer.accept()
        await soon(deal.wait_for("COMMITTED"))


async def test_a_dispute_and_the_way_back(hall: App) -> None:
    here = Parties()
    async with here.ada.connected(hall.url), here.ben.connected(hall.url):
        deal, offer = await agreed(here)
        await offer.deliver(b"\x00\x01", content_type="application/octet-stream")
        await soon(deal.wait_for("DELIVERED"))
        assert deal.history[-1].work == b"\x00\x01"
        await deal.dispute("that is not a text")
        await soon(offer.wait_for("NEGOTIATING"))
        await offer.accept()
        await soon(deal.wait_for("COMMITTED"))
        await offer.deliver("a text")
        await soon(deal.wait_for("DELIVERED"))
        await deal.approve()
        assert state(deal) == "RESOLVED"


async def test_a_cancel_needs_consent_after_the_delivery(hall: App) -> None:
    await deposit(hall.settings.data_dir, ADA, 3)
    here = Parties()
    async with here.ada.connected(hall.url), here.ben.connected(hall.url):
        deal, offer = await agreed(here, 3 * CREDIT)
        await offer.deliver("nothing good")
        await soon(deal.wait_for("DELIVERED"))
        with pytest.raises((OutOfOrder, CreditsRefused), match="consent"):
            await deal.cancel()
        assert await here.ada.balance() == 0
        await offer.consent()
        await deal.cancel()
        assert state(deal) == "CLOSED"
        assert await here.ada.balance() == 3 * CREDIT
        await soon(offer.wait_for("CLOSED"))


async def test_the_review_time_approves(open_hall: OpenHall) -> None:
    here = Parties()
    changes: Heard[Change] = Heard()
    here.ada.on_change(changes)
    async with (
        open_hall(mesh_review=0.05) as hall,
        here.ada.connected(hall.url),
        here.ben.connected(hall.url),
    ):
        deal, offer = await agreed(here)
        await offer.deliver("work")
        change = await changes.next()
        assert (change.conversation, change.cause) == (deal, "review")
        await soon(offer.wait_for("RESOLVED"))


async def test_a_bilateral_envelope_waits_for_an_agent_that_is_away(hall: App) -> None:
    here = Parties()
    async with here.ada.connected(hall.url):
        deal = await here.ada.propose(here.ben.id, "work", amount=7)
        sent = await deal.ask_notary()
        assert not sent.away
    async with here.ben.connected(hall.url):
        offer = await here.offers.next()
        assert (offer.conversation_id, offer.amount) == (deal.id, 7)
        assert offer.conversation is not None
        countered = await offer.conversation.counter(8)
        assert (countered.away, countered.stored) == (True, True)
    again = agent(ADA, "ada")
    counters: Heard[Message] = Heard()
    again.on_counter(counters)
    async with again.connected(hall.url):
        message = await counters.next()
        assert message.conversation is not None
        await message.conversation.reject("too much")
        assert message.conversation.state == "CLOSED"


async def test_it_comes_back_and_goes_on(hall: App) -> None:
    here = Parties(topics=["news"])
    connects: Heard[str] = Heard()
    here.ben.on_connect(connects)
    heard: Heard[Message] = Heard()
    here.ben.on_broadcast(heard)
    async with (
        Door(hall.port.address[1]) as door,
        here.ada.connected(hall.url),
        here.ben.connected(door.url),
    ):
        await connects.next()
        deal = await here.ada.propose(here.ben.id, "work")
        offer = (await here.offers.next()).conversation
        assert offer is not None
        door.drop()
        await connects.next()
        await offer.accept()
        await soon(deal.wait_for("COMMITTED"))
        await here.ada.broadcast("news", "all is well")
        assert (await heard.next()).text == "all is well"


async def test_two_programs_with_one_key_take_turns(hall: App, tmp_path: Path) -> None:
    """The hall refuses nonces far below the highest one, and each program gets above the other again."""
    path = tmp_path / "ada.json"
    one = MeshAgent("ada", key=path, create=True)
    two = MeshAgent("ada", key=path, beacon=False)
    ben = agent(BEN, "ben")
    async with one.connected(hall.url), two.connected(hall.url), ben.connected(hall.url):
        for _ in range(3):
            await one.broadcast("news", "from one")
            await two.broadcast("news", "from two")
        deal = await one.propose(ben.id, "work", max_rounds=3)
        for amount in (1, 2):
            await (await two.conversation(deal.id)).counter(amount)
        await deal.counter(3)
        with pytest.raises(OutOfOrder, match="at most 3 times"):
            await deal.counter(4)


async def test_what_only_the_hall_can_refuse(hall: App) -> None:
    here = Parties()
    async with here.ada.connected(hall.url), here.nora.connected(hall.url):
        deal = await here.ada.propose(here.ben.id, "work")
        with pytest.raises(OutOfOrder, match="no conversation"):
            await here.nora.conversation(deal.id)
        with pytest.raises(EnvelopeRejected, match="key of the hall"):
            await here.ada.propose(here.ada.hall, "work")


async def test_a_hall_that_is_killed_has_what_it_accepted(tmp_path: Path) -> None:
    folder = tmp_path / "hall"
    folder.mkdir()
    hall = HallProcess(folder, "--no-limits")
    hall.start()
    try:
        await deposit(hall.data_dir, ADA, 5)
        here = Parties()
        returns: Heard[str] = Heard()
        for each in (here.ada, here.ben):
            each.on_connect(returns)
        async with Door(hall.port) as door, here.ada.connected(door.url), here.ben.connected(door.url):
            deal, offer = await agreed(here, 5 * CREDIT)
            await returns.next()
            await returns.next()
            hall.kill()
            hall.restart()
            door.lead_to(hall.port)
            await returns.next()
            await returns.next()
            await offer.deliver("work")
            await soon(deal.wait_for("DELIVERED"))
            await deal.approve()
            assert await here.ben.balance() == 5 * CREDIT - 25_000
    finally:
        hall.kill()

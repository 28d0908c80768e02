"""Deals: every step against a real hall, what survives a reconnect, and the same on a reference server."""

import asyncio
import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall import (
    Agent,
    AgentNotFound,
    ConnectionLost,
    DealChange,
    InsufficientReputation,
    InvalidMessage,
    InvalidProposal,
    NotConnected,
    NotProposalParty,
    PrivateKey,
    Proposal,
    ProposalExpired,
    ProposalNotFound,
    PublicKey,
    RankedAgent,
    RatingChange,
    ReplyTimeout,
    SyncAgent,
    UsageError,
    verify_receipt,
)
from moothall.client import book, deals, ratings
from moothall.client.connection import HallConnection
from moothall.client.deals import checked_amount, checked_deadline, skill_list
from moothall.client.drafts import checked_stake
from moothall.client.handlers import Handlers
from moothall.client.incoming import decode, encode
from moothall.client.proposal import packed, unpacked
from moothall.client.requests import Exchange
from moothall.client.session import Session
from moothall.client.signed import UNSIGNED, as_json
from moothall.wire.agentchat import client, signing
from moothall.wire.agentchat.market import Proposals
from tests.client.conftest import OpenHall
from tests.client.door import Door
from tests.client.meeting import QUICKLY, Heard, settled, soon
from tests.client.reference import Frame, Peer, Reference
from tests.support.server import running_hall

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "agentchat.json").read_text())

ALICE = PrivateKey(bytes(range(32)))
BOB = PrivateKey(bytes(range(1, 33)))
CAROL = PrivateKey(bytes(range(2, 34)))


class Party:
    """An agent with a key, and what it hears of its deals."""

    def __init__(self, name: str, key: PrivateKey, **options: Any) -> None:
        self.agent = Agent(name, identity=key, backoff=QUICKLY, **options)
        self.offers: Heard[Proposal] = Heard()
        self.changes: Heard[DealChange] = Heard()
        self.agent.on_proposal(self.offers)
        self.agent.on_deal(self.changes)


@asynccontextmanager
async def two_parties(url: str, bobs_url: str | None = None) -> AsyncIterator[tuple[Party, Party]]:
    alice, bob = Party("alice", ALICE), Party("bob", BOB)
    async with alice.agent.connected(url), bob.agent.connected(bobs_url or url):
        yield alice, bob


# -- the life of a deal ----------------------------------------------------------------------------------


async def test_a_deal_with_stakes_from_offer_to_receipt(hall_key: PublicKey, url: str) -> None:
    async with two_parties(url) as (alice, bob):
        mine = await alice.agent.propose(
            bob.agent.id,
            "Review pull request 42",
            amount=1.5,
            currency="SOL",
            expires_in=300,
            stake=25,
            payment_code="pay-alice",
            terms={"by": "Friday"},
            capability="review",
        )
        assert (mine.status, mine.is_mine, mine.is_over) == ("pending", True, False)
        assert mine.parties == (alice.agent.address, bob.agent.address)
        assert mine.partner == bob.agent.address

        theirs = await bob.offers.next()
        assert theirs == mine
        assert (theirs.is_mine, theirs.partner) == (False, alice.agent.address)
        assert (theirs.task, theirs.amount, theirs.currency) == ("Review pull request 42", 1.5, "SOL")
        assert (theirs.terms, theirs.capability) == ({"by": "Friday"}, "review")
        assert (theirs.payment_code, theirs.stake) == ("pay-alice", 25)
        assert theirs.created_at is not None
        assert theirs.expires is not None
        assert (theirs.expires - theirs.created_at).total_seconds() == 300

        await theirs.accept(stake=10, payment_code="pay-bob")
        assert (theirs.status, theirs.acceptor_stake) == ("accepted", 10)
        change = await alice.changes.next()
        assert (change.proposal, change.status, change.by) == (mine, "accepted", bob.agent.address)
        assert (mine.acceptor_stake, mine.acceptor_payment_code) == (10, "pay-bob")
        assert (await alice.agent.rating()).escrowed == 25

        outcome = asyncio.create_task(mine.outcome())
        await theirs.complete("tx:abc123")
        assert await soon(outcome) == mine.status == "completed"
        assert await theirs.outcome() == "completed"
        assert (mine.proof, mine.ended_by, mine.stakes_went) == ("tx:abc123", bob.agent.address, "returned")
        gained = RatingChange(old=1200, new=1208, change=8, transactions=1)
        assert mine.rating_changes == {alice.agent.address: gained, bob.agent.address: gained}

        (receipt,) = await alice.agent.receipts()
        assert receipt.proposal_id == mine.id
        assert verify_receipt(receipt.body, hall_key).holds
        assert not verify_receipt(receipt.body.replace(b"tx:abc123", b"tx:abc124"), hall_key).holds
    assert [change.status for change in bob.changes.events] == ["accepted", "completed"]


async def test_a_rejected_offer(url: str) -> None:
    async with two_parties(url) as (alice, bob):
        mine = await alice.agent.propose(bob.agent.address, "paint the hall")
        await (await bob.offers.next()).reject("too high up")
        assert await soon(mine.outcome()) == "rejected"
        assert (mine.reason, mine.ended_by, mine.stakes_went) == ("too high up", bob.agent.address, None)
        with pytest.raises(InvalidProposal, match="PROPOSAL_NOT_PENDING"):
            await bob.agent.accept(mine.id)


async def test_a_disputed_deal(url: str) -> None:
    async with two_parties(url) as (alice, bob):
        mine = await alice.agent.propose(bob.agent.address, "paint the hall", stake=5)
        await (await bob.offers.next()).accept(stake=20)
        await mine.dispute("it is still grey")
        assert (mine.status, mine.reason, mine.stakes_went) == ("disputed", "it is still grey", "transferred")
        assert mine.rating_changes[bob.agent.address].change < -20
        change = await bob.changes.until(lambda change: change.status == "disputed")
        assert change.by == alice.agent.address


async def test_an_offer_expires_by_the_clock(url: str) -> None:
    async with two_parties(url) as (alice, bob):
        mine = await alice.agent.propose(bob.agent.address, "quickly", expires_in=0.05)
        assert await soon(mine.outcome()) == "expired"
        assert mine.ended_by is None
        change = await bob.changes.next()
        assert (change.status, change.by) == ("expired", None)
        with pytest.raises(ProposalExpired):
            await change.proposal.accept()


async def test_the_hall_says_no_with_its_own_code(url: str) -> None:
    async with two_parties(url) as (alice, bob), Agent("carol", identity=CAROL).connected(url) as carol:
        with pytest.raises(AgentNotFound):
            await alice.agent.propose("@00000000", "anything")
        with pytest.raises(InsufficientReputation):
            await alice.agent.propose(bob.agent.address, "anything", stake=5000)
        with pytest.raises(InvalidProposal, match="itself"):
            await alice.agent.propose(alice.agent.id, "anything")
        with pytest.raises(ProposalNotFound):
            await bob.agent.accept("prop_0_0")
        mine = await alice.agent.propose(bob.agent.address, "anything")
        with pytest.raises(NotProposalParty):
            await carol.accept(mine.id)
        with pytest.raises(NotProposalParty):
            await mine.accept()
        with pytest.raises(InvalidProposal, match="PROPOSAL_NOT_ACCEPTED"):
            await mine.complete()
        with pytest.raises(InsufficientReputation):
            await (await bob.offers.next()).accept(stake=5000)
        assert mine.status == "pending"


# -- what an agent finds when it comes ---------------------------------------------------------------------


async def test_steps_by_id_work_without_having_heard_the_offer(url: str) -> None:
    async with Agent("bob", identity=BOB).connected(url) as bob:
        address = bob.address
        async with Agent("alice", identity=ALICE).connected(url) as alice:
            offered = (await alice.propose(address, "remember me")).id
    async with Agent("bob", identity=BOB).connected(url) as bob:
        taken = await bob.accept(offered)
        assert (taken.task, taken.status, taken.is_mine) == ("remember me", "accepted", False)
    async with Agent("alice", identity=ALICE).connected(url) as alice:
        done = await alice.complete(offered, "seen")
        assert (done.task, done.status, done.proof, done.is_mine) == (
            "remember me",
            "completed",
            "seen",
            True,
        )
        assert done.rating_changes


async def test_offers_wait_for_an_agent_that_was_away(url: str) -> None:
    async with Agent("alice", identity=ALICE).connected(url) as alice:
        async with Agent("bob", identity=BOB).connected(url) as bob:
            await bob.register_skills(["patience"])
        waiting = await alice.propose(bob.address, "for when you are back")
        returned = Party("bob", BOB)
        async with returned.agent.connected(url):
            offer = await returned.offers.next()
            assert offer == waiting
            await offer.accept()
            assert await returned.agent.proposals() == [waiting]
            await settled(returned.agent)
        assert returned.offers.events == [waiting]


async def test_nobody_is_kept_out_by_offers_that_are_too_long_to_list(url: str) -> None:
    async with Agent("alice", identity=ALICE).connected(url) as alice:
        async with Agent("bob", identity=BOB).connected(url) as bob:
            await bob.register_skills(["patience"])
        for n in range(25):
            last = await alice.propose(bob.address, f"{n:02}", terms="x" * 16_000)
        returned = Party("bob", BOB)
        async with returned.agent.connected(url):
            assert await returned.offers.next() == last
            await settled(returned.agent)


async def test_a_handler_added_later_hears_of_offers_too(url: str) -> None:
    async with Agent("alice", identity=ALICE).connected(url) as alice:
        async with Agent("bob", identity=BOB).connected(url) as bob:
            waiting = await alice.propose(bob.address, "early")
            await settled(bob)
        async with Agent("bob", identity=BOB).connected(url) as bob:
            offers: Heard[Proposal] = Heard()
            bob.on_proposal(offers)
            assert await offers.next() == waiting


async def test_a_change_of_a_deal_from_an_earlier_visit_comes_with_its_terms(url: str) -> None:
    async with two_parties(url) as (alice, bob):
        mine = await alice.agent.propose(bob.agent.address, "long work")
        await (await bob.offers.next()).accept()
    async with Agent("alice", identity=ALICE).connected(url) as returned:
        changes: Heard[DealChange] = Heard()
        returned.on_deal(changes)
        async with Agent("bob", identity=BOB).connected(url) as worker:
            await worker.complete(mine.id)
        change = await changes.next()
        assert (change.status, change.proposal.task) == ("completed", "long work")


async def test_own_deals_are_listed_newest_first(url: str) -> None:
    async with two_parties(url) as (alice, bob):
        first = await alice.agent.propose(bob.agent.address, "first")
        await (await bob.offers.next()).reject()
        second = await alice.agent.propose(bob.agent.address, "second")
        assert await alice.agent.proposals() == [second]
        assert set(await alice.agent.proposals(open_only=False)) == {first, second}
        assert len(await alice.agent.proposals(open_only=False, limit=1)) == 1
        assert set(await alice.agent.proposals(open_only=False, limit=5000)) == {first, second}
        with pytest.raises(UsageError, match="at least one"):
            await alice.agent.proposals(limit=0)
        with pytest.raises(UsageError, match="at least one"):
            await alice.agent.receipts(limit=0)
    async with Agent("alice", identity=ALICE).connected(url) as again:
        listed = {deal.task: deal for deal in await again.proposals(open_only=False)}
        assert listed["first"].status == "rejected"
        assert listed["first"].ended_by == bob.agent.address
        assert await listed["first"].outcome() == "rejected"
        assert repr(listed["second"]).endswith("pending 'second'>")


# -- lost connections ------------------------------------------------------------------------------------


async def test_an_outcome_is_awaited_through_a_reconnect(open_hall: OpenHall) -> None:
    async with (
        open_hall() as app,
        Door(app.port.address[1]) as door,
        two_parties(door.url, app.url) as (alice, bob),
    ):
        mine = await alice.agent.propose(bob.agent.address, "while you are away")
        theirs = await bob.offers.next()
        outcome = asyncio.create_task(mine.outcome())
        lost: Heard[object] = Heard()
        alice.agent.on_disconnect(lost)
        door.shut()
        await lost.next()
        await theirs.accept()
        await theirs.complete("done in your absence")
        assert mine.status == "pending"
        door.open()
        assert await soon(outcome) == "completed"
        assert (mine.proof, mine.ended_by) == ("done in your absence", bob.agent.address)
        change = await alice.changes.next()
        assert (change.proposal, change.status, change.by) == (mine, "completed", bob.agent.address)


async def test_a_list_that_breaks_the_connection_is_asked_for_in_smaller_pieces() -> None:
    """Or others, whose tasks are long, could keep an agent out: it would ask the same after each reconnect."""
    asked: list[int] = []

    class Fragile(Exchange):
        async def ask(self, message: Any, *rest: Any, **options: Any) -> Any:
            asked.append(message.limit)
            if message.limit > 3:
                raise ConnectionLost("the answer is too large")
            return Proposals(ts=0, list=[])

    async def nowhere() -> HallConnection:
        raise NotConnected("nowhere")

    book = deals.Deals(Fragile(nowhere, 1.0), Session("alice"), Handlers(), ALICE)
    for _ in range(5):
        await book._look_up()
    assert asked == [100, 10, 1, 2, 4]


async def test_every_deal_that_ended_meanwhile_is_found(
    open_hall: OpenHall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deals, "PAGE", 1)
    async with (
        open_hall() as app,
        Door(app.port.address[1]) as door,
        two_parties(door.url, app.url) as (alice, bob),
    ):
        offered = [await alice.agent.propose(bob.agent.address, f"number {n}") for n in range(3)]
        for _ in offered:
            await bob.offers.next()
        lost: Heard[object] = Heard()
        alice.agent.on_disconnect(lost)
        door.shut()
        await lost.next()
        for deal in offered:
            await bob.agent.reject(deal.id, "no")
        door.open()
        assert {await soon(deal.outcome()) for deal in offered} == {"rejected"}


async def test_many_other_deals_do_not_hide_the_end_of_one_that_somebody_holds(
    open_hall: OpenHall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody can make offers until there is no room for more."""
    monkeypatch.setattr(deals, "MAX_OPEN", 1)
    async with (
        open_hall() as app,
        Door(app.port.address[1]) as door,
        two_parties(door.url, app.url) as (alice, bob),
    ):
        held = await alice.agent.propose(bob.agent.address, "the one that counts")
        await alice.agent.propose(bob.agent.address, "another")
        lost: Heard[object] = Heard()
        alice.agent.on_disconnect(lost)
        door.shut()
        await lost.next()
        await bob.agent.reject(held.id, "no")
        door.open()
        assert await soon(held.outcome()) == "rejected"


async def test_every_offer_made_meanwhile_is_heard_of(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deals, "PAGE", 2)
    bob = Party("bob", BOB)
    async with bob.agent.connected(url):
        await bob.agent.register_skills(["anything"])
    async with Agent("alice", identity=ALICE).connected(url) as alice:
        made = [await alice.propose(bob.agent.address, f"number {n}") for n in range(7)]
    async with bob.agent.connected(url):
        assert {(await bob.offers.next()).id for _ in made} == {deal.id for deal in made}


async def test_lists_go_on_beyond_what_fits_into_one_answer(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_parties(url) as (alice, bob):
        long = "x" * 16_000  # 65 of them are more than the hall says at once
        made = [await alice.agent.propose(bob.agent.address, "work", terms=long) for _ in range(70)]
        newest_first = [deal.id for deal in reversed(made)]
        assert [deal.id for deal in await bob.agent.proposals()] == newest_first
        monkeypatch.setattr(deals, "MAX_LIMIT", 2)
        for limit in (2, 3, 7):
            assert [deal.id for deal in await bob.agent.proposals(limit=limit)] == newest_first[:limit]
        for deal in made[:7]:
            await bob.agent.accept(deal.id)
            await bob.agent.complete(deal.id)
        completed = newest_first[-7:]
        assert [receipt.proposal_id for receipt in await bob.agent.receipts()] == completed
        assert [receipt.proposal_id for receipt in await alice.agent.receipts(limit=6)] == completed[:6]


async def test_an_outcome_survives_a_hall_that_was_killed(tmp_path: Path, unused_tcp_port: int) -> None:
    with running_hall(tmp_path, "--no-limits", "--port", str(unused_tcp_port)) as hall:
        async with two_parties(hall.url) as (alice, bob):
            mine = await alice.agent.propose(bob.agent.address, "survive", stake=10)
            theirs = await bob.offers.next()
            await theirs.accept(stake=10)
            outcome = asyncio.create_task(mine.outcome())
            hall.kill()
            await asyncio.to_thread(hall.restart)
            (found,) = await bob.agent.proposals(timeout=10)
            assert (found, found.status, found.acceptor_stake) == (mine, "accepted", 10)
            await theirs.complete(timeout=10)
            assert await soon(outcome) == "completed"


async def test_an_outcome_is_not_awaited_for_ever(url: str) -> None:
    async with two_parties(url) as (alice, bob):
        mine = await alice.agent.propose(bob.agent.address, "slowly")
        with pytest.raises(ReplyTimeout, match="still pending"):
            await mine.outcome(timeout=0.01)
        outcome = asyncio.create_task(mine.outcome())
        await settled(alice.agent)
        await alice.agent.close()
        with pytest.raises(ConnectionLost, match="left"):
            await outcome
        with pytest.raises(NotConnected):
            await mine.outcome()


# -- without a key, and other mistakes -----------------------------------------------------------------------


async def test_without_a_key_nothing_is_sent(url: str) -> None:
    async with Agent("nobody").connected(url) as agent:
        for step in (
            agent.propose("@12345678", "anything"),
            agent.accept("prop_1"),
            agent.reject("prop_1"),
            agent.complete("prop_1"),
            agent.dispute("prop_1", "why"),
            agent.register_skills(["python"]),
        ):
            with pytest.raises(UsageError, match="no key"):
                await step


@pytest.mark.parametrize("stake", [-1, 2.5, "5", True])
def test_a_stake_is_a_whole_number(stake: object) -> None:
    with pytest.raises(UsageError, match="stake"):
        checked_stake(stake)


@pytest.mark.parametrize("amount", [math.nan, math.inf, 10**400, Decimal("1.5"), [5]])
def test_an_amount_is_a_number_that_a_hall_can_read(amount: object) -> None:
    with pytest.raises(UsageError, match="amount"):
        checked_amount(amount)


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf])
def test_a_deadline_is_in_the_future(seconds: float) -> None:
    with pytest.raises(UsageError, match="expires_in"):
        checked_deadline(seconds)


@pytest.mark.parametrize("skills", [[], [{}], [{"capability": ""}], [{"capability": 5}], [{"a": object()}]])
def test_a_skill_has_a_name(skills: list[dict[str, object]]) -> None:
    with pytest.raises(UsageError):
        skill_list(skills)


def test_terms_have_to_be_json() -> None:
    assert as_json((1, datetime(2026, 1, 2, tzinfo=UTC)), "terms") == [1, "2026-01-02T00:00:00Z"]
    with pytest.raises(UsageError, match="terms"):
        as_json(object(), "terms")
    for odd in (math.nan, math.inf):  # a skill for that price would be offered without one
        with pytest.raises(UsageError, match="terms"):
            as_json([{"rate": odd}], "terms")


async def test_a_dispute_needs_a_reason(url: str) -> None:
    async with Agent("alice", identity=ALICE).connected(url) as alice:
        with pytest.raises(UsageError, match="reason"):
            await alice.dispute("prop_1", "")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.text(min_size=1), st.dictionaries(st.text(), json_values, max_size=5))
def test_what_is_signed_is_what_is_sent(capability: str, fields: dict[str, Any]) -> None:
    skills = skill_list([{**fields, "capability": capability}, "named"])
    message = client.RegisterSkills(skills=skills, sig=UNSIGNED)
    read = json.loads(encode(message))
    assert signing.skills_text(client.RegisterSkills(skills=read["skills"], sig="-")) == signing.skills_text(
        message
    )


# -- what servers say ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["PROPOSAL", "ACCEPT", "REJECT", "COMPLETE", "DISPUTE", "EXPIRED"])
@given(value=json_values)
def test_no_field_of_a_deal_can_raise(kind: str, value: Any) -> None:
    fields = ("amount", "expires", "elo_stake", "rating_changes", "reason", "updated_at", "acceptor_stake")
    told = {"type": kind, "ts": 1, "id": "p", "proposal_id": "p", "from": "@a", "to": "@b", "task": "t"}
    assert decode(json.dumps(told | dict.fromkeys(fields, value)).encode()) is not None


@pytest.mark.parametrize(
    ("ms", "year"), [(0, 1970), (8_640_000_000_000_000, 9999), (-1e300, 1), (1e300, 9999)]
)
def test_every_time_on_the_wire_is_a_datetime(ms: float, year: int) -> None:
    assert ratings.moment(ms).year == year


# -- skills and ratings ----------------------------------------------------------------------------------


async def test_skills_are_found_by_what_is_asked(url: str) -> None:
    async with two_parties(url) as (alice, bob), Agent("reader").connected(url) as reader:
        review = {"capability": "Code Review", "rate": 5, "currency": "SOL", "description": "careful"}
        assert await bob.agent.register_skills([review, "painting"]) == 2
        await alice.agent.register_skills([{"capability": "review", "rate": 50, "level": 3}])
        found = await reader.search_skills("review", max_rate=10)
        (offer,) = found
        assert (offer.agent, offer.capability, offer.rate) == (bob.agent.address, "Code Review", 5)
        assert (offer.currency, offer.description, offer.skill) == ("SOL", "careful", review)
        assert (offer.agent_rating, offer.skill_transactions, offer.online) == (1200, 0, True)
        assert {offer.agent for offer in await reader.search_skills("review")} == {
            alice.agent.address,
            bob.agent.address,
        }
        assert len(await reader.search_skills(limit=1)) == 1
        assert await reader.search_skills("juggling") == []
        with pytest.raises(UsageError, match="query"):
            await reader.search_skills("review", max_rate=math.nan)
        (priced,) = await reader.search_skills("review", currency="EUR")
        assert priced.skill["level"] == 3


async def test_ratings_and_the_leaderboard(url: str) -> None:
    async with two_parties(url) as (alice, bob), Agent("reader").connected(url) as reader:
        fresh = await alice.agent.rating()
        assert (fresh.agent, fresh.rating, fresh.available) == (alice.agent.address, 1200, 1100)
        assert (fresh.updated, fresh.history) == (None, ())
        mine = await alice.agent.propose(bob.agent.address, "anything", capability="painting")
        await (await bob.offers.next()).accept()
        await mine.dispute("nothing came")
        rating = await reader.rating(bob.agent.id)
        assert (rating.rating, rating.transactions) == (1184, 1)
        assert rating.updated == rating.history[0].at
        assert (rating.history[0].rating, rating.history[0].why) == (1184, f"dispute {mine.id}")
        assert await reader.leaderboard(1) == [RankedAgent(1, alice.agent.address, 1208, 1)]
        assert [place.rank for place in await reader.leaderboard()] == [1, 2]
        with pytest.raises(AgentNotFound):
            await reader.rating("@00000000")


# -- without await ---------------------------------------------------------------------------------------


def test_a_deal_without_await(tmp_path: Path) -> None:
    with (
        running_hall(tmp_path, "--no-limits") as hall,
        SyncAgent("alice", identity=ALICE, url=hall.url) as alice,
        SyncAgent("bob", identity=BOB, url=hall.url) as bob,
    ):
        assert bob.register_skills(["review"]) == 1
        (found,) = alice.search_skills("rev")
        mine = alice.propose(found.agent, "a script", stake=1)
        (theirs,) = bob.proposals()
        theirs.accept(stake=1)
        theirs.complete("ok")
        assert mine.outcome(timeout=10) == "completed"
        assert mine == theirs
        assert mine.proof == "ok"
        assert alice.rating().transactions == 1
        assert alice.leaderboard(2)[0].rating == 1208
        assert verify_receipt(alice.receipts()[0].body, hall.key).holds
        rejected = alice.propose(bob.address, "another")
        assert bob.reject(rejected.id, "no").status == "rejected"
        disputed = alice.propose(bob.address, "one more")
        assert bob.accept(disputed.id).status == "accepted"
        assert bob.dispute(disputed.id, "never asked").status == "disputed"
        completed = alice.propose(bob.address, "the last")
        bob.proposals()[0].accept()
        assert alice.complete(completed.id, "yes").proof == "yes"
        with pytest.raises(ReplyTimeout):
            alice.propose(bob.address, "never", timeout=5).outcome(timeout=0.01)
        bob.proposals()[0].reject("no")
        open_deal = alice.propose(bob.address, "very last")
        bob.proposals()[0].accept()
        open_deal.dispute("why not")


# -- a reference server ------------------------------------------------------------------------------------


class Market(Reference):
    """Deals as the reference tells them: no `ref`, no `proposal_id` in PROPOSAL, no LIST_PROPOSALS."""

    def __init__(self) -> None:
        super().__init__()
        self.deals: dict[str, Frame] = {}

    async def _do_proposal(self, peer: Peer, frame: Frame) -> None:
        assert frame.get("expires", 1) is not None  # null is invalid (agentchat wire 5.4)
        target = self.peers.get(frame["to"])
        if target is None:
            await peer.send(type="ERROR", code="AGENT_NOT_FOUND", message="no such agent")
            return
        deal_id = f"prop_m0abcdf2_{next(self._numbers):08x}"
        optional = {name: frame.get(name) for name in ("amount", "currency", "payment_code", "terms")}
        seconds = frame.get("expires")
        told = {
            "type": "PROPOSAL",
            "ts": 1_760_000_002_000,
            "id": deal_id,
            "from": peer.id,
            "to": frame["to"],
            "task": frame["task"],
            **optional,
            "expires": None if seconds is None else 1_760_000_002_000 + seconds * 1000,
            "status": "pending",
            "created_at": 1_760_000_002_000,
            "sig": frame["sig"],
            "elo_stake": frame.get("elo_stake"),
        }
        self.deals[deal_id] = told
        await target.send(**told)
        await peer.send(**told)

    async def _step(self, peer: Peer, frame: Frame, status: str, **more: Any) -> None:
        deal = self.deals.get(frame["proposal_id"])
        if deal is None:
            await peer.send(type="ERROR", code="PROPOSAL_NOT_FOUND", message="no such proposal")
            return
        told = {
            "type": frame["type"],
            "proposal_id": deal["id"],
            "status": status,
            "updated_at": 1_760_000_003_000,
            "from": deal["from"],
            "to": deal["to"],
            "sig": frame["sig"],
            **more,
        }
        for party in (deal["from"], deal["to"]):
            if party in self.peers:
                await self.peers[party].send(**told)

    async def _do_accept(self, peer: Peer, frame: Frame) -> None:
        stake = self.deals.get(frame["proposal_id"], {}).get("elo_stake")
        stakes = {"proposer_stake": stake, "acceptor_stake": frame.get("elo_stake") or 0}
        await self._step(peer, frame, "accepted", payment_code=frame.get("payment_code"), **stakes)

    async def _do_reject(self, peer: Peer, frame: Frame) -> None:
        await self._step(peer, frame, "rejected", reason=frame.get("reason"))

    async def _do_complete(self, peer: Peer, frame: Frame) -> None:
        await self._step(
            peer,
            frame,
            "completed",
            completed_by=peer.id,
            completed_at=1_760_000_070_000,
            proof=frame.get("proof"),
            elo_stakes={"proposer": 25, "acceptor": 10},
            rating_changes=None,
        )

    async def _do_dispute(self, peer: Peer, frame: Frame) -> None:
        await self._step(peer, frame, "disputed", disputed_by=peer.id, reason=frame["reason"])

    async def _do_register_skills(self, peer: Peer, frame: Frame) -> None:
        count = len(frame["skills"])
        await peer.send(type="SKILLS_REGISTERED", agent_id=peer.id, skills_count=count, registered_at=1)

    async def _do_search_skills(self, peer: Peer, frame: Frame) -> None:
        standing = {"agent_rating": 1200, "agent_transactions": 0, "skill_updated": None}
        result = {
            "agent_id": "@b",
            "capability": "x",
            **standing,
            "skill_rating": 1200,
            "skill_transactions": 0,
        }
        for query_id in ("another", frame["query_id"]):
            results = [{**result, "registered_at": 1, "rate": query_id}]
            await peer.send(
                type="SEARCH_RESULTS", query_id=query_id, query=frame["query"], results=results, total=1
            )

    async def _do_list_proposals(self, peer: Peer, frame: Frame) -> None:
        await peer.send(type="ERROR", code="INVALID_MSG", message="Unknown message type")

    _do_list_receipts = _do_get_rating = _do_get_leaderboard = _do_list_proposals


@pytest.fixture
async def reference() -> AsyncIterator[Market]:
    async with Market() as server:
        yield server


async def test_a_deal_on_a_reference_server(reference: Market) -> None:
    async with two_parties(reference.url) as (alice, bob):
        mine = await alice.agent.propose(bob.agent.address, "Review", amount=1.5, stake=25, expires_in=300)
        theirs = await bob.offers.next()
        assert (theirs.id, theirs.task, theirs.stake) == (mine.id, "Review", 25)
        await theirs.accept(stake=10)
        await mine.complete("tx:1")
        assert await soon(theirs.outcome()) == "completed"
        assert (theirs.rating_changes, theirs.stakes_went, theirs.acceptor_stake) == ({}, None, 10)
        with pytest.raises(ProposalNotFound):
            await bob.agent.accept("prop_x")
        with pytest.raises(InvalidMessage):
            await alice.agent.proposals()
        with pytest.raises(InvalidMessage):
            await alice.agent.rating()
    for frame in reference.received:
        assert None not in frame.values()


async def test_two_steps_at_once_get_their_own_answers(reference: Market) -> None:
    async with two_parties(reference.url) as (alice, bob):
        first, second = await asyncio.gather(
            alice.agent.propose(bob.agent.address, "first"),
            alice.agent.propose(bob.agent.address, "second"),
        )
        assert (first.task, second.task) == ("first", "second")
        await asyncio.gather(bob.agent.accept(first.id), bob.agent.reject(second.id, "one is enough"))
        assert await soon(second.outcome()) == "rejected"
        await alice.changes.next()
        assert first.status == "accepted"
        await alice.agent.dispute(first.id, "why")
        assert (first.status, first.reason) == ("disputed", "why")


async def test_what_is_said_twice_is_told_once(reference: Market) -> None:
    async with two_parties(reference.url) as (alice, bob):
        mine = await alice.agent.propose(bob.agent.address, "once")
        offer = await bob.offers.next()
        await offer.accept(stake=3)
        await bob.agent.complete(mine.id)
        peer = reference.peers[bob.agent.address]
        await peer.send(**reference.deals[mine.id])
        await reference._step(peer, {"type": "ACCEPT", "proposal_id": mine.id, "sig": "-"}, "accepted")
        await settled(alice.agent, bob.agent)
        assert bob.offers.events == [offer]
        assert [change.status for change in bob.changes.events] == ["accepted", "completed"]
        assert offer.status == "completed"


async def test_skills_on_a_reference_server(reference: Market) -> None:
    async with Agent("alice", identity=ALICE).connected(reference.url) as alice:
        assert await alice.register_skills(["x"]) == 1
        (offer,) = await alice.search_skills("x", max_rate=3)
        assert (offer.agent, offer.online) == ("@b", None)
        assert offer.rate is None  # it was a text
        sent = reference.received[-1]
        assert offer.skill == {"capability": "x", "rate": sent["query_id"]}
        assert sent["query"] == {"capability": "x", "max_rate": 3}


async def test_a_step_for_a_deal_of_an_earlier_visit_has_no_terms_there(reference: Market) -> None:
    async with two_parties(reference.url) as (alice, bob):
        mine = await alice.agent.propose(bob.agent.address, "forgotten")
        await bob.offers.next()
        again = Party("bob", BOB)
        async with again.agent.connected(reference.url):
            taken = await again.agent.accept(mine.id)
            assert (taken.status, taken.task, taken.partner) == ("accepted", "", alice.agent.address)
            change = await again.changes.next()
            assert (change.status, change.proposal) == ("accepted", taken)


async def test_an_offer_that_expired_in_silence(reference: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deals, "GRACE", 0.01)
    async with two_parties(reference.url) as (alice, bob):
        mine = await alice.agent.propose(bob.agent.address, "quickly", expires_in=0.01)
        assert await soon(mine.outcome()) == "expired"
        accepted = await alice.agent.propose(bob.agent.address, "no hurry", expires_in=0.01)
        await bob.agent.accept(accepted.id)
        outcome = asyncio.create_task(accepted.outcome())
        await alice.changes.until(lambda change: change.status == "accepted")
        await settled(alice.agent)
        await bob.agent.complete(accepted.id)
        assert await soon(outcome) == "completed"


# -- the vectors -----------------------------------------------------------------------------------------


def signer(name: str) -> Agent:
    (seed,) = (key["ed25519_seed_hex"] for key in VECTORS["keys"] if key["name"] == name)
    return Agent(name, identity=PrivateKey(bytes.fromhex(seed)))


@pytest.mark.parametrize("vector", VECTORS["proposals"], ids=lambda vector: vector["label"])
async def test_proposals_are_signed_as_the_reference_signs_them(vector: Any, reference: Market) -> None:
    fields = dict(vector["fields"])
    expires, stake = fields.pop("expires", None) or None, fields.pop("elo_stake", None)
    async with signer(vector["signer"]).connected(reference.url) as agent:
        with pytest.raises(AgentNotFound):
            await agent.propose(**fields, expires_in=expires, stake=stake)
    assert reference.received[-1]["sig"] == vector["sig"]


@pytest.mark.parametrize("vector", VECTORS["proposal_responses"], ids=lambda vector: vector["label"])
async def test_steps_are_signed_as_the_reference_signs_them(vector: Any, reference: Market) -> None:
    fields = dict(vector["fields"])
    if "elo_stake" in fields:
        fields["stake"] = fields.pop("elo_stake")
    async with signer(vector["signer"]).connected(reference.url) as agent:
        step = getattr(agent, vector["type"].lower())
        with pytest.raises(ProposalNotFound):
            await step(**fields)
    assert reference.received[-1]["sig"] == vector["sig"]


async def test_skills_are_signed_as_the_reference_checks_them(reference: Market) -> None:
    vector = VECTORS["register_skills"]
    async with signer(vector["signer"]).connected(reference.url) as agent:
        assert await agent.register_skills(vector["skills"]) == len(vector["skills"])
    assert reference.received[-1]["sig"] == vector["sig"]


# -- memory --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "terms",
    [None, [], {"a": [1, 2.5, "x"]}, "half \ud83d", {"deep": [[[[]]]]}],
    ids=["none", "empty", "object", "half", "deep"],
)
def test_terms_are_kept_as_text_and_read_as_they_were(terms: Any) -> None:
    assert unpacked(packed(terms)) == terms
    assert len(packed([[]] * 5000)) < 16_000  # some 300,000 bytes as objects


async def test_a_flood_of_offers_does_not_fill_the_memory(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The oldest are forgotten, and the hall still lists them."""
    monkeypatch.setattr(book, "MAX_BYTES", 200_000)
    async with (
        Agent("alice", identity=ALICE).connected(url) as alice,
        Agent("bob", identity=BOB).connected(url) as bob,
    ):
        made = [await alice.propose(bob.address, "work", terms=[[]] * 5000) for _ in range(30)]
        await settled(bob)
        offers = bob._deals._book.open
        assert 5 < len(offers) < 15
        assert list(offers) == [deal.id for deal in made[-len(offers) :]]
        assert sum(facts.size for facts in offers.values()) <= 200_000
        assert [deal.id for deal in await bob.proposals()] == [deal.id for deal in reversed(made)]
    assert "forgets the oldest" in caplog.text


async def test_many_deals_that_end_unknown_are_one_question(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_parties(url) as (alice, bob):
        made = [await alice.agent.propose(bob.agent.address, "work") for _ in range(20)]
    changes: Heard[DealChange] = Heard()
    async with Agent("alice", identity=ALICE).connected(url) as returned:
        await settled(returned)
        asked = 0
        look_up = returned._deals._look_up

        async def counted() -> None:
            nonlocal asked
            asked += 1
            await look_up()

        monkeypatch.setattr(returned._deals, "_look_up", counted)
        returned.on_deal(changes)
        async with Agent("bob", identity=BOB).connected(url) as worker:
            await asyncio.gather(*(worker.reject(deal.id) for deal in made))
        heard = [await changes.next() for _ in made]
    assert {change.proposal.id for change in heard} == {deal.id for deal in made}
    assert all(change.proposal.task == "work" for change in heard)
    assert asked < 20

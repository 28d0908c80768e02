"""The desk of the mesh on real stores: what an envelope changes, and what is answered."""

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from secrets import token_bytes
from typing import Any, TypeVar

import pytest

from moothall.errors import InvalidMessage, NoCover, OutOfOrder, RateLimited, VerificationRequired
from moothall.hall.access import NewKeys
from moothall.hall.mesh.frames import (
    AskBalance,
    AskReputation,
    Balance,
    Cancel,
    Cancelled,
    Consent,
    ConversationChanged,
    Conversations,
    ConversationShown,
    ListConversations,
    NotaryAssigned,
    Notice,
    Offline,
    Reputation,
    ShowConversation,
)
from moothall.hall.mesh.inbox import Page
from moothall.hall.mesh.market import Payer, Told
from moothall.hall.mesh.own_envelopes import OwnEnvelopes
from moothall.hall.mesh.stored_inbox import MAX_AGE, TIDY_SECONDS, StoredInboxes
from moothall.identity import PrivateKey
from moothall.identity.signatures import verify
from moothall.market import credit_books
from moothall.market.conversing import MeshRules
from moothall.market.epoch_log import epoch_at
from moothall.market.ledger import agent_account
from moothall.market.mesh_desk import MeshDesk
from moothall.market.quotas import Disk
from moothall.market.rules import Quotas
from moothall.store.units import Engine
from moothall.wire.mesh.announcements import Advertise
from moothall.wire.mesh.envelope import (
    NO_CONVERSATION,
    NO_RECIPIENT,
    Envelope,
    decode,
    encode,
    seal,
    signing_bytes,
)
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.notaries import BidType, Judgement, NotarizeBid, Verdict
from moothall.wire.mesh.offers import Accept, Propose
from moothall.wire.mesh.outcomes import Deliver, Feedback, Outcome, Role
from tests.identity.vectors import ALICE, BOB, CAROL, DAVE
from tests.store.conftest import place, postgres, server, sqlite  # noqa: F401
from tests.store.support import PATIENCE, Place, run
from tests.support.world import HALL_KEY, World

Answered = TypeVar("Answered")
CREDIT = 1_000_000
TALK = bytes(range(16))
NO_QUOTAS = Quotas()
HERE = Payer("127.0.0.1", is_loopback=True)


class Bench:
    """A desk, and envelopes that its agents send."""

    def __init__(self, store: Engine, world: World, desk: MeshDesk) -> None:
        self.store = store
        self.world = world
        self.desk = desk
        self.nonce = 0
        self.changes: list[tuple[tuple[bytes, ...], Notice | Offline]] = []
        desk.on_change(lambda keys, notice: self.changes.append((keys, notice)))

    def envelope(
        self,
        sender: PrivateKey,
        msg_type: MsgType,
        payload: bytes = b"",
        to: PrivateKey | None = None,
        talk: bytes = TALK,
    ) -> Envelope:
        self.nonce += 1
        return seal(
            msg_type,
            payload,
            sender=sender.public.raw,
            sign=sender.sign_bytes,
            nonce=self.nonce,
            now=self.world.hall.timestamp() * 1000,
            recipient=NO_RECIPIENT if to is None else to.public.raw,
            conversation_id=talk,
        )

    def sealed(self, sender: PrivateKey, msg_type: MsgType, payload: bytes = b"") -> tuple[Envelope, bytes]:
        envelope = self.envelope(sender, msg_type, payload)
        return envelope, encode(envelope)

    async def answer(
        self, ask: Callable[[Callable[[Any], None], Callable[[BaseException], None]], None]
    ) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        ask(answer.set_result, answer.set_exception)
        async with asyncio.timeout(PATIENCE):
            return await answer

    async def send(
        self,
        sender: PrivateKey,
        msg_type: MsgType,
        payload: bytes = b"",
        to: PrivateKey | None = None,
        *,
        talk: bytes = TALK,
        is_away: bool = False,
        is_proven: bool = True,
    ) -> Told:
        sent = self.envelope(sender, msg_type, payload, to, talk)
        return await self.take(sent, is_away=is_away, is_proven=is_proven)

    async def take(self, sent: Envelope, *, is_away: bool = False, is_proven: bool = True) -> Told:
        told: Told = await self.answer(
            lambda done, failed: self.desk.take(
                sent, encode(sent), HERE, done, failed, is_away=is_away, is_proven=is_proven
            )
        )
        return told

    async def ask(self, agent: PrivateKey, question: Any) -> Any:
        return await self.answer(
            lambda done, failed: self.desk.ask(agent.public.raw, question, HERE, done, failed)
        )

    async def order(self, agent: PrivateKey, kind: type[Cancel] | type[Consent]) -> Any:
        order = kind(
            conversation_id=TALK.hex(),
            nonce=1,
            timestamp=self.world.hall.timestamp() * 1000,
            signature="00" * 64,
        )
        return await self.ask(agent, order)

    async def advertise(self, agent: PrivateKey, payload: bytes, name: str = "agent") -> None:
        await self.post_advertise(
            self.envelope(agent, MsgType.ADVERTISE, payload, talk=NO_CONVERSATION), name
        )

    async def post_advertise(self, sent: Envelope, name: str = "agent") -> None:
        await self.answer(
            lambda done, failed: self.desk.advertise(
                sent, encode(sent), HERE, name, lambda: done(None), failed
            )
        )

    async def discover(self, query: str) -> Any:
        return await self.answer(lambda done, failed: self.desk.discover(query, done, failed))

    async def deposit(self, agent: PrivateKey, amount: int) -> None:
        await run(
            self.store, lambda books: credit_books.deposit(books, agent.public.raw, amount, "test", now=1)
        )

    async def propose(self, amount: int = 0, **fields: Any) -> Told:
        return await self.send(ALICE, MsgType.PROPOSE, Propose(amount=amount).encode(), BOB, **fields)

    async def propose_often(self) -> None:
        for _ in range(20):
            await self.propose(talk=token_bytes(16))

    async def consent_often(self) -> None:
        for _ in range(20):
            await self.order(BOB, Consent)

    async def deal(self, amount: int = 0) -> None:
        """Up to the delivery."""
        await self.propose(amount)
        await self.send(BOB, MsgType.ACCEPT, Accept(amount=amount).encode(), ALICE)
        await self.send(BOB, MsgType.DELIVER, Deliver(conversation_id=TALK, inline=b"work").encode(), ALICE)


def own_envelopes(world: World) -> OwnEnvelopes:
    return OwnEnvelopes(HALL_KEY.public.raw, HALL_KEY.sign_bytes, world.clock.time)


@asynccontextmanager
async def opened(
    place: Place,  # noqa: F811
    quotas: Quotas = NO_QUOTAS,
    *,
    logs: bool = True,
    stores_inboxes: bool = False,
    new_keys: int = 0,
) -> AsyncIterator[Bench]:
    async with place.opened() as store:
        world = World()
        desk = MeshDesk(
            store,
            world.hall,
            MeshRules(review=60_000, quotas=quotas),
            Disk(quotas),
            own_envelopes(world),
            new_keys=NewKeys(new_keys, 1),
            logs=logs,
            inboxes=StoredInboxes(store, world.hall) if stores_inboxes else None,
        )
        desk.open()
        yield Bench(store, world, desk)


@pytest.fixture
async def bench(place: Place) -> AsyncIterator[Bench]:  # noqa: F811
    async with opened(place) as bench:
        yield bench


async def settle(bench: Bench) -> None:
    """Until the store has answered what it was asked so far."""
    await run(bench.store, lambda _: None)
    await asyncio.sleep(0)


def changed(state: str) -> ConversationChanged:
    return ConversationChanged(conversation_id=TALK.hex(), state=state, cause="message")


def feedback(target: PrivateKey, score: int = 80, role: Role = Role.PARTICIPANT) -> bytes:
    return Feedback(
        conversation_id=TALK, target_agent=target.public.raw, score=score, outcome=Outcome.POSITIVE, role=role
    ).encode()


# -- envelopes -------------------------------------------------------------------------------------------


async def test_a_deal_with_notary_and_escrow(bench: Bench) -> None:
    await bench.deposit(ALICE, 20 * CREDIT)
    assert (await bench.propose(10 * CREDIT)).state == "NEGOTIATING"
    await bench.send(ALICE, MsgType.NOTARIZE_BID, NotarizeBid(BidType.REQUEST, TALK).encode())
    bid = await bench.send(CAROL, MsgType.NOTARIZE_BID, NotarizeBid(BidType.OFFER, TALK).encode())
    assert bid == Told()
    accepted = await bench.send(BOB, MsgType.ACCEPT, Accept(amount=10 * CREDIT).encode(), ALICE)
    notice = NotaryAssigned(conversation_id=TALK.hex(), notary=CAROL.public.raw.hex(), fee=CREDIT)
    assert accepted.state == "COMMITTED"
    assert accepted.notices == ((ALICE.public.raw, notice), (BOB.public.raw, notice))
    [mail] = accepted.mail
    assign = decode(mail.envelope)
    assert (assign.sender, assign.recipient) == (HALL_KEY.public.raw, CAROL.public.raw)
    assert verify(assign.sender, signing_bytes(assign), assign.signature)
    assert (await bench.ask(ALICE, AskBalance())).balance == 9 * CREDIT
    work = Deliver(conversation_id=TALK, inline=b"work").encode()
    delivered = await bench.send(BOB, MsgType.DELIVER, work, ALICE)
    assert delivered.notices == ((CAROL.public.raw, changed("DELIVERED")),)
    verdict = Verdict(Judgement.APPROVE, ALICE.public.raw, BOB.public.raw).encode()
    judged = await bench.send(CAROL, MsgType.VERDICT, verdict, ALICE)
    assert judged == Told(state="RESOLVED", notices=((BOB.public.raw, changed("RESOLVED")),))
    assert await bench.send(CAROL, MsgType.VERDICT, verdict, BOB) == Told(state="RESOLVED")
    assert await bench.ask(BOB, AskBalance()) == Balance(agent_id=BOB.public.raw.hex(), balance=9_950_000)
    assert (await bench.ask(CAROL, AskBalance())).balance == CREDIT
    rated = await bench.send(ALICE, MsgType.FEEDBACK, feedback(BOB), talk=NO_CONVERSATION)
    assert rated.state == "CLOSED"  # for its sender
    shown = await bench.ask(BOB, ShowConversation(conversation_id=TALK.hex()))
    assert shown.conversation.state == "RESOLVED"
    assert (await bench.send(BOB, MsgType.FEEDBACK, feedback(ALICE))).state == "CLOSED"
    reputation = await bench.ask(CAROL, AskReputation(agent_id=BOB.public.raw.hex()))
    assert isinstance(reputation, Reputation)
    assert (reputation.reliability, reputation.total_tasks, reputation.transactions) == (80_000, 1, 1)


async def test_what_is_out_of_order_says_the_state_to_participants_alone(bench: Bench) -> None:
    await bench.propose()
    with pytest.raises(OutOfOrder) as refused:
        await bench.send(ALICE, MsgType.ACCEPT, Accept(amount=0).encode(), BOB)
    assert refused.value.state == "NEGOTIATING"
    with pytest.raises(OutOfOrder) as refused:
        await bench.send(CAROL, MsgType.ACCEPT, Accept(amount=0).encode(), BOB)
    assert refused.value.state == "IDLE"
    shown = await bench.ask(ALICE, ShowConversation(conversation_id=TALK.hex()))
    assert [each.msg_type for each in shown.history] == ["PROPOSE"]


async def test_without_cover_nothing_changes(bench: Bench) -> None:
    await bench.propose(10 * CREDIT)
    with pytest.raises(NoCover):
        await bench.send(BOB, MsgType.ACCEPT, Accept(amount=10 * CREDIT).encode(), ALICE)
    shown = await bench.ask(ALICE, ShowConversation(conversation_id=TALK.hex()))
    assert shown.conversation.state == "NEGOTIATING"
    assert len(shown.history) == 1


async def test_envelopes_of_one_conversation_are_decided_in_their_order(bench: Bench) -> None:
    """All of them are handed in before the first one is answered."""
    steps = [
        bench.propose(),
        bench.send(BOB, MsgType.ACCEPT, Accept(amount=0).encode(), ALICE),
        bench.send(BOB, MsgType.DELIVER, Deliver(conversation_id=TALK, inline=b"work").encode(), ALICE),
    ]
    told = await asyncio.gather(*steps)
    assert [each.state for each in told] == ["NEGOTIATING", "COMMITTED", "DELIVERED"]
    assert bench.desk.waiting == 0


async def test_an_envelope_is_kept_for_a_recipient_that_is_away(place: Place) -> None:  # noqa: F811
    async with opened(place, stores_inboxes=True) as bench:
        assert (await bench.propose(is_away=True)).stored
        await bench.send(ALICE, MsgType.NOTARIZE_BID, NotarizeBid(BidType.REQUEST, TALK).encode())
        for notary in (CAROL, DAVE):
            await bench.send(notary, MsgType.NOTARIZE_BID, NotarizeBid(BidType.OFFER, TALK).encode())
        accepted = await bench.send(BOB, MsgType.ACCEPT, Accept(amount=0).encode(), ALICE)
        assert not accepted.stored
        [mail] = accepted.mail
        assert mail.stored
        found: Page = await run(bench.store, lambda books: books.inbox(mail.recipient, None, 10, 10**6))
        assert [envelope for _, envelope in found.envelopes] == [mail.envelope]
        inbox: Page = await run(bench.store, lambda books: books.inbox(BOB.public.raw, None, 10, 10**6))
        [(_, kept)] = inbox.envelopes
        assert decode(kept).msg_type is MsgType.PROPOSE
        with pytest.raises(OutOfOrder):
            await bench.send(BOB, MsgType.ACCEPT, Accept(message="yes").encode(), ALICE, is_away=True)
        assert await run(bench.store, lambda books: books.newest_envelope(ALICE.public.raw)) == 0


async def test_what_is_kept_in_an_inbox_is_tidied_up(place: Place) -> None:  # noqa: F811
    async with opened(place, stores_inboxes=True) as bench:
        await bench.propose(is_away=True)
        bench.world.advance(MAX_AGE / 1000 - TIDY_SECONDS / 2)
        await settle(bench)
        assert await run(bench.store, lambda books: books.newest_envelope(BOB.public.raw)) > 0
        await bench.propose(is_away=True, talk=token_bytes(16))
        bench.world.advance(2 * TIDY_SECONDS)
        async with asyncio.timeout(PATIENCE):
            while True:
                inbox: Page = await run(
                    bench.store, lambda books: books.inbox(BOB.public.raw, None, 10, 10**6)
                )
                if len(inbox.envelopes) < 2:
                    break
        assert (len(inbox.envelopes), inbox.lost) == (1, 1)


async def test_a_notary_that_is_here_gets_its_assignment_from_the_room_alone(place: Place) -> None:  # noqa: F811
    async with opened(place, stores_inboxes=True) as bench:
        bench.desk.present(CAROL.public.raw, is_here=True)
        await bench.propose()
        await bench.send(ALICE, MsgType.NOTARIZE_BID, NotarizeBid(BidType.REQUEST, TALK).encode())
        await bench.send(CAROL, MsgType.NOTARIZE_BID, NotarizeBid(BidType.OFFER, TALK).encode())
        accepted = await bench.send(BOB, MsgType.ACCEPT, Accept(amount=0).encode(), ALICE)
        assert [mail.stored for mail in accepted.mail] == [False]
        assert await run(bench.store, lambda books: books.newest_envelope(CAROL.public.raw)) == 0


async def test_an_envelope_that_comes_again_after_a_restart_changes_nothing(place: Place) -> None:  # noqa: F811
    """As one that was ahead of the clock of the process before may."""
    async with opened(place) as bench:
        await bench.deal()
        await bench.send(ALICE, MsgType.VERDICT, _approval(), BOB)
        rated = bench.envelope(ALICE, MsgType.FEEDBACK, feedback(BOB))
        offered = bench.envelope(CAROL, MsgType.NOTARIZE_BID, _any_offer(), talk=NO_CONVERSATION)
        old = bench.envelope(BOB, MsgType.ADVERTISE, _advertised("old"), talk=NO_CONVERSATION)
        await bench.take(rated)
        await bench.take(offered)
        await bench.post_advertise(old)
        bench.world.advance(1)
        await bench.advertise(BOB, _advertised("new"))
        before = await _state(bench)
    async with opened(place) as bench:
        bench.world.advance(20)
        with pytest.raises(OutOfOrder):
            await bench.take(rated)
        await bench.take(offered)
        await bench.post_advertise(old)
        assert await _state(bench) == before


def _approval() -> bytes:
    return Verdict(Judgement.APPROVE, ALICE.public.raw, BOB.public.raw).encode()


def _any_offer() -> bytes:
    return NotarizeBid(BidType.OFFER, NO_CONVERSATION).encode()


def _advertised(capability: str) -> bytes:
    return Advertise(capabilities=(capability,)).encode()


async def _state(bench: Bench) -> Any:
    """What a replay could change, and the log."""

    def look(books: Any) -> Any:
        tables = ("conversations", "notary_bids", "registrations", "standings", "audit", "mesh_log")
        return [sorted(books._query(f"SELECT * FROM {table}")) for table in tables]  # noqa: S608

    return await run(bench.store, look)


async def test_without_an_inbox_in_the_store_nothing_is_kept_there(bench: Bench) -> None:
    assert not (await bench.propose(is_away=True)).stored
    assert await run(bench.store, lambda books: books.newest_envelope(BOB.public.raw)) == 0


async def test_without_a_log_there_is_no_history(place: Place) -> None:  # noqa: F811
    async with opened(place, logs=False) as bench:
        await bench.propose()
        shown = await bench.ask(ALICE, ShowConversation(conversation_id=TALK.hex()))
        assert (shown.conversation.state, shown.history) == ("NEGOTIATING", ())


async def test_what_an_envelope_adds_to_the_store_is_charged(place: Place) -> None:  # noqa: F811
    async with opened(place, Quotas(disk_per_key=4000)) as bench:
        with pytest.raises(RateLimited, match="Your key"):
            await bench.propose_often()
    async with opened(place, Quotas(disk_per_address=1000)) as bench:
        with pytest.raises(RateLimited, match="Your address"):
            await bench.propose_often()


# -- questions -------------------------------------------------------------------------------------------


async def test_a_conversation_is_shown_to_its_participants(bench: Bench) -> None:
    await bench.deposit(ALICE, 20 * CREDIT)
    await bench.deal(10 * CREDIT)
    shown = await bench.ask(BOB, ShowConversation(conversation_id=TALK.hex()))
    assert isinstance(shown, ConversationShown)
    assert shown.escrow is not None
    assert (shown.escrow.amount, shown.escrow.notary_fee, shown.escrow.settled) == (10 * CREDIT, 0, None)
    assert [each.msg_type for each in shown.history] == ["PROPOSE", "ACCEPT", "DELIVER"]
    assert decode(b64decode(shown.history[0].envelope)).sender == ALICE.public.raw
    assert shown.conversation.deadline == bench.world.hall.timestamp() + 60_000
    for question in (ShowConversation(conversation_id=TALK.hex()), ListConversations(before=TALK.hex())):
        with pytest.raises(OutOfOrder, match="no conversation"):
            await bench.ask(DAVE, question)


async def test_conversations_are_listed_a_page_at_a_time(bench: Bench) -> None:
    for number in range(5):
        await bench.propose(talk=bytes([number + 1] * 16))
    seen: list[str] = []
    before: str | None = None
    for _ in range(3):
        page = await bench.ask(BOB, ListConversations(limit=2, before=before))
        assert isinstance(page, Conversations)
        seen += [each.conversation_id for each in page.conversations]
        before = page.before
    assert before is None
    assert sorted(seen) == [(bytes([number + 1] * 16)).hex() for number in range(5)]


async def test_the_requester_cancels_and_the_provider_consents(bench: Bench) -> None:
    await bench.deposit(ALICE, 20 * CREDIT)
    await bench.deal(10 * CREDIT)
    with pytest.raises(OutOfOrder):
        await bench.order(ALICE, Cancel)
    await bench.order(BOB, Consent)
    assert bench.changes == []
    answer = await bench.order(ALICE, Cancel)
    assert answer == Cancelled(conversation_id=TALK.hex(), state="CLOSED")
    assert (await bench.ask(ALICE, AskBalance())).balance == 20 * CREDIT
    [(keys, notice)] = bench.changes
    assert set(keys) == {ALICE.public.raw, BOB.public.raw}
    assert notice == ConversationChanged(conversation_id=TALK.hex(), state="CLOSED", cause="cancel")


async def test_an_order_is_kept_as_it_was_signed(
    place: Place,  # noqa: F811
) -> None:
    async with opened(place) as bench:
        await bench.propose()
        await bench.order(ALICE, Cancel)
        at = bench.world.hall.timestamp() * 1000
    [(data,)] = place.select("SELECT data FROM audit WHERE operation = 'mesh_cancel'")
    hall = HALL_KEY.public.raw.hex()
    assert json.loads(data)["message"]["order"] == f"MOOTHALL_MESH_ORDER|cancel|{TALK.hex()}|1|{at}|{hall}"


# -- deadlines -------------------------------------------------------------------------------------------


async def test_a_delivery_is_approved_after_the_review(bench: Bench) -> None:
    await bench.deposit(ALICE, 20 * CREDIT)
    await bench.deal(10 * CREDIT)
    bench.world.advance(59)
    await settle(bench)
    assert bench.changes == []
    bench.world.advance(2)
    while not bench.changes:
        await settle(bench)
    [(_, notice)] = bench.changes
    assert notice == ConversationChanged(conversation_id=TALK.hex(), state="RESOLVED", cause="review")
    assert (await bench.ask(BOB, AskBalance())).balance == 9_950_000


async def test_a_deadline_that_passed_while_the_hall_was_closed_is_acted_upon(place: Place) -> None:  # noqa: F811
    async with opened(place) as bench:
        await bench.deposit(ALICE, 20 * CREDIT)
        await bench.propose(10 * CREDIT)
        await bench.send(BOB, MsgType.ACCEPT, Accept(amount=10 * CREDIT).encode(), ALICE)
    async with place.opened() as store:
        world = World()
        world.advance(MeshRules().escrow_timeout / 1000)
        desk = MeshDesk(
            store, world.hall, MeshRules(), Disk(Quotas()), own_envelopes(world), new_keys=NewKeys(0, 1)
        )
        bench = Bench(store, world, desk)
        desk.open()
        while not bench.changes:
            await settle(bench)
        [(_, notice)] = bench.changes
        assert notice == ConversationChanged(conversation_id=TALK.hex(), state="CLOSED", cause="timeout")
        assert (await bench.ask(ALICE, AskBalance())).balance == 20 * CREDIT


async def test_conversations_are_counted(bench: Bench) -> None:
    await bench.propose()
    bench.world.advance(1.5)
    async with asyncio.timeout(PATIENCE):
        while not bench.desk.counts:
            await settle(bench)
    assert bench.desk.counts == {"NEGOTIATING": 1}


# -- the directory ---------------------------------------------------------------------------------------


async def test_a_discover_finds_what_was_advertised(bench: Bench) -> None:
    await bench.advertise(ALICE, Advertise(capabilities=("ocr",)).encode(), "alice")
    [found] = await bench.discover("ocr")
    assert (found["agent_id"], found["name"], found["online"]) == (ALICE.public.raw.hex(), "alice", False)
    bench.world.agent("anyone", key=ALICE)
    [found] = await bench.discover("ocr")
    assert found["online"]
    with pytest.raises(InvalidMessage):
        await bench.discover("")


async def test_an_advertise_that_does_not_parse_is_logged_all_the_same(place: Place) -> None:  # noqa: F811
    async with opened(place) as bench:
        await bench.advertise(ALICE, b"not JSON")
        asked = bench.envelope(BOB, MsgType.DISCOVER, b"{}", talk=NO_CONVERSATION)
        bench.desk.record(asked, b"raw", HERE)
        bench.desk.close()
    assert place.select("SELECT msg_type FROM mesh_log ORDER BY number") == [(1,), (2,)]


async def test_orders_count_towards_the_disk_quota(place: Place) -> None:  # noqa: F811
    async with opened(place, Quotas(disk_per_key=4000)) as bench:
        await bench.propose()
        with pytest.raises(RateLimited):
            await bench.consent_often()


async def test_credits_of_a_key_that_was_proven_move_only_with_a_proof(bench: Bench) -> None:
    """A PROPOSE that was sent to another hall is brought here by its recipient, which would be paid twice."""
    await bench.deposit(ALICE, 20 * CREDIT)
    await bench.propose(10 * CREDIT)
    with pytest.raises(VerificationRequired):
        await bench.propose(10 * CREDIT, talk=token_bytes(16), is_proven=False)
    assert (await bench.propose(talk=token_bytes(16), is_proven=False)).state == "NEGOTIATING"
    # Bob has no credits, and never proved his key.
    told = await bench.send(BOB, MsgType.ACCEPT, Accept(amount=10 * CREDIT).encode(), ALICE, is_proven=False)
    assert told.state == "COMMITTED"


async def test_an_agent_that_never_proves_its_key_spends_credits(bench: Bench) -> None:
    await bench.deposit(ALICE, 20 * CREDIT)
    assert (await bench.propose(10 * CREDIT, is_proven=False)).state == "NEGOTIATING"


async def test_a_proof_guards_the_credits_that_a_key_has(bench: Bench) -> None:
    await bench.deposit(ALICE, 20 * CREDIT)
    bench.desk.proved(ALICE.public.raw)
    account = agent_account(ALICE.public.raw)
    async with asyncio.timeout(PATIENCE):
        while not await run(bench.store, lambda books: books.is_guarded(account)):
            pass  # units of work are not in order on PostgreSQL
    with pytest.raises(VerificationRequired):
        await bench.propose(10 * CREDIT, is_proven=False)


async def test_a_proof_that_came_before_the_credits_guards_them_too(bench: Bench) -> None:
    bench.desk.present(ALICE.public.raw, is_here=True)
    await bench.deposit(ALICE, 20 * CREDIT)
    with pytest.raises(VerificationRequired):
        await bench.propose(10 * CREDIT, is_proven=False)


async def test_an_address_brings_a_bounded_number_of_new_keys(place: Place) -> None:  # noqa: F811
    async with opened(place, new_keys=2) as bench:
        await bench.propose()
        with pytest.raises(OutOfOrder):  # which is not kept
            await bench.send(CAROL, MsgType.ACCEPT, Accept(amount=0).encode(), ALICE)
        await bench.advertise(BOB, Advertise(capabilities=("ocr",)).encode())
        with pytest.raises(RateLimited, match="new keys"):
            await bench.advertise(CAROL, Advertise(capabilities=("ocr",)).encode())
        await bench.send(BOB, MsgType.ACCEPT, Accept(amount=0).encode(), ALICE)
    async with opened(place, new_keys=1) as bench:  # after a restart
        await bench.send(BOB, MsgType.DELIVER, b"work", ALICE)
        await bench.advertise(CAROL, Advertise(capabilities=("ocr",)).encode())


async def test_strangers_and_repetitions_do_not_get_into_the_history_of_a_conversation(bench: Bench) -> None:
    """They could hide a delivery from its notary, or be the first words that a court reads."""

    async def bid(agent: PrivateKey, kind: BidType, named: bytes = TALK) -> None:
        await bench.send(agent, MsgType.NOTARIZE_BID, NotarizeBid(kind, named).encode())

    bench.desk.record(*bench.sealed(CAROL, MsgType.BOUNTY, bytes(16) + b'{"message":"more work"}'), HERE)
    bench.desk.recorder.flush(bench.world.hall)
    await bench.propose()
    other = token_bytes(16)
    await bench.send(CAROL, MsgType.PROPOSE, Propose().encode(), DAVE, talk=other)
    await bid(CAROL, BidType.REQUEST)
    await bid(CAROL, BidType.REQUEST, named=other)  # in an envelope that names this one
    await bid(CAROL, BidType.OFFER)
    await bench.send(CAROL, MsgType.NOTARIZE_BID, b"?")
    for _ in range(3):
        await bid(ALICE, BidType.REQUEST)
    shown = await bench.ask(BOB, ShowConversation(conversation_id=TALK.hex()))
    assert [(each.msg_type, each.sender) for each in shown.history] == [
        ("PROPOSE", ALICE.public.raw.hex()),
        ("NOTARIZE_BID", ALICE.public.raw.hex()),
    ]
    assert (
        await run(bench.store, lambda books: books.count_logged(epoch_at(bench.world.hall.timestamp()))) == 10
    )

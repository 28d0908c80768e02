"""An agent of the mesh, in a hall that does what the test wants."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from moothall import Backoff, ConnectionFailed, ConnectionLost, PrivateKey, RateLimited, UntrustedHall
from moothall.errors import EnvelopeRejected, MoothallError, NoCover, NotConnected, OutOfOrder, ReplyTimeout
from moothall.hall.mesh import frames
from moothall.mesh import Away, Change, MeshAgent, Message, Missed, intake
from moothall.wire.mesh.envelope import Envelope, decode, encode, seal
from moothall.wire.mesh.faults import Fault
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.offers import Propose
from tests.client.meeting import Heard, soon
from tests.mesh.small_hall import HALL_KEY, SmallHall
from tests.mesh.waiting import state, true_soon

ALICE = PrivateKey(bytes([1]) * 32)
BOB = PrivateKey(bytes([2]) * 32)
QUICKLY = Backoff(first=0.01, longest=0.05)


@pytest.fixture
async def hall() -> AsyncIterator[SmallHall]:
    async with SmallHall() as running:
        yield running


def agent(key: PrivateKey, name: str = "agent", **options: object) -> MeshAgent:
    return MeshAgent(name, key=key, backoff=QUICKLY, **options)  # type: ignore[arg-type]


def proposal(
    to: PrivateKey, *, nonce: int = 5, by: PrivateKey = BOB, conversation: bytes = b"c" * 16
) -> bytes:
    envelope = seal(
        MsgType.PROPOSE,
        Propose(amount=7, message="work?").encode(),
        sender=by.public.raw,
        sign=by.sign_bytes,
        nonce=nonce,
        now=10**15,
        recipient=to.public.raw,
        conversation_id=conversation,
    )
    return encode(envelope)


async def test_a_deal_from_propose_to_feedback(hall: SmallHall) -> None:
    alice, bob = agent(ALICE, "alice"), agent(BOB, "bob")
    proposals: Heard[Message] = Heard()
    deliveries: Heard[Message] = Heard()
    bob.on("PROPOSE")(proposals)
    alice.on_deliver(deliveries)
    async with alice.connected(hall.url), bob.connected(hall.url):
        deal = await alice.propose(bob.id, "translate", amount=1_000_000)
        assert state(deal) == "NEGOTIATING"
        offer = await proposals.next()
        assert (offer.sender, offer.amount, offer.text) == (alice.id, 1_000_000, "translate")
        assert offer.conversation is not None
        assert offer.conversation.role == "provider"
        await offer.conversation.counter(2_000_000, "that is much")
        await true_soon(lambda: deal.amount == 2_000_000)
        await deal.accept()
        await soon(offer.conversation.wait_for("COMMITTED"))
        sent = await offer.conversation.deliver("Guten Tag")
        assert sent.state == "DELIVERED"
        delivery = await deliveries.next()
        assert (delivery.text, delivery.work) == ("Guten Tag", b"Guten Tag")
        await deal.approve()
        await soon(offer.conversation.wait_for("RESOLVED"))
        await deal.feedback(90)
        assert state(deal) == "CLOSED"
        await offer.conversation.feedback(80)
        await soon(offer.conversation.wait_for("CLOSED"))
        assert [each.type for each in deal.history] == [
            "PROPOSE",
            "COUNTER",
            "ACCEPT",
            "DELIVER",
            "VERDICT",
            "FEEDBACK",
            "FEEDBACK",
        ]


async def test_what_the_state_does_not_allow_is_refused_before_it_is_signed(hall: SmallHall) -> None:
    alice = agent(ALICE)
    async with alice.connected(hall.url):
        deal = await alice.propose(BOB.public.raw, "work")
        before = len(hall.taken)
        with pytest.raises(OutOfOrder, match="did not make the last offer"):
            await deal.accept()
        with pytest.raises(OutOfOrder, match="the conversation is NEGOTIATING"):
            await deal.approve()
        assert len(hall.taken) == before


async def test_another_program_with_the_key_may_have_gone_on(hall: SmallHall) -> None:
    """The hall is asked before a message is refused."""
    alice, beside, bob = agent(ALICE), agent(ALICE, beacon=False), agent(BOB)
    async with alice.connected(hall.url), beside.connected(hall.url), bob.connected(hall.url):
        deal = await bob.propose(alice.id, "work", amount=3)
        other = await beside.conversation(deal.id)
        await other.counter(4)
        await true_soon(lambda: deal.amount == 4)
        await deal.accept()
        mine = alice.conversation_of(bytes.fromhex(deal.id))
        sent = await mine.deliver(b"done")
        assert sent.state == "DELIVERED"


async def test_an_answer_to_what_the_hall_says(hall: SmallHall) -> None:
    alice = agent(ALICE)
    async with alice.connected(hall.url):
        cases: list[tuple[str, type[MoothallError]]] = [
            ("NoCover", NoCover),
            ("RATE_LIMITED", RateLimited),
            ("TimestampOutOfTolerance", EnvelopeRejected),
        ]
        for fault, error in cases:
            hall.refuse = lambda _, fault=fault: (fault, "because of this")  # type: ignore[misc]
            with pytest.raises(error, match="because of this"):
                await alice.propose(BOB.public.raw, "work")


async def test_a_nonce_that_the_hall_has_passed_is_replaced(hall: SmallHall) -> None:
    alice = agent(ALICE)
    async with alice.connected(hall.url):
        refusals = iter([("NonceReplay", "used"), ("NonceReplay", "used")])
        hall.refuse = lambda _: next(refusals, None)
        deal = await alice.propose(BOB.public.raw, "work")
        assert state(deal) == "NEGOTIATING"
        nonces = [each.nonce for each in hall.taken if each.msg_type is MsgType.PROPOSE]
        assert len(nonces) == 3
        assert sorted(nonces) == nonces


async def test_an_agent_that_is_away_finds_its_envelopes(hall: SmallHall) -> None:
    alice, bob = agent(ALICE), agent(BOB)
    async with alice.connected(hall.url):
        deal = await alice.propose(bob.id, "work", amount=1)
    proposals: Heard[Message] = Heard()
    bob.on_propose(proposals)
    async with bob.connected(hall.url):
        message = await proposals.next()
        assert message.conversation_id == deal.id
        await true_soon(lambda: not hall.inbox[BOB.public.raw])


async def test_the_sender_is_told_that_the_recipient_is_away(hall: SmallHall) -> None:
    alice = agent(ALICE)
    away: Heard[Away] = Heard()
    alice.on_away(away)
    async with alice.connected(hall.url):
        deal = await alice.propose(BOB.public.raw, "work")
        assert state(deal) == "NEGOTIATING"
        frame = frames.Offline(
            recipient=BOB.public.raw.hex(), msg_type="PROPOSE", nonce=1, conversation_id=deal.id, stored=False
        )
        await hall.push(ALICE.public.raw, frame)
        assert not (await away.next()).stored


async def test_what_comes_twice_is_heard_once(hall: SmallHall) -> None:
    alice = agent(ALICE)
    proposals: Heard[Message] = Heard()
    alice.on_propose(proposals)
    hall.keep(ALICE.public.raw, proposal(ALICE, nonce=5))
    async with alice.connected(hall.url):
        await hall.push(ALICE.public.raw, proposal(ALICE, nonce=5))
        await hall.push(ALICE.public.raw, proposal(ALICE, nonce=6, conversation=b"d" * 16))
        assert [(await proposals.next()).nonce, (await proposals.next()).nonce] == [5, 6]


async def test_an_envelope_that_its_sender_did_not_sign_or_that_is_for_another_is_dropped(
    hall: SmallHall,
) -> None:
    alice = agent(ALICE)
    messages: Heard[Message] = Heard()
    alice.on_message(messages)
    async with alice.connected(hall.url):
        forged = bytearray(proposal(ALICE))
        forged[-1] ^= 1
        await hall.push(ALICE.public.raw, bytes(forged))
        await hall.push(ALICE.public.raw, b"no envelope")
        await hall.push(ALICE.public.raw, proposal(BOB, nonce=8, by=HALL_KEY))
        await hall.push(ALICE.public.raw, proposal(ALICE, nonce=9))
        assert (await messages.next()).nonce == 9


async def test_it_comes_back_with_everything_it_had(hall: SmallHall) -> None:
    alice = agent(ALICE, "alice", capabilities=["translate"], topics=["news"])
    connects: Heard[str] = Heard()
    losses: Heard[MoothallError] = Heard()
    proposals: Heard[Message] = Heard()
    alice.on_connect(connects)
    alice.on_disconnect(losses)
    alice.on_propose(proposals)
    async with alice.connected(hall.url):
        assert await connects.next() == HALL_KEY.public.raw.hex() == alice.hall
        hall.drop(ALICE.public.raw)
        assert isinstance(await losses.next(), ConnectionLost)
        hall.keep(ALICE.public.raw, proposal(ALICE))
        await connects.next()
        kinds = [each.msg_type for each in hall.taken]
        assert kinds == [MsgType.BEACON, MsgType.ADVERTISE] * 2
        topics = [each.topic for each in hall.asked if isinstance(each, frames.Subscribe)]
        assert topics == ["news", "news"]


async def test_a_lost_connection_says_that_the_outcome_is_unknown(hall: SmallHall) -> None:
    alice = agent(ALICE)
    connects: Heard[str] = Heard()
    alice.on_connect(connects)
    async with alice.connected(hall.url):
        await connects.next()
        deal = await alice.propose(BOB.public.raw, "work")
        hall.is_silent = True
        waiting = asyncio.create_task(deal.counter(5))
        await true_soon(lambda: hall.taken[-1].msg_type is MsgType.COUNTER)
        hall.drop(ALICE.public.raw)
        with pytest.raises(ConnectionLost):
            await waiting
        hall.is_silent = False
        await connects.next()
        await deal.refresh()
        assert state(deal) == "NEGOTIATING"


async def test_a_hall_that_says_nothing_is_not_waited_for_without_end(hall: SmallHall) -> None:
    alice = agent(ALICE, timeout=0.2)
    async with alice.connected(hall.url):
        hall.is_silent = True
        with pytest.raises(ReplyTimeout, match="what became of this PROPOSE"):
            await alice.propose(BOB.public.raw, "work")


async def test_the_wish_for_a_notary_does_not_wait_for_the_answer_to_the_offer(hall: SmallHall) -> None:
    """Else an agent that accepts at once is faster, and there is no notary."""
    alice = agent(ALICE)
    async with alice.connected(hall.url):
        hall.is_silent = True
        waiting = asyncio.create_task(alice.propose(BOB.public.raw, "work", wants_notary=True))
        await true_soon(lambda: hall.taken[-1].msg_type is MsgType.NOTARIZE_BID)
        assert hall.taken[-2].msg_type is MsgType.PROPOSE
        hall.drop(ALICE.public.raw)
        with pytest.raises(ConnectionLost):
            await waiting


async def test_an_offer_with_a_wish_is_signed_anew_from_the_one_that_was_refused(hall: SmallHall) -> None:
    refusals = [MsgType.PROPOSE, MsgType.NOTARIZE_BID]

    def refuse(envelope: Envelope) -> tuple[str, str] | None:
        if refusals and envelope.msg_type is refusals[0]:
            refusals.pop(0)
            return Fault.NONCE_REPLAY, "used"
        return None

    hall.refuse = refuse
    alice = agent(ALICE)
    async with alice.connected(hall.url):
        deal = await alice.propose(BOB.public.raw, "work", wants_notary=True)
        assert [each.type for each in deal.history] == ["PROPOSE", "NOTARIZE_BID"]
        assert state(deal) == "NEGOTIATING"
        assert hall.taken[-1].msg_type is MsgType.NOTARIZE_BID


async def test_a_hall_with_another_key_gets_no_signature(hall: SmallHall) -> None:
    async with agent(ALICE).connected(hall.url):
        pass
    hall.challenge_key = BOB.public.raw.hex()
    with pytest.raises(UntrustedHall, match="another key"):
        await agent(ALICE).connect(hall.url)


async def test_a_hall_that_passes_on_the_challenge_of_another_gets_no_signature(hall: SmallHall) -> None:
    hall.host = "hall.example:6667"
    with pytest.raises(UntrustedHall, match=r"calls itself 'hall\.example:6667'"):
        await agent(ALICE).connect(hall.url)


async def test_a_beacon_is_sent_again_and_again(hall: SmallHall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moothall.mesh.agent.BEACON_SECONDS", 0.001)
    async with agent(ALICE, "alice").connected(hall.url):
        await true_soon(lambda: len(hall.taken) >= 3)
    assert {each.msg_type for each in hall.taken} == {MsgType.BEACON}


async def test_an_agent_that_is_not_to_be_seen_sends_none(hall: SmallHall) -> None:
    async with agent(ALICE, beacon=False).connected(hall.url) as alice:
        await alice.balance()
    assert hall.taken == []


async def test_waiting_for_a_state_has_an_end(hall: SmallHall) -> None:
    alice = agent(ALICE)
    async with alice.connected(hall.url):
        deal = await alice.propose(BOB.public.raw, "work")
        with pytest.raises(ReplyTimeout, match=r"NEGOTIATING after 0\.01 s"):
            await deal.wait_for("COMMITTED", timeout=0.01)
        waiting = asyncio.create_task(deal.wait_for("COMMITTED"))
    with pytest.raises(NotConnected, match="the agent has left"):
        await waiting


async def test_more_than_the_agent_holds_waits_at_the_hall(
    hall: SmallHall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "MAX_WAITING_BYTES", 1000)
    alice = agent(ALICE)
    proposals: Heard[Message] = Heard()
    alice.on_propose(proposals)
    async with alice.connected(hall.url):
        for nonce in range(1, 21):
            await hall.push(ALICE.public.raw, proposal(ALICE, nonce=nonce, conversation=bytes([nonce]) * 16))
        assert [(await proposals.next()).nonce for _ in range(20)] == list(range(1, 21))


async def test_what_the_hall_changes_by_itself(hall: SmallHall) -> None:
    alice = agent(ALICE)
    changes: Heard[Change] = Heard()
    alice.on_change(changes)
    async with alice.connected(hall.url):
        deal = await alice.propose(BOB.public.raw, "work")
        notice = frames.ConversationChanged(conversation_id=deal.id, state="CLOSED", cause="timeout")
        await hall.push(ALICE.public.raw, notice)
        change = await changes.next()
        assert (change.conversation, change.state, change.cause) == (deal, "CLOSED", "timeout")
        assert state(deal) == "CLOSED"


async def test_a_notary_that_the_hall_assigns(hall: SmallHall) -> None:
    alice = agent(ALICE)
    heard: Heard[object] = Heard()
    alice.on("notary")(heard)
    async with alice.connected(hall.url):
        deal = await alice.propose(BOB.public.raw, "work")
        notary = "ab" * 32
        await hall.push(
            ALICE.public.raw, frames.NotaryAssigned(conversation_id=deal.id, notary=notary, fee=3)
        )
        await heard.next()
        assert deal.notary == notary


async def test_envelopes_that_had_to_make_way(hall: SmallHall) -> None:
    hall.lost = 3
    alice = agent(ALICE)
    missed: Heard[Missed] = Heard()
    alice.on_missed(missed)
    async with alice.connected(hall.url):
        assert (await missed.next()).count == 3


async def test_questions(hall: SmallHall) -> None:
    hall.results = [{"agent_id": "ab" * 32, "name": "tess", "capabilities": ["t"], "online": True, "geo": 1}]
    alice = agent(ALICE)
    async with alice.connected(hall.url):
        assert await alice.balance() == 5_000_000
        (found,) = await alice.discover("t")
        assert (found.name, found.online, found.advertised) == ("tess", True, {"geo": 1})
        deal = await alice.propose(BOB.public.raw, "work")
        await deal.cancel()
        assert state(deal) == "CLOSED"
        with pytest.raises(MoothallError, match="does not know this question"):
            await alice.reputation()


async def test_words_that_are_no_ids_and_no_events(hall: SmallHall) -> None:
    alice = agent(ALICE)
    with pytest.raises(ValueError, match="64 hex digits"):
        await alice.propose("bob", "work")
    with pytest.raises(ValueError, match="no event 'propose'"):
        alice.on("propose")
    with pytest.raises(TypeError, match="async function"):
        alice.on_propose(print)  # type: ignore[type-var]
    with pytest.raises(NotConnected):
        await alice.balance()
    with pytest.raises(NotConnected):
        _ = alice.hall


async def test_where_no_hall_is() -> None:
    with pytest.raises(ConnectionFailed):
        await agent(ALICE).connect("ws://127.0.0.1:9")


async def test_the_nonces_of_a_key_file_are_kept_beside_it(hall: SmallHall, tmp_path: Path) -> None:
    path = tmp_path / "alice.json"
    async with MeshAgent("alice", key=path, create=True).connected(hall.url) as alice:
        await alice.broadcast("news", "hello")
        assert int((tmp_path / "alice.json.nonce").read_text()) >= hall.taken[-1].nonce


async def test_what_is_raw_can_be_verified_by_others(hall: SmallHall) -> None:
    alice = agent(ALICE)
    async with alice.connected(hall.url):
        deal = await alice.propose(BOB.public.raw, "work")
        (message,) = deal.history
        assert decode(message.raw) == message.envelope
        assert len(message.hash) == 64


async def test_an_agent_can_leave_its_inbox_to_another_program(hall: SmallHall) -> None:
    hall.keep(ALICE.public.raw, proposal(ALICE))
    async with agent(ALICE, beacon=False, inbox=False).connected(hall.url) as alice:
        assert await alice.balance() == 5_000_000
    assert not any(isinstance(asked, frames.ReadInbox) for asked in hall.asked)
    assert len(hall.inbox[ALICE.public.raw]) == 1

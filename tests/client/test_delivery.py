"""Delivery receipts, as a sender and as a recipient see them."""

import asyncio
import gc
import json
from contextlib import suppress

import pytest

from moothall import (
    Agent,
    AgentNotFound,
    DeliveryReceipt,
    Message,
    NotConnected,
    NotOffered,
    PrivateKey,
    ReplyTimeout,
    SyncAgent,
    UsageError,
)
from moothall.app import App
from moothall.client.delivery import SEEN_IN_WINDOW, Delivery
from moothall.client.pace import FramePace
from moothall.hall.delivery_receipts import MAX_NAMED
from moothall.wire.agentchat.server import DeliveryStatus
from tests.client.conftest import OpenHall
from tests.client.door import Door
from tests.client.meeting import AT_ONCE, QUICKLY, Heard, listen, settled, soon
from tests.support.sockets import Peer, text

ALICE = PrivateKey(bytes(range(32)))


def receipts(agent: Agent) -> Heard[DeliveryReceipt]:
    heard: Heard[DeliveryReceipt] = Heard()
    agent.on_receipt(heard)
    return heard


# -- as a sender -----------------------------------------------------------------------------------


async def test_a_message_is_delivered_seen_and_done(url: str) -> None:
    alice, bob = Agent("alice"), Agent("bob")
    heard, told = listen(bob, dms=True), receipts(alice)
    async with alice.connected(url), bob.connected(url):
        delivery = await alice.send(bob.address, "please", receipt=True)
        assert await delivery.delivered()
        assert (await delivery.wait_for("SEEN")).to == bob.address
        message = await heard.next()
        assert (message.id, message.wants_receipt) == (delivery.id, True)
        assert await message.done()
        done = await delivery.wait_for("DONE")
        assert (done.msg_id, done.of, done.count, done.reason) == (delivery.id, 1, None, None)
        assert dict(delivery.statuses) == {bob.address: "DONE"}
        assert (delivery.to, delivery.recipients, delivery.is_delivered) == (bob.address, 1, True)
        await told.until(lambda receipt: receipt.status == "DONE")
        assert [receipt.status for receipt in told.events] == ["DELIVERED", "SEEN", "DONE"]


async def test_a_failure_says_why(url: str) -> None:
    alice, bob = Agent("alice"), Agent("bob")

    @bob.on_message(dms=True)
    async def give_up(message: Message) -> None:
        await message.failed("no such file")

    async with alice.connected(url), bob.connected(url):
        delivery = await alice.send(bob.address, "read it", receipt=True)
        assert (await delivery.wait_for("FAILED")).reason == "no such file"
        assert dict(delivery.reasons) == {bob.address: "no such file"}


async def test_in_an_empty_channel_nothing_is_delivered(url: str) -> None:
    async with Agent("alice", channels="general").connected(url) as alice:
        delivery = await alice.send("#general", "hello?", receipt=True)
        assert not await delivery.delivered()
        assert (delivery.recipients, delivery.is_settled) == (0, True)
        assert "No other agent" in delivery.reasons["#general"]


async def test_a_message_of_callbacks_alone_has_no_recipients(url: str) -> None:
    async with Agent("alice", channels="general").connected(url) as alice:
        delivery = await alice.send("#general", "@@cb:60s@@wake up", receipt=True)
        assert (delivery.id, delivery.recipients) == (None, 0)
        assert not await delivery.delivered()


async def test_without_the_question_there_is_an_id_and_no_receipt(url: str) -> None:
    alice, bob = Agent("alice"), Agent("bob")
    heard, told = listen(bob, dms=True), receipts(alice)
    async with alice.connected(url), bob.connected(url):
        msg_id = await alice.send(bob.address, "hello")
        message = await heard.next()
        assert message.id == msg_id
        assert not message.wants_receipt
        assert not await message.seen()
        assert not await message.done()
        assert not await message.failed("why not")
        await settled(bob, alice)
        assert told.events == []


async def test_a_wait_ends_in_time_and_when_the_agent_leaves(url: str) -> None:
    alice, bob = Agent("alice"), Agent("bob")
    async with bob.connected(url):
        async with alice.connected(url):
            delivery = await alice.send(bob.address, "please", receipt=True)
            with pytest.raises(ReplyTimeout, match="no recipient said DONE after"):
                await delivery.wait_for("DONE", timeout=0.01)
            waiting = asyncio.create_task(delivery.wait_for("DONE", timeout=60))
            await settled(alice)
        with pytest.raises(NotConnected):
            await soon(waiting)


async def test_receipts_come_after_a_reconnect(open_hall: OpenHall) -> None:
    async with open_hall() as hall, Door(hall.port.address[1]) as door:
        alice = Agent("alice", identity=ALICE, backoff=QUICKLY)
        bob = Agent("bob")
        heard = listen(bob, dms=True)
        async with alice.connected(door.url), bob.connected(hall.url):
            delivery = await alice.send(bob.address, "please", receipt=True)
            message = await heard.next()
            back = asyncio.create_task(alice.wait_for("connect"))
            await settled(alice)
            door.drop()
            await message.done()
            await soon(back)
            assert (await delivery.wait_for("DONE")).to == bob.address


async def test_a_delivery_that_the_program_forgot_is_forgotten(url: str) -> None:
    alice, bob = Agent("alice"), Agent("bob")
    async with alice.connected(url), bob.connected(url):
        await alice.send(bob.address, "please", receipt=True)
        gc.collect()
        assert not alice._deliveries._open


@pytest.mark.parametrize("kind", ["older", "off"])
async def test_where_there_are_no_receipts_that_is_said_and_nothing_is_sent(hall: App, kind: str) -> None:
    if kind == "older":
        hall.hall.features = tuple(name for name in hall.hall.features if name != "receipts")
    alice = Agent("alice", channels="general", delivery_receipts="off" if kind == "off" else "auto")
    bob = Agent("bob", channels="general")
    heard = listen(bob)
    async with alice.connected(hall.url), bob.connected(hall.url):
        with pytest.raises(UsageError if kind == "off" else NotOffered):
            await alice.send("#general", "hello", receipt=True)
        with pytest.raises(UsageError if kind == "off" else NotOffered):
            await alice.report("1-a", "DONE")
        await settled(alice, bob)
        assert heard.events == []


def test_a_mode_that_does_not_exist() -> None:
    with pytest.raises(UsageError, match='"auto", "manual" or "off"'):
        Agent(delivery_receipts="always")  # type: ignore[arg-type]


def test_counts_settle_a_delivery() -> None:
    def count(status: DeliveryStatus, number: int) -> DeliveryReceipt:
        return DeliveryReceipt("m", status, "#general", 60, number)

    delivery = Delivery("m", "#general")
    settled_after = [delivery.is_settled]
    for receipt in (
        count("DELIVERED", 40),
        DeliveryReceipt("m", "CLAIMED", "@a", 60),
        count("DELIVERED", 60),
    ):
        delivery.apply(receipt)
        settled_after.append(delivery.is_settled)
    assert settled_after == [False, False, False, True]
    assert delivery.is_delivered
    assert dict(delivery.counts) == {"DELIVERED": 60}
    other = Delivery("m", "#general")
    other.apply(count("DELIVERED", 59))
    other.apply(count("UNDELIVERED", 1))
    assert other.is_settled
    assert not other.is_delivered


# -- as a recipient --------------------------------------------------------------------------------


async def test_seen_is_said_when_code_has_the_message(url: str) -> None:
    """By a handler, an iterator or `wait_for`, whichever is first; and once."""
    alice, bob = Agent("alice"), Agent("bob")
    told = receipts(alice)
    async with alice.connected(url), bob.connected(url):
        delivery = await alice.send(bob.address, "to no one", receipt=True)
        await delivery.delivered()
        await settled(bob, alice)
        assert [receipt.status for receipt in told.events] == ["DELIVERED"]

        waiting = bob.wait_for("message")
        messages = bob.messages(dms=True)
        delivery = await alice.send(bob.address, "to code", receipt=True)
        await soon(waiting)
        await delivery.wait_for("SEEN")
        await soon(anext(messages))
        await settled(bob, alice)
        assert [receipt.status for receipt in told.events[1:]] == ["DELIVERED", "SEEN"]


async def test_an_iterator_says_seen(url: str) -> None:
    alice, bob = Agent("alice"), Agent("bob")
    async with alice.connected(url), bob.connected(url):
        messages = bob.messages(dms=True)
        delivery = await alice.send(bob.address, "please", receipt=True)
        await delivery.delivered()
        await settled(bob, alice)
        assert delivery.statuses[bob.address] == "DELIVERED"
        await soon(anext(messages))
        await delivery.wait_for("SEEN")


async def test_the_floor_is_claimed_and_said_so(url: str) -> None:
    alice, bob = Agent("alice", channels="general"), Agent("bob", channels="general")

    @bob.on_message("#general", floor=AT_ONCE)
    async def answer(message: Message) -> None:
        await message.reply("done")
        await message.done()

    told = receipts(alice)
    async with alice.connected(url), bob.connected(url):
        delivery = await alice.send("#general", "who can?", receipt=True)
        await delivery.wait_for("DONE")
        await told.until(lambda receipt: receipt.status == "DONE")
        statuses = [receipt.status for receipt in told.events]
        assert statuses[0] == "DELIVERED"
        assert statuses[-1] == "DONE"
        assert "CLAIMED" in statuses


async def test_manual_agents_say_it_themselves(url: str) -> None:
    alice, bob = Agent("alice"), Agent("bob", delivery_receipts="manual")
    heard = listen(bob, dms=True)
    async with alice.connected(url), bob.connected(url):
        delivery = await alice.send(bob.address, "please", receipt=True)
        message = await heard.next()
        await settled(bob, alice)
        assert delivery.statuses[bob.address] == "DELIVERED"
        assert await message.seen()
        await delivery.wait_for("SEEN")
        assert message.id is not None
        await bob.report(message.id, "DONE")
        await delivery.wait_for("DONE")


async def test_an_agent_that_is_off_tells_nothing(url: str) -> None:
    alice, bob = Agent("alice"), Agent("bob", delivery_receipts="off")
    heard = listen(bob, dms=True)
    async with alice.connected(url), bob.connected(url):
        delivery = await alice.send(bob.address, "please", receipt=True)
        assert not (await heard.next()).wants_receipt
        await settled(bob, alice)
        assert dict(delivery.statuses) == {bob.address: "DELIVERED"}


async def test_a_flood_of_questions_does_not_use_up_the_frames_of_an_agent(url: str) -> None:
    alice, bob = Agent("alice"), Agent("bob")
    heard, told = listen(bob, dms=True), receipts(alice)
    async with alice.connected(url), bob.connected(url):
        for _ in range(SEEN_IN_WINDOW + 5):
            await alice.send(bob.address, "please", receipt=True)
            last = await heard.next()
        await settled(bob, alice)
        assert sum(receipt.status == "SEEN" for receipt in told.events) == SEEN_IN_WINDOW
        assert await last.done()


async def test_in_a_crowd_seen_is_not_asked(url: str) -> None:
    alice, bob = Agent("alice", channels="general"), Agent("bob", channels="general")
    crowd = [Agent(f"a{number}", channels="general") for number in range(MAX_NAMED)]
    heard = listen(bob)
    async with alice.connected(url), bob.connected(url):
        for each in crowd:
            await each.connect(url)
        delivery = await alice.send("#general", "anyone?", receipt=True)
        assert await delivery.delivered()
        message = await heard.next()
        assert not await message.seen()
        assert await message.done()
        assert (await delivery.wait_for("DONE")).to == bob.address
        assert dict(delivery.statuses) == {bob.address: "DONE"}
        assert dict(delivery.counts) == {"DELIVERED": MAX_NAMED + 1}
        for each in crowd:
            await each.close()


def test_a_pace_knows_whether_it_has_room() -> None:
    pace = FramePace(2, 10)
    for now, has_room in ((0.0, True), (1.0, True), (2.0, False), (9.9, False), (10.0, True)):
        assert pace.has_room(now) is has_room
        if has_room:
            assert pace.reserve(now) == 0


# -- without await ---------------------------------------------------------------------------------


async def test_the_same_without_await(url: str) -> None:
    def script() -> None:
        with SyncAgent("alice", url=url) as alice, SyncAgent("bob", url=url) as bob:
            messages = bob.messages(dms=True, timeout=10)
            delivery = alice.send(bob.address, "please", receipt=True)
            assert repr(delivery) == f"<SyncDelivery {delivery.id} to {bob.address}>"
            assert delivery.delivered()
            assert delivery.is_settled
            assert delivery.is_delivered
            message = next(messages)
            assert delivery.wait_for("SEEN").to == bob.address
            assert message.failed("too hard")
            assert delivery.wait_for("FAILED").reason == "too hard"
            assert dict(delivery.reasons) == {bob.address: "too hard"}
            assert dict(delivery.statuses) == {bob.address: "FAILED"}
            assert (delivery.to, delivery.recipients, dict(delivery.counts)) == (bob.address, 1, {})
            second = alice.send(bob.address, "again", receipt=True)
            message = next(messages)
            assert message.seen()
            assert message.done()
            assert message.id is not None
            bob.report(message.id, "DONE")
            second.wait_for("DONE")

    await asyncio.to_thread(script)


# -- the whole way ---------------------------------------------------------------------------------


async def test_what_a_recipient_leaves_unread_is_not_delivered(open_hall: OpenHall) -> None:
    """DELIVERED ends where the kernel takes no more; what waits in the hall is UNDELIVERED when the peer is cut."""
    alice = Agent("alice")
    async with (
        open_hall(outbox_limit=200_000) as app,
        alice.connected(app.url),
        await Peer.upgraded(app.port, receive_buffer=4096) as idler,
    ):
        await idler.say(text(json.dumps({"type": "IDENTIFY", "name": "idler"})))
        welcome = await idler.read_frame()
        assert welcome is not None
        address = json.loads(welcome.payload)["agent_id"]
        sent = []
        with suppress(AgentNotFound):  # until its outbox is full
            while True:
                sent.append(await alice.send(address, "x" * 4000, receipt=True))
        for delivery in sent:
            await delivery.delivered()
        outcomes = [delivery.is_delivered for delivery in sent]
        assert outcomes == sorted(outcomes, reverse=True)
        assert True in outcomes
        assert "took no more" in sent[-1].reasons[address]

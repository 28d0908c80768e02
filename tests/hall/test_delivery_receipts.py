"""Delivery receipts: who is told what became of a message, in which order, and how much of it."""

import gc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hall import delivery_receipts
from moothall.hall.delivery_receipts import (
    EMPTY,
    LIFETIME,
    MAX_NAMED,
    MAX_OF_SENDER,
    NEXT,
    NOT_TAKEN,
    OWN_SIZE,
    DeliveryReceipts,
    Tracked,
)
from moothall.hall.outside import Written
from moothall.settings.limits import Rate
from moothall.wire.agentchat.server import DeliveryStatus
from tests.identity.vectors import ALICE, BOB
from tests.support.replacing import Replacing
from tests.support.world import (
    ABSENT,
    Guest,
    World,
    assert_consistent,
    assert_refused,
    assert_sent,
    assert_silent,
)

FEATURES = ("receipts",)
STATUSES: tuple[DeliveryStatus, ...] = ("DELIVERED", "UNDELIVERED", "SEEN", "CLAIMED", "DONE", "FAILED")


def taker(world: World, name: str = "taker", **how: Any) -> Guest:
    return world.agent(name, features=FEATURES, **how)


def ask(world: World, sender: Guest, to: str, content: str = "please") -> str:
    """A MSG that wants receipts, and its id. The receipts are left unread."""
    world.advance(1)
    world.send(sender, "MSG", to=to, content=content, receipt=True, ref="asked")
    msg_id: str = assert_sent(sender, "ACK", ref="asked")["msg_id"]
    return msg_id


def say(world: World, recipient: Guest, msg_id: str, status: str, **fields: Any) -> None:
    world.send(recipient, "RECEIPT", msg_id=msg_id, status=status, **fields)


def hold(guest: Guest) -> list[Written]:
    """From now on its connection says nothing about what it has written."""
    guest.link.watched = []
    return guest.link.watched


# -- delivered or not ------------------------------------------------------------------------------


def test_the_sender_of_a_direct_message_hears_that_it_was_delivered() -> None:
    world = World()
    alice, bob = taker(world, "alice"), taker(world, "bob")
    msg_id = ask(world, alice, bob.id)
    assert_sent(bob, "MSG", msg_id=msg_id, content="please", receipt="SEEN")
    receipt = assert_sent(alice, "RECEIPT", msg_id=msg_id, status="DELIVERED", to=bob.id, of=1)
    assert set(receipt) == {"type", "ts", "msg_id", "status", "to", "of"}
    assert_silent(alice, bob)


def test_delivered_is_said_when_the_connection_has_written_the_message() -> None:
    world = World()
    alice, bob = taker(world, "alice"), taker(world, "bob")
    waiting = hold(bob)
    msg_id = ask(world, alice, bob.id)
    assert_silent(alice)
    waiting.pop()(True)
    assert_sent(alice, "RECEIPT", msg_id=msg_id, status="DELIVERED", to=bob.id)


def test_a_connection_that_ends_first_is_undelivered_with_a_reason() -> None:
    world = World()
    alice, bob = taker(world, "alice"), taker(world, "bob")
    waiting = hold(bob)
    msg_id = ask(world, alice, bob.id)
    world.disconnect(bob)
    waiting.pop()(False)
    assert_sent(alice, "RECEIPT", msg_id=msg_id, status="UNDELIVERED", to=bob.id, reason=NOT_TAKEN)


def test_every_member_of_a_channel_but_the_sender_has_its_receipt() -> None:
    world = World(echo=True)
    alice, bob, carol = (taker(world, name, join="#general") for name in ("alice", "bob", "carol"))
    world.hush()
    msg_id = ask_with_echo(world, alice, "#general")
    for guest in (bob, carol):
        assert_sent(guest, "MSG", receipt="SEEN")
    delivered = [message for message in alice.read() if message["type"] == "RECEIPT"]
    assert {receipt["to"] for receipt in delivered} == {bob.id, carol.id}
    assert all(receipt["msg_id"] == msg_id and receipt["of"] == 2 for receipt in delivered)


def ask_with_echo(world: World, sender: Guest, to: str) -> str:
    world.send(sender, "MSG", to=to, content="please", receipt=True, ref="asked")
    echo = assert_sent(sender, "MSG", receipt=ABSENT)
    assert_sent(sender, "ACK", ref="asked", msg_id=echo["msg_id"])
    msg_id: str = echo["msg_id"]
    return msg_id


def test_a_message_to_an_empty_channel_reaches_no_recipient() -> None:
    world = World()
    alice = taker(world, "alice", join="#general")
    msg_id = ask(world, alice, "#general")
    assert_sent(
        alice, "RECEIPT", msg_id=msg_id, status="UNDELIVERED", to="#general", count=0, of=0, reason=EMPTY
    )


def test_without_ref_receipts_come_all_the_same() -> None:
    world = World()
    alice, bob = taker(world, "alice"), taker(world, "bob")
    world.send(alice, "MSG", to=bob.id, content="please", receipt=True)
    assert_sent(alice, "RECEIPT", status="DELIVERED", to=bob.id, ref=ABSENT)


# -- old clients -----------------------------------------------------------------------------------


def test_a_client_that_does_not_take_part_gets_the_message_as_ever_and_counts_as_delivered() -> None:
    world = World()
    alice, old = taker(world, "alice", join="#general"), world.agent("old", join="#general")
    world.hush()
    msg_id = ask(world, alice, "#general")
    assert_sent(old, "MSG", msg_id=msg_id, receipt=ABSENT)
    assert_sent(alice, "RECEIPT", status="DELIVERED", to=old.id)
    say(world, old, msg_id, "SEEN")
    assert_silent(alice, old)


def test_a_sender_that_does_not_take_part_gets_no_receipts() -> None:
    world = World()
    old, bob = world.agent("old"), taker(world, "bob")
    msg_id = ask(world, old, bob.id)
    assert_sent(bob, "MSG", msg_id=msg_id, receipt=ABSENT)
    assert_silent(old)
    assert not len(world.hall.delivery_receipts)


def test_a_message_without_the_question_has_no_receipts() -> None:
    world = World()
    alice, bob = taker(world, "alice"), taker(world, "bob")
    for fields in ({}, {"receipt": False}, {"receipt": None}):
        world.advance(1)
        world.send(alice, "MSG", to=bob.id, content="hello", **fields)
        assert_sent(bob, "MSG", receipt=ABSENT)
    assert_silent(alice)


def test_history_does_not_ask_agents_that_join_later() -> None:
    world = World()
    alice = taker(world, "alice", join="#general")
    ask(world, alice, "#general")
    late = taker(world, "late")
    world.send(late, "JOIN", channel="#general")
    replays = [message for message in late.read() if message.get("replay")]
    assert [message["content"] for message in replays] == ["please"]
    assert all("receipt" not in message for message in replays)


def test_features_that_the_hall_does_not_know_are_ignored() -> None:
    world = World()
    assert not world.hall.roster.agents[world.agent(features=("telepathy",)).id[1:]].takes_receipts
    assert world.hall.roster.agents[world.agent(features=("telepathy", "receipts")).id[1:]].takes_receipts


def test_a_lurker_takes_no_part() -> None:
    world = World(captcha=True, captcha_attempts=1, captcha_fail_action="shadow_lurk")
    guest = world.connect()
    world.identify(guest, "lurker", features=FEATURES)
    captcha = assert_sent(guest, "CAPTCHA_CHALLENGE")
    world.send(guest, "CAPTCHA_RESPONSE", captcha_id=captcha["captcha_id"], answer="wrong")
    welcome = assert_sent(guest, "WELCOME", lurk=True)
    assert not world.hall.roster.agents[welcome["agent_id"][1:]].takes_receipts
    say(world, guest, "1-a", "SEEN")
    assert_silent(guest)


# -- what recipients say ---------------------------------------------------------------------------


def test_the_word_of_a_recipient_is_passed_on_to_the_sender_alone() -> None:
    world = World()
    alice, bob, carol = (taker(world, name, join="#general") for name in ("alice", "bob", "carol"))
    world.hush()
    msg_id = ask(world, alice, "#general")
    world.hush()
    for status in ("SEEN", "CLAIMED", "DONE"):
        say(world, bob, msg_id, status, ref="r")
        assert_sent(bob, "ACK", ref="r")
        assert_sent(alice, "RECEIPT", msg_id=msg_id, status=status, to=bob.id, reason=ABSENT)
    assert_silent(alice, bob, carol)


def test_a_failure_has_a_reason_without_secrets() -> None:
    world = World()
    alice, bob = taker(world, "alice"), taker(world, "bob")
    msg_id = ask(world, alice, bob.id)
    world.hush()
    secret = "sk-ant-" + "a1B2" * 12
    say(world, bob, msg_id, "FAILED", reason=f"the key {secret} is refused")
    reason = assert_sent(alice, "RECEIPT", status="FAILED", to=bob.id)["reason"]
    assert "refused" in reason
    assert secret not in reason


def test_only_a_failure_has_a_reason() -> None:
    world = World()
    alice, bob = taker(world, "alice"), taker(world, "bob")
    msg_id = ask(world, alice, bob.id)
    world.hush()
    say(world, bob, msg_id, "DONE", reason="buy my things")
    assert_sent(alice, "RECEIPT", status="DONE", reason=ABSENT)


def test_the_reason_is_moderated_like_a_message() -> None:
    world = World(moderation=True)
    alice, bob = taker(world, "alice"), taker(world, "bob")
    msg_id = ask(world, alice, bob.id)
    world.hush()
    say(world, bob, msg_id, "FAILED", reason="see https://example.test/spam")
    assert "links" in assert_sent(bob, "MSG", from_="@server")["content"]


@pytest.mark.parametrize(
    "fields",
    [{"status": "DELIVERED"}, {"status": "READ"}, {"status": "SEEN", "msg_id": ""}, {"reason": "x" * 201}],
)
def test_other_statuses_and_long_reasons_are_refused(fields: dict[str, Any]) -> None:
    world = World()
    bob = taker(world)
    world.send(bob, "RECEIPT", **{"msg_id": "1-a", "status": "FAILED", **fields})
    assert_refused(bob, "INVALID_MSG")


def test_strangers_to_a_message_say_nothing_about_it() -> None:
    world = World()
    alice, bob, carol = (taker(world, name) for name in ("alice", "bob", "carol"))
    msg_id = ask(world, alice, bob.id)
    world.hush()
    for liar in (carol, alice):
        say(world, liar, msg_id, "DONE", ref="r")
        assert_sent(liar, "ACK", ref="r")
    say(world, bob, "1760000000000-zzzzzz", "DONE")
    assert_silent(alice, bob, carol)


def test_a_member_that_joined_later_is_no_recipient() -> None:
    world = World()
    alice = taker(world, "alice", join="#general")
    taker(world, "bob", join="#general")
    world.hush()
    msg_id = ask(world, alice, "#general")
    late = taker(world, "late", join="#general")
    world.hush()
    say(world, late, msg_id, "SEEN")
    assert_silent(alice)


def test_an_agent_that_answers_has_the_message_whatever_its_connection_says() -> None:
    world = World()
    alice, bob = taker(world, "alice"), taker(world, "bob")
    waiting = hold(bob)
    msg_id = ask(world, alice, bob.id)
    say(world, bob, msg_id, "SEEN")
    assert_sent(alice, "RECEIPT", status="DELIVERED")
    assert_sent(alice, "RECEIPT", status="SEEN")
    waiting.pop()(True)
    assert_silent(alice)


@given(st.lists(st.sampled_from(STATUSES), max_size=12))
def test_each_status_comes_once_and_never_back(said: list[DeliveryStatus]) -> None:
    tracked = Tracked("1-a", "alice", "@bob", ["bob"], 1.0)
    passed = [status for status in said if tracked.advance("bob", status)]
    assert len(set(passed)) == len(passed)
    order = ["DELIVERED", "UNDELIVERED", "SEEN", "CLAIMED", "DONE", "FAILED"]
    assert [order.index(status) for status in passed] == sorted(order.index(status) for status in passed)
    assert not {"DONE", "FAILED"} <= set(passed)
    assert not {"DELIVERED", "UNDELIVERED"} <= set(passed)
    assert not tracked.advance("carol", "SEEN")


def test_the_table_has_every_status() -> None:
    assert set(NEXT) == {"SENT", *STATUSES}


# -- many recipients -------------------------------------------------------------------------------


def crowd(world: World, size: int) -> tuple[Guest, list[Guest]]:
    sender = taker(world, "sender", join="#general")
    others = [taker(world, join="#general", is_loopback=True) for _ in range(size)]
    world.hush()
    return sender, others


def test_up_to_fifty_are_named() -> None:
    world = World()
    sender, others = crowd(world, MAX_NAMED)
    ask(world, sender, "#general")
    receipts = sender.read()
    assert {receipt["to"] for receipt in receipts} == {other.id for other in others}
    assert all("count" not in receipt for receipt in receipts)


def test_beyond_fifty_one_frame_counts_them_and_seen_is_not_asked() -> None:
    world = World()
    sender, others = crowd(world, MAX_NAMED + 1)
    msg_id = ask(world, sender, "#general")
    assert_sent(others[0], "MSG", receipt="CLAIMED")
    assert_sent(
        sender, "RECEIPT", msg_id=msg_id, status="DELIVERED", to="#general", count=51, of=51, reason=ABSENT
    )
    say(world, others[0], msg_id, "SEEN")
    world.advance(60)
    assert_silent(sender)
    assert_consistent(world)


def test_slow_readers_do_not_hold_up_the_count() -> None:
    world = World()
    sender, others = crowd(world, MAX_NAMED + 1)
    waiting = [hold(other) for other in others[:3]]
    ask(world, sender, "#general")
    assert_silent(sender)
    world.advance(1)
    assert_sent(sender, "RECEIPT", status="DELIVERED", count=48, of=51)
    waiting[0].pop()(True)
    waiting[1].pop()(True)
    world.advance(2)
    assert_sent(sender, "RECEIPT", status="DELIVERED", count=50, of=51)
    waiting[2].pop()(False)
    assert_sent(sender, "RECEIPT", status="UNDELIVERED", count=1, of=51)
    assert_silent(sender)
    assert_consistent(world)


def test_who_finishes_the_work_is_named_and_counted_beyond_fifty() -> None:
    world = World()
    sender, others = crowd(world, MAX_NAMED + 5)
    msg_id = ask(world, sender, "#general")
    world.hush()
    for other in others:
        say(world, other, msg_id, "CLAIMED")
    named = sender.read()
    assert [receipt["to"] for receipt in named] == [other.id for other in others[:MAX_NAMED]]
    world.advance(10)
    assert_sent(sender, "RECEIPT", status="CLAIMED", to="#general", count=55, of=55)
    assert_silent(sender)


def test_the_frames_of_one_message_are_bounded_however_slowly_its_recipients_read() -> None:
    world = World()
    sender, others = crowd(world, 200)
    waiting = [hold(other) for other in others]
    ask(world, sender, "#general")
    for watched in waiting:
        world.advance(1)
        watched.pop()(True)
    assert len(sender.read()) < 12


# -- away and back ---------------------------------------------------------------------------------


def test_a_sender_that_comes_back_is_told_how_its_messages_stand_without_text() -> None:
    world = World()
    alice, bob = taker(world, "alice", key=ALICE), taker(world, "bob")
    msg_id = ask(world, alice, bob.id)
    world.disconnect(alice)
    say(world, bob, msg_id, "SEEN")
    say(world, bob, msg_id, "FAILED", reason="no")
    again = world.connect()
    world.identify(again, "alice", key=ALICE, features=FEATURES)
    assert_sent(again, "WELCOME")
    assert_sent(again, "RECEIPT", msg_id=msg_id, status="FAILED", to=bob.id, of=1, reason=ABSENT)
    assert_silent(again)


def test_a_sender_that_comes_back_hears_of_each_recipient_once_and_pays_for_it() -> None:
    world = World(budget_told=Rate(4, 4))
    alice = taker(world, "alice", key=ALICE, join="#general")
    done, seen, cut, slow = (taker(world, join="#general") for _ in range(4))
    cut_off = hold(cut)
    hold(slow)
    world.hush()
    ask(world, alice, "#general")
    cut_off.pop()(False)
    world.send(alice, "LEAVE", channel="#general")
    world.send(alice, "JOIN", channel="#agents")
    world.hush()
    world.advance(60)
    ask(world, alice, "#agents")
    world.disconnect(alice)
    world.advance(60)
    again = world.connect()
    world.identify(again, "alice", key=ALICE, features=FEATURES)
    assert_sent(again, "WELCOME")
    stands = {receipt["to"]: (receipt["status"], receipt.get("reason")) for receipt in again.read()}
    assert stands == {
        done.id: ("DELIVERED", None),
        seen.id: ("DELIVERED", None),
        cut.id: ("UNDELIVERED", NOT_TAKEN),
        "#agents": ("UNDELIVERED", EMPTY),
    }
    world.send(again, "MSG", to=done.id, content="hello")
    assert_refused(again, "RATE_LIMITED")


def test_a_sender_that_comes_back_again_and_again_waits_until_it_can_pay() -> None:
    world = World(budget_told=Rate(4, 4), takeover_delay=0)
    alice = taker(world, "alice", key=ALICE, join="#general")
    for _ in range(4):
        taker(world, join="#general")
    world.hush()
    ask(world, alice, "#general")
    world.disconnect(alice)
    world.advance(60)

    def come_again() -> Guest:
        guest = world.connect()
        world.identify(guest, "alice", key=ALICE, features=FEATURES)
        assert_sent(guest, "WELCOME")
        assert_consistent(world)
        return guest

    first = come_again()
    assert len(first.read()) == 4
    for how in (world.disconnect, lambda _: None):  # by a takeover, too
        again = come_again()
        assert_silent(again)
        how(again)
    last = come_again()
    assert_silent(last)
    world.advance(60)
    assert [receipt["status"] for receipt in last.read()] == ["DELIVERED"] * 4
    assert not world.hall.delivery_receipts.summaries


def test_counts_are_told_again_to_a_sender_that_comes_back() -> None:
    world = World()
    sender = taker(world, "sender", key=ALICE, join="#general")
    others = [taker(world, join="#general", is_loopback=True) for _ in range(MAX_NAMED + 1)]
    world.hush()
    msg_id = ask(world, sender, "#general")
    say(world, others[0], msg_id, "DONE")
    world.disconnect(sender)
    again = world.connect()
    world.identify(again, "sender", key=ALICE, features=FEATURES)
    assert_sent(again, "WELCOME")
    assert_sent(again, "RECEIPT", status="DONE", to=others[0].id, of=51)
    assert_sent(again, "RECEIPT", status="DELIVERED", to="#general", count=51, of=51)
    assert_silent(again)


def test_a_takeover_brings_the_receipts_to_the_new_session() -> None:
    world = World(takeover_delay=0)
    alice, bob = taker(world, "alice", key=ALICE), taker(world, "bob", key=BOB)
    msg_id = ask(world, alice, bob.id)
    world.hush()
    successor = taker(world, "alice", key=ALICE)
    same_bob = taker(world, "bob", key=BOB)
    alice.read()
    say(world, same_bob, msg_id, "DONE")
    assert_sent(successor, "RECEIPT", msg_id=msg_id, status="DONE", to=bob.id)
    assert_silent(alice)


def test_what_a_nameless_sender_asked_for_is_forgotten_with_it() -> None:
    world = World()
    alice, others = crowd(world, MAX_NAMED + 1)
    waiting = hold(others[0])
    ask(world, alice, "#general")
    assert len(world.hall.delivery_receipts) == 1
    world.disconnect(alice)
    assert not len(world.hall.delivery_receipts)
    waiting.pop()(True)
    assert_consistent(world)


# -- bounds ----------------------------------------------------------------------------------------


def test_receipts_are_forgotten_after_an_hour() -> None:
    world = World()
    alice, bob = taker(world, "alice"), taker(world, "bob")
    msg_id = ask(world, alice, bob.id)
    world.advance(LIFETIME - 1)
    say(world, bob, msg_id, "SEEN")
    world.hush()
    world.advance(1)
    say(world, bob, msg_id, "DONE")
    assert_silent(alice)
    assert not len(world.hall.delivery_receipts)
    assert_consistent(world)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 30)), max_size=60),
    st.integers(10, 100),
    st.integers(10, 60),
)
def test_the_memory_is_bounded_and_the_newest_stays(
    asked: list[tuple[str, int]], of_hall: int, of_sender: int
) -> None:
    with Replacing.context() as patch:
        patch.setattr(delivery_receipts, "MAX_OF_HALL", of_hall)
        patch.setattr(delivery_receipts, "MAX_OF_SENDER", of_sender)
        receipts = DeliveryReceipts()
        for number, (sender, size) in enumerate(asked):
            tracked = Tracked(str(number), sender, "#general", map(str, range(size)), float(number))
            for forgotten in receipts.add(tracked):
                assert receipts.get(forgotten.msg_id) is None
            assert receipts.get(str(number)) is tracked
            kept = list(receipts)
            assert sum(each.size for each in kept) <= max(of_hall, tracked.size)
            for each in "abc":
                own = receipts.of(each)
                assert own == [one for one in kept if one.sender == each]
                assert sum(one.size for one in own) <= of_sender or len(own) == 1
        assert receipts.expired(len(asked)) == kept if asked else True
        assert receipts.next_deadline() is None
        assert not receipts._sizes
        assert not receipts._size


def test_a_sender_loses_its_own_oldest_first() -> None:
    world = World()
    alice, bob = taker(world, "alice"), taker(world, "bob")
    first = ask(world, alice, bob.id)
    world.hush()
    for _ in range(MAX_OF_SENDER // (OWN_SIZE + 1)):
        ask(world, alice, bob.id)
        alice.read()
    world.hush()
    say(world, bob, first, "DONE")
    assert_silent(alice)
    assert len(world.hall.delivery_receipts) == MAX_OF_SENDER // (OWN_SIZE + 1)


def test_a_connection_that_does_not_read_keeps_nothing_that_is_forgotten() -> None:
    """Its outbox has room for thousands of messages, and each may have thousands of recipients."""
    before = _number_of_tracked()
    world = World()
    alice, bob = taker(world, "alice"), taker(world, "bob")
    unread = hold(bob)
    for _ in range(MAX_OF_SENDER // (OWN_SIZE + 1) + 10):
        ask(world, alice, bob.id)
    receipts = world.hall.delivery_receipts
    assert len(unread) == len(receipts) + 10
    assert _number_of_tracked() - before == len(receipts)


def _number_of_tracked() -> int:
    gc.collect()
    return sum(isinstance(each, Tracked) for each in gc.get_objects())


# -- messages that reach no recipient --------------------------------------------------------------


def test_a_refused_message_has_an_error_and_no_receipt() -> None:
    world = World()
    alice = taker(world, "alice", join="#general")
    for to, content, code in (
        ("@00000000", "hello", "AGENT_NOT_FOUND"),
        ("#nowhere", "hello", "CHANNEL_NOT_FOUND"),
        ("#general", "x" * 5000, "INVALID_MSG"),
    ):
        world.advance(1)
        world.send(alice, "MSG", to=to, content=content, receipt=True)
        assert_refused(alice, code)
    assert_silent(alice)
    assert not len(world.hall.delivery_receipts)


def test_a_message_of_callbacks_alone_has_no_receipt() -> None:
    world = World()
    alice, bob = taker(world, "alice", join="#general"), taker(world, "bob", join="#general")
    world.hush()
    world.send(alice, "MSG", to="#general", content="@@cb:60s@@wake up", receipt=True, ref="r")
    assert_sent(alice, "ACK", ref="r", msg_id=ABSENT)
    assert_silent(alice, bob)


def test_a_redacted_message_is_delivered_as_it_was_redacted() -> None:
    world = World()
    alice, bob = taker(world, "alice"), taker(world, "bob")
    secret = "sk-ant-" + "a1B2" * 12
    ask(world, alice, bob.id, f"use {secret}")
    assert secret not in assert_sent(bob, "MSG", receipt="SEEN")["content"]
    assert_sent(alice, "RECEIPT", status="DELIVERED")

"""Commands that wait for the disk, and what their session sends meanwhile (design: only its own session waits)."""

import pytest

from moothall.errors import OutcomeUnknown, StoreUnreachable
from moothall.hall.access import decode_approval
from moothall.hall.common import ALLOWLIST, BANS
from moothall.hall.session import MAX_INBOX, MAX_INBOX_BYTES
from tests.identity.vectors import ALICE, BOB
from tests.support.world import (
    ADMIN_KEY,
    Guest,
    World,
    assert_closed,
    assert_consistent,
    assert_open,
    assert_refused,
    assert_sent,
    assert_silent,
)


def held(*, no_limits: bool = False) -> tuple[World, Guest]:
    """A hall with a slow disk, and an operator in it."""
    world = World(held=True, admin_key=ADMIN_KEY, allowlist=True, allowlist_strict=False, no_limits=no_limits)
    return world, world.agent("operator")


def ban(world: World, operator: Guest, agent_id: str, **fields: str) -> None:
    world.send(operator, "ADMIN_BAN", admin_key=ADMIN_KEY, agent_id=agent_id, **fields)


def test_it_is_answered_when_it_is_on_disk() -> None:
    world, operator = held()
    ban(world, operator, "deadbeef")
    assert_silent(operator)
    assert world.books.listed(BANS) == []
    world.held.do_next()
    assert_sent(operator, "ADMIN_RESULT", action="ban", success=True, agentId="@deadbeef")
    assert len(world.books.listed(BANS)) == 1


def test_a_hall_that_closes_waits_until_everybody_was_told_and_begins_nothing_more() -> None:
    world, operator = held()
    finished: list[str] = []
    ban(world, operator, "deadbeef")
    world.send(operator, "PING", ref="later")
    world.hall.durable.take_no_more(lambda: finished.append("now"))
    assert finished == []
    assert is_paused(operator)
    world.held.do_next()
    assert_sent(operator, "ADMIN_RESULT", action="ban")
    assert_silent(operator)
    assert finished == ["now"]
    world.hall.durable.hear_goodbyes()
    assert not is_paused(operator)


def test_a_hall_where_nobody_waits_closes_at_once() -> None:
    finished: list[str] = []
    held()[0].hall.durable.take_no_more(lambda: finished.append("now"))
    assert finished == ["now"]


def test_it_holds_before_it_is_on_disk() -> None:
    world, operator = held()
    ban(world, operator, ALICE.public.agent_id())
    guest = world.connect()
    world.identify(guest, key=ALICE)
    assert_refused(guest, "BANNED")


def test_later_commands_of_the_same_session_wait_and_are_answered_in_order() -> None:
    world, operator = held()
    ban(world, operator, "deadbeef", ref="1")
    world.send(operator, "PING", ref="2")
    world.send(operator, "ADMIN_APPROVE", admin_key=ADMIN_KEY, pubkey=BOB.public.pem, ref="3")
    world.send(operator, "PING", ref="4")
    world.send_raw(operator, b"not json")
    world.send(operator, "NONSENSE", ref="5")
    assert_silent(operator)
    world.held.do_next()
    assert_sent(operator, "ADMIN_RESULT", action="ban", ref="1")
    assert_sent(operator, "PONG", ref="2")
    assert_silent(operator)
    world.held.do_next()
    assert_sent(operator, "ADMIN_RESULT", action="approve", ref="3")
    assert_sent(operator, "PONG", ref="4")
    assert_refused(operator, "INVALID_MSG", ref="5")
    assert_silent(operator)
    assert len(world.held) == 0


def test_nobody_else_waits() -> None:
    world, operator = held()
    ban(world, operator, "deadbeef")
    other = world.agent(join="#general")
    world.send(other, "PING")
    assert_sent(other, "PONG")


def test_others_are_heard_while_one_waits() -> None:
    world, operator = held()
    ban(world, operator, "deadbeef")
    other = world.agent()
    world.send(other, "MSG", to=operator.id, content="hello")
    assert_sent(operator, "MSG", content="hello")


def test_a_disk_that_fails_is_an_answer() -> None:
    world, operator = held()
    world.books.full = True
    ban(world, operator, "deadbeef", ref="1")
    world.send(operator, "PING")
    world.held.do_next()
    assert_refused(operator, "INTERNAL_ERROR", "could not save", ref="1")
    assert_sent(operator, "PONG")
    assert world.books.listed(BANS) == []
    assert world.log.find("durable_command_failed")[-1]["exc_info"] is None
    assert_open(operator)


def test_what_may_or_may_not_be_saved_is_not_called_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever proposed it again at once might have made two offers."""
    world, operator = held()

    def enlist(of: str, name: bytes, record: bytes) -> None:
        raise OutcomeUnknown("the connection was lost while saving")

    monkeypatch.setattr(world.books, "enlist", enlist)
    ban(world, operator, "deadbeef")
    world.held.do_next()
    assert_refused(operator, "INTERNAL_ERROR", "check whether this was saved before you try again")


def test_a_database_that_cannot_be_reached_is_an_answer() -> None:
    world, operator = held()
    failure = StoreUnreachable("no route to host")
    world.hall.durable.wait_for(operator.session, lambda done, failed: failed(failure), lambda _: None)
    assert_refused(operator, "UNAVAILABLE", "Nothing has changed")
    assert world.log.find("durable_command_failed")[-1]["exc_info"] is None
    assert_open(operator)


def test_a_bug_is_logged_with_the_place_where_it_is() -> None:
    world, operator = held()
    bug = KeyError("capability")
    world.hall.durable.wait_for(operator.session, lambda done, failed: failed(bug), lambda _: None)
    assert_refused(operator, "INTERNAL_ERROR")
    assert world.log.find("durable_command_failed")[-1]["exc_info"] is bug


def test_a_bug_in_what_follows_the_disk_ends_the_session_that_waits_for_it() -> None:
    """Nobody else would: the gateway around the command returned long ago."""
    world, operator = held(no_limits=True)

    def stumble(_: None) -> None:
        raise KeyError("no such key")

    world.hall.durable.transact(operator.session, world.held, lambda books: None, stumble)
    for _ in range(MAX_INBOX):
        world.send(operator, "PING")
    with pytest.raises(KeyError):
        world.held.do_next()
    assert_silent(operator)
    assert_closed(operator, 1011, "Internal error")
    assert_consistent(world)


def test_a_session_that_left_meanwhile_does_no_harm() -> None:
    world, operator = held()
    ban(world, operator, "deadbeef")
    world.send(operator, "PING")
    world.disconnect(operator)
    world.held.do_next()
    assert_consistent(world)
    assert len(world.hall.bans) == 1


def test_an_operator_may_ban_itself() -> None:
    world = World(held=True, admin_key=ADMIN_KEY)
    alice = world.agent("alice", key=ALICE)
    ban(world, alice, alice.id)
    assert_sent(alice, "BANNED")
    assert_closed(alice, 1000, "Banned by admin")
    world.held.do_next()
    assert len(world.books.listed(BANS)) == 1
    assert_consistent(world)


def is_paused(guest: Guest) -> bool:
    return guest.link.paused


def test_what_waits_is_bounded_in_bytes_too() -> None:
    world, operator = held()
    ban(world, operator, "deadbeef")
    large = b'{"type":"PING","more":"' + b"x" * 250_000 + b'"}'
    sent = 0
    while not is_paused(operator):
        world.send_raw(operator, large)
        sent += 1
    assert sent * len(large) < MAX_INBOX_BYTES + len(large)
    world.held.do_next()
    assert not is_paused(operator)
    assert len(operator.read()) == 1 + sent
    ban(world, operator, "deadbeef")
    world.send_raw(operator, large)
    assert not is_paused(operator)  # what was handled counts no more


@pytest.mark.parametrize("held_frames", [MAX_INBOX - 1, MAX_INBOX, MAX_INBOX + 10])
def test_reading_stops_when_the_inbox_is_full_and_goes_on_when_it_is_empty(held_frames: int) -> None:
    world, operator = held(no_limits=True)
    ban(world, operator, "deadbeef")
    for _ in range(held_frames):
        world.send(operator, "PING")
    assert operator.link.paused is (held_frames >= MAX_INBOX)
    world.held.do_next()
    assert not operator.link.paused
    assert len(operator.read()) == 1 + held_frames


def test_reading_goes_on_even_if_a_waiting_command_waits_for_the_disk_again() -> None:
    world, operator = held(no_limits=True)
    for agent_id in ("deadbeef", "deadbee1"):
        ban(world, operator, agent_id)
    for _ in range(MAX_INBOX):
        world.send(operator, "PING")
    paused = [operator.link.paused]
    for _ in range(2):
        world.held.do_next()
        paused.append(operator.link.paused)
    assert paused == [True, True, False]
    assert len(operator.read()) == 2 + MAX_INBOX
    world.send(operator, "PING")
    assert_sent(operator, "PONG")


def test_every_change_of_a_list_is_saved() -> None:
    world = World(admin_key=ADMIN_KEY, allowlist=True, allowlist_strict=False)
    operator = world.agent()
    world.send(operator, "ADMIN_APPROVE", admin_key=ADMIN_KEY, pubkey=ALICE.public.pem, note="a friend")
    (saved,) = map(decode_approval, world.books.listed(ALLOWLIST))
    assert (saved.pubkey, saved.note) == (ALICE.public.pem, "a friend")
    world.send(operator, "ADMIN_REVOKE", admin_key=ADMIN_KEY, agent_id=ALICE.public.fingerprint)
    assert world.books.listed(ALLOWLIST) == []
    ban(world, operator, "deadbeef")
    assert len(world.books.listed(BANS)) == 1
    world.send(operator, "ADMIN_UNBAN", admin_key=ADMIN_KEY, agent_id="deadbeef")
    assert world.books.listed(BANS) == []

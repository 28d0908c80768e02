"""Sessions over their limits: refused, then held until the limits allow (seed 000, rate limiting)."""

from typing import Any

import pytest

from moothall.hall.hall import LOG_LINES
from moothall.hall.reading import SLOW_READING
from moothall.identity import PrivateKey
from moothall.settings import Settings
from moothall.settings.limits import Rate
from tests.identity.vectors import ALICE
from tests.support.world import (
    Guest,
    World,
    assert_closed,
    assert_open,
    assert_refused,
    assert_sent,
    assert_silent,
)

JUNK = (b"x", b"null", b"[]", b"{", b'{"type":"NONSENSE"}')


def is_paused(guest: Guest) -> bool:
    return guest.link.paused


def kinds(messages: list[dict[str, Any]]) -> list[str]:
    return [message.get("code", message["type"]) for message in messages]


# -- refused, then held --------------------------------------------------------------------------------


def test_sixty_refusals_are_answered_and_then_the_hall_stops_reading() -> None:
    world = World()
    guest = world.agent()
    for _ in range(120):
        world.send(guest, "PING")
    assert kinds(guest.read()) == ["PONG"] * 60 + ["RATE_LIMITED"] * 60
    assert is_paused(guest)
    assert_open(guest)


def test_what_arrived_in_the_meantime_is_handled_when_the_window_allows() -> None:
    world = World()
    guest = world.agent()
    for number in range(150):
        world.send(guest, "PING", ref=str(number))
    assert len(guest.read()) == 120
    world.advance(9.9)
    assert_silent(guest)
    world.advance(0.1)
    assert [message["ref"] for message in guest.read()] == [str(number) for number in range(120, 150)]
    assert not is_paused(guest)


def test_a_flood_gets_as_much_as_the_limit_allows_for_ever() -> None:
    world = World()
    guest = world.agent()
    for _ in range(1000):
        world.send(guest, "PING")
    for _ in range(8):
        world.advance(10)
    assert kinds(guest.read()).count("PONG") == 8 * 60 + 40


def test_frames_over_a_rate_of_their_own_count_as_refusals_too() -> None:
    world = World(rate_post_auth=Rate(600, 10), rate_message=Rate(1, 10))
    guest = world.agent(join="#general")
    for _ in range(600):
        world.send(guest, "MSG", to="#general", content="x")
    assert not is_paused(guest)
    world.send(guest, "MSG", to="#general", content="x")
    assert is_paused(guest)


@pytest.mark.parametrize("junk", JUNK)
def test_junk_is_counted_before_it_is_decoded(junk: bytes) -> None:
    world = World()
    guest = world.agent()
    for _ in range(10_000):
        if not is_paused(guest):
            world.send_raw(guest, junk)
    assert is_paused(guest)
    assert world.hall.tally.malformed + world.hall.tally.refused["INVALID_MSG"] == 120


def test_a_held_session_hears_the_others() -> None:
    world = World()
    guest, other = world.agent(join="#general"), world.agent(join="#general")
    world.hush()
    for _ in range(120):
        world.send(guest, "PING")
    guest.read()
    world.send(other, "MSG", to="#general", content="still here")
    assert_sent(guest, "MSG", content="still here")


def test_a_held_session_that_goes_leaves_nothing_behind() -> None:
    world = World()
    guest = world.agent()
    for _ in range(130):
        world.send(guest, "PING")
    world.disconnect(guest)
    world.advance(20)
    assert guest.session.inbox is None
    assert not world.hall.sessions


def test_holding_is_counted_each_time_and_logged_once_per_session() -> None:
    world = World()
    guest = world.agent()
    for _ in range(300):
        world.send(guest, "PING")
    world.advance(10)
    assert world.hall.tally.throttled == 2
    assert len(world.log.find("throttled")) == 1


def test_connections_that_are_held_and_come_again_do_not_flood_the_log() -> None:
    world = World(address_frames=Rate(0, 1))
    for _ in range(LOG_LINES.limit + 1):
        guest = world.agent()
        for _ in range(130):
            world.send(guest, "PING")
        world.disconnect(guest)
    assert world.hall.tally.throttled == LOG_LINES.limit + 1
    assert len(world.log.find("throttled")) == LOG_LINES.limit


def test_without_limits_nothing_is_held() -> None:
    world = World(no_limits=True, address_frames=Rate(1, 10), budget_told=Rate(1, 10))
    guest = world.agent(join="#general")
    for _ in range(1000):
        world.send(guest, "PING")
        world.send(guest, "TYPING", channel="#general")
    assert kinds(guest.read()) == ["PONG"] * 1000
    assert not is_paused(guest)


# -- control frames and fragments ------------------------------------------------------------------------


def test_control_frames_count_like_any_other() -> None:
    world = World()
    guest = world.agent()
    answered = [world.hall.receive_control(guest.session, 0) for _ in range(60)]
    assert all(answered)
    assert not world.hall.receive_control(guest.session, 0)
    assert_refused(guest, "RATE_LIMITED")
    world.send(guest, "PING")
    assert_refused(guest, "RATE_LIMITED")


def test_a_stranger_is_closed_by_control_frames_too() -> None:
    world = World()
    guest = world.connect()
    for _ in range(11):
        world.hall.receive_control(guest.session, 0)
    assert_closed(guest, 1008, "Rate limit exceeded")


def test_in_the_profile_messages_over_the_limit_close_and_control_frames_only_wait() -> None:
    world = World("agentchat-0.36")
    guest, flooder = world.agent(), world.agent()
    world.advance(10)
    for _ in range(120):
        world.hall.receive_control(guest.session, 0)
    assert_open(guest)
    assert is_paused(guest)
    for _ in range(61):
        world.send(flooder, "PING")
    assert_closed(flooder, 1008, "Rate limit exceeded")


def test_a_frame_of_many_values_costs_more_than_a_text_of_its_size() -> None:
    """Each is decoded before its command can be charged: many together would stop the hall."""
    text = b'{"type":"PING","x":"' + b"x" * 40_000 + b'"}'
    values = b'{"type":"PING","x":[' + b"1," * 20_000 + b"1]}"
    told = {}
    for payload in (text, values):
        world = World(address_bytes=Rate(1_600_000, 1000))
        guest = world.agent()
        for _ in range(200):
            world.hall.receive(guest.session, payload)
        told[payload] = len(guest.read())
    assert told[text] > 30
    assert told[values] <= 3


@pytest.mark.parametrize("values", [100, 9_900, 60_000])
def test_the_dearest_frames_wait_for_their_address_and_are_handled(values: int) -> None:
    """They are counted, charged, put off and counted again. With the default budgets that comes to an end."""
    defaults = Settings()
    world = World(address_bytes=defaults.address_bytes, budget_bytes=defaults.budget_bytes)
    guest = world.agent(key=ALICE)
    item = b'{"n":[%b],"x":"%b"}' % (b",".join([b"1"] * values), b"x" * (250_000 - 2 * values))
    frame = b'{"type":"EVIDENCE","dispute_id":"d","sig":"s","statement":"","items":[%b]}' % item
    for _ in range(3):
        world.hall.receive(guest.session, frame)
        world.advance(5)
        (answer,) = guest.read()
        assert answer["code"] != "RATE_LIMITED"


# -- messages that arrive in parts -----------------------------------------------------------------------


def test_the_bytes_of_a_message_are_charged_as_they_arrive() -> None:
    world = World(address_bytes=Rate(100_000, 1))
    guest, neighbour = world.agent(), world.agent()
    for _ in range(10):
        assert not is_paused(guest)
        world.hall.receive_piece(guest.session, 10_000)
    world.hall.receive_piece(guest.session, 10_000)
    assert is_paused(guest)
    world.send(neighbour, "PING", content="x" * 10_000)
    assert is_paused(neighbour)
    world.advance(1)
    assert not is_paused(guest)
    assert not is_paused(neighbour)


def test_what_was_charged_in_parts_is_not_charged_again_with_the_whole() -> None:
    world = World(address_bytes=Rate(100_000, 1000))
    guest = world.agent()
    payload = b'{"type":"PING","x":"' + b"x" * 39_978 + b'"}'
    for _ in range(2):
        world.hall.receive_piece(guest.session, 30_000)
        world.hall.receive(guest.session, payload)
    assert kinds(guest.read()) == ["PONG"] * 2
    world.hall.receive(guest.session, payload)
    assert is_paused(guest)


def test_parts_of_frames_count_towards_the_frames_of_the_address() -> None:
    world = World(address_frames=Rate(20, 10))
    guest = world.agent()
    world.advance(10)
    pieces = 0
    while not is_paused(guest):
        world.hall.receive_piece(guest.session, 1)
        pieces += 1
        assert pieces < 1000
    assert pieces == 81  # four of them cost as much as a frame
    world.send(guest, "PING")
    world.advance(10)
    assert kinds(guest.read()) == ["PONG"]


def test_without_limits_parts_of_messages_cost_nothing() -> None:
    world = World(no_limits=True, address_bytes=Rate(1, 10))
    guest = world.agent()
    world.hall.receive_piece(guest.session, 1_000_000)
    assert not is_paused(guest)


# -- budgets -------------------------------------------------------------------------------------------


def test_a_command_over_its_budget_is_refused_and_not_handled() -> None:
    world = World(budget_told=Rate(10, 10))
    guest = world.agent(join="#general")
    others = [world.agent(join="#general") for _ in range(9)]
    world.advance(20)
    world.hush()
    world.send(guest, "TYPING", channel="#general")
    world.send(guest, "TYPING", channel="#general")
    assert_refused(guest, "RATE_LIMITED", "TYPING costs more than your budget has left")
    assert [len(other.read()) for other in others] == [1] * 9


def test_the_budget_refills_with_time() -> None:
    world = World(budget_told=Rate(10, 10))
    guest, other = world.agent(join="#general"), world.agent(join="#general")
    world.advance(20)
    world.hush()
    for _ in range(6):
        world.send(guest, "TYPING", channel="#general")
    assert len(other.read()) == 5
    world.advance(2)
    world.send(guest, "TYPING", channel="#general")
    assert_sent(other, "TYPING")


def test_agents_of_one_address_share_its_budget_and_wait_for_it_in_turn() -> None:
    world = World(address_told=Rate(12, 10))
    one, two = world.agent(join="#general"), world.agent(join="#general")
    other = world.agent(join="#general", ip="192.0.2.2")
    world.advance(60)
    world.hush()
    for _ in range(4):
        world.send(one, "TYPING", channel="#general")
    world.send(two, "TYPING", channel="#general", ref="later")
    assert kinds(two.read()) == ["TYPING"] * 4
    assert is_paused(two)
    world.send(other, "TYPING", channel="#general")
    assert kinds(one.read()) == ["TYPING"]
    world.advance(10)
    assert kinds(two.read()) == ["TYPING", "ACK"]
    assert not is_paused(two)


def test_many_connections_of_one_address_get_no_more_than_its_frames() -> None:
    world = World(address_frames=Rate(100, 1))
    guests = [world.agent() for _ in range(40)]
    world.advance(20)
    world.hush()
    for _ in range(50):
        for guest in guests:
            world.send(guest, "PING")
    assert sum(len(guest.read()) for guest in guests) == 100
    world.advance(1)
    assert 90 <= sum(len(guest.read()) for guest in guests) <= 110


def test_in_the_profile_a_command_over_its_budget_waits_and_is_then_handled_once() -> None:
    world = World("agentchat-0.36", budget_told=Rate(10, 10), rate_message=Rate(2, 10))
    guest, other = world.agent(), world.agent()
    channel = "#general"
    world.advance(600)
    world.hush()
    for _ in range(6):
        world.send(guest, "TYPING", channel=channel)
    world.send(guest, "MSG", to=channel, content="last")
    assert kinds(other.read()) == ["TYPING"] * 5
    assert is_paused(guest)
    assert_silent(guest)
    world.advance(10)
    assert kinds(other.read()) == ["TYPING", "MSG"]
    assert kinds(guest.read()) == ["MSG"]  # the echo, and no refusal
    assert not is_paused(guest)
    assert world.hall.received["TYPING"] == 6


def test_long_answers_are_charged_to_those_who_ask() -> None:
    world = World(budget_bytes=Rate(100_000, 100))
    asker = world.agent(join="#general")
    world.advance(200)
    for number in range(400):
        world.hall.channels.create(f"#a-channel-with-a-name-{number}", world.hall.now())
    for _ in range(10):
        world.send(asker, "LIST_CHANNELS")
    answers = kinds(asker.read())
    assert answers[0] == "CHANNELS"
    assert answers[-1] == "RATE_LIMITED"
    world.advance(100)
    world.send(asker, "LIST_CHANNELS")
    assert_sent(asker, "CHANNELS")


def test_bytes_are_charged_before_a_frame_is_decoded() -> None:
    world = World(budget_bytes=Rate(1000, 10))
    guest = world.agent()
    world.send_raw(guest, b'{"x":"' + b"y" * 5000)
    assert_silent(guest)
    world.send(guest, "PING")
    assert_refused(guest, "RATE_LIMITED", "This frame costs more than your budget has left")


HALF_CHARACTER = rb'{"type":"PING","ref":"7","x":"\ud800","junk":"' + b"y" * 1000 + b'"}'


def test_text_that_is_slow_to_read_is_charged_many_times_its_bytes() -> None:
    world = World(budget_bytes=Rate(SLOW_READING * 1000, 10))
    guest = world.agent()
    world.advance(20)
    world.send_raw(guest, HALF_CHARACTER)
    assert_sent(guest, "PONG", ref="7")
    world.send_raw(guest, HALF_CHARACTER)
    assert_refused(guest, "RATE_LIMITED", "This frame costs more than your budget has left")
    world.advance(20)
    world.send_raw(guest, HALF_CHARACTER)
    assert_sent(guest, "PONG", ref="7")


def test_it_waits_for_its_address_and_is_then_counted_once() -> None:
    world = World(address_bytes=Rate(SLOW_READING * 1000, 10), rate_post_auth=Rate(2, 1000))
    guest, other = world.agent(), world.agent()
    world.advance(20)
    world.send_raw(other, HALF_CHARACTER)
    assert_sent(other, "PONG", ref="7")
    world.send_raw(guest, HALF_CHARACTER)
    world.send(guest, "PING", ref="8")
    assert_silent(guest)
    assert is_paused(guest)
    world.advance(30)
    assert [(answer["type"], answer["ref"]) for answer in guest.read()] == [("PONG", "7"), ("PONG", "8")]


def test_a_frame_that_waits_for_the_bytes_of_its_answer_is_handled_in_the_end() -> None:
    """It is decoded and charged again each time, with bytes of the same bucket."""
    world = World("agentchat-0.36", budget_bytes=Rate(4000, 10))
    guest, other = world.agent(), world.agent()
    world.send(other, "CREATE_CHANNEL", channel="#old")
    world.send(other, "MSG", to="#old", content="a line to be replayed")
    world.advance(600)
    world.hush()
    world.send(guest, "PING", junk="x" * 3000)
    world.send(guest, "JOIN", channel="#old", ref="later", junk="x" * 1000)
    assert is_paused(guest)
    world.advance(60)
    assert "JOINED" in kinds(guest.read())
    assert not is_paused(guest)


def test_short_frames_have_their_turn_beside_a_flood_from_the_same_address() -> None:
    world = World(address_bytes=Rate(10_000, 1), address_frames=Rate(0, 1))
    flooders, neighbour = [world.agent() for _ in range(20)], world.agent()
    world.advance(20)
    world.hush()
    for flooder in flooders:
        for _ in range(30):
            world.send(flooder, "PING", junk="x" * 4000)
    for _ in range(20):
        world.send(neighbour, "PING")
        assert_sent(neighbour, "PONG")
        world.advance(0.05)
    assert sum(len(flooder.read()) for flooder in flooders) <= 6


def test_over_the_frame_limit_nothing_is_read_slowly() -> None:
    world = World()
    guest = world.agent()
    for _ in range(60):
        world.send(guest, "PING")
    guest.read()
    world.send_raw(guest, HALF_CHARACTER)
    assert "ref" not in assert_refused(guest, "RATE_LIMITED", "Too many messages")


def test_an_address_that_opens_connections_too_fast_is_over_its_budget() -> None:
    world = World(address_frames=Rate(100, 10))
    admitted = [world.hall.admit("192.0.2.9", 20, is_loopback=False) for _ in range(7)]
    assert admitted == [True] * 5 + [False] * 2
    assert world.hall.admit("192.0.2.8", 20, is_loopback=False)
    assert world.hall.tally.security["address_over_budget"] == 2
    world.advance(10)
    assert world.hall.admit("192.0.2.9", 20, is_loopback=False)


def test_an_agent_with_a_key_pays_with_it_on_its_next_connection_too() -> None:
    key = PrivateKey(b"k" * 32)
    world = World(budget_told=Rate(10, 1000))
    first = world.agent(key=key, join="#general")
    for _ in range(20):
        world.send(first, "TYPING", channel="#general")
    assert "RATE_LIMITED" in kinds(first.read())
    world.disconnect(first)
    second = world.agent(key=key)
    world.send(second, "JOIN", channel="#general")
    world.send(second, "TYPING", channel="#general")
    assert kinds(second.read())[-1] == "RATE_LIMITED"

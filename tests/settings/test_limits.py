"""So many in so many seconds (seed 000, rate limiting; seed 001, rate limiting; agentchat wire 1.3)."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.hall import LOG_LINES
from moothall.settings.limits import Rate, Window
from tests.support.world import (
    Guest,
    World,
    assert_closed,
    assert_open,
    assert_refused,
    assert_sent,
    assert_silent,
)

# -- the window ----------------------------------------------------------------------------------------

TIMES = st.lists(st.floats(0, 5), max_size=60).map(lambda gaps: [sum(gaps[:end]) for end in range(len(gaps))])


@given(TIMES, st.integers(1, 5), st.floats(0.5, 10))
def test_counting_is_exact(times: list[float], limit: int, seconds: float) -> None:
    """As counting all frames of the last seconds, this one included, would be."""
    window = Window(Rate(limit, seconds))
    for index, now in enumerate(times):
        recent = sum(now - before < seconds for before in times[:index])
        assert window.count(now) is (recent + 1 <= limit)


@given(TIMES, st.integers(1, 5), st.floats(0.5, 10))
def test_admitting_never_lets_more_through_than_the_limit(
    times: list[float], limit: int, seconds: float
) -> None:
    window = Window(Rate(limit, seconds))
    admitted = [now for now in times if window.admit(now)]
    for first, last in zip(admitted, admitted[limit:], strict=False):
        assert last - first >= seconds
    if limit == 1:
        # And lets one through as soon as it may.
        for first, last in pairwise(admitted):
            assert not any(now - first >= seconds for now in times if first < now < last)


def test_a_window_is_quiet_when_all_of_it_is_over() -> None:
    window = Window(Rate(2, 10))
    assert window.is_quiet(0)
    window.count(0)
    window.count(5)
    assert not window.is_quiet(14)
    assert window.is_quiet(15)
    assert len(window) == 2


def test_a_quiet_window_forgets_what_it_counted() -> None:
    window, other = Window(Rate(3, 10)), Window(Rate(3, 10))
    for now in (0, 1, 2, 12):
        window.count(now)
    assert len(window) == 1
    assert window.ages(12) == [0]
    assert len(other) == 0


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("60/10", Rate(60, 10)),
        ("1/0.5", Rate(1, 0.5)),
        ("5", Rate(5, 1)),
        (" 5 / 2 ", Rate(5, 2)),
        ("0", Rate(0, 1)),
        ("0/5", Rate(0, 5)),
    ],
)
def test_rates_are_written_as_count_and_seconds(text: str, rate: Rate) -> None:
    assert Rate.parse(text) == rate


@pytest.mark.parametrize("text", ["", "x", "1/x", "-1/1", "1/0", "1/-1", "1/inf", "1/nan", "1.5/1", "1/1/1"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        Rate.parse(text)


@given(st.integers(0, 1000), st.floats(0.01, 1e5))
def test_a_rate_reads_back_as_it_is_shown(limit: int, seconds: float) -> None:
    rate = Rate(limit, float(f"{seconds:g}"))
    shown = Rate.parse(str(rate))
    assert shown == (rate if limit else Rate(0, 1))
    assert (rate.window() is None) is (limit == 0)


# -- seed 000, rate limiting, pre-auth -----------------------------------------------------------------


def pings(world: World, guest: Guest, count: int) -> None:
    for _ in range(count):
        world.send(guest, "PING")


def test_pre_auth_step_1_and_2_the_eleventh_frame_closes_1008() -> None:
    world = World()
    guest = world.connect()
    pings(world, guest, 10)
    assert_open(guest)
    assert len(guest.read()) == 10
    pings(world, guest, 1)
    assert_silent(guest)
    assert_closed(guest, 1008, "Rate limit exceeded")


def test_pre_auth_step_3_the_event_is_logged_with_address_and_count() -> None:
    world = World()
    guest = world.connect("203.0.113.7")
    pings(world, guest, 11)
    assert world.log.find("rate_limit_exceeded") == [{"ip": "203.0.113.7", "agent": None, "messages": 11}]


def test_pre_auth_the_window_slides() -> None:
    world = World()
    guest = world.connect()
    pings(world, guest, 5)
    world.advance(5)
    pings(world, guest, 5)
    world.advance(5)
    pings(world, guest, 5)
    assert_open(guest)
    pings(world, guest, 1)
    assert_closed(guest, 1008, "Rate limit exceeded")


@pytest.mark.parametrize("frame", [b"not json", b"null", b'{"type":"NONSENSE"}', b'{"type":"MSG"}'])
def test_pre_auth_every_frame_counts_malformed_ones_too(frame: bytes) -> None:
    world = World()
    guest = world.connect()
    for _ in range(10):
        world.send_raw(guest, frame)
    assert_open(guest)
    world.send_raw(guest, frame)
    assert_closed(guest, 1008, "Rate limit exceeded")


# -- post-auth -----------------------------------------------------------------------------------------


def test_post_auth_steps_1_and_2_the_sixty_first_frame_is_refused_and_the_connection_stays() -> None:
    world = World()
    guest = world.agent()
    pings(world, guest, 60)
    assert len(guest.read()) == 60
    pings(world, guest, 1)
    assert_refused(guest, "RATE_LIMITED")
    assert_open(guest)


def test_post_auth_step_3_who_goes_on_stays_limited_and_who_pauses_may_go_on() -> None:
    world = World()
    guest = world.agent()
    pings(world, guest, 60)
    world.advance(5)
    pings(world, guest, 59)  # one more, and the hall would stop reading
    guest.read()
    world.advance(9)
    pings(world, guest, 2)
    assert_sent(guest, "PONG")
    assert_refused(guest, "RATE_LIMITED")
    world.advance(10)
    pings(world, guest, 1)
    assert_sent(guest, "PONG")


def test_post_auth_what_is_over_the_limit_is_not_handled() -> None:
    world = World()
    guest, other = world.agent(join="#general"), world.agent(join="#general")
    world.advance(10)
    world.hush()
    pings(world, guest, 60)
    guest.read()
    for fields in (
        {"type": "MSG", "to": "#general", "content": "x"},
        {"type": "LEAVE", "channel": "#general"},
        {"type": "SET_PRESENCE", "status": "away"},
    ):
        kind = fields.pop("type")
        world.send(guest, kind, **fields)
        assert_refused(guest, "RATE_LIMITED")
    assert_silent(other)
    assert "#general" in world.hall.roster.agents[guest.id[1:]].channels


def test_post_auth_invalid_frames_count_and_are_answered_as_invalid() -> None:
    """The seed's order: parse, type and fields come before the rate."""
    world = World()
    guest = world.agent()
    for _ in range(60):
        world.send_raw(guest, b"{")
    assert_silent(guest)
    world.send(guest, "NONSENSE")
    assert_refused(guest, "INVALID_MSG")
    pings(world, guest, 1)
    assert_refused(guest, "RATE_LIMITED")


def test_post_auth_a_flood_of_malformed_frames_does_not_flood_the_log() -> None:
    world = World()
    guest = world.agent()
    for _ in range(119):
        world.send_raw(guest, b"{")
    assert len(world.log.find("malformed_message")) == 60
    assert world.hall.tally.malformed == 119
    assert_open(guest)


def test_many_connections_do_not_flood_the_log_with_malformed_frames() -> None:
    world = World()
    for _ in range(3):
        guest = world.agent()
        for _ in range(50):
            world.send_raw(guest, b"{")
    assert len(world.log.find("malformed_message")) == LOG_LINES.limit
    assert world.hall.tally.malformed == 150
    world.advance(LOG_LINES.seconds)
    world.send_raw(guest, b"{")
    assert len(world.log.find("malformed_message")) == LOG_LINES.limit + 1


# -- per message type ----------------------------------------------------------------------------------


def test_per_message_steps_1_to_3_one_msg_a_second() -> None:
    world = World()
    guest, other = world.agent(join="#general"), world.agent(join="#general")
    world.hush()
    world.send(guest, "MSG", to="#general", content="one")
    world.advance(0.9)
    world.send(guest, "MSG", to="#general", content="too fast")
    assert_refused(guest, "RATE_LIMITED", "MSG")
    world.advance(0.1)
    world.send(guest, "MSG", to="#general", content="two")
    assert [message["content"] for message in other.read()] == ["one", "two"]
    assert_open(guest)


def test_per_message_a_send_that_failed_uses_the_slot() -> None:
    """Agentchat wire 1.3."""
    world = World()
    guest = world.agent(join="#general")
    world.send(guest, "MSG", to="@nobody", content="x")
    assert_refused(guest, "AGENT_NOT_FOUND")
    world.send(guest, "MSG", to="#general", content="x")
    assert_refused(guest, "RATE_LIMITED")


def test_per_message_a_limit_is_per_agent_and_starts_with_its_identity() -> None:
    """Clients send what they have queued before IDENTIFY (agentchat wire 18.1, 12)."""
    world = World()
    one, two = world.connect(), world.agent(join="#general")
    world.send(one, "MSG", to=two.id, content="queued")
    assert_refused(one, "AUTH_REQUIRED")
    world.identify(one)
    assert_sent(one, "WELCOME")
    world.send(one, "MSG", to=two.id, content="hello")
    assert_sent(two, "MSG", content="hello")
    world.send(two, "MSG", to="#general", content="hello")
    assert_silent(two)


def test_file_chunks_have_their_own_limit_of_ten_a_second() -> None:
    """Seed 001, file transfer."""
    world = World()
    guest, other = world.agent(), world.agent()
    world.send(guest, "MSG", to=other.id, content="the offer")
    for _ in range(10):
        world.send(guest, "FILE_CHUNK", to=other.id, content="x")
    assert_silent(guest)
    world.send(guest, "FILE_CHUNK", to=other.id, content="x")
    assert_refused(guest, "RATE_LIMITED", "FILE_CHUNK")
    assert len(other.read()) == 11


# -- settings ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "off",
    [
        {"no_limits": True},
        {
            "rate_pre_auth": Rate(0, 1),
            "rate_post_auth": Rate(0, 1),
            "rate_message": Rate(0, 1),
            "rate_chunk": Rate(0, 1),
            "rate_nick": Rate(0, 1),
        },
    ],
    ids=["no_limits", "each"],
)
def test_every_limit_can_be_turned_off(off: dict[str, Any]) -> None:
    world = World(**off)
    guest = world.connect()
    pings(world, guest, 100)
    world.identify(guest)
    guest.id = guest.read()[-1]["agent_id"]
    for number in range(100):
        world.send(guest, "PING")
        world.send(guest, "MSG", to=guest.id, content="x")
        world.send(guest, "FILE_CHUNK", to=guest.id, content="x")
        world.send(guest, "SET_NICK", nick=f"nick{number}")
    assert len(guest.read()) == 400
    assert world.hall.tally.refused == {}


def test_every_limit_is_a_setting() -> None:
    world = World(
        rate_pre_auth=Rate(2, 1),
        rate_post_auth=Rate(5, 1),
        rate_message=Rate(2, 1),
        rate_nick=Rate(1, 1),
        rate_chunk=Rate(1, 1),
    )
    stranger = world.connect()
    pings(world, stranger, 3)
    assert_closed(stranger, 1008, "Rate limit exceeded")
    guest = world.agent()
    for _ in range(2):
        world.send(guest, "MSG", to=guest.id, content="x")
        assert_sent(guest, "MSG")
    world.send(guest, "MSG", to=guest.id, content="x")
    assert_refused(guest, "RATE_LIMITED", "MSG")
    world.advance(1)
    for kind, fields in (("SET_NICK", {"nick": "x"}), ("FILE_CHUNK", {"to": guest.id, "content": "x"})):
        world.send(guest, kind, **fields)
        assert_sent(guest, "NICK_CHANGED" if kind == "SET_NICK" else kind)
        world.send(guest, kind, **fields)
        assert_refused(guest, "RATE_LIMITED", kind)
    pings(world, guest, 2)
    assert_sent(guest, "PONG")
    assert_refused(guest, "RATE_LIMITED", "slow down")

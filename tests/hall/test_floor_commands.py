"""Taking turns on the wire: RESPONDING_TO, FLOOR_CLAIMED, YIELD (seed 003; agentchat wire 10)."""

import tracemalloc
from typing import Any

import pytest

from moothall.hall import floor
from moothall.hall.floor import possible_start
from tests.identity.vectors import ALICE
from tests.support.world import (
    ABSENT,
    Guest,
    World,
    assert_consistent,
    assert_refused,
    assert_sent,
    assert_silent,
)


class Turns:
    """Three agents in a channel, and a message of the first that the others might answer."""

    def __init__(self, content: str = "who knows?", kind: str | None = None, **settings: Any) -> None:
        self.world = World(**settings)
        self.asker = self.world.agent("asker", kind=kind, join="#general")
        self.ann = self.world.agent("ann", join="#general")
        self.ben = self.world.agent("ben", join="#general")
        self.msg_id = self.world.say(self.asker, "#general", content)
        self.world.hush()

    def claim(self, guest: Guest, started_at: float, channel: str = "#general", **fields: str) -> None:
        self.world.send(
            guest,
            "RESPONDING_TO",
            **{"msg_id": self.msg_id, "channel": channel, "started_at": started_at, **fields},
        )

    def holder(self) -> str | None:
        claim = self.world.hall.floor.holder("#general", self.msg_id, self.world.clock.monotonic())
        return f"@{claim.holder}" if claim else None


# -- seed 003, flow and server behaviour ---------------------------------------------------------------


def test_flow_step_3_a_claim_is_relayed_to_the_other_members() -> None:
    turns = Turns()
    outsider = turns.world.agent(join="#agents")
    turns.claim(turns.ann, 1000)
    for guest in (turns.asker, turns.ben):
        assert_sent(
            guest,
            "RESPONDING_TO",
            msg_id=turns.msg_id,
            from_=turns.ann.id,
            started_at=1000,
            channel="#general",
        )
        assert_sent(
            guest,
            "FLOOR_CLAIMED",
            msg_id=turns.msg_id,
            channel="#general",
            holder=turns.ann.id,
            holder_name="ann",
            started_at=1000,
        )
    assert_silent(turns.asker, turns.ann, turns.ben, outsider)


def test_capability_1_a_repeated_claim_is_relayed_and_never_yields_to_itself() -> None:
    turns = Turns()
    for started_at in (1000, 2000):
        turns.claim(turns.ann, started_at)
        assert_sent(turns.ben, "RESPONDING_TO", started_at=started_at)
        assert_sent(turns.ben, "FLOOR_CLAIMED", started_at=1000)
    assert_silent(turns.ann)


def test_flow_step_6_capability_2_who_comes_later_must_yield() -> None:
    turns = Turns()
    turns.claim(turns.ann, 1000)
    turns.world.hush()
    turns.claim(turns.ben, 1001)
    told = assert_sent(
        turns.ben,
        "YIELD",
        msg_id=turns.msg_id,
        channel="#general",
        winner=turns.ann.id,
        holder=turns.ann.id,
        holder_started_at=1000,
    )
    assert told["reason"]
    assert_sent(turns.ann, "RESPONDING_TO", from_=turns.ben.id)
    assert_silent(turns.ann, turns.ben)
    assert turns.holder() == turns.ann.id


def test_flow_step_7_capability_3_an_earlier_start_takes_the_floor_over() -> None:
    turns = Turns()
    turns.claim(turns.ann, 1000)
    turns.world.hush()
    turns.claim(turns.ben, 999)
    assert_sent(turns.ann, "RESPONDING_TO", from_=turns.ben.id, started_at=999)
    assert_sent(turns.ann, "FLOOR_CLAIMED", holder=turns.ben.id, started_at=999)
    assert_sent(turns.ann, "YIELD", winner=turns.ben.id, holder=turns.ben.id, holder_started_at=999)
    assert_silent(turns.ben)
    assert turns.holder() == turns.ben.id


def test_flow_step_8_capability_5_the_claim_ends_when_its_agent_speaks_in_the_channel() -> None:
    turns = Turns()
    turns.claim(turns.ann, 1000)
    turns.world.say(turns.ann, "#general", "I know")
    assert turns.holder() is None
    turns.claim(turns.ben, 5000)
    assert turns.holder() == turns.ben.id


def test_capability_5_speaking_elsewhere_or_being_refused_does_not_end_it() -> None:
    turns = Turns()
    turns.world.send(turns.ann, "JOIN", channel="#agents")
    turns.claim(turns.ann, 1000)
    turns.world.say(turns.ann, "#agents", "hello there")
    turns.world.say(turns.ann, turns.ben.id, "psst")
    turns.world.send(turns.ann, "MSG", to="#general", content="too fast")
    assert assert_refused_last(turns.ann) == "RATE_LIMITED"
    assert turns.holder() == turns.ann.id


def assert_refused_last(guest: Guest) -> str:
    code: str = guest.read()[-1]["code"]
    return code


def test_capability_4_a_claim_expires_after_45_seconds() -> None:
    turns = Turns()
    turns.claim(turns.ann, 1000)
    turns.world.advance(44)
    turns.claim(turns.ben, 2000)
    assert turns.holder() == turns.ann.id
    turns.world.advance(1)
    turns.world.hush()
    turns.claim(turns.ben, 2000)
    assert_silent(turns.ben)
    assert turns.holder() == turns.ben.id


def test_configuration_the_time_to_live_is_a_setting() -> None:
    turns = Turns(floor_ttl=2.0)
    turns.claim(turns.ann, 1000)
    turns.world.advance(2)
    assert turns.holder() is None


def test_configuration_tracking_can_be_turned_off_and_the_relay_stays() -> None:
    turns = Turns(floor=False)
    turns.claim(turns.ann, 1000)
    turns.claim(turns.ben, 2000)
    assert_sent(turns.asker, "RESPONDING_TO", from_=turns.ann.id)
    assert_sent(turns.asker, "RESPONDING_TO", from_=turns.ben.id)
    assert_silent(turns.asker)
    assert_sent(turns.ann, "RESPONDING_TO", from_=turns.ben.id)
    assert_silent(turns.ann)
    assert turns.holder() is None


# -- seed 003, invariants ------------------------------------------------------------------------------


def test_invariant_the_floor_is_advice_and_blocks_nobody() -> None:
    turns = Turns()
    turns.claim(turns.ann, 1000)
    turns.claim(turns.ben, 2000)
    turns.world.hush()
    turns.world.say(turns.ben, "#general", "I go first")
    assert_sent(turns.asker, "MSG", content="I go first")
    assert turns.holder() == turns.ann.id


def test_invariant_claims_are_per_channel_and_message() -> None:
    turns = Turns()
    second = turns.world.say(turns.asker, "#general", "and who knows this?")
    turns.world.hush()
    turns.claim(turns.ann, 1000)
    turns.claim(turns.ann, 1000, msg_id=second)
    assert len(turns.world.hall.floor) == 2
    assert_silent(turns.ann)


def test_invariant_equal_times_are_decided_by_the_lower_id() -> None:
    turns = Turns()
    low, high = sorted((turns.ann, turns.ben), key=lambda guest: guest.id)
    turns.claim(high, 1000)
    turns.claim(low, 1000)
    assert turns.holder() == low.id
    assert [message["type"] for message in high.read()][-1] == "YIELD"
    turns.claim(high, 1000)
    assert turns.holder() == low.id


def test_invariant_the_time_is_the_agents_own_and_may_be_any_number() -> None:
    turns = Turns()
    for started_at in (1e300, 5, 0.5, -1e300, -(10**301)):
        turns.claim(turns.ann, started_at)
        claim = turns.world.hall.floor.holder("#general", turns.msg_id, turns.world.clock.monotonic())
        assert claim is not None
        assert claim.started_at == started_at
    turns.world.hush()
    for started_at in (0, 10**400):
        turns.world.send(
            turns.ann, "RESPONDING_TO", msg_id=turns.msg_id, channel="#general", started_at=started_at
        )
        assert_refused(turns.ann, "INVALID_MSG", "started_at")


@pytest.mark.parametrize("how", ["disconnects", "leaves"])
def test_claims_end_when_their_agent_is_gone(how: str) -> None:
    turns = Turns()
    turns.claim(turns.ann, 1000)
    if how == "leaves":
        turns.world.send(turns.ann, "LEAVE", channel="#general")
    else:
        turns.world.disconnect(turns.ann)
    assert turns.holder() is None
    assert_consistent(turns.world)


@pytest.mark.parametrize("channel", ["#agents", "#nowhere"])
def test_a_claim_by_a_non_member_is_dropped_in_silence(channel: str) -> None:
    turns = Turns()
    other = turns.world.agent(join="#agents")
    turns.claim(turns.ann, 1000, channel)
    assert_silent(turns.ann, other)
    assert len(turns.world.hall.floor) == 0


def test_a_claim_by_a_stranger_is_dropped_in_silence() -> None:
    turns = Turns()
    stranger = turns.world.connect()
    turns.claim(stranger, 1000)
    assert_silent(stranger, turns.ann)


# -- seed 003, exemptions ------------------------------------------------------------------------------


def test_exemption_a_message_that_mentions_the_agent_by_id_may_be_answered_by_it_regardless() -> None:
    turns = Turns()
    turns.msg_id = turns.world.say(turns.asker, "#general", f"what do you say, {turns.ben.id}?")
    turns.claim(turns.ann, 1000)
    turns.world.hush()
    turns.claim(turns.ben, 2000)
    assert_silent(turns.ben)
    assert_sent(turns.ann, "RESPONDING_TO", from_=turns.ben.id)
    assert_silent(turns.ann)
    assert turns.holder() == turns.ann.id


@pytest.mark.parametrize(
    ("content", "exempt"),
    [
        ("@ben?", True),
        ("well @ben, and @ann", True),
        ("@benjamin?", False),
        ("@ben-2?", False),
        ("ben?", False),
        ("@Ben?", False),
    ],
)
def test_exemption_mentions_by_name_are_whole_names(content: str, exempt: bool) -> None:
    turns = Turns(content)
    turns.claim(turns.ann, 1000)
    turns.world.hush()
    turns.claim(turns.ben, 2000)
    assert bool(turns.ben.unread) is not exempt


def test_exemption_messages_of_humans_may_be_answered_by_all() -> None:
    turns = Turns(kind="human")
    turns.claim(turns.ann, 1000)
    turns.claim(turns.ben, 2000)
    assert [message["type"] for message in turns.ann.read()] == ["RESPONDING_TO"]
    assert [message["type"] for message in turns.ben.read()] == ["RESPONDING_TO"]
    assert turns.holder() is None


@pytest.mark.parametrize("buffer_size", [0, 2])
@pytest.mark.parametrize(("content", "kind"), [("anyone?", "human"), ("@ben?", None)])
def test_exemption_holds_when_the_channel_has_moved_on(
    buffer_size: int, content: str, kind: str | None
) -> None:
    turns = Turns(content, kind=kind, buffer_size=buffer_size, no_limits=True)
    for number in range(5):
        turns.world.say(turns.ann, "#general", f"meanwhile {number}")
    turns.claim(turns.ann, 1000)
    turns.world.hush()
    turns.claim(turns.ben, 2000)
    assert_silent(turns.ben)


def test_exemptions_are_remembered_for_so_many_messages_and_no_more() -> None:
    remembered = floor.Exemptions()
    numbers = range(floor.MAX_REMEMBERED + 1)
    for number in numbers:
        remembered.note(f"msg_{number}", "hello", by_agent=False)
    assert len(remembered) == floor.MAX_REMEMBERED
    assert [number for number in numbers if not remembered.cover(f"msg_{number}", "a1", "ann")] == [0]


def test_exemptions_take_no_more_memory_than_the_messages() -> None:
    """Ten thousand messages that are nothing but mentions would otherwise be gigabytes."""
    remembered = floor.Exemptions()
    names = [f"{number:03x}" for number in range(1024)]
    tracemalloc.start()
    try:
        for number in range(100):
            remembered.note(f"msg_{number}", "".join(f"@{name}" for name in names), by_agent=True)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 100 * 2 * 4096
    assert remembered.cover("msg_7", "3ff", "nobody")
    assert remembered.cover("msg_7", "nobody", "000")
    assert not remembered.cover("msg_7", "3f", "ff 0")


def test_exemption_humans_who_answer_get_the_floor() -> None:
    turns = Turns()
    person = turns.world.agent("person", kind="human", join="#general")
    turns.claim(turns.ann, 1000)
    turns.claim(person, 9000)
    assert turns.holder() == person.id
    assert turns.ann.read()[-1]["type"] == "YIELD"


def test_exemption_lines_of_the_server_may_be_answered_by_all() -> None:
    turns = Turns(service_lines=True)
    line = turns.world.buffered("#general")[0]
    assert "msg_id" not in line  # so that nobody can claim it in the first place (agentchat wire 6.2)


def test_exemption_direct_messages_are_outside_floor_control() -> None:
    turns = Turns()
    turns.msg_id = turns.world.say(turns.asker, turns.ann.id, "just you")
    turns.world.hush()
    turns.world.send(turns.ann, "RESPONDING_TO", msg_id=turns.msg_id, channel=turns.asker.id, started_at=1000)
    assert_refused(turns.ann, "INVALID_MSG", "`channel`")
    assert len(turns.world.hall.floor) == 0


def test_a_message_that_nobody_knows_is_claimed_like_any_other() -> None:
    turns = Turns("@ben?")
    turns.msg_id = "msg_of_another_time"
    turns.claim(turns.ben, 1000)
    assert turns.holder() == turns.ben.id


# -- claims that are given back ------------------------------------------------------------------------


def release(turns: Turns, guest: Guest, **fields: Any) -> None:
    turns.world.send(guest, "RELEASE", **{"msg_id": turns.msg_id, "channel": "#general", **fields})


def released(turns: Turns, guest: Guest, reason: str | object = ABSENT) -> dict[str, Any]:
    return {"msg_id": turns.msg_id, "channel": "#general", "from_": guest.id, "reason": reason}


@pytest.mark.parametrize("kind", [None, "human"])
def test_a_released_claim_is_told_to_the_other_members(kind: str | None) -> None:
    turns = Turns(kind=kind)
    outsider = turns.world.agent(join="#agents")
    turns.claim(turns.ann, 1000)
    turns.world.hush()
    release(turns, turns.ann, ref="7")
    assert_sent(turns.ann, "ACK", ref="7")
    for guest in (turns.asker, turns.ben):
        assert_sent(guest, "FLOOR_RELEASED", **released(turns, turns.ann))
    assert_silent(turns.asker, turns.ann, turns.ben, outsider)
    assert len(turns.world.hall.floor) == 0
    turns.world.advance(45)
    assert turns.world.log.find("floor_precedence_lost") == []
    assert_consistent(turns.world)


def test_after_a_release_the_next_claim_has_the_floor() -> None:
    turns = Turns()
    turns.claim(turns.ann, 1000)
    release(turns, turns.ann)
    turns.world.hush()
    turns.claim(turns.ben, 2000)
    assert_silent(turns.ben)
    assert turns.holder() == turns.ben.id


def test_a_release_without_a_claim_is_told_to_none() -> None:
    turns = Turns()
    turns.claim(turns.ben, 1000)
    turns.claim(turns.ann, 2000)  # which has to yield
    turns.world.hush()
    release(turns, turns.ann)
    release(turns, turns.ann, msg_id="1-another")
    release(turns, turns.ann, channel="#agents")
    release(turns, turns.ann, channel="#nowhere")
    assert_silent(turns.asker, turns.ann, turns.ben)
    assert turns.holder() == turns.ben.id


def test_a_release_is_dropped_where_claims_are_not_tracked() -> None:
    turns = Turns(floor=False)
    turns.claim(turns.ann, 1000)
    turns.world.hush()
    release(turns, turns.ann)
    assert_silent(turns.asker, turns.ann, turns.ben)


@pytest.mark.parametrize("kind", [None, "human"])
def test_an_expired_claim_is_told_to_the_members(kind: str | None) -> None:
    turns = Turns(kind=kind, floor_ttl=3.0)
    turns.claim(turns.ann, 1000)
    turns.world.advance(2.9)
    turns.world.hush()
    assert len(turns.world.hall.floor) == 1
    turns.world.advance(0.1)
    for guest in (turns.asker, turns.ann, turns.ben):
        assert_sent(guest, "FLOOR_RELEASED", **released(turns, turns.ann, "expired"))
    assert len(turns.world.hall.floor) == 0


@pytest.mark.parametrize("kind", [None, "human"])
@pytest.mark.parametrize("how", ["answers", "leaves", "disconnects"])
def test_a_claim_that_ended_otherwise_is_not_told_again(kind: str | None, how: str) -> None:
    turns = Turns(kind=kind)
    turns.claim(turns.ann, 1000)
    match how:
        case "answers":
            turns.world.say(turns.ann, "#general", "I know")
        case "leaves":
            turns.world.send(turns.ann, "LEAVE", channel="#general")
        case "disconnects":
            turns.world.disconnect(turns.ann)
    assert len(turns.world.hall.floor) == 0
    turns.world.hush()
    turns.world.advance(50)
    assert_silent(turns.asker, turns.ben)


def test_an_answer_that_says_what_it_answers_ends_that_claim_alone() -> None:
    turns = Turns(no_limits=True)
    second = turns.world.say(turns.asker, "#general", "and this?")
    turns.claim(turns.ann, 1000)
    turns.claim(turns.ann, 1000, msg_id=second)
    turns.world.send(turns.ann, "MSG", to="#general", content="I know", in_reply_to=second)
    assert turns.holder() == turns.ann.id
    turns.world.send(turns.ann, "MSG", to="#general", content="I know", in_reply_to=turns.msg_id)
    assert turns.holder() is None
    turns.world.advance(50)
    assert turns.world.log.find("floor_precedence_lost") == []


@pytest.mark.parametrize("no_limits", [False, True])
@pytest.mark.parametrize("seconds", [0.0, 44.0])
def test_claiming_and_releasing_in_turn_mutes_no_bot_for_good(no_limits: bool, seconds: float) -> None:
    """Agents that give up at any claim are the ones to protect: soon they do not hear of these."""
    turns = Turns(no_limits=no_limits)
    mute = turns.world.agent("mute", ip="203.0.113.9", join="#general")
    relayed = 0
    for _ in range(100):
        turns.msg_id = turns.world.say(turns.asker, "#general", "who knows?")
        turns.world.hush()
        turns.claim(mute, 1)
        relayed += bool(turns.ann.unread)
        turns.world.advance(seconds)
        release(turns, mute)
    assert relayed <= 80
    assert len(turns.world.log.find("floor_precedence_lost")) >= 1
    turns.msg_id = turns.world.say(turns.asker, "#general", "who knows?")
    turns.world.hush()
    turns.claim(mute, 1)
    assert_silent(turns.ann, turns.ben)
    turns.claim(turns.ann, turns.world.now_ms)
    assert turns.holder() == turns.ann.id


# -- claims that nobody answers ------------------------------------------------------------------------


class Muted(Turns):
    """`mute` claims whatever is said, since the beginning of time, and never answers. Each agent has its own
    address."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.mute = self.join("mute", "203.0.113.9")

    def join(self, name: str, ip: str, **fields: Any) -> Guest:
        return self.world.agent(name, ip=ip, join="#general", **fields)

    def ask(self) -> None:
        """A new question, which `mute` claims at once."""
        self.msg_id = self.world.say(self.asker, "#general", "who knows?")
        self.world.hush()
        self.claim(self.mute, 1)

    def lapse(self) -> None:
        self.ask()
        self.world.advance(45)
        self.world.hush()


@pytest.mark.parametrize("no_limits", [False, True])
def test_an_agent_that_claims_everything_and_answers_nothing_mutes_no_bot_for_good(no_limits: bool) -> None:
    turns = Muted(no_limits=no_limits)
    turns.lapse()
    for _ in range(20):
        turns.ask()
        assert_silent(turns.ann, turns.ben)  # who waits to answer must not hear of that claim
        turns.claim(turns.ann, turns.world.now_ms)
        assert turns.holder() == turns.ann.id
        assert_silent(turns.ann)
        told = [message for message in turns.mute.read() if message["type"] == "YIELD"]
        assert [message["winner"] for message in told] == [turns.ann.id]
        assert "expired unanswered" in told[0]["reason"]
        turns.claim(turns.mute, 1)
        assert "expired unanswered" in assert_sent(turns.mute, "YIELD", winner=turns.ann.id)["reason"]
        turns.world.say(turns.ann, "#general", "I know")
        turns.world.hush()
    assert_consistent(turns.world)


def test_a_penalised_claim_holds_while_it_is_the_only_one() -> None:
    turns = Muted()
    turns.lapse()
    turns.ask()
    assert_silent(turns.mute)
    assert turns.holder() == turns.mute.id


def test_the_penalty_ends_after_ten_minutes() -> None:
    turns = Muted()
    turns.lapse()
    turns.world.advance(600)
    turns.ask()
    assert [message["type"] for message in turns.ann.read()] == ["RESPONDING_TO", "FLOOR_CLAIMED"]


def test_claims_without_precedence_are_relayed_to_people_and_to_agents_that_have_no_more_of_it() -> None:
    """Agents of one address have to know of each other's claims: on a person's message the hall decides nothing."""
    turns = Muted(kind="human")
    turns.lapse()
    other = turns.join("other", turns.mute.ip)
    turns.world.hush()
    turns.claim(other, 2000)
    assert_sent(turns.asker, "RESPONDING_TO", from_=other.id)
    assert_sent(turns.mute, "RESPONDING_TO", from_=other.id)
    assert_silent(turns.ann, turns.ben, other)
    turns.claim(turns.mute, 3000)
    assert_sent(turns.asker, "RESPONDING_TO", from_=turns.mute.id)
    assert_silent(turns.ann, turns.ben, other)  # `other` has more precedence than `mute`


def test_claims_expire_though_nobody_claims_again() -> None:
    turns = Muted()
    turns.ask()
    turns.world.advance(45)
    assert len(turns.world.hall.floor) == 0
    (facts,) = turns.world.log.find("floor_precedence_lost")
    assert facts == {"ip": "203.0.113.9", "agent": turns.mute.id[1:]}
    assert turns.world.hall.tally.security["floor_precedence_lost"] == 1


def test_a_lapse_is_logged_once_while_it_lasts() -> None:
    turns = Muted()
    for _ in range(5):
        turns.lapse()
    assert len(turns.world.log.find("floor_precedence_lost")) == 1


@pytest.mark.parametrize("how", ["reconnects", "leaves"])
def test_going_away_before_the_claim_expires_does_not_help(how: str) -> None:
    turns = Muted()
    turns.ask()
    turns.world.advance(44)
    if how == "leaves":
        turns.world.send(turns.mute, "LEAVE", channel="#general")
        turns.world.send(turns.mute, "JOIN", channel="#general")
    else:
        turns.world.disconnect(turns.mute)
        turns.mute = turns.join("mute", turns.mute.ip)
    turns.world.advance(1)
    turns.ask()
    assert_silent(turns.ann)
    turns.claim(turns.ann, turns.world.now_ms)
    assert turns.holder() == turns.ann.id


def test_a_new_key_from_the_same_address_does_not_help() -> None:
    turns = Muted()
    turns.lapse()
    turns.mute = turns.join("mute", turns.mute.ip, key=ALICE)
    turns.ask()
    turns.claim(turns.ann, turns.world.now_ms)
    assert turns.holder() == turns.ann.id


def test_a_key_keeps_its_penalty_wherever_it_connects_from() -> None:
    turns = Muted()
    turns.mute = turns.join("mute", "203.0.113.10", key=ALICE)
    turns.lapse()
    turns.world.disconnect(turns.mute)
    turns.mute = turns.join("mute", "203.0.113.11", key=ALICE)
    turns.ask()
    assert_silent(turns.ann)


def test_on_loopback_one_agent_does_not_pay_for_another() -> None:
    turns = Muted()
    local = [turns.world.connect("127.0.0.1", is_loopback=True) for _ in range(2)]
    for guest in local:
        turns.world.identify(guest, "local")
        guest.id = assert_sent(guest, "WELCOME")["agent_id"]
        turns.world.send(guest, "JOIN", channel="#general")
    turns.mute = local[0]
    turns.lapse()
    turns.msg_id = turns.world.say(turns.asker, "#general", "who knows?")
    turns.world.hush()
    turns.claim(local[1], 5)
    assert_sent(turns.ann, "RESPONDING_TO", from_=local[1].id)


def test_a_claim_on_a_humans_message_is_a_promise_too() -> None:
    turns = Muted()
    turns.asker = turns.join("person", "203.0.113.20", kind="human")
    turns.lapse()
    turns.ask()
    assert_silent(turns.ann)


def test_who_answers_every_claim_is_always_heard() -> None:
    turns = Turns()
    for _ in range(20):
        turns.msg_id = turns.world.say(turns.asker, "#general", "who knows?")
        turns.world.hush()
        turns.claim(turns.ann, turns.world.now_ms)
        assert_sent(turns.ben, "RESPONDING_TO", from_=turns.ann.id)
        turns.world.say(turns.ann, "#general", "I know")
        turns.world.advance(50)
    assert turns.world.log.find("floor_precedence_lost") == []


# -- floor_clock ---------------------------------------------------------------------------------------


def test_floor_clock_check_counts_an_impossible_start_from_its_arrival() -> None:
    turns = Turns(floor_clock="check")
    sent = turns.world.now_ms
    turns.world.advance(0.2)
    turns.claim(turns.ann, 1)
    assert_sent(turns.ben, "RESPONDING_TO", started_at=sent + 200)
    assert_sent(turns.ben, "FLOOR_CLAIMED", started_at=sent + 200)
    turns.claim(turns.ben, sent + 100)
    assert turns.holder() == turns.ben.id
    assert turns.ann.read()[-1]["type"] == "YIELD"


def test_floor_clock_check_believes_a_possible_start() -> None:
    turns = Turns(floor_clock="check")
    sent = turns.world.now_ms
    turns.world.advance(1)
    for guest, started_at in ((turns.ann, sent + 5000), (turns.ben, sent)):
        turns.claim(guest, started_at)
        assert_sent(turns.asker, "RESPONDING_TO", started_at=started_at)
        assert_sent(turns.asker, "FLOOR_CLAIMED", started_at=started_at)
    assert turns.holder() == turns.ben.id


def test_floor_clock_trust_is_the_default_and_checks_nothing() -> None:
    turns = Turns()
    turns.claim(turns.ann, turns.world.now_ms)
    turns.claim(turns.ben, 1)
    assert turns.holder() == turns.ben.id


@pytest.mark.parametrize("msg_id", ["msg_of_another_time", "x", "-1-abc"])
def test_floor_clock_check_takes_any_start_for_an_id_that_tells_no_time(msg_id: str) -> None:
    assert possible_start(1, msg_id, 10**12) == 1

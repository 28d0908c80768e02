"""How soon a session may displace another one of the same key (agentchat wire 4.5)."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.takeovers import LONGEST, MEMORY
from moothall.identity import PrivateKey
from tests.hall.keep.town import Town
from tests.identity.vectors import ALICE, BOB
from tests.support.keep import Signer
from tests.support.replacing import Replacing
from tests.support.world import (
    ABSENT,
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

REFERENCE = "agentchat-0.36"
DISPLACED = (1000, "Identity claimed by verified connection")


def knocking(world: World, key: PrivateKey = ALICE) -> Guest:
    """A second session that has proven the key, and waits."""
    guest = world.connect()
    world.identify(guest, "again", key=key)
    return guest


def test_without_a_delay_a_session_is_displaced_at_once() -> None:
    world = World()
    first = world.agent(key=ALICE)
    second = knocking(world)
    assert_sent(second, "WELCOME")
    assert_closed(first, *DISPLACED)


def test_in_the_profile_the_first_takeover_waits_five_seconds() -> None:
    world = World(REFERENCE)
    first = world.agent("alice", key=ALICE)
    second = knocking(world)
    assert_sent(second, "TAKEOVER_PENDING", wait_ms=5000)
    world.advance(4.9)
    assert_silent(second)
    assert_open(first, second)
    assert_consistent(world)
    first.read()
    world.advance(0.1)
    assert_sent(first, "SESSION_DISPLACED", new_ip="192.0.2.1")
    assert_closed(first, *DISPLACED)
    assert_sent(second, "WELCOME", agent_id=first.id)
    assert world.log.find("takeover_delayed") == [{"agent": first.id[1:], "ip": "192.0.2.1", "seconds": 5.0}]
    assert_consistent(world)


def test_the_delay_doubles_up_to_a_minute_and_is_forgotten_after_five() -> None:
    world = World(REFERENCE, no_limits=True)
    world.agent(key=ALICE)
    waits = []
    for _ in range(6):
        guest = knocking(world)
        waits.append(assert_sent(guest, "TAKEOVER_PENDING")["wait_ms"] / 1000)
        world.advance(waits[-1])
        assert_sent(guest, "WELCOME")
    assert waits == [5, 10, 20, 40, 60, 60]
    world.advance(MEMORY)
    assert_sent(knocking(world), "TAKEOVER_PENDING", wait_ms=5000)
    assert_consistent(world)


def test_two_clients_with_one_key_displace_each_other_once_in_four_seconds_at_most() -> None:
    """Each connects again as soon as it is displaced, and opens many connections at once."""
    world = World(REFERENCE, no_limits=True, max_connections_per_ip=0)
    world.agent(key=ALICE)
    for _ in range(20):
        knocking(world)
    for _ in range(600):
        world.advance(1)
        if not world.hall.takeovers:
            break
    assert 1 < len(world.log.find("session_displaced")) <= 12  # 5 + 10 + 20 + 40, and then one a minute
    assert_consistent(world)


def test_one_that_left_while_it_waited_displaces_no_session() -> None:
    world = World(REFERENCE)
    first = world.agent("alice", key=ALICE)
    second = knocking(world)
    world.disconnect(second)
    assert_consistent(world)
    world.advance(120)
    assert_open(first)
    assert_sent(knocking(world), "TAKEOVER_PENDING", wait_ms=5000)  # and it does not count as a takeover


def test_when_the_other_session_leaves_the_one_that_waits_comes_in_at_once() -> None:
    world = World(REFERENCE)
    first = world.agent("alice", key=ALICE)
    second, third = knocking(world), knocking(world)
    world.disconnect(first)
    world.advance(0)
    assert_sent(second, "TAKEOVER_PENDING")
    assert_sent(second, "WELCOME")
    assert_sent(third, "TAKEOVER_PENDING")
    assert_silent(third)
    world.advance(5)
    assert_sent(third, "WELCOME")
    assert_closed(second, *DISPLACED)
    assert_consistent(world)


def test_the_answer_carries_the_ref_and_later_frames_wait_for_it() -> None:
    world = World(REFERENCE)
    world.agent(key=ALICE)
    guest = world.connect()
    guest.key = ALICE
    world.send(guest, "IDENTIFY", name="again", pubkey=ALICE.public.pem)
    world.prove(guest, assert_sent(guest, "CHALLENGE"), ref="proof")
    world.send(guest, "JOIN", channel="#general", ref="join")
    assert_sent(guest, "TAKEOVER_PENDING", ref=ABSENT)
    assert_silent(guest)
    world.advance(5)
    assert_sent(guest, "WELCOME", ref="proof")
    assert [message["type"] for message in guest.read() if message.get("ref") == "join"] == ["JOINED"]


def test_a_key_that_is_banned_while_it_waits_stays_out() -> None:
    world = World(REFERENCE, admin_key=ADMIN_KEY)
    first = world.agent("alice", key=ALICE)
    second = knocking(world)
    second.read()
    world.send(world.connect(), "ADMIN_BAN", admin_key=ADMIN_KEY, agent_id=first.id)
    world.advance(60)
    assert_refused(second, "BANNED")
    assert_closed(second, 1000, "Banned")
    assert_consistent(world)


# -- no stranger keeps an owner out ------------------------------------------------------------------------


def test_a_proof_that_fails_delays_no_takeover() -> None:
    world = World(REFERENCE)
    first = world.agent("alice", key=ALICE)
    for _ in range(5):
        stranger = world.connect()
        stranger.key = BOB
        world.send(stranger, "IDENTIFY", name="alice", pubkey=ALICE.public.pem)
        world.prove(stranger, assert_sent(stranger, "CHALLENGE"))
        assert_refused(stranger, "VERIFICATION_FAILED")
    assert_open(first)
    assert_sent(knocking(world), "TAKEOVER_PENDING", wait_ms=5000)


def test_a_keep_agent_with_the_owners_packet_does_not_keep_the_owner_waiting() -> None:
    """A packet can be replayed, so whoever has an old one can register with it."""
    town = Town(profile=REFERENCE)
    signer = Signer(b"o" * 32)
    town.peer("bot:owner", signer)
    owner = town.connect()
    town.identify(owner, "owner", key=PrivateKey(b"o" * 32))
    assert_sent(owner, "WELCOME")


def test_an_owner_is_never_delayed_when_no_session_has_its_key() -> None:
    world = World(REFERENCE, no_limits=True)
    for _ in range(10):
        guest = knocking(world)
        assert_sent(guest, "WELCOME")
        world.disconnect(guest)


# -- the end of the hall -----------------------------------------------------------------------------------


def test_a_hall_that_closes_does_not_wait_for_takeovers() -> None:
    world = World(REFERENCE)
    world.agent("alice", key=ALICE)
    knocking(world)
    finished: list[bool] = []
    world.hall.durable.take_no_more(lambda: finished.append(True))
    assert finished == [True]


@given(st.lists(st.tuples(st.sampled_from(["knock", "leave", "wait"]), st.floats(0, 40)), max_size=40))
def test_takeovers_are_as_far_apart_as_the_delay_says(steps: list[tuple[str, float]]) -> None:
    world = World(REFERENCE, no_limits=True)
    displaced: list[float] = []
    note = world.hall.takeovers.note

    def noted(agent_id: str, delay: float, now: float) -> None:
        displaced.append(now)
        note(agent_id, delay, now)

    with Replacing.context() as patch:
        patch.setattr(world.hall.takeovers, "note", noted)  # to see when
        for step, seconds in steps:
            if step == "knock":
                knocking(world)
            elif step == "leave" and (agent := world.hall.roster.by_key.get(ALICE.public.raw)):
                world.hall.disconnect(agent.session)
            world.advance(seconds)
            assert_consistent(world)
    assert all(later - earlier >= 5 for earlier, later in pairwise(displaced))
    world.advance(len(steps) * LONGEST)
    assert len(world.hall.takeovers) == 0

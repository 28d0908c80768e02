"""An id belongs to the first key that had it, for good (agentchat wire 3.2)."""

from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.keyring import Keyring
from moothall.identity import PrivateKey
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.support.world import TWIN_ID, TWINS, World, assert_open, assert_refused, assert_silent

KEYS = [PrivateKey(bytes([number]) * 32).public for number in range(6)]


def nobody(agent_id: str) -> bool:
    return False


def test_the_twins_really_are_twins() -> None:
    first, second = (twin.public for twin in TWINS)
    assert first != second
    assert first.agent_id() == second.agent_id() == TWIN_ID


def test_an_id_stays_bound_to_the_first_key_that_had_it() -> None:
    """An 8-digit collision cannot take over an identity (agentchat wire 3.2)."""
    world = World()
    first = world.agent("first", key=TWINS[0])
    assert first.id == f"@{TWIN_ID}"
    second = world.connect()
    world.identify(second, "second", key=TWINS[1])
    assert_refused(second, "NOT_ALLOWED", TWIN_ID)
    assert_open(first, second)
    assert_silent(first)
    assert world.log.find("id_collision") == [{"ip": "192.0.2.1", "agent": TWIN_ID}]
    world.disconnect(first)
    world.identify(second, "second", key=TWINS[1])
    assert_refused(second, "NOT_ALLOWED")
    assert world.agent("first", key=TWINS[0]).id == f"@{TWIN_ID}"


def test_an_id_bound_before_a_restart_stays_bound() -> None:
    world = World(keyring=Keyring(10, [(TWIN_ID, TWINS[0].public.raw)]))
    second = world.connect()
    world.identify(second, "second", key=TWINS[1])
    assert_refused(second, "NOT_ALLOWED")


def test_disconnect_step_4_the_key_of_an_id_is_remembered_once() -> None:
    world = World()
    world.disconnect(world.agent("alice", key=ALICE))
    world.agent("alice", key=ALICE)
    assert world.remembered == [("b8de75d1", ALICE.public.raw)]


def test_sixteen_digits_tell_the_twins_apart() -> None:
    world = World(id_length=16)
    assert world.agent("first", key=TWINS[0]).id != world.agent("second", key=TWINS[1]).id


def test_an_id_that_nobody_had_belongs_to_nobody_else() -> None:
    keyring = Keyring(10)
    assert not keyring.belongs_to_another("a", ALICE.public)
    assert keyring.bind("a", ALICE.public, nobody)
    assert not keyring.belongs_to_another("a", ALICE.public)
    assert keyring.belongs_to_another("a", BOB.public)
    assert not keyring.bind("a", ALICE.public, nobody)


def test_of_what_was_saved_the_first_line_of_an_id_counts() -> None:
    keyring = Keyring(10, [("a", ALICE.public.raw), ("a", BOB.public.raw)])
    assert keyring.belongs_to_another("a", BOB.public)
    assert len(keyring) == 1


def test_the_ids_longest_unseen_are_forgotten_first() -> None:
    keyring = Keyring(2)
    keyring.bind("a", ALICE.public, nobody)
    keyring.bind("b", BOB.public, nobody)
    keyring.bind("a", ALICE.public, nobody)
    keyring.bind("c", CAROL.public, nobody)
    assert ("a" in keyring, "b" in keyring, "c" in keyring) == (True, False, True)


def test_more_than_the_limit_is_not_kept_from_a_file_either() -> None:
    keyring = Keyring(2, [(str(number), key.raw) for number, key in enumerate(KEYS)])
    assert len(keyring) == 2
    assert "5" in keyring
    assert "3" not in keyring


def test_who_is_present_is_never_forgotten_not_even_the_newest() -> None:
    keyring = Keyring(1)
    keyring.bind("a", ALICE.public, nobody)
    keyring.bind("b", BOB.public, lambda agent_id: agent_id == "a")
    assert "a" in keyring
    assert "b" in keyring


def test_in_a_hall_the_keys_of_those_present_stay_bound_beyond_the_limit() -> None:
    world = World(max_known_keys=1)
    twin = world.agent("first", key=TWINS[0])
    world.agent("alice", key=ALICE)
    world.agent("bob", key=BOB)
    other = world.connect()
    world.identify(other, "second", key=TWINS[1])
    assert_refused(other, "NOT_ALLOWED")
    assert_open(twin)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 5)), max_size=40), st.integers(1, 3))
def test_a_bound_id_never_changes_hands_while_it_is_remembered(
    attempts: list[tuple[str, int]], limit: int
) -> None:
    keyring = Keyring(limit)
    owners: dict[str, int] = {}
    for agent_id, number in attempts:
        key = KEYS[number]
        taken = agent_id in keyring and owners[agent_id] != number
        assert keyring.belongs_to_another(agent_id, key) is taken
        if not taken:
            is_new = agent_id not in keyring
            assert keyring.bind(agent_id, key, nobody) is is_new
            owners[agent_id] = number
        assert len(keyring) <= limit

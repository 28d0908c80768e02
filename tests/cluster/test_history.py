"""The checker of histories: it takes what a hall may do, and finds each broken promise."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.history import (
    Acked,
    Claimed,
    Ended,
    Entered,
    Event,
    Fault,
    Gap,
    Healed,
    Heard,
    Left,
    Refused,
    Said,
    Welcomed,
    Yielded,
    violations,
)

ALICE, BOB, CAROL = 1, 2, 3
THREE: list[Event] = [
    *(Welcomed(ALICE, "alice"), Welcomed(BOB, "bob"), Welcomed(CAROL, "carol")),
    *(Entered(line, "#c") for line in (ALICE, BOB, CAROL)),
]


def said(line: int, text: str, *listeners: int, to: str = "#c") -> list[Event]:
    sender = {ALICE: "alice", BOB: "bob", CAROL: "carol"}[line]
    return [
        Said(line, to, text),
        *(Heard(listener, to, sender, text) for listener in listeners),
        Acked(line, text),
    ]


GOOD: list[Event] = [*THREE, *said(ALICE, "m1", BOB, CAROL), *said(BOB, "m2", CAROL, ALICE)]


def assert_found(history: Sequence[Event], *words: str) -> None:
    problems = violations(history)
    assert len(problems) == 1, problems
    for word in words:
        assert word in problems[0]


def test_a_good_history_has_no_violations() -> None:
    assert violations(GOOD) == []


# -- completeness --------------------------------------------------------------------------------------


def test_a_message_that_a_member_does_not_hear() -> None:
    assert_found([*THREE, *said(ALICE, "m1", BOB)], "m1 did not come to line 3")


def test_a_message_that_was_heard_counts_also_without_an_acknowledgement() -> None:
    assert_found(
        [*THREE, Said(ALICE, "#c", "m1"), Heard(BOB, "#c", "alice", "m1")], "m1 did not come to line 3"
    )


def test_a_message_that_nobody_knows_of_may_be_lost() -> None:
    assert violations([*THREE, Said(ALICE, "#c", "m1"), Ended(ALICE)]) == []


def test_a_gap_excuses_what_was_said_before_it() -> None:
    assert violations([*THREE, *said(ALICE, "m1", BOB), Gap(CAROL, "#c")]) == []


def test_a_gap_excuses_nothing_that_is_said_after_it() -> None:
    assert_found([*THREE, Gap(CAROL, "#c"), *said(ALICE, "m1", BOB)], "m1 did not come to line 3")


def test_a_gap_that_is_told_after_a_later_message_is_too_late() -> None:
    history: list[Event] = [*THREE, *said(ALICE, "m1", BOB), *said(ALICE, "m2", BOB, CAROL), Gap(CAROL, "#c")]
    assert_found(history, "m1 did not come to line 3")


def test_nodes_that_were_apart_tell_of_the_gap_when_they_are_together() -> None:
    apart = [Fault(), *said(ALICE, "m1", BOB), *said(CAROL, "m2"), *said(ALICE, "m3", BOB), Healed()]
    assert violations([*THREE, *apart, *(Gap(line, "#c") for line in (ALICE, BOB, CAROL))]) == []
    problems = violations([*THREE, *apart])
    assert len(problems) == 4  # m1 and m3 for Carol, m2 for Alice and Bob


def test_a_fault_excuses_nothing_that_is_said_after_it() -> None:
    assert_found([*THREE, Fault(), Healed(), *said(ALICE, "m1", BOB)], "m1 did not come to line 3")


def test_a_member_that_leaves_may_miss_the_last_messages() -> None:
    assert violations([*THREE, *said(ALICE, "m1", BOB), Left(CAROL, "#c")]) == []
    assert violations([*THREE, *said(ALICE, "m1", BOB), Ended(CAROL)]) == []


def test_a_member_that_leaves_may_not_miss_one_before_another() -> None:
    history: list[Event] = [*THREE, *said(ALICE, "m1", BOB), *said(ALICE, "m2", BOB, CAROL), Ended(CAROL)]
    assert_found(history, "m1 did not come to line 3")


def test_a_member_that_comes_later_need_not_hear_what_was_before() -> None:
    history: list[Event] = [
        Welcomed(ALICE, "alice"),
        Entered(ALICE, "#c"),
        Said(ALICE, "#c", "m1"),
        Acked(ALICE, "m1"),
    ]
    assert violations([*history, Welcomed(BOB, "bob"), Entered(BOB, "#c")]) == []


# -- order ---------------------------------------------------------------------------------------------


def test_two_members_that_see_two_orders() -> None:
    history: list[Event] = [
        *(*THREE, Welcomed(4, "dave"), Entered(4, "#c")),
        *(Said(ALICE, "#c", "m1"), Said(BOB, "#c", "m2")),
        *(Heard(CAROL, "#c", "alice", "m1"), Heard(CAROL, "#c", "bob", "m2")),
        *(Heard(4, "#c", "bob", "m2"), Heard(4, "#c", "alice", "m1")),
        *(Heard(ALICE, "#c", "bob", "m2"), Heard(BOB, "#c", "alice", "m1")),
    ]
    assert_found(history, "no one order", "#c")


def test_three_members_whose_orders_make_a_circle() -> None:
    """Each pair of them agrees on what both heard."""
    lines = (11, 12, 13)
    history: list[Event] = [*THREE, *(Welcomed(line, str(line)) for line in lines)]
    history += [Entered(line, "#c") for line in lines]
    texts = {"m1": (ALICE, "alice"), "m2": (BOB, "bob"), "m3": (CAROL, "carol")}
    history += [Fault(), *(Said(line, "#c", text) for text, (line, _) in texts.items())]
    for listener, heard in zip(lines, (("m1", "m2"), ("m2", "m3"), ("m3", "m1")), strict=True):
        history += [Heard(listener, "#c", texts[text][1], text) for text in heard]
    history += [Healed(), *(Gap(line, "#c") for line in (ALICE, BOB, CAROL, *lines))]
    assert_found(history, "no one order")


def apart(*carols: Event) -> list[Event]:
    """Carol hears m2 before m1, and then her node is cut off. Alice and Bob hear them the other way round."""
    lines = (
        Welcomed(ALICE, "alice", "here"),
        Welcomed(BOB, "bob", "here"),
        Welcomed(CAROL, "carol", "there"),
    )
    return [
        *(*lines, Welcomed(4, "dave", "here")),
        *(Entered(line, "#c") for line in (ALICE, BOB, CAROL, 4)),
        *(Said(ALICE, "#c", "m1"), Said(BOB, "#c", "m2")),
        *(Heard(CAROL, "#c", "bob", "m2"), Heard(CAROL, "#c", "alice", "m1"), Fault()),
        *(Heard(4, "#c", "alice", "m1"), Heard(4, "#c", "bob", "m2")),
        *(Heard(ALICE, "#c", "bob", "m2"), Heard(BOB, "#c", "alice", "m1"), *carols),
    ]


def test_what_was_on_its_way_when_nodes_were_apart_may_have_another_order_at_one_of_them() -> None:
    """Its members are told of a gap, or leave before they can be."""
    assert violations(apart(Healed(), Gap(CAROL, "#c"))) == []
    assert violations(apart(Left(CAROL, "#c"), Healed())) == []


def test_the_order_of_a_node_that_was_apart_counts_if_no_gap_is_told() -> None:
    assert_found(apart(Healed()), "no one order")
    assert_found(apart(Healed(), Left(CAROL, "#c")), "no one order")


def test_a_gap_excuses_the_order_of_what_was_on_its_way_only() -> None:
    early = apart(Healed(), Gap(CAROL, "#c"))
    early.remove(Fault())
    assert_found([*early[:-2], Fault(), *early[-2:]], "no one order")


def test_members_of_one_node_that_was_apart_see_one_order() -> None:
    history = apart(Healed(), Gap(CAROL, "#c"))
    cut = history.index(Fault())
    there: list[Event] = [Welcomed(5, "erin", "there"), Entered(5, "#c")]
    heard: list[Event] = [Heard(5, "#c", "alice", "m1"), Heard(5, "#c", "bob", "m2")]
    history = [*history[:4], *there, *history[4:cut], *heard, *history[cut:], Gap(5, "#c")]
    assert_found(history, "#c at there", "no one order")


def test_messages_of_a_sender_in_another_order() -> None:
    history: list[Event] = [
        *(Welcomed(ALICE, "alice"), Welcomed(BOB, "bob"), Entered(ALICE, "#c"), Entered(BOB, "#c")),
        *(Said(ALICE, "#c", "m1"), Said(ALICE, "#c", "m2")),
        *(Heard(BOB, "#c", "alice", "m2"), Heard(BOB, "#c", "alice", "m1")),
    ]
    assert_found(history, "m1 came to line 2 after a later one of its sender")


def test_direct_messages_of_a_sender_in_another_order() -> None:
    history: list[Event] = [
        *(*THREE, Said(ALICE, "@bob", "m1"), Said(ALICE, "@bob", "m2")),
        *(Heard(BOB, "@bob", "alice", "m2"), Heard(BOB, "@bob", "alice", "m1")),
    ]
    assert_found(history, "m1 came to line 2 after a later one of its sender")


def test_a_message_that_comes_twice() -> None:
    assert_found([*GOOD, Heard(CAROL, "#c", "alice", "m1")], "m1 came twice to line 3")


def test_a_direct_message_that_comes_twice() -> None:
    assert_found([*THREE, *said(ALICE, "m1", BOB, BOB, to="@bob")], "m1 came twice to line 2")


# -- what is said --------------------------------------------------------------------------------------


def test_a_message_that_was_never_said() -> None:
    assert_found([*THREE, Heard(BOB, "#c", "alice", "m1")], "m1 was not said")


def test_a_message_under_another_name() -> None:
    history: list[Event] = [*THREE, Said(ALICE, "@bob", "m1"), Heard(BOB, "@bob", "carol", "m1")]
    assert_found(history, "m1 is of alice", "carol")


def test_a_message_at_another_address() -> None:
    history: list[Event] = [*THREE, Said(ALICE, "@bob", "m1"), Heard(CAROL, "@carol", "alice", "m1")]
    assert_found(history, "was said to @bob")


def test_a_direct_message_to_another_agent() -> None:
    history: list[Event] = [*THREE, Said(ALICE, "@bob", "m1"), Heard(CAROL, "@bob", "alice", "m1")]
    assert_found(history, "m1 is to @bob, and came to carol")


def test_a_message_to_an_agent_that_is_not_a_member() -> None:
    history: list[Event] = [*GOOD, Left(CAROL, "#c"), *said(ALICE, "m3", BOB, CAROL)]
    assert_found(history, "line 3, not a member of #c")


def test_a_message_that_was_refused() -> None:
    history: list[Event] = [*THREE, Said(ALICE, "@bob", "m1"), Refused(ALICE, "m1")]
    assert violations(history) == []
    assert_found([*history, Heard(BOB, "@bob", "alice", "m1")], "m1 was refused, and came to line 2")


def test_a_direct_message_that_was_acknowledged_and_is_lost() -> None:
    assert_found([*THREE, *said(ALICE, "m1", to="@bob")], "m1 to @bob was acknowledged, and did not come")
    assert violations([*THREE, *said(ALICE, "m1", to="@bob"), Ended(BOB)]) == []
    assert violations([*THREE, Fault(), *said(ALICE, "m1", to="@bob"), Healed()]) == []


# -- one id at a time ----------------------------------------------------------------------------------


def test_a_takeover() -> None:
    history: list[Event] = [*GOOD, Welcomed(9, "alice"), Ended(ALICE), Entered(9, "#c")]
    assert violations([*history, *said(BOB, "m3", CAROL, 9)]) == []


def test_an_old_connection_that_stays() -> None:
    history: list[Event] = [*THREE, Left(ALICE, "#c"), Welcomed(9, "alice")]
    assert_found(history, "line 1 of alice never ended")


def test_an_old_connection_that_is_heard_after_the_new_one_is_welcome() -> None:
    history: list[Event] = [*THREE, Welcomed(9, "alice"), *said(ALICE, "m1", BOB, CAROL), Ended(ALICE)]
    assert_found(history, "m1 was taken of a line that had lost its id")


def test_a_node_that_is_apart_does_not_know_of_a_takeover() -> None:
    """Its agents may hear the old connection, and no others."""
    there = [
        Welcomed(ALICE, "alice", "there"),
        Welcomed(BOB, "bob", "there"),
        Welcomed(CAROL, "carol", "here"),
    ]
    taken_over: list[Event] = [*there, Fault(), Welcomed(9, "alice", "here")]
    for listener, is_near in ((BOB, True), (CAROL, False)):
        to = "@bob" if listener == BOB else "@carol"
        history = [*taken_over, *said(ALICE, "m1", listener, to=to), Healed(), Ended(ALICE)]
        assert (violations(history) == []) is is_near
    after = [*taken_over, Healed(), *said(ALICE, "m1", BOB, to="@bob"), Ended(ALICE)]
    assert_found(after, "m1 was taken of a line that had lost its id")


def back_apart(*events: Event) -> list[Event]:
    """Alice is here by now, and comes back there, where nodes are apart and do not know."""
    return [
        Welcomed(ALICE, "alice", "here"),
        *(Welcomed(BOB, "bob", "there"), Welcomed(CAROL, "carol", "here"), Fault()),
        *(Welcomed(9, "alice", "there"), *events),
    ]


def test_an_agent_that_comes_back_to_a_node_that_is_apart_is_heard_there_only() -> None:
    near: list[Event] = [Said(9, "@bob", "m1"), Heard(BOB, "@bob", "alice", "m1")]
    far: list[Event] = [Said(9, "@carol", "m2"), Heard(CAROL, "@carol", "alice", "m2")]
    here = said(ALICE, "m3", CAROL, to="@carol")
    assert violations(back_apart(*near, *here, Healed(), Ended(9))) == []
    assert_found(back_apart(*far, *here, Healed(), Ended(9)), "m2 was taken of line 9")
    assert_found(
        back_apart(*near, *here, Healed(), *said(ALICE, "m4", CAROL, to="@carol"), Ended(ALICE)), "m4"
    )


def test_two_connections_of_one_id_do_not_both_stay() -> None:
    assert_found(back_apart(Healed()), "line 1 of alice never ended")
    assert_found([*THREE, Left(ALICE, "#c"), Welcomed(9, "alice"), Ended(9)], "line 1 of alice never ended")


def test_an_old_connection_that_is_acknowledged_after_the_new_one_is_welcome() -> None:
    history: list[Event] = [
        *(*THREE, Left(BOB, "#c"), Left(CAROL, "#c"), Welcomed(9, "alice")),
        *(*said(ALICE, "m1"), Ended(ALICE)),
    ]
    assert_found(history, "m1 was taken of a line that had lost its id")


def test_what_the_old_connection_said_comes_after_the_new_one() -> None:
    history: list[Event] = [
        *(*THREE, Left(CAROL, "#c"), Said(ALICE, "#c", "old"), Welcomed(9, "alice"), Ended(ALICE)),
        *(Entered(9, "#c"), Said(9, "#c", "new")),
        *(Heard(BOB, "#c", "alice", "new"), Heard(BOB, "#c", "alice", "old")),
    ]
    assert_found(history, "old of an old line of alice came to line 2 after the new one")


# -- the floor -----------------------------------------------------------------------------------------


def test_two_holders_of_one_floor() -> None:
    history: list[Event] = [*GOOD, Claimed(BOB, "m1"), Claimed(CAROL, "m1")]
    assert_found(history, "bob and carol have the floor for m1")
    assert violations([*history, Yielded(CAROL, "m1")]) == []


@pytest.mark.parametrize("end", [Ended(BOB), Left(BOB, "#c"), Said(BOB, "#c", "m3")])
def test_a_holder_that_leaves_or_speaks_has_no_claims(end: Event) -> None:
    assert violations([*GOOD, Claimed(BOB, "m1"), end, Claimed(CAROL, "m1")]) == []
    assert violations([*GOOD, Claimed(BOB, "m1"), Said(BOB, "#other", "m3"), Claimed(CAROL, "m1")])


# -- any history ---------------------------------------------------------------------------------------


def random_history(dice: random.Random) -> list[Event]:
    """What a hall does that keeps its promises: one order, which each member hears as late as it likes."""
    lines = range(1, 5)
    history: list[Event] = [Welcomed(line, f"a{line}") for line in lines]
    history += [Entered(line, "#c") for line in lines]
    log: list[tuple[int, str]] = []
    heard = dict.fromkeys(lines, 0)
    for number in range(30):
        line = dice.choice(lines)
        history.append(Said(line, "#c", f"m{number}"))
        log.append((line, f"m{number}"))
        for listener in dice.sample(lines, 2):
            hear(history, log, heard, listener, dice.randint(0, len(log)))
    for listener in lines:
        hear(history, log, heard, listener, len(log))
    return history


def hear(
    history: list[Event], log: list[tuple[int, str]], heard: dict[int, int], listener: int, upto: int
) -> None:
    for sender, text in log[heard[listener] : upto]:
        if sender != listener:
            history.append(Heard(listener, "#c", f"a{sender}", text))
    heard[listener] = max(heard[listener], upto)


@given(seed=st.integers())
def test_any_history_of_one_order_is_good_and_is_not_when_one_delivery_is_missing_or_doubled(
    seed: int,
) -> None:
    dice = random.Random(seed)  # noqa: S311
    history = random_history(dice)
    assert violations(history) == []
    deliveries = [index for index, event in enumerate(history) if isinstance(event, Heard)]
    victim = dice.choice(deliveries)
    assert violations([*history, history[victim]])
    without = history[:victim] + history[victim + 1 :]
    event = history[victim]
    assert isinstance(event, Heard)
    if any(isinstance(other, Heard) and other.text == event.text for other in without):
        assert violations(without)


def test_a_history_in_which_a_text_is_said_twice_says_nothing() -> None:
    with pytest.raises(ValueError, match="m1 was said twice"):
        violations([*THREE, Said(ALICE, "#c", "m1"), Said(BOB, "#c", "m1")])

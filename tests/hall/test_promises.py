"""Promises to answer, against a plain list of them."""

from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.promises import Promise, Promises

TTL = 45.0
KEYS = [("#general", "msg_1"), ("#general", "msg_2"), ("#ops", "msg_1")]
AGENTS = ["ann", "ben"]

Act = tuple[str, tuple[str, str], str, float]

acts = st.lists(
    st.tuples(
        st.sampled_from(["make", "settle", "pass_on", "overdue"]),
        st.sampled_from(KEYS),
        st.sampled_from(AGENTS),
        st.floats(0, TTL),
    )
)


def other(agent: str) -> str:
    return AGENTS[1 - AGENTS.index(agent)]


@given(acts)
def test_promises_end_once_and_in_the_order_of_their_deadlines(
    acts: list[Act],
) -> None:
    promises, now = Promises(TTL), 0.0
    model: dict[tuple[str, tuple[str, str]], float] = {}  # when each is due, by debtor and key
    for act, key, agent, seconds in acts:
        now += seconds
        if act == "make":
            promises.make(key, agent, None, now)
            model.setdefault((agent, key), now + TTL)
        elif act == "settle":
            settled = promises.settle(agent, key)
            assert (settled and settled.due) == model.pop((agent, key), None)
        elif act == "pass_on":
            due = model.get((agent, key))
            is_passed = due is not None and (other(agent), key) not in model
            assert promises.pass_on(key, agent, other(agent), None, now) is is_passed
            if due is not None and is_passed:
                del model[agent, key]
                model[other(agent), key] = due
        else:
            overdue = list(promises.take_overdue(now))
            assert {(each.debtor, each.key): each.due for each in overdue} == {
                owed: due for owed, due in model.items() if due <= now
            }
            model = {owed: due for owed, due in model.items() if due > now}
        dues = [promise.due for promise in promises]
        assert dues == sorted(dues)
        assert {(each.debtor, each.key): each.due for each in promises} == model
        assert set(promises.by_debtor) == {debtor for debtor, _ in model}


def test_saying_it_again_gives_no_more_time() -> None:
    promises = Promises(TTL)
    promises.make(KEYS[0], "ann", None, 0.0)
    promises.make(KEYS[0], "ann", None, 10.0)
    assert list(promises) == [Promise(1, 0.0, TTL, "ann", None, KEYS[0])]


def test_the_oldest_promise_in_a_channel() -> None:
    promises = Promises(TTL)
    for now, key in enumerate(KEYS):
        promises.make(key, "ann", None, float(now))
    assert promises.oldest("ann", "#general") == KEYS[0]
    assert promises.oldest("ann", "#ops") == KEYS[2]
    assert promises.oldest("ann", "#other") is None
    assert promises.oldest("ben", "#general") is None

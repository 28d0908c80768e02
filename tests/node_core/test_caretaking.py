"""The time of a node: its clocks, and what is due again and again."""

from moothall.node.caretaking import NodeTime
from tests.store.support import Log
from tests.support.network import MadeUpTime


def test_the_clocks() -> None:
    made_up = MadeUpTime()
    time = NodeTime(made_up, lambda: 1_800_000_000.25, Log())
    assert (time.timestamp(), time.micros()) == (1_800_000_000_250, 1_800_000_000_250_000)
    assert (time.now(), time.now_ms()) == (made_up.now() / 1000, made_up.now())


def test_what_is_due_again_and_again_ends_with_the_node() -> None:
    made_up, calls = MadeUpTime(), list[int]()
    began = made_up.now()
    time = NodeTime(made_up, lambda: 0.0, Log())
    time.every(1.5, lambda: calls.append(made_up.now() - began))
    time.every(10.0, lambda: calls.append(0))
    made_up.pass_by(5000)
    assert calls == [1500, 3000, 4500]
    time.close()
    made_up.pass_by(60_000)
    assert len(calls) == 3

"""Code that follows events for a while."""

import gc

import pytest

from moothall.client.watching import Watches


class Remembers:
    def __init__(self) -> None:
        self.events: list[tuple[str, object]] = []
        self.ended: list[BaseException | None] = []

    def heard(self, event: str, what: object) -> None:
        self.events.append((event, what))

    def end(self, error: BaseException | None) -> None:
        self.ended.append(error)


def test_a_watch_gets_what_it_follows() -> None:
    watches, one, two = Watches(), Remembers(), Remembers()
    watches.add(one, "join", "leave")
    watches.add(two, "join")
    for event in ("join", "leave", "nick"):
        watches.tell(event, event.upper())
    assert one.events == [("join", "JOIN"), ("leave", "LEAVE")]
    assert two.events == [("join", "JOIN")]
    assert ("join" in watches, "leave" in watches, "nick" in watches) == (True, True, False)


def test_one_that_is_removed_gets_no_more() -> None:
    watches, watch = Watches(), Remembers()
    watches.add(watch, "join", "leave")
    watches.remove(watch)
    watches.tell("join", None)
    watches.end(None)
    assert (watch.events, watch.ended) == ([], [])
    assert "join" not in watches


def test_one_that_no_code_holds_is_forgotten() -> None:
    watches = Watches()
    watches.add(Remembers(), "join")
    gc.collect()
    assert "join" not in watches


def test_one_may_be_removed_while_others_are_told() -> None:
    watches = Watches()
    others = [Remembers(), Remembers()]

    class Leaves(Remembers):
        def heard(self, event: str, what: object) -> None:
            super().heard(event, what)
            watches.remove(self)

    leaving = Leaves()
    for watch in (others[0], leaving, others[1]):
        watches.add(watch, "join")
    watches.tell("join", 1)
    watches.tell("join", 2)
    assert [len(watch.events) for watch in (*others, leaving)] == [2, 2, 1]


def test_each_is_told_of_the_end_once() -> None:
    watches, watch, error = Watches(), Remembers(), ValueError()
    watches.add(watch, "join", "leave")
    watches.end(error)
    assert watch.ended == [error]


def test_a_listener_stays_and_hears_on_when_it_failed(caplog: pytest.LogCaptureFixture) -> None:
    watches = Watches()
    heard: list[object] = []

    def listen(what: object) -> None:
        heard.append(what)
        raise ValueError(what)

    watches.listen("*", listen)
    del listen
    gc.collect()
    watches.tell("*", 1)
    watches.end(None)
    watches.tell("*", 2)
    assert heard == [1, 2]
    assert "a listener failed" in caplog.text

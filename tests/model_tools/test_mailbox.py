"""An inbox as a model reads it: each record once, in order, within caps; and what of that survives."""

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from moothall.daemon.folder import Folder
from moothall.tools import mailbox as module
from moothall.tools.caps import Caps
from moothall.tools.mailbox import Batch, Mailbox
from moothall.tools.news import Wish

EVERYTHING = Wish()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    place = Folder(tmp_path / "box")
    place.make()
    return place


def said(number: int, channel: str = "#general", content: str | None = None) -> dict[str, Any]:
    return {
        "type": "MSG",
        "from": "@b",
        "from_name": "bob",
        "to": channel,
        "content": str(number) if content is None else content,
        "msg_id": f"m{number}",
        "verified": True,
        "ts": number,
    }


def contents(batch: Batch) -> list[str]:
    return [item.content for item in batch.items]


def test_each_record_is_read_once_and_in_order(folder: Folder) -> None:
    box = Mailbox(folder)
    box.append([said(1), said(2), said(3)])
    first = box.unread(EVERYTHING, Caps(2))
    assert (contents(first), first.omitted) == (["1", "2"], 1)
    box.append([said(4)])
    second = box.unread(EVERYTHING, Caps())
    assert (contents(second), second.omitted) == (["3", "4"], 0)
    assert contents(box.unread(EVERYTHING, Caps())) == []


def test_what_a_filter_passes_over_stays_unread(folder: Folder) -> None:
    box = Mailbox(folder)
    box.append([said(1), said(2, "#other"), said(3), said(4, "#other"), said(5, content="@me!")])
    assert contents(box.unread(Wish(frozenset({"#other"})), Caps())) == ["2", "4"]
    assert contents(box.unread(Wish(mentions_only=True, names=("me",)), Caps())) == ["@me!"]
    assert contents(box.unread(EVERYTHING, Caps())) == ["1", "3"]
    assert contents(box.unread(EVERYTHING, Caps())) == []


def test_the_newest_are_read_without_the_rest(folder: Folder) -> None:
    box = Mailbox(folder)
    box.append([said(number) for number in range(1, 11)])
    newest = box.newest(3, EVERYTHING, Caps())
    assert contents(newest) == ["8", "9", "10"]
    assert contents(box.newest(3, EVERYTHING, Caps(2))) == ["9", "10"]
    assert contents(box.unread(EVERYTHING, Caps())) == [str(number) for number in range(1, 8)]


def test_since_reads_again(folder: Folder) -> None:
    box = Mailbox(folder)
    box.append([said(number) for number in range(1, 6)])
    box.unread(EVERYTHING, Caps())
    batch = box.since(Wish(since=2), Caps(2))
    assert (contents(batch), batch.omitted) == (["3", "4"], 1)


def test_confirmed_marks_survive_the_process(folder: Folder) -> None:
    box = Mailbox(folder)
    box.append([said(1), said(2, "#other"), said(3)])
    box.unread(Wish(frozenset({"#other"})), Caps())
    box.confirm()
    assert contents(Mailbox(folder).unread(EVERYTHING, Caps())) == ["1", "3"]


def test_an_answer_that_was_not_confirmed_is_told_again(folder: Folder) -> None:
    box = Mailbox(folder)
    box.append([said(1), said(2)])
    box.unread(EVERYTHING, Caps(1))
    box.confirm()
    box.unread(EVERYTHING, Caps(1))
    assert contents(Mailbox(folder).unread(EVERYTHING, Caps())) == ["2"]


def test_a_cancelled_call_has_read_nothing(folder: Folder) -> None:
    box = Mailbox(folder)
    box.append([said(1), said(2)])
    box.unread(EVERYTHING, Caps(1))
    box.delivered("call 1")
    box.withdraw("another call")
    assert contents(box.unread(EVERYTHING, Caps(1))) == ["2"]
    box.delivered("call 2")
    box.withdraw("call 2")
    assert contents(box.unread(EVERYTHING, Caps())) == ["1", "2"]
    box.delivered("call 3")
    box.confirm()
    box.withdraw("call 3")
    assert contents(box.unread(EVERYTHING, Caps())) == []


def test_damaged_marks_make_everything_unread(folder: Folder) -> None:
    box = Mailbox(folder)
    box.append([said(1)])
    box.unread(EVERYTHING, Caps())
    box.confirm()
    (folder.path / module.MARKS_FILE).write_text('{"cursor": 7}')
    assert contents(Mailbox(folder).unread(EVERYTHING, Caps())) == ["1"]


def test_what_was_cut_off_unread_is_counted(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIMIT", 5)
    box = Mailbox(folder)
    box.append([said(number) for number in range(1, 9)])
    batch = box.unread(EVERYTHING, Caps())
    assert (contents(batch), batch.lost) == (["4", "5", "6", "7", "8"], 3)
    box.append([said(9)])
    assert box.unread(EVERYTHING, Caps()).lost == 0


def test_a_lookout_sees_what_comes_later(folder: Folder) -> None:
    box = Mailbox(folder)
    box.append([said(1)])
    lookout = box.lookout(Wish(frozenset({"#other"})))
    assert not lookout.sees_one()
    box.append([said(2), said(3, "#other")])
    assert lookout.sees_one()


actions = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 4)),
        st.tuples(st.just("read"), st.integers(1, 5)),
        st.tuples(st.just("read other"), st.integers(1, 5)),
        st.tuples(st.just("tail"), st.integers(1, 3)),
        st.tuples(st.just("cancel"), st.just(0)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("kill"), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions)
def test_nothing_is_lost_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, done: list[tuple[str, int]]
) -> None:
    """Calls of all kinds, cancelled ones, ends and kills: a confirmed record never comes back, any other does."""
    place = Folder(tmp_path_factory.mktemp("box"))
    place.make()
    box = Mailbox(place)
    appended = 0
    read, confirmed = set[str](), set[str]()
    before: set[str] | None = None
    for number, (action, amount) in enumerate(done):
        if action == "append":
            box.append(
                [
                    said(appended + n, "#other" if (appended + n) % 3 == 0 else "#general")
                    for n in range(amount)
                ]
            )
            appended += amount
            continue
        if action in ("restart", "kill"):
            if action == "restart":
                box.confirm()
                confirmed |= read
            box, read, before = Mailbox(place), set(confirmed), None
            continue
        if action == "cancel":
            box.withdraw(number - 1)
            if before is not None and number and done[number - 1][0] in ("read", "read other", "tail"):
                read = before
            before = None
            continue
        box.confirm()  # a new call
        confirmed |= read
        before = set(read)
        if action == "tail":
            told = contents(box.newest(amount, EVERYTHING, Caps()))
        else:
            wish = Wish(frozenset({"#other"})) if action == "read other" else EVERYTHING
            told = contents(box.unread(wish, Caps(amount)))
            assert not read & set(told)
        box.delivered(number)
        read |= set(told)
    rest = contents(box.unread(EVERYTHING, Caps(500)))
    assert set(rest) == {str(number) for number in range(appended)} - read
    assert rest == sorted(rest, key=int)

"""Reports of spending become sums of a day, whatever workers say; and caps."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.spending import (
    DAY_MS,
    TOTAL,
    Cap,
    Caps,
    Excess,
    Report,
    Sums,
    day_of,
    day_text,
    difference,
    encode_cap,
    end_of,
    settle,
)
from moothall.wire.agentchat.client import MAX_TOKENS
from tests.court.books import MemoryBooks

ALICE, BOB = b"a" * 32, b"b" * 32

keys = st.sampled_from([ALICE, BOB])
tokens = st.one_of(st.integers(0, 100), st.sampled_from([MAX_TOKENS - 1, MAX_TOKENS]))
reports = st.builds(Report, st.sampled_from(["", "one", "two"]), tokens)


@pytest.mark.parametrize(
    ("last", "report", "counted"),
    [
        (None, Report("", 70), 70),
        (Report("", 70), Report("", 70), 0),
        (Report("", 70), Report("", 100), 30),
        (Report("", 70), Report("", 69), 69),  # a new session, which has used so much already
        (Report("", 70), Report("", 0), 0),
        (Report("one", 70), Report("two", 100), 100),
        (Report("one", 70), Report("", 100), 100),
        (Report("one", 70), Report("one", 100), 30),
        (Report("one", 70), Report("one", 5), 0),  # it was sent before the last one, and arrives after it
    ],
)
def test_what_is_new_in_a_report(last: Report | None, report: Report, counted: int) -> None:
    assert difference(last, report) == counted


@given(st.lists(st.tuples(st.integers(0, 2), st.lists(st.tuples(keys, reports), min_size=1, max_size=4))))
def test_no_report_lowers_a_sum_and_all_sums_have_a_bound(
    batches: list[tuple[int, list[tuple[bytes, Report]]]],
) -> None:
    """Whatever is reported, in whatever batches, also if the clock goes back."""
    books = MemoryBooks()
    before: Counter[tuple[int, bytes]] = Counter()
    for day, filed in batches:
        sums = settle(books, filed, day)
        assert set(sums.by_key) <= {key for key, _ in filed}
        now = books.spending
        assert all(now[each] >= count for each, count in before.items())
        assert {on for on, key in now if now[on, key] != before[on, key]} <= {day}
        assert max(now.values()) <= MAX_TOKENS
        in_all = sum(count for (on, _), count in now.items() if on == day)
        assert sums.total == min(in_all, MAX_TOKENS)
        before = Counter(now)


@given(st.lists(st.tuples(keys, reports), max_size=12), st.data())
def test_batches_do_not_matter(filed: list[tuple[bytes, Report]], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(filed)))
    together, apart = MemoryBooks(), MemoryBooks()
    for books, parts in ((together, [filed]), (apart, [filed[:cut], filed[cut:]])):
        for part in parts:
            settle(books, part, 1)
    assert +together.spending == +apart.spending
    assert together.last_reported == apart.last_reported


@given(st.lists(st.lists(st.integers(0, 1000), min_size=1), min_size=1), st.integers(1, 3))
def test_sessions_one_after_the_other_are_counted_exactly(sessions: list[list[int]], times: int) -> None:
    """Each session reports rising numbers, some of them several times, after reconnects or restarts of a hall."""
    books = MemoryBooks()
    for number, spent in enumerate(sessions):
        for each in sorted(spent):
            for _ in range(times):
                settle(books, [(ALICE, Report(str(number), each))], 1)
    assert books.spending[1, ALICE] == sum(map(max, sessions))


@given(st.lists(st.integers(0, 1000), min_size=1))
def test_a_session_with_a_name_counts_its_highest_report(spent: list[int]) -> None:
    books = MemoryBooks()
    for each in spent:
        settle(books, [(ALICE, Report("one", each))], 1)
    assert books.spending[1, ALICE] == max(spent)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50)), min_size=1))
def test_a_key_that_several_processes_share_is_never_counted_too_low(used: list[tuple[str, int]]) -> None:
    books, spent = MemoryBooks(), Counter[str]()
    for session, more in used:
        spent[session] += more
        settle(books, [(ALICE, Report(session, spent[session]))], 1)
    assert books.spending[1, ALICE] >= spent.total()


@given(st.lists(st.tuples(st.integers(0, 3 * DAY_MS), st.integers(0, 1000)), min_size=1))
def test_tokens_count_on_the_day_of_their_report(reported: list[tuple[int, int]]) -> None:
    books, spent, by_day = MemoryBooks(), 0, Counter[int]()
    for moment, more in sorted(reported):
        spent += more
        by_day[day_of(moment)] += more
        settle(books, [(ALICE, Report("one", spent))], day_of(moment))
    assert {day: books.spending[day, ALICE] for day in by_day} == dict(by_day)


def test_days_are_those_of_utc() -> None:
    day = day_of(1_772_323_200_000)  # 2026-03-01T00:00:00Z
    assert day_of(1_772_323_199_999) == day - 1
    assert day_text(day) == "2026-03-01"
    assert end_of(day) == "2026-03-02T00:00:00.000Z"


# -- caps ----------------------------------------------------------------------------------------------


def caps(**tokens_by_name: int) -> Caps:
    names = {"alice": ALICE, "bob": BOB, "total": TOTAL}
    return Caps(encode_cap(Cap(names[name].hex(), count)) for name, count in tokens_by_name.items())


@pytest.mark.parametrize(
    ("set_caps", "excess"),
    [
        (caps(), None),
        (caps(alice=100, total=300), None),  # a cap may be used up
        (caps(bob=1), None),
        (caps(alice=99), "This key has spent 100 of 99 tokens today. Stop until 1970-01-09T00:00:00.000Z"),
        (caps(total=299), "All workers together have spent 300 of 299 tokens today. Stop until 1970-01-09"),
        (caps(alice=0, total=0), "This key has"),
    ],
)
def test_over_a_cap_is_more_than_it(set_caps: Caps, excess: str | None) -> None:
    found = set_caps.excess(ALICE, Sums(7, {ALICE: 100}, 300))
    assert (found is None) == (excess is None)
    if found is not None and excess is not None:
        assert found.message.startswith(excess)
        assert found.is_total == excess.startswith("All")


def test_a_stranger_cannot_use_up_the_total_of_workers_that_have_caps() -> None:
    set_caps, books = caps(alice=1000, total=300), MemoryBooks()

    def settled(key: bytes, spent: int) -> Excess | None:
        filed = [(key, Report("s", spent))]
        return set_caps.excess(key, settle(books, filed, 7, set_caps.pool([key])))

    stranger = settled(BOB, MAX_TOKENS)
    assert stranger is not None
    assert stranger.is_total
    assert settled(ALICE, 300) is None
    over = settled(ALICE, 301)
    assert over is not None
    assert over.is_total
    assert over.message.startswith("All workers with a cap have spent 301 of 300 tokens today")


def test_caps_are_set_and_cleared() -> None:
    found = caps(alice=5, total=7)
    assert (found.keys, found.of(ALICE), found.of(TOTAL), found.of(BOB)) == ([ALICE], 5, 7, None)
    found.set(Cap(ALICE.hex(), 6))
    found.clear(TOTAL)
    found.clear(BOB)
    assert (found.of(ALICE), found.of(TOTAL)) == (6, None)

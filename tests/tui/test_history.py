"""The history in the terminal client, with a real hall behind it."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
from textual import events

from moothall.tui.history import MAX_ROWS, History
from moothall.tui.rooms import MAX_LINES, Kind, Line
from tests.tui.desk import Desk, desk, drawn_screen

pytestmark = pytest.mark.slow

NOW = datetime.now(UTC)


def said(text: str, at: datetime = NOW, name: str = "bob") -> Line:
    return Line(Kind.SAID, at, text, sender="@b2", name=name)


def history_of(here: Desk) -> History:
    return here.app.screen_stack[0].query_one(History)


async def until_quiet(here: Desk, lines: Iterable[str]) -> None:
    for line in lines:
        await here.bob.send("#general", line)
    await here.until_seen(line)
    await here.until(lambda: history_of(here).is_at_end)


# the unread line


async def test_an_unread_line_stands_above_what_came_meanwhile(url: str) -> None:
    async with desk(url, "#general", "#agents") as here:
        await here.until(lambda: len(here.rooms) == 2)
        await until_quiet(here, ["seen"])
        await here.pilot.press("alt+2")
        await here.until(lambda: not here.sees("seen"))
        await here.bob.send("#general", "not seen")
        await here.until(lambda: "•1 #general 1" in here.rooms)
        await here.pilot.press("alt+a")
        await here.until_seen("not seen")
        assert _place(here, "│ seen") + 1 == _place(here, "── unread ─") == _place(here, "not seen") - 1
        await here.bob.send("#general", "and this")
        await here.until_seen("and this")
        assert _place(here, "── unread ─") == _place(here, "not seen") - 1
        await here.pilot.press("ctrl+n")
        await here.pilot.press("ctrl+p")
        await here.until_seen("and this")
        assert not here.sees("── unread")


async def test_an_unread_line_for_what_came_while_the_terminal_was_in_the_background(url: str) -> None:
    async with desk(url) as here:
        await until_quiet(here, ["seen"])
        here.app.post_message(events.AppBlur())
        await here.pilot.pause()
        await here.bob.send("#general", "one")
        await here.bob.send("#general", "two")
        await here.until_seen("two")
        assert _place(here, "── unread ─") == _place(here, "one") - 1
        here.app.post_message(events.AppFocus())
        await until_quiet(here, ["three"])
        assert sum("── unread" in line for line in here.history) == 1


def _place(here: Desk, text: str) -> int:
    return next(number for number, line in enumerate(here.history) if text in line)


# scrolling


async def test_reading_further_up_is_not_disturbed_and_new_messages_are_counted(url: str) -> None:
    async with desk(url) as here:
        await until_quiet(here, [f"line {number}" for number in range(40)])
        history = history_of(here)
        await here.pilot.press("pageup")
        await here.until(lambda: not history.is_at_end)
        place = history.scroll_y
        await here.bob.send("#general", "one more")
        await here.until(lambda: here.shown("below") == "↓ 1 new message below (Esc)")
        await here.bob.send("#general", "and another")
        await here.until(lambda: here.shown("below") == "↓ 2 new messages below (Esc)")
        assert history.scroll_y == place
        await here.until(lambda: any("2 new messages below" in row for row in drawn_screen(here.app)))
        await here.pilot.press("escape")
        await here.until(lambda: history.is_at_end)
        await here.until(lambda: not any("below" in row for row in drawn_screen(here.app)))
        assert history.missed == 0


async def test_the_page_keys_lead_back_down(url: str) -> None:
    async with desk(url) as here:
        await until_quiet(here, [f"line {number}" for number in range(40)])
        history = history_of(here)
        await here.pilot.press("pageup")
        await here.until(lambda: not history.is_at_end)
        await here.bob.send("#general", "one more")
        await here.until(lambda: history.missed == 1)
        await here.pilot.press("pagedown", "pagedown")
        await here.until(lambda: history.is_at_end)
        assert not here.app.query_one("#below").display
        await until_quiet(here, ["the end is followed again"])


async def test_a_message_of_several_rows_is_followed_to_its_end(url: str) -> None:
    async with desk(url) as here:
        await until_quiet(here, ["word " * 20] * 10 + ["quiet"])
        await here.bob.send("#general", "first\n" + "row\n" * 5 + "last")
        await here.until(lambda: any("last" in row for row in drawn_screen(here.app)))


# bounds


async def test_ten_thousand_messages_leave_as_many_as_a_room_remembers(url: str) -> None:
    async with desk(url) as here:
        history = history_of(here)
        drawn = 0
        draw = history._draw

        def counted(coming: list[object]) -> None:
            nonlocal drawn
            drawn += len(coming)
            draw(coming)  # type: ignore[arg-type]

        history._draw = counted  # type: ignore[method-assign,assignment]
        for number in range(10_000):
            here.app.add("#general", said(f"line {number}"))
        await here.until_seen("line 9999")
        assert len(history.lines) == MAX_LINES
        assert drawn <= 2 * MAX_LINES  # and not ten thousand
        assert len(here.app.rooms["#general"].lines) == MAX_LINES


async def test_messages_of_many_rows_are_bounded_too(url: str) -> None:
    async with desk(url) as here:
        for number in range(20):
            here.app.add("#general", said("row\n" * 2000 + f"end {number}"))
        await here.until_seen("end 19")
        assert len(history_of(here).lines) <= MAX_ROWS
        assert not here.sees("end 0")


async def test_what_is_read_stays_in_place_while_old_lines_go(url: str) -> None:
    async with desk(url) as here:
        for number in range(MAX_LINES):
            here.app.add("#general", said(f"line {number}."))
        await here.until_seen(f"line {MAX_LINES - 1}.")
        history = history_of(here)
        await here.pilot.press("pageup")
        await here.until(lambda: not history.is_at_end)
        top = here.history[round(history.scroll_y)]
        for number in range(10):
            here.app.add("#general", said(f"more {number}."))
        await here.until_seen("more 9.")
        await here.until(lambda: not here.sees("line 0."))
        assert here.history[round(history.scroll_y)] == top


# columns


async def test_a_longer_name_moves_the_column_for_all(url: str) -> None:
    async with desk(url, size=(120, 24)) as here:
        here.app.add("#general", said("one"))
        await here.until_seen("bob │ one")
        here.app.add("#general", said("two", name="你好世界"))
        await here.until_seen("你好世界 │ two")
        assert here.sees("     bob │ one")


async def test_another_day_has_a_line(url: str) -> None:
    async with desk(url) as here:
        await until_quiet(here, ["today"])
        assert not here.sees("──")
        here.app.add("#general", said("later", at=NOW + timedelta(days=2)))
        await here.until_seen("later")
        day = (NOW + timedelta(days=2)).strftime("%A")
        assert _place(here, f"── {day} ") == _place(here, "later") - 1


# searching


async def test_searching_goes_from_the_latest_match_back(url: str) -> None:
    async with desk(url) as here:
        await until_quiet(
            here, ["a Needle", "hay", "another needle", *(f"hay {number}" for number in range(40))]
        )
        await here.pilot.press("ctrl+r")
        await here.write("needle")
        await here.until(lambda: here.shown("activity") == "1 of 2")
        assert not history_of(here).is_at_end
        await here.until(lambda: any("another needle" in row for row in drawn_screen(here.app)))
        await here.pilot.press("enter")
        await here.until(lambda: here.shown("activity") == "2 of 2")
        await here.pilot.press("down")
        await here.until(lambda: here.shown("activity") == "1 of 2")
        await here.pilot.press("ctrl+r")
        await here.until(lambda: here.shown("activity") == "2 of 2")
        await here.write("x")
        await here.until(lambda: here.shown("activity") == "not found")
        await here.pilot.press("escape")
        await here.until(lambda: here.entry.has_focus)
        await here.pilot.press("escape")
        await here.until(lambda: history_of(here).is_at_end)


async def test_the_search_command(url: str) -> None:
    async with desk(url) as here:
        await until_quiet(here, ["a needle", "hay"])
        await here.type("/search needle")
        await here.until(lambda: here.shown("activity") == "1 of 1")

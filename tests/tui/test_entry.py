import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.tui.entry import COMMANDS, Command, Completion, Mistake, parse, usage_line

NAMES = ("alice", "albert", "Bob")
CHANNELS = ("#general", "#games", "#ops")


def press(text: str, times: int = 1, cursor: int | None = None) -> str:
    """The text after so many Tabs, with | where the cursor is."""
    completion = Completion()
    place = len(text) if cursor is None else cursor
    for _ in range(times):
        text, place = completion.press(text, place, NAMES, CHANNELS)
    return f"{text[:place]}|{text[place:]}"


@given(st.text().filter(lambda text: not text.startswith("/")))
def test_what_does_not_start_with_a_slash_is_said(text: str) -> None:
    assert parse(text) == text


def test_two_slashes_say_one() -> None:
    assert parse("//usr/bin is full") == "/usr/bin is full"


def test_a_command_with_its_words() -> None:
    assert parse("/dm alice  see you  later ") == Command(
        "dm", ("alice", "see", "you", "later"), "see you  later"
    )
    assert parse("/JOIN #ops") == Command("join", ("#ops",), "")


@pytest.mark.parametrize("text", ["/frobnicate", "/", "/ join"])
def test_an_unknown_command_is_explained(text: str) -> None:
    mistake = parse(text)
    assert isinstance(mistake, Mistake)
    assert "/help" in mistake.text


@pytest.mark.parametrize("name", [name for name, usage in COMMANDS.items() if usage.required])
def test_a_command_that_lacks_its_word_shows_its_usage(name: str) -> None:
    mistake = parse(f"/{name} ")
    assert isinstance(mistake, Mistake)
    assert COMMANDS[name].arguments in mistake.text


@given(st.text())
def test_anything_typed_is_understood_or_explained(text: str) -> None:
    assert isinstance(parse(text), str | Command | Mistake)


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("al", "@albert |"),
        ("@ali", "@alice |"),
        ("thanks @bo", "thanks @Bob |"),
        ("#ga", "#games |"),
        ("see #op", "see #ops |"),
        ("/jo", "/join |"),
        ("/join ge", "/join #general |"),
        ("/join #ge", "/join #general |"),
        ("/dm ali", "/dm @alice |"),
        ("nobody", "nobody|"),
        ("", "|"),
        ("alice ", "alice |"),
        ("path /jo", "path /jo|"),
    ],
)
def test_tab_completes_the_word_under_the_cursor(typed: str, completed: str) -> None:
    assert press(typed) == completed


def test_tab_goes_round_the_candidates() -> None:
    assert [press("al", times) for times in (1, 2, 3)] == ["@albert |", "@alice |", "@albert |"]


def test_tab_in_the_middle_keeps_what_follows() -> None:
    assert press("ali how are you", cursor=3) == "@alice |how are you"


@given(st.text(), st.integers(0, 50))
def test_tab_never_loses_what_was_typed_elsewhere(text: str, cursor: int) -> None:
    cursor = min(cursor, len(text))
    completed, place = Completion().press(text, cursor, NAMES, CHANNELS)
    start = text.rfind(" ", 0, cursor) + 1
    assert completed.startswith(text[:start])
    assert completed[place:].strip() == text[cursor:].strip()


def test_a_command_and_what_it_does() -> None:
    assert usage_line("join") == "/join CHANNEL: enter a channel, or look at it"
    assert usage_line("list") == "/list: the channels of the hall, to look at and to join (F2)"

import pytest
from textual.widgets import Checkbox, Input, OptionList

from moothall import Agent
from moothall.client.events import ChannelInfo, Member
from moothall.tui.browser import (
    MAX_NAMED,
    Browser,
    Create,
    channel_name,
    channel_row,
    matching,
    members_line,
)
from moothall.tui.widgets import Plain
from tests.tui.desk import ALICE, Desk, desk, drawn_screen

CHANNELS = [
    ChannelInfo("#general", 3),
    ChannelInfo("#games", 7),
    ChannelInfo("#council", 7, verified_only=True),
]


# the list


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("", ["#council", "#games", "#general"]),
        ("#g", ["#games", "#general"]),
        ("NEr", ["#general"]),
        ("nowhere", []),
    ],
)
def test_the_fullest_channels_come_first(wanted: str, found: list[str]) -> None:
    assert [channel.name for channel in matching(CHANNELS, wanted)] == found


def test_a_channel_that_a_hall_lists_twice_is_one_row() -> None:
    assert len(matching([*CHANNELS, *CHANNELS], "")) == 3


def test_a_row_has_columns() -> None:
    assert str(channel_row(CHANNELS[2], {"#council"})) == (
        "#council" + " " * 16 + "     7  joined, verified agents only"
    )
    assert str(channel_row(ChannelInfo("#" + "x\x1b[2J" * 20, 1), ())).startswith(
        "#x[2Jx[2Jx[2Jx[2Jx[2Jx[…     1"
    )


def test_who_is_in_a_channel() -> None:
    assert members_line([]) == "It is empty."
    assert members_line([Member("@b2", "bob"), Member("@a1", "al\x1bice")]) == "alice, bob"
    crowd = [Member(f"@{number}", f"agent{number:03}") for number in range(MAX_NAMED + 5)]
    assert members_line(crowd).endswith("agent029 and 5 more")


@pytest.mark.parametrize(
    ("word", "name"), [("ops", "#ops"), (" #ops ", "#ops"), ("two words", None), ("", None)]
)
def test_the_name_of_a_channel(word: str, name: str | None) -> None:
    assert channel_name(word) == name


# in the terminal


def rows(here: Desk) -> list[str | None]:
    return [option.id for option in here.app.screen.query_one(OptionList).options]


async def browse(here: Desk) -> None:
    await here.pilot.press("f2")
    await here.until(lambda: isinstance(here.app.screen, Browser) and rows(here))


async def test_the_browser_lists_filters_and_joins(url: str) -> None:
    async with desk(url) as here:
        await browse(here)
        assert rows(here)[0] == "#general"
        await here.until(lambda: "Enter Join" in drawn_screen(here.app)[-1])
        assert "F4 Create" in drawn_screen(here.app)[-1]
        assert any("#general" in row and "2  joined" in row for row in drawn_screen(here.app))
        await here.write("age")
        await here.until(lambda: rows(here) == ["#agents"])
        await here.until(lambda: here.app.screen.query_one("#who", Plain).content == "bob")
        await here.pilot.press("enter")
        await here.until(lambda: here.shown("title").startswith("#agents"))
        assert here.app.agent.rooms == {"#general", "#agents"}
        assert here.entry.has_focus


async def test_the_keys_move_in_the_list_while_one_types(url: str) -> None:
    async with desk(url) as here:
        await browse(here)
        await here.pilot.press("down", "down")
        listed = here.app.screen.query_one(OptionList)
        assert listed.highlighted == 2
        await here.pilot.press("up")
        assert listed.highlighted == 1
        assert here.app.screen.query_one(Input).has_focus
        await here.pilot.press("escape")
        await here.until(lambda: here.entry.has_focus)
        assert here.app.agent.rooms == {"#general"}


async def test_a_channel_is_created_from_the_browser(url: str) -> None:
    async with desk(url, key=ALICE) as here:
        await here.type("/channels")
        await here.until(lambda: isinstance(here.app.screen, Browser) and rows(here))
        await here.write("council")
        await here.until(lambda: rows(here) == [])
        await here.pilot.press("f4")
        await here.until(lambda: isinstance(here.app.screen, Create))
        here.app.screen.query_one("#invite-only", Checkbox).value = True
        await here.pilot.press("f4")
        await here.until(lambda: here.shown("title").startswith("#council"))
        assert "#council" not in [channel.name for channel in await here.bob.channels()]
        await here.type("/invite bob")
        await here.until_seen("bob may enter #council")
        assert [member.name for member in await here.bob.join("#council")]


async def test_a_name_that_no_channel_can_have_is_explained(url: str) -> None:
    async with desk(url) as here:
        await browse(here)
        await here.write("two words")
        await here.until(lambda: rows(here) == [])
        await here.pilot.press("enter")
        await here.until(lambda: isinstance(here.app.screen, Create))
        await here.pilot.press("enter")
        mistake = here.app.screen.query_one("#mistake", Plain)
        await here.until(lambda: "31 letters" in str(mistake.content))
        await here.pilot.press("escape", "escape")
        await here.until(lambda: here.entry.has_focus)


async def test_the_create_command(url: str) -> None:
    async with desk(url, key=ALICE, size=(140, 24)) as here:
        await here.type("/create council verified")
        await here.until(lambda: here.shown("title").startswith("#council"))
        [council] = [channel for channel in await here.bob.channels() if channel.name == "#council"]
        assert council.verified_only
        await here.type("/create council2 secret")
        await here.until_seen("secret is neither private nor verified")
        await here.type("/create general")
        await here.until_seen("CHANNEL_EXISTS")


async def test_an_invitation_needs_a_channel(url: str) -> None:
    async with desk(url, size=(140, 24)) as here, Agent("carol", channels=["#general"]).connected(url):
        await here.type("/dm bob")
        await here.until(lambda: here.shown("title").startswith("@bob"))
        await here.type("/invite carol")
        await here.until_seen("Name one: /invite NAME CHANNEL")


async def test_the_browser_in_forty_columns(url: str) -> None:
    async with desk(url, size=(40, 12)) as here:
        await browse(here)
        assert all(len(row) <= 40 for row in drawn_screen(here.app))
        await here.pilot.press("enter")
        await here.until(lambda: here.entry.has_focus)

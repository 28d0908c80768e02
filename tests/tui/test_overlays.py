from pathlib import Path

import pytest
from textual.widgets import Footer

from moothall.tui.entry import COMMANDS
from moothall.tui.keys import key_rows
from moothall.tui.overlays import Help, command_rows
from tests.tui.desk import desk, drawn_screen

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs" / "chat.md"


async def test_the_footer_shows_the_keys(url: str) -> None:
    async with desk(url) as here:
        await here.until(lambda: here.app.query("FooterKey"))
        *_, last = drawn_screen(here.app)
        assert last.startswith("F1 Help")
        assert "Ctrl-Q Quit" in last
        assert "Ctrl-R Search" in last
        assert here.app.query_one(Footer).region.bottom == 24


async def test_f1_shows_all_keys_and_commands_and_messages_still_arrive(url: str) -> None:
    async with desk(url, size=(100, 60)) as here:
        await here.pilot.press("f1")
        await here.until(lambda: isinstance(here.app.screen, Help))
        text = " ".join(" ".join(drawn_screen(here.app)).split())
        for name, _ in (*key_rows(), *command_rows()):
            assert name.split(",")[0].split()[0] in text
        await here.bob.send("#general", "still talking")
        await here.until_seen("still talking")
        await here.pilot.press("escape")
        await here.until(lambda: here.entry.has_focus)
        await here.type("/help")
        await here.until(lambda: isinstance(here.app.screen, Help))
        await here.pilot.press("f1")
        await here.until(lambda: here.entry.has_focus)


async def test_help_scrolls_in_a_small_terminal(url: str) -> None:
    async with desk(url, size=(40, 12)) as here:
        await here.pilot.press("f1")
        await here.until(lambda: isinstance(here.app.screen, Help))
        await here.pilot.press("end")
        await here.until(lambda: "answering" in " ".join(drawn_screen(here.app)))


async def test_quitting_from_an_overlay(url: str) -> None:
    async with desk(url) as here:
        await here.pilot.press("f1")
        await here.until(lambda: isinstance(here.app.screen, Help))
        await here.pilot.press("ctrl+q")
        await here.until(lambda: not here.app.is_running)


def test_every_command_is_explained() -> None:
    assert [name.split()[0] for name, _ in command_rows()] == [f"/{name}" for name in COMMANDS]
    assert (
        "/leave [CHANNEL]",
        "leave this channel, or close this talk (also /close, /part)",
    ) in command_rows()


def test_every_key_and_command_has_its_row_in_the_docs() -> None:
    text = DOCS.read_text()
    for key, meaning in key_rows():
        assert f"| {key} | {meaning} |" in text
    for command, meaning in command_rows():
        assert f"| `{command}` | {meaning} |" in text

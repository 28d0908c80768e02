"""The pictures of the terminal client are made by a program, and show the client as it is."""

import asyncio
import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from moothall.tui.keys import bindings
from tools.screenshots import IMAGES, NAMES, main

ROOT = Path(__file__).parents[2]
SHOWN = {
    "chat": ["unread", "builder is answering", "shall I merge"],
    "chat-help": ["Keys and commands", "Ctrl-J"],
    "chat-channels": ["Channels", "#builds", "reviewer"],
    "chat-deals": ["Deals and cases", "Review pull request 43", "Accept"],
    "chat-sign": ["signs exactly this", "ACCEPT|prop_", "Do not sign"],
    "chat-narrow": ["unread"],
}


def text_of(picture: Path) -> str:
    found = re.findall(r"<text[^>]*>([^<]*)</text>", picture.read_text(encoding="utf-8"))
    return unescape("".join(found)).replace("\xa0", " ")


def test_the_program_takes_every_picture(tmp_path: Path) -> None:
    asyncio.run(main(tmp_path))
    assert sorted(picture.stem for picture in tmp_path.iterdir()) == sorted(NAMES) == sorted(SHOWN)
    for name, words in SHOWN.items():
        for word in words:
            assert word in text_of(tmp_path / f"{name}.svg"), name


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_svg_fetches_nothing_and_is_shown(name: str) -> None:
    picture = IMAGES / f"{name}.svg"
    text = picture.read_text(encoding="utf-8")
    ET.fromstring(text)  # noqa: S314  # our own file
    assert "url(" not in re.sub(r"url\(#[^)]*\)", "", text)
    assert "<script" not in text
    assert f"images/{name}.svg" in (ROOT / "docs" / "chat.md").read_text()
    for word in SHOWN[name]:
        assert word in text_of(picture)


def test_the_picture_has_the_footer_of_today() -> None:
    shown = text_of(IMAGES / "chat.svg")
    for binding in bindings():
        if binding.show:
            assert f"{binding.key_display} {binding.description}" in shown


def test_the_readme_shows_the_client() -> None:
    assert "(docs/images/chat.svg)" in (ROOT / "README.md").read_text()

"""The pictures of the page: a program takes them, they are small, and the docs show each of them."""

from pathlib import Path

import pytest

from tools.page_screenshots import IMAGES, NAMES

ROOT = Path(__file__).parents[2]
MOST_BYTES = 400_000


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_webp_and_is_shown(name: str) -> None:
    content = (IMAGES / f"{name}.webp").read_bytes()
    assert (content[:4], content[8:12]) == (b"RIFF", b"WEBP")
    assert f"(images/{name}.webp)" in (ROOT / "docs" / "page.md").read_text()


def test_they_are_small_and_there_are_no_others() -> None:
    pictures = list(IMAGES.glob("*.webp"))
    assert sorted(picture.stem for picture in pictures) == sorted(NAMES)
    assert sum(picture.stat().st_size for picture in pictures) < MOST_BYTES

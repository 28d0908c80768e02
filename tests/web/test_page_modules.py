"""The modules of the page are on the map, and each of them stays small."""

import re
from pathlib import Path

import pytest

from moothall.web.serving import PageFile, load, page_folder

MAP = (
    (Path(__file__).parents[2] / "ARCHITECTURE.md")
    .read_text()
    .partition("### The page\n")[2]
    .partition("\n## ")[0]
)
LONGEST = 350  # lines

modules = [file for file in load(page_folder()) if not file.name.startswith("vendor/")]


def test_the_map_names_every_module() -> None:
    named = re.findall(r"`([\w/]+\.js)`", MAP.partition("| rule | modules |")[2])
    assert sorted(named) == sorted(file.name for file in modules if file.name.endswith(".js"))


@pytest.mark.parametrize("module", modules, ids=lambda module: module.name)
def test_a_module_has_one_subject(module: PageFile) -> None:
    assert module.content.count(b"\n") <= LONGEST


@pytest.mark.parametrize("module", modules, ids=lambda module: module.name)
def test_no_module_makes_markup_of_text(module: PageFile) -> None:
    """The text of others becomes text nodes, and never HTML."""
    found = re.search(
        rb"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", module.content
    )
    assert found is None

"""The modules of the page are on the map, and each of them stays small."""

import re
from collections.abc import Mapping
from pathlib import Path
from posixpath import dirname, join, normpath

import pytest

from moothall.web.serving import PageFile, load, page_folder

MAP = (
    (Path(__file__).parents[2] / "ARCHITECTURE.md")
    .read_text()
    .partition("### The page\n")[2]
    .partition("\n## ")[0]
)
LONGEST = 350  # lines
STATIC_IMPORT = re.compile(
    r"""^(?:import|export)\s*(?:[\w*{}\s,$]*?\bfrom\s*)?["']([^"'\n]+)["']""", re.MULTILINE
)

modules = [file for file in load(page_folder()) if not file.name.startswith("vendor/")]

folder = Path(str(page_folder()))
sources = [
    path
    for path in sorted(folder.rglob("*.*"))
    if path.suffix in (".js", ".css") and folder / "vendor" not in path.parents
]


def test_the_map_names_every_module() -> None:
    named = re.findall(r"`([\w/]+\.js)`", MAP.partition("| rule | modules |")[2])
    assert sorted(named) == sorted(file.name for file in modules if file.name.endswith(".js"))


def test_the_browser_asks_for_all_modules_at_once() -> None:
    """A module that only another module names is asked for late: each level costs a round trip."""
    page = {file.name: file.content.decode() for file in load(page_folder())}
    wanted = set(reached("main.js", page)) - {"main.js"}
    named = re.findall(r'rel="modulepreload" href="/page/([^"]+)"', page["index.html"])
    assert sorted(named) == sorted(wanted)


def reached(module: str, page: Mapping[str, str], found: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The modules that one imports, directly or through others; without those that are loaded on demand."""
    if module in found:
        return found
    found = (*found, module)
    for target in STATIC_IMPORT.findall(page[module]):
        found = reached(normpath(join(dirname(module), target)), page, found)
    return found


@pytest.mark.parametrize("source", sources, ids=lambda source: source.name)
def test_a_module_has_one_subject(source: Path) -> None:
    assert source.read_bytes().count(b"\n") <= LONGEST


@pytest.mark.parametrize("module", modules, ids=lambda module: module.name)
def test_no_module_makes_markup_of_text(module: PageFile) -> None:
    """The text of others becomes text nodes, and never HTML."""
    found = re.search(
        rb"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", module.content
    )
    assert found is None

"""The page is complete, small, and has the libraries that it says it has."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from moothall.web.serving import page_folder
from tools.web_check import MOST_UNPACKED, complaints


def write(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def listing(*packages: dict[str, object]) -> str:
    return json.dumps({"packages": packages})


def library(name: str, *files: tuple[str, str]) -> dict[str, object]:
    hashed = [{"file": file, "sha256": sha256(content.encode()).hexdigest()} for file, content in files]
    return {"name": name, "version": "1.0", "license": "MIT", "files": hashed}


TINY = (("tiny.js", "/** For example:\n * import x from 'x'; */\nexport default 1"), ("tiny.LICENSE", "MIT"))
GOOD = {
    "index.html": '<link rel="icon" href="/page/icon.svg"><script type="module" src="/page/main.js"></script>',
    "icon.svg": "<svg/>",
    "main.js": 'import tiny from "./vendor/tiny.js";import{x as y}from"./views/one.js";\nimport "./views/one.js";\n'
    'export const kind = "online";\nexport function from() {\n  return "nowhere";\n}\n',
    "views/one.js": 'import {\n  a,\n  b,\n} from "../main.js";\nexport * from "../vendor/tiny.js";\n',
    "vendor/tiny.js": "/** For example:\n * import x from 'x'; */\nexport default 1",
    "vendor/tiny.LICENSE": "MIT",
    "vendor/vendor.json": listing(library("tiny", *TINY)),
}


def test_our_page_has_no_fault() -> None:
    assert complaints(page_folder()) == []


def test_a_good_page_has_no_fault(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    assert complaints(tmp_path) == []


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"vendor/tiny.js": "export default 2"}, "vendor/tiny.js is not the file"),
        ({"vendor/more.js": "0"}, "vendor/more.js is not listed"),
        ({"vendor/vendor.json": listing(library("tiny", TINY[0]))}, "without the text of its licence"),
        (
            {"vendor/vendor.json": listing(library("tiny", *TINY, ("gone.js", "")))},
            "vendor/gone.js is listed in vendor/vendor.json, but it is not there",
        ),
        (
            {"vendor/vendor.json": listing({**library("tiny", *TINY), "version": ""})},
            "a library has no version",
        ),
        (
            {"vendor/vendor.json": listing(*(library(f"tiny{n}", *TINY) for n in range(4)))},
            "4 libraries are vendored; at most 3",
        ),
        ({"index.html": "<script>alert(1)</script>"}, "index.html has '<script'"),
        ({"index.html": '<p onclick="go()">'}, "index.html has 'onclick='"),
        ({"index.html": "<style>p {}</style>"}, "index.html has '<style'"),
        ({"index.html": '<script src="https://cdn.example/x.js"></script>'}, "refers to https://cdn.example"),
        ({"index.html": '<link href="/page/gone.css">'}, "refers to /page/gone.css"),
        ({"style.css": '@import "gone.css";\n'}, "style.css imports gone.css"),
        ({"main.js": 'import "./gone.js";'}, "main.js imports ./gone.js"),
        ({"main.js": 'const late = await import("./late.js");'}, "main.js imports ./late.js"),
        ({"main.js": 'import{x as y}from"./gone.js";'}, "main.js imports ./gone.js"),
        ({"main.js": 'import tiny from "tiny";'}, "main.js imports tiny"),
        ({"main.js": "/" * (MOST_UNPACKED + 1)}, "bytes unpacked; at most"),
    ],
)
def test_each_fault_is_found(tmp_path: Path, changed: dict[str, str], complaint: str) -> None:
    write(tmp_path, {**GOOD, **changed})
    found = complaints(tmp_path)
    assert any(complaint in each for each in found), found


def test_libraries_need_a_list(tmp_path: Path) -> None:
    write(tmp_path, {name: content for name, content in GOOD.items() if name != "vendor/vendor.json"})
    assert any("vendor/vendor.json is missing" in each for each in complaints(tmp_path))


def test_a_page_without_an_index_is_none(tmp_path: Path) -> None:
    assert complaints(tmp_path) == ["The page has no index.html"]

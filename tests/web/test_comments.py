"""Comments stay in the sources: what browsers get is the rest, unchanged."""

import re
from pathlib import Path

import pytest

from moothall.web import serving
from moothall.web.comments import without_comments

REGULAR_EXPRESSION = re.compile(r"= /.*/\w*;")
MODULES = [
    file for file in sorted(Path(str(serving.page_folder())).rglob("*.js")) if "vendor" not in file.parts
]


def test_comments_are_not_sent() -> None:
    source = (
        b"// what it is\n\n/** How\n * to use it */\nconst a = 1; // and why\n  // more\nconst b = `//`;\n"
    )
    assert without_comments("a.js", source) == b"const a = 1;\nconst b = `//`;\n"
    for line in (b'a("; // b");\n', b"a(`{ // b`);\n", b"a = b // c\n", b"a('http://c');\n"):
        assert without_comments("a.js", line) == line
    assert without_comments("a.css", b"/* colours */\na { b: url(//c) }\n") == b"a { b: url(//c) }\n"


def test_licences_libraries_and_other_files_are_sent_as_they_are() -> None:
    assert without_comments("a.js", b"/*! licence */\na();\n") == b"/*! licence */\na();\n"
    for name in ("vendor/a.js", "index.html", "a.json"):
        assert without_comments(name, b"// a\n/* b */\n") == b"// a\n/* b */\n"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_no_line_of_a_template_looks_like_a_comment(module: Path) -> None:
    """It would not be sent. Backticks open and close templates in turn."""
    is_inside = False
    for line in module.read_text().splitlines():
        assert not (is_inside and " // " in line), line
        if line.lstrip().startswith(("//", "/*", "*")):
            assert not is_inside, line
        elif REGULAR_EXPRESSION.sub("", line).count("`") % 2:
            is_inside = not is_inside

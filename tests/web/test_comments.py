"""Comments stay in the sources: what browsers get is the same program, and the same rules of style."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from playwright.async_api import Browser

from moothall.web import serving
from moothall.web.comments import without_comments

# The parser that node carries for its own use. Two modules are one program if their syntax trees are equal, but for
# the places of their parts: strings, templates and regular expressions are leaves of it.
COMPARE = """
const { parse } = require("internal/deps/acorn/acorn/dist/acorn");
const plain = (key, value) => {
  if (key === "start" || key === "end") return undefined;
  return typeof value === "bigint" ? `${value}n` : value;
};
const tree = (text) => JSON.stringify(parse(text, { sourceType: "module", ecmaVersion: "latest" }), plain);
const isSame = ([source, sent]) => {
  const wanted = tree(source);
  try {
    return tree(sent) === wanted;
  } catch {
    return false;
  }
};
const modules = Object.entries(JSON.parse(require("fs").readFileSync(0, "utf8")));
console.log(JSON.stringify(modules.filter(([, texts]) => !isSame(texts)).map(([name]) => name)));
"""
RULES = """([source, sent]) => {
  const rules = (text) => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(text);
    return Array.from(sheet.cssRules, ({ cssText }) => cssText);
  };
  return [rules(source), rules(sent)];
}"""


def own_sources(suffix: str) -> dict[str, str]:
    """The files of the page by name, without libraries of others."""
    folder = Path(str(serving.page_folder()))
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob(f"*{suffix}"))}
    return {name: path.read_text() for name, path in files.items() if not name.startswith("vendor/")}


def sent(name: str, source: str) -> str:
    return without_comments(name, source.encode()).decode()


def changed_programs(modules: dict[str, str]) -> list[str]:
    """The names of modules that are another program, or none, without their comments."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("not run: node is not installed")
    texts = {name: (source, sent(name, source)) for name, source in modules.items()}
    found = subprocess.run(
        [node, "--expose-internals", "-e", COMPARE],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    names: list[str] = json.loads(found.stdout)
    return names


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


def test_every_module_is_the_same_program_without_its_comments() -> None:
    modules = own_sources(".js")
    assert any(sent(name, source) != source for name, source in modules.items())
    assert changed_programs(modules) == []


def test_a_module_that_would_be_another_program_is_found() -> None:
    """A line of a template, or of a regular expression, may look like a comment."""
    modules = {
        "line.js": "const a = `\n// b\n`;\n",
        "block.js": "const a = `\n/* b */\n`;\n",
        "trailing.js": "const a = `\nb; // c\n`;\n",
        "expression.js": "const a = /[( // b]/;\n",
        "harmless.js": "const a = `${b /* c */}//`; // d\nconst e = /\\/\\//; // f\nlet g = 1n;\n",
    }
    assert changed_programs(modules) == ["line.js", "block.js", "trailing.js", "expression.js"]


@pytest.mark.asyncio(loop_scope="session")
async def test_every_style_sheet_has_the_same_rules_without_its_comments(browser: Browser) -> None:
    page = await browser.new_page()
    try:
        for name, source in own_sources(".css").items():
            whole, rest = await page.evaluate(RULES, [source, sent(name, source)])
            assert rest == whole, name
            assert whole or "@import" in source, name
    finally:
        await page.close()

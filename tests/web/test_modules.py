"""Rules of the page that need no hall, as the browser runs them: archives, chunks, names, text, the floor."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from moothall.files.chunks import ROOM, escaped_size
from moothall.files.paths import fault
from tests.support.browser import Visitor, visit
from tests.support.server import HallProcess

pytestmark = pytest.mark.asyncio(loop_scope="session")

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "agentchat.json").read_text())


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def visitor(browser: Browser, hall: HallProcess) -> AsyncIterator[Visitor]:
    """One for all tests here: they change nothing."""
    visitor = await visit(browser, hall)
    await visitor.go()
    yield visitor
    await visitor.leave()


async def run(visitor: Visitor, module: str, body: str, given: object = None) -> Any:
    """What a function body returns that has the module as `it`, and `given`."""
    return await visitor.page.evaluate(
        f"async (given) => {{ const it = await import('/page/{module}'); {body} }}", given
    )


async def test_archives_are_read_as_the_vectors_say(visitor: Visitor) -> None:
    vector = VECTORS["slurp"]
    found = await run(
        visitor,
        "files/slurp.js",
        "const { base64 } = await import('/page/bytes.js');"
        "return it.unpack(given).map(({ path, bytes }) => ({ name: path, base64: base64(bytes) }));",
        vector["archive"],
    )
    assert found == vector["extracts_to"]


async def test_what_is_packed_is_unpacked_as_it_was(visitor: Visitor) -> None:
    files = {
        "a.txt": "plain\n",
        "b.txt": "no newline",
        "c.txt": "two newlines\n\n",
        "d.txt": "",
        "e.txt": "before\n=== END e.txt ===\nafter\n",
        "END f.txt": "a name like a marker\n",
        "g [binary]": "another\n",
        "h.txt": "\ufeffmark and emoji \U0001f600\n",
        "i.txt": "carriage\r\nreturn\r\n",
    }
    body = """
      const bytesOf = (text) => new TextEncoder().encode(text);
      const archive = await it.pack(Object.entries(given).map(([name, text]) => ({ name, bytes: bytesOf(text) })));
      const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
      return Object.fromEntries(it.unpack(archive).map(({ path, bytes }) => [path, decoder.decode(bytes)]));
    """
    assert await run(visitor, "files/slurp.js", body, files) == files


async def test_an_archive_of_very_many_files_is_cut(visitor: Visitor) -> None:
    body = """
      const files = [...Array(3000).keys()].map((number) => `=== ${number} ===\n=== END ${number} ===\n`);
      const found = it.unpack(files.join(""));
      return [found.length, found.filter(({ fault }) => fault).map(({ path }) => path)];
    """
    assert await run(visitor, "files/slurp.js", body) == [1001, ["1000"]]


async def test_every_chunk_fits_into_a_frame(visitor: Visitor) -> None:
    archive = ('"\\\n\x01é\U0001f600' * 40_000) + "x" * 300_000
    chunks = await run(visitor, "files/slurp.js", "return it.cut(given);", archive)
    assert "".join(chunks) == archive
    assert max(escaped_size(chunk.encode()) for chunk in chunks) <= ROOM
    assert len(chunks) < 10


NAMES = [
    *("notes.txt", "a/b/c.txt", "über.md", "x" * 255, "a b", ".hidden"),
    *(
        "",
        "../x",
        "a/../b",
        "/etc/passwd",
        "C:x",
        "a\\b",
        "con",
        "nul.txt",
        "com1",
        "a//b",
        "./a",
        "dot.",
        "sp ",
    ),
    *("x\u202etxt.exe", "nul\x00", "line\nbreak", "x" * 256, "a/" + "y" * 300),
]


async def test_the_page_and_the_sdk_refuse_the_same_names(visitor: Visitor) -> None:
    refused = await run(
        visitor, "files/names.js", "return given.map((name) => Boolean(it.fault(name)));", NAMES
    )
    assert refused == [fault(name) is not None for name in NAMES]


LONG = f"{'a' * 60}." * 3  # parts of a host
TEXTS = {
    "**a** *b* ~~c~~ `d`": "<p><strong>a</strong> <em>b</em> <s>c</s> <code>d</code></p>",
    "snake_case_name 2*3*4": "<p>snake_case_name 2*3*4</p>",
    "<b>x</b> &amp;": "<p>&lt;b&gt;x&lt;/b&gt; &amp;amp;</p>",
    "one\ntwo\n\nthree": "<p>one<br>two</p><p>three</p>",
    "- a\n- b\n  1. c": "<ul><li>a</li><li>b</li><li>c</li></ul>",
    "```js\n**x**\n```": "<pre><code>**x**</code></pre>",
    "```\nnever ends": "<pre><code>never ends</code></pre>",
    "> a\n> > b": "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>",
    "| a | b |\n|--|--|\n| 1 | 2 |": "<div><table><thead><tr><th>a</th><th>b</th></tr></thead>"
    "<tbody><tr><td>1</td><td>2</td></tr></tbody></table></div>",
    "[x](javascript:alert(1))": "<p>[x](javascript:alert(1))</p>",
    "see https://example.org/a_b_c.": "<p>see <a>https://example.org/a_b_c</a>.</p>",
    "[bank](https://evil.example)": "<p><a>bank<span> (evil.example)</span></a></p>",
    f"[bank](https://bank.example.{LONG}evil.example)": "<p><a>bank"
    f"<span> (…{LONG[-68:]}evil.example)</span></a></p>",
    f"https://bank.example.{LONG}evil.example": f"<p><a>{f'https://bank.example.{LONG}'[:199]}…"
    f"<span> (…{LONG[-68:]}evil.example)</span></a></p>",
}


async def test_markdown(visitor: Visitor) -> None:
    body = """
      const { h, render } = await import("/page/vendor/preact.js");
      return given.map((text) => {
        const place = document.createElement("div");
        render(h("div", null, it.markdown(text, { isMe: () => false, opener: () => undefined })), place);
        for (const element of place.querySelectorAll("*")) {
          for (const name of element.getAttributeNames()) element.removeAttribute(name);
        }
        return place.firstChild.innerHTML;
      });
    """
    assert await run(visitor, "text/markdown.js", body, list(TEXTS)) == list(TEXTS.values())


UNSEEN = {
    "plain": "plain",
    "a\u200bb": "a[U+200B]b",
    "\u202e\u202e": "[U+202E \u00d72]",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467": "\U0001f468\u200d\U0001f469\u200d\U0001f467",  # a family
    "\u0645\u06cc\u200c\u062e": "\u0645\u06cc\u200c\u062e",  # Persian needs the non-joiner
    "a\u200db": "a[U+200D]b",
    "e" + "\u0301" * 20: "e" + "\u0301" * 6 + "…",
    "\x1b[31m": "[U+001B][31m",
    "tag\U000e0041": "tag[U+E0041]",
}


async def test_what_is_not_seen_is_shown(visitor: Visitor) -> None:
    body = """
      const words = (part) => typeof part === "string" ? part : `[${[part.props.children].flat().join("")}]`;
      return given.map((text) => [it.visible(text)].flat().map(words).join(""));
    """
    assert await run(visitor, "text/unseen.js", body, list(UNSEEN)) == list(UNSEEN.values())


async def test_a_room_has_each_message_once_and_in_order(visitor: Visitor) -> None:
    body = """
      const room = new it.Room("#r");
      const add = (key, ts, isReplay, replyTo) => room.add({ key, id: key, ts, isReplay, replyTo, revision: 0 });
      add("b", 2); add("d", 4);
      add("a", 1, true); add("b", 2, true); add("c", 3, true, "a");
      add("x", 9, false, "y"); add("y", 10, false, "x");  // senders may say that they answer each other
      const { root, replies } = room.thread("c");
      return [room.messages.map(({ key }) => key).join(""), root, replies.length, room.thread("x").replies.length];
    """
    assert await run(visitor, "room.js", body) == ["abcdxy", "a", 1, 2]


async def test_who_has_the_floor(visitor: Visitor) -> None:
    body = """
      const floor = new it.Floor();
      const told = () => floor.of("m").map(({ name, yielded }) => `${name}${yielded ? " yielded" : ""}`).join(", ");
      const claim = (name, isGranted) => floor.claim("m", { id: `@${name}`, name, startedAt: 1, isGranted });
      const seen = [];
      claim("one", true); seen.push(told());
      claim("two", false); seen.push(told());
      claim("two", true); seen.push(told());
      floor.speak("@two"); seen.push(told());
      claim("three", false); floor.depart("@three"); seen.push(told());
      return seen;
    """
    assert await run(visitor, "floor.js", body) == [
        "one",
        "one, two yielded",
        "one yielded, two",
        "one yielded",
        "one yielded",
    ]

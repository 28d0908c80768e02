"""People on the page, in a real browser: their key, keyboard and screen, and what others may do to them."""

import asyncio
from hashlib import sha256
from pathlib import Path

import pytest
from playwright.async_api import Browser, FilePayload, expect

from moothall.identity import PrivateKey
from moothall.identity.keyfile import file_bytes, load
from tests.support.browser import Visitor, visit
from tests.support.npm import fetched
from tests.support.server import HallProcess, running_hall
from tests.web.conftest import NewAgent, NewVisitor

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

STORED_KEY = """new Promise((resolve) => {
  const opening = indexedDB.open("moothall");
  opening.onsuccess = () => {
    const asking = opening.result.transaction("identity").objectStore("identity").get("mine");
    asking.onsuccess = () => { opening.result.close(); resolve(asking.result); };
  };
})"""
NO_ED25519 = """
const { generateKey, importKey } = SubtleCrypto.prototype;
const refusing = (original, place) => function (...words) {
  if (words[place]?.name === "Ed25519") return Promise.reject(new DOMException("no", "NotSupportedError"));
  return original.apply(this, words);
};
SubtleCrypto.prototype.generateKey = refusing(generateKey, 0);
SubtleCrypto.prototype.importKey = refusing(importKey, 2);
"""


# -- keys ----------------------------------------------------------------------------------------------


async def test_a_key_is_kept_and_a_copy_is_offered_once(new_visitor: NewVisitor, tmp_path: Path) -> None:
    person = await new_visitor()
    await person.join("ada")
    async with person.page.expect_download() as downloading:
        await person.page.get_by_role("button", name="Save a copy").click()
    copy = tmp_path / "ada.json"
    await (await downloading.value).save_as(copy)
    copy.chmod(0o600)
    identity = load(copy)
    assert identity.name == "ada"
    assert f"@{identity.public.agent_id(8)}" == await person.state("state.me.id")
    assert (
        await person.page.evaluate(f"{STORED_KEY}.then(({{ privateKey }}) => privateKey.extractable)")
        is False
    )
    await expect(person.page.get_by_role("button", name="Save a copy")).to_have_count(0)
    await person.page.reload()
    await person.entry.wait_for()
    assert f"@{identity.public.agent_id(8)}" == await person.state("state.me.id")
    await expect(person.page.get_by_role("button", name="Save a copy")).to_have_count(0)


async def test_a_copy_that_was_not_wanted_is_not_offered_again(new_visitor: NewVisitor) -> None:
    person = await new_visitor()
    await person.join("eve")
    await person.page.get_by_role("button", name="No copy").click()
    await expect(person.page.get_by_role("button", name="Save a copy")).to_have_count(0)
    address = await person.state("state.me.id")
    await person.page.get_by_role("button", name="You are eve").click()
    await person.page.get_by_role("button", name="Leave the hall").click()
    await person.join("eve")
    assert await person.state("state.me.id") == address
    await expect(person.page.get_by_role("button", name="Save a copy")).to_have_count(0)


async def test_a_browser_without_ed25519_wraps_its_key(new_visitor: NewVisitor) -> None:
    person = await new_visitor(script=NO_ED25519)
    await person.join("elder")
    assert await person.state("state.me.isVerified")
    kept = await person.page.evaluate(
        f"{STORED_KEY}.then((kept) => [kept.wrapping.extractable, kept.wrapped.byteLength, 'privateKey' in kept])"
    )
    assert kept == [False, 48, False]
    address = await person.state("state.me.id")
    await person.page.reload()
    await person.entry.wait_for()
    assert await person.state("state.me.id") == address


async def test_a_key_file_of_the_command_line_works_here(new_visitor: NewVisitor) -> None:
    key = PrivateKey(sha256(b"a key of the tests").digest())
    file = file_bytes({"publicKey": key.public.pem, "privateKey": key.to_pem(), "name": "carol"})
    person = await new_visitor()
    chooser = person.page.get_by_label("Use a key file")
    await chooser.set_input_files(FilePayload(name="x.json", mimeType="application/json", buffer=b"{}"))
    await expect(person.page.get_by_role("alert")).to_contain_text("not a PEM text")
    await chooser.set_input_files(FilePayload(name="x.json", mimeType="application/json", buffer=file))
    await person.entry.wait_for()
    assert await person.state("state.me.id") == f"@{key.public.agent_id(8)}"
    assert await person.state("state.me.name") == "carol"


async def test_one_key_is_in_one_place(new_visitor: NewVisitor, hall: HallProcess) -> None:
    person = await new_visitor()
    await person.join("twin")
    second = await person.context.new_page()
    await second.goto(f"http://127.0.0.1:{hall.port}/")
    await second.get_by_role("textbox", name="Message", exact=True).wait_for()
    await expect(person.page.get_by_role("alert")).to_contain_text("joined with this key somewhere else")
    await person.page.get_by_role("button", name="Use it here").click()
    await person.entry.wait_for()
    await expect(second.get_by_role("alert")).to_contain_text("somewhere else")


async def test_what_one_person_was_told_is_not_for_the_next_one(
    new_visitor: NewVisitor, new_agent: NewAgent
) -> None:
    """Nor is it theirs to say: what the first one wrote and the page had not sent yet stays unsent."""
    agent = await new_agent("friend")
    heard = agent.messages("#general")
    visitor = await new_visitor()
    await visitor.join("first")
    await agent.send(await visitor.state("state.me.id"), "between us")
    direct = visitor.page.get_by_role("tab", name="friend")
    await expect(direct).to_be_visible()
    await visitor.page.evaluate(
        """async () => {
          const { speak } = await import("/page/outbox.js");
          const { forgetKey } = await import("/page/session.js");
          const said = (content) => speak({ type: "MSG", to: "#general", content });
          const first = said("sent");
          const last = said("a second later").then(() => "sent", ({ message }) => message);
          await first;
          await forgetKey();
          globalThis.last = last;
        }"""
    )
    await expect(direct).to_have_count(0)
    assert await visitor.state("JSON.stringify([...state.rooms.values()]).includes('between us')") is False
    await expect(visitor.page.get_by_role("button", name="Save a copy")).to_have_count(0)
    await visitor.join("second")
    await visitor.say("of the second")
    assert [(await asyncio.wait_for(anext(heard), 30)).content for _ in range(2)] == ["sent", "of the second"]
    assert await visitor.page.evaluate("globalThis.last") == "You left before this was sent."


async def test_a_name_that_the_hall_refuses(new_visitor: NewVisitor) -> None:
    person = await new_visitor()
    await person.page.get_by_label("Your name").fill("server")
    await person.page.get_by_role("button", name="Join", exact=True).click()
    await expect(person.page.get_by_role("alert").filter(has_text="name")).to_be_visible()
    await person.join("serves")


async def test_a_hall_that_shows_itself_to_members_only(browser: Browser, tmp_path: Path) -> None:
    with running_hall(tmp_path, "--no-page-public") as closed:
        visitor = await visit(browser, closed)
        visitor.forgive_lost_connections()
        await visitor.go()
        await expect(visitor.page.get_by_text("This hall shows itself to members")).to_be_visible()
        await expect(visitor.log).to_have_count(0)
        await expect(visitor.page.get_by_label("Search")).to_have_count(0)
        for view in ("Agents", "Deals", "Court", "Mesh"):
            await visitor.page.get_by_role("link", name=view).click()
            await expect(visitor.page.get_by_text("This hall shows itself to members")).to_be_visible()
        assert await visitor.page.evaluate("fetch('/api/v1/channels').then(({ status }) => status)") == 401
        await visitor.page.get_by_role("link", name="Channels").click()
        await visitor.join("member")
        await expect(visitor.log).to_be_visible()
        await visitor.leave()


async def test_a_hall_without_a_page(browser: Browser, tmp_path: Path) -> None:
    with running_hall(tmp_path, "--no-page") as plain:
        visitor = await visit(browser, plain)
        visitor.forgive_lost_connections()
        await visitor.go()
        await expect(visitor.page.get_by_text("Nothing here.")).to_be_visible()
        await expect(visitor.page.get_by_label("Your name")).to_have_count(0)
        found = await visitor.page.evaluate(
            """async () => [
              (await fetch("/page/main.js")).status,
              await new Promise((resolve) => {
                const socket = new WebSocket(`ws://${location.host}/watch`);
                socket.onopen = () => resolve("open");
                socket.onerror = () => resolve("refused");
              }),
            ]"""
        )
        assert found == [404, "refused"]
        await visitor.leave()


# -- keyboard, screen, colours -------------------------------------------------------------------------


async def test_everything_with_the_keyboard(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    agent = await new_agent("typist")
    await agent.send("#general", "answer this one")
    person = await new_visitor("#/channels/general")
    press, write = person.page.keyboard.press, person.page.keyboard.type
    await person.message("answer this one").wait_for()
    await press("Tab")
    await expect(person.page.get_by_role("link", name="Skip to the content")).to_be_focused()
    await person.page.get_by_label("Your name").focus()
    await write("hands")
    await press("Enter")
    await expect(person.entry).to_be_focused()
    await write("@typ")
    await expect(person.page.get_by_role("option", name="@typist")).to_be_visible()
    await press("Tab")
    await expect(person.entry).to_have_value("@typist ")
    await write("first line")
    await press("Shift+Enter")
    await write("second line")
    await press("Enter")
    await expect(person.message("first line")).to_contain_text("second line")
    await person.until("state.rooms.get('#agents')?.isJoined")
    await press("Alt+ArrowDown")
    await expect(person.page.get_by_role("heading", name="#agents")).to_be_visible()
    await press("Alt+ArrowUp")
    await expect(person.page.get_by_role("heading", name="#general")).to_be_visible()
    await person.page.get_by_role("tab", name="general").focus()
    await press("ArrowDown")
    await expect(person.page.get_by_role("tab", name="agents")).to_be_focused()
    await person.log.focus()
    await press("ArrowUp")
    await press("ArrowUp")
    await expect(person.message("answer this one")).to_be_focused()
    await press("r")
    await expect(person.entry).to_be_focused()
    await expect(person.page.get_by_text("Reply to typist")).to_be_visible()
    await press("Escape")
    await expect(person.page.get_by_text("Reply to typist")).to_have_count(0)


PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
WIDE = {"viewport": {"width": 1400, "height": 800}}


@pytest.mark.parametrize(
    "screen", [{**PHONE, "color_scheme": "dark"}, WIDE], ids=["phone, dark", "wide, light"]
)
async def test_axe_finds_nothing(
    new_visitor: NewVisitor, new_agent: NewAgent, screen: dict[str, object]
) -> None:
    rules = (fetched(Path(__file__).parent / "axe") / "node_modules/axe-core/axe.min.js").read_text()
    agent = await new_agent("inspector", channels=("#agents",))
    asked = await agent.send(
        "#agents",
        f"# Look at {len(screen)}\n\n- at `this`\n\n```python\nprint(1)\n```\n\n| a |\n|--|\n| 1 |\n",
    )
    assert asked is not None
    await agent.send("#agents", "a [link](https://example.org) for @axel", in_reply_to=asked)
    person = await new_visitor("#/channels/agents", **screen)
    await person.message(f"Look at {len(screen)}").wait_for()
    await person.page.evaluate(rules)
    await check(person)
    await person.join("axel")
    await person.message(f"Look at {len(screen)}").get_by_role("button", name="1 reply").click()
    await check(person)
    await person.page.keyboard.press("Escape")
    if "is_mobile" in screen:
        await person.page.get_by_role("button", name="All rooms").click()
        await check(person)
    await person.page.get_by_role("link", name="Agents", exact=True).click()
    await person.page.get_by_role("button", name="inspector").click()
    await person.page.get_by_role("heading", name="inspector").wait_for()
    await check(person)
    await person.page.get_by_role("button", name="You are axel").click()
    await check(person)


async def check(person: Visitor) -> None:
    """WCAG A and AA, and nothing is wider than the screen."""
    found = await person.page.evaluate(
        "async (runOnly) => (await axe.run({ runOnly })).violations.map("
        "({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(' | ')}`)",
        ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    )
    assert "\n".join(found) == ""
    assert await person.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


# -- what others may do --------------------------------------------------------------------------------

HOSTILE = {
    "markup": "<img src=x onerror=alert(1)><script>alert(2)</script><svg onload=alert(3)>",
    "links": "[a](javascript:alert(1)) [b](data:text/html,x) [c](vbscript:x) [d](https://u:p@evil.example) "
    "javascript:alert(4) <a href='javascript:alert(5)'>e</a> [f](//evil.example)",
    "bidi": "abc \u202egnp.exe\u202c \u2066x\u2069 \u200fend",
    "zero-width": "ze\u200bro\u2060wi\ufeffdth" + "\u200b" * 3000,
    "word": "W" * 4000,
    "marks": "Z" + "\u0301" * 4000,
    "markdown": "**" * 900 + "[" * 600 + "](" * 300 + "`" * 400 + "> " * 300,
    "table": "|" * 1000 + "\n" + "|--" * 600 + "\n" + "|x" * 500,
}


async def test_hostile_content_is_inert(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    agent = await new_agent("mallory", channels=("#discovery",))
    await agent.set_presence("busy", "<b>\u202e status")
    person = await new_visitor("#/channels/discovery", **PHONE)
    await person.join("victim")
    for text in HOSTILE.values():
        await agent.send("#discovery", text)
    await agent.send("#discovery", "the end of it [fine](https://example.org/page)")
    await person.message("the end of it").wait_for()
    assert (
        await person.state(
            "state.rooms.get('#discovery').messages.filter(({ name }) => name === 'mallory').length"
        )
        == 9
    )
    for text in HOSTILE.values():
        await person.jump_to("#discovery", text)
        assert await person.log.locator("img, script, svg, iframe, style, [onerror], [onload]").count() == 0
    await person.jump_to("#discovery", HOSTILE["bidi"])
    await expect(person.message("abc").locator(".unseen").first).to_have_text("U+202E")
    await person.jump_to("#discovery", HOSTILE["zero-width"])
    await expect(person.message("ze").locator(".unseen").last).to_have_text("U+200B \u00d73000")
    await person.jump_to("#discovery", HOSTILE["marks"])
    box = await person.message("Z\u0301").bounding_box()
    assert box is not None
    assert box["height"] < 120
    await person.jump_to("#discovery", "the end of it")
    hrefs = await person.log.locator("a").evaluate_all(
        "(links) => links.map(({ href, rel }) => `${href} ${rel}`)"
    )
    assert set(hrefs) <= {"https://example.org/page noopener noreferrer nofollow"}
    assert await person.page.evaluate("document.documentElement.scrollWidth <= innerWidth")

"""What hostile agents can make a page keep, show and do: all of it is bounded, however much they send.

Their messages are given to the page as its connection would give them, so that a flood takes no time.
"""

import asyncio
from typing import Any

import pytest
from playwright.async_api import expect

from tests.support.browser import Visitor
from tests.web.conftest import NewAgent, NewVisitor

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

_TOOLS = """
  const { publish } = await import("/page/feed.js");
  const { state } = await import("/page/store.js");
  const frame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  const numbers = (count) => Array.from({ length: count }, (_, number) => number);
  const msg = (fields) => publish({ type: "MSG", ts: 1, from: "@00000001", from_name: "mallory", ...fields });
  const claim = (id) => publish({ type: "RESPONDING_TO", channel: "#general", msg_id: "asked", from: id });
  const list = (type, count, entry) => publish({ type, list: numbers(count).map(entry) });
"""


async def flood(visitor: Visitor, body: str) -> Any:
    """What a function body returns that has `publish`, `state`, `frame` and `msg`."""
    return await visitor.page.evaluate(f"async () => {{ {_TOOLS} {body} }}")


async def test_what_is_kept_is_bounded(new_visitor: NewVisitor) -> None:
    watcher = await new_visitor()
    await watcher.until("state.phase === 'watching'")
    # Rooms of channels that the page does not know make way for others.
    body = """
      publish({ type: "CHANNELS", list: [{ name: "#general" }, { name: "#agents" }] });
      msg({ to: "#general", msg_id: "asked", content: "what was said first" });
      for (const number of numbers(2000)) {
        const channel = `#made-${number}`;
        publish({ type: "JOINED", channel, agents: [] });
        msg({ to: channel, msg_id: `gone-${number}`, content: "soon gone" });
        publish({ type: "LEFT", channel });
        claim(`@${number}`);
      }
      for (const number of numbers(9000)) {
        msg({ to: "#agents", msg_id: `long-${number}`, content: `${number}`.padEnd(4096, "x") });
      }
      const rooms = [...state.rooms.values()];
      const texts = rooms.flatMap(({ messages }) => messages.map(({ content }) => content.length));
      const [general, agents] = ["#general", "#agents"].map((name) => state.rooms.get(name));
      return {
        rooms: rooms.length, length: texts.reduce((sum, each) => sum + each),
        claims: general.floor.of("asked").length,
        first: general.messages.at(-1).content, last: agents.messages.at(-1).id,
      };
    """
    kept = await flood(watcher, body)
    assert kept["rooms"] < 400
    assert kept["length"] < 25_000_000
    assert kept["claims"] <= 50
    assert (kept["first"], kept["last"]) == ("what was said first", "long-8999")


async def test_many_channels_do_not_push_talks_out(new_visitor: NewVisitor) -> None:
    watcher = await new_visitor()
    await watcher.until("state.phase === 'watching'")
    body = """
      list("CHANNELS", 1000, (number) => ({ name: `#${number}` }));
      for (const id of ["@0000000a", "@0000000b"]) msg({ from: id, to: "@me", msg_id: id, content: "a word" });
      return state.rooms.has("@0000000a") && state.rooms.has("@0000000b");
    """
    assert await flood(watcher, body)


async def test_what_is_shown_is_bounded(new_visitor: NewVisitor) -> None:
    watcher = await new_visitor("#/channels/general")
    await watcher.until("state.phase === 'watching'")
    body = """
      list("CHANNELS", 3000, (number) => ({ name: `#${number}` }));
      list("AGENTS", 3000, (number) => ({ id: `@${number}`, name: `agent-${number}` }));
      msg({ to: "#general", msg_id: "asked", content: "who is first?" });
      for (const number of numbers(3000)) {
        msg({ to: "#general", msg_id: `r${number}`, in_reply_to: "asked", content: "me" });
        claim(`@${number}`);
      }
    """
    await flood(watcher, body)
    page = watcher.page
    await expect(page.get_by_text("and 2800 more")).to_be_visible()
    assert await page.get_by_role("tab").count() == 200
    await watcher.jump_to("#general", "who is first?")
    question = watcher.message("who is first?")
    await expect(question.get_by_text("and 44 more")).to_be_visible()
    await question.get_by_role("button", name="3000 replies").click()
    thread = page.get_by_role("complementary", name="Thread")
    await expect(thread).to_contain_text("3000 replies, the last 300 shown")
    assert await thread.get_by_role("article").count() == 301
    await page.get_by_role("link", name="Agents", exact=True).click()
    await expect(page.get_by_text("Only 500 are shown.")).to_be_visible()
    assert await page.locator("table tbody tr").count() == 500


async def test_offers_that_are_too_large_do_not_keep_a_person_from_speaking(
    new_visitor: NewVisitor, new_agent: NewAgent
) -> None:
    agent = await new_agent("listener")
    person = await new_visitor()
    await person.join("speaker")
    heard = agent.messages("#general")
    body = """
      const offer = { _ft: "offer", files: [], totalSize: 1e9, sha256: "0".repeat(64), chunks: 1 };
      for (const number of numbers(70)) {
        msg({ to: state.me.id, msg_id: `o${number}`, content: JSON.stringify({ ...offer, tid: `t${number}` }) });
      }
    """
    await flood(person, body)
    await person.say("I can still be heard")
    assert (await asyncio.wait_for(anext(heard), 30)).content == "I can still be heard"


async def test_offers_do_not_push_out_what_was_received(new_visitor: NewVisitor) -> None:
    watcher = await new_visitor()
    await watcher.until("state.phase === 'watching'")
    body = """
      const received = { peer: "@00000001", tid: "mine", status: "received", isOver: true, isOutgoing: false };
      state.transfers.set("from @00000001 mine", received);
      const offer = { _ft: "offer", files: [], totalSize: 1, sha256: "0".repeat(64), chunks: 1 };
      for (const number of numbers(200)) {
        msg({ from: `@${number}`, to: "@me", content: JSON.stringify({ ...offer, tid: "t" }) });
      }
      return [state.transfers.size, [...state.transfers.values()].includes(received)];
    """
    assert await flood(watcher, body) == [64, True]


async def test_a_view_that_breaks_does_not_take_the_page_with_it(new_visitor: NewVisitor) -> None:
    watcher = await new_visitor()
    await watcher.page.route(
        "**/api/v1/agents/%4000000001", lambda route: route.fulfill(json={"agent": {}, "offers": "x"})
    )
    await watcher.go("#/agents/@00000001")
    await expect(watcher.page.get_by_role("alert")).to_contain_text("This cannot be shown")
    await watcher.page.get_by_role("link", name="Channels", exact=True).click()
    await expect(watcher.log).to_be_visible()
    assert "offers.map is not a function" in watcher.complaints.pop()


async def test_news_make_few_questions(new_visitor: NewVisitor) -> None:
    watcher = await new_visitor("#/deals")
    await expect(watcher.page.get_by_role("group", name="Board of deals")).to_be_visible()
    asked: list[str] = []
    watcher.page.on("request", lambda request: asked.append(request.url))
    body = """
      const began = performance.now();
      for (const number of numbers(30)) {
        publish({ type: "PROPOSAL", id: `p${number}`, from: "@00000001", to: "@me", task: "a task" });
        await frame();
      }
      return (performance.now() - began) / 1000;
    """
    seconds = await flood(watcher, body)
    assert len(asked) <= seconds + 2  # one in each second that was begun, and one for the rounding
    await watcher.until("state.notices.length > 0")


async def test_texts_beside_messages_are_inert(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    agent = await new_agent("mallory")
    await agent.set_presence("busy", "fine" + "\u0301" * 80)
    person = await new_visitor()
    beside = person.page.get_by_role("complementary", name="Members")
    await expect(beside.locator(".doing")).to_have_text("fine" + "\u0301" * 6 + "\u2026")
    body = """
      publish({ type: "ERROR", code: "X", message: "refused: \\u202e<b>x</b>\\u200b" });
      publish({ type: "MOTD_UPDATE", motd: "today \\u202e" });
    """
    await flood(person, body)
    await expect(person.page.get_by_role("status").get_by_text("refused:")).to_have_text(
        "refused: \ufffd<b>x</b>\ufffd"
    )
    await expect(person.page.get_by_role("note")).to_contain_text("today \ufffd")

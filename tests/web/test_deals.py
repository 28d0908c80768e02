"""Deals on the page, in a real browser: the board, what is signed, and signatures that do not hold."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from moothall import Agent, PrivateKey, Proposal
from tests.support.browser import Visitor
from tests.support.npm import fetched
from tests.web.conftest import NewAgent, NewVisitor
from tests.web.test_people import HOSTILE, PHONE, WIDE, check

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]


def key_of(name: str) -> PrivateKey:
    return PrivateKey(sha256(f"deals of {name}".encode()).digest())


async def party(new_agent: NewAgent, name: str) -> tuple[Agent, "asyncio.Queue[Proposal]"]:
    """An agent with a key, and the offers that it gets."""
    agent = await new_agent(name, identity=key_of(name))
    offers: asyncio.Queue[Proposal] = asyncio.Queue()

    @agent.on_proposal
    async def keep(proposal: Proposal) -> None:
        offers.put_nowait(proposal)

    return agent, offers


async def person_at_deals(new_visitor: NewVisitor, name: str, **options: Any) -> Visitor:
    person = await new_visitor("#/channels/general", **options)
    await person.join(name)
    await person.page.get_by_role("button", name="No copy").click()
    await person.page.get_by_role("link", name="Deals", exact=True).click()
    return person


def button(page: Page, name: str) -> Any:
    return page.get_by_role("button", name=name, exact=True)


def column(page: Page, status: str) -> Any:
    return page.get_by_role("region", name=status, exact=True)


async def test_propose_and_follow_a_deal_to_its_end(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    agent, offers = await party(new_agent, "quill")
    person = await person_at_deals(new_visitor, "ada")
    page = person.page
    await button(page, "Propose").click()
    dialog = page.get_by_role("dialog", name="Propose a deal")
    await dialog.get_by_label("To").fill("quill")
    await dialog.get_by_label("Task").fill("Review | this")
    await dialog.get_by_label("Amount").fill("2.50")
    await dialog.get_by_label("Currency").fill("EUR")
    await dialog.get_by_label("Stake").fill("20")
    await dialog.get_by_label("Ends").select_option("in an hour")
    text = f"{agent.address}|Review | this|2.5|EUR||3600|20"
    await expect(dialog.get_by_role("group", name="You will sign")).to_have_text(text)
    await expect(button(page, "Propose")).to_have_count(1)
    await button(page, "Propose").click()
    offer = await asyncio.wait_for(offers.get(), 30)
    assert (offer.task, offer.amount, offer.stake) == ("Review | this", 2.5, 20)
    await expect(column(page, "pending").get_by_role("link")).to_contain_text("2.5 EUR")
    detail = page.get_by_role("complementary", name="One deal")
    countdown = detail.get_by_text(re.compile(r"ends in 5\d min"))
    first = await countdown.inner_text()
    await expect(countdown).not_to_have_text(first)  # it counts
    await expect(detail.get_by_text("The signature holds")).to_have_count(1)
    await detail.get_by_text("What was signed").click()
    await expect(detail.get_by_role("group", name="What was signed")).to_have_text(text)
    await offer.accept(stake=5)
    await expect(column(page, "accepted").get_by_role("link")).to_contain_text("stake 25")
    await expect(detail.get_by_text("The signature holds")).to_have_count(2)
    await button(page, "Complete").click()
    await page.get_by_label("Proof").fill("https://example.org/42")
    await expect(page.get_by_role("group", name="You will sign")).to_have_text(
        f"COMPLETE|{offer.id}|https://example.org/42"
    )
    await page.get_by_role("dialog").get_by_role("button", name="Complete").click()
    await expect(column(page, "completed").get_by_role("link")).to_have_count(1)
    await expect(detail.get_by_text("The signature holds")).to_have_count(3)
    assert await offer.outcome(timeout=30) == "completed"
    await expect(detail.get_by_role("button")).to_have_count(0)


async def test_answers_to_offers_with_the_keyboard(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    agent, _ = await party(new_agent, "brook")
    person = await person_at_deals(new_visitor, "grace")
    page, press = person.page, person.page.keyboard.press
    me = await person.state("state.me.id")
    first = await agent.propose(me, "paint the door")
    second = await agent.propose(me, "paint the wall", amount=7, currency="EUR")
    third = await agent.propose(me, "paint the sky", expires_in=3600)
    await expect(column(page, "pending").get_by_role("link")).to_have_count(3)
    await expect(page.get_by_text("waits for you")).to_have_count(3)
    await column(page, "pending").get_by_role("link", name="door").focus()
    await press("Enter")
    await expect(page.get_by_role("heading", name="Deal pending")).to_be_focused()
    await button(page, "Reject").focus()
    await press("Enter")
    await expect(page.get_by_label("Reason")).to_be_focused()
    await page.keyboard.type("too busy")
    await press("Tab")
    await expect(page.get_by_role("group", name="You will sign")).to_have_text(f"REJECT|{first.id}|too busy")
    await page.get_by_role("dialog").get_by_role("button", name="Reject").press("Enter")
    assert await first.outcome(timeout=30) == "rejected"
    await expect(column(page, "rejected").get_by_role("link")).to_have_count(1)
    await column(page, "pending").get_by_role("link", name="wall").press("Enter")
    await expect(page.get_by_role("complementary").get_by_text("paint the wall", exact=True)).to_be_visible()
    await button(page, "Accept").press("Enter")
    await expect(page.get_by_label("Your stake")).to_be_focused()
    await press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(button(page, "Accept")).to_be_focused()
    await press("Enter")
    await button(page, "Cancel").press("Enter")
    await expect(button(page, "Accept")).to_be_focused()
    await press("Enter")
    await expect(page.get_by_label("Your stake")).to_be_focused()
    await page.keyboard.type("9999999")
    await press("Enter")
    await expect(page.get_by_role("alert")).to_be_visible()  # the hall says that this is too much
    await page.get_by_label("Your stake").fill("10")
    await expect(page.get_by_role("group", name="You will sign")).to_have_text(f"ACCEPT|{second.id}||10")
    await press("Enter")
    await expect(column(page, "accepted").get_by_role("link")).to_have_count(1)
    await button(page, "Dispute").press("Enter")
    await expect(page.get_by_label("Reason")).to_be_focused()
    await page.keyboard.type("nothing came")
    await page.get_by_role("dialog").get_by_role("button", name="Dispute").press("Enter")
    assert await second.outcome(timeout=30) == "disputed"
    await expect(column(page, "disputed").get_by_role("link")).to_have_count(1)
    assert third.status == "pending"


async def test_what_was_typed_last_is_signed(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    """Also if the form is sent before the browser had a frame to show the text."""
    agent, _ = await party(new_agent, "wren")
    person = await person_at_deals(new_visitor, "lin")
    page = person.page
    offer = await agent.propose(await person.state("state.me.id"), "sweep the hall")
    await column(page, "pending").get_by_role("link").click()
    await button(page, "Reject").click()
    await page.get_by_label("Reason").evaluate(
        """async (field) => {
          for (const text of ["not to", "not today"]) {
            field.value = text;
            field.dispatchEvent(new InputEvent("input", { bubbles: true }));
            await undefined;  // the page renders, and has no frame
          }
          field.form.requestSubmit();
        }"""
    )
    assert await offer.outcome(timeout=30) == "rejected"
    detail = page.get_by_role("complementary", name="One deal")
    await expect(detail.get_by_text("not today", exact=True)).to_be_visible()


async def test_strangers_see_counts(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    one, _ = await party(new_agent, "north")
    await party(new_agent, "south")
    await one.propose(f"@{key_of('south').public.agent_id()}", "keep this quiet")
    stranger = await new_visitor("#/deals")
    await expect(column(stranger.page, "pending")).to_contain_text("that you do not see")
    await expect(stranger.page.get_by_text("keep this quiet")).to_have_count(0)
    await expect(button(stranger.page, "Propose")).to_have_count(0)


# -- signatures that do not hold ---------------------------------------------------------------------------

FORGERIES = {
    "task": "the task is the one that is shown",
    "amount": "the amount is the one that is shown",
    "sig": "the key signed it",
    "key": "is the id of the key",
    "by": "the proposer signed it",
    "fields": "the fields give the text that was signed",
    "proposal_id": "it names this deal",
    "shape": "The step cannot be checked",
}


def forged(answer: Any, what: str) -> Any:
    """What a hall could say that does not keep to the truth."""
    deal, (proposal, accept) = answer["deal"], answer["steps"]
    match what:
        case "task" | "amount":
            deal[what] = "something else"
        case "sig":
            proposal["sig"] = accept["sig"]
        case "key":
            proposal["key"] = key_of("a stranger").public.pem
        case "by":
            proposal["by"] = deal["to"]
        case "fields":
            proposal["fields"]["payment_code"] = "mine"
        case "proposal_id":
            accept["fields"]["proposal_id"] = "prop_other"
        case "shape":
            accept["sig"] = 1
    return answer


async def test_every_forgery_of_a_deal_is_found(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    agent, offers = await party(new_agent, "heron")
    person = await person_at_deals(new_visitor, "judge")
    page = person.page
    await button(page, "Propose").click()
    await page.get_by_label("To").fill(agent.address)
    await page.get_by_label("Task").fill("carry water")
    await page.get_by_label("Amount").fill("3")
    await button(page, "Propose").click()
    await (await asyncio.wait_for(offers.get(), 30)).accept()
    await expect(page.get_by_text("The signature holds")).to_have_count(2)
    place = page.url
    for what, problem in FORGERIES.items():
        await page.get_by_role("link", name="Close").click()
        await expect(page.get_by_role("complementary", name="One deal")).to_have_count(0)
        await page.route("**/api/v1/deals/*", liar(what))
        await page.goto(place)
        await expect(page.get_by_text(problem)).to_be_visible()
        await page.unroute("**/api/v1/deals/*")


def liar(what: str) -> Callable[[Route], Awaitable[None]]:
    async def lie(route: Route) -> None:
        told = await route.fetch(headers=await unconditional(route))
        await route.fulfill(json=forged(await told.json(), what))

    return lie


async def unconditional(route: Route) -> dict[str, str]:
    """Without If-None-Match: the answer has to have a body."""
    headers = await route.request.all_headers()
    return {name: value for name, value in headers.items() if name != "if-none-match"}


# -- how it looks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("screen", "texts"),
    [({**PHONE, "color_scheme": "dark"}, list(HOSTILE.values())), (WIDE, [HOSTILE["markup"]])],
    ids=["phone, dark", "wide, light"],
)
async def test_axe_finds_nothing_and_hostile_deals_are_inert(
    new_visitor: NewVisitor, new_agent: NewAgent, screen: dict[str, object], texts: list[str]
) -> None:
    rules = (fetched(Path(__file__).parent / "axe") / "node_modules/axe-core/axe.min.js").read_text()
    agent, _ = await party(new_agent, "mallory")
    person = await person_at_deals(new_visitor, "victim", **screen)
    page = person.page
    await page.evaluate(rules)
    me = await person.state("state.me.id")
    for text in texts:
        await agent.propose(me, text, currency="<b>\u202e", amount=1, stake=1, expires_in=3600)
    await expect(column(page, "pending").get_by_role("link")).to_have_count(len(texts))
    await check(person)
    for number in range(len(texts)):
        await column(page, "pending").get_by_role("link").nth(number).click()
        await expect(page.get_by_text("The signature holds")).to_be_visible()
        assert (
            await page.locator("main").locator("img, script, svg, iframe, [onerror], [onload]").count() == 0
        )
        await page.get_by_text("What was signed").click()
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        if number == 0:
            await check(person)
            await button(page, "Accept").click()
            await expect(page.get_by_label("Your stake")).to_be_focused()
            await check(person)
            await page.keyboard.press("Escape")
        await page.get_by_role("link", name="Close").click()
    hrefs = await page.locator("main a").evaluate_all("(links) => links.map(({ href }) => href)")
    assert all(re.match(r"http://127\.0\.0\.1:\d+/#/", href) for href in hrefs)

"""Court on the page, in a real browser: filing, evidence, judging, and verifying what was judged."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from moothall import Agent
from moothall.client.dispute import Dispute
from tests.support.browser import Visitor
from tests.support.npm import fetched
from tests.support.server import PATIENCE, HallProcess, running_hall
from tests.web.conftest import NewAgent, NewVisitor
from tests.web.test_deals import button, column, key_of, person_at_deals, unconditional
from tests.web.test_people import HOSTILE, PHONE, WIDE, check

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

ARBITERS = ("one", "two", "three")


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    """A hall in which agents without experience may judge, so that a test need not give them any."""
    flags = ("rate_message=100/1", "court_arbiter_transactions=0")
    with running_hall(
        tmp_path_factory.mktemp("hall"), *(word for flag in flags for word in ("--set", flag))
    ) as running:
        yield running


def detail(page: Page) -> Any:
    return page.get_by_role("complementary", name="One case")


async def accepted_deal(person: Visitor, agent: Agent, task: str = "carry water") -> str:
    """A deal between the person, who accepted it, and the agent. Returns its id."""
    deal = await agent.propose(await person.state("state.me.id"), task, stake=5)
    page = person.page
    await column(page, "pending").get_by_role("link", name=task[:20]).click()
    await button(page, "Accept").click()
    await page.get_by_role("dialog").get_by_role("button", name="Accept").click()
    await expect(button(page, "Take to court")).to_be_visible()
    return deal.id


async def judges(new_agent: NewAgent) -> list[Agent]:
    return [await new_agent(name, identity=key_of(name)) for name in ARBITERS]


async def test_a_person_goes_to_court_and_wins(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    panel = await judges(new_agent)
    agent = await new_agent("heron", identity=key_of("heron"))
    person = await person_at_deals(new_visitor, "ada")
    page = person.page
    deal = await accepted_deal(person, agent)
    await button(page, "Take to court").click()
    await page.get_by_label("Reason").fill("nothing came")
    await expect(page.get_by_role("group", name="You will sign", exact=True)).to_contain_text(
        f"DISPUTE_INTENT|{deal}|nothing came|"
    )
    nonce = (await page.get_by_role("group", name="When the hall has answered").inner_text()).split("|")[2]
    await button(page, "File").click()
    await expect(detail(page).get_by_role("heading", name="Case panel")).to_be_visible()
    case_id = page.url.rpartition("/")[2]
    await expect(detail(page).get_by_role("listitem").filter(has_text="pending")).to_have_count(3)
    await detail(page).get_by_text("How it was drawn").click()
    await expect(detail(page).get_by_text(nonce)).to_be_visible()
    await expect(detail(page).get_by_text("seat, pending")).to_have_count(3)
    assert await page.evaluate(NONCES) == []
    for each in panel:
        await each.accept_case(case_id)
    await button(page, "Submit evidence").click()
    await page.get_by_label("Statement").fill("I waited")
    await page.get_by_label("Value").fill("abc123")
    await page.get_by_label("Add a file").set_input_files(
        {"name": "log.txt", "mimeType": "text/plain", "buffer": b"x"}
    )
    await expect(page.get_by_role("group", name="Item 2").get_by_label("Value")).to_have_value(
        "sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    )
    await button(page, "Submit").click()
    await expect(button(page, "Submit evidence")).to_have_count(0)
    await agent.submit_evidence(case_id, [{"kind": "commit", "value": "def"}], "It came")
    await expect(detail(page).get_by_role("heading", name="Case votes")).to_be_visible()
    await expect(detail(page).get_by_role("region", name="Evidence of the respondent")).to_contain_text(
        "It came"
    )
    for each, verdict in zip(panel, ("disputant", "disputant", "mutual"), strict=True):
        await each.vote(case_id, verdict, "so it was")
    await expect(detail(page).get_by_text("For the disputant")).to_be_visible()
    await expect(detail(page).get_by_role("row")).to_have_count(6)
    await button(page, "Verify").click()
    await expect(detail(page).get_by_text("Everything holds")).to_be_visible()
    await page.get_by_role("link", name="Deals", exact=True).click()
    await expect(column(page, "disputed").get_by_role("link", name="carry water")).to_be_visible()
    await forgery(page, case_id)


NONCES = """new Promise((resolve) => {
  const opening = indexedDB.open("moothall-court");
  opening.onsuccess = () => {
    const asking = opening.result.transaction("nonces").objectStore("nonces").getAllKeys();
    asking.onsuccess = () => { opening.result.close(); resolve(asking.result); };
  };
})"""


async def forgery(page: Page, case_id: str) -> None:
    """A hall that shows another verdict than it signed is found out, and so is one that shows another panel."""

    async def lie(route: Route) -> None:
        told = await route.fetch(headers=await unconditional(route))
        file = await told.json()
        file["judgement"]["verdict"] = "respondent"
        await route.fulfill(json=file)

    await page.route("**/api/v1/cases/*", lie)
    await page.goto(f"{page.url.partition('#')[0]}#/court/{case_id}")
    await expect(detail(page).get_by_text("For the respondent")).to_be_visible()
    await button(page, "Verify").click()
    findings = page.get_by_role("status", name="What was verified")
    await expect(findings).to_contain_text("it does not hold that the votes give the verdict respondent")
    await expect(findings).to_contain_text("the record was changed after the hall signed it")
    await page.unroute("**/api/v1/cases/*")


# -- as an arbiter -----------------------------------------------------------------------------------------


async def disputed(new_agent: NewAgent, reason: str = "nothing came") -> tuple[Agent, Agent, Dispute]:
    """Two agents, and their case. Who is connected is in the pool."""
    disputant = await new_agent("crane", identity=key_of("crane"))
    respondent = await new_agent("heron", identity=key_of("heron"))
    deal = await disputant.propose(respondent.address, reason)
    await next(each for each in await respondent.proposals() if each.id == deal.id).accept()
    return disputant, respondent, await deal.file_dispute(reason)


async def test_a_person_judges_with_the_keyboard(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    others = [await new_agent(name, identity=key_of(name)) for name in ARBITERS[:2]]
    person = await person_at_deals(new_visitor, "portia")
    page = person.page
    notice = page.get_by_text("You were drawn as an arbiter").wait_for()  # it is gone after some seconds
    told = asyncio.create_task(notice)
    disputant, respondent, dispute = await disputed(new_agent)
    await told
    await page.get_by_role("link", name="Court", exact=True).press("Enter")
    await expect(page.get_by_text("waits for you")).to_be_visible()
    await column(page, "panel").get_by_role("link", name="nothing came").press("Enter")
    await expect(detail(page).get_by_role("heading", name="Case panel")).to_be_focused()
    await button(page, "Accept").press("Enter")
    await expect(page.get_by_role("group", name="You will sign")).to_have_text(
        f"ARBITER_ACCEPT|{dispute.dispute_id}"
    )
    await page.get_by_role("dialog").get_by_role("button", name="Accept").press("Enter")
    await expect(detail(page).get_by_role("listitem").filter(has_text="accepted")).to_have_count(1)
    for each in others:
        await each.accept_case(dispute.dispute_id)
    for party in (disputant, respondent):
        await party.submit_evidence(dispute.dispute_id, [], "my word")
    await button(page, "Vote").press("Enter")
    await expect(page.get_by_label("For the disputant")).to_be_focused()
    await page.get_by_label("For the disputant").press("ArrowUp")
    await page.get_by_label("Reasoning").fill("both of them")
    await expect(page.get_by_role("group", name="You will sign")).to_have_text(
        f"VOTE|{dispute.dispute_id}|mutual"
    )
    await button(page, "Vote").press("Enter")
    await expect(button(page, "Vote")).to_have_count(0)
    await others[0].vote(dispute.dispute_id, "respondent")
    await others[1].vote(dispute.dispute_id, "mutual")
    await expect(detail(page).get_by_text("Mutual fault")).to_be_visible()
    await expect(detail(page).get_by_text("both of them")).to_be_visible()


async def test_a_person_declines(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    for name in ARBITERS[:2]:
        await new_agent(name, identity=key_of(name))
    person = await person_at_deals(new_visitor, "jessica")
    page = person.page
    _, _, dispute = await disputed(new_agent, "I know them")
    await page.goto(f"{page.url.partition('#')[0]}#/court/{dispute.dispute_id}")
    await button(page, "Decline").click()
    await page.get_by_label("Reason").fill("a friend")
    await page.get_by_role("dialog").get_by_role("button", name="Decline").click()
    await expect(detail(page).get_by_role("heading", name="Case no verdict")).to_be_visible()
    await expect(detail(page).get_by_text("a friend")).to_be_visible()
    await button(page, "Verify").click()
    await expect(detail(page).get_by_text("Everything holds")).to_be_visible()


# -- when something breaks ---------------------------------------------------------------------------------

LOST_REVEAL = """
const { send } = WebSocket.prototype;
WebSocket.prototype.send = function (data) {
  if (!sessionStorage.lost && String(data).includes('"DISPUTE_REVEAL"')) {
    sessionStorage.lost = "yes";
    this.close();
    window.revealWasLost();
  } else send.call(this, data);
};
"""


async def test_a_secret_is_kept_until_it_was_revealed(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    await judges(new_agent)
    agent = await new_agent("heron", identity=key_of("heron"))
    person = await person_at_deals(new_visitor, "bassanio", script=LOST_REVEAL)
    page = person.page
    lost = asyncio.Event()
    await page.expose_function("revealWasLost", lost.set)
    deal = await accepted_deal(person, agent, "lend me three thousand")
    await button(page, "Take to court").click()
    await page.get_by_label("Reason").fill("broken in between")
    await button(page, "File").click()
    await asyncio.wait_for(lost.wait(), PATIENCE)
    assert await page.evaluate(NONCES) == [f"{await person.state('state.me.id')} {deal}"]
    await page.reload()
    await page.get_by_role("link", name="Court", exact=True).click()
    await column(page, "filed").get_by_role("link", name="broken in between").click()
    await button(page, "Reveal").click()
    await expect(page.get_by_role("group", name="You will sign")).to_contain_text(f"DISPUTE_REVEAL|{deal}|")
    await page.get_by_role("dialog").get_by_role("button", name="Reveal").click()
    await expect(detail(page).get_by_role("heading", name="Case panel")).to_be_visible()
    assert await page.evaluate(NONCES) == []


# -- how it looks ------------------------------------------------------------------------------------------


async def test_strangers_see_counts(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    await judges(new_agent)
    await disputed(new_agent, "between us")
    stranger = await new_visitor("#/court")
    await expect(column(stranger.page, "panel")).to_contain_text("that you do not see")
    await expect(stranger.page.get_by_text("between us")).to_have_count(0)


@pytest.mark.parametrize(
    "screen", [{**PHONE, "color_scheme": "dark"}, WIDE], ids=["phone, dark", "wide, light"]
)
async def test_axe_finds_nothing_and_hostile_cases_are_inert(
    new_visitor: NewVisitor, new_agent: NewAgent, screen: dict[str, object]
) -> None:
    rules = (fetched(Path(__file__).parent / "axe") / "node_modules/axe-core/axe.min.js").read_text()
    others = [await new_agent(name, identity=key_of(name)) for name in ARBITERS[:2]]
    person = await person_at_deals(new_visitor, "shylock", **screen)
    page = person.page
    await page.evaluate(rules)
    disputant, respondent, dispute = await disputed(new_agent, HOSTILE["markup"] + HOSTILE["bidi"])
    await page.get_by_role("link", name="Court", exact=True).click()
    await column(page, "panel").get_by_role("link", name="img src").click()
    await check(person)
    await button(page, "Accept").click()
    await page.get_by_role("dialog").get_by_role("button", name="Accept").click()
    for each in others:
        await each.accept_case(dispute.dispute_id)
    items = [
        {"kind": text[:30], "value": text, "label": text[:90], text[:40]: [text]} for text in HOSTILE.values()
    ]
    await disputant.submit_evidence(dispute.dispute_id, items, HOSTILE["zero-width"][:1900])
    await respondent.submit_evidence(dispute.dispute_id, [{"value": {"a": [None]}}], HOSTILE["marks"][:1900])
    await button(page, "Vote").click()
    await page.get_by_label("For the disputant").check()
    await expect(page.get_by_role("group", name="You will sign")).to_be_visible()
    await check(person)
    await button(page, "Vote").click()
    for each in others:
        await each.vote(dispute.dispute_id, "disputant", HOSTILE["links"][:500])
    await expect(detail(page).get_by_text("For the disputant")).to_be_visible()
    await detail(page).get_by_text("How it was drawn").click()
    await button(page, "Verify").click()
    await detail(page).get_by_text("Computed again").click()
    await check(person)
    assert await page.locator("main").locator("img, script, svg, iframe, [onerror], [onload]").count() == 0
    hrefs = await page.locator("main a").evaluate_all("(links) => links.map(({ href }) => href)")
    assert all(href.startswith("http://127.0.0.1:") for href in hrefs)

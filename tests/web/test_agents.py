"""Agents on the page, in a real browser: presence, skills, ratings with their history, budgets."""

import re
from pathlib import Path

import pytest
from playwright.async_api import Route, expect

from moothall import Agent, Budget
from tests.web.conftest import NewAgent, NewVisitor

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]


async def deal(buyer: Agent, seller: Agent) -> None:
    proposal = await buyer.propose(seller.address, "paint the hall", amount=5, currency="SOL")
    await seller.accept(proposal.id)
    await buyer.complete(proposal.id, "done")


async def test_what_is_known_of_an_agent(
    new_visitor: NewVisitor, new_agent: NewAgent, tmp_path: Path
) -> None:
    buyer = await new_agent("buyer", identity=tmp_path / "buyer.json", create=True)
    seller = await new_agent("seller", identity=tmp_path / "seller.json", create=True)
    await new_agent("nobody")
    await seller.register_skills(
        [
            {"capability": "painting", "rate": 5, "currency": "SOL", "description": "walls, <b>roofs</b>"},
            {"capability": "constructor"},
            {"capability": "traps", "rate": {"toString": 1}, "currency": [{"valueOf": 2}]},
        ]
    )
    await deal(buyer, seller)
    await deal(buyer, seller)
    rating = (await seller.rating()).rating
    assert rating > 1200
    watcher = await new_visitor("#/agents")
    row = watcher.page.get_by_role("row").filter(has_text="seller")
    await expect(row.get_by_role("cell", name="painting")).to_be_visible()
    await expect(row.get_by_role("cell", name=f"{rating}")).to_be_visible()
    await expect(row.get_by_role("img", name=re.compile(f"Rating from .* to {rating} "))).to_be_visible()
    await expect(row.get_by_role("img", name="verified")).to_be_visible()
    await expect(row.get_by_role("cell", name="WebSocket")).to_be_visible()
    await expect(
        watcher.page.get_by_role("row").filter(has_text="nobody").get_by_role("img", name="verified")
    ).to_have_count(0)

    await watcher.page.get_by_role("columnheader", name="Rating").get_by_role("button").click()
    await expect(watcher.page.get_by_role("columnheader", name="Rating")).to_have_attribute(
        "aria-sort", "ascending"
    )
    await watcher.page.get_by_label("Filter").fill("paint")
    await expect(watcher.page.get_by_role("row")).to_have_count(2)  # its head, and the seller

    await row.get_by_role("button", name="seller").click()
    detail = watcher.page.get_by_role("complementary", name="One agent")
    await expect(detail.get_by_text("walls, <b>roofs</b>")).to_be_visible()
    await expect(detail.get_by_role("listitem").filter(has_text="constructor")).to_have_text("constructor")
    await expect(detail.get_by_text('{"toString":1} [{"valueOf"')).to_be_visible()
    await expect(detail.get_by_role("img", name="Rating from")).to_be_visible()
    await expect(detail.get_by_role("definition").filter(has_text="2").first).to_be_visible()
    await seller.set_presence("busy", "on a ladder")
    await expect(detail.get_by_text("on a ladder")).to_be_visible()


async def test_an_agent_proves_its_key_to_a_person(
    new_visitor: NewVisitor, new_agent: NewAgent, tmp_path: Path
) -> None:
    agent = await new_agent("prover", identity=tmp_path / "prover.json", create=True)
    person = await new_visitor(f"#/agents/{agent.address}")
    await person.page.get_by_label("Your name").fill("doubter")
    await person.page.get_by_role("button", name="Join", exact=True).click()
    await person.page.get_by_role("button", name="Ask for proof of its key").click()
    await expect(person.page.get_by_text("It has just proved its key.")).to_be_visible()
    assert (
        await agent.verify(await person.state("state.me.id"))
    ).pem  # and the page proves the key of its person
    await person.page.get_by_role("button", name="Talk").click()
    await person.entry.wait_for()


async def test_a_budget_that_a_worker_reports(
    new_visitor: NewVisitor, new_agent: NewAgent, tmp_path: Path
) -> None:
    agent = await new_agent("spender", identity=tmp_path / "spender.json", create=True)
    watcher = await new_visitor("#/agents")
    row = watcher.page.get_by_role("row").filter(has_text="spender")
    await row.wait_for()
    await agent.report_budget(Budget(limit=1_000_000, spent=250_000))
    await expect(row.get_by_role("meter", name="750000 of 1000000 tokens left")).to_be_visible()


async def test_the_charts_of_many_agents_are_asked_for_one_after_another(new_visitor: NewVisitor) -> None:
    """A hall takes a limited number of questions from one address: those of a crowd would use them up."""
    watcher = await new_visitor()
    shown = {"presence": "online", "verified": True, "kind": "agent", "wire": "agentchat", "transactions": 9}
    agents = [
        {"id": f"@{number:08x}", "name": f"agent-{number}", "rating": 1300, **shown} for number in range(12)
    ]
    under_way, most, done = 0, 0, 0

    async def answer(route: Route) -> None:
        nonlocal under_way, most, done
        if "/ratings" not in route.request.url:
            await route.fulfill(json={"items": agents, "next": None})
            return
        under_way += 1
        most = max(most, under_way)
        steps = [{"at": at, "rating": 1300 - at, "why": "completed"} for at in (2, 1)]
        await watcher.page.evaluate("new Promise(requestAnimationFrame)")  # others would be here by then
        under_way -= 1
        done += 1
        await route.fulfill(json={"id": "@0", "items": steps, "next": None})

    await watcher.page.route("**/api/v1/agents**", answer)
    await watcher.go("#/agents")
    await expect(watcher.page.get_by_role("img", name="Rating from")).to_have_count(len(agents))
    assert (most, done) == (1, len(agents))

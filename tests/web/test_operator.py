"""Operator on the page, in a real browser: the admin key, charts, and what is done with them."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, expect

from moothall import Agent, Budget, PrivateKey
from moothall.errors import ChannelNotFound
from moothall.gateways.metrics_history import Gauges, MetricsHistory, Totals
from tests.support.browser import Visitor, visit
from tests.support.npm import fetched
from tests.support.server import ADMIN_KEY, HallProcess, running_hall
from tests.web.conftest import NewAgent, NewVisitor
from tests.web.test_people import HOSTILE, PHONE, WIDE, check

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

WITH_KEY = {"MOOTHALL_ADMIN_KEY": ADMIN_KEY}
KEPT = """async () => {
  const databases = await indexedDB.databases();
  const entries = [...document.querySelectorAll("input")].map(({ value }) => value);
  const { outerHTML } = document.documentElement;
  return JSON.stringify([
    { ...localStorage }, { ...sessionStorage }, document.cookie, databases,
    location.href, history.state, outerHTML, entries,
  ]);
}"""


def key_of(name: str) -> PrivateKey:
    return PrivateKey(sha256(f"operators and {name}".encode()).digest())


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall"), environment=WITH_KEY) as running:
        yield running


async def open_desk(operator: Visitor) -> None:
    await operator.page.get_by_label("Admin key").fill(ADMIN_KEY)
    await operator.page.get_by_role("button", name="Open").click()
    await operator.page.get_by_role("button", name="Forget the key").wait_for()


async def look_at(operator: Visitor, part: str) -> Locator:
    await operator.page.get_by_role("link", name=part, exact=True).click()
    region = operator.page.get_by_role("region", name=part, exact=True)
    await region.wait_for()
    return region


async def confirm(operator: Visitor, action: str, reason: str = "") -> None:
    dialog = operator.page.get_by_role("dialog")
    if reason:
        await dialog.get_by_label("Reason").fill(reason)
    await dialog.get_by_role("button", name=action, exact=True).click()


async def said(operator: Visitor, text: str) -> None:
    """The page tells what was done."""
    await expect(operator.page.get_by_role("status").filter(has_text=text)).to_be_visible()


async def refused(agent: Agent) -> None:
    with pytest.raises(ChannelNotFound):
        await agent.join("#nowhere")


async def test_the_key_is_in_memory_only(new_visitor: NewVisitor, hall: HallProcess) -> None:
    operator = await new_visitor("#/operator")
    operator.forgive_lost_connections()  # the browser logs that the hall refused the first key
    await operator.page.get_by_label("Admin key").fill("a wrong key")
    await operator.page.keyboard.press("Enter")
    await expect(operator.page.get_by_role("alert")).to_have_text(
        "X-Admin-Key is not the admin key of this hall"
    )
    await open_desk(operator)
    assert ADMIN_KEY not in await operator.page.evaluate(KEPT)
    assert ADMIN_KEY not in hall.stderr.text + hall.stdout.text
    assert "admin_refused" in hall.stderr.text
    await operator.page.get_by_role("button", name="Forget the key").click()
    await expect(operator.page.get_by_label("Admin key")).to_be_visible()
    await open_desk(operator)
    await operator.page.reload()
    await expect(operator.page.get_by_label("Admin key")).to_have_value("")


async def test_live_charts(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    agent = await new_agent("clumsy")
    await agent.send("#general", "hello")
    await refused(agent)
    operator = await new_visitor("#/operator")
    await open_desk(operator)
    for name in ("Connections", "Messages per second", "Refusals per minute", "Bytes in queues"):
        await expect(operator.page.get_by_role("img", name=f"{name}: ")).to_be_visible()
    for name in ("Slow readers", "Loop lag"):
        await expect(operator.page.get_by_role("img", name=f"{name}: ")).to_be_visible()
    codes = operator.page.get_by_role("row").filter(has_text="CHANNEL_NOT_FOUND")
    await expect(codes.get_by_role("cell", name="1", exact=True)).to_be_visible()

    async with operator.page.expect_request(lambda request: "metrics/history?since=1" in request.url):
        pass  # only what came since


async def test_an_hour_is_kept(new_visitor: NewVisitor) -> None:
    """What the page makes of samples, as the hall makes them."""
    history = MetricsHistory(0, Totals())
    for number in range(1, 4):
        gauges = Gauges(number, 1, 0, 2048 * number, 0, 0.25)
        history.add(number * 2_000_000, gauges, Totals(10 * number, 0, 0, 0, {"A": number, "B": 9}))
    samples = [{name: getattr(each, name) for name in each.__struct_fields__} for each in history]
    visitor = await new_visitor("#/operator")
    found: list[Any] = await visitor.page.evaluate(
        """async (samples) => {
          const { SERIES, joined, refusalsByCode } = await import("/page/views/operator/samples.js");
          const all = joined(joined([], samples.slice(0, 2)), samples);
          const values = (points) => points.map(({ value }) => value);
          const codes = refusalsByCode(samples).map(({ code, count, points }) => [code, count, values(points)]);
          return [all.map(({ at }) => at), codes, SERIES.map(({ of, say }) => say(of(samples[2])))];
        }""",
        samples,
    )
    assert found == [
        [4_000_000, 6_000_000],
        [["B", 9, [9, 0, 0]], ["A", 3, [1, 1, 1]]],
        ["3", "0", "0", "6.1 KB", "0", "250 ms"],
    ]


async def test_kick_ban_and_unban(new_visitor: NewVisitor, new_agent: NewAgent, hall: HallProcess) -> None:
    noisy = await new_agent("noisy", identity=key_of("noisy"), reconnect=False)
    goner = await new_agent("goner", identity=key_of("goner"), reconnect=False)
    operator = await new_visitor("#/operator/connections")
    await open_desk(operator)
    page = operator.page
    row = page.get_by_role("row").filter(has_text="noisy")
    await row.get_by_role("button", name="Kick noisy").click()
    await page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    assert noisy.is_connected

    kicked = noisy.wait_for("KICKED")
    await row.get_by_role("button", name="Kick noisy").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog").get_by_label("Reason")).to_be_focused()
    await page.keyboard.type("too loud")
    await page.keyboard.press("Enter")
    assert (await kicked)["reason"] == "too loud"
    await said(operator, f"Kicked noisy ({noisy.address}).")
    await expect(row).to_have_count(0)

    await page.get_by_role("button", name="Kick goner").click()
    await goner.close()
    await confirm(operator, "Kick")
    await expect(page.get_by_role("dialog").get_by_role("alert")).to_have_text(
        f"AGENT_NOT_FOUND: There is no agent {goner.address} here"
    )
    await page.keyboard.press("Escape")

    await look_at(operator, "Bans")
    await page.get_by_label("Id of an agent").fill(noisy.address)
    await page.get_by_role("button", name="Ban", exact=True).click()
    await confirm(operator, "Ban", "<b>no</b>\u202e")
    await said(operator, f"Banned {noisy.address}.")
    banned = page.get_by_role("row").filter(has_text=noisy.address)
    await expect(banned).to_contain_text("<b>no</b>")
    await banned.get_by_role("button", name="Unban").click()
    await confirm(operator, "Unban")
    await said(operator, f"{noisy.address} is no longer banned.")
    await expect(banned).to_have_count(0)
    await page.get_by_text("Done in this visit: 3").click()
    await expect(page.get_by_role("listitem").filter(has_text="Kicked noisy")).to_be_visible()


async def test_the_message_of_the_day(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    agent = await new_agent("reader")
    operator = await new_visitor("#/operator/motd")
    await open_desk(operator)
    page = operator.page
    await expect(page.get_by_text("There is none now.")).to_be_visible()
    told = agent.wait_for("MOTD_UPDATE")
    await page.get_by_label("New message of the day").fill("Closed <i>at noon</i>")
    await page.get_by_role("button", name="Set", exact=True).click()
    await confirm(operator, "Set")
    assert (await told)["motd"] == "Closed <i>at noon</i>"
    await said(operator, "The message of the day is set: Closed <i>at noon</i>")
    await expect(page.get_by_role("note")).to_contain_text("Closed <i>at noon</i>")
    await page.get_by_role("button", name="Clear", exact=True).click()
    await confirm(operator, "Clear")
    await said(operator, "The message of the day is gone.")
    await expect(page.get_by_role("note")).to_have_count(0)


async def test_budgets(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    worker = await new_agent("worker", identity=key_of("worker"))
    idler = await new_agent("idler", identity=key_of("idler"))
    await worker.report_budget(Budget(limit=10_000, spent=2_500))
    operator = await new_visitor("#/operator/budgets")
    await open_desk(operator)
    page = operator.page
    row = page.get_by_role("row").filter(has_text="worker")
    await expect(row).to_contain_text("2,500")
    for agent, name in (("worker", worker.address), (idler.address, idler.address), ("", "all workers")):
        await page.get_by_label("Agent", exact=True).fill(agent)
        await page.get_by_label("Tokens a day").fill("5000")
        await page.get_by_role("button", name="Set", exact=True).click()
        await confirm(operator, "Set")
        await said(operator, f"The cap for {name}")
    await expect(row.get_by_role("meter", name="2,500 tokens of 5,000 tokens, worker")).to_be_visible()
    await expect(page.get_by_role("row").filter(has_text=idler.address)).to_contain_text("5,000")
    await expect(page.get_by_text("workers spent 2,500 tokens of 5,000 tokens.")).to_be_visible()
    await row.get_by_role("button", name="Take away the cap of worker").click()
    await confirm(operator, "Take away")
    await said(operator, f"There is no cap for {worker.address}.")
    await page.get_by_role("button", name="Take the cap away").click()
    await confirm(operator, "Take away")
    await said(operator, "There is no cap for all workers together.")
    await expect(page.get_by_text("All together have no cap.")).to_be_visible()


async def test_the_allow_list_of_a_hall_that_hides_itself(browser: Browser, tmp_path: Path) -> None:
    alice = key_of("alice")
    with running_hall(tmp_path, "--set", "allowlist=true", environment=WITH_KEY) as closed:
        operator = await visit(browser, closed)
        operator.forgive_lost_connections()
        await operator.go("#/mesh")
        await expect(operator.page.get_by_text("This hall shows itself to members")).to_be_visible()
        await operator.page.get_by_role("link", name="Operator", exact=True).click()
        await open_desk(operator)
        part = await look_at(operator, "Allow list")
        await expect(part.get_by_text("The allow list is empty.")).to_be_visible()
        await part.get_by_label("Public key").fill("not a key")
        await part.get_by_role("button", name="Approve", exact=True).click()
        await confirm(operator, "Approve")
        await expect(operator.page.get_by_role("dialog").get_by_role("alert")).to_contain_text(
            "INVALID_MSG: Invalid `pubkey`"
        )
        await operator.page.keyboard.press("Escape")
        await part.get_by_label("Public key").fill(alice.public.pem)
        await part.get_by_label("Note").fill("the <reviewer>")
        await part.get_by_role("button", name="Approve", exact=True).click()
        await confirm(operator, "Approve")
        address = f"@{alice.public.agent_id()}"
        await said(operator, f"Approved {address}.")
        await expect(part.get_by_role("row").filter(has_text="the <reviewer>")).to_contain_text(address)
        async with Agent("alice", identity=alice).connected(closed.url):
            pass
        await part.get_by_role("button", name=f"Take off {address}").click()
        await confirm(operator, "Take off")
        await said(operator, f"{address} is no longer approved.")
        await expect(part.get_by_text("The allow list is empty.")).to_be_visible()
        await operator.leave()


async def test_what_is_off_is_said_as_the_hall_says_it(new_visitor: NewVisitor) -> None:
    operator = await new_visitor("#/operator/allow")
    await open_desk(operator)
    await expect(operator.page.get_by_text("INVALID_MSG: The allow list is off")).to_be_visible()


@pytest.mark.parametrize(
    "screen", [{**PHONE, "color_scheme": "dark"}, WIDE], ids=["phone, dark", "wide, light"]
)
async def test_axe_finds_nothing(
    new_visitor: NewVisitor, new_agent: NewAgent, screen: dict[str, object]
) -> None:
    rules = (fetched(Path(__file__).parent / "axe") / "node_modules/axe-core/axe.min.js").read_text()
    worker = await new_agent("inspected", identity=key_of(f"inspected {len(screen)}"))
    await worker.report_budget(Budget(limit=10_000, spent=2_500))
    admin = worker.admin(ADMIN_KEY)
    await admin.ban(f"@feedbee{len(screen)}", HOSTILE["markup"] + HOSTILE["word"][:150])
    await admin.set_budget(worker.address, 2_000)
    operator = await new_visitor("#/operator", **screen)
    await operator.page.evaluate(rules)
    await operator.page.get_by_label("Admin key").wait_for()
    await check(operator)
    await open_desk(operator)
    await operator.page.get_by_role("img", name="Loop lag").wait_for()
    await check(operator)
    for part in ("Connections", "Bans", "Message of the day", "Budgets"):
        region = await look_at(operator, part)
        await expect(region.get_by_text("Asking the hall")).to_have_count(0)
        await expect(region.locator("tbody tr, textarea").first).to_be_visible()
        assert await region.locator("img, script, iframe, [onerror], [onload]").count() == 0
        await check(operator)
    await look_at(operator, "Connections")
    await operator.page.get_by_role("button", name="Ban inspected").click()
    await check(operator)

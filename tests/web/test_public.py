"""A hall whose deals and cases are public, as a stranger sees it: every view, without a name and without a key."""

import re
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio
from playwright.async_api import FilePayload, Locator, expect

from moothall import Agent, PrivateKey
from moothall.client.dispute import Dispute
from moothall.mesh import MeshAgent, Message
from tests.client.meeting import Heard, soon
from tests.support.browser import Visitor
from tests.support.npm import fetched
from tests.support.server import ADMIN_KEY, HallProcess, run_moothall, running_hall
from tests.web.conftest import NewVisitor
from tests.web.test_people import PHONE, WIDE, check

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

FLAGS = ("public_deals=true", "public_cases=true", "court_arbiter_transactions=0", "rate_message=100/1")
VIEWS = ("Channels", "Agents", "Deals", "Court", "Mesh", "Operator")


def key_of(name: str) -> PrivateKey:
    return PrivateKey(sha256(f"in public, {name}".encode()).digest())


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    flags = [word for flag in FLAGS for word in ("--set", flag)]
    environment = {"MOOTHALL_ADMIN_KEY": ADMIN_KEY}
    with running_hall(tmp_path_factory.mktemp("hall"), *flags, environment=environment) as running:
        yield running


class Town(NamedTuple):
    """Five agents with a completed deal and a judged one, and two on the mesh who have agreed."""

    judged: Dispute
    talk: str
    mesh: MeshAgent


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def town(hall: HallProcess) -> AsyncIterator[Town]:
    agents = [Agent(name, identity=key_of(name)) for name in ("crane", "heron", "one", "two", "three")]
    crane, heron, *panel = agents
    for agent in agents:
        await agent.connect(hall.url)
        await agent.join("#general")
    await crane.send("#general", "good morning")
    done = await crane.propose(heron.address, "carry water", amount=3, currency="EUR", stake=10)
    await heron.accept(done.id, stake=5)
    await crane.complete(done.id, "it is here")
    quarrel = await crane.propose(heron.address, "carry wood")
    await heron.accept(quarrel.id)
    dispute = await quarrel.file_dispute("no wood came")
    for judge in panel:
        await judge.accept_case(dispute.dispute_id)
    await crane.submit_evidence(dispute.dispute_id, [{"kind": "commit", "value": "abc"}], "I saw none")
    await heron.submit_evidence(dispute.dispute_id, [], "It was wet")
    for judge in panel:
        await judge.vote(dispute.dispute_id, "disputant", "none came")
    deposit = ("ledger", "deposit", key_of("dao").public.raw.hex(), "10", "--data-dir", str(hall.data_dir))
    assert run_moothall(hall.folder, *deposit).returncode == 0
    dao, mika = MeshAgent("dao", key=key_of("dao")), MeshAgent("mika", key=key_of("mika"))
    offers: Heard[Message] = Heard()
    mika.on_propose(offers)
    async with dao.connected(hall.url), mika.connected(hall.url):
        talk = await dao.propose(mika.id, "translate this", amount=2_000_000)
        offered = (await offers.next()).conversation
        assert offered is not None
        await offered.accept()
        await soon(talk.wait_for("COMMITTED"))
        yield Town(dispute, talk.id, dao)
    for agent in agents:
        await agent.close()


def column(visitor: Visitor, name: str) -> Locator:
    return visitor.page.get_by_role("region", name=name, exact=True)


async def open_view(visitor: Visitor, name: str) -> None:
    await visitor.page.get_by_role("link", name=name).click()
    await expect(visitor.page.get_by_role("heading", name=name, level=1)).to_have_count(1)


async def test_a_stranger_reads_deals_and_checks_their_signatures(
    new_visitor: NewVisitor, town: Town
) -> None:
    stranger = await new_visitor()
    await open_view(stranger, "Deals")
    page = stranger.page
    await expect(page.get_by_text("All deals of this hall are public.")).to_be_visible()
    for status in ("pending", "accepted", "completed", "disputed", "expired"):
        await expect(column(stranger, status)).to_be_visible()
    await expect(page.get_by_text("that you do not see")).to_have_count(0)
    card = column(stranger, "completed").get_by_role("link")
    await expect(card).to_contain_text("3 EUR")
    await expect(card).to_contain_text("stake 15")
    await card.click()
    detail = page.get_by_role("complementary", name="One deal")
    await expect(detail.get_by_text("The signature holds")).to_have_count(3)
    await expect(detail.get_by_role("button")).to_have_count(0)  # it is for its parties
    await expect(column(stranger, "disputed").get_by_role("link")).to_contain_text("carry wood")
    await expect(page.get_by_role("button", name="Propose")).to_have_count(0)


async def test_a_stranger_reads_a_case_and_verifies_it(
    new_visitor: NewVisitor, town: Town, tmp_path: Path
) -> None:
    stranger = await new_visitor()
    await open_view(stranger, "Court")
    page = stranger.page
    await expect(page.get_by_text("All cases of this hall are public.")).to_be_visible()
    await column(stranger, "resolved").get_by_role("link", name="no wood came").click()
    detail = page.get_by_role("complementary", name="One case")
    await expect(detail.get_by_text("I saw none")).to_be_visible()
    await expect(detail.get_by_text("none came").first).to_be_visible()
    await page.get_by_role("button", name="Verify").click()
    await expect(detail.get_by_text("Everything holds, and this hall signed it.")).to_be_visible()
    async with page.expect_download() as downloading:
        await page.get_by_role("button", name="Save the file").click()
    saved = tmp_path / "case.json"
    await (await downloading.value).save_as(saved)
    await page.get_by_role("link", name="Close").click()
    chooser = page.get_by_label("Open a case file")
    await chooser.set_input_files(saved)
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_text("Everything holds, and this hall signed it.")).to_be_visible()
    await page.keyboard.press("Escape")
    forged = saved.read_text().replace('"I saw none"', '"I saw some"')
    for text, found in (
        (forged, "changed after the hall signed it"),
        ("{}", "This is not the file of a case"),
        ("x", "not a JSON file"),
    ):
        await chooser.set_input_files(FilePayload(name="a.json", mimeType="", buffer=text.encode()))
        await expect(dialog.get_by_text(re.compile(found)).first).to_be_visible()
        await page.keyboard.press("Escape")


async def test_an_agent_has_one_colour_in_all_views(new_visitor: NewVisitor, town: Town) -> None:
    stranger = await new_visitor("#/agents")
    page = stranger.page
    wanted = {}
    for name in ("crane", "heron", "dao", "mika"):
        row = page.get_by_role("row").filter(has_text=name)
        wanted[name] = await row.locator("bdi.name").get_attribute("class")
    for view, shown in (
        ("Deals", ("crane", "heron")),
        ("Court", ("crane", "heron")),
        ("Mesh", ("dao", "mika")),
    ):
        await open_view(stranger, view)
        for name in shown:
            found = page.locator("main bdi.name").filter(has_text=name)
            await found.first.wait_for()
            classes = await found.evaluate_all("(names) => names.map(({ className }) => className)")
            assert {f"{each}" for each in classes} == {wanted[name]}, (view, name)


async def test_the_names_that_people_rely_on(new_visitor: NewVisitor, town: Town) -> None:
    """Each is there once in every view, also for a reader who asks for a part of the name."""
    person = await new_visitor()
    for view in VIEWS:
        await open_view(person, view)
        for name in VIEWS:
            await expect(person.page.get_by_role("link", name=name)).to_have_count(1)
        for name in ("Your name", "Search"):
            await expect(person.page.get_by_role("textbox", name=name)).to_have_count(1)
            await expect(person.page.get_by_label(name)).to_have_count(1)
        await expect(person.page.get_by_role("button", name="Join")).to_have_count(1)
        await expect(person.page.get_by_role("textbox", name="Message")).to_have_count(0)
        await expect(person.page.get_by_role("log")).to_have_count(int(view == "Channels"))
    await open_view(person, "Channels")
    await person.page.get_by_label("Your name").fill("zoe")
    await person.page.get_by_role("button", name="Join").click()
    await expect(person.page.get_by_label("Message")).to_have_count(1)
    await person.page.get_by_role("textbox", name="Message").fill("what do you send?")
    await person.page.get_by_role("button", name="Send").click()
    await expect(person.page.get_by_role("log")).to_contain_text("what do you send?")


async def tab_to(visitor: Visitor, wanted: Locator) -> None:
    """Press Tab until it has the focus."""
    await wanted.first.wait_for()
    for _ in range(80):
        await visitor.page.keyboard.press("Tab")
        if await wanted.first.evaluate("(element) => element === document.activeElement"):
            return
    raise AssertionError(f"Tab does not reach {wanted}")


async def test_every_view_with_the_keyboard_alone(new_visitor: NewVisitor, town: Town) -> None:
    stranger = await new_visitor()
    page = stranger.page
    press = page.keyboard.press
    aside = page.get_by_role("complementary")
    for view, opener, opened in (
        ("Agents", page.get_by_role("button", name="crane"), "crane"),
        ("Deals", column(stranger, "completed").get_by_role("link"), "Deal completed"),
        ("Court", column(stranger, "resolved").get_by_role("link"), "Case resolved"),
        (
            "Mesh",
            page.get_by_role("region", name="Conversations", exact=True).get_by_role("link"),
            "Conversation",
        ),
    ):
        await tab_to(stranger, page.get_by_role("link", name=view))
        await press("Enter")
        await tab_to(stranger, opener)
        await press("Enter")
        await expect(aside.get_by_role("heading", name=opened, exact=False).first).to_be_focused()
        if view == "Court":
            await tab_to(stranger, page.get_by_role("button", name="Verify"))
            await press("Enter")
            await expect(aside.get_by_text("Everything holds")).to_be_visible()
        await tab_to(stranger, aside.get_by_role("link", name="Close"))
        await press("Enter")
        await expect(aside).to_have_count(0)
        await expect(opener.first).to_be_focused()
    await tab_to(stranger, page.get_by_role("link", name="Operator"))
    await press("Enter")
    await tab_to(stranger, page.get_by_label("Admin key"))
    await page.keyboard.type(ADMIN_KEY)
    await press("Enter")
    await tab_to(stranger, page.get_by_role("link", name="Connections"))
    await press("Enter")
    await tab_to(stranger, page.get_by_role("button", name="Kick crane"))
    await press("Enter")
    await expect(page.get_by_role("dialog").get_by_label("Reason")).to_be_focused()
    await press("Escape")
    await expect(page.get_by_role("button", name="Kick crane")).to_be_focused()
    await tab_to(stranger, page.get_by_label("Your name"))
    await page.keyboard.type("tabber")
    await press("Enter")
    await tab_to(stranger, page.get_by_role("link", name="Channels"))
    await press("Enter")
    await stranger.entry.wait_for()
    await stranger.until("!state.wantsEntry")
    await expect(page.get_by_role("link", name="Channels")).to_be_focused()  # the entry does not take it
    await tab_to(stranger, stranger.entry)
    await page.keyboard.type("with ten fingers")
    await press("Enter")
    await expect(stranger.message("with ten fingers")).to_have_count(1)


@pytest.mark.parametrize(
    "screen", [PHONE, {**WIDE, "color_scheme": "dark"}], ids=["phone, light", "wide, dark"]
)
async def test_axe_finds_nothing(new_visitor: NewVisitor, town: Town, screen: dict[str, object]) -> None:
    """Each view and one thing in it. The tests of the views do the same on a dark phone and a wide light screen."""
    rules = (fetched(Path(__file__).parent / "axe") / "node_modules/axe-core/axe.min.js").read_text()
    stranger = await new_visitor(**screen)
    page = stranger.page
    await page.evaluate(rules)
    await stranger.message("good morning").wait_for()
    await check(stranger)
    openers = {
        "Agents": page.get_by_role("button", name="crane"),
        "Deals": column(stranger, "completed").get_by_role("link"),
        "Court": column(stranger, "resolved").get_by_role("link"),
        "Mesh": page.get_by_role("region", name="Conversations", exact=True).get_by_role("link"),
    }
    for view, opener in openers.items():
        await open_view(stranger, view)
        await opener.wait_for()
        await check(stranger)
        await opener.click()
        await page.get_by_role("complementary").get_by_role("heading", level=3).first.wait_for()
        await check(stranger)
    await open_view(stranger, "Operator")
    await page.get_by_label("Admin key").fill(ADMIN_KEY)
    await page.keyboard.press("Enter")
    for part in ("Numbers", "Connections", "Message of the day"):
        await page.get_by_role("link", name=part, exact=True).click()
        await page.get_by_role("region", name=part, exact=True).wait_for()
        await check(stranger)

"""Mesh on the page, in a real browser: beacons, conversations with their state lit, escrow, the ledger."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import FilePayload, expect

from moothall import PrivateKey
from moothall.identity.keyfile import file_bytes
from moothall.market.conversations import ORDERS, TRANSITIONS
from moothall.mesh import Conversation, MeshAgent, Message
from tests.client.meeting import Heard, soon
from tests.support.npm import fetched
from tests.support.server import ADMIN_KEY, HallProcess, run_moothall, running_hall
from tests.web.conftest import NewVisitor
from tests.web.test_people import HOSTILE, PHONE, WIDE, check

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]


def key_of(name: str) -> PrivateKey:
    return PrivateKey(sha256(f"the mesh of {name}".encode()).digest())


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    environment = {"MOOTHALL_ADMIN_KEY": ADMIN_KEY}
    folder = tmp_path_factory.mktemp("hall")
    with running_hall(folder, "--set", "public_deals=true", environment=environment) as running:
        yield running


class Deal:
    """Ada has put 2.5 credits aside for Ben, who has delivered nothing yet."""

    def __init__(self, ada: Conversation, ben: Conversation) -> None:
        self.ada = ada
        self.ben = ben


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def deal(hall: HallProcess) -> AsyncIterator[Deal]:
    words = ("ledger", "deposit", key_of("ada").public.raw.hex(), "10", "--data-dir", str(hall.data_dir))
    result = await asyncio.to_thread(run_moothall, hall.folder, *words)
    assert result.returncode == 0, result.stderr
    ada, ben = MeshAgent("ada", key=key_of("ada")), MeshAgent("ben <b>x</b>", key=key_of("ben"))
    offers: Heard[Message] = Heard()
    ben.on_propose(offers)
    async with ada.connected(hall.url), ben.connected(hall.url):
        mine = await ada.propose(ben.id, HOSTILE["markup"], amount=2_500_000)
        theirs = (await offers.next()).conversation
        assert theirs is not None
        await theirs.accept()
        await soon(mine.wait_for("COMMITTED"))
        yield Deal(mine, theirs)


async def test_the_diagram_is_that_of_the_specification(new_visitor: NewVisitor) -> None:
    visitor = await new_visitor("#/mesh")
    drawn: list[dict[str, Any]] = await visitor.page.evaluate(
        "async () => (await import('/page/views/mesh/diagram.js')).STEPS"
    )
    leading = {
        (before, event, after)
        for (before, event), after in TRANSITIONS.items()
        if event not in ORDERS and (before != after or event == "COUNTER")
    }
    assert {(step["from"], step["by"], step["to"]) for step in drawn} == leading


async def test_beacons_and_a_conversation_with_its_state_lit(new_visitor: NewVisitor, deal: Deal) -> None:
    person = await new_visitor()
    page = person.page
    await page.clock.install()  # so that the next question of the page need not be waited for
    await page.reload()
    await person.join("looker")  # strangers get the same answer for a second
    await page.get_by_role("link", name="Mesh", exact=True).click()
    beacons = page.get_by_role("region", name="Beacons")
    await expect(beacons.get_by_role("listitem")).to_have_count(2)
    await expect(beacons.get_by_role("listitem").filter(has_text="ben <b>x</b>")).to_be_visible()
    await expect(page.get_by_role("img", name="1 COMMITTED")).to_be_visible()
    await page.get_by_label("State", exact=True).select_option("CLOSED")
    await expect(page.get_by_text("There are none.")).to_be_visible()
    await page.get_by_label("State", exact=True).select_option("COMMITTED")
    row = page.get_by_role("region", name="Conversations", exact=True).get_by_role("link")
    await expect(row).to_contain_text("2.5 credits")
    await row.focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Conversation", exact=True)).to_be_focused()
    await expect(page.get_by_role("img", name="The current state is COMMITTED.")).to_be_visible()
    await expect(page.locator(".diagram .lit")).to_have_text("COMMITTED")
    detail = page.get_by_role("complementary", name="One conversation")
    await expect(detail.get_by_text("not yet")).to_be_visible()
    await expect(detail.get_by_role("listitem")).to_contain_text(["PROPOSE from ada", "ACCEPT from ben"])

    await deal.ben.deliver("Guten Tag")
    await page.clock.fast_forward(5000)
    await expect(page.locator(".diagram .lit")).to_have_text("DELIVERED")
    await expect(detail.get_by_role("listitem")).to_have_count(3)
    await deal.ada.approve()
    await page.clock.fast_forward(5000)
    await expect(page.locator(".diagram .lit")).to_have_text("RESOLVED")
    await expect(detail.get_by_text("paid to the provider")).to_be_visible()


async def test_a_person_sees_their_own_credits_and_the_operator_all(
    new_visitor: NewVisitor, deal: Deal
) -> None:
    visitor = await new_visitor("#/mesh")
    page = visitor.page
    ledger = page.get_by_role("region", name="Ledger")
    await expect(ledger.get_by_text("Join with a key to see your own credits.")).to_be_visible()
    await expect(page.get_by_role("link", name="Operator")).to_have_count(1)  # that of the navigation
    key = key_of("nobody")
    file = file_bytes({"publicKey": key.public.pem, "privateKey": key.to_pem(), "name": "nobody"})
    chooser = page.get_by_label("Use a key file")
    await chooser.set_input_files(FilePayload(name="x.json", mimeType="application/json", buffer=file))
    await expect(ledger.get_by_text("0 credits")).to_be_visible()
    await expect(ledger.get_by_text("There are no entries.")).to_be_visible()
    await page.get_by_role("link", name="Operator", exact=True).click()
    await page.get_by_label("Admin key").fill(ADMIN_KEY)
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="Forget the key").wait_for()
    await page.get_by_role("link", name="Mesh", exact=True).click()
    await expect(ledger.get_by_role("row").filter(has_text="deposit")).to_contain_text("+10")
    lock = ledger.get_by_role("row").filter(has_text="lock")
    await expect(lock).to_contain_text("escrow of ada")
    await lock.get_by_role("link", name="conversation").click()
    await expect(page).to_have_url(f"{page.url.partition('#')[0]}#/mesh/{deal.ada.id}")


async def test_a_conversation_that_is_not_there(new_visitor: NewVisitor) -> None:
    visitor = await new_visitor(f"#/mesh/{'0' * 32}")
    visitor.forgive_lost_connections()  # the browser logs the 404
    await expect(
        visitor.page.get_by_text("There is no conversation with this id that you may see")
    ).to_be_visible()


@pytest.mark.parametrize(
    "screen", [{**PHONE, "color_scheme": "dark"}, WIDE], ids=["phone, dark", "wide, light"]
)
async def test_axe_finds_nothing(new_visitor: NewVisitor, deal: Deal, screen: dict[str, object]) -> None:
    rules = (fetched(Path(__file__).parent / "axe") / "node_modules/axe-core/axe.min.js").read_text()
    visitor = await new_visitor("#/mesh", **screen)
    await visitor.page.evaluate(rules)
    await visitor.page.get_by_role("region", name="Conversations", exact=True).get_by_role("link").wait_for()
    await check(visitor)
    await visitor.page.evaluate(f"location.hash = '#/mesh/{deal.ada.id}'")
    await visitor.page.get_by_text("Put aside").wait_for()
    await check(visitor)
    assert await visitor.page.locator("main img, main script, main [onerror]").count() == 0

"""A hall that keeps deals to their parties: what a person with a key sees of the mesh, and what a stranger does."""

from collections.abc import AsyncIterator, Iterator
from hashlib import sha256

import pytest
import pytest_asyncio
from playwright.async_api import FilePayload, expect

from moothall import PrivateKey
from moothall.identity.keyfile import file_bytes
from moothall.mesh import Conversation, MeshAgent, Message
from tests.client.meeting import Heard, soon
from tests.support.server import HallProcess, run_moothall, running_hall
from tests.web.conftest import NewVisitor

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]


def key_of(name: str) -> PrivateKey:
    return PrivateKey(sha256(f"in private, {name}".encode()).digest())


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def talks(hall: HallProcess) -> AsyncIterator[list[Conversation]]:
    """Ada has a conversation with Ben, and Cleo has one with him."""
    for name in ("ada", "cleo"):
        words = ("ledger", "deposit", key_of(name).public.raw.hex(), "10", "--data-dir", str(hall.data_dir))
        assert run_moothall(hall.folder, *words).returncode == 0
    ben = MeshAgent("ben", key=key_of("ben"))
    offers: Heard[Message] = Heard()
    ben.on_propose(offers)
    begun = []
    async with ben.connected(hall.url):
        for name, amount in (("ada", 2_500_000), ("cleo", 1_000_000)):
            async with MeshAgent(name, key=key_of(name)).connected(hall.url) as asker:
                talk = await asker.propose(ben.id, f"a secret of {name}", amount=amount)
                offered = (await offers.next()).conversation
                assert offered is not None
                await offered.accept()
                await soon(talk.wait_for("COMMITTED"))
                begun.append(talk)
        yield begun


async def test_a_stranger_sees_how_many_conversations_there_are(
    new_visitor: NewVisitor, talks: list[Conversation]
) -> None:
    stranger = await new_visitor("#/mesh")
    page = stranger.page
    await expect(page.get_by_role("img", name="2 COMMITTED")).to_be_visible()
    await expect(page.get_by_text("Conversations of others are counts.")).to_be_visible()
    region = page.get_by_role("region", name="Conversations", exact=True)
    await expect(region.get_by_role("link")).to_have_count(0)
    await expect(page.get_by_text("a secret of")).to_have_count(0)
    await expect(page.get_by_role("link", name="Operator")).to_have_count(1)
    stranger.forgive_lost_connections()  # the browser logs the 404
    await stranger.go(f"#/mesh/{talks[0].id}")
    await expect(page.get_by_text("There is no conversation with this id that you may see")).to_be_visible()


async def test_a_person_sees_their_own_conversation(
    new_visitor: NewVisitor, talks: list[Conversation]
) -> None:
    key = key_of("ada")
    file = file_bytes({"publicKey": key.public.pem, "privateKey": key.to_pem(), "name": "ada"})
    person = await new_visitor("#/mesh")
    page = person.page
    chooser = page.get_by_label("Use a key file")
    await chooser.set_input_files(FilePayload(name="ada.json", mimeType="application/json", buffer=file))
    region = page.get_by_role("region", name="Conversations", exact=True)
    await expect(region.get_by_text("Yours. Those of others are counts.")).to_be_visible()
    await expect(region.get_by_role("link")).to_contain_text("2.5 credits")
    await region.get_by_role("link").click()
    await expect(page.get_by_role("img", name="The current state is COMMITTED.")).to_be_visible()
    detail = page.get_by_role("complementary", name="One conversation")
    await expect(detail.get_by_role("listitem")).to_contain_text(["PROPOSE", "ACCEPT"])
    await expect(detail.get_by_text("2.5 credits").first).to_be_visible()
    await page.get_by_role("link", name="Close").click()
    await expect(page.get_by_role("region", name="Ledger").get_by_text("7.5 credits")).to_be_visible()

"""Channels on the page, in a real browser: what watchers see, and what people say, hear and get."""

import asyncio
import re
import time
from pathlib import Path

import pytest
from playwright.async_api import FilePayload, WebSocketRoute, expect

from moothall import Arrival, FileOffer, Typing
from tests.support.server import HallProcess
from tests.web.conftest import NewAgent, NewVisitor

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]


async def test_a_watcher_sees_what_is_said_and_is_not_seen(
    new_visitor: NewVisitor, new_agent: NewAgent
) -> None:
    agent = await new_agent("planner")
    arrived: asyncio.Queue[str | None] = asyncio.Queue()

    @agent.on_join
    async def note(arrival: Arrival) -> None:
        arrived.put_nowait(arrival.member.name)

    await agent.send("#general", "said before")
    watcher = await new_visitor()
    await expect(watcher.message("said before")).to_have_count(1)
    await agent.send("#general", "said *after* that")
    await expect(watcher.message("said after that").locator("em")).to_have_text("after")
    await expect(watcher.entry).to_have_count(0)
    for name in ("Send", "Reply", "Make a channel", "Leave"):
        await expect(watcher.page.get_by_role("button", name=name, exact=True)).to_have_count(0)
    assert [each.name for each in await agent.members("#general")] == ["planner"]
    assert [each.name for each in await agent.agents()] == ["planner"]
    (general,) = [each for each in await agent.channels() if each.name == "#general"]
    assert general.members == 1
    await expect(watcher.page.get_by_role("button", name="1 member", exact=True)).to_be_visible()
    await watcher.join("newcomer")
    assert await asyncio.wait_for(arrived.get(), 30) == "newcomer"  # the first that was announced


async def test_channels_of_others_appear(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    agent = await new_agent("founder")
    watcher, person = await new_visitor(), await new_visitor()
    await person.join("settler")
    await person.until("state.rooms.get('#general')?.isJoined")
    await agent.create_channel("#founded")
    for visitor in (watcher, person):
        await expect(visitor.page.get_by_role("tab", name="founded")).to_be_visible()
    await person.page.get_by_role("tab", name="founded").click()
    await person.page.get_by_role("button", name="Enter", exact=True).click()
    await person.say("a new place")
    await expect(watcher.page.get_by_role("tab", name="founded").get_by_role("img")).to_be_visible()


async def test_a_person_and_an_agent_talk(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    agent = await new_agent("quill")
    heard = agent.messages("#general")
    person = await new_visitor()
    await person.join("ada")
    await person.say("hello **quill**")
    message = await asyncio.wait_for(anext(heard), 30)
    assert (message.content, message.sender_name, message.is_human) == ("hello **quill**", "ada", True)
    await message.reply("hello yourself")
    await expect(person.message("hello yourself")).to_have_count(1)
    await expect(person.message("hello quill").get_by_role("img", name="Seen")).to_be_visible()
    await person.message("hello quill").get_by_role("button", name="1 reply").click()
    thread = person.page.get_by_role("complementary", name="Thread")
    await expect(thread.get_by_role("article")).to_have_count(2)
    await thread.get_by_role("textbox", name="Answer in the thread").fill("and a third word")
    await person.page.keyboard.press("Enter")
    third = await asyncio.wait_for(anext(heard), 30)
    assert (third.content, third.in_reply_to) == ("and a third word", message.id)
    await expect(thread.get_by_role("article")).to_have_count(3)
    await person.page.keyboard.press("Escape")
    await expect(thread).to_have_count(0)


async def test_who_responds_and_who_yielded(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    asker, early, late = [await new_agent(name) for name in ("asker", "early", "late")]
    watcher = await new_visitor()
    asked = await asker.send("#general", "who is first?")
    assert asked is not None
    question = watcher.message("who is first?")
    await expect(question).to_have_count(1)
    now = time.time()
    assert await late.claim(asked, "#general", now)
    await expect(question).to_contain_text("late is responding")
    assert await early.claim(asked, "#general", now - 1)
    await expect(question).to_contain_text("early is responding")
    await expect(question).to_contain_text("late yielded")
    await early.send("#general", "me", in_reply_to=asked)
    await expect(question).not_to_contain_text("is responding")
    await expect(question).to_contain_text("late yielded")
    await expect(question.get_by_role("button", name="1 reply")).to_be_visible()


async def test_typing_unread_and_mentions(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    agent = await new_agent("scribe", channels=("#general", "#agents"))
    typing: asyncio.Queue[str] = asyncio.Queue()

    @agent.on_typing
    async def note(event: Typing) -> None:
        typing.put_nowait(event.name)

    person = await new_visitor("#/channels/general")
    await person.join("grace")
    await person.until("state.rooms.get('#agents')?.isJoined")
    await agent.typing("#general")
    await expect(person.page.get_by_text("scribe is typing")).to_be_visible()
    await person.entry.press("h")
    assert await asyncio.wait_for(typing.get(), 30) == "grace"
    tab = person.page.get_by_role("tab", name="agents")
    await agent.send("#agents", "nothing for you")
    await expect(tab.get_by_role("img", name="1 unread", exact=True)).to_be_visible()
    await agent.send("#agents", "this is for @grace")
    await expect(tab.get_by_role("img", name="2 unread, 1 for you")).to_be_visible()
    await expect(person.page).to_have_title(re.compile(r"^\(1\) "))
    await tab.click()
    await expect(person.message("this is for").locator(".mention.me")).to_have_text("@grace")
    await expect(person.log.get_by_text("New", exact=True)).to_be_visible()
    await expect(tab.get_by_role("img")).to_have_count(0)


async def test_direct_messages(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    agent = await new_agent("confidant")
    heard = agent.messages(dms=True)
    person = await new_visitor(f"#/channels/{agent.address}")
    await person.join("mary")
    await person.say("between us")
    message = await asyncio.wait_for(anext(heard), 30)
    assert (message.content, message.is_dm) == ("between us", True)
    await message.reply("of course")
    await expect(person.message("of course")).to_have_count(1)
    await expect(person.page.get_by_role("tab", name="confidant")).to_be_visible()


async def test_channels_are_made_entered_and_left(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    agent = await new_agent("guest")
    invitations = agent.messages(dms=True)
    person = await new_visitor()
    await person.join("host")
    await person.page.get_by_role("button", name="Make a channel").click()
    await person.page.get_by_label("Its name").fill("salon")
    await person.page.get_by_label("By invitation only").check()
    await person.page.get_by_role("button", name="Make it").click()
    await expect(person.page.get_by_role("heading", name="#salon")).to_be_visible()
    await person.page.get_by_role("button", name="Invite").click()
    dialog = person.page.get_by_role("dialog")
    await dialog.get_by_label("Name or @id").fill("guest")
    await dialog.get_by_role("button", name="Invite").click()
    assert "#salon" in (await asyncio.wait_for(anext(invitations), 30)).content
    await agent.join("#salon")
    await expect(person.page.get_by_role("button", name="2 members")).to_be_visible()
    await person.page.get_by_role("button", name="Leave").click()
    await expect(person.page.get_by_text("You are not in #salon.")).to_be_visible()


async def test_search_finds_what_is_loaded(new_visitor: NewVisitor, new_agent: NewAgent) -> None:
    agent = await new_agent("librarian", channels=("#discovery",))
    await agent.send("#discovery", "the needle is here")
    for number in range(10):
        await agent.send("#discovery", f"hay {number}")
    watcher = await new_visitor("#/channels/general")
    await watcher.until("state.rooms.get('#discovery')?.messages.length")
    await agent.send("#discovery", "one more straw")
    await watcher.until(
        "state.rooms.get('#discovery').messages.some(({ content }) => content === 'one more straw')"
    )
    await watcher.page.keyboard.press("/")
    await watcher.page.keyboard.type("more straw")
    await expect(watcher.page.get_by_role("option")).to_have_count(1)
    await watcher.page.keyboard.press("Enter")
    await expect(watcher.page.get_by_role("heading", name="#discovery")).to_be_visible()
    await expect(watcher.message("one more straw")).to_be_in_viewport()
    await watcher.page.keyboard.press("Control+k")
    await expect(watcher.page.get_by_role("textbox", name="Search")).to_be_focused()
    await watcher.page.keyboard.type("no such word")
    await expect(watcher.page.get_by_text("Nothing that is loaded says this.")).to_be_visible()


async def test_files_are_sent_and_received(
    new_visitor: NewVisitor, new_agent: NewAgent, tmp_path: Path
) -> None:
    agent = await new_agent("porter")

    @agent.on_file_offer
    async def take(offer: FileOffer) -> None:
        await offer.accept(tmp_path / "inbox")

    person = await new_visitor(f"#/channels/{agent.address}")
    await person.join("sender")
    photo = bytes(range(256)) * 1200  # two chunks
    await person.page.get_by_label("Attach files").set_input_files(
        [
            FilePayload(name="notes.txt", mimeType="text/plain", buffer="naïve\n".encode()),
            FilePayload(name="photo.png", mimeType="image/png", buffer=photo),
        ]
    )
    await expect(person.page.get_by_text("Delivered, and its hash is right")).to_be_visible()
    assert (tmp_path / "inbox" / "notes.txt").read_text() == "naïve\n"
    assert (tmp_path / "inbox" / "photo.png").read_bytes() == photo

    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "answer.txt").write_text("no final newline")
    sending = asyncio.create_task(agent.send_files(await person.state("state.me.id"), tmp_path / "out"))
    await person.page.get_by_role("button", name="Receive").click()
    await expect(person.page.get_by_text("Here, and its hash is right")).to_be_visible()
    assert (await sending).state == "delivered"
    async with person.page.expect_download() as downloading:
        await person.page.get_by_role("button", name="Save out/answer.txt").click()
    download = await downloading.value
    assert download.suggested_filename == "answer.txt"
    await download.save_as(tmp_path / "saved.txt")
    assert (tmp_path / "saved.txt").read_text() == "no final newline"


async def test_files_that_are_dropped_in_a_channel_go_to_one_agent(
    new_visitor: NewVisitor, new_agent: NewAgent, tmp_path: Path
) -> None:
    agent = await new_agent("courier")
    offered: asyncio.Queue[FileOffer] = asyncio.Queue()

    @agent.on_file_offer
    async def answer(offer: FileOffer) -> None:
        offered.put_nowait(offer)
        if offered.qsize() > 1:
            await offer.accept(tmp_path / "inbox")
        else:
            await offer.reject("no room")

    person = await new_visitor("#/channels/general")
    await person.join("dropper")
    dropped = await person.page.evaluate_handle(
        "() => { const data = new DataTransfer(); data.items.add(new File(['x'], 'dropped.txt')); return data; }"
    )
    dialog = person.page.get_by_role("dialog")
    for outcome in ("Declined: no room", "Delivered, and its hash is right"):
        await person.go("#/channels/general")
        await person.page.dispatch_event("section.conversation", "drop", {"dataTransfer": dropped})
        await dialog.get_by_label("Agent").select_option(agent.address)
        await dialog.get_by_role("button", name="Offer").click()
        await expect(person.page.get_by_text(outcome)).to_be_visible()
    assert [file.name for file in (await asyncio.wait_for(offered.get(), 30)).files] == ["dropped.txt"]
    assert (tmp_path / "inbox" / "dropped.txt").read_text() == "x"


async def test_a_watcher_notices_a_dead_connection(new_visitor: NewVisitor) -> None:
    """It has no end: the network is another one, or the computer slept."""
    watcher = await new_visitor()
    page = watcher.page
    sent: list[str | bytes] = []
    connected = asyncio.Event()

    def keep_silent(socket: WebSocketRoute) -> None:
        socket.on_message(lambda text: sent.append(text))
        connected.set()

    await page.clock.install()
    await page.route_web_socket("**/watch", keep_silent)
    await page.reload()
    await asyncio.wait_for(connected.wait(), 30)
    lost = page.get_by_text("The hall is not reachable.")
    for _ in range(5):  # minutes; the page learns during the first that the socket is open
        await page.clock.run_for(60_000)
        if await lost.is_visible():
            break
    await expect(lost).to_be_visible()
    assert '{"type":"PING"}' in sent


async def test_nothing_is_doubled_when_the_hall_dies(
    new_visitor: NewVisitor, new_agent: NewAgent, hall: HallProcess
) -> None:
    agent = await new_agent("survivor")
    person = await new_visitor("#/channels/general")
    watcher = await new_visitor("#/channels/general")
    person.forgive_lost_connections()
    watcher.forgive_lost_connections()
    await person.join("phoenix")
    await person.say("before the fall")
    await expect(person.message("before the fall").get_by_role("img", name="Delivered")).to_be_visible()
    address = await person.state("state.me.id")
    hall.use("--port", str(hall.port))
    hall.kill()
    await expect(person.page.get_by_text("Trying again")).to_be_visible()
    await person.say("into the void")
    hall.restart()
    # The page may be back before the agent is: then there is a receipt, but no one to deliver to.
    received = re.compile("Delivered|No one else is here")
    await expect(person.message("into the void").get_by_role("img", name=received)).to_be_visible()
    assert await person.state("state.me.id") == address
    await expect(watcher.message("into the void")).to_have_count(1)
    await expect(person.page.get_by_role("button", name="2 members")).to_be_visible()
    await agent.send("#general", "all is well")
    for visitor in (person, watcher):
        await expect(visitor.message("all is well")).to_have_count(1)
        await expect(visitor.message("before the fall")).to_have_count(1)
        await expect(visitor.message("into the void")).to_have_count(1)

"""The terminal client, driven key by key against a real hall."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.widgets import Footer

from moothall import Agent, Displaced, Message
from moothall.settings import PROFILES
from moothall.tui.history import History
from moothall.tui.widgets import MAX_TEXT
from tests.support.faults import FaultProxy
from tests.tui.desk import ALICE, PATIENCE, desk, hall

# the screen


async def test_eighty_columns_show_everything(url: str) -> None:
    async with desk(url, "#general", "#agents") as here:
        await here.until(lambda: len(here.rooms) == 2)
        assert here.rooms == [" 1 #general", " 2 #agents"]
        assert here.shown("members").splitlines() == ["● ada human", "● bob"]
        assert here.shown("title") == "#general  2 here"
        assert here.shown("status") == f"connected | moothall | ada {here.app.agent.address}"
        assert here.app.query_one(History).size.width >= 40
        assert here.app.query_one(Footer).region.bottom == 24
        assert here.entry.has_focus


@pytest.mark.parametrize(
    ("width", "rooms", "members"),
    [(140, True, True), (80, True, True), (60, True, False), (30, False, False)],
)
async def test_a_narrow_terminal_loses_its_side_panes(
    url: str, width: int, rooms: bool, members: bool
) -> None:
    async with desk(url, size=(width, 24)) as here:
        assert here.app.query_one("#rooms-pane").display is rooms
        assert here.app.query_one("#members-pane").display is members
        assert here.entry.region.right <= width
        assert here.entry.has_focus


async def test_lines_are_wrapped_again_when_the_terminal_changes(url: str) -> None:
    async with desk(url, before="word " * 30) as here:
        await here.until_seen("word")
        wrapped = len(here.history)
        await here.pilot.resize_terminal(200, 24)
        await here.until(lambda: len(here.history) < wrapped)
        assert " ".join(" ".join(here.history).split()).count("word") == 30


async def test_agents_see_that_a_person_is_there(url: str) -> None:
    async with desk(url) as here:
        assert {member.name: member.is_human for member in await here.bob.members("#general")} == {
            "ada": True,
            "bob": False,
        }


async def test_a_key_shows_as_verified(url: str) -> None:
    async with desk(url, key=ALICE) as here:
        assert f"ada✓ @{ALICE.public.agent_id()}" in here.shown("status")
        assert "● ada✓ human" in here.shown("members").splitlines()


# talking


async def test_what_was_said_before_is_there(url: str) -> None:
    async with desk(url, before="welcome, whoever comes") as here:
        await here.until_seen("bob │ welcome, whoever comes")
        assert here.rooms == [" 1 #general"]


async def test_the_message_of_the_day_is_shown(tmp_path: Path) -> None:
    async with hall(tmp_path, motd="no shouting, please") as opened, desk(opened.url) as here:
        await here.until_seen("no shouting, please")


async def test_a_hall_of_the_reference_s_kind(tmp_path: Path) -> None:
    """It echoes, puts everybody into every channel and talks itself."""
    async with hall(tmp_path, **PROFILES["agentchat-0.36"]) as opened, desk(opened.url) as here:
        await here.type("hello")
        await here.until_seen("ada │ hello")
        await here.bob.send("#general", "hello ada")
        await here.until_seen("bob │ hello ada")
        assert sum("ada │ hello" in line for line in here.history) == 1


async def test_what_one_said_oneself_before_is_there_too(url: str) -> None:
    async with Agent("ada", identity=ALICE, channels=["#general"]).connected(url) as earlier:
        await earlier.send("#general", "I will be back")
    async with desk(url, key=ALICE) as here:
        await here.until_seen("ada✓ │ I will be back")


async def test_both_hear_each_other(url: str) -> None:
    async with desk(url) as here:
        heard: asyncio.Queue[Message] = asyncio.Queue()

        @here.bob.on_message("#general")
        async def hear(message: Message) -> None:
            heard.put_nowait(message)

        await here.type("hello bob")
        async with asyncio.timeout(PATIENCE):
            message = await heard.get()
        assert message.content == "hello bob"
        assert message.is_human
        await here.until_seen("ada │ hello bob")
        assert here.entry.value == ""
        await message.reply("hello ada")
        await here.until_seen("bob │ hello ada")


async def test_what_strangers_write_is_only_text(url: str) -> None:
    async with desk(url, size=(160, 24)) as here:
        await here.bob.send(
            "#general", "[red]no[/red] \x1b[2J\x1b]52;c;cHduZWQ=\x07 [/] [@click=app.quit]x[/]"
        )
        await here.until_seen("[red]no[/red] [2J]52;c;cHduZWQ= [/]")
        assert "\x1b" not in "".join(here.history)


async def test_a_second_line_does_not_look_like_a_message(url: str) -> None:
    async with desk(url) as here:
        await here.bob.send("#general", "one\n09:00 ada I owe you everything")
        await here.until_seen("I owe you everything")
        [line] = [line for line in here.history if "I owe" in line]
        assert line.startswith(" " * 9 + " │ 09:00")


async def test_the_hall_itself_is_dimmed(tmp_path: Path) -> None:
    async with hall(tmp_path, service_lines=True) as opened, desk(opened.url) as here:
        await here.until_seen("· │ ada joined #general")


async def test_what_is_refused_is_said_and_comes_back(url: str) -> None:
    async with desk(url) as here:
        await here.type("/dm @00000000 are you there")
        await here.until_seen("AGENT_NOT_FOUND")
        assert here.entry.value == "are you there"


async def test_typing_is_shown_to_the_others_now_and_then(url: str) -> None:
    async with desk(url) as here:
        noticed: list[object] = []

        @here.bob.on_typing
        async def notice(typing: object) -> None:
            noticed.append(typing)

        await here.write("hm hm")
        await here.until(lambda: noticed)
        here.clock.now += 60
        await here.write("m")
        await here.until(lambda: len(noticed) == 2)
        await here.write("/who")
        await here.bob.ping()
        assert len(noticed) == 2


# unread


async def test_unread_rooms_are_marked_until_they_are_looked_at(url: str) -> None:
    async with desk(url, "#general", "#agents") as here:
        await here.until(lambda: len(here.rooms) == 2)
        await here.bob.send("#agents", "one")
        await here.until(lambda: "•2 #agents 1" in here.rooms)
        await here.bob.send("#agents", "two, @ada")
        await here.until(lambda: "!2 #agents 2" in here.rooms)
        assert not here.sees("two")
        await here.pilot.press("ctrl+n")
        await here.until_seen("two, @ada")
        await here.until(lambda: here.rooms == [" 1 #general", " 2 #agents"])
        assert here.shown("title") == "#agents  2 here"
        await here.pilot.press("ctrl+p")
        await here.until(lambda: not here.sees("two"))


async def test_a_direct_message_opens_a_talk(url: str) -> None:
    async with desk(url) as here:
        await here.bob.send(here.app.agent.address, "just you and me")
        await here.until(lambda: "!2 @bob 1" in here.rooms)
        heard: asyncio.Queue[Message] = asyncio.Queue()
        here.bob.on_message(dms=True)(_put(heard))
        await here.pilot.press("ctrl+n")
        await here.type("and nobody else")
        async with asyncio.timeout(PATIENCE):
            message = await heard.get()
        assert message.is_dm
        assert message.content == "and nobody else"
        await here.until_seen("ada │ and nobody else")


def _put(heard: "asyncio.Queue[Message]") -> Any:
    async def put(message: Message) -> None:
        heard.put_nowait(message)

    return put


# who is there, and what they do


async def test_people_come_and_go_and_change(url: str) -> None:
    async with desk(url) as here:
        async with Agent("carol", channels=["#general"]).connected(url) as carol:
            await here.until(lambda: "● carol" in here.shown("members"))
            await carol.set_presence("away", "lunch")
            await here.until(lambda: "○ carol" in here.shown("members"))
            await carol.set_nick("caroline")
            await here.until(lambda: "○ caroline" in here.shown("members"))
            await here.until_seen("carol is caroline now")
        await here.until(lambda: "caroline" not in here.shown("members"))
        await here.until(lambda: here.shown("title") == "#general  2 here")


async def test_who_is_answering_is_shown_until_the_answer(url: str) -> None:
    async with desk(url) as here:
        assert await here.bob.claim("some-question", "#general")
        await here.until(lambda: here.shown("activity") == "bob is answering…")
        await here.until(lambda: "● bob …" in here.shown("members").splitlines())
        await here.bob.send("#general", "the answer is 42")
        await here.until_seen("the answer is 42")
        await here.until(lambda: here.shown("activity") == "")


@pytest.mark.parametrize("end", ["released", "gone", "expired"])
async def test_a_claim_that_ended_is_not_shown(tmp_path: Path, end: str) -> None:
    ttl = 1.0 if end == "expired" else 45.0
    async with hall(tmp_path, floor_ttl=ttl) as opened, desk(opened.url) as here:
        assert await here.bob.claim("some-question", "#general")
        await here.until(lambda: here.shown("activity") == "bob is answering…")
        if end == "released":
            await here.bob.release("some-question", "#general")
        elif end == "gone":
            await here.bob.close()
        await here.until(lambda: here.shown("activity") == "")


async def test_a_person_sees_who_works_on_the_question(url: str) -> None:
    """The hall gives nobody the floor for a person's question, but relays the claims."""
    async with desk(url) as here:
        question = await here.app.agent.send("#general", "who knows?")
        assert question is not None
        assert await here.bob.claim(question, "#general")
        await here.until(lambda: here.shown("activity") == "bob is answering…")


async def test_who_is_typing_is_shown(url: str) -> None:
    async with desk(url) as here:
        await here.bob.typing("#general")
        await here.until(lambda: here.shown("activity") == "bob is typing…")


# the entry


async def test_tab_completes_names_and_commands(url: str) -> None:
    async with desk(url) as here:
        await here.write("thanks bo")
        await here.pilot.press("tab")
        assert here.entry.value == "thanks @bob "
        assert here.entry.has_focus
        here.entry.clear()
        await here.write("/jo")
        await here.pilot.press("tab")
        await here.write("disc")
        await here.until(lambda: "#discovery" in here.app.known_channels)
        await here.pilot.press("tab")
        assert here.entry.value == "/join #discovery "


async def test_a_click_leaves_the_keys_to_the_entry(url: str) -> None:
    async with desk(url) as here:
        for place in ("#history", "#members", "#status"):
            await here.pilot.click(place)
            await here.pilot.pause()
            assert here.entry.has_focus


async def test_up_brings_back_what_was_said(url: str) -> None:
    async with desk(url) as here:
        await here.type("one")
        await here.type("two")
        await here.write("thr")
        seen = []
        for key in ("up", "up", "up", "down", "down"):
            await here.pilot.press(key)
            seen.append(here.entry.value)
        assert seen == ["two", "one", "one", "two", "thr"]


async def test_pasted_lines_are_one_message(url: str) -> None:
    async with desk(url) as here:
        heard: asyncio.Queue[Message] = asyncio.Queue()
        here.bob.on_message("#general")(_put(heard))
        here.entry.post_message(events.Paste("one\r\ntwo\x1b[2J\rthree"))
        await here.until(lambda: here.entry.value == "one\ntwo[2J\nthree")
        await here.until(lambda: here.entry.size.height == 3)
        await here.pilot.press("enter")
        async with asyncio.timeout(PATIENCE):
            assert (await heard.get()).content == "one\ntwo[2J\nthree"
        await here.until(lambda: here.entry.size.height == 1)


async def test_a_new_line_in_a_message(url: str) -> None:
    async with desk(url) as here:
        await here.write("one")
        await here.pilot.press("ctrl+j")
        await here.write("two")
        assert here.entry.value == "one\ntwo"
        await here.pilot.press("up")
        assert here.entry.cursor_location[0] == 0
        await here.write("bo")
        await here.pilot.press("tab")
        assert here.entry.value == "onebo\ntwo"
        await here.pilot.press("space", "b", "o", "tab")
        assert here.entry.value == "onebo @bob \ntwo"


async def test_an_enormous_paste_is_not_taken(url: str) -> None:
    async with desk(url) as here:
        here.entry.post_message(events.Paste("x" * (MAX_TEXT + 1)))
        await here.until_seen("65,537 characters")
        assert here.entry.value == ""


async def test_a_message_that_is_too_long_comes_back(url: str) -> None:
    async with desk(url) as here:
        await here.type("x" * 5000)
        await here.until(lambda: any("INVALID_MSG" in line for line in here.history))
        assert here.entry.value == "x" * 5000


# commands


async def test_join_and_leave(url: str) -> None:
    async with desk(url) as here:
        await here.type("/join agents")
        await here.until(lambda: here.shown("title").startswith("#agents"))
        assert here.app.agent.rooms == {"#general", "#agents"}
        await here.type("/leave")
        await here.until(lambda: here.rooms == [" 1 #general"])
        assert here.app.agent.rooms == {"#general"}
        await here.type("/join nowhere")
        await here.until_seen("CHANNEL_NOT_FOUND")
        assert here.rooms == [" 1 #general"]
        await here.type("/leave")
        await here.until(lambda: here.shown("title").startswith("no room"))
        await here.type("hello?")
        await here.until_seen("you are in no room")
        assert here.entry.value == "hello?"


async def test_dm_by_name(url: str) -> None:
    async with desk(url) as here:
        heard: asyncio.Queue[Message] = asyncio.Queue()
        here.bob.on_message(dms=True)(_put(heard))
        await here.type("/dm bob psst")
        async with asyncio.timeout(PATIENCE):
            assert (await heard.get()).content == "psst"
        await here.until_seen("ada │ psst")
        await here.until(lambda: here.shown("title") == f"@bob  {here.bob.address}")
        await here.type("/dm nobody psst")
        await here.until_seen("No agent here is called nobody")


async def test_a_name_that_several_have_needs_an_id(url: str) -> None:
    async with desk(url) as here, Agent("bob", channels=["#general"]).connected(url) as other:
        await here.until(lambda: here.shown("members").count("bob") == 2)
        await here.type("/dm bob psst")
        await here.until_seen("Several agents are called bob")
        await here.type(f"/dm {other.address}")
        await here.until(lambda: here.shown("title") == f"@bob  {other.address}")


async def test_nick_away_and_back(url: str) -> None:
    async with desk(url) as here:
        await here.type("/nick countess")
        await here.until(lambda: "countess" in here.shown("status"))
        await here.type("/away in the garden")
        await here.until(lambda: "○ countess" in here.shown("members"))
        [me] = [member for member in await here.bob.members("#general") if member.is_human]
        assert (me.name, me.presence, me.status_text) == ("countess", "away", "in the garden")
        await here.type("back again")
        await here.until(lambda: "● countess" in here.shown("members"))


async def test_who(url: str) -> None:
    async with desk(url, size=(120, 40)) as here:
        await here.type("/who")
        await here.until_seen(f"bob {here.bob.address} (online)")
        await here.type("/names")
        await here.until(lambda: sum("2 here" in line for line in here.history) == 2)


async def test_help_about_one_command(url: str) -> None:
    async with desk(url, size=(120, 40)) as here:
        await here.type("/help /part")
        await here.until_seen("/leave [CHANNEL]: leave this channel, or close this talk")
        await here.type("/help frobnicate")
        await here.until_seen("There is no command /frobnicate")


async def test_clear(url: str) -> None:
    async with desk(url, before="old news") as here:
        await here.until_seen("old news")
        await here.type("/clear")
        await here.until(lambda: here.history == [])


@pytest.mark.parametrize("way", ["/quit", "ctrl+c", "ctrl+q"])
async def test_leaving(url: str, way: str) -> None:
    async with desk(url) as here:
        if way.startswith("/"):
            await here.type(way)
        else:
            await here.pilot.press(way)
        await here.until(lambda: not here.app.is_running)
        assert here.app.return_value is None


async def test_leaving_in_the_middle_of_a_conversation(url: str) -> None:
    async with desk(url) as here:
        talking = [asyncio.create_task(here.bob.send("#general", f"line {number}")) for number in range(50)]
        await here.until_seen("line 1")
        await here.pilot.press("ctrl+c")
        await asyncio.gather(*talking)
        await here.until(lambda: not here.app.is_running)
        assert here.app.return_value is None


# the connection


async def test_a_lost_connection_comes_back_with_what_was_missed(tmp_path: Path) -> None:
    async with (
        hall(tmp_path) as opened,
        FaultProxy(opened.port.address[1]) as line,
        desk(line.url, "#general", "#agents", bob_url=opened.url, key=ALICE) as here,
    ):
        await here.until(lambda: len(here.rooms) == 2)
        await here.bob.send("#agents", "before")
        await here.until(lambda: "•2 #agents 1" in here.rooms)
        line.drop()
        await here.until_seen("the connection is lost")
        await here.bob.send("#agents", "meanwhile")
        await here.until_seen("connected again")
        await here.until(lambda: here.shown("status").startswith("connected"))
        await here.until(lambda: "•2 #agents 2" in here.rooms)
        await here.pilot.press("ctrl+n")
        await here.until_seen("meanwhile")
        assert sum("meanwhile" in text for text in here.history) == 1
        assert sum("before" in text for text in here.history) == 1


async def test_the_status_says_when_there_is_no_connection(url: str) -> None:
    async with desk(url) as here:
        here.app.disconnected()
        await here.until(lambda: here.shown("status").startswith("reconnecting…"))
        here.app.connected()
        await here.until(lambda: here.shown("status").startswith("connected"))


async def test_being_displaced_ends_it_with_the_reason(url: str) -> None:
    async with desk(url, key=ALICE) as here, Agent("ada", identity=ALICE).connected(url):
        await here.until(lambda: not here.app.is_running)
        assert isinstance(here.app.return_value, Displaced)


async def test_files_are_offered_to_a_person(url: str, tmp_path: Path) -> None:
    (tmp_path / "report").write_text("done\n")
    async with desk(url) as here:
        await here.bob.offer_files(here.app.agent.address, tmp_path / "report")
        await here.until_seen("offers you a file")

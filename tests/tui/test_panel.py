"""Deals and court in the terminal client: what is shown is what is signed, with a real hall behind it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Button, Input, OptionList, RadioSet

from moothall import Agent, PrivateKey, Proposal
from moothall.tui.panel import Panel
from moothall.tui.signature import Signature
from moothall.tui.widgets import Plain
from tests.tui.desk import ALICE, Desk, desk, drawn_screen, hall

pytestmark = pytest.mark.slow

CAROL, DAVE, ERIN, FRANK = (PrivateKey(bytes([number]) * 32) for number in range(1, 5))


class Recorder(PrivateKey):
    """Remembers what it signs."""

    __slots__ = ()
    signed: list[str] = []  # noqa: RUF012  # one key, one test

    def sign(self, text: str) -> str:
        self.signed.append(text)
        return super().sign(text)


@asynccontextmanager
async def deals(folder: Path, **options: Any) -> AsyncIterator[tuple[Desk, Agent]]:
    """Ada in the terminal, with a key that remembers, and carol, who offers deals."""
    Recorder.signed.clear()
    carol = Agent("carol", identity=CAROL, channels=["#general"])
    key = Recorder(bytes(range(32)))
    async with (
        hall(folder, court_arbiter_transactions=0) as opened,
        carol.connected(opened.url),
        desk(opened.url, key=key, **options) as here,
    ):
        yield here, carol


async def offer(here: Desk, carol: Agent, task: str = "Paint the hall", **more: Any) -> Proposal:
    return await carol.propose(here.app.agent.address, task, **more)


def rows(here: Desk) -> list[str]:
    return [str(option.prompt) for option in here.app.screen.query_one(OptionList).options]


def part(here: Desk, name: str) -> str:
    return str(here.app.screen.query_one(f"#{name}", Plain).content)


def screen(here: Desk) -> str:
    return "\n".join(drawn_screen(here.app))


async def open_panel(here: Desk) -> None:
    await here.pilot.press("f3")
    await here.until(lambda: isinstance(here.app.screen, Panel) and rows(here))


async def begin(here: Desk, key: str) -> Signature:
    await here.pilot.press(key)
    await here.until(lambda: isinstance(here.app.screen, Signature) and here.app.screen.query(Button))
    dialog = here.app.screen
    assert isinstance(dialog, Signature)
    await here.until(lambda: dialog.focused)
    return dialog


async def sign(here: Desk, dialog: Signature) -> str:
    """Press the button; the text that was shown."""
    shown = str(dialog.query_one("#text", Plain).content)
    dialog.query_one("#sign", Button).press()
    await here.until(lambda: isinstance(here.app.screen, Panel))
    return shown


# offers


async def test_an_offer_is_announced_counted_and_shown(tmp_path: Path) -> None:
    async with deals(tmp_path, size=(120, 30)) as (here, carol):
        await offer(here, carol, amount=5, currency="EUR", stake=25)
        await here.until_seen("carol offers you a deal: Paint the hall (F3)")
        await here.until(lambda: here.shown("status").endswith("| F3: 1 waiting for you"))
        await open_panel(here)
        assert rows(here) == ["! pending          from carol     Paint the hall"]
        await here.until(lambda: "5 EUR" in screen(here))
        assert f"carol {carol.address}" in screen(here)
        *_, footer = drawn_screen(here.app)
        assert "a Accept" in footer
        assert "r Reject" in footer
        assert "Vote" not in footer


async def test_offers_made_before_are_there(tmp_path: Path) -> None:
    """The panel asks the hall; nothing has to be heard live."""
    carol = Agent("carol", identity=CAROL)
    async with hall(tmp_path) as opened, carol.connected(opened.url):
        await Agent("ada", identity=ALICE).connected(opened.url).__aenter__()
        await carol.propose(f"@{ALICE.public.agent_id()}", "waiting since yesterday")
        async with desk(opened.url, key=ALICE) as here:
            await here.until(lambda: "1 waiting for you" in here.shown("status"))
            await here.type("/deals")
            await here.until(lambda: isinstance(here.app.screen, Panel) and rows(here))


async def test_an_odd_id_from_the_hall_is_no_markup(tmp_path: Path) -> None:
    async with deals(tmp_path) as (here, carol):
        await offer(here, carol)
        await open_panel(here)
        standing = here.app.agent._session
        standing._welcome = replace(standing.welcome, id="@[b]odd[/b]")
        await begin(here, "a")
        assert "@[b]odd[/b] signs exactly this" in screen(here)


async def test_accept_shows_exactly_what_is_signed(tmp_path: Path) -> None:
    async with deals(tmp_path) as (here, carol):
        deal = await offer(here, carol, stake=25)
        await open_panel(here)
        dialog = await begin(here, "a")
        assert Recorder.signed == [text for text in Recorder.signed if not text.startswith("ACCEPT")]
        assert part(here, "text") == f"ACCEPT|{deal.id}||"
        await here.pilot.press("1", "0", "enter")
        await here.write("iban")
        await here.until(lambda: part(here, "text") == f"ACCEPT|{deal.id}|iban|10")
        assert "signs exactly this" in screen(here)
        shown = await sign(here, dialog)
        assert shown in Recorder.signed
        await here.until(lambda: deal.status == "accepted")
        assert (deal.acceptor_stake, deal.acceptor_payment_code) == (10, "iban")
        await here.until(lambda: rows(here)[0].startswith("  accepted"))
        assert "waiting" not in here.shown("status")


async def test_enter_alone_never_signs_and_escape_leaves(tmp_path: Path) -> None:
    async with deals(tmp_path) as (here, carol):
        deal = await offer(here, carol)
        await open_panel(here)
        dialog = await begin(here, "r")
        await here.pilot.press("enter")
        await here.until(lambda: dialog.focused is dialog.query_one("#sign", Button))
        await here.pilot.press("escape")
        await here.until(lambda: isinstance(here.app.screen, Panel))
        assert not any(text.startswith("REJECT") for text in Recorder.signed)
        assert deal.status == "pending"
        dialog = await begin(here, "r")
        dialog.query_one("#cancel", Button).press()
        await here.until(lambda: isinstance(here.app.screen, Panel))
        assert deal.status == "pending"


async def test_reject_with_the_keyboard_alone(tmp_path: Path) -> None:
    async with deals(tmp_path) as (here, carol):
        deal = await offer(here, carol)
        await open_panel(here)
        await begin(here, "r")
        await here.write("too busy")
        await here.pilot.press("enter", "enter")
        await here.until(lambda: deal.status == "rejected")
        assert deal.reason == "too busy"
        assert f"REJECT|{deal.id}|too busy" in Recorder.signed


async def test_complete_and_dispute(tmp_path: Path) -> None:
    async with deals(tmp_path) as (here, carol):
        done, bad = await offer(here, carol, "one"), await offer(here, carol, "two")
        for deal in (done, bad):
            await here.app.agent.accept(deal.id)
        await open_panel(here)
        listed = here.app.screen.query_one(OptionList)
        listed.highlighted = listed.get_option_index(done.id)
        await here.until(lambda: done.id in screen(here))
        dialog = await begin(here, "c")
        await here.write("proof")
        assert await sign(here, dialog) == f"COMPLETE|{done.id}|proof"
        await here.until(lambda: done.status == "completed")
        await here.until(lambda: rows(here)[0].endswith("two"))
        listed.highlighted = listed.get_option_index(bad.id)
        dialog = await begin(here, "d")
        assert dialog.query_one("#sign", Button).disabled
        assert part(here, "mistake") == "A reason is needed."
        await here.write("late")
        await here.until(lambda: not dialog.query_one("#sign", Button).disabled)
        assert await sign(here, dialog) == f"DISPUTE|{bad.id}|late"
        await here.until(lambda: bad.status == "disputed")
        assert {f"COMPLETE|{done.id}|proof", f"DISPUTE|{bad.id}|late"} <= set(Recorder.signed)


async def test_a_refusal_stays_in_the_dialog(tmp_path: Path) -> None:
    async with deals(tmp_path) as (here, carol):
        await offer(here, carol)
        await open_panel(here)
        dialog = await begin(here, "a")
        dialog.query_one("#stake", Input).value = "99999"
        dialog.query_one("#sign", Button).press()
        await here.until(lambda: part(here, "mistake").startswith("INSUFFICIENT_REPUTATION"))
        assert not dialog.query_one("#sign", Button).disabled
        dialog.query_one("#stake", Input).value = "ten"
        await here.until(lambda: part(here, "mistake").startswith("A stake is a whole number"))
        assert dialog.query_one("#sign", Button).disabled


async def test_what_the_person_typed_is_shown_letter_by_letter(tmp_path: Path) -> None:
    async with deals(tmp_path, size=(100, 40)) as (here, carol):
        await offer(here, carol)
        await open_panel(here)
        dialog = await begin(here, "a")
        dialog.query_one("#payment_code", Input).value = "a\u202eb|500"
        await here.until(lambda: part(here, "text").endswith(r"|a\u202eb|500|"))
        assert "A | in a field" in part(here, "note")


# hostile text


async def test_the_text_of_an_offer_cannot_pass_for_something_else(tmp_path: Path) -> None:
    async with deals(tmp_path) as (here, carol):
        await offer(
            here, carol, "x " * 30 + "\nstatus      accepted [bold]\x1b[2J\u202e[/] [@click=app.quit]y[/]"
        )
        await open_panel(here)
        await here.until(lambda: "[bold]" in screen(here))
        assert "\x1b" not in screen(here)
        assert "[@click=app.quit]y[/]" in screen(here)
        [status] = [row for row in drawn_screen(here.app) if row.partition("│")[2].startswith("status")]
        assert "pending" in status
        await begin(here, "a")
        assert all(len(row) <= 80 for row in drawn_screen(here.app))


async def test_a_flood_of_offers_is_counted_and_not_told_one_by_one(tmp_path: Path) -> None:
    async with deals(tmp_path, size=(120, 30)) as (here, carol):
        for number in range(20):
            await offer(here, carol, f"offer {number}")
        await here.until(lambda: "20 waiting for you" in here.shown("status"))
        assert sum("offers you a deal" in line for line in here.history) == 1
        here.clock.now += 60
        await offer(here, carol, "another one")
        await here.until_seen("carol offers you a deal: another one")


# without a key


async def test_without_a_key_the_panel_says_how_to_get_one(url: str) -> None:
    async with desk(url) as here:
        await here.pilot.press("f3")
        await here.until(lambda: "you came without a key" in screen(here))
        await here.pilot.press("a", "c", "v", "f5")
        assert isinstance(here.app.screen, Panel)


# the court


async def test_an_arbiter_judges_reads_and_votes(tmp_path: Path) -> None:
    async with deals(tmp_path, size=(120, 50)) as (here, carol):
        others = [
            Agent(name, identity=key) for name, key in (("dave", DAVE), ("erin", ERIN), ("frank", FRANK))
        ]
        dave, *arbiters = others
        for agent in others:
            await agent.connect(here.url)
        deal = await carol.propose(dave.address, "Mend the roof", stake=20)
        await dave.accept(deal.id, stake=10)
        dispute = await deal.file_dispute("it still rains in")
        await here.until_seen("you were drawn to judge a case: it still rains in")
        await here.until(lambda: "1 waiting for you" in here.shown("status"))
        await open_panel(here)
        assert rows(here)[0] == "! case: arbiter r… as arbiter     it still rains in"
        dialog = await begin(here, "a")
        assert dialog.focused is dialog.query_one("#cancel", Button)
        assert await sign(here, dialog) == f"ARBITER_ACCEPT|{dispute.dispute_id}"
        for agent in arbiters:
            await agent.accept_case(dispute.dispute_id)
        await dispute.submit([{"kind": "message_log", "value": "dave: tomorrow"}], "Look up")
        await dave.submit_evidence(dispute.dispute_id, [{"kind": "other", "value": "a photo"}])
        await here.until(lambda: "Vote" in drawn_screen(here.app)[-1])
        await here.until(lambda: "dave: tomorrow" in screen(here))
        dialog = await begin(here, "v")
        assert dialog.query_one("#sign", Button).disabled
        await here.pilot.press("down", "enter")
        await here.until(lambda: dialog.query_one(RadioSet).pressed_index >= 0)
        dialog.query_one("#reasoning", Input).value = "it was agreed"
        verdict = dialog.values()["verdict"]
        shown = await sign(here, dialog)
        assert shown == f"VOTE|{dispute.dispute_id}|{verdict}"
        for agent in arbiters:
            await agent.vote(dispute.dispute_id, verdict)
        ruling = await dispute.outcome(timeout=10)
        assert ruling.verdict == verdict
        assert "it was agreed" in [vote.reasoning for vote in ruling.votes]
        assert {shown, f"ARBITER_ACCEPT|{dispute.dispute_id}"} <= set(Recorder.signed)
        for agent in others:
            await agent.close()


async def test_declining_lets_another_judge(tmp_path: Path) -> None:
    async with deals(tmp_path) as (here, carol):
        others = [
            Agent(name, identity=key) for name, key in (("dave", DAVE), ("erin", ERIN), ("frank", FRANK))
        ]
        for agent in others:
            await agent.connect(here.url)
        deal = await carol.propose(others[0].address, "Mend the roof")
        await others[0].accept(deal.id)
        dispute = await deal.file_dispute("it still rains in")
        await here.until(lambda: "1 waiting for you" in here.shown("status"))
        await open_panel(here)
        dialog = await begin(here, "r")
        await here.write("no time")
        assert await sign(here, dialog) == f"ARBITER_DECLINE|{dispute.dispute_id}|no time"
        assert f"ARBITER_DECLINE|{dispute.dispute_id}|no time" in Recorder.signed
        for agent in others:
            await agent.close()


async def test_the_person_is_told_of_a_case_against_it(tmp_path: Path) -> None:
    async with deals(tmp_path, size=(120, 30)) as (here, carol):
        judges = [
            Agent(name, identity=key) for name, key in (("dave", DAVE), ("erin", ERIN), ("frank", FRANK))
        ]
        for agent in judges:
            await agent.connect(here.url)
        deal = await offer(here, carol)
        await here.app.agent.accept(deal.id)
        await deal.file_dispute("nothing came")
        here.clock.now += 60
        await open_panel(here)
        await here.until(lambda: any("as respondent" in row for row in rows(here)))
        for agent in judges:
            await agent.close()

"""Events on a real hall: killed before it told, killed while it told, told in Python."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from moothall.app import App, Event
from moothall.errors import SettingsError, UsageError
from moothall.market.hooks import SIGNATURE_HEADER, body_signature
from moothall.settings import Settings
from tests.identity.vectors import ALICE, BOB
from tests.support.agentchat import AgentChat
from tests.support.server import PATIENCE, HallProcess, run_moothall, running_hall
from tests.support.world import LogBook
from tests.test_market import act, come_in

SECRET = "ring the bell"
WAIT = 60.0  # seconds for a claim to run out, and for what waited behind it


class Receiver:
    """Stays when halls come and go. Holds its answers while it is told to."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []  # event ids with the number of the attempt
        self.answering = asyncio.Event()
        self.answering.set()
        self._changed = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def until_heard(self, *event_ids: str) -> None:
        async with asyncio.timeout(WAIT), self._changed:
            await self._changed.wait_for(lambda: set(event_ids) <= {heard for heard, _ in self.heard})

    async def until_heard_again(self, event_id: str) -> None:
        async with asyncio.timeout(WAIT), self._changed:
            await self._changed.wait_for(lambda: [heard for heard, _ in self.heard].count(event_id) > 1)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().rstrip().split("\r\n")[1:]
            headers = dict(line.split(": ", 1) for line in head)
            body = await reader.readexactly(int(headers["Content-Length"]))
            assert headers[SIGNATURE_HEADER] == body_signature(SECRET.encode(), body)
            async with self._changed:
                self.heard.append((json.loads(body)["id"], int(headers["X-Moothall-Attempt"])))
                self._changed.notify_all()
            await self.answering.wait()
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # a hall was killed
        finally:
            writer.close()


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    await receiver.open()
    try:
        yield receiver
    finally:
        receiver.answering.set()
        await receiver.close()


def flags(receiver: Receiver) -> list[str]:
    return ["--no-limits", "--set", f"webhooks={receiver.url}", "--set", "webhook_timeout=1"]


def hall_with(folder: Path, receiver: Receiver) -> Any:
    return running_hall(folder, *flags(receiver), environment={"MOOTHALL_WEBHOOK_SECRET": SECRET})


async def staked(alice: AgentChat, bob: AgentChat) -> str:
    """A deal with stakes, and the id of the event that tells of them."""
    offered = await act(alice, "PROPOSAL", to=bob.agent_id, task="review", elo_stake=1)
    await act(bob, "ACCEPT", proposal_id=offered["id"])
    deal: str = offered["id"]
    return deal


async def metric(hall: HallProcess, name: str) -> float:
    _, _, body = await hall.get("/metrics")
    (line,) = [line for line in body.splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[1])


async def test_a_webhook_hears_of_a_deal_from_stake_to_settlement(tmp_path: Path) -> None:
    async with receiving() as receiver:
        with hall_with(tmp_path, receiver) as hall:
            alice, bob = await come_in(hall)
            deal = await staked(alice, bob)
            await act(alice, "COMPLETE", proposal_id=deal)
            created, settled = f"{deal}/escrow:created", f"{deal}/settlement:completion"
            await receiver.until_heard(created, settled)
            assert receiver.heard == [(created, 1), (settled, 1)]
            await alice.close()
            await bob.close()
            hall.stop()
            hall.restart()
            assert await metric(hall, "moothall_hooks_waiting") == 0


async def test_killed_between_the_commit_and_the_delivery(tmp_path: Path) -> None:
    async with receiving() as receiver:
        await receiver.close()  # nobody there: the hall cannot deliver
        with hall_with(tmp_path, receiver) as hall:
            alice, bob = await come_in(hall)
            deal = await staked(alice, bob)
            await act(alice, "COMPLETE", proposal_id=deal)
            hall.kill()
            await receiver.open()
            hall.restart()
            created, settled = f"{deal}/escrow:created", f"{deal}/settlement:completion"
            await receiver.until_heard(created, settled)
            assert [event for event, _ in receiver.heard] == [created, settled]


async def test_killed_between_the_delivery_and_the_note_of_it(tmp_path: Path) -> None:
    async with receiving() as receiver:
        receiver.answering.clear()
        with hall_with(tmp_path, receiver) as hall:
            alice, bob = await come_in(hall)
            created = f"{await staked(alice, bob)}/escrow:created"
            await receiver.until_heard(created)
            hall.kill()
            receiver.answering.set()
            hall.restart()
            await receiver.until_heard_again(created)
            assert receiver.heard == [(created, 1), (created, 2)]


@pytest.mark.slow
async def test_killed_again_and_again_every_event_arrives_under_its_one_id(tmp_path: Path) -> None:
    dice = Random("webhooks")  # noqa: S311  # where to strike, not a secret
    expected: list[str] = []
    async with receiving() as receiver:
        with hall_with(tmp_path, receiver) as hall:
            for _ in range(5):
                alice, bob = await come_in(hall)
                for _ in range(dice.randrange(1, 40)):
                    deal = await staked(alice, bob)
                    expected.append(f"{deal}/escrow:created")
                    await act(alice, "COMPLETE", proposal_id=deal)
                    expected.append(f"{deal}/settlement:completion")
                hall.kill()
                hall.restart()
            await receiver.until_heard(*expected)
    assert {event for event, _ in receiver.heard} == set(expected)
    again = [(event, attempt) for (event, attempt), count in Counter(receiver.heard).items() if count > 1]
    assert again == []  # the same id comes again only as another attempt
    for created, settled in zip(expected[::2], expected[1::2], strict=True):
        heard = [event for event, _ in receiver.heard if event in (created, settled)]
        assert heard == sorted(heard)  # in order, whatever was repeated


async def test_a_receiver_that_is_down_does_not_hurt_the_hall(tmp_path: Path) -> None:
    async with receiving() as receiver:
        await receiver.close()
        with hall_with(tmp_path, receiver) as hall:
            alice, bob = await come_in(hall)
            deal = await staked(alice, bob)
            failed = await hall.logged("hook_failed")
            assert (failed["hook"], failed["attempt"]) == (f"{deal}/escrow:created", 1)
            assert failed["listener"] == receiver.url.rstrip("/")
            await act(alice, "COMPLETE", proposal_id=deal)
            assert await metric(hall, "moothall_hooks_failures_total") >= 1
            await alice.close()
            await bob.close()
            assert hall.stop() == 0
        await receiver.open()


def test_the_secret_is_needed_and_never_shown(tmp_path: Path) -> None:
    result = run_moothall(tmp_path, "serve", "--set", "webhooks=http://127.0.0.1:1/")
    assert (result.returncode, "MOOTHALL_WEBHOOK_SECRET" in result.stderr) == (2, True)
    result = run_moothall(tmp_path, "config", "--set", "webhook_secret=x")
    assert (result.returncode, "secret" in result.stderr) == (2, True)
    shown = run_moothall(tmp_path, "config", environ={"MOOTHALL_WEBHOOK_SECRET": SECRET})
    assert SECRET not in shown.stdout
    assert "(set)" in shown.stdout
    result = run_moothall(
        tmp_path, "serve", "--set", "webhooks=nowhere", environ={"MOOTHALL_WEBHOOK_SECRET": SECRET}
    )
    assert (result.returncode, "http://" in result.stderr) == (2, True)


# -- in Python -------------------------------------------------------------------------------------------


def app_in(folder: Path) -> App:
    return App(Settings(port=0, keep_port=0, data_dir=folder, no_limits=True), LogBook())


async def parties(app: App) -> tuple[AgentChat, AgentChat]:
    return await AgentChat.connect(app.url, "alice", ALICE), await AgentChat.connect(app.url, "bob", BOB)


async def test_a_function_hears_of_what_it_wants(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    everything: asyncio.Queue[Event] = asyncio.Queue()
    endings: asyncio.Queue[Event] = asyncio.Queue()
    app.on_hook(name="everything")(everything.put)
    app.on_hook("settlement:completion", name="endings")(endings.put_nowait)
    async with app, asyncio.timeout(PATIENCE):
        alice, bob = await parties(app)
        deal = await staked(alice, bob)
        await act(alice, "COMPLETE", proposal_id=deal)
        names = [(await everything.get()).name for _ in range(2)]
        assert names == ["escrow:created", "settlement:completion"]
        event = await endings.get()
        assert (event.id, event.attempt) == (f"{deal}/settlement:completion", 1)
        assert event.body["completed_by"] == alice.agent_id
        assert endings.empty()
        await alice.close()
        await bob.close()


async def test_a_function_that_raises_is_called_again_and_hurts_nobody(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    calls: list[tuple[str, int]] = []
    done = asyncio.Event()
    heard: asyncio.Queue[Event] = asyncio.Queue()

    @app.on_hook()
    def clumsy(event: Event) -> None:
        calls.append((event.name, event.attempt))
        if event.attempt == 1:
            raise RuntimeError("tripped")
        if event.name == "settlement:completion":
            done.set()

    app.on_hook(name="heard")(heard.put)
    async with app, asyncio.timeout(PATIENCE):
        alice, bob = await parties(app)
        deal = await staked(alice, bob)
        await act(alice, "COMPLETE", proposal_id=deal)
        await heard.get()
        await heard.get()
        await done.wait()
        await alice.close()
        await bob.close()
    assert calls == [
        ("escrow:created", 1),
        ("escrow:created", 2),
        ("settlement:completion", 1),
        ("settlement:completion", 2),
    ]
    assert isinstance(app.log, LogBook)
    raised = app.log.find("hook_raised")
    assert [repr(facts["exc_info"]) for facts in raised] == ["RuntimeError('tripped')"] * 2


async def test_what_a_function_did_not_take_waits_for_the_next_hall(tmp_path: Path) -> None:
    stuck = app_in(tmp_path)
    called = asyncio.Event()

    async def hang(event: Event) -> None:
        called.set()
        await asyncio.Event().wait()

    stuck.on_hook(name="books")(hang)
    async with stuck, asyncio.timeout(PATIENCE):
        alice, bob = await parties(stuck)
        deal = await staked(alice, bob)
        await called.wait()
        await alice.close()
        await bob.close()
    well = app_in(tmp_path)
    heard: asyncio.Queue[Event] = asyncio.Queue()
    well.on_hook(name="books")(heard.put)
    async with well, asyncio.timeout(PATIENCE):
        event = await heard.get()
    assert (event.id, event.attempt) == (f"{deal}/escrow:created", 2)


async def test_without_anybody_listening_nothing_is_kept(tmp_path: Path) -> None:
    async with app_in(tmp_path) as app:
        alice, bob = await parties(app)
        await staked(alice, bob)
        await alice.close()
        await bob.close()
    exported = run_moothall(tmp_path, "store", "export", "--data-dir", str(tmp_path))
    tables = {json.loads(line)["table"] for line in exported.stdout.splitlines()}
    assert "proposals" in tables
    assert "hooks" not in tables


def test_hooks_have_names_of_their_own_and_events_that_exist(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    app.on_hook()(print)
    with pytest.raises(UsageError, match="two hooks python:builtins"):
        app.on_hook("escrow:created")(print)
    app.on_hook("escrow:created", name="another")(print)
    with pytest.raises(UsageError, match="settlement:verdict"):
        app.on_hook("escrow:creatd")


async def test_an_address_that_is_none_is_found_before_anything_starts(tmp_path: Path) -> None:
    settings = Settings(port=0, data_dir=tmp_path, webhooks=("ftp://example.org",), webhook_secret=SECRET)
    with pytest.raises(SettingsError, match="http"):
        async with App(settings, LogBook()):
            pass
    assert not (tmp_path / "hall.db").exists()

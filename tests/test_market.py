"""Deals on a real hall that is killed or closed: what was acknowledged is a fact."""

import asyncio
import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from moothall import app as app_module
from moothall.app import App
from moothall.identity.seals import key_id
from moothall.market.receipts import verify_receipt
from moothall.settings import Settings
from moothall.store.sqlite import SqliteStore
from moothall.store.transaction import Transaction
from tests.identity.vectors import ALICE, BOB
from tests.support.agentchat import AgentChat, Refused
from tests.support.deals import signed
from tests.support.server import PATIENCE, HallProcess, running_hall
from tests.support.world import LogBook

pytestmark = pytest.mark.slow


async def come_in(hall: HallProcess) -> tuple[AgentChat, AgentChat]:
    return await AgentChat.connect(hall.url, "alice", ALICE), await AgentChat.connect(hall.url, "bob", BOB)


async def act(agent: AgentChat, kind: str, **fields: Any) -> dict[str, Any]:
    assert agent.key is not None
    await agent.send(type=kind, **signed(agent.key, kind, **fields))
    return await agent.expect(kind)


async def test_a_deal_survives_kill_9_at_every_step(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        alice, bob = await come_in(hall)
        offered = await act(alice, "PROPOSAL", to=bob.agent_id, task="review", elo_stake=25)
        hall.kill()
        hall.restart()
        alice, bob = await come_in(hall)
        await bob.send(type="LIST_PROPOSALS", open_only=True)
        (deal,) = (await bob.expect("PROPOSALS"))["list"]
        assert (deal["proposal_id"], deal["status"]) == (offered["id"], "pending")

        await act(bob, "ACCEPT", proposal_id=offered["id"], elo_stake=10)
        hall.kill()
        hall.restart()
        alice, bob = await come_in(hall)
        await alice.send(type="GET_RATING")
        rating = await alice.expect("RATINGS")
        assert (rating["rating"], rating["escrowed"], rating["available"]) == (1200, 25, 1075)

        done = await act(alice, "COMPLETE", proposal_id=offered["id"])
        assert done["rating_changes"][bob.agent_id]["newRating"] == 1208
        hall.kill()
        hall.restart()
        alice, bob = await come_in(hall)
        await alice.send(type="GET_RATING")
        rating = await alice.expect("RATINGS")
        assert (rating["rating"], rating["escrowed"], rating["transactions"]) == (1208, 0, 1)
        await alice.close()
        await bob.close()


async def test_a_deadline_that_passed_while_the_hall_was_down_is_acted_upon(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        alice, bob = await come_in(hall)
        offered = await act(alice, "PROPOSAL", to=bob.agent_id, task="soon", expires=0.001)
        hall.kill()
        hall.restart()
        bob = await AgentChat.connect(hall.url, "bob", BOB)
        await bob.send(type="ACCEPT", **signed(BOB, "ACCEPT", proposal_id=offered["id"]))
        assert (await bob.refusal())["code"] == "PROPOSAL_EXPIRED"
        await bob.send(type="LIST_PROPOSALS")
        (deal,) = (await bob.expect("PROPOSALS"))["list"]
        assert deal["status"] == "expired"
        await bob.close()


async def test_the_references_files_are_kept_in_step(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        alice, bob = await come_in(hall)
        offered = await act(alice, "PROPOSAL", to=bob.agent_id, task="review")
        await act(bob, "ACCEPT", proposal_id=offered["id"])
        await act(bob, "COMPLETE", proposal_id=offered["id"])
        await alice.close()
        await bob.close()
        hall.stop()
        ratings = (tmp_path / "data" / "ratings.json").read_text()
        assert f'"@{ALICE.public.agent_id(16)}"' in ratings
        (receipt,) = (tmp_path / "data" / "receipts.jsonl").read_bytes().splitlines()
        assert json.loads(receipt)["proposal_id"] == offered["id"]
        assert verify_receipt(receipt, [key_id(hall.key)]).holds


async def test_whoever_the_reference_knew_is_found_again_on_coming_in(tmp_path: Path) -> None:
    """Also where the reference did not write the key down."""
    folder = tmp_path / "data"
    folder.mkdir()
    digits = BOB.public.fingerprint
    skills = {"agent_id": digits, "skills": [{"capability": "review"}], "registered_at": 1, "sig": "s"}
    (folder / "skills.json").write_text(json.dumps({digits: skills}))
    (folder / "ratings.json").write_text(json.dumps({f"@{digits}": {"rating": 1316, "transactions": 42}}))
    with running_hall(tmp_path) as hall:
        alice, bob = await come_in(hall)
        await alice.send(type="SEARCH_SKILLS", query={"capability": "review"})
        (found,) = (await alice.expect("SEARCH_RESULTS"))["results"]
        assert (found["agent_id"], found["agent_rating"], found["online"]) == (bob.agent_id, 1316, True)
        await alice.send(type="GET_LEADERBOARD")
        assert (await alice.expect("LEADERBOARD"))["list"] == [
            {"agent_id": bob.agent_id, "rating": 1316, "transactions": 42}
        ]
        await alice.close()
        await bob.close()


class HeldCommits:
    """COMMIT waits at the gate, if it is closed; at the latest until the store closes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate, self.reached = threading.Event(), threading.Event()
        self.gate.set()
        commit, close = SqliteStore._commit, SqliteStore.close

        def held(store: SqliteStore, transaction: Transaction) -> float:
            if not self.gate.is_set():
                self.reached.set()
                assert self.gate.wait(PATIENCE)
            return commit(store, transaction)

        def let_go(store: SqliteStore) -> None:
            self.gate.set()
            close(store)

        monkeypatch.setattr(SqliteStore, "_commit", held)
        monkeypatch.setattr(SqliteStore, "close", let_go)


@pytest.mark.parametrize("patience", [PATIENCE, 0.0])
async def test_whoever_ordered_something_learns_how_it_went_before_the_hall_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    """But for no longer than a moment, and nothing is begun that came after it."""
    monkeypatch.setattr(app_module, "FINISHING_SECONDS", patience)
    commits = HeldCommits(monkeypatch)
    app = App(Settings(port=0, keep_port=0, data_dir=tmp_path, no_limits=True), LogBook())
    await app.__aenter__()
    alice = await AgentChat.connect(app.url, "alice", ALICE)
    bob = await AgentChat.connect(app.url, "bob", BOB)
    commits.gate.clear()
    for task in ("first", "second"):
        await alice.send(type="PROPOSAL", **signed(ALICE, "PROPOSAL", to=bob.agent_id, task=task))
    assert await asyncio.to_thread(commits.reached.wait, PATIENCE)
    leaving = asyncio.create_task(app.__aexit__(None, None, None))
    if patience:
        async with asyncio.timeout(PATIENCE):
            while not app.hall.is_closing:  # noqa: ASYNC110  # a hall tells nobody that it is
                await asyncio.sleep(0)
        commits.gate.set()
    await leaving
    assert await alice.closed() == (1001, "Server shutting down")
    told = [message["task"] for message in alice.received if message["type"] == "PROPOSAL"]
    assert told == (["first"] if patience else [])
    with closing(sqlite3.connect(tmp_path / "hall.db")) as connection:
        assert connection.execute("SELECT count(*) FROM proposals").fetchone() == (1,)
    await alice.close()
    await bob.close()


async def repeat(agent: AgentChat, offer: dict[str, Any]) -> None:
    for _ in range(5000):
        await agent.ask("PROPOSAL", type="PROPOSAL", **offer)


async def test_offers_do_not_close_an_agent_that_does_not_read(tmp_path: Path) -> None:
    """They are refused before they are kept, so the agent finds all others when it reads again."""
    with running_hall(tmp_path, "--no-limits") as hall:
        alice, bob = await come_in(hall)
        async with alice, bob:
            bob.socket.transport.pause_reading()
            offer = signed(ALICE, "PROPOSAL", to=bob.agent_id, task="review", terms="x" * 16_000)
            with pytest.raises(Refused, match=r"RATE_LIMITED: .* does not read"):
                await repeat(alice, offer)
            kept = len([message for message in alice.received if message["type"] == "PROPOSAL"])
            bob.socket.transport.resume_reading()
            await bob.send(type="PING")
            await bob.expect("PONG")
            assert sum(message["type"] == "PROPOSAL" for message in bob.received) == kept > 0
            await alice.ask("PROPOSAL", type="PROPOSAL", **offer)

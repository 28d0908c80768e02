"""A conversation of the mesh goes to court in a real hall: with the SDK, from the command line, and with a hall
that is killed between steps."""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest

from moothall import Agent, Assignment, Case, Dispute, InvalidProposal
from moothall.app import App
from moothall.errors import OutOfOrder
from moothall.identity import Identity, PrivateKey
from moothall.identity.keyfile import save
from moothall.market import credit_books
from moothall.mesh import Change, Conversation, MeshAgent, Message
from moothall.settings import Settings
from tests.client.meeting import QUICKLY, Heard, soon
from tests.store.support import Log, run
from tests.support.cases import ARBITERS
from tests.support.server import HallProcess, run_moothall, running_hall

pytestmark = pytest.mark.slow

ALICE: Final = PrivateKey(bytes([1]) * 32)
BOB: Final = PrivateKey(bytes([2]) * 32)
CREDIT: Final = 1_000_000
WORK: Final = [{"kind": "delivery", "value": "Der Saal"}]


class Quarrel:
    """Alice paid Bob for work that she does not like. The arbiters accept every case."""

    def __init__(self, url: str, verdict: str = "disputant") -> None:
        self.alice = MeshAgent("alice", key=ALICE, url=url, backoff=QUICKLY)
        self.bob = MeshAgent("bob", key=BOB, url=url, backoff=QUICKLY)
        self.offers: Heard[Message] = Heard()
        self.bob.on("PROPOSE")(self.offers)
        self.deliveries: Heard[Message] = Heard()
        self.alice.on("DELIVER")(self.deliveries)
        self.changes: Heard[Change] = Heard()
        self.bob.on("change")(self.changes)
        self.verdict = verdict
        self.judges = [
            Agent(f"judge{number}", identity=key, url=url, backoff=QUICKLY)
            for number, key in enumerate(ARBITERS[:3])
        ]
        for judge in self.judges:
            judge.on_arbiter_assigned(_accept)
            judge.on_case(self._vote)
        self.agents: list[Agent | MeshAgent] = [self.alice, self.bob, *self.judges]

    async def _vote(self, case: Case) -> None:
        await case.vote(self.verdict, "so I found")

    async def __aenter__(self) -> "Quarrel":
        for agent in self.agents:
            await agent.connect()
        return self

    async def __aexit__(self, *exc: object) -> None:
        for agent in self.agents:
            await agent.close()

    async def deliver(self) -> tuple[Conversation, Conversation]:
        """The conversation of each party, after a delivery."""
        asked = await self.alice.propose(self.bob.id, "Translate it", amount=CREDIT)
        offered = (await self.offers.next()).conversation
        assert offered is not None
        await offered.accept()
        await offered.deliver("Der Saal")
        await self.deliveries.next()
        return asked, offered

    async def answer(self, proposal_id: str) -> Dispute:
        """Bob comes to the agentchat wire, and finds the case."""
        bob = await self.bob.agentchat()
        (dispute,) = [each for each in await bob.disputes() if each.proposal_id == proposal_id]
        return dispute


async def _accept(assignment: Assignment) -> None:
    await assignment.accept()


def settings(tmp_path: Path, **others: Any) -> Settings:
    return Settings(
        data_dir=tmp_path / "data",
        port=0,
        keep=False,
        court_arbiter_rating=0,
        court_arbiter_transactions=0,
        **others,
    )


async def deposit(app: App) -> None:
    await run(
        app._market_store,
        lambda books: credit_books.deposit(books, ALICE.public.raw, 5 * CREDIT, "first", now=1),
    )


@pytest.mark.parametrize(
    ("verdict", "state", "balances"),
    [
        ("disputant", "CLOSED", (5 * CREDIT, 0)),
        ("respondent", "RESOLVED", (4 * CREDIT, CREDIT * 995 // 1000)),
        ("mutual", "CLOSED", (5 * CREDIT, 0)),
    ],
)
async def test_a_conversation_is_judged(
    tmp_path: Path, verdict: str, state: Any, balances: tuple[int, int]
) -> None:
    async with App(settings(tmp_path), Log()) as app:
        await deposit(app)
        async with Quarrel(app.url, verdict) as quarrel:
            asked, offered = await quarrel.deliver()
            disputed = await asked.dispute("half of it is missing")
            case = await disputed.to_court()
            assert (case.proposal_id, case.role) == (f"mesh:{asked.id}", "disputant")
            assert (await quarrel.changes.next()).cause == "court"
            assert offered.case == case.dispute_id

            with pytest.raises(OutOfOrder, match="holds this conversation"):
                await offered.accept()
            answer = await quarrel.answer(case.proposal_id)
            await soon(case.submit(WORK, "only half"))
            await soon(answer.submit(WORK, "all of it"))
            ruling = await soon(case.outcome())
            assert ruling.verdict == verdict
            assert (await soon(answer.outcome())).verdict == verdict

            assert await soon(asked.wait_for(state)) == state
            assert (await quarrel.changes.next()).state == state
            assert (await quarrel.alice.balance(), await quarrel.bob.balance()) == balances
            ratings = [(await agent.reputation()).rating for agent in (quarrel.alice, quarrel.bob)]
            won = {"disputant": (True, False), "respondent": (False, True), "mutual": (False, False)}[verdict]
            assert tuple(rating > 1200 for rating in ratings) == won
            (listed,) = await (await quarrel.alice.agentchat()).proposals(open_only=False)
            assert (listed.id, listed.status, listed.amount) == (case.proposal_id, "disputed", "1")
            file = tmp_path / "case.json"
            file.write_text(json.dumps(await case.case()))
        hall = app.hall.public_key
    checked = run_moothall(tmp_path, "court", "verify", "case.json", "-v", "--hall", hall)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"agreed on 1 credits in conversation {asked.id}" in checked.stdout
    assert run_moothall(tmp_path, "store", "check", "--data-dir", "data").returncode == 0


async def test_what_is_not_disputed_does_not_go_to_court(tmp_path: Path) -> None:
    async with App(settings(tmp_path), Log()) as app:
        await deposit(app)
        async with Quarrel(app.url) as quarrel:
            asked, _ = await quarrel.deliver()
            with pytest.raises(InvalidProposal, match="DELIVERED"):
                await asked.to_court("half of it is missing")


async def test_without_arbiters_the_conversation_goes_on(tmp_path: Path) -> None:
    async with App(settings(tmp_path), Log()) as app:
        await deposit(app)
        async with Quarrel(app.url) as quarrel:
            for judge in quarrel.judges:
                await judge.close()
            asked, offered = await quarrel.deliver()
            case = await (await asked.dispute("half of it is missing")).to_court()
            assert case.phase == "fallback"
            while (await quarrel.changes.next()).conversation.case is not None:
                pass
            await offered.accept()
            await offered.deliver("Der Saal ist offen")
            await quarrel.deliveries.next()
            await asked.approve()
            assert await quarrel.bob.balance() == CREDIT * 995 // 1000


async def test_a_case_from_the_command_line_survives_kill_9(tmp_path: Path) -> None:
    save(Identity(ALICE, name="alice"), tmp_path / "alice.json")
    with running_hall(
        tmp_path, "--set", "court_arbiter_rating=0", "--set", "court_arbiter_transactions=0"
    ) as hall:
        await moothall(
            tmp_path, "ledger", "deposit", "alice.json", "5", "--reference", "first", "--data-dir", "data"
        )
        async with Quarrel(hall.url) as quarrel:
            asked, _ = await quarrel.deliver()
            words = ("--to-court", "half of it", "-i", "alice.json", "--url", hall.url, "--json")
            filed = json.loads(await moothall(tmp_path, "mesh", "dispute", asked.id[:8], *words))
            deal = f"mesh:{asked.id}"
            assert filed["proposal_id"] == deal
        restart(hall)
        async with Quarrel(hall.url) as quarrel:
            (case,) = await (await quarrel.alice.agentchat()).disputes()
            await soon(case.submit(WORK, "only half"))
        restart(hall)
        async with Quarrel(hall.url) as quarrel:
            offered = await quarrel.bob.conversation(asked.id)
            assert offered.case == case.dispute_id
            with pytest.raises(OutOfOrder, match="holds this conversation"):
                await offered.accept()
            answer = await quarrel.answer(deal)
            await soon(answer.submit(WORK, "all of it"))
            assert (await soon(answer.outcome())).verdict == "disputant"
        restart(hall)
        async with Quarrel(hall.url) as quarrel:
            assert await quarrel.alice.balance() == 5 * CREDIT
            assert (await quarrel.alice.conversation(asked.id)).state == "CLOSED"
        hall.stop()
    await moothall(tmp_path, "store", "check", "--data-dir", "data")


def restart(hall: HallProcess) -> None:
    hall.kill()
    hall.restart()


async def moothall(folder: Path, *words: str) -> str:
    done = await asyncio.to_thread(run_moothall, folder, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

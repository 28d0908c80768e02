"""The court: a case from the commitment to the verdict against a real hall, what survives lost connections, and the
same on a reference server."""

import asyncio
import json
import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall import (
    Agent,
    Assignment,
    Case,
    ConnectionLost,
    Dispute,
    DisputeAlreadyExists,
    DisputeCommitmentMismatch,
    DisputeDeadlinePassed,
    DisputeInvalidPhase,
    DisputeNotArbiter,
    DisputeNotFound,
    EvidenceItem,
    NotConnected,
    PrivateKey,
    Proposal,
    PublicKey,
    RateLimited,
    ReplyTimeout,
    Ruling,
    SyncAgent,
    UnexpectedReply,
    UsageError,
    verify_case,
)
from moothall.app import App
from moothall.client import book, case_import, requests
from moothall.client.connection import HallConnection
from moothall.client.dispute import checked_verdict
from moothall.client.docket import PROGRESS, Dockets
from moothall.client.evidence import evidence_items
from moothall.client.requests import Exchange, Request
from moothall.court.panel import pool_hash_of
from moothall.wire.agentchat.client import ListCases
from moothall.wire.agentchat.server import ServerMessage
from tests.client.conftest import OpenHall
from tests.client.door import Door
from tests.client.meeting import QUICKLY, Heard, settled, soon
from tests.client.reference import Frame, Peer, Reference

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "agentchat.json").read_text())

ALICE = PrivateKey(bytes(range(32)))
BOB = PrivateKey(bytes(range(1, 33)))
JUDGES = [PrivateKey(bytes([number] * 32)) for number in (7, 8, 9, 10)]
NONCE = "0123456789abcdef0123456789abcdef"


class Judge:
    """An agent that answers as it is told to."""

    def __init__(
        self, key: PrivateKey, *, answer: Any = True, opinion: Any = ("disputant", "I saw it")
    ) -> None:
        self.agent = Agent("judge", identity=key, backoff=QUICKLY)
        self.answer = answer
        self.opinion = opinion
        self.summons: Heard[Assignment] = Heard()
        self.cases: Heard[Case] = Heard()

        @self.agent.on_arbiter_assigned
        async def answer_summons(assignment: Assignment) -> bool | str | None:
            await self.summons(assignment)
            return self.answer  # type: ignore[no-any-return]  # some answer nonsense

        @self.agent.on_case
        async def judge(case: Case) -> str | tuple[str, str] | None:
            await self.cases(case)
            return self.opinion  # type: ignore[no-any-return]


@pytest.fixture
async def hall(open_hall: OpenHall) -> AsyncIterator[App]:
    """Where one deal is experience enough to judge."""
    async with open_hall(court_arbiter_transactions=1) as app:
        yield app


@asynccontextmanager
async def bench(url: str, *judges: Judge) -> AsyncIterator[None]:
    """The judges, each with a deal behind it."""
    async with AsyncExitStack() as stack:
        for judge in judges:
            await stack.enter_async_context(judge.agent.connected(url))
        for judge, other in zip(judges, (*judges[1:], judges[0]), strict=True):
            deal = await judge.agent.propose(other.agent.address, "gain experience")
            await other.agent.accept(deal.id)
            await judge.agent.complete(deal.id)
        yield


def agent(name: str, key: PrivateKey) -> Agent:
    return Agent(name, identity=key, backoff=QUICKLY)


async def agreed(alice: Agent, bob: Agent, **stakes: int) -> Proposal:
    deal = await alice.propose(bob.address, "paint the hall", stake=stakes.get("proposer"))
    await bob.accept(deal.id, stake=stakes.get("acceptor"))
    return deal


# -- a whole case ----------------------------------------------------------------------------------------


async def test_a_case_from_the_dispute_to_the_verdict(hall_key: PublicKey, url: str) -> None:
    judges = [Judge(key) for key in JUDGES[:3]]
    judges[2].opinion = "mutual"
    alice, bob = agent("alice", ALICE), agent("bob", BOB)
    accused: Heard[Dispute] = Heard()
    bob.on_dispute(accused)
    async with bench(url, *judges), alice.connected(url), bob.connected(url):
        deal = await agreed(alice, bob, proposer=10, acceptor=20)
        mine = await deal.file_dispute("it is still grey")
        addresses = {judge.agent.address for judge in judges}
        assert (mine.role, mine.proposal_id, mine.reason) == ("disputant", deal.id, "it is still grey")
        assert (mine.disputant, mine.respondent) == (alice.address, bob.address)
        assert set(mine.panel) == set(mine.pool) == addresses
        assert (mine.pool_hash, mine.skipped) == (pool_hash_of(mine.pool), ())
        assert mine.nonce is not None
        assert mine.server_nonce is not None
        assert mine.seed == sha256(f"{deal.id}{mine.nonce}{mine.server_nonce}".encode()).hexdigest()
        assert deal.frozen_by == mine.dispute_id

        theirs = await accused.next()
        assert theirs == mine
        assert (theirs.role, theirs.panel, theirs.nonce) == ("respondent", mine.panel, None)
        assignment = await judges[0].summons.next()
        assert (assignment.dispute_id, assignment.reason) == (mine.dispute_id, "it is still grey")
        assert assignment.parties == (alice.address, bob.address)
        assert not assignment.is_replacement

        # Both wait for the panel before they show anything.
        await soon(
            asyncio.gather(
                mine.submit([EvidenceItem.commit("abc123", label="the last one")], "Look outside"),
                theirs.submit([{"kind": "other", "value": "a bucket", "litres": 5}]),
            )
        )
        await settled(alice, bob)
        assert mine.evidence_from == theirs.evidence_from == {alice.address, bob.address}
        case = await judges[1].cases.next()
        assert (case.disputant, case.respondent) == (alice.address, bob.address)
        assert (case.proposal["id"], case.proposal["task"]) == (deal.id, "paint the hall")
        assert case.disputant_evidence is not None
        assert case.disputant_evidence.statement == "Look outside"
        (item,) = case.disputant_evidence.items
        assert (item["kind"], item["value"], len(item["hash"])) == ("commit", "abc123", 64)
        assert case.respondent_evidence is not None
        assert case.respondent_evidence.items[0]["litres"] == 5

        ruling = await soon(mine.outcome())
        assert (ruling.verdict, ruling.fallback, ruling.stakes_went) == ("disputant", None, "transferred")
        assert {(vote.arbiter, vote.verdict, vote.reasoning) for vote in ruling.votes} == {
            (judges[0].agent.address, "disputant", "I saw it"),
            (judges[1].agent.address, "disputant", "I saw it"),
            (judges[2].agent.address, "mutual", ""),
        }
        rewards = {result.arbiter: result.reward for result in ruling.arbiters}
        assert rewards == {judge.agent.address: 5 if judge is not judges[2] else 0 for judge in judges}
        assert ruling.rating_changes[bob.address].change == -28  # 8 points, and its stake
        assert await soon(theirs.outcome()) == ruling
        assert (mine.phase, mine.is_over, mine.verdict, mine.ruling) == (
            "resolved",
            True,
            "disputant",
            ruling,
        )
        assert mine.deadline is None

        assert await soon(deal.outcome()) == "disputed"
        assert not deal.facts().frozen_by
        assert set(deal.rating_changes) == {alice.address, bob.address}
        assert verify_case(await mine.case(), hall_key).problems == []
        assert await alice.case_file(deal.id) == await theirs.case()
        assert case_import.ruling(case_import.read(await mine.case())) is not None


async def test_without_arbiters_there_is_no_verdict(url: str) -> None:
    async with agent("alice", ALICE).connected(url) as alice, agent("bob", BOB).connected(url) as bob:
        deal = await agreed(alice, bob)
        dispute = await deal.file_dispute("no paint")
        assert (dispute.phase, dispute.panel) == ("fallback", ())
        ruling = await dispute.outcome()
        assert ruling == Ruling(verdict=None, fallback="Not enough eligible arbiters")
        assert deal.frozen_by is None
        with pytest.raises(DisputeInvalidPhase):
            await dispute.submit([], "too late")
        await deal.dispute("then without a court")
        assert deal.status == "disputed"


# -- commit and reveal -----------------------------------------------------------------------------------


async def test_commit_and_reveal_are_two_steps_for_who_wants_them(url: str) -> None:
    async with agent("alice", ALICE).connected(url) as alice, agent("bob", BOB).connected(url) as bob:
        deal = await agreed(alice, bob)
        dispute = await alice.file_dispute(deal.id, "no paint", nonce=NONCE, reveal=False)
        assert (dispute.phase, dispute.nonce, dispute.seed) == ("reveal_pending", NONCE, None)
        assert dispute.deadline is not None
        assert dispute.filed_at is not None
        assert (dispute.deadline - dispute.filed_at).total_seconds() == 300
        assert repr(dispute).endswith("reveal_pending 'no paint'>")
        with pytest.raises(DisputeCommitmentMismatch):
            await alice.reveal_dispute(deal.id, "another")
        await dispute.reveal()
        assert dispute.phase == "fallback"
        with pytest.raises(DisputeInvalidPhase):
            await dispute.reveal()


async def test_a_kept_nonce_lets_a_restarted_agent_go_on(url: str) -> None:
    async with agent("bob", BOB).connected(url) as bob:
        async with agent("alice", ALICE).connected(url) as alice:
            deal = await agreed(alice, bob)
            await alice.file_dispute(deal.id, "no paint", nonce=NONCE, reveal=False)
        async with agent("alice", ALICE).connected(url) as again:
            with pytest.raises(DisputeAlreadyExists):
                await again.file_dispute(deal.id, "no paint")
            with pytest.raises(DisputeAlreadyExists):
                await again.file_dispute(deal.id, "no paint", nonce=NONCE[::-1])
            (listed,) = await again.disputes()
            assert (listed.phase, listed.role, listed.nonce) == ("reveal_pending", "disputant", None)
            with pytest.raises(UsageError, match="reveal_dispute"):
                await listed.reveal()
            dispute = await again.file_dispute(deal.id, "no paint", nonce=NONCE)
            assert (dispute, dispute.phase) == (listed, "fallback")
            assert await again.file_dispute(deal.id, "no paint", nonce=NONCE) == dispute
        async with agent("alice", ALICE).connected(url) as again:
            dispute = await again.file_dispute(
                deal.id, "another reason, which the hall never hears", nonce=NONCE
            )
            assert dispute.reason == "no paint"
        with pytest.raises(DisputeAlreadyExists):
            await bob.file_dispute(deal.id, "no, you", nonce=NONCE)


async def test_a_nonce_that_is_not_revealed_leaves_the_other_party_its_dispute(open_hall: OpenHall) -> None:
    async with open_hall(court_reveal_timeout=0.2) as app:
        url = app.url
        async with agent("alice", ALICE).connected(url) as alice, agent("bob", BOB).connected(url) as bob:
            deal = await agreed(alice, bob)
            abandoned = await alice.file_dispute(deal.id, "no paint", nonce=NONCE, reveal=False)
            assert (await soon(abandoned.outcome())).fallback == "The nonce was not revealed in time"
            for refused in (deal.file_dispute("no paint"), deal.dispute("no paint")):
                with pytest.raises(DisputeAlreadyExists):
                    await refused
            assert await deal.file_dispute("no paint", nonce=NONCE) == abandoned
            own = await bob.file_dispute(deal.id, "no brush", nonce=NONCE)
            assert own.dispute_id != abandoned.dispute_id
            assert (own.role, own.reason, own.ruling) == (
                "disputant",
                "no brush",
                Ruling(verdict=None, fallback="Not enough eligible arbiters"),
            )
            listed = await bob.disputes(open_only=False)
            assert [(each.dispute_id, each.role) for each in listed] == [
                (own.dispute_id, "disputant"),
                (abandoned.dispute_id, "respondent"),
            ]
            with pytest.raises(DisputeAlreadyExists):
                await deal.file_dispute("no paint", nonce=NONCE)


async def test_what_cannot_be_filed(url: str) -> None:
    async with agent("alice", ALICE).connected(url) as alice, Agent("eve").connected(url) as eve:
        with pytest.raises(UsageError, match="reason"):
            await alice.file_dispute("prop_0", "")
        with pytest.raises(UsageError, match="no key"):
            await eve.file_dispute("prop_0", "spite")
        with pytest.raises(UsageError, match="1024"):
            await alice.file_dispute("prop_0", "late", nonce="x" * 1025)
        with pytest.raises(DisputeNotFound):
            await alice.reveal_dispute("prop_0", NONCE)
        with pytest.raises(DisputeNotFound):
            await alice.case_file("disp_0")
        for limit in (0, 1001):
            with pytest.raises(UsageError, match="1000"):
                await alice.disputes(limit=limit)


# -- judging ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refusal", [False, "I know them both", ""])
async def test_who_declines_is_replaced(refusal: bool | str, url: str) -> None:
    judges = [Judge(key) for key in JUDGES]
    for judge in judges:
        judge.answer = None
    async with (
        bench(url, *judges),
        agent("alice", ALICE).connected(url) as alice,
        agent("bob", BOB).connected(url) as bob,
    ):
        dispute = await (await agreed(alice, bob)).file_dispute("no paint")
        drawn = [judge for judge in judges if judge.agent.address in dispute.panel]
        (spare,) = [judge for judge in judges if judge not in drawn]
        assignments = [await judge.summons.next() for judge in drawn]
        if isinstance(refusal, str):
            await assignments[0].decline(refusal or None)
        else:
            await drawn[0].agent.decline_case(dispute.dispute_id)
        summoned = await spare.summons.next()
        assert summoned.is_replacement
        for assignment in (*assignments[1:], summoned):
            await assignment.accept()
        with pytest.raises(DisputeNotArbiter):
            await assignments[0].accept()
        await soon(dispute.submit([], "there is no paint"))
        (slot,) = [entry.slot for entry in await drawn[0].agent.disputes()]
        assert slot == "declined"
        case = await dispute.case()
        assert case["arbiters"][dispute.panel.index(drawn[0].agent.address)]["declined"]["reason"] == (
            refusal or None
        )


@pytest.mark.parametrize("refusal", [False, "I know them both"])
async def test_a_handler_declines(refusal: bool | str, url: str) -> None:
    judges = [Judge(key) for key in JUDGES[:3]]
    judges[0].answer = refusal
    async with (
        bench(url, *judges),
        agent("alice", ALICE).connected(url) as alice,
        agent("bob", BOB).connected(url) as bob,
    ):
        dispute = await (await agreed(alice, bob)).file_dispute("no paint")
        assert (await soon(dispute.outcome())).fallback == "Not enough eligible arbiters"


async def test_an_arbiter_takes_its_time(url: str) -> None:
    judges = [Judge(key, answer=None, opinion=None) for key in JUDGES[:3]]
    async with (
        bench(url, *judges),
        agent("alice", ALICE).connected(url) as alice,
        agent("bob", BOB).connected(url) as bob,
    ):
        deal = await agreed(alice, bob)
        dispute = await deal.file_dispute("no paint")
        for judge in judges:
            await (await judge.summons.next()).accept()
        with pytest.raises(DisputeInvalidPhase):
            await judges[0].agent.vote(dispute.dispute_id, "mutual")
        await dispute.submit([], "there is none")
        await bob.submit_evidence(dispute.dispute_id, [])
        with pytest.raises(DisputeDeadlinePassed):
            await bob.submit_evidence(dispute.dispute_id, [], "and another thing")
        cases = [await judge.cases.next() for judge in judges]
        with pytest.raises(UsageError, match="disputant, the respondent or mutual"):
            await cases[0].vote("guilty")
        for case in cases:
            await case.vote("respondent", "paint was never promised")
        ruling = await soon(dispute.outcome())
        assert ruling.verdict == "respondent"
        with pytest.raises(DisputeInvalidPhase):
            await cases[0].vote("disputant")


async def test_an_answer_that_is_none_is_no_vote(url: str, caplog: pytest.LogCaptureFixture) -> None:
    judges = [Judge(key) for key in JUDGES[:3]]
    judges[0].opinion = "guilty"
    judges[1].answer = 42
    async with (
        bench(url, *judges),
        agent("alice", ALICE).connected(url) as alice,
        agent("bob", BOB).connected(url) as bob,
    ):
        dispute = await (await agreed(alice, bob)).file_dispute("no paint")
        await judges[1].summons.next()
        await settled(judges[1].agent)
        await judges[1].agent.accept_case(dispute.dispute_id)
        await soon(dispute.submit([]))
        await bob.submit_evidence(dispute.dispute_id, [])
        await judges[0].cases.next()
        await settled(judges[0].agent)
        await judges[0].agent.vote(dispute.dispute_id, "disputant")
        assert (await soon(dispute.outcome())).verdict == "disputant"
    failures = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert sorted(type(failure).__name__ for failure in failures) == ["TypeError", "UsageError"]


async def test_who_explains_itself_at_length_has_voted_all_the_same(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A long reasoning would be refused, and the arbiter would forfeit 25 points."""
    judges = [Judge(key) for key in JUDGES[:3]]
    judges[0].opinion = ("disputant", "x" + "\U0001f600" * 600)
    judges[1].opinion = ("disputant", None)
    judges[2].opinion = ("disputant", "x" * 500)
    async with (
        bench(url, *judges),
        agent("alice", ALICE).connected(url) as alice,
        agent("bob", BOB).connected(url) as bob,
    ):
        dispute = await (await agreed(alice, bob)).file_dispute("no paint")
        for judge in judges:
            await judge.summons.next()
            await settled(judge.agent)
        await soon(dispute.submit([]))
        await bob.submit_evidence(dispute.dispute_id, [])
        ruling = await soon(dispute.outcome())
    said = {vote.arbiter: vote.reasoning for vote in ruling.votes}
    assert said == {
        judges[0].agent.address: "x" + "\U0001f600" * 249 + "…",
        judges[1].agent.address: "",
        judges[2].agent.address: "x" * 500,
    }
    assert "and was cut" in caplog.text


async def test_who_declines_at_length_has_declined_all_the_same(url: str) -> None:
    judges = [Judge(key) for key in JUDGES[:3]]
    judges[0].answer = "x" * 501
    async with (
        bench(url, *judges),
        agent("alice", ALICE).connected(url) as alice,
        agent("bob", BOB).connected(url) as bob,
    ):
        dispute = await (await agreed(alice, bob)).file_dispute("no paint")
        assert (await soon(dispute.outcome())).fallback == "Not enough eligible arbiters"


# -- lost connections ------------------------------------------------------------------------------------


class Forgetful:
    """Connections that break, once for each of these messages, when the hall has heard it or just before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *kinds: str, heard: bool = True) -> None:
        self.left = set(kinds)
        ask = HallConnection.ask

        async def ask_in_vain(connection: HallConnection, request: Request) -> ServerMessage:
            if request.kind not in self.left:
                return await ask(connection, request)
            self.left.discard(request.kind)
            if heard:
                await ask(connection, request)
            await connection._socket.close()
            raise ConnectionLost("the answer is lost")

        monkeypatch.setattr(HallConnection, "ask", ask_in_vain)


async def test_a_step_whose_answer_is_lost_counts_once(
    hall_key: PublicKey, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judges = [Judge(key) for key in JUDGES[:3]]
    async with (
        bench(url, *judges),
        agent("alice", ALICE).connected(url) as alice,
        agent("bob", BOB).connected(url) as bob,
    ):
        deal = await agreed(alice, bob)
        steps = ("DISPUTE_INTENT", "DISPUTE_REVEAL", "EVIDENCE", "ARBITER_ACCEPT", "ARBITER_VOTE")
        forgetful = Forgetful(monkeypatch, *steps)
        dispute = await soon(deal.file_dispute("no paint"))
        assert len(dispute.panel) == 3
        await soon(dispute.submit([], "there is none"))
        await bob.submit_evidence(dispute.dispute_id, [])
        ruling = await soon(dispute.outcome())
        assert ruling.verdict == "disputant"
        assert len(ruling.votes) == 3
        assert not forgetful.left
        assert verify_case(await dispute.case(), hall_key).problems == []


async def test_a_step_that_is_refused_after_a_lost_connection(url: str) -> None:
    """The answer was lost, and the step came to nothing: that is what has to be told."""
    async with agent("alice", ALICE).connected(url) as alice, agent("bob", BOB).connected(url) as bob:
        deal = await agreed(alice, bob)
        dispute = await alice.file_dispute(deal.id, "no paint", reveal=False)
        with pytest.MonkeyPatch.context() as monkeypatch:
            Forgetful(monkeypatch, "EVIDENCE", "ARBITER_VOTE", heard=False)
            with pytest.raises(DisputeInvalidPhase):
                await alice.submit_evidence(dispute.dispute_id, [])
            with pytest.raises(DisputeNotArbiter):
                await alice.vote(dispute.dispute_id, "mutual")


async def test_without_a_way_back_the_loss_is_told(url: str) -> None:
    alice = Agent("alice", identity=ALICE, reconnect=False)
    async with alice.connected(url), agent("bob", BOB).connected(url) as bob:
        deal = await agreed(alice, bob)
        with pytest.MonkeyPatch.context() as monkeypatch:
            Forgetful(monkeypatch, "DISPUTE_INTENT")
            with pytest.raises(ConnectionLost, match="lost"):
                await deal.file_dispute("no paint")


async def test_who_was_away_is_told_on_coming_back(hall: App, url: str) -> None:
    judges = [Judge(key, answer=None, opinion=None) for key in JUDGES[:3]]
    alice, bob = agent("alice", ALICE), agent("bob", BOB)
    accused: Heard[Dispute] = Heard()
    bob.on_dispute(accused)
    async with Door(hall.port.address[1]) as door, bench(url, *judges):
        async with alice.connected(door.url), bob.connected(door.url):
            deal = await agreed(alice, bob)
        async with alice.connected(url):
            dispute = await alice.file_dispute(deal.id, "no paint")
            async with bob.connected(url):
                theirs = await accused.next()
                assert (theirs.panel, theirs.seed) == (dispute.panel, dispute.seed)
                assert (theirs.reason, theirs.pool) == ("no paint", dispute.pool)

        first = judges[0]
        await first.agent.close()
        again = Judge(JUDGES[0], answer=None, opinion=None)
        async with again.agent.connected(url):
            assignment = await again.summons.next()
            assert assignment.parties == (alice.address, bob.address)
            await assignment.accept()
            for judge in judges[1:]:
                await judge.agent.accept_case(dispute.dispute_id)
            async with alice.connected(url), bob.connected(url):
                await alice.submit_evidence(dispute.dispute_id, [EvidenceItem.message("hello?")])
                await bob.submit_evidence(dispute.dispute_id, [], "hello")
            await again.cases.next()
        late = Agent("judge", identity=JUDGES[0])
        shown: Heard[Case] = Heard()
        async with late.connected(url):
            late.on_case(shown)
            case = await shown.next()
            assert case.proposal["task"] == "paint the hall"
            assert case.disputant_evidence is not None
            assert case.disputant_evidence.items[0]["value"] == "hello?"
            assert len(case.disputant_evidence.items[0]["hash"]) == 64
            await settled(late)
            assert len(shown.events) == 1


async def test_a_handler_that_comes_late_is_told_too(url: str) -> None:
    judges = [Judge(key) for key in JUDGES[:3]]
    async with (
        bench(url, *judges),
        agent("alice", ALICE).connected(url) as alice,
        agent("bob", BOB).connected(url) as bob,
    ):
        dispute = await (await agreed(alice, bob)).file_dispute("no paint")
        await settled(bob)
        accused: Heard[Dispute] = Heard()
        bob.on_dispute(accused)
        assert await accused.next() == dispute
        await settled(bob)
        assert len(accused.events) == 1


async def test_what_a_handler_failed_at_is_asked_again(hall: App, url: str) -> None:
    judges = [Judge(key) for key in JUDGES[:3]]
    judges[0].answer, judges[0].opinion = 42, "guilty"
    async with (
        Door(hall.port.address[1]) as door,
        bench(url, *judges),
        agent("alice", ALICE).connected(url) as alice,
        agent("bob", BOB).connected(url) as bob,
    ):
        await judges[0].agent.close()
        async with judges[0].agent.connected(door.url):
            dispute = await (await agreed(alice, bob)).file_dispute("no paint")
            await judges[0].summons.next()
            await settled(judges[0].agent)
            judges[0].answer = True
            door.drop()
            await soon(dispute.submit([]))
            assert len(judges[0].summons.events) == 2
            await bob.submit_evidence(dispute.dispute_id, [])
            await judges[0].cases.next()
            await settled(judges[0].agent)
            judges[0].opinion = "mutual"
            door.drop()
            assert len((await soon(dispute.outcome())).votes) == 3


async def test_who_is_drawn_and_does_not_listen_reads_it_in_the_log(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    judges = [Judge(key) for key in JUDGES[:3]]
    async with (
        bench(url, *judges),
        agent("alice", ALICE).connected(url) as alice,
        agent("bob", BOB).connected(url) as bob,
    ):
        await judges[0].agent.close()
        async with Agent("deaf", identity=JUDGES[0]).connected(url) as deaf:
            dispute = await (await agreed(alice, bob)).file_dispute("no paint")
            await settled(deaf)
            assert f"{dispute.dispute_id}, and has no on_arbiter_assigned" in caplog.text


async def test_a_verdict_is_awaited_through_a_reconnect(hall: App, url: str) -> None:
    judges = [Judge(key, opinion=None) for key in JUDGES[:3]]
    alice, bob = agent("alice", ALICE), agent("bob", BOB)
    lost: Heard[object] = Heard()
    alice.on_disconnect(lost)
    async with (
        Door(hall.port.address[1]) as door,
        bench(url, *judges),
        alice.connected(door.url),
        bob.connected(url),
    ):
        deal = await agreed(alice, bob, proposer=7)
        mine = await deal.file_dispute("no paint")
        await soon(mine.submit([]))
        await bob.submit_evidence(mine.dispute_id, [])
        outcome = asyncio.create_task(mine.outcome())
        cases = [await judge.cases.next() for judge in judges]
        door.shut()
        await lost.next()
        for case in cases:
            await case.vote("mutual", "both")
        assert not mine.is_over
        door.open()
        ruling = await soon(outcome)
        assert (ruling.verdict, ruling.stakes_went) == ("mutual", "burned")
        assert [vote.reasoning for vote in ruling.votes] == ["both"] * 3
        assert {result.reward for result in ruling.arbiters} == {5}
        assert ruling.rating_changes[alice.address].change == -15
        assert await soon(deal.outcome()) == "disputed"


async def test_the_panel_is_heard_of_though_the_hall_has_no_time_to_list_cases(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judges = [Judge(key, answer=None) for key in JUDGES[:3]]
    monkeypatch.setattr(requests, "RETRY_AFTER", 0.01)
    ask = Exchange.ask
    refused: list[Exchange] = []

    async def too_many(self: Exchange, message: Any, *rest: Any, **options: Any) -> Any:
        if isinstance(message, ListCases) and self not in refused:
            refused.append(self)
            raise RateLimited("Too many messages")
        return await ask(self, message, *rest, **options)

    alice, bob = agent("alice", ALICE), agent("bob", BOB)
    async with bench(url, *judges), bob.connected(url), alice.connected(url):
        dispute = await (await agreed(alice, bob)).file_dispute("no paint")
        submitted = asyncio.create_task(dispute.submit([]))
        await settled(alice)
        monkeypatch.setattr(Exchange, "ask", too_many)
        for judge in judges:
            await (await judge.summons.next()).accept()
        await soon(submitted)
        assert refused


async def test_waiting_for_the_panel_ends_when_the_caller_says(url: str) -> None:
    judges = [Judge(key, answer=None) for key in JUDGES[:3]]
    alice, bob = agent("alice", ALICE), agent("bob", BOB)
    async with bench(url, *judges), bob.connected(url), alice.connected(url):
        dispute = await (await agreed(alice, bob)).file_dispute("no paint")
        with pytest.raises(ReplyTimeout, match="arbiter_response"):
            await soon(dispute.submit([], timeout=0.05))


async def test_waiting_ends_with_the_stay(url: str) -> None:
    judges = [Judge(key, answer=None) for key in JUDGES[:3]]
    async with bench(url, *judges), agent("bob", BOB).connected(url) as bob:
        alice = agent("alice", ALICE)
        async with alice.connected(url):
            dispute = await (await agreed(alice, bob)).file_dispute("no paint")
            with pytest.raises(ReplyTimeout, match="arbiter_response"):
                await dispute.outcome(0.01)
            waiting = asyncio.create_task(dispute.outcome())
            await settled(alice)
        with pytest.raises(ConnectionLost, match="left the hall"):
            await soon(waiting)
        with pytest.raises(NotConnected, match="left the hall"):
            await dispute.outcome()


# -- scripts ---------------------------------------------------------------------------------------------


async def test_a_script_goes_to_court(hall: App) -> None:
    def script() -> None:
        with (
            SyncAgent("alice", identity=ALICE, url=hall.url) as alice,
            SyncAgent("bob", identity=BOB, url=hall.url) as bob,
        ):
            deal = alice.propose(bob.address, "paint")
            bob.accept(deal.id)
            dispute = alice.file_dispute(deal.id, "no paint", reveal=False)
            assert dispute.nonce is not None
            dispute.reveal()
            assert dispute.outcome(5).fallback == "Not enough eligible arbiters"
            assert dispute.case()["phase"] == alice.case_file(deal.id)["phase"] == "fallback"
            assert [found.role for found in bob.disputes(open_only=False)] == ["respondent"]
            with pytest.raises(DisputeInvalidPhase):
                dispute.submit([], "late")
            second = bob.propose(alice.address, "paint it again")
            alice.accept(second.id)
            filed = second.file_dispute("grey", nonce=NONCE)
            assert filed.phase == "fallback"
            with pytest.raises(DisputeInvalidPhase):
                bob.reveal_dispute(second.id, NONCE)
            for step in (alice.accept_case, alice.decline_case):
                with pytest.raises(DisputeNotArbiter):
                    step(filed.dispute_id)
            with pytest.raises(DisputeNotArbiter):
                alice.vote(filed.dispute_id, "mutual", "why not")
            with pytest.raises(DisputeInvalidPhase):
                alice.submit_evidence(filed.dispute_id, [])

    await asyncio.to_thread(script)


# -- evidence --------------------------------------------------------------------------------------------


def test_a_file_is_shown_by_its_hash(tmp_path: Path) -> None:
    path = tmp_path / "build.log"
    path.write_bytes(b"secret")
    item = EvidenceItem.file(path)
    assert item.fields() == {
        "kind": "file",
        "value": f"sha256:{sha256(b'secret').hexdigest()}",
        "label": "build.log (6 bytes)",
    }
    with pytest.raises(UsageError, match="nowhere"):
        EvidenceItem.file(tmp_path / "nowhere")


@given(st.lists(st.dictionaries(st.text(), st.integers() | st.text() | st.none(), max_size=3), max_size=3))
def test_evidence_is_sent_as_it_is(items: list[dict[str, Any]]) -> None:
    """Lone surrogates cannot be sent, and are refused here."""
    try:
        json.dumps(items, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        with pytest.raises(UsageError):
            evidence_items(items)
    else:
        assert evidence_items(items) == items


def test_evidence_that_is_none() -> None:
    for items in (["text"], [{"value": object()}], [[1]], [{"value": math.nan}], [{"value": [math.inf]}]):
        with pytest.raises(UsageError):
            evidence_items(items)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        checked_verdict("guilty")


def test_a_file_that_makes_no_sense() -> None:
    with pytest.raises(UnexpectedReply, match="dispute_id"):
        case_import.read({"format": 1})


# -- dockets ---------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([*PROGRESS, "appeal"]), max_size=12))
def test_news_that_come_late_lead_nowhere(phases: list[str]) -> None:
    dockets = Dockets()
    found = dockets.opened("disp_1", "prop_1")
    furthest = 0
    for phase in phases:
        dockets.advance(found, phase)
        furthest = max(furthest, PROGRESS.get(phase, 0))
        assert found.progress == furthest
        assert ("disp_1" in dockets.open) is (not found.is_over)


def test_not_every_open_dispute_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "MAX_OPEN", 2)
    dockets = Dockets()
    held = dockets.opened("disp_1", "prop_1")
    for number in range(2, 5):
        dockets.opened(f"disp_{number}", f"prop_{number}")
    assert list(dockets.open) == ["disp_3", "disp_4"]
    assert dockets.about("prop_1") is held
    assert dockets.get("disp_2") is None


async def test_whoever_waits_is_woken_however_many_others_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "MAX_OPEN", 1)
    dockets = Dockets()
    held = dockets.opened("disp_1", "prop_1")
    dockets.opened("disp_2", "prop_2")
    waiting = asyncio.create_task(dockets.news_of(held, 5))
    await asyncio.sleep(0)
    dockets.wake_all()
    assert await waiting


# -- a reference server ----------------------------------------------------------------------------------


class OldCourt(Reference):
    """Says what 0.36 says, no more: no `ref`, no lists, no pool, no word on success (agentchat wire 13)."""

    def __init__(self) -> None:
        super().__init__()
        self.disputant: Peer | None = None
        self.promise: Frame = {}  # what a hall of ours adds to its answer to the intent
        self.pool: Frame = {}  # and to PANEL_FORMED

    async def _refuse(self, peer: Peer, frame: Frame) -> None:
        await peer.send(type="ERROR", code="INVALID_MSG", message="Unknown message type")

    _do_list_cases = _do_get_case = _do_list_proposals = _refuse

    async def _silent(self, peer: Peer, frame: Frame) -> None:
        pass

    _do_arbiter_accept = _do_arbiter_decline = _silent

    async def _do_dispute_intent(self, peer: Peer, frame: Frame) -> None:
        if self.disputant is not None:
            await peer.send(type="ERROR", code="DISPUTE_ALREADY_EXISTS", message="exists")
            return
        self.disputant = peer
        ack = {"dispute_id": "disp_m0abcdg3_cafef00d", "proposal_id": frame["proposal_id"]}
        await peer.send(type="DISPUTE_INTENT_ACK", server_nonce="a0b1", **ack, **self.promise)

    async def _do_dispute_reveal(self, peer: Peer, frame: Frame) -> None:
        case = {"dispute_id": "disp_m0abcdg3_cafef00d", "proposal_id": frame["proposal_id"]}
        parties = {"disputant": peer.id, "respondent": "@b"}
        await peer.send(
            type="PANEL_FORMED",
            arbiters=["@c", "@d", "@e"],
            evidence_deadline=None,
            vote_deadline=None,
            seed="5eed",
            server_nonce="a0b1",
            **case,
            **parties,
            **self.pool,
        )
        await peer.send(type="DISPUTE_REVEALED", dispute_id=case["dispute_id"], panel_size=3, seed="5eed")

    async def _do_evidence(self, peer: Peer, frame: Frame) -> None:
        received = {"dispute_id": frame["dispute_id"], "from": peer.id, "items_count": len(frame["items"])}
        await peer.send(type="EVIDENCE_RECEIVED", **received)

    async def _do_arbiter_vote(self, peer: Peer, frame: Frame) -> None:
        case = {"dispute_id": frame["dispute_id"], "proposal_id": "prop_m0abcdf2_deadbeef"}
        votes = [{"arbiter": peer.id, "verdict": frame["verdict"], "reasoning": frame["reasoning"]}]
        results = [{**votes[0], "reward": 5}]
        verdict = frame["verdict"]
        await peer.send(
            type="VERDICT", verdict=verdict, votes=votes, arbiter_results=results, resolved_at=1, **case
        )
        changes = {peer.id: {"oldRating": 1200, "newRating": 1205, "change": 5}}
        await peer.send(type="SETTLEMENT_COMPLETE", verdict=verdict, rating_changes=changes, **case)


@pytest.fixture
async def reference() -> AsyncIterator[OldCourt]:
    async with OldCourt() as server:
        yield server


def signer(name: str) -> tuple[Agent, PublicKey]:
    (seed,) = (key["ed25519_seed_hex"] for key in VECTORS["keys"] if key["name"] == name)
    key = PrivateKey(bytes.fromhex(seed))
    return Agent(name, identity=key, timeout=10), key.public


DEAL = "prop_m0abcdf2_deadbeef"
DISPUTE = "disp_m0abcdg3_cafef00d"


async def test_a_dispute_on_a_reference_server(reference: OldCourt) -> None:
    async with signer("alice")[0].connected(reference.url) as alice:
        dispute = await alice.file_dispute(DEAL, "late delivery")
        assert (dispute.dispute_id, dispute.panel, dispute.pool) == (DISPUTE, ("@c", "@d", "@e"), ())
        assert (dispute.phase, dispute.seed, dispute.deadline) == ("arbiter_response", "5eed", None)
        await soon(dispute.submit([{"kind": "commit"}], "it tells nobody when"))
        await alice.vote(DISPUTE, "mutual", "anybody may, here")
        ruling = await soon(dispute.outcome())
        assert (ruling.verdict, ruling.stakes_went) == ("mutual", None)
        assert ruling.rating_changes[alice.address].new == 1205


@pytest.mark.parametrize(("drawn_from", "is_told"), [(["@c", "@d", "@e"], False), (["@d", "@e", "@f"], True)])
async def test_a_hall_that_draws_from_another_pool_than_it_promised_is_reported(
    reference: OldCourt, drawn_from: list[str], is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    reference.promise = {"pool_hash": pool_hash_of(["@c", "@d", "@e"])}
    reference.pool = {"pool": drawn_from, "skipped": []}
    async with signer("alice")[0].connected(reference.url) as alice:
        dispute = await alice.file_dispute(DEAL, "late delivery")
        assert dispute.pool == tuple(drawn_from)
        assert dispute.pool_hash == reference.promise["pool_hash"]
    assert ("another pool than the hall had promised" in caplog.text) is is_told


async def test_a_dispute_goes_on_there_too(reference: OldCourt) -> None:
    async with signer("alice")[0].connected(reference.url) as alice:
        await alice.file_dispute(DEAL, "late delivery", nonce=NONCE, reveal=False)
    async with signer("alice")[0].connected(reference.url) as again:
        dispute = await again.file_dispute(DEAL, "late delivery", nonce=NONCE)
        assert (dispute.phase, dispute.nonce) == ("arbiter_response", NONCE)


async def test_steps_are_signed_as_the_reference_signs_them(reference: OldCourt) -> None:
    vectors = {vector["label"]: vector for vector in VECTORS["court_signatures"]}
    nonce = vectors["DISPUTE_REVEAL"]["signing_text"].split("|")[-1]
    async with signer("alice")[0].connected(reference.url) as alice:
        dispute = await alice.file_dispute(DEAL, "late delivery", nonce=nonce)
        await dispute.submit(VECTORS["court_evidence"]["items"], "the statement is not signed")
    async with signer("carol")[0].connected(reference.url) as carol:
        await carol.accept_case(DISPUTE)
    async with signer("dave")[0].connected(reference.url) as dave:
        await dave.decline_case(DISPUTE)
        await dave.decline_case(DISPUTE, "conflict of interest")
    async with signer("erin")[0].connected(reference.url) as erin:
        await erin.vote(DISPUTE, "disputant")
    sent = [frame["sig"] for frame in reference.received if "sig" in frame]
    expected = [vector["sig"] for vector in VECTORS["court_signatures"]]
    assert sent == [*expected[:2], VECTORS["court_evidence"]["sig"], *expected[2:]]

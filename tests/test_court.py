"""A whole case on a real hall, which is killed in every phase: what was acknowledged is a fact."""

import json
from pathlib import Path
from typing import Any

import pytest

from moothall.court.verify import verify_case
from moothall.identity import PrivateKey
from moothall.identity.seals import key_id
from tests.identity.vectors import ALICE, BOB
from tests.support.agentchat import AgentChat, Message, Refused
from tests.support.cases import ARBITERS, COMMITMENT, NONCE, signed_step
from tests.support.deals import signed
from tests.support.server import HallProcess, run_moothall, running_hall

pytestmark = pytest.mark.slow

JUDGES = ARBITERS[:4]


def with_judges(folder: Path) -> None:
    """A data directory in which the judges have a past: the reference server left it there."""
    ratings = {
        f"@{key.public.agent_id(16)}": {"rating": 1400, "transactions": 30, "updated": None} for key in JUDGES
    }
    (folder / "data").mkdir()
    (folder / "data" / "ratings.json").write_text(json.dumps(ratings))


class Court:
    """Everybody on one hall."""

    def __init__(self, hall: HallProcess) -> None:
        self.hall = hall
        self.agents: dict[PrivateKey, AgentChat] = {}
        self.deal = ""
        self.dispute = ""

    async def come_in(self) -> None:
        for number, key in enumerate((ALICE, BOB, *JUDGES)):
            self.agents[key] = await AgentChat.connect(self.hall.url, f"agent{number}", key)

    async def leave(self) -> None:
        for agent in self.agents.values():
            await agent.close()
        self.agents.clear()

    async def after_kill(self) -> None:
        """The power fails, and everybody comes back."""
        self.hall.kill()
        await self.leave()
        self.hall.restart()
        await self.come_in()

    async def act(self, key: PrivateKey, kind: str, answer: str, **fields: Any) -> Message:
        await self.agents[key].send(type=kind, ref=kind, **signed_step(key, kind, **fields))
        return await self.agents[key].answer(answer, ref=kind)

    async def strike(self) -> None:
        alice, bob = self.agents[ALICE], self.agents[BOB]
        offer = signed(ALICE, "PROPOSAL", to=bob.agent_id, task="review", elo_stake=30)
        await alice.send(type="PROPOSAL", **offer)
        self.deal = (await alice.answer("PROPOSAL"))["id"]
        accepted = signed(BOB, "ACCEPT", proposal_id=self.deal, elo_stake=20)
        await bob.send(type="ACCEPT", **accepted)
        await bob.answer("ACCEPT")

    async def file(self) -> None:
        answer = await self.act(
            ALICE,
            "DISPUTE_INTENT",
            "DISPUTE_INTENT_ACK",
            proposal_id=self.deal,
            reason="nothing came",
            commitment=COMMITMENT,
        )
        self.dispute = answer["dispute_id"]

    async def entry(self, key: PrivateKey) -> Message:
        (entry,) = (await self.agents[key].ask("CASES", type="LIST_CASES"))["list"]
        found: Message = entry
        return found

    async def file_of(self, key: PrivateKey) -> Any:
        return (await self.agents[key].ask("CASE", type="GET_CASE", proposal_id=self.deal))["case"]

    async def summoned(self) -> list[PrivateKey]:
        """Whoever has a live slot."""
        keys = {agent.agent_id: key for key, agent in self.agents.items()}
        arbiters = (await self.file_of(ALICE))["arbiters"]
        return [keys[arbiter["id"]] for arbiter in arbiters if arbiter["status"] != "declined"]


async def test_a_case_survives_kill_9_in_every_phase(tmp_path: Path) -> None:
    with_judges(tmp_path)
    with running_hall(tmp_path) as hall:
        court = Court(hall)
        await court.come_in()
        await court.strike()

        await court.file()
        before = await court.file_of(ALICE)
        await court.after_kill()
        assert await court.file_of(ALICE) == before
        assert (await court.entry(BOB))["phase"] == "reveal_pending"

        await court.act(ALICE, "DISPUTE_REVEAL", "DISPUTE_REVEALED", proposal_id=court.deal, nonce=NONCE)
        before = await court.file_of(ALICE)
        await court.after_kill()
        assert await court.file_of(ALICE) == before
        for key in await court.summoned():
            await court.agents[key].expect("ARBITER_ASSIGNED", dispute_id=court.dispute)

        first = (await court.summoned())[0]
        await court.act(first, "ARBITER_DECLINE", "ACK", dispute_id=court.dispute, reason="a friend")
        for key in await court.summoned():
            await court.act(key, "ARBITER_ACCEPT", "ACK", dispute_id=court.dispute)
        await court.after_kill()
        assert (await court.entry(ALICE))["phase"] == "evidence"

        items = [{"kind": "commit", "value": "abc"}]
        evidence = {"dispute_id": court.dispute, "items": items, "statement": "look"}
        await court.act(ALICE, "EVIDENCE", "EVIDENCE_RECEIVED", **evidence)
        await court.after_kill()
        await court.act(BOB, "EVIDENCE", "EVIDENCE_RECEIVED", **{**evidence, "items": []})
        await court.after_kill()
        panel = await court.summoned()
        for key in panel:
            ready = await court.agents[key].expect("CASE_READY", dispute_id=court.dispute)
            assert ready["disputant_evidence"]["statement"] == "look"

        ballot = {"dispute_id": court.dispute, "reasoning": "so I found"}
        await court.act(panel[0], "ARBITER_VOTE", "ACK", verdict="disputant", **ballot)
        await court.after_kill()
        await court.act(panel[1], "ARBITER_VOTE", "ACK", verdict="mutual", **ballot)
        await court.act(panel[2], "ARBITER_VOTE", "ACK", verdict="disputant", **ballot)
        verdict = await court.agents[BOB].expect("VERDICT")
        assert verdict["verdict"] == "disputant"
        settled = await court.agents[BOB].expect("SETTLEMENT_COMPLETE")
        assert settled["rating_changes"][court.agents[BOB].agent_id]["newRating"] == 1200 - 8 - 20
        await court.after_kill()

        entry = await court.entry(first)
        assert (entry["phase"], entry["role"], entry["slot"]) == ("resolved", "arbiter", "declined")
        proof = verify_case(await court.file_of(BOB), [key_id(hall.key)])
        assert proof.problems == []
        assert len(proof.proven) + len(proof.consistent) > 50
        rating = await court.agents[ALICE].ask("RATINGS", type="GET_RATING")
        assert (rating["rating"], rating["escrowed"]) == (1200 + 4 + 20, 0)
        await court.leave()
        hall.stop()
        checked = run_moothall(tmp_path, "store", "check", "--data-dir", "data")
        assert checked.returncode == 0, checked.stdout + checked.stderr


async def test_a_deadline_that_passed_while_the_hall_was_down_is_acted_upon(tmp_path: Path) -> None:
    """The nonce is not revealed: the deal is free again, for the party that did not file."""
    with running_hall(tmp_path, "--set", "court_reveal_timeout=0.5") as hall:
        court = Court(hall)
        await court.come_in()
        await court.strike()
        await court.file()
        hall.kill()
        await court.leave()
        hall.restart()
        await court.come_in()
        alice = court.agents[ALICE]
        while (await court.entry(ALICE))["phase"] != "fallback":
            await alice.expect("DISPUTE_FALLBACK", dispute_id=court.dispute)
        await alice.send(type="DISPUTE", **signed(ALICE, "DISPUTE", proposal_id=court.deal, reason="late"))
        with pytest.raises(Refused, match="DISPUTE_ALREADY_EXISTS"):
            await alice.answer("DISPUTE")
        bob = court.agents[BOB]
        await bob.send(type="DISPUTE", **signed(BOB, "DISPUTE", proposal_id=court.deal, reason="late"))
        assert (await bob.answer("DISPUTE"))["status"] == "disputed"
        await court.after_kill()
        assert (await court.entry(ALICE))["phase"] == "fallback"
        _, _, metrics = await hall.get("/metrics")
        assert 'moothall_cases{phase="fallback"} 1.0' in metrics
        await court.leave()

"""Deals on a real hall that is killed: what was acknowledged is a fact."""

import json
from pathlib import Path
from typing import Any

from tests.identity.vectors import ALICE, BOB
from tests.support.agentchat import AgentChat
from tests.support.deals import signed
from tests.support.server import HallProcess, running_hall


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
        assert offered["id"] in (tmp_path / "data" / "receipts.jsonl").read_text()


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

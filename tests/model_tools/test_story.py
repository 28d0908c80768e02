"""A story through tools alone: two models meet, bargain, exchange a file, disagree, three arbiters judge."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.mcp_host import Host, running_host
from tests.support.server import running_hall

RULES = (
    ("court_arbiter_transactions", "0"),
    ("court_arbiter_counterparties", "0"),
    ("rate_message", "1000/1"),
)


async def judge(arbiter: Host) -> dict[str, Any]:
    """Take part in the case as an arbiter, from the draw to the vote."""
    drawn = await arbiter.event("ARBITER_ASSIGNED")
    dispute_id = drawn["data"]["dispute_id"]
    await arbiter.call("agentchat_arbiter_accept", dispute_id=dispute_id)
    case = await arbiter.event("CASE_READY")
    assert case["data"]["dispute_id"] == dispute_id
    evidence = case["data"]["disputant_evidence"]
    assert evidence["statement"] == "The third line is missing."
    await arbiter.call(
        "agentchat_arbiter_vote", dispute_id=dispute_id, verdict="disputant", reasoning="The file is short."
    )
    return await arbiter.event("VERDICT")


@pytest.mark.slow
async def test_two_models_trade_quarrel_and_are_judged(tmp_path: Path) -> None:
    flags = [word for name, value in RULES for word in ("--set", f"{name}={value}")]
    with running_hall(tmp_path, *flags) as hall:
        async with AsyncExitStack() as stack:
            names = ("alice", "bob", "carol", "dave", "erin")
            homes = {name: tmp_path / "homes" / name for name in names}
            hosts = {
                name: await stack.enter_async_context(running_host(homes[name], hall.url, MOOTHALL_NAME=name))
                for name in names
            }
            ids = {name: (await host.call("agentchat_connect"))["agent_id"] for name, host in hosts.items()}
            alice, bob = hosts["alice"], hosts["bob"]

            # They meet.
            await bob.call(
                "agentchat_register_skills", skills=[{"capability": "poetry", "rate": 3, "currency": "USD"}]
            )
            found = await alice.call("agentchat_search_skills", capability="poet")
            assert [offer["agent_id"] for offer in found["results"]] == [ids["bob"]]
            assert found["total"] == 1
            assert (await alice.call("agentchat_verify", agent_id=ids["bob"]))["verified"] is True
            await alice.call("agentchat_send", target=ids["bob"], message="A poem of three lines?")
            question = await bob.hear(lambda message: message["content"] == "A poem of three lines?")
            assert question["verified"] is True
            await bob.call("agentchat_send", target=question["from"], message="Gladly, for 3 USD.")
            await alice.hear(lambda message: message["content"] == "Gladly, for 3 USD.")

            # They bargain.
            deal = await alice.call(
                "agentchat_propose", to=ids["bob"], task="A poem of three lines", amount=1, currency="USD"
            )
            offer = await bob.event("PROPOSAL")
            assert offer["data"]["task"] == "A poem of three lines"
            await bob.call("agentchat_reject", proposal_id=deal["proposal_id"], reason="3 USD")
            refusal = await alice.event("REJECT")
            assert refusal["data"]["reason"] == "3 USD"
            deal = await alice.call(
                "agentchat_propose",
                to=ids["bob"],
                task="A poem of three lines",
                amount=3,
                currency="USD",
                elo_stake=10,
            )
            await bob.event("PROPOSAL")
            accepted = await bob.call("agentchat_accept", proposal_id=deal["proposal_id"], elo_stake=10)
            assert accepted["status"] == "accepted"
            await alice.event("ACCEPT")
            listed = await alice.call("agentchat_proposals")
            assert listed["proposals"][0]["status"] == "accepted"

            # Bob delivers a file.
            poem = homes["bob"] / "poem.txt"
            poem.write_text("Roses are red,\nviolets are blue.\n")
            sent = await bob.call("agentchat_file_send", target=ids["alice"], paths=["poem.txt"])
            tendered = await alice.event("FILE_OFFER")
            assert tendered["data"]["transfer_id"] == sent["transfer_id"]
            got = await alice.call(
                "agentchat_file_receive", transfer_id=sent["transfer_id"], save_directory="from-bob"
            )
            assert got["hash_match"] is True
            copy = homes["alice"] / "from-bob" / "poem.txt"
            assert got["files"][0]["path"] == str(copy)
            assert copy.read_text() == poem.read_text()
            arrived = await bob.event("FILE_TRANSFER")
            assert arrived["data"]["state"] == "delivered"

            # Alice counts the lines, and goes to court.
            filed = await alice.call(
                "agentchat_dispute_file", proposal_id=deal["proposal_id"], reason="Two lines, not three"
            )
            await alice.call(
                "agentchat_dispute_reveal", proposal_id=deal["proposal_id"], nonce=filed["nonce"]
            )
            judging = [asyncio.create_task(judge(hosts[name])) for name in ("carol", "dave", "erin")]
            formed = await bob.event("PANEL_FORMED")
            dispute_id = formed["data"]["dispute_id"]
            assert {f"@{each.removeprefix('@')}" for each in formed["data"]["arbiters"]} == {
                ids[name] for name in ("carol", "dave", "erin")
            }
            shown = {"kind": "file", "label": "the poem", "value": poem.read_text()}
            await _submit(alice, dispute_id, [shown], "The third line is missing.")
            await _submit(bob, dispute_id, [shown], "It is short, and it is good.")
            verdicts = await asyncio.gather(*judging)
            assert {verdict["data"]["verdict"] for verdict in verdicts} == {"disputant"}

            # Ratings move.
            await alice.event("SETTLEMENT_COMPLETE")
            winner = await alice.call("agentchat_my_rating")
            loser = await alice.call("agentchat_get_rating", agent_id=ids["bob"])
            assert winner["rating"] > 1200 > loser["rating"]
            case = await bob.call("agentchat_cases", dispute_id=dispute_id)
            assert case["cases"][0]["verdict"] == "disputant"
            best = await bob.call("agentchat_leaderboard")
            assert best["leaderboard"][0]["agent_id"] != ids["bob"]


async def _submit(party: Host, dispute_id: str, items: list[dict[str, str]], statement: str) -> None:
    """Evidence can be shown once all arbiters have accepted: the hall says so."""
    while True:
        result = await party.client.call_tool(
            "agentchat_evidence", {"dispute_id": dispute_id, "items": items, "statement": statement}
        )
        if not result.is_error:
            return
        await party.listen(timeout=5)

"""Messages of the market as an unmodified client sends and reads them (agentchat wire 5.4, 6.4 and 23)."""

from typing import Any

import msgspec

from moothall.identity import PrivateKey
from moothall.market import agentchat, clerk, news
from moothall.market.outcome import MarketOutcome, News
from moothall.market.records import SkillStanding
from moothall.market.reputation_vector import ReputationVector
from moothall.wire.agentchat import client
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.market.support import REFERENCE, Market, address, frame, frame_of
from tests.support import orders
from tests.support.seals import SEAL

# The example frames of the wire reference (section 23), with its ids, times and real signatures.
PROPOSAL_ID = "prop_m0abcdf2_deadbeef"
LONG_ALICE, LONG_BOB = "@b8de75d15ebbfc41", "@f525bd116d75ce34"
PROPOSAL: dict[str, Any] = {
    "to": LONG_BOB, "task": "Review pull request 42", "amount": 1.5, "currency": "SOL",
    "payment_code": "pay-alice", "terms": "terms are not covered", "expires": 300, "elo_stake": 25,
    "sig": "hf5UEQrZtF3Tljl1auDbzh6R9nQ1CD1nfkkeL+/1D+7xWsuHGGdUSW0D9DKkUUSDkqB0mYcQPgCBMyVy+fpuDA==",
}  # fmt: skip
ACCEPT: dict[str, Any] = {
    "proposal_id": PROPOSAL_ID, "payment_code": "pay-bob", "elo_stake": 10,
    "sig": "TrCGI2NdmbxEnbDSKo+mzFrY57ijHCHnUyCX1+XKxFUzKLP/x47I1T71Z/1ci/5ik/Aipe5BID0z4HfCooLiAA==",
}  # fmt: skip
COMPLETE: dict[str, Any] = {
    "proposal_id": PROPOSAL_ID, "proof": "tx:abc123",
    "sig": "awfgAjq1cKfWbsTyJMG9lHPxKW7B+eCcgJeY4X6SVhdVBKx+47ZK3kXgUUBhMrXLlZaWvyZjO4raOOvICnOTAg==",
}  # fmt: skip


def order(message: Any, agent: PrivateKey) -> Any:
    return orders.order(message, agent.public, REFERENCE)


def reply(outcome: MarketOutcome) -> dict[str, Any]:
    assert [notice.to for notice in outcome.notices] == [(ALICE.public.raw, BOB.public.raw)]
    return frame_of(outcome.notices[0].news)


def test_the_example_deal_of_the_wire_reference() -> None:
    books = Market().books
    outcome = clerk.propose(
        books,
        order(client.Proposal(**PROPOSAL), ALICE),
        proposal_id=PROPOSAL_ID,
        address=LONG_ALICE,
        connected=BOB.public.raw,
        now=1760000002000,
        rules=REFERENCE,
    )
    assert reply(outcome) == {
        "type": "PROPOSAL", "ts": 1760000002000, "id": PROPOSAL_ID, "proposal_id": PROPOSAL_ID,
        "from": LONG_ALICE, "status": "pending", "created_at": 1760000002000,
        **PROPOSAL, "expires": 1760000302000,
    }  # fmt: skip

    outcome = clerk.accept(books, order(client.Accept(**ACCEPT), BOB), now=1760000003000, rules=REFERENCE)
    assert reply(outcome) == {
        "type": "ACCEPT", "ts": 1760000003000, "proposal_id": PROPOSAL_ID, "status": "accepted",
        "updated_at": 1760000003000, "from": LONG_ALICE, "to": LONG_BOB, "payment_code": "pay-bob",
        "sig": ACCEPT["sig"], "proposer_stake": 25, "acceptor_stake": 10,
    }  # fmt: skip

    outcome = clerk.complete(
        books, order(client.Complete(**COMPLETE), BOB), now=1760000070000, rules=REFERENCE, seal=SEAL
    )
    change = {"oldRating": 1200, "newRating": 1211, "change": 11, "transactions": 1}
    assert reply(outcome) == {
        "type": "COMPLETE", "ts": 1760000070000, "proposal_id": PROPOSAL_ID, "status": "completed",
        "updated_at": 1760000070000, "from": LONG_ALICE, "to": LONG_BOB, "completed_by": LONG_BOB,
        "completed_at": 1760000070000, "proof": "tx:abc123", "sig": COMPLETE["sig"],
        "elo_stakes": {"proposer": 25, "acceptor": 10},
        "rating_changes": {
            LONG_ALICE: change,
            LONG_BOB: change,
            "_escrow": {"proposer_stake": 25, "acceptor_stake": 10, "settlement": "returned"},
        },
    }  # fmt: skip


def test_a_capability_is_told_where_there_is_one() -> None:
    outcome = Market().propose(ALICE, BOB, capability="review")
    assert frame_of(outcome.notices[0].news)["capability"] == "review"


def test_a_party_that_comes_back_finds_its_deals() -> None:
    market = Market()
    market.propose(ALICE, BOB, "first", amount=3)
    market.propose(CAROL, ALICE, "second", expires=60)
    market.propose(BOB, CAROL, "not hers")
    market.accept(BOB, "prop_1", elo_stake=5)
    answer = frame(agentchat.deal_list(market.books.proposals_of(ALICE.public.raw), market.now))
    assert answer["type"] == "PROPOSALS"
    assert [deal["task"] for deal in answer["list"]] == ["second", "first"]
    first = answer["list"][1]
    assert (first["proposal_id"], first["status"], first["from"]) == ("prop_1", "accepted", address(ALICE))
    assert (first["acceptor_stake"], first["amount"], first["frozen_by"]) == (5, 3, None)


def test_a_rating_comes_with_its_history() -> None:
    market = Market()
    market.propose(ALICE, BOB, capability="review")
    market.accept(BOB)
    market.complete(ALICE)
    market.propose(ALICE, BOB, elo_stake=25)
    market.accept(BOB, "prop_2")
    history = market.books.history(ALICE.public.raw)
    answer = frame(agentchat.ratings(address(ALICE), market.standing(ALICE), history, market.now))
    assert answer == {
        "type": "RATINGS",
        "ts": market.now,
        "agent_id": address(ALICE),
        "rating": 1208,
        "transactions": 1,
        "escrowed": 25,
        "available": 1208 - 25 - 100,
        "updated": market.now,
        "skills": {"review": {"rating": 1208, "transactions": 1, "updated": market.now}},
        "history": [{"at": market.now, "rating": 1208, "why": "complete prop_1"}],
    }


MESH = {
    "reliability": 95_000,
    "cooperation": 95_000,
    "notary_accuracy": 0,
    "total_tasks": 1,
    "total_notarized": 0,
    "total_disputes": 2,
    "last_active_epoch": 20_000,
}


def test_what_the_mesh_says_of_an_agent_is_shown_under_the_same_key_as_it_is_now() -> None:
    market = Market()
    epoch = 20_000
    vector = ReputationVector(
        reliability=100_000,
        cooperation=100_000,
        total_tasks=1,
        total_disputes=2,
        last_active_epoch=epoch,
        epoch=epoch,
    )
    market.rated(ALICE, transactions=1, mesh=vector)
    standing, now = market.standing(ALICE), (epoch + 7) * 86_400_000
    assert frame(agentchat.ratings(address(ALICE), standing, (), now))["mesh"] == MESH
    board = frame(agentchat.leaderboard(market.books.leaders(10), {standing.key: standing}, 8, now))
    assert board["list"][0]["mesh"] == MESH


def test_the_leaderboard_names_agents_as_the_hall_does() -> None:
    market = Market()
    market.rated(ALICE, rating=1100)
    market.rated(BOB, rating=1300, transactions=4, skills={"c": SkillStanding()})
    answer = frame(agentchat.leaderboard(market.books.leaders(10), {}, 16, market.now))
    assert answer == {
        "type": "LEADERBOARD",
        "ts": market.now,
        "list": [
            {"agent_id": LONG_BOB, "rating": 1300, "transactions": 4},
            {"agent_id": LONG_ALICE, "rating": 1100, "transactions": 0},
        ],
    }


def test_every_notice_can_be_read_by_a_json_parser() -> None:
    market = Market()
    outcome = market.propose(ALICE, BOB, "→ \u2028 \x7f \t", terms={"deep": [1, {"x": None}]})
    for notice in outcome.notices:
        assert (
            msgspec.json.decode(msgspec.json.encode(agentchat.message_of(notice.news)))["task"]
            == "→ \u2028 \x7f \t"
        )


def test_there_is_a_message_for_all_news() -> None:
    kinds = {each for each in vars(news).values() if isinstance(each, type) and issubclass(each, News)}
    assert set(agentchat._MESSAGES) == {each for each in kinds if each.__module__ == news.__name__} - {
        news.DealNews
    }

"""The audit trail says everything, and notices when a row is missing or changed."""

from typing import Any

import msgspec

from moothall.market.records import AuditRow
from moothall.market.replay import ENDS, replay
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.market.support import Market


def trail() -> Market:
    market = Market()
    market.rated(CAROL, rating=1500, transactions=40)
    for proposer, recipient in ((ALICE, BOB), (BOB, CAROL), (CAROL, ALICE)):
        deal = f"prop_{len(market.books.deals) + 1}"
        market.propose(proposer, recipient, elo_stake=25, capability="review")
        market.accept(recipient, deal, elo_stake=10)
        market.now += 1000
    market.complete(ALICE, "prop_1")
    market.dispute(CAROL, "prop_2")
    market.complete(CAROL, "prop_3")
    return market


def test_replay_rebuilds_ratings_transactions_stakes_and_skills() -> None:
    market = trail()
    rebuilt = replay(market.books.audit)
    assert rebuilt.problems == []
    assert rebuilt.standings == market.books.stands
    assert rebuilt.standings[ALICE.public.raw].skills["review"].transactions == 2


def test_replay_keeps_every_skill_an_agent_was_rated_in() -> None:
    market = Market()
    for number, capability in enumerate(("review", "cooking", "review"), 1):
        market.propose(ALICE, BOB, capability=capability)
        market.accept(BOB, f"prop_{number}")
        market.complete(ALICE, f"prop_{number}")
    skills = replay(market.books.audit).standings[BOB.public.raw].skills
    assert {name: skill.transactions for name, skill in skills.items()} == {"review": 2, "cooking": 1}


def test_a_missing_row_is_noticed() -> None:
    rows = trail().books.audit
    completion = next(row for row in rows if row.operation == "complete")
    rebuilt = replay(row for row in rows if row is not completion)
    assert any("found" in problem and "left 1200" in problem for problem in rebuilt.problems)


def test_a_changed_row_is_noticed() -> None:
    rows = trail().books.audit
    index = next(n for n, row in enumerate(rows) if row.operation == "complete")
    data: dict[str, Any] = msgspec.json.decode(rows[index].data)
    data["moves"][0]["after"]["rating"] += 500
    rows[index] = msgspec.structs.replace(rows[index], data=msgspec.json.encode(data))
    assert replay(rows).problems


def test_a_deal_that_ends_twice_is_noticed() -> None:
    rows = trail().books.audit
    twice = AuditRow(at=9, operation="dispute", deal="prop_1", actor=None, data=b"{}")
    assert replay([*rows, twice]).problems == ["prop_1: dispute after complete"]


def test_the_ends_are_the_tables() -> None:
    assert {"reject", "complete", "dispute", "expire", "verdict"} == ENDS


def test_each_row_has_who_did_what_and_its_signature() -> None:
    market = trail()
    accept = next(row for row in market.books.audit if row.operation == "accept")
    assert (accept.actor, accept.deal) == (BOB.public.raw, "prop_1")
    said = msgspec.json.decode(accept.data)["message"]
    assert (said["type"], said["elo_stake"]) == ("ACCEPT", 10)
    assert said["sig"] == market.deal("prop_1").response_sig


def test_what_a_client_calls_its_request_is_nobodys_business() -> None:
    market = Market()
    market.propose(ALICE, BOB, ref="request 7")
    assert b"request 7" not in market.books.audit[0].data


def test_what_nobody_did_is_the_clocks() -> None:
    market = Market()
    market.propose(ALICE, BOB, expires=1)
    market.now += 1000
    market.expire()
    row = market.books.audit[-1]
    assert (row.operation, row.actor, row.data) == ("expire", None, b"{}")

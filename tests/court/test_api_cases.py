"""Files of cases in the API: who sees them, and what strangers see of a public case that is open."""

from typing import Any

import pytest

from moothall.court import api_cases
from moothall.court.verify import verify_case
from tests.court.support import Courtroom
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.support.api import ApiOf, Reply, bearer
from tests.support.seals import HALL_ID


def ask(court: Courtroom, headers: dict[str, str] | None = None) -> Reply:
    api = ApiOf(court.world, api_cases.routes(court.world.court))
    return api.get(f"cases/{court.dispute_id}", headers)


def test_a_case_is_not_there_for_those_without_a_part_in_it() -> None:
    court = Courtroom()
    court.plead()
    outsider = court.arrive(CAROL)
    missing = ApiOf(court.world, api_cases.routes(court.world.court)).get("cases/disp_x")
    assert missing.status == 404
    assert ask(court) == missing
    assert ask(court, bearer(court.world, outsider)).body == missing.body
    party = ask(court, bearer(court.world, court.alice))
    assert party.body == court.file_of(ALICE)


def test_a_case_that_there_is_not_is_missing_where_cases_are_public_too() -> None:
    court = Courtroom(public_cases=True)
    missing = ApiOf(court.world, api_cases.routes(court.world.court)).get("cases/disp_x")
    assert (missing.status, missing.body["error"]["code"]) == (404, "DISPUTE_NOT_FOUND")


@pytest.mark.parametrize("viewer", ["stranger", "outsider", "declined"])
def test_strangers_see_a_public_case_without_the_evidence_until_it_is_closed(viewer: str) -> None:
    court = Courtroom(judges=4, public_cases=True)
    court.reveal()
    decliner = court.panel[0]
    court.act(decliner, "ARBITER_DECLINE", dispute_id=court.dispute_id)
    for key in court.panel:
        court.act(key, "ARBITER_ACCEPT", dispute_id=court.dispute_id)
    for party in (ALICE, BOB):
        court.act(party, "EVIDENCE", dispute_id=court.dispute_id, items=[], statement="between us")
    guests = {"outsider": court.arrive(CAROL), "declined": court.guests[decliner]}
    headers = {} if viewer == "stranger" else bearer(court.world, guests[viewer])

    def shown() -> Any:
        court.world.advance(1)
        return ask(court, headers).body

    assert shown()["evidence"] == {"disputant": None, "respondent": None}
    assert None not in ask(court, bearer(court.world, court.alice)).body["evidence"].values()
    for key in court.panel:
        court.vote(key, "mutual")
    assert shown()["evidence"]["disputant"]["statement"] == "between us"
    assert verify_case(shown(), [HALL_ID]).problems == []

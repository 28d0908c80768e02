from typing import Any

import pytest

from moothall.client.dispute import Filing
from moothall.client.docket import Docket, Ruling
from moothall.client.proposal import Deal, Facts, packed
from moothall.tui.affairs import (
    MAX_KEPT,
    Affairs,
    affair_row,
    deal_rows,
    filing_rows,
    id_of,
    is_waiting,
)

NAMES = {"@b2": "bob", "@e5": "ev\x1b[2Je"}


def name_of(address: str) -> str:
    return NAMES.get(address, address)


def deal(number: int = 1, *, mine: bool = False, **facts: Any) -> Deal:
    one, other = ("@a1", "@b2") if mine else ("@b2", "@a1")
    given = {"task": "Paint the hall", "updated_at": number, **facts}
    return Deal(Facts(f"prop_{number}", one, other, mine, True, **given))


def case(number: int = 1, **facts: Any) -> Filing:
    given = {"disputant": "@b2", "respondent": "@a1", "reason": "still grey", "filed_at": number, **facts}
    return Filing(Docket(f"disp_{number}", "prop_1", **given))


@pytest.mark.parametrize(
    ("affair", "waits"),
    [
        (deal(), True),
        (deal(mine=True), False),
        (deal(status="accepted"), False),
        (case(role="arbiter", phase="arbiter_response", slot="pending"), True),
        (case(role="arbiter", phase="arbiter_response", slot="accepted"), False),
        (case(role="arbiter", phase="deliberation", slot="accepted"), True),
        (case(role="arbiter", phase="deliberation", slot="voted"), False),
        (case(role="respondent", phase="deliberation"), False),
    ],
)
def test_what_waits_for_the_person(affair: Deal | Filing, waits: bool) -> None:
    assert is_waiting(affair) is waits


def test_what_waits_comes_first_and_what_is_over_last() -> None:
    affairs = Affairs()
    affairs.keep([deal(1, status="completed"), deal(2, status="accepted"), deal(3), deal(4), case(5)])
    assert [id_of(each) for each in affairs.listed()] == ["prop_4", "prop_3", "disp_5", "prop_2", "prop_1"]
    assert affairs.waiting() == 2


def test_a_deal_is_kept_once_and_a_flood_of_offers_is_bounded() -> None:
    affairs = Affairs()
    affairs.keep([deal(1, status="accepted"), case(1)])
    affairs.keep([deal(2, status="rejected")])
    affairs.keep(deal(number) for number in range(10, 10 + MAX_KEPT - 1))
    assert affairs.get("prop_2") is None  # it is over
    assert affairs.get("prop_1") is not None
    affairs.keep([deal(1, status="accepted"), deal(9999)])
    assert len(affairs.listed()) == MAX_KEPT + 1
    assert affairs.get("disp_1") is not None


def test_a_row_of_the_list() -> None:
    assert str(affair_row(deal(), name_of)) == "! pending          from bob       Paint the hall"
    assert str(affair_row(deal(mine=True, status="accepted"), name_of)).startswith(
        "  accepted         to bob "
    )
    assert str(affair_row(case(role="respondent", phase="evidence"), name_of)) == (
        "  case: evidence   as respondent  still grey"
    )


def test_what_others_wrote_stays_in_its_column() -> None:
    row = str(affair_row(deal(task="one\n! pending  from bank  [bold]\x1b[2J"), name_of))
    assert row == "! pending          from bob       one ! pending  from bank  [bold][2J"


def test_a_deal_in_full() -> None:
    told = dict(
        deal_rows(
            deal(amount=5, currency="EUR", stake=25, terms=packed({"é": [1]}), frozen_by="disp_1", expires=0),
            name_of,
        )
    )
    assert told["offered by"] == "bob @b2"
    assert told["to"] == "@a1"
    assert told["price"] == "5 EUR"
    assert told["stakes"] == "25 of the proposer, 0 of the recipient"
    assert told["terms"] == '{"é": [1]}'
    assert told["status"] == "pending, in court: disp_1"
    assert "expires" in told
    assert "proof" not in told


def test_a_case_in_short() -> None:
    told = dict(
        filing_rows(case(role="arbiter", slot="voted", ruling=Ruling(None, fallback="too few")), name_of)
    )
    assert told["you are"] == "arbiter, voted"
    assert told["disputant"] == "bob @b2"
    assert told["no verdict"] == "too few"

"""How much parties and arbiters may say."""

import json
from typing import Any

import pytest

from moothall.court import bounds
from moothall.court.commands import CastVote, DeclineSeat, FileIntent, SubmitEvidence
from moothall.errors import InvalidMessage
from moothall.market.storable import MAX_VALUES


def evidence(items: list[dict[str, Any]], statement: str) -> SubmitEvidence:
    return SubmitEvidence(case="disp_1", items=items, statement=statement)


def vote(reasoning: str) -> CastVote:
    return CastVote(case="disp_1", verdict="mutual", reasoning=reasoning)


def test_reasons_are_short() -> None:
    bounds.check_intent(FileIntent(deal="prop_1", reason="x" * 4096, commitment="c"))
    with pytest.raises(InvalidMessage, match="`reason`"):
        bounds.check_intent(FileIntent(deal="prop_1", reason="x" * 4097, commitment="c"))
    bounds.check_decline(DeclineSeat(case="disp_1", reason="x" * 500))
    with pytest.raises(InvalidMessage, match="`reason`"):
        bounds.check_decline(DeclineSeat(case="disp_1", reason="x" * 501))


def test_what_is_too_much_is_refused_with_the_name_of_the_field() -> None:
    """Seed 000, submit evidence 2: item count <= 10."""
    bounds.check_evidence(evidence([{}] * 10, "x" * 2000))
    with pytest.raises(InvalidMessage, match="`items`"):
        bounds.check_evidence(evidence([{}] * 11, ""))
    with pytest.raises(InvalidMessage, match="`statement`"):
        bounds.check_evidence(evidence([], "\U0001f600" * 1001))  # two code units each
    with pytest.raises(InvalidMessage, match="`reasoning`"):
        bounds.check_vote(vote("x" * 501))
    bounds.check_vote(vote("x" * 500))
    deep: dict[str, object] = {}
    for _ in range(70):
        deep = {"a": deep}
    with pytest.raises(InvalidMessage, match="`items`"):
        bounds.check_evidence(evidence([deep], ""))
    with pytest.raises(InvalidMessage, match="`items`"):
        bounds.check_evidence(evidence([{"value": [0] * MAX_VALUES}], ""))


def test_evidence_takes_no_more_than_a_frame_when_it_is_sent_on() -> None:
    numbers = json.loads("[" + ",".join(["1e15"] * 50_000) + "]")  # 250 KB as it came
    with pytest.raises(InvalidMessage, match="`items`"):
        bounds.check_evidence(evidence([{"value": numbers}], ""))
    bounds.check_evidence(evidence([{"value": "x" * 250_000}], ""))

from pathlib import Path

import pytest

from moothall import UsageError
from moothall.tui.steps import STEPS, Step, due_steps, step_of
from tests.tui.test_affairs import case, deal

DOCS = Path(__file__).parents[2] / "docs" / "chat.md"
OFFER = deal()
RUNNING = deal(status="accepted")
CALL = case(role="arbiter", phase="arbiter_response", slot="pending")
BALLOT = case(role="arbiter", phase="deliberation", slot="accepted")


def step(verb: str) -> Step:
    [found] = [each for each in STEPS if each.verb == verb]
    return found


@pytest.mark.parametrize(
    ("affair", "verbs"),
    [
        (OFFER, ["Accept", "Reject"]),
        (deal(mine=True), []),
        (RUNNING, ["Complete", "Dispute"]),
        (deal(mine=True, status="accepted"), ["Complete", "Dispute"]),
        (deal(status="accepted", frozen_by="disp_1"), []),
        (deal(status="completed"), []),
        (CALL, ["Judge", "Decline"]),
        (BALLOT, ["Vote"]),
        (case(role="disputant", phase="evidence"), []),
    ],
)
def test_the_steps_that_are_due(affair: object, verbs: list[str]) -> None:
    assert [each.verb for each in due_steps(affair)] == verbs  # type: ignore[arg-type]


def test_a_step_that_is_not_due_is_not_found() -> None:
    assert step_of(OFFER, "Accept") is step("Accept")
    assert step_of(RUNNING, "Accept") is None


def test_no_key_means_two_steps_at_once() -> None:
    for affair in (OFFER, RUNNING, CALL, BALLOT):
        keys = [each.key for each in due_steps(affair)]
        assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("verb", "values", "text"),
    [
        ("Accept", {}, "ACCEPT|prop_1||"),
        ("Accept", {"stake": " 10 ", "payment_code": "iban"}, "ACCEPT|prop_1|iban|10"),
        ("Reject", {"reason": "busy"}, "REJECT|prop_1|busy"),
        ("Complete", {"proof": "https://x"}, "COMPLETE|prop_1|https://x"),
        ("Dispute", {"reason": "nothing came"}, "DISPUTE|prop_1|nothing came"),
    ],
)
def test_the_text_of_a_step(verb: str, values: dict[str, str], text: str) -> None:
    assert step(verb).text(OFFER, values) == text


def test_the_text_of_a_vote_has_no_reasoning() -> None:
    assert step("Vote").text(BALLOT, {"verdict": "mutual", "reasoning": "both"}) == "VOTE|disp_1|mutual"


@pytest.mark.parametrize(
    ("verb", "values"),
    [
        ("Accept", {"stake": "ten"}),
        ("Accept", {"stake": "-1"}),
        ("Accept", {"stake": "٣"}),
        ("Dispute", {"reason": " "}),
        ("Vote", {"reasoning": "because"}),
    ],
)
def test_what_is_missing_is_said(verb: str, values: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        step(verb).text(OFFER, values)


def test_every_step_has_its_row_in_the_docs() -> None:
    text = DOCS.read_text()
    for each in STEPS:
        assert f"| {each.key} | {each.verb} |" in text


def test_a_bar_in_a_signed_field_is_noticed() -> None:
    assert step("Accept").has_bar({"payment_code": "iban|500"})
    assert not step("Accept").has_bar({"payment_code": "iban"})
    assert not step("Vote").has_bar({"verdict": "mutual", "reasoning": "a|b"})

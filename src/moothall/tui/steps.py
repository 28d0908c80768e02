"""The steps that a person can take with deals and cases, as a table. Every one of them is signed.

A step says when it is due, what it asks for, the text that will be signed, and how it is taken. The text comes from
the same function as the message that the SDK signs (`client/drafts.py`).
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moothall.client import drafts
from moothall.client.dispute import Filing
from moothall.client.proposal import Deal
from moothall.errors import UsageError
from moothall.tui.affairs import Affair, id_of, is_asked_to_judge, is_asked_to_vote
from moothall.wire.agentchat.client import ClientMessage

if TYPE_CHECKING:
    from moothall import Agent

Values = Mapping[str, str]  # what the person entered, by the name of the field


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    label: str
    choices: tuple[str, ...] = ()
    is_signed: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    key: str
    verb: str
    meaning: str
    is_due: Callable[[Affair], bool]
    draft: Callable[[str, Values], ClientMessage]
    take: Callable[["Agent", str, Values], Awaitable[object]]
    fields: tuple[Field, ...] = ()

    def text(self, affair: Affair, values: Values) -> str:
        """What will be signed, letter by letter. Raise UsageError if something is missing or makes no sense."""
        return drafts.signed_text(self.draft(id_of(affair), values))

    def has_bar(self, values: Values) -> bool:
        """True if a signed field holds the bar that separates the fields."""
        return any("|" in values.get(field.name, "") for field in self.fields if field.is_signed)


def due_steps(affair: Affair) -> list[Step]:
    return [step for step in STEPS if step.is_due(affair)]


def step_of(affair: Affair, verb: str) -> Step | None:
    """The step of this name; None if it is not due."""
    return next((step for step in due_steps(affair) if step.verb == verb), None)


def _is_offer(affair: Affair) -> bool:
    return isinstance(affair, Deal) and affair.status == "pending" and not affair.is_mine


def _is_running(affair: Affair) -> bool:
    return isinstance(affair, Deal) and affair.status == "accepted" and affair.frozen_by is None


def _is_call(affair: Affair) -> bool:
    return isinstance(affair, Filing) and is_asked_to_judge(affair)


def _is_ballot(affair: Affair) -> bool:
    return isinstance(affair, Filing) and is_asked_to_vote(affair)


def _points(text: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"A stake is a whole number of rating points, not {text!r}.")
    return int(text)


def _text(values: Values, name: str) -> str | None:
    return values.get(name, "").strip() or None


def _required(values: Values, name: str) -> str:
    text = _text(values, name)
    if text is None:
        raise UsageError(f"A {name} is needed.")
    return text


STEPS: Final = (
    Step(
        "a",
        "Accept",
        "You take the offer. Your stake is put aside until the deal is over.",
        _is_offer,
        lambda deal, values: drafts.accept(
            deal, _points(values.get("stake", "")), _text(values, "payment_code")
        ),
        lambda agent, deal, values: agent.accept(
            deal, stake=_points(values.get("stake", "")), payment_code=_text(values, "payment_code")
        ),
        (
            Field("stake", "your stake, in rating points (may be empty)"),
            Field("payment_code", "how you are paid (may be empty)"),
        ),
    ),
    Step(
        "r",
        "Reject",
        "You do not take the offer.",
        _is_offer,
        lambda deal, values: drafts.reject(deal, _text(values, "reason")),
        lambda agent, deal, values: agent.reject(deal, _text(values, "reason")),
        (Field("reason", "the reason (may be empty)"),),
    ),
    Step(
        "c",
        "Complete",
        "The work is done. Both ratings rise, and the stakes go back.",
        _is_running,
        lambda deal, values: drafts.complete(deal, _text(values, "proof")),
        lambda agent, deal, values: agent.complete(deal, _text(values, "proof")),
        (Field("proof", "a proof, such as a link (may be empty)"),),
    ),
    Step(
        "d",
        "Dispute",
        "The other party is at fault: it loses rating and its stake at once. To have arbiters decide, use"
        " `moothall court file`.",
        _is_running,
        lambda deal, values: drafts.dispute(deal, _required(values, "reason")),
        lambda agent, deal, values: agent.dispute(deal, _required(values, "reason")),
        (Field("reason", "the reason"),),
    ),
    Step(
        "a",
        "Judge",
        "You will be an arbiter of this case, and vote before the deadline.",
        _is_call,
        lambda case, values: drafts.accept_case(case),
        lambda agent, case, values: agent.accept_case(case),
    ),
    Step(
        "r",
        "Decline",
        "Another arbiter is drawn in your place.",
        _is_call,
        lambda case, values: drafts.decline_case(case, _text(values, "reason")),
        lambda agent, case, values: agent.decline_case(case, _text(values, "reason")),
        (Field("reason", "the reason (may be empty)"),),
    ),
    Step(
        "v",
        "Vote",
        "You say who is right. A vote cannot be changed.",
        _is_ballot,
        lambda case, values: drafts.vote(
            case, _required(values, "verdict"), values.get("reasoning", "").strip()
        ),
        lambda agent, case, values: agent.vote(
            case, _required(values, "verdict"), values.get("reasoning", "").strip()
        ),
        (
            Field("verdict", "who is right", ("disputant", "respondent", "mutual")),
            Field("reasoning", "why (not signed)", is_signed=False),
        ),
    ),
)

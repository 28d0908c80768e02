"""What happened while an agent was away, as far as the hall can still tell: pure comparisons with its inbox.

An agent is away between two connections: after a loss, while it was idle, or while its process did not run. It is
the same each time: the last records of the inbox say what the agent knew, and the hall says how things are now.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from moothall.client import Assignment, Case, Dispute, Evidence, Proposal
from moothall.client.memory import Key
from moothall.tools.news import CHAT, EVENT, event_record

LOOKED_AT: Final = 1000  # records at the end of the inbox

# Which id an event is about, where it is told once however often the hall repeats it.
ABOUT: Final[Mapping[str, str]] = {
    "PROPOSAL": "id",
    "PANEL_FORMED": "dispute_id",
    "ARBITER_ASSIGNED": "dispute_id",
    "CASE_READY": "dispute_id",
    "VERDICT": "dispute_id",
    "FILE_OFFER": "transfer_id",
}
STATUS_EVENTS: Final[Mapping[str, str]] = {
    "accepted": "ACCEPT",
    "rejected": "REJECT",
    "completed": "COMPLETE",
    "disputed": "DISPUTE",
    "expired": "EXPIRED",
}


@dataclass(slots=True)
class Known:
    """What an agent has heard, by its inbox."""

    last: dict[str, float] = field(default_factory=dict)  # by channel: when the newest message was said
    keys: set[Key] = field(default_factory=set)
    told: set[tuple[str, str]] = field(default_factory=set)  # event and id
    newest: float | None = None  # when anything was last heard

    @classmethod
    def from_records(cls, records: Iterable[Mapping[str, Any]]) -> "Known":
        known = cls()
        for record in records:
            known.note(record)
        return known

    def note(self, record: Mapping[str, Any]) -> None:
        moment = moment_of(record)
        self.newest = max(moment, self.newest or 0)
        if record.get("type") == CHAT:
            self.keys.add(key_of(record))
            place = str(record.get("to"))
            self.last[place] = max(moment, self.last.get(place, 0))
        elif (about := _subject(record)) is not None:
            self.told.add(about)

    def is_told(self, record: Mapping[str, Any]) -> bool:
        """True if this event, about this id, is in the inbox already."""
        return _subject(record) in self.told


def moment_of(frame: Mapping[str, Any]) -> float:
    """When it was, in milliseconds; 0 if it does not say."""
    ts = frame.get("ts")
    return ts if isinstance(ts, int | float) else 0


def key_of(frame: Mapping[str, Any]) -> Key:
    """What makes a message that message; some have no id."""
    msg_id = frame.get("msg_id")
    return (
        msg_id
        if isinstance(msg_id, str)
        else (frame.get("ts", 0), str(frame.get("from")), str(frame.get("content")))
    )


def _subject(record: Mapping[str, Any]) -> tuple[str, str] | None:
    event = str(record.get("event"))
    if record.get("type") != EVENT:
        return None
    if event in STATUS_EVENTS.values():
        return event, str(record.get("proposal_id"))
    about = ABOUT.get(event)
    return None if about is None else (event, str(record.get(about)))


class Missed(NamedTuple):
    """What a channel repeats that is news."""

    frames: list[Mapping[str, Any]]
    complete: bool  # False: more may have been said than the channel remembers


def missed_in(channel: str, repeated: Sequence[Mapping[str, Any]], known: Known) -> Missed:
    """Compare what a channel remembers with what the agent has heard there."""
    last = known.last.get(channel)
    moments = [moment_of(frame) for frame in repeated]
    fresh = [
        frame
        for frame, moment in zip(repeated, moments, strict=True)
        if (last is None or moment >= last) and key_of(frame) not in known.keys
    ]
    since = known.newest if last is None else last
    return Missed(fresh, complete=since is None or not moments or min(moments) <= since)


def gap_record(known: Known, now: float, reason: str, found: Mapping[str, Missed]) -> dict[str, Any] | None:
    """Tell of the time away; None for an agent that has heard nothing yet."""
    if known.newest is None:
        return None
    return event_record(
        "GAP",
        {
            "since": known.newest,
            "until": now,
            "ts": now,
            "reason": reason,
            "complete": all(missed.complete for missed in found.values()),
            "channels": {
                channel: {"caught_up": len(missed.frames), "complete": missed.complete}
                for channel, missed in found.items()
            },
        },
    )


# -- deals and cases --------------------------------------------------------------------------------------


def offer_record(deal: Proposal) -> dict[str, Any]:
    """An offer to the agent, as the hall tells it (agentchat wire 6.4)."""
    return event_record(
        "PROPOSAL",
        {
            "id": deal.id,
            "from": deal.proposer,
            "to": deal.recipient,
            "task": deal.task,
            "amount": deal.amount,
            "currency": deal.currency,
            "expires": _ms(deal.expires),
            "elo_stake": deal.stake,
            "status": deal.status,
            "ts": _ms(deal.created_at) or 0,
        },
    )


def changed_deals(
    deals: Iterable[Proposal], since: float, is_own: Callable[[str], bool]
) -> list[dict[str, Any]]:
    """The deals that others have changed after a moment. What the agent did itself is no news."""
    found = []
    for deal in deals:
        event, at = STATUS_EVENTS.get(deal.status), _ms(deal.updated_at) or 0
        actor = deal.recipient if deal.status == "accepted" else deal.ended_by
        if event is None or at <= since or (actor is not None and is_own(actor)):
            continue
        fields = {"proposal_id": deal.id, "status": deal.status, "from": deal.proposer, "to": deal.recipient}
        who = {"completed": "completed_by", "disputed": "disputed_by"}.get(deal.status)
        if who is not None:
            fields[who] = str(deal.ended_by)
        found.append(event_record(event, {**fields, "task": deal.task, "reason": deal.reason, "ts": at}))
    return found


def panel_record(case: Dispute) -> dict[str, Any]:
    fields = {
        "dispute_id": case.dispute_id,
        "proposal_id": case.proposal_id,
        "arbiters": list(case.panel),
        "disputant": case.disputant,
        "respondent": case.respondent,
        "reason": case.reason,
        "ts": _ms(case.filed_at) or 0,
    }
    return event_record("PANEL_FORMED", fields)


def decided_cases(cases: Iterable[Dispute], known: Known) -> list[dict[str, Any]]:
    """The verdicts in cases that the agent has heard of."""
    heard = {subject for event, subject in known.told if event in ("PANEL_FORMED", "ARBITER_ASSIGNED")}
    return [
        event_record(
            "VERDICT",
            {
                "dispute_id": case.dispute_id,
                "proposal_id": case.proposal_id,
                "verdict": case.verdict,
                "ts": known.newest or 0,
            },
        )
        for case in cases
        if case.verdict is not None and case.dispute_id in heard
    ]


def assignment_record(assignment: Assignment) -> dict[str, Any]:
    deadline = _ms(assignment.deadline)
    fields = {
        "dispute_id": assignment.dispute_id,
        "proposal_id": assignment.proposal_id,
        "disputant": assignment.disputant,
        "respondent": assignment.respondent,
        "reason": assignment.reason,
        "response_deadline": deadline,
        "is_replacement": assignment.is_replacement,
        "ts": 0,
    }
    return event_record("ARBITER_ASSIGNED", fields)


def case_record(case: Case) -> dict[str, Any]:
    fields = {
        "dispute_id": case.dispute_id,
        "proposal": dict(case.proposal),
        "disputant": case.disputant,
        "disputant_evidence": _evidence(case.disputant_evidence),
        "respondent": case.respondent,
        "respondent_evidence": _evidence(case.respondent_evidence),
        "vote_deadline": _ms(case.vote_deadline),
        "ts": 0,
    }
    return event_record("CASE_READY", fields)


def _evidence(shown: Evidence | None) -> dict[str, Any] | None:
    return None if shown is None else {"items": list(map(dict, shown.items)), "statement": shown.statement}


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)

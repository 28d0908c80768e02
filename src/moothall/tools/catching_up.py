"""What happened while an agent was away, as far as the hall can still tell: pure comparisons with its inbox.

An agent is away between two connections: after a loss, while it was idle, or while its process did not run. It is
the same each time: the last records of the inbox say what the agent knew, and the hall says how things are now.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from moothall.client.memory import Key
from moothall.tools.news import CHAT, EVENT, event_record

LOOKED_AT: Final = 2000  # records at the end of the inbox

# Which id an event is about, where it is told once however often the hall repeats it.
ABOUT: Final[Mapping[str, str]] = {
    "PROPOSAL": "id",
    "PANEL_FORMED": "dispute_id",
    "ARBITER_ASSIGNED": "dispute_id",
    "CASE_READY": "dispute_id",
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
        ts = record.get("ts")
        moment = ts if isinstance(ts, int | float) else 0
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
    moments = [frame.get("ts", 0) for frame in repeated]
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

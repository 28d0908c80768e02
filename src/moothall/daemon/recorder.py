"""What the daemon stores of what its agent hears."""

import asyncio
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from moothall.client import Gap
from moothall.daemon.inbox import DEFAULT_LIMIT, SCANNED, Inbox

CHAT: Final = "MSG"
RECEIPT: Final = "RECEIPT"

# The reference's daemon stores these, as they came (agentchat wire 19.2).
_REFERENCE: Final = """
    MSG SKILLS_REGISTERED SEARCH_RESULTS AGENT_JOINED AGENT_LEFT PROPOSAL ACCEPT REJECT COMPLETE DISPUTE
"""
# And it leaves these out, which concern the agent as well.
_OURS: Final = """
    YIELD RECEIPT EXPIRED DISPUTE_INTENT_ACK DISPUTE_REVEALED DISPUTE_FALLBACK PANEL_FORMED ARBITER_ASSIGNED
    EVIDENCE_RECEIVED CASE_READY VERDICT SETTLEMENT_COMPLETE
"""
STORED: Final = frozenset((_REFERENCE + _OURS).split())

REMEMBERED: Final = 2 * DEFAULT_LIMIT  # messages; a channel repeats its last ones when the agent enters it
# What waits for a full disk: records, and bytes of their lines. Then the oldest are given up, and a GAP tells so.
MAX_WAITING: Final = 500  # fewer than the inbox keeps: the GAP must not be cut off with them
MAX_BYTES: Final = 16 * 1024 * 1024
RETRY: Final = 1.0  # seconds

log: Final = logging.getLogger("moothall.daemon")


class Recorder:
    """Writes each frame that is to be stored into the inbox, once."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._known: OrderedDict[object, None] = OrderedDict()
        self._waiting: list[Mapping[str, Any]] = []
        self._complained = False
        self._is_planned = False
        self._lost: list[int] = []  # when the first and the last record that was given up were said

    def begin(self) -> None:
        """Look up what is in the inbox already: the hall will repeat some of it. Raises OSError."""
        for record in self._inbox.tail(REMEMBERED, max_characters=SCANNED).records:
            self._is_known(record.fields)

    def hear(self, frame: dict[str, Any]) -> None:
        """A frame from the hall. All frames of one turn of the event loop are written at once."""
        if frame.get("type") in STORED and not _is_noise(frame) and not self._is_known(frame):
            self._store(frame)

    async def miss(self, gap: Gap) -> None:
        """Tell of a time in which messages were lost."""
        if gap.complete:
            return
        channels = {
            name: {"caught_up": len(channel.missed), "complete": channel.complete}
            for name, channel in gap.channels.items()
        }
        since, until = (round(moment.timestamp() * 1000) for moment in (gap.since, gap.until))
        self._store(_gap(since, until, gap.reason, channels))

    def flush(self) -> None:
        """Write what waits. What does not fit on the disk waits for the next time."""
        records, self._waiting = self._waiting, []
        told = [_gap(self._lost[0], self._lost[-1], "inbox not writable", {})] if self._lost else []
        try:
            self._inbox.append([*told, *records])
        except OSError as error:
            self._wait(records)
            if not self._complained:
                self._complained = True
                log.warning("the inbox cannot be written: %s", error.strerror)
        else:
            self._complained = False
            self._lost = []

    def _wait(self, records: list[Mapping[str, Any]]) -> None:
        """Keep the newest of them for the next time."""
        room, kept = MAX_BYTES, 0
        for record in reversed(records[-MAX_WAITING:]):
            room -= len(json.dumps(record))
            if room < 0:
                break
            kept += 1
        given_up = len(records) - kept
        moments = [moment for record in records[:given_up] if isinstance(moment := record.get("ts"), int)]
        if given_up:
            self._lost = [*self._lost, *(moments or [_now()])]
            self._lost = [min(self._lost), max(self._lost)]
        self._waiting = records[given_up:]

    def _store(self, record: Mapping[str, Any]) -> None:
        self._waiting.append(record)
        if self._is_planned:
            return
        self._is_planned = True
        loop = asyncio.get_running_loop()
        if self._complained:
            loop.call_later(RETRY, self._flush_as_planned)
        else:
            loop.call_soon(self._flush_as_planned)

    def _flush_as_planned(self) -> None:
        self._is_planned = False
        self.flush()

    def _is_known(self, frame: Mapping[str, Any]) -> bool:
        """True if this message or receipt was heard before."""
        if frame.get("type") == CHAT:
            key = _key(frame)
        elif frame.get("type") == RECEIPT:  # the hall repeats them after a reconnect
            key = tuple(str(frame.get(name)) for name in ("msg_id", "to", "status", "count"))
        else:
            return False
        if key in self._known:
            return True
        self._known[key] = None
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return False


def _is_noise(frame: Mapping[str, Any]) -> bool:
    """True for a receipt that would crowd out messages: the daemon asks for one from every member of a channel.

    `outbox.sent.jsonl` tells what was delivered. That it was seen is news of a message to one agent only.
    """
    if frame.get("type") != RECEIPT:
        return False
    status = frame.get("status")
    return status == "DELIVERED" or (status == "SEEN" and frame.get("of") != 1)


def _key(frame: Mapping[str, Any]) -> object:
    """What makes a message that message: some servers give none an id."""
    msg_id = frame.get("msg_id")
    if isinstance(msg_id, str):
        return msg_id
    return tuple(str(frame.get(name)) for name in ("from", "to", "ts", "content"))


def _gap(since: int, until: int, reason: str, channels: Mapping[str, Any]) -> dict[str, Any]:
    """A time in which messages were lost, in milliseconds since the epoch."""
    return {
        "type": "EVENT",
        "event": "GAP",
        "since": since,
        "until": until,
        "ts": until,
        "reason": reason,
        "complete": False,
        "channels": channels,
    }


def _now() -> int:
    return time.time_ns() // 1_000_000

"""What the daemon stores of what its agent hears."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from moothall.client import Gap
from moothall.daemon.inbox import DEFAULT_LIMIT, SCANNED, Inbox

CHAT: Final = "MSG"

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
MAX_WAITING: Final = 1000  # records that wait for a full disk; then the oldest are given up

log: Final = logging.getLogger("moothall.daemon")


class Recorder:
    """Writes each frame that is to be stored into the inbox, once."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._known: OrderedDict[object, None] = OrderedDict()
        self._waiting: list[Mapping[str, Any]] = []
        self._complained = False

    def begin(self) -> None:
        """Look up what is in the inbox already: the hall will repeat some of it. Raises OSError."""
        for record in self._inbox.tail(REMEMBERED, max_characters=SCANNED).records:
            self._is_known(record.fields)

    async def hear(self, frame: dict[str, Any]) -> None:
        """A frame from the hall. All frames of one turn of the event loop are written at once."""
        if frame.get("type") in STORED and not self._is_known(frame):
            self._store(frame)

    async def miss(self, gap: Gap) -> None:
        """Tell of a time in which messages were lost."""
        if gap.complete:
            return
        self._store(
            {
                "type": "EVENT",
                "event": "GAP",
                "since": _milliseconds(gap.since.timestamp()),
                "until": _milliseconds(gap.until.timestamp()),
                "ts": _milliseconds(gap.until.timestamp()),
                "reason": gap.reason,
                "complete": False,
                "channels": {
                    name: {"caught_up": len(channel.missed), "complete": channel.complete}
                    for name, channel in gap.channels.items()
                },
            }
        )

    def flush(self) -> None:
        """Write what waits. What does not fit on the disk waits for the next time."""
        records, self._waiting = self._waiting, []
        try:
            self._inbox.append(records)
        except OSError as error:
            self._waiting = [*records, *self._waiting][-MAX_WAITING:]
            if not self._complained:
                self._complained = True
                log.warning("the inbox cannot be written: %s", error.strerror)
        else:
            self._complained = False

    def _store(self, record: Mapping[str, Any]) -> None:
        self._waiting.append(record)
        if len(self._waiting) == 1 or self._complained:
            asyncio.get_running_loop().call_soon(self.flush)

    def _is_known(self, frame: Mapping[str, Any]) -> bool:
        """True if this message was heard before."""
        if frame.get("type") != CHAT:
            return False
        key = _key(frame)
        if key in self._known:
            return True
        self._known[key] = None
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return False


def _key(frame: Mapping[str, Any]) -> object:
    """What makes a message that message: some servers give none an id."""
    msg_id = frame.get("msg_id")
    if isinstance(msg_id, str):
        return msg_id
    return tuple(str(frame.get(name)) for name in ("from", "to", "ts", "content"))


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)

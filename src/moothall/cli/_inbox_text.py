"""A record of an inbox as a line for people. Other agents wrote most of it."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from moothall.tui.printable import indented, one_line, shown_name
from moothall.wire.agentchat.names import SERVER

_MARGIN: Final = " " * 9  # as wide as the time
_NOT_SHOWN: Final = frozenset(("type", "event", "ts"))


def as_text(record: Mapping[str, Any]) -> str:
    """`12:03:59 #general alice✓: hello`, or `12:03:59 * AGENT_LEFT {"agent": "@1f3a9c02"}`."""
    content = record.get("content")
    if record.get("type") != "MSG" or not isinstance(content, str):
        kind = record.get("event") or record.get("type")
        rest = {name: value for name, value in record.items() if name not in _NOT_SHOWN}
        return f"{_time(record)} * {one_line(str(kind))} {json.dumps(rest)}"
    to, sender = str(record.get("to")), str(record.get("from"))
    where = one_line(to) if to.startswith("#") else "(to you)"
    name = f"* {SERVER}" if sender == SERVER else shown_name(str(record.get("from_name") or sender))
    mark = "✓" if record.get("verified") is True and sender != SERVER else ""
    return f"{_time(record)} {where} {name}{mark}: {indented(content, _MARGIN)}"


def _time(record: Mapping[str, Any]) -> str:
    ts = record.get("ts")
    try:
        return f"{datetime.fromtimestamp(float(ts or 0) / 1000, UTC).astimezone():%H:%M:%S}"
    except (ValueError, TypeError, OverflowError, OSError):
        return "--:--:--"

"""What became of a line of the outbox, for the program that wrote it with an `id` of its own."""

import json
import os
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NamedTuple

from moothall.daemon import lines
from moothall.daemon.folder import Folder
from moothall.daemon.outbox import REJECTED, SENT

_NEWEST: Final = 1000  # lines that are looked at


class Outcome(NamedTuple):
    """`status` is sent, refused, unreadable or unknown; `reason` says why it is not sent."""

    status: str
    msg_id: str | None = None
    reason: str = ""
    recipients: int | None = None
    delivered: bool | None = None  # True if all recipients have it; None where that is not known


def find(folder: Folder, own_id: str) -> Outcome | None:
    """Return None while the line waits in the outbox. Raises OSError."""
    if (told := _newest(folder, SENT, own_id)) is not None:
        return Outcome("sent", told.get("msg_id"), "", told.get("recipients"), told.get("delivered"))
    if (told := _newest(folder, REJECTED, own_id)) is not None:
        return Outcome(str(told.get("status")), reason=str(told.get("reason")))
    return None


def _newest(folder: Folder, name: str, own_id: str) -> dict[str, Any] | None:
    """The file may have been renamed since, by a single line that is long."""
    return _newest_in(folder, name, own_id) or _newest_in(folder, f"{name}.1", own_id)


def _newest_in(folder: Folder, name: str, own_id: str) -> dict[str, Any] | None:
    try:
        descriptor = folder.open(name, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        for line in islice(lines.backward(descriptor, os.fstat(descriptor).st_size), _NEWEST):
            with suppress(ValueError, RecursionError):
                told = json.loads(line)
                if isinstance(told, dict) and told.get("id") == own_id:
                    return told
    finally:
        os.close(descriptor)
    return None

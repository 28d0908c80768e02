"""One line of an outbox: a message that a program wants sent, or why it cannot be.

    {"to": "#general", "content": "hello"}
    {"to": "@1f3a9c02", "content": "hello", "in_reply_to": "msg_1", "id": "mine-7"}

`to` and `content` are those of the reference (agentchat wire 19.2). `in_reply_to` is the id of the message
that this one answers. `id` is the writer's own: the daemon repeats it when it tells what became of the line.
"""

import json
from typing import Any, Final, NamedTuple

from moothall.wire.agentchat.names import is_channel_name

MAX_LINE: Final = 4 * 1024 * 1024  # bytes; the longest text that a hall may take is 2 MiB
MAX_ID: Final = 100  # characters
MAX_ADDRESS: Final = 100


class Draft(NamedTuple):
    to: str
    content: str
    in_reply_to: str | None = None
    id: str | None = None


class Unreadable(NamedTuple):
    """A line that is not a draft. `id` is there if that much could be read."""

    reason: str
    id: str | None = None


def parse(line: bytes) -> Draft | Unreadable:
    """Read one line, with or without its newline. Raises nothing."""
    try:
        fields = json.loads(line.decode())
    except UnicodeDecodeError:
        return Unreadable("the line is not UTF-8")
    except (ValueError, RecursionError):
        return Unreadable('the line is not JSON: write {"to": "#general", "content": "hello"} and a newline')
    if not isinstance(fields, dict):
        return Unreadable("the line is JSON, but not an object")
    own_id = fields.get("id")
    if not isinstance(own_id, str | None) or len(own_id or "") > MAX_ID:
        return Unreadable(f"`id` must be a text of at most {MAX_ID} characters")
    reason = _complaint(fields)
    if reason is not None:
        return Unreadable(reason, own_id)
    return Draft(fields["to"], fields["content"], fields.get("in_reply_to"), own_id)


def _complaint(fields: dict[str, Any]) -> str | None:
    to, content = fields.get("to"), fields.get("content")
    if not isinstance(to, str) or not _is_address(to):
        return "`to` must be a #channel or an @agent"
    if not isinstance(content, str) or not content:
        return "`content` must be a text that is not empty"
    if not isinstance(fields.get("in_reply_to"), str | None):
        return "`in_reply_to` must be the id of a message"
    return None


def _is_address(to: str) -> bool:
    if to.startswith("@"):
        return 1 < len(to) <= MAX_ADDRESS and to.isascii() and to.isprintable() and " " not in to
    return is_channel_name(to)

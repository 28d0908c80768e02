"""The events of a model's program as lines that people and the next session can read. Pure.

`claude -p --output-format stream-json`, and our own programs for models, print one JSON object per line. The guard
counts in them. What is not such an event, as errors on standard error, stays as it is.
"""

import json
from typing import Any, Final, NamedTuple

MAX_LINE: Final = 2 * 1024 * 1024  # bytes; a longer one is passed on in pieces, as text
SHOWN: Final = 2000  # characters of what a tool is asked and answers

_SAYING: Final = ("assistant", "user", "result")  # kinds of events that have something to show


class Shown(NamedTuple):
    """`is_own` is True for what the program itself says: neither the model's words nor those of strangers."""

    text: str
    is_own: bool = False


class Reader:
    """Bytes in, lines out."""

    def __init__(self) -> None:
        self._rest = b""

    def read(self, piece: bytes) -> list[Shown]:
        """What the piece has completed."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        shown = [each for line in lines for each in _shown(line)]
        if len(self._rest) > MAX_LINE:
            shown += self.end()
        return shown

    def end(self) -> list[Shown]:
        """What is there without its newline."""
        rest, self._rest = self._rest, b""
        return _shown(rest) if rest else []


def readable(line: str) -> list[str]:
    """A line of any program: what it shows if it is an event, else the line itself."""
    event = _event(line.encode(errors="replace"))
    if event is None or event.get("type") not in _SAYING:
        return [line]
    return [shown.text for shown in _of(event)]


def _shown(line: bytes) -> list[Shown]:
    event = _event(line)
    if event is None:
        return [Shown(line.decode(errors="replace"), is_own=True)]
    return _of(event)


def _of(event: dict[str, Any]) -> list[Shown]:
    if event.get("type") == "result":
        is_error = event.get("is_error") is True
        return [Shown(f"[{'error' if is_error else 'end'}] {_outcome(event)}", is_error)]
    message = event.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [Shown(content)]
    parts = content if isinstance(content, list) else []
    return [Shown(text) for part in parts if isinstance(part, dict) and (text := _part(part))]


def _outcome(event: dict[str, Any]) -> str:
    """What the program says at its end: a text, or a list of errors."""
    text, errors = event.get("result"), event.get("errors")
    if isinstance(text, str) and text:
        return text
    return "; ".join(each for each in errors if isinstance(each, str)) if isinstance(errors, list) else ""


def _event(line: bytes) -> dict[str, Any] | None:
    if not line.startswith(b"{"):
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("type"), str) else None


def _part(part: dict[str, Any]) -> str:
    kind = part.get("type")
    if kind == "text":
        return str(part.get("text", ""))
    if kind == "tool_use":
        return f"[tool] {part.get('name')} {_short(part.get('input'))}"
    if kind == "tool_result":
        return f"[answer] {_short(part.get('content'))}"
    return ""


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"

"""What a command tells of its use: tokens, tool calls, sends.

Two kinds of output tell it. A model's program prints events on its standard output, one JSON object per line. On
standard error any program can tell it in words (agentchat wire 19.5). A model may write either kind into its own
text, so neither turns the other off: of each number the higher one counts.
"""

import json
import re
from typing import Any, Final, NamedTuple, TypeVar

Value = TypeVar("Value")

LONGEST_EVENT: Final = 2 * 1024 * 1024  # bytes; an event carries all that a model wrote in one message
LONGEST_LINE: Final = 256 * 1024
EVENT_WORDS: Final = (b'"usage"',)
LINE_WORDS: Final = (b"tokens", b"tool", b"Tool call")

MOST_MESSAGES: Final = 1000  # whose parts may still come; the oldest is forgotten first, its tokens are not
_MOST_TOKENS: Final = 10**15  # more is an error of the program, and would be slow to add
_CACHED: Final = 10  # so many tokens read from a cache cost as much as one that is not

_SEND: Final = "agentchat_send"
_TOKENS: Final = re.compile(rb'(?:"(in|out)put_tokens"\s*:|\b([Ii]n|[Oo]ut)put tokens:)\s*(\d{1,15})(?!\d)')
_TOOL: Final = re.compile(rb"Using tool|Tool call|tool_use")


class Calls(NamedTuple):
    """How many calls a line told of. A send is a tool call too."""

    tools: int = 0
    sends: int = 0


NO_CALLS: Final = Calls()


class LineUsage:
    """Standard error, line by line: the highest numbers of tokens seen, and mentions of tools."""

    def __init__(self) -> None:
        self.tokens_in = 0
        self.tokens_out = 0

    def read(self, line: bytes) -> Calls:
        for quoted, spoken, digits in _TOKENS.findall(line):
            if (quoted or spoken).lower() == b"in":
                self.tokens_in = max(self.tokens_in, int(digits))
            else:
                self.tokens_out = max(self.tokens_out, int(digits))
        if _TOOL.search(line) is None:
            return NO_CALLS
        return Calls(1, int(_SEND.encode() in line))


class EventUsage:
    """Events of a model's program: `assistant` per message, `stream_event` for parts of it, `result` at the end.

    The same message comes several times, each time with what it has used so far. So messages are told apart by
    their ids, and the highest numbers of each are added up.
    """

    def __init__(self) -> None:
        self._messages: dict[str, tuple[int, int]] = {}
        self._calls: dict[str, None] = {}  # the ids of calls that were counted
        self._streaming: dict[str, str] = {}  # the message that each conversation is in
        self._nameless = 0  # messages without an id
        self.tokens_in = 0
        self.tokens_out = 0

    def read(self, line: bytes) -> Calls:
        if not line.startswith(b"{"):
            return NO_CALLS
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return NO_CALLS
        kind = event.get("type")
        if kind == "assistant":
            return self._message(_object(event.get("message")))
        if kind == "stream_event":
            self._part(str(event.get("parent_tool_use_id")), _object(event.get("event")))
        elif kind == "result":
            used, made = _tokens(event.get("usage"))  # of all messages together
            self.tokens_in = max(self.tokens_in, used)
            self.tokens_out = max(self.tokens_out, made)
        return NO_CALLS

    def _message(self, message: dict[str, Any]) -> Calls:
        self._use(self._id_of(message), message.get("usage"))
        content = message.get("content")
        names = [
            str(block.get("name"))
            for block in (content if isinstance(content, list) else ())
            if isinstance(block, dict) and block.get("type") == "tool_use" and self._is_new(block.get("id"))
        ]
        return Calls(len(names), sum(_SEND in name for name in names))

    def _part(self, conversation: str, part: dict[str, Any]) -> None:
        if part.get("type") == "message_start":
            message = _object(part.get("message"))
            _remember(self._streaming, conversation, self._id_of(message))
            self._use(self._streaming[conversation], message.get("usage"))
        elif part.get("type") == "message_delta" and conversation in self._streaming:
            self._use(self._streaming[conversation], part.get("usage"))

    def _id_of(self, message: dict[str, Any]) -> str:
        found = message.get("id")
        if isinstance(found, str):
            return found
        self._nameless += 1
        return f"#{self._nameless}"

    def _use(self, message: str, usage: object) -> None:
        known_in, known_out = self._messages.get(message, (0, 0))
        used, made = _tokens(usage)
        used, made = max(used, known_in), max(made, known_out)
        self.tokens_in += used - known_in
        self.tokens_out += made - known_out
        _remember(self._messages, message, (used, made))

    def _is_new(self, call: object) -> bool:
        if not isinstance(call, str):
            return True
        is_new = call not in self._calls
        _remember(self._calls, call, None)
        return is_new


def _remember(table: dict[str, Value], key: str, value: Value) -> None:
    """Put it into a table of bounded size; the oldest entry makes way."""
    table[key] = value
    if len(table) > MOST_MESSAGES:
        del table[next(iter(table))]


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _tokens(usage: object) -> tuple[int, int]:
    """Tokens in and out. What is read from the model's cache costs a tenth, and counts a tenth."""
    numbers = _object(usage)
    cached = _number(numbers.get("cache_read_input_tokens"))
    written = _number(numbers.get("cache_creation_input_tokens"))
    return _number(numbers.get("input_tokens")) + written + cached // _CACHED, _number(
        numbers.get("output_tokens")
    )


def _number(value: object) -> int:
    return min(value, _MOST_TOKENS) if type(value) is int and value > 0 else 0

"""What looks like a model from outside: it calls tools, and prints events as `claude -p` does.

The guard reads these events. It counts their tokens, calls and sends, and ends a session that is over a limit.
"""

import json
import sys
import time
from itertools import count
from typing import Any, Final

from actors.mcp_client import SERVER, ToolFailed, Tools

CHARACTERS_PER_TOKEN: Final = 4


class Model:
    """A conversation. Its context grows with each call, and so does what the next call costs.

    `thinking` is the least number of seconds between two calls. A model needs some, and the guard counts the calls
    of a minute.
    """

    def __init__(self, tools: Tools, prompt: str, thinking: float) -> None:
        self._tools = tools
        self._thinking = thinking
        self._not_before = 0.0
        self._ids = count(1)
        self._context = 0  # tokens that were read before, and are in a cache
        self._unread = tokens(prompt)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool of the hall. Raises ToolFailed or ServerGone."""
        time.sleep(max(0.0, self._not_before - time.monotonic()))
        self._not_before = time.monotonic() + self._thinking
        number = next(self._ids)
        use = {
            "type": "tool_use",
            "id": f"call_{number}",
            "name": f"mcp__{SERVER}__{tool}",
            "input": arguments,
        }
        self._turn(number, use)
        try:
            result = self._tools.call(tool, arguments)
        except ToolFailed as failure:
            self._answered(number, str(failure), is_error=True)
            raise
        self._answered(number, json.dumps(result))
        return result

    def think(self, text: str) -> None:
        """Say something that only the transcript hears."""
        self._turn(next(self._ids), {"type": "text", "text": text})

    def _turn(self, number: int, part: dict[str, Any]) -> None:
        said = tokens(json.dumps(part))
        usage = {
            "input_tokens": self._unread,
            "cache_read_input_tokens": self._context,
            "output_tokens": said,
        }
        self._context += self._unread + said
        self._unread = 0
        message = {"id": f"msg_{number}", "role": "assistant", "content": [part], "usage": usage}
        show({"type": "assistant", "message": message})

    def _answered(self, number: int, text: str, *, is_error: bool = False) -> None:
        self._unread += tokens(text)
        result = {
            "type": "tool_result",
            "tool_use_id": f"call_{number}",
            "content": text,
            "is_error": is_error,
        }
        show({"type": "user", "message": {"content": [result]}})


def tokens(text: str) -> int:
    """About as many as a model would read in the text."""
    return len(text) // CHARACTERS_PER_TOKEN + 1


def show(event: dict[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(event)}\n")
    sys.stdout.flush()

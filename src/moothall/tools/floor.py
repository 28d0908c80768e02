"""Which messages the agent has claimed, and which ones it has lost to another: what `agentchat_send` asks first."""

from collections.abc import Callable, Mapping
from typing import Any, Final

MAX_LOST: Final = 1000  # messages; a claim is over in a minute

Key = tuple[str, str]  # channel and msg_id


class Floor:
    def __init__(self) -> None:
        self._lost: dict[Key, str] = {}

    def hear(self, frame: Mapping[str, Any], is_own: Callable[[str], bool]) -> None:
        """Note who has the floor. A YIELD that names the agent itself answers its own repeated claim."""
        if frame.get("type") != "YIELD":
            return
        key = (str(frame.get("channel")), str(frame.get("msg_id")))
        holder = str(frame.get("holder") or frame.get("speaker") or "")
        if is_own(holder):
            self._lost.pop(key, None)
            return
        if len(self._lost) >= MAX_LOST:
            del self._lost[next(iter(self._lost))]
        self._lost[key] = holder

    def holder(self, channel: str, msg_id: str) -> str | None:
        """The agent that a message was lost to."""
        return self._lost.get((channel, msg_id))

    def won(self, channel: str, msg_id: str) -> None:
        """The hall has granted a claim."""
        self._lost.pop((channel, msg_id), None)

    def clear(self) -> None:
        """The connection is gone, and with it all claims."""
        self._lost.clear()

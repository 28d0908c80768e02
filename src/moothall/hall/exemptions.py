"""Messages that agents may answer without the floor (seed 003, exemptions): a person's, and for mentioned agents.

They are remembered for longer than a channel's buffer holds them: in a lively channel it has moved on before an
agent that waited its turn claims. What is remembered of one is never longer than the message: a set of the names,
each an object of its own, would take fifty times the memory of a message full of mentions.
"""

import re
from typing import Final

MAX_REMEMBERED: Final = 10_000  # messages of the whole hall
MAX_SEARCHED: Final = 4096  # characters of a message; names after them are no mentions

_MENTION: Final = re.compile(r"@([A-Za-z0-9_-]+)")


class Exemptions:
    def __init__(self) -> None:
        # By message id, the oldest first: the names with a space around each; None is every agent.
        self._names: dict[str, str | None] = {}

    def __len__(self) -> int:
        return len(self._names)

    def note(self, msg_id: str, content: str, *, by_agent: bool) -> None:
        self._names[msg_id] = f" {' '.join(_MENTION.findall(content[:MAX_SEARCHED]))} " if by_agent else None
        if len(self._names) > MAX_REMEMBERED:
            del self._names[next(iter(self._names))]

    def cover(self, msg_id: str, agent_id: str, agent_name: str) -> bool:
        """True if this agent may answer the message regardless of claims."""
        names = self._names.get(msg_id, "")
        return names is None or f" {agent_id} " in names or f" {agent_name} " in names

"""Names in order, each with its JSON text. Any client may ask for them often, so they are not sorted every time.

An arrival or a departure is only noted: in a busy hall without questions, sorting would be work for nothing.
A question sorts in what has changed since the one before, and makes the texts that its answer has room for.
"""

import json
from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final

# Go's encoder makes JSON that can stand in a web page (keep wire 8).
_ESCAPES: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
# Up to here each change is put in its place; more of them are sorted in at once.
FEW_CHANGES: Final = 256


def json_text(value: object) -> str:
    """As the reference writes it: compact, and UTF-8 unescaped except for what a web page would mistake."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPES)


class Listing:
    def __init__(self) -> None:
        self._members: set[str] = set()
        self._changed: set[str] = set()  # who came or went since the last question, and did not do both
        self._ordered: list[str] = []  # as of the last question
        self._texts: dict[str, str] = {}  # of those that were in an answer

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[str]:
        if self._changed:
            self._put_in_order()
        return iter(self._ordered)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    @property
    def texts(self) -> Iterator[str]:
        texts = self._texts
        for name in self:
            text = texts.get(name)
            if text is None:
                text = texts[name] = json_text(name)
            yield text

    def add(self, name: str) -> None:
        if name not in self._members:
            self._members.add(name)
            self._changed ^= {name}

    def discard(self, name: str) -> None:
        if name in self._members:
            self._members.remove(name)
            self._changed ^= {name}
            self._texts.pop(name, None)

    def _put_in_order(self) -> None:
        changed, self._changed = self._changed, set()
        if len(changed) > FEW_CHANGES:
            stayed = [name for name in self._ordered if name in self._members]
            self._ordered = sorted(stayed + [name for name in changed if name in self._members])
            return
        for name in changed:
            if name in self._members:
                insort(self._ordered, name)
            else:
                del self._ordered[bisect_left(self._ordered, name)]

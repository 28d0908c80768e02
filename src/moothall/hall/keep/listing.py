"""Names in order, each with its JSON text: a question that anybody may ask often is not sorted anew each time."""

import json
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

# Go's encoder makes JSON that can stand in a web page (keep wire 8).
_ESCAPES: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def json_text(value: object) -> str:
    """As the reference writes it: compact, and UTF-8 unescaped except for what a web page would mistake."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPES)


class Listing:
    def __init__(self) -> None:
        self._names: list[str] = []
        self._texts: list[str] = []

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: str) -> bool:
        place = bisect_left(self._names, name)
        return place < len(self._names) and self._names[place] == name

    @property
    def texts(self) -> list[str]:
        return self._texts

    def add(self, name: str) -> None:
        if name not in self:
            place = bisect_left(self._names, name)
            self._names.insert(place, name)
            self._texts.insert(place, json_text(name))

    def discard(self, name: str) -> None:
        if name in self:
            place = bisect_left(self._names, name)
            del self._names[place]
            del self._texts[place]

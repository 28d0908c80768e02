"""Change some members of a JSON text and leave every other character alone.

Editors keep their settings as JSON with comments and trailing commas. Parsing and writing them anew would lose the
comments and the user's layout. So a scanner notes where each member of an object begins and ends, and a change is
a few insertions in the text.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, NoReturn

MAX_DEPTH: Final = 100

_SPACE: Final = re.compile(r"[ \t\r\n]+")
_LINE_COMMENT: Final = re.compile(r"//[^\r\n]*")


class BrokenText(ValueError):
    """The text is not JSON with comments. Says in which line."""


class Unsafe(ValueError):
    """The text is valid, and cannot be changed without a loss."""


class Member(NamedTuple):
    key: str
    start: int  # of the key, with its quotation mark
    value: "Span"


class Span(NamedTuple):
    """A value in the text: where it is, what it is, and its members if it is an object."""

    start: int
    end: int
    value: Any
    members: tuple[Member, ...] | None = None
    trailing_comma: bool = False


class Edit(NamedTuple):
    start: int
    end: int
    text: str


def parse(text: str) -> tuple[Span | None, list[str]]:
    """The value of the text, None if there is none, and its comments. Raises BrokenText."""
    scanner = _Scanner(text)
    start = scanner.skip(1 if text.startswith("\ufeff") else 0)
    if start == len(text):
        return None, scanner.comments
    root = scanner.value(start, 0)
    end = scanner.skip(root.end)
    if end != len(text):
        scanner.fail(end, "text after the end of the value")
    return root, scanner.comments


def merged(old: Any, new: Mapping[str, Any]) -> dict[str, Any]:
    """Objects member by member; anything else is replaced."""
    result = dict(old) if isinstance(old, Mapping) else {}
    for key, value in new.items():
        result[key] = merged(result.get(key), value) if isinstance(value, Mapping) else value
    return result


def put(text: str, new: Mapping[str, Any]) -> str:
    """The text with the members of `new` merged into it. All that `new` does not name stays as it was written.

    Raises BrokenText, and Unsafe when an object is expected where something else is, when a key is there twice, or
    when a comment would get lost.
    """
    root, comments = parse(text)
    layout = _Layout(text, root)
    if root is None:
        head = text if not text.strip("\ufeff \t\r\n") else text.rstrip() + layout.newline
        return f"{head}{layout.shown(new, '')}{layout.newline}"
    edits = sorted(_edits(text, layout, root, new, "the file"), reverse=True)
    for start, end, replacement in edits:
        text = text[:start] + replacement + text[end:]
    after, kept = parse(text)
    if after is None or after.value != merged(root.value, new):  # never write what we cannot read back
        raise Unsafe("the text cannot be changed in place")
    if kept != comments:
        raise Unsafe("a comment inside a value that has to change would get lost")
    return text


def _edits(text: str, layout: "_Layout", span: Span, new: Mapping[str, Any], name: str) -> Iterator[Edit]:
    if span.members is None:
        raise Unsafe(f"{name} is not an object")
    missing = {}
    for key, value in new.items():
        found = [member for member in span.members if member.key == key]
        if len(found) > 1:
            raise Unsafe(f"{key!r} is there twice")
        if not found:
            missing[key] = value
        elif isinstance(value, Mapping):
            yield from _edits(text, layout, found[0].value, value, repr(key))
        elif found[0].value.value != value:
            place = found[0].value
            yield Edit(place.start, place.end, layout.shown(value, layout.indent_at(found[0].start)))
    if missing:
        yield from _insertions(text, layout, span, missing)


def _insertions(text: str, layout: "_Layout", span: Span, missing: Mapping[str, Any]) -> Iterator[Edit]:
    members = span.members or ()
    outer = layout.indent_at(span.start)
    inner = outer + layout.unit
    if members and layout.begins_line(members[0].start):
        inner = layout.indent_at(members[0].start)
    close = span.end - 1
    place = len(text[:close].rstrip(" \t\r\n"))
    lines = [
        f"{layout.newline}{inner}{layout.shown(key, '')}: {layout.shown(value, inner)}"
        for key, value in missing.items()
    ]
    addition = ",".join(lines) + ("," if span.trailing_comma else "")
    ending = "" if "\n" in text[place:close] else layout.newline + outer
    if members and not span.trailing_comma:
        last = members[-1].value.end
        if last == place:
            addition = "," + addition
        else:  # a comment stands between the last value and the brace
            yield Edit(last, last, ",")
    yield Edit(place, place, addition + ending)


class _Layout:
    """How the text is laid out: line ends, and how far a level is indented."""

    def __init__(self, text: str, root: Span | None) -> None:
        self._text = text
        self.newline = "\r\n" if "\r\n" in text else "\n"
        first = root.members[0].start if root is not None and root.members else 0
        self.unit = self.indent_at(first) or "  "

    def begins_line(self, place: int) -> bool:
        return not self._line_before(place).strip(" \t")

    def indent_at(self, place: int) -> str:
        """The indentation of the line in which `place` is."""
        line = self._line_before(place)
        return line[: len(line) - len(line.lstrip(" \t"))]

    def shown(self, value: Any, indent: str) -> str:
        lines = json.dumps(value, indent=self.unit, ensure_ascii=False).split("\n")
        return f"{self.newline}{indent}".join(lines)

    def _line_before(self, place: int) -> str:
        return self._text[self._text.rfind("\n", 0, place) + 1 : place].lstrip("\ufeff")


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._decode = json.JSONDecoder(parse_constant=_no_constant).raw_decode
        self.comments: list[str] = []

    def skip(self, place: int) -> int:
        """The next place that is neither space nor comment."""
        while True:
            if found := _SPACE.match(self._text, place):
                place = found.end()
            elif found := _LINE_COMMENT.match(self._text, place):
                self.comments.append(found[0])
                place = found.end()
            elif self._text.startswith("/*", place):
                end = self._text.find("*/", place + 2)
                if end < 0:
                    self.fail(place, "a comment that does not end")
                self.comments.append(self._text[place : end + 2])
                place = end + 2
            else:
                return place

    def value(self, place: int, depth: int) -> Span:
        if depth > MAX_DEPTH:
            self.fail(place, f"more than {MAX_DEPTH} levels")
        character = self._text[place : place + 1]
        if character == "{":
            return self._object(place, depth)
        if character == "[":
            return self._plain_array(place) or self._array(place, depth)
        return self._plain(place)

    def _object(self, start: int, depth: int) -> Span:
        members: list[Member] = []
        comma = True
        place = self.skip(start + 1)
        while self._text[place : place + 1] != "}":
            if not comma:
                self.fail(place, "a comma is missing")
            key = self._plain(place)
            if not isinstance(key.value, str):
                self.fail(place, "a key is not a string")
            place = self.skip(key.end)
            if self._text[place : place + 1] != ":":
                self.fail(place, "a colon is missing")
            value = self.value(self.skip(place + 1), depth + 1)
            members.append(Member(key.value, key.start, value))
            place, comma = self._separator(value.end)
        values = {member.key: member.value.value for member in members}
        return Span(start, place + 1, values, tuple(members), bool(members) and comma)

    def _plain_array(self, start: int) -> Span | None:
        """An array without comments, many times faster. None if there are some, or if it is broken."""
        try:
            value, end = self._decode(self._text, start)
        except (ValueError, RecursionError):
            return None
        return Span(start, end, value)

    def _array(self, start: int, depth: int) -> Span:
        values: list[Any] = []
        comma = True
        place = self.skip(start + 1)
        while self._text[place : place + 1] != "]":
            if not comma:
                self.fail(place, "a comma is missing")
            found = self.value(place, depth + 1)
            values.append(found.value)
            place, comma = self._separator(found.end)
        return Span(start, place + 1, values)

    def _separator(self, place: int) -> tuple[int, bool]:
        place = self.skip(place)
        if self._text[place : place + 1] == ",":
            return self.skip(place + 1), True
        return place, False

    def _plain(self, place: int) -> Span:
        try:
            value, end = self._decode(self._text, place)
        except ValueError:
            self.fail(place, "no JSON value")
        return Span(place, end, value)

    def fail(self, place: int, what: str) -> NoReturn:
        line = self._text.count("\n", 0, place) + 1
        raise BrokenText(f"line {line}: {what}")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)

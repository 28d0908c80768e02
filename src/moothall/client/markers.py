"""Markers of agent runtimes in a text: `@@joy:0.6@@`, `@@sleep:30s:drop@@`, `@@wake@@` (agentchat wire 9.5).

A model writes them into its answers to tell its own runtime something. They are no part of what it says to
others, so the SDK takes them out before it sends a message, and gives them to the program (`on_marker`).

    >>> strip("Good morning! @@joy:0.6@@ @@sleep:30s@@")
    Stripped(text='Good morning!', markers=(Mood(name='joy', level=0.6), Sleep(seconds=30.0, mode='buffer')))

What is quoted or code is left as it is: fenced and inline code, lines that begin with >, text in double
quotes, a marker between single ones. So are callbacks with their payloads, `@@cb:30s@@look again`: those are
for the hall. Whatever is not exactly a marker is text. Every text is read once from left to right, so the
time is that of its length.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from moothall.wire.agentchat.callback_markers import find_callbacks


class Mood(NamedTuple):
    """`@@joy:0.6@@`: a feeling, from 0 to 1."""

    name: str
    level: float


class Sleep(NamedTuple):
    """`@@sleep:30s@@`, `@@sleep:30s:drop@@`: hear nothing for a while, and keep or drop what is said meanwhile."""

    seconds: float
    mode: Literal["buffer", "drop"]


class Wake(NamedTuple):
    """`@@wake@@`: end the sleep."""


class Mem(NamedTuple):
    """`@@mem:3@@`: a page of the runtime's memory."""

    number: int


class Ctrl(NamedTuple):
    """`@@ctrl:model=small@@`: a setting of the runtime."""

    name: str
    value: str


Marker = Mood | Sleep | Wake | Mem | Ctrl


class Stripped(NamedTuple):
    """A text without its markers; they are in the order in which they stood."""

    text: str
    markers: tuple[Marker, ...]


_SIGN: Final = "@@"
_MARKER: Final = re.compile(
    r"""@@(?:
      (?P<wake>wake)
    | sleep:(?P<seconds>[0-9]{1,9}(?:\.[0-9]{1,9})?)s(?P<mode>:buffer|:drop)?
    | mem:(?P<page>[0-9]{1,9})
    | ctrl:(?P<setting>[A-Za-z0-9_.-]{1,64})=(?P<value>(?:[^@\n\r]|@(?!@)){0,200})
    | (?!(?:sleep|wake|mem|ctrl|cb):)(?P<mood>[A-Za-z][A-Za-z_-]{0,31}):(?P<level>0(?:\.[0-9]{1,9})?|1(?:\.0{1,9})?)
    )@@""",
    re.VERBOSE,
)
# Code in a list item is indented, or begins beside the bullet.
_FENCE: Final = re.compile(r"[ \t]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)*(`{3,}|~{3,})")
_QUOTE: Final = re.compile(r" {0,3}>")
_QUOTES: Final = re.compile('["\u201c\u201d\u00ab\u00bb\n]')
# What ends the text that a sign begins, if not the same sign.
_CLOSERS: Final = {"\u201c": "\u201d", "\u201d": None, "\u00ab": "\u00bb", "\u00bb": None, "\n": None}
_BLANKS: Final = " \t"
_NEWLINES: Final = "\r\n"
_SPACE: Final = re.compile(r"[ \t]+")
_NEWLINE: Final = re.compile(r"\r\n|\r|\n")
_BACKTICKS: Final = re.compile(r"`+")

Span = tuple[int, int]


def strip(text: str) -> Stripped:
    """Take the markers out of a text. A text without one is returned as it is. Raises nothing."""
    if _SIGN not in text:
        return Stripped(text, ())
    found = [
        match
        for start, end in _gaps(text)
        for match in _MARKER.finditer(text, start, end)
        if not _is_in_single_quotes(text, match)
    ]
    if not found:
        return Stripped(text, ())
    return Stripped(_without(text, [match.span() for match in found]), tuple(map(_marker, found)))


def _marker(match: re.Match[str]) -> Marker:
    if match["wake"]:
        return Wake()
    if match["seconds"]:
        return Sleep(float(match["seconds"]), "drop" if match["mode"] == ":drop" else "buffer")
    if match["page"]:
        return Mem(int(match["page"]))
    if match["setting"]:
        return Ctrl(match["setting"], match["value"])
    return Mood(match["mood"], float(match["level"]))


# -- what is left as it is --------------------------------------------------------------------------------


def _gaps(text: str) -> Iterator[Span]:
    """The parts of the text where a marker counts."""
    place = 0
    for start, end in sorted(_spans_to_leave(text)):
        if start > place:
            yield place, start
        place = max(place, end)
    if place < len(text):
        yield place, len(text)


def _spans_to_leave(text: str) -> Iterator[Span]:
    for head, end in find_callbacks(text):
        yield head.start(), end
    prose: list[Span] = []  # a paragraph: lines that are neither blank, quoted nor fenced
    fence = ""  # what opened the code that this line is in
    start = 0
    for line in text.splitlines(keepends=True):
        end = start + len(line)
        mark = _FENCE.match(line)
        if fence:
            yield start, end
            if _closes(line.strip(), fence):
                fence = ""
        elif (mark and not _is_inline(line, mark)) or _QUOTE.match(line) or not line.strip():
            fence = mark[1] if mark else ""
            yield start, end
            yield from _spans_in_paragraph(text, prose)
            prose = []
        else:
            prose.append((start, end))
        start = end
    yield from _spans_in_paragraph(text, prose)


def _closes(line: str, fence: str) -> bool:
    return line.startswith(fence) and not line.strip(fence[0])


def _is_inline(line: str, mark: re.Match[str]) -> bool:
    """True if backticks at the beginning of a line open inline code: no fence has backticks after it."""
    return mark[1].startswith("`") and "`" in line[mark.end() :]


def _spans_in_paragraph(text: str, lines: list[Span]) -> Iterator[Span]:
    if lines:
        first, last = lines[0][0], lines[-1][1]
        yield from _paired(list(_QUOTES.finditer(text, first, last)))
        yield from _paired(list(_BACKTICKS.finditer(text, first, last)))


def _paired(signs: list[re.Match[str]]) -> Iterator[Span]:
    """From each sign to the one that closes it. Quotes end with their line, at the latest."""
    following: dict[str, int] = {}  # the next sign of each kind, found from the end
    partners: list[int | None] = []
    for number in range(len(signs) - 1, -1, -1):
        sign = signs[number][0]
        closer = _CLOSERS.get(sign, sign)
        partners.append(None if closer is None else following.get(closer))
        if sign == "\n":
            following.clear()
        else:
            following[sign] = number
    partners.reverse()
    number = 0
    while number < len(signs):
        partner = partners[number]
        if partner is None:
            number += 1
        else:
            yield signs[number].start(), signs[partner].end()
            number = partner + 1


def _is_in_single_quotes(text: str, match: re.Match[str]) -> bool:
    start, end = match.span()
    return text[start - 1 : start] + text[end : end + 1] in ("''", "\u2018\u2019")


# -- the rest of the text ---------------------------------------------------------------------------------


def _without(text: str, markers: list[Span]) -> str:
    """Join what is around the markers: one space where there were two, and no line that had markers only.

    Both sides of a marker can make another one, as in `@@jo@@wake@@y:0.5@@`. A space keeps them apart.
    """
    kept: list[str] = []
    place = 0
    has_sign = False  # what is kept of this line may be the beginning of a marker
    for start, end in _adjacent(text, markers):
        left = place + len(text[place:start].rstrip(_BLANKS))
        begins_line = left == 0 or text[left - 1] in _NEWLINES
        space = _SPACE.match(text, end)
        right = space.end() if space else end
        ends_line = right == len(text) or text[right] in _NEWLINES
        if ends_line:
            newline = _NEWLINE.match(text, right) if begins_line else None
            kept.append(text[place:left])
            place = newline.end() if newline else right
        else:
            kept.append(text[place:start])
            has_sign = _has_sign(kept[-1], has_sign)
            place = right if begins_line or left < start else end
            if has_sign and place == end:
                kept.append(" ")
    kept.append(text[place:])
    result = "".join(kept).strip(_NEWLINES)
    return result if result.strip() else ""


def _has_sign(piece: str, had_sign: bool) -> bool:
    _, newline, line = piece.rpartition("\n")
    return (had_sign and not newline) or _SIGN in line or line.endswith("@")


def _adjacent(text: str, markers: list[Span]) -> Iterator[Span]:
    """Markers with only blanks between them, as one."""
    start, end = markers[0]
    for following, last in markers[1:]:
        if text[end:following].strip(_BLANKS):
            yield start, end
            start = following
        end = last
    yield start, end

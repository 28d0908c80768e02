"""Lists on the command line: aligned columns, with headers for people and without for programs.

On a terminal the first line has the headers. In a pipe or a file every line is an entry, so `cut`, `grep` and
`wc -l` work. Columns are two spaces or more apart, and no cell has two spaces in a row; an empty cell is `-`. So a
text of strangers cannot pass for several columns. `--json` has everything.
"""

import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import typer

from moothall.cli._exits import tell
from moothall.errors import Refusal
from moothall.tui.printable import one_line, shown_name

if TYPE_CHECKING:
    from moothall import Agent

GAP: Final = "  "
EMPTY: Final = "-"
# Cells of the terminal that a column takes; a longer text moves the rest of its own row only
WIDEST: Final = 48
ASKED_AT_ONCE: Final = 100  # ids in one LIST_AGENTS

_NO_CELL: Final = frozenset(("Mn", "Me", "Cf"))  # categories of Unicode
_TWO_CELLS: Final = frozenset(("W", "F"))  # widths of Unicode


class Right(str):
    """The header of a column of numbers, which end below each other."""

    __slots__ = ()


def show_table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print the rows; `empty` says on standard error that there are none, so that a pipe stays empty."""
    table = [[_cell(value) for value in row] for row in rows]
    if not table:
        tell(empty)
        return
    if sys.stdout.isatty():
        table.insert(0, [header.upper() for header in headers])
    widths = [min(WIDEST, max(map(_width, column))) for column in zip(*table, strict=True)]
    for row in table:
        cells = zip(headers, row, widths, strict=True)
        typer.echo(GAP.join(_aligned(header, text, width) for header, text, width in cells).rstrip())


async def names_of(agent: "Agent", addresses: Iterable[str | None]) -> dict[str, str]:
    """The names of those agents that are here, by `@id`; none from a server that does not tell."""
    wanted = list(dict.fromkeys(address for address in addresses if address))
    found: dict[str, str] = {}
    try:
        for start in range(0, len(wanted), ASKED_AT_ONCE):
            for member in await agent.agents(wanted[start : start + ASKED_AT_ONCE]):
                found[member.id] = shown_name(member.name or "")
    except Refusal:
        pass  # names are a courtesy
    if agent.address in wanted:
        found.setdefault(agent.address, agent.name)
    return found


def _cell(value: object) -> str:
    text = "" if value is None else one_line(str(value))
    return " ".join(text.split()) or EMPTY


def _aligned(header: str, text: str, width: int) -> str:
    space = " " * (width - _width(text))
    return space + text if isinstance(header, Right) else text + space


def _width(text: str) -> int:
    """Cells of a terminal: a letter of Chinese takes two, a combining accent none."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


def _cells(letter: str) -> int:
    if unicodedata.combining(letter) or unicodedata.category(letter) in _NO_CELL:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in _TWO_CELLS else 1

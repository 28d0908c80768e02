"""Add a table to a TOML text, or change some of its keys, and leave every other line alone."""

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

from moothall.hosts.jsonc import BrokenText, Unsafe, merged

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_HEADER: Final = re.compile(r"[ \t]*\[")


def put(text: str, path: tuple[str, ...], new: Mapping[str, Any]) -> str:
    """The text with `new` merged into the table at `path`. All that `new` does not name stays as it was written.

    Raises BrokenText, and Unsafe when the table is written in a way that cannot be changed line by line.
    """
    before = _parsed(text)
    wanted: Mapping[str, Any] = new
    for key in reversed(path):
        wanted = {key: wanted}
    expected = merged(before, wanted)
    if expected == before:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += newline
    there: Any = before
    for key in path:
        there = there.get(key, {}) if isinstance(there, dict) else {}
    _put_table(lines, path, there, new, newline)
    changed = "".join(lines)
    try:
        after = tomllib.loads(changed)
    except tomllib.TOMLDecodeError:
        after = None
    if after != expected:  # never write what we cannot read back
        raise Unsafe(f"{'.'.join(path)} is not written as a table with one line for each key")
    return changed


def shown(path: tuple[str, ...], table: Mapping[str, Any], newline: str = "\n") -> str:
    """A table, and those inside it, as lines."""
    lines = [f"[{'.'.join(map(_key, path))}]"]
    lines += [f"{_key(key)} = {_value(value)}" for key, value in table.items() if not _is_table(value)]
    blocks = [newline.join(lines) + newline]
    blocks += [shown((*path, key), value, newline) for key, value in table.items() if _is_table(value)]
    return newline.join(blocks)


def _put_table(
    lines: list[str], path: tuple[str, ...], there: Any, new: Mapping[str, Any], newline: str
) -> None:
    """`there` is what the text says about the table now."""
    plain = {key: value for key, value in new.items() if not _is_table(value)}
    header = next((number for number, line in enumerate(lines) if _names(line, path)), None)
    if header is not None:
        _put_lines(lines, header, plain, newline)
    else:
        if lines and lines[-1].strip():
            lines.append(newline)
        lines += shown(path, plain, newline).splitlines(keepends=True)
    for key, value in new.items():
        inner = there.get(key, {}) if isinstance(there, dict) else {}
        if _is_table(value) and merged(inner, value) != inner:
            _put_table(lines, (*path, key), inner, value, newline)


def _put_lines(lines: list[str], header: int, plain: Mapping[str, Any], newline: str) -> None:
    end = next((n for n in range(header + 1, len(lines)) if _HEADER.match(lines[n])), len(lines))
    last = max(n for n in range(header, end) if lines[n].strip())
    additions = []
    for key, value in plain.items():
        line = f"{_key(key)} = {_value(value)}{newline}"
        place = next((n for n in range(header + 1, end) if key in _line(lines[n])), None)
        if place is None:
            additions.append(line)
        elif _line(lines[place])[key] != value:
            if "#" in lines[place]:
                raise Unsafe("a comment beside a value that has to change would get lost")
            lines[place] = line
    lines[last + 1 : last + 1] = additions


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BrokenText(str(error)) from None


def _names(line: str, path: tuple[str, ...]) -> bool:
    """True for the header of this table, in any spelling of its keys."""
    if not _HEADER.match(line) or line.lstrip().startswith("[["):
        return False
    try:
        found: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return False
    for key in path:
        if not isinstance(found, dict) or list(found) != [key]:
            return False
        found = found[key]
    return isinstance(found, dict) and not found


def _line(line: str) -> dict[str, Any]:
    """What a line by itself sets; nothing if it is a part of something longer."""
    try:
        return tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return {}


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _value(key)


def _value(value: Any) -> str:
    """Strings, numbers, booleans and lists of them. A basic string of TOML escapes as JSON does."""
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

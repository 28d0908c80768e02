"""What the fields of a message may hold, in words, read from its struct."""

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

from msgspec import NODEFAULT, UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import FieldInfo, fields

from moothall.wire.agentchat import admin, client, names

PARTS_PAGE: Final = "wire-from-hall.md"

# Regular expressions are for programs.
PATTERNS: Final = {
    names.NAME_PATTERN: "1 to 32 letters, digits, `-` or `_`",
    names.NICK_PATTERN: "1 to 24 letters, digits, `-` or `_`",
    names.CHANNEL_PATTERN: "`#` and 1 to 31 letters, digits, `-` or `_`",
    client.SESSION_PATTERN: "at most 64 letters, digits, `_`, `.`, `:` or `-`",
    admin.DAY_PATTERN: "a day of UTC, such as `2026-03-01`",
    r"\A@.": f"`@` and an agent id, at most {names.MAX_ADDRESS} characters",
}
WORDS: Final = {
    str: "text",
    bytes: "text, base64",
    int: "whole number",
    float: "number",
    bool: "boolean",
    NoneType: "null",
    Any: "any JSON",
    Raw: "object",
}


class Field(NamedTuple):
    name: str  # on the wire
    type: str
    presence: str  # whether it has to be there, and what it is otherwise


def fields_of(message: type[Struct]) -> list[Field]:
    """Its own fields: `ref`, which every request may have, and `ts`, which every message has, are not repeated."""
    left_out = message.__struct_config__.omit_defaults
    return [
        Field(each.encode_name, words_for(each.type, sent=not _is_left_out(each, left_out)), _presence(each))
        for each in fields(message)
        if each.encode_name not in ("ref", "ts")
    ]


def parts_of(kind: Any) -> Iterator[type[Struct]]:
    """The structs that the fields of a struct hold, however deep."""
    inner = [each.type for each in fields(kind)] if _is_struct(kind) else get_args(kind)
    for each in inner:
        if _is_struct(each):
            yield each
        yield from parts_of(each)


def words_for(kind: Any, *, sent: bool = True) -> str:
    """`sent` is False for a field that is left out rather than null."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _bounded(inner[0], inner[1])
    if origin in (Union, UnionType):
        return _union([each for each in inner if each is not UnsetType and (sent or each is not NoneType)])
    if origin is Literal:
        return _any_of([f'`"{value}"`' for value in inner])
    if origin is list:
        return f"list of {words_for(inner[0])}"
    if origin is dict:
        return "object" if inner[1] is Any else f"object of {words_for(inner[1])}"
    if _is_struct(kind):
        return f"[{kind.__name__}]({PARTS_PAGE}#{kind.__name__.lower()})"
    return WORDS[kind]


def _bounded(kind: Any, bounds: Meta) -> str:
    name = words_for(kind)
    if bounds.pattern is not None:
        return PATTERNS[bounds.pattern]
    if get_origin(kind) is list and bounds.max_length is not None:
        return f"list of at most {bounds.max_length:,}: {name.removeprefix('list of ')}"
    if bounds.max_length is not None:
        least = f"{bounds.min_length} to " if bounds.min_length else "at most "
        return f"{name} of {least}{bounds.max_length:,} characters"
    if bounds.min_length:
        return f"{name}, not empty"
    return _ranged(name, bounds)


def _ranged(name: str, bounds: Meta) -> str:
    if bounds.le is not None:
        return f"{name} from {bounds.ge} to {bounds.le:,}"
    return f"{name} from {bounds.ge}"


def _union(kinds: list[Any]) -> str:
    """A number is an int or a float on the Python side; on the wire it is a number."""
    plain = [get_args(each)[0] if get_origin(each) is Annotated else each for each in kinds]
    numbers = {int, float} <= set(plain)
    shown = [each for each, kind in zip(kinds, plain, strict=True) if not (numbers and kind is int)]
    return _any_of([words_for(each) for each in sorted(shown, key=lambda each: each is NoneType)])


def _any_of(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _is_left_out(field: FieldInfo, left_out: bool) -> bool:
    return left_out and field.default is None


def _presence(field: FieldInfo) -> str:
    if field.required:
        return "yes"
    shown = field.default if field.default_factory is NODEFAULT else None
    return "" if shown in (None, "", UNSET, ()) else f"`{str(shown).lower()}`"


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)

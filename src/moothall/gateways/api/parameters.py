"""The parameters of a request: text of the path and of the query, as the typed fields of a row's struct."""

import re
from collections.abc import Mapping
from typing import Final, TypeVar
from urllib.parse import parse_qsl

import msgspec

from moothall.errors import InvalidMessage
from moothall.hall.api_routes import Query

MAX_PARAMETERS: Final = 16

Parameters = TypeVar("Parameters", bound=Query)

_find_field: Final = re.compile(r" - at `\$\.([^`]*)`$").search
_find_unknown: Final = re.compile(r"unknown field `([^`]*)`").search


def read(query: type[Parameters], parts: Mapping[str, str], text: str) -> Parameters:
    """Raises InvalidMessage that names the parameter. `parts` are those of the path, `text` is the query."""
    given = dict(parts)
    for name, value in _pairs(text):
        if name in given:
            raise InvalidMessage(f"`{name[:64]}` is given twice")
        given[name] = value
    try:
        return msgspec.convert(given, query, strict=False)
    except msgspec.ValidationError as fault:
        raise InvalidMessage(_explained(query, fault)) from None


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            text,
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_PARAMETERS,
            strict_parsing=bool(text),
        )
    except ValueError:
        raise InvalidMessage(
            f"The query must be `name=value` pairs joined with `&`, at most {MAX_PARAMETERS}, in UTF-8"
        ) from None


def _explained(query: type[Query], fault: msgspec.ValidationError) -> str:
    text = str(fault)
    if unknown := _find_unknown(text):
        known = ", ".join(f"`{field}`" for field in query.__struct_fields__)
        return f"`{unknown[1][:64]}` is not a parameter of this route; it takes {known or 'none'}"
    if field := _find_field(text):
        return f"`{field[1]}`: {text[: field.start()]}"
    return text

"""Writes docs/http-routes.md from the rows of the HTTP API: `make docs`."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from moothall.gateways.api.openapi import document
from moothall.gateways.api.rooms import rows
from moothall.gateways.api.serving import PREFIX
from moothall.hall.api_routes import Audience, Row

PAGE: Final = Path(__file__).parents[1] / "docs" / "http-routes.md"

INTRO: Final = """# Routes of the HTTP API

Generated from the table of routes by `make docs`. [The HTTP API](http-api.md) says what all of them have in common.
A hall serves the same as an OpenAPI 3.1 document at `/api/v1/openapi.json`.

"""
WHO: Final = {
    Audience.ALL: "all",
    Audience.VIEWERS: "all; what is shown depends on who asks",
    Audience.AGENTS: "agents with a token, and operators",
    Audience.OPERATORS: "operators",
}


def page() -> str:
    listed = all_rows()
    described = document(listed, PREFIX)
    schemas = described["components"]["schemas"]
    lines = [INTRO, "| route | who may ask | answer |\n|---|---|---|\n"]
    lines += [
        f"| [`{row.path}`](#{_anchor(row)}) | {WHO[row.audience]} | {row.summary} |\n" for row in listed
    ]
    used: dict[str, None] = {}
    for row in listed:
        operation = described["paths"][f"{PREFIX}{row.path}"]["get"]
        lines.append(f"\n## {row.path}\n\n{row.summary}\n\n")
        lines += _parameters(operation["parameters"])
        lines.append(f"The answer is {_kind(_answer(operation), used)}.\n")
    lines.append("\n## Objects\n")
    for name in _all(used, schemas):
        lines += _object(name, schemas[name], used)
    return "".join(lines)


def all_rows() -> tuple[Row, ...]:
    """Of a hall with all its rooms. To describe them needs no room."""
    nothing: Any = None
    mesh: Any = SimpleNamespace(room=None, desk=None)
    return rows(nothing, nothing, mesh, nothing)


def _anchor(row: Row) -> str:
    return re.sub(r"[^a-z0-9_-]", "", row.path)


def _parameters(parameters: list[dict[str, Any]]) -> Iterator[str]:
    if parameters:
        yield "| parameter | where | value | meaning |\n|---|---|---|---|\n"
        for each in parameters:
            schema = each["schema"]
            value = _kind(schema, {}) + (f"; {schema['default']} if left out" if "default" in schema else "")
            yield f"| `{each['name']}` | {each['in']} | {value} | {each.get('description', '')} |\n"
        yield "\n"


def _answer(operation: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = operation["responses"]["200"]["content"]["application/json"]["schema"]
    return schema


def _all(used: dict[str, None], schemas: dict[str, Any]) -> list[str]:
    """Those that the answers use, and those that they use in turn."""
    found = list(used)
    for name in found:
        inner: dict[str, None] = {}
        for schema in schemas[name].get("properties", {}).values():
            _kind(schema, inner)
        found += [each for each in inner if each not in found]
    return found


def _object(name: str, schema: dict[str, Any], used: dict[str, None]) -> Iterator[str]:
    yield f"\n### {name}\n\n"
    if text := schema.get("description"):
        yield " ".join(text.split()) + "\n\n"
    yield "| field | value |\n|---|---|\n"
    for field, value in schema["properties"].items():
        left_out = "" if field in schema["required"] else "; may be left out"
        yield f"| `{field}` | {_kind(value, used)}{left_out} |\n"


def _kind(schema: dict[str, Any], used: dict[str, None]) -> str:
    """In words. The objects that it names are added to `used`."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        used[name] = None
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_kind(each, used) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    return _plain_kind(schema, used)


def _plain_kind(schema: dict[str, Any], used: dict[str, None]) -> str:
    match schema.get("type"):
        case "array":
            items = schema.get("items")
            return f"list of {_kind(items, used)}" if items else "list"
        case "object":
            values = schema.get("additionalProperties")
            return f"object of {_kind(values, used)}" if isinstance(values, dict) else "object"
        case "integer":
            return "whole number" + _range(schema)
        case "string":
            return "text" + (f" of at most {schema['maxLength']} characters" if "maxLength" in schema else "")
        case None:
            return "any value"
        case other:
            return str(other)


def _range(schema: dict[str, Any]) -> str:
    return f" from {schema['minimum']} to {schema['maximum']}" if "maximum" in schema else ""


if __name__ == "__main__":
    PAGE.write_text(page())

"""The OpenAPI 3.1 document of the API, made from the rows: what is served and what is described are one table."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from moothall import __version__
from moothall.hall.api_routes import Audience, Row

_SCHEMAS: Final = "#/components/schemas/{name}"
_ERROR: Final = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
        }
    },
}
_TOKEN: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token that a session with a proven key gets with API_TOKEN.",
}
_ADMIN_KEY: Final = {"type": "apiKey", "in": "header", "name": "X-Admin-Key"}
_SECURITY: Final[Mapping[Audience, list[dict[str, list[str]]]]] = {
    Audience.ALL: [{}],
    Audience.VIEWERS: [{}, {"token": []}, {"admin_key": []}],
    Audience.AGENTS: [{"token": []}, {"admin_key": []}],
    Audience.OPERATORS: [{"admin_key": []}],
}
_ERRORS: Final = {
    "400": "A parameter is wrong; the message names it.",
    "401": "The route needs a token or the admin key, or the one that was sent does not hold.",
    "403": "The key of the token may not come in, or a page of another origin asks.",
    "404": "There is none, or the viewer may not know that there is.",
    "429": "The address or the key is over its budget; `Retry-After` says how long to wait.",
    "500": "The hall could not read the answer. Its log says why.",
    "503": "The store is busy, or the store or another node of the hall cannot be reached; try again.",
}


def document(rows: Iterable[Row], prefix: str) -> dict[str, Any]:
    listed = tuple(rows)
    structs = [struct for row in listed for struct in (row.query, row.answer)]
    _, schemas = msgspec.json.schema_components(structs, ref_template=_SCHEMAS)
    parameters = {row.query: schemas[row.query.__name__] for row in listed}
    for query in parameters:
        schemas.pop(query.__name__, None)  # it is written out as parameters
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "moothall",
            "version": __version__,
            "description": "Reads of a hall. Nothing goes beyond what the viewer can see over the WebSocket.",
        },
        "paths": {f"{prefix}{row.path}": {"get": _operation(row, parameters[row.query])} for row in listed},
        "components": {
            "schemas": {**schemas, "Error": _ERROR},
            "securitySchemes": {"token": _TOKEN, "admin_key": _ADMIN_KEY},
            "responses": {
                status: {"description": description, "content": _json({"$ref": "#/components/schemas/Error"})}
                for status, description in _ERRORS.items()
            },
        },
    }


def _operation(row: Row, query: dict[str, Any]) -> dict[str, Any]:
    answer = {"$ref": _SCHEMAS.format(name=row.answer.__name__)}
    return {
        "operationId": row.path.replace("{", "").replace("}", "").replace("/", "_"),
        "summary": row.summary,
        "security": _SECURITY[row.audience],
        "parameters": [_parameter(row, name, schema) for name, schema in query["properties"].items()],
        "responses": {
            "200": {"description": row.summary, "content": _json(answer)},
            "304": {"description": "The client has this answer already: `If-None-Match` names it."},
            **{status: {"$ref": f"#/components/responses/{status}"} for status in _ERRORS},
        },
    }


def _parameter(row: Row, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    is_part = f"{{{name}}}" in row.path
    schema = dict(schema)
    if "anyOf" in schema:  # a parameter is left out, not null
        present = [each for each in schema.pop("anyOf") if each != {"type": "null"}]
        schema = {**schema, **present[0]}
    if schema.get("default", "") is None:
        del schema["default"]
    description = schema.pop("description", "")
    return {
        "name": name,
        "in": "path" if is_part else "query",
        "required": is_part,
        **({"description": description} if description else {}),
        "schema": schema,
    }


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}

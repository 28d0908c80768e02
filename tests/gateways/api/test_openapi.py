"""The OpenAPI document is made of the rows, and holds together."""

import re
from typing import Any

from moothall.gateways.api.openapi import document
from moothall.gateways.api.serving import PREFIX
from moothall.hall.api_routes import Paged
from tests.support.schemas import Schemas
from tools.http_reference import all_rows

ROWS = all_rows()
DOCUMENT = document(ROWS, PREFIX)


def refs(node: Any) -> set[str]:
    if isinstance(node, dict):
        own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*map(refs, node.values()))
    return set().union(*map(refs, node)) if isinstance(node, list) else set()


def test_every_row_is_described_once() -> None:
    assert list(DOCUMENT["paths"]) == [f"{PREFIX}{row.path}" for row in ROWS]
    operations = [methods["get"]["operationId"] for methods in DOCUMENT["paths"].values()]
    assert len(set(operations)) == len(operations)


def test_every_reference_leads_somewhere() -> None:
    found = refs(DOCUMENT)
    assert found
    for ref in found:
        node: Any = DOCUMENT
        for name in ref.removeprefix("#/").split("/"):
            node = node[name]
    Schemas(DOCUMENT)


def test_the_parts_of_a_path_are_its_required_parameters() -> None:
    for path, methods in DOCUMENT["paths"].items():
        parameters = methods["get"]["parameters"]
        required = {each["name"] for each in parameters if each["required"]}
        assert required == set(re.findall(r"{(\w+)}", path))
        assert all(each["in"] == ("path" if each["required"] else "query") for each in parameters)


def test_every_answer_that_goes_on_takes_a_limit() -> None:
    for row in ROWS:
        goes_on = "next" in row.answer.__struct_fields__
        assert goes_on == issubclass(row.query, Paged)


def test_parameters_are_never_null() -> None:
    for methods in DOCUMENT["paths"].values():
        for parameter in methods["get"]["parameters"]:
            assert "null" not in str(parameter["schema"])

"""JSON Schema of the OpenAPI document: whether an answer is what the document says."""

from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it has no types


class Schemas:
    """The schemas of an OpenAPI document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        for schema in document["components"]["schemas"].values():
            Draft202012Validator.check_schema(schema)

    def check(self, answer: Any, schema: dict[str, Any]) -> None:
        """Raises ValidationError if the answer is not as the schema says."""
        whole = {**schema, "components": self.document["components"]}
        Draft202012Validator(whole).validate(answer)

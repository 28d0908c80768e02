"""What a tool is: one row with its name, its arguments, its result, its hints and its function.

Arguments and results are structs. Their types, bounds and descriptions become the JSON schemas that a model sees,
and the same types check what it sends.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Meta

from moothall.errors import UsageError
from moothall.tools import visible
from moothall.tools.session import Session


class Arguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a model passes to a tool."""


class NoArguments(Arguments):
    """For a tool that needs none."""


class Result(msgspec.Struct, kw_only=True):
    """What a tool answers. A field that is UNSET is left out."""

    def as_text(self) -> str:
        """The text of the answer: by default the same as JSON."""
        return visible.in_json(msgspec.json.encode(self).decode())


class Progress(Protocol):
    """How a long call tells the host that it is alive."""

    is_wanted: bool

    async def __call__(self, done: float, total: float | None, message: str) -> None: ...


class Call(NamedTuple):
    """One call of a tool."""

    session: Session
    progress: Progress
    id: object = None  # names the call among those of all clients


class Hints(NamedTuple):
    """What a host may assume of a tool before it asks its user."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = True  # other agents see or cause what happens


READS: Final = Hints(read_only=True, idempotent=True)
CHANGES: Final = Hints()
REPEATABLE: Final = Hints(idempotent=True)
DESTROYS: Final = Hints(destructive=True)

_NO_CHOICE: Final = re.compile(r"Invalid enum value .*`\$(?:.*\.)?(\w+)`$")

A = TypeVar("A", bound=Arguments)
R = TypeVar("R", bound=Result)

Channel = Annotated[
    str,
    Meta(
        description="A channel, such as #general. The # may be left out.",
        min_length=1,
        max_length=32,
        examples=["#general"],
    ),
]


class Tool(Generic[A, R]):
    """A row of the table."""

    __match_args__: ClassVar = ("name",)

    def __init__(
        self,
        name: str,
        title: str,
        purpose: str,
        arguments: type[A],
        result: type[R],
        function: Callable[[Call, A], Awaitable[R]],
        hints: Hints,
    ) -> None:
        self.name = name
        self.title = title
        self.purpose = purpose
        self.arguments = arguments
        self.result = result
        self.hints = hints
        self._function = function

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        return schema_of(self.arguments)

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        return schema_of(self.result)

    async def run(self, call: Call, arguments: Mapping[str, Any]) -> R:
        """Return the result. Raises UsageError for arguments that do not fit the schema."""
        try:
            given = msgspec.convert(dict(arguments), self.arguments, strict=False)
        except msgspec.ValidationError as error:
            raise UsageError(f"The arguments of {self.name} do not fit: {_in_words(error, self)}") from None
        return await self._function(call, given)


def _in_words(error: msgspec.ValidationError, tool: "Tool[Any, Any]") -> str:
    known = ", ".join(tool.input_schema["properties"]) or "none"
    return f"{error}.{_choices(str(error), tool)} Arguments of this tool: {known}. Correct the call and repeat it."


def _choices(error: str, tool: "Tool[Any, Any]") -> str:
    """The words that an argument may be, if the error is that it is none of them."""
    found = _NO_CHOICE.search(error)
    if found is None:
        return ""
    shapes = (tool.input_schema, *tool.input_schema.get("$defs", {}).values())
    words = next(shape["properties"][found[1]]["enum"] for shape in shapes if found[1] in shape["properties"])
    return f" Choose one of: {', '.join(words)}."


def schema_of(kind: type) -> dict[str, Any]:
    """The JSON schema of a struct: an object at the top, the structs inside it under `$defs`.

    Every tool is in the model's context all the time, so nothing is said twice: no titles, and an argument that may
    be left out does not mention null.
    """
    (top,), parts = msgspec.json.schema_components((kind,), ref_template="#/$defs/{name}")
    name = top["$ref"].rpartition("/")[2]
    is_argument = issubclass(kind, Arguments)
    shapes = {part: _shape(found, is_argument) for part, found in parts.items()}
    schema = shapes.pop(name)
    return {**schema, "$defs": shapes} if shapes else schema


def _shape(part: dict[str, Any], is_argument: bool) -> dict[str, Any]:
    fields = part.get("properties", {})
    if is_argument:
        fields = {name: _field(found) for name, found in fields.items()}
    return {"type": "object", "properties": fields, **{name: part[name] for name in _KEPT if name in part}}


_KEPT: Final = ("required", "additionalProperties")


def _field(found: dict[str, Any]) -> dict[str, Any]:
    choices: list[dict[str, Any]] = [each for each in found.get("anyOf", ()) if each != {"type": "null"}]
    if "default" not in found or found["default"] is not None or len(choices) != 1:
        return found
    return choices[0]


def collected(*groups: "tuple[Tool[Any, Any], ...]") -> "dict[str, Tool[Any, Any]]":
    """The tools by name. Raises TypeError for two rows with one name."""
    table: dict[str, Tool[Any, Any]] = {}
    for group in groups:
        for tool in group:
            if table.setdefault(tool.name, tool) is not tool:
                raise TypeError(f"two tools with the name {tool.name}")
    return table

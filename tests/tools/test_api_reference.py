"""The API reference is current and complete, and every method says what it takes, returns and raises."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import moothall
from moothall.errors import MoothallError
from tools.api_reference import OTHERS, PAGE, TWINS, doc_of, names, public_parts

# Said once for all operations (`Talks`), and once for all decorators (docs/first-agent.md).
SAID_ELSEWHERE = {"self", "cls", "timeout", "function"}


def classes() -> dict[str, type]:
    own = {name: getattr(moothall, name) for name in sorted(names())}
    return {name: found for name, found in {**own, **OTHERS}.items() if inspect.isclass(found)}


def methods() -> Iterator[Any]:
    for name, owner in classes().items():
        for part in public_parts(owner):
            yield pytest.param(part, id=f"{name}.{part.name}")


def test_it_has_everything_that_can_be_imported() -> None:
    errors = {
        name
        for name in moothall.__all__
        if inspect.isclass(found := getattr(moothall, name)) and issubclass(found, MoothallError)
    }
    assert names() | errors == set(moothall.__all__)
    assert all(f"| `{name}` |" in PAGE.read_text() for name in errors)


@pytest.mark.parametrize("name", sorted(classes()))
def test_a_class_says_what_it_is(name: str) -> None:
    assert doc_of(classes()[name])


@pytest.mark.parametrize("part", list(methods()))
def test_a_method_says_what_it_takes_and_returns_and_raises(part: Any) -> None:
    text = part.doc
    assert text
    if part.is_property:
        return
    signature = inspect.signature(part.function)
    unsaid = [name for name in signature.parameters if name not in SAID_ELSEWHERE and f"`{name}" not in text]
    assert unsaid == []
    if not part.name.startswith("on_") and signature.return_annotation not in (None, "None"):
        assert re.search(r"\b[Rr]eturns?\b", text), "say what it returns"
    if inspect.iscoroutinefunction(part.function):
        assert re.search(r"\b[Rr]aises?\b|see `", text), "say what it raises"


@pytest.mark.parametrize("name", sorted(TWINS))
def test_the_classes_without_await_share_their_docstrings(name: str) -> None:
    original = {part.name: part.doc for part in public_parts(TWINS[name])}
    own = {part.name: part.doc for part in public_parts(getattr(moothall, name))}
    assert len({part for part, doc in own.items() if doc == original.get(part)}) > len(own) / 2

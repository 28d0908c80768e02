"""Which hall a command goes to, with which key file and under which name, and what decided each of them.

The first of these that says something wins: the option, `MOOTHALL_*`, `AGENTCHAT_*`, the context in use, the
default. An empty variable says nothing.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from moothall.cli._context_file import Context, ContextFile, name_in_use
from moothall.errors import KeyFileMissing, UsageError
from moothall.identity.keyfile import require
from moothall.wire import authority

IDENTITY_VARIABLE: Final = "MOOTHALL_IDENTITY"
NAME_VARIABLE: Final = "MOOTHALL_NAME"
BY_OPTION: Final = "option"
BY_DEFAULT: Final = "default"

Value = TypeVar("Value")


class Choice(NamedTuple, Generic[Value]):
    value: Value
    origin: str  # `option`, a variable with its $, `context NAME`, or `default`


def url(given: str | None, environment: Mapping[str, str] | None = None) -> Choice[str | None]:
    """The address of the hall as the user wrote it, or None for a hall on this machine."""
    if given:
        return Choice(given, BY_OPTION)
    environment = os.environ if environment is None else environment
    if variable := authority.url_variable(environment):
        return Choice(environment[variable], f"${variable}")
    context, origin = _context()
    return Choice(context.url, origin if context.url else BY_DEFAULT)


def key_file(given: Path | None, environment: Mapping[str, str] | None = None) -> Choice[Path | None]:
    """The key file, or None for none. Raises KeyFileMissing when it is named and not there."""
    choice = named_key_file(given, environment)
    if choice.value is None:
        return choice
    try:
        require(choice.value.expanduser())
    except KeyFileMissing as error:
        if choice.origin == BY_OPTION:
            raise
        advice = f"{choice.origin} names it"
        if not choice.origin.startswith("$"):
            advice = "`moothall context list` shows what the context in use names"
        raise KeyFileMissing(f"{error}; {advice}") from None
    return choice


def named_key_file(given: Path | None, environment: Mapping[str, str] | None = None) -> Choice[Path | None]:
    """The same, whether the file is there or not."""
    if given is not None:
        return Choice(given, BY_OPTION)
    environment = os.environ if environment is None else environment
    if path := environment.get(IDENTITY_VARIABLE):
        return Choice(Path(path), f"${IDENTITY_VARIABLE}")
    context, origin = _context()
    return Choice(context.identity, origin if context.identity else BY_DEFAULT)


def name(given: str | None, environment: Mapping[str, str] | None = None) -> Choice[str | None]:
    """The name to appear under, or None for that of the key file."""
    if given:
        return Choice(given, BY_OPTION)
    environment = os.environ if environment is None else environment
    if variable := environment.get(NAME_VARIABLE):
        return Choice(variable, f"${NAME_VARIABLE}")
    return Choice(None, BY_DEFAULT)


@contextmanager
def blamed(origin: str) -> Iterator[None]:
    """Say in an error where the value came from, if the user did not just write it."""
    try:
        yield
    except UsageError as error:
        if not origin.startswith(("$", "context ")):
            raise
        raise UsageError(f"{error}; it comes from {origin}") from None


def _context() -> tuple[Context, str]:
    contexts = ContextFile().read()
    in_use = name_in_use(contexts)
    return (Context(), BY_DEFAULT) if in_use is None else (contexts.named(in_use), f"context {in_use}")

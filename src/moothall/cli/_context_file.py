"""Named contexts: a hall and a key file under one name, and which of them is in use."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple

from moothall.errors import UsageError
from moothall.identity.keyfile import AGENT_NAME, file_bytes
from moothall.user_file import UserFile

DEFAULT_PATH: Final = Path("~/.agentchat/contexts.json")
PATH_VARIABLE: Final = "AGENTCHAT_CONTEXTS"
NAME_VARIABLE: Final = "AGENTCHAT_CONTEXT"  # the context of one shell, whatever the file says
MAX_CONTEXTS: Final = 1000  # the file is read by every command


class Context(NamedTuple):
    url: str | None = None
    identity: Path | None = None


@dataclass(slots=True)
class Contexts:
    """What the file says. `in_use` is a name, or None."""

    in_use: str | None = None
    by_name: dict[str, Context] = field(default_factory=dict)

    def named(self, name: str) -> Context:
        """Raises UsageError, with the nearest name there is."""
        found = self.by_name.get(name)
        if found is None:
            raise UsageError(f"there is no context {name[:80]!r}{self._near(name)}")
        return found

    def _near(self, name: str) -> str:
        near = get_close_matches(name, self.by_name, 1)
        if near:
            return f", perhaps you mean {near[0]}"
        return (
            "; `moothall context list` shows them" if self.by_name else "; `moothall context add` makes one"
        )


class ContextFile:
    """The contexts in a file of the user's. Any number of processes may share it."""

    def __init__(self) -> None:
        self._file = UserFile(DEFAULT_PATH, PATH_VARIABLE, "a list of contexts")

    def read(self) -> Contexts:
        """Raises UsageError if the file is damaged, or if other users can change it."""
        content = self._file.read()
        if content is None:
            return Contexts()
        try:
            return _decoded(json.loads(content))
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
            raise self._file.damaged() from None

    def add(self, name: str, context: Context, *, replace: bool) -> None:
        def change(contexts: Contexts) -> None:
            if name in contexts.by_name and not replace:
                raise UsageError(
                    f"there is a context {name} already: choose another name, or replace it with --force"
                )
            contexts.by_name[name] = context
            if len(contexts.by_name) > MAX_CONTEXTS:
                raise UsageError(f"there are {MAX_CONTEXTS} contexts already: `moothall context remove` one")

        self._change(change)

    def use(self, name: str) -> None:
        def change(contexts: Contexts) -> None:
            contexts.named(name)
            contexts.in_use = name

        self._change(change)

    def remove(self, name: str) -> None:
        def change(contexts: Contexts) -> None:
            contexts.named(name)
            del contexts.by_name[name]
            if contexts.in_use == name:
                contexts.in_use = None

        self._change(change)

    def _change(self, change: Callable[[Contexts], None]) -> None:
        try:
            with self._file.locked():
                contexts = self.read()
                change(contexts)
                self._file.write(file_bytes(_encoded(contexts)))
        except OSError as error:
            raise UsageError(f"{self._file.path}: {error.strerror}") from None


def name_in_use(contexts: Contexts) -> str | None:
    return os.environ.get(NAME_VARIABLE) or contexts.in_use


def check_name(name: str) -> None:
    if AGENT_NAME.match(name) is None:
        raise UsageError(f"{name[:80]!r} cannot be the name of a context: 1 to 32 letters, digits, _ or -")


def _decoded(fields: Mapping[str, Any]) -> Contexts:
    found = {name: _context(entry) for name, entry in fields["contexts"].items()}
    in_use = fields.get("in_use")
    if not isinstance(in_use, str | None) or not all(map(AGENT_NAME.match, found)):
        raise ValueError
    return Contexts(in_use, found)


def _context(fields: Mapping[str, Any]) -> Context:
    url, identity = fields.get("url"), fields.get("identity")
    if not isinstance(url, str | None) or not isinstance(identity, str | None):
        raise TypeError
    return Context(url, None if identity is None else Path(identity))


def _encoded(contexts: Contexts) -> dict[str, Any]:
    return {
        "in_use": contexts.in_use,
        "contexts": {name: described(context) for name, context in contexts.by_name.items()},
    }


def described(context: Context) -> dict[str, str | None]:
    return {"url": context.url, "identity": None if context.identity is None else str(context.identity)}

"""Where a hall is, and what channels and agents are called on the command line."""

import re
from typing import Any, Final
from urllib.parse import urlsplit

from moothall.cli._exits import OneLineErrors
from moothall.cli._help_text import PlainCommand
from moothall.errors import UsageError
from moothall.wire import authority
from moothall.wire.authority import DEFAULT_URL, HOST

_HOST_AND_PORT: Final = re.compile(rf"(?:{HOST}):\d+")
_AGENT_ID: Final = re.compile(r"@[0-9a-z]{8,64}")  # agentchat wire 3.2


class _AddressFirst:
    """The first word may be the address of the hall, as in `agentchat` (agentchat wire 17.1)."""

    params: list[Any]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        parsed: list[str] = super().parse_args(ctx, self._with_url_as_option(args))  # type: ignore[misc]
        return parsed

    def _with_url_as_option(self, args: list[str]) -> list[str]:
        place = self._first_word(args)
        if place is None or not looks_like_url(args[place]) or "--url" not in self._takes_value():
            return args
        return [*args[:place], "--url", *args[place:]]

    def _first_word(self, args: list[str]) -> int | None:
        takes_value = self._takes_value()
        skip = False
        for place, word in enumerate(args):
            if skip:
                skip = False
            elif word == "--":
                return None  # what follows is meant literally
            elif word.startswith("-") and word != "-":
                skip = word in takes_value
            else:
                return place
        return None

    def _takes_value(self) -> set[str]:
        return {name for param in self.params if not getattr(param, "is_flag", True) for name in param.opts}


class HallCommand(_AddressFirst, PlainCommand):
    """A command that goes to a hall."""


class HallGroup(_AddressFirst, OneLineErrors):
    """The same, with commands of its own besides."""


def looks_like_url(word: str) -> bool:
    """Neither a channel, an agent nor a setting has `://` or a port."""
    return "://" in word or _HOST_AND_PORT.fullmatch(word) is not None


def hall_url(given: str | None) -> str:
    """The hall's WebSocket address: the one that the user chose, else one on this machine. Raises UsageError."""
    from moothall.cli import _chosen

    choice = _chosen.url(given)
    with _chosen.blamed(choice.origin):
        return authority.hall_url(choice.value or DEFAULT_URL)


def web_url(url: str, path: str) -> str:
    """A page that the hall serves on the same port (agentchat wire 1.6)."""
    parts = urlsplit(url)
    return parts._replace(scheme="https" if parts.scheme == "wss" else "http", path=path, query="").geturl()


def is_local(url: str) -> bool:
    """True if it is on this machine, where no proxy comes between."""
    from moothall.wire.origins import is_loopback

    return is_loopback(urlsplit(url).hostname or "")


def channel_name(word: str) -> str:
    """`general` is as good as `#general`, which a shell takes for a comment unless it is quoted."""
    from moothall.wire.agentchat.names import is_channel_name, with_hash

    name = with_hash(word)
    if not is_channel_name(name):
        raise UsageError(f"{word!r} cannot be a channel: # and at most 31 letters, digits, _ or -")
    return name


def agent_address(word: str) -> str:
    return word if word.startswith("@") else f"@{word}"


def agent_id(word: str) -> str:
    """The same for what only an id is good for: a name that is taken for one would be accepted in silence."""
    address = agent_address(word)
    if _AGENT_ID.fullmatch(address) is None:
        raise UsageError(f"{word!r} is not an agent's id, such as @1f3a9c02; `moothall agents` lists them")
    return address

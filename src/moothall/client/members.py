"""Who is in the channels that an agent is in, and under which names."""

import re
from collections.abc import Iterable
from typing import Final

from moothall.client.floor import MAX_SEARCHED

MAX_MEMBERS: Final = 10_000  # of one channel; more are not remembered, so a mention of them addresses none
MAX_CHANNELS: Final = 2048

# Words that address all, in any case: a member of such a name does not make the others silent.
TO_ALL: Final = frozenset(("all", "anyone", "channel", "everyone", "here"))

_find_mentions: Final = re.compile(r"@([A-Za-z0-9_-]+)").findall


class Members:
    def __init__(self) -> None:
        # By channel and address: the name that the member came with, and its nick if it has taken one.
        self._names: dict[str, dict[str, tuple[str, ...]]] = {}

    def fill(self, channel: str, members: Iterable[tuple[str, str | None]]) -> None:
        """The hall lists the members, each by address and name."""
        if channel in self._names or len(self._names) < MAX_CHANNELS:
            self._names[channel] = {}
            for address, name in members:
                self.enter(channel, address, name)

    def enter(self, channel: str, address: str, name: str | None) -> None:
        names = self._names.get(channel)
        if names is not None and (address in names or len(names) < MAX_MEMBERS):
            names[address] = () if name is None else (name,)

    def leave(self, channel: str, address: str) -> None:
        self._names.get(channel, {}).pop(address, None)

    def rename(self, address: str, nick: str) -> None:
        """A nick stands beside the name that the member came with."""
        for names in self._names.values():
            if address in names:
                names[address] = (*names[address][:1], nick)

    def forget(self, channel: str) -> None:
        self._names.pop(channel, None)

    def clear(self) -> None:
        self._names.clear()

    def name(self, channel: str, address: str) -> str | None:
        """The present name of the member, if the agent knows it."""
        return next(reversed(self._names.get(channel, {}).get(address, ())), None)

    def mentioned(self, channel: str, content: str, author: str) -> set[str]:
        """The addresses of the members, other than the author, that a text mentions by id, name or nick.

        Of a long text only the beginning counts, as in the hall.
        """
        if "@" not in content:
            return set()
        words = {word for word in _find_mentions(content, 0, MAX_SEARCHED) if word.lower() not in TO_ALL}
        return {
            address
            for address, names in self._names.get(channel, {}).items()
            if address != author and (address.removeprefix("@") in words or not words.isdisjoint(names))
        }

"""Code that follows events for a while, beside the handlers that get all of them."""

from typing import Protocol
from weakref import WeakSet


class Watch(Protocol):
    def heard(self, event: str, what: object) -> None:
        """An event of a kind that is watched."""

    def end(self, error: BaseException | None) -> None:
        """The agent has left the hall: there will be no more."""


class Watches:
    """Which watch follows which events. A watch that no code holds any more is forgotten."""

    def __init__(self) -> None:
        self._by_event: dict[str, WeakSet[Watch]] = {}

    def __contains__(self, event: object) -> bool:
        return bool(self._by_event) and event in self._by_event and len(self._by_event[str(event)]) > 0

    def add(self, watch: Watch, *events: str) -> None:
        for event in events:
            self._by_event.setdefault(event, WeakSet()).add(watch)

    def remove(self, watch: Watch) -> None:
        for event, watches in list(self._by_event.items()):
            watches.discard(watch)
            if not watches:
                del self._by_event[event]

    def tell(self, event: str, what: object) -> None:
        if self._by_event and (watches := self._by_event.get(event)):
            for watch in list(watches):
                watch.heard(event, what)

    def end(self, error: BaseException | None) -> None:
        for watch in {watch for watches in self._by_event.values() for watch in watches}:
            watch.end(error)

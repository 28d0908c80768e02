"""Code that follows events for a while, beside the handlers that get all of them."""

from collections.abc import Callable
from typing import Any, Protocol
from weakref import WeakSet

from moothall.client.logs import log


class Watch(Protocol):
    def heard(self, event: str, what: object) -> None:
        """An event of a kind that is watched."""

    def end(self, error: BaseException | None) -> None:
        """The agent has left the hall: there will be no more."""


class Listener:
    """A watch that calls a plain function, for as long as there is an agent."""

    def __init__(self, function: Callable[[Any], object]) -> None:
        self._function = function

    def heard(self, event: str, what: object) -> None:
        try:
            self._function(what)
        except Exception as error:  # noqa: BLE001  # of the user's own code; it must not end the connection
            log.error("a listener failed", exc_info=error)

    def end(self, error: BaseException | None) -> None:
        """The agent may come back."""


class Watches:
    """Which watch follows which events. A watch that no code holds any more is forgotten."""

    def __init__(self) -> None:
        self._by_event: dict[str, WeakSet[Watch]] = {}
        self._listeners: list[Listener] = []

    def listen(self, event: str, function: Callable[[Any], object]) -> None:
        """Call the function for every event of this kind, from now on."""
        self._listeners.append(listener := Listener(function))
        self.add(listener, event)

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

"""Those that want to hear of something. One that raises does not keep the others from hearing."""

from collections.abc import Callable
from typing import Generic, TypeVar

from moothall.hall.outside import Log

News = TypeVar("News")


class Listeners(Generic[News]):
    def __init__(self, log: Log) -> None:
        self._log = log
        self._next = 0
        self._callbacks: dict[int, Callable[[News], None]] = {}

    def __len__(self) -> int:
        return len(self._callbacks)

    def add(self, callback: Callable[[News], None]) -> Callable[[], None]:
        """Returns what removes it, which may be called twice."""
        self._next += 1
        number = self._next
        self._callbacks[number] = callback

        def remove() -> None:
            self._callbacks.pop(number, None)

        return remove

    def tell(self, news: News) -> None:
        for callback in list(self._callbacks.values()):
            try:
                callback(news)
            except Exception as error:  # noqa: BLE001  # a bug of the program, which is none of the node
                self._log.warning("listener_failed", error=repr(error))

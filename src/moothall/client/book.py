"""What an agent knows of the deals or disputes it has a part in, and who waits to know more."""

import asyncio
from collections import deque
from typing import Final, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from moothall.errors import ConnectionLost, NotConnected

MAX_OPEN: Final = 1000  # open ones kept though nobody holds them; the hall knows the others too


class Entry(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def is_over(self) -> bool: ...

    @property
    def waiting(self) -> "set[asyncio.Future[None]]":
        """Those who wait for news of it."""


Kept = TypeVar("Kept", bound=Entry)


class Book(Generic[Kept]):
    """One entry for each. Those that are open stay, within reason; others as long as somebody holds them."""

    def __init__(self, max_ended: int) -> None:
        """`max_ended` is how many stay though they are over and nobody holds them."""
        self._entries: WeakValueDictionary[str, Kept] = WeakValueDictionary()
        self._ended: deque[Kept] = deque(maxlen=max_ended)
        self._left = False
        self.open: dict[str, Kept] = {}

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in self._entries

    def get(self, entry_id: str) -> Kept | None:
        return self._entries.get(entry_id)

    def entries(self) -> list[Kept]:
        return list(self._entries.values())

    def unfinished(self) -> set[str]:
        """Those that are kept here because they are open, and those that somebody holds and may wait for."""
        return {entry.id for entry in self.entries() if not entry.is_over}

    def keep(self, entry: Kept) -> None:
        """A new one, or one that has changed."""
        self._entries[entry.id] = entry
        self.open.pop(entry.id, None)
        if entry.is_over:
            self._ended.append(entry)
        else:
            self.open[entry.id] = entry
            if len(self.open) > MAX_OPEN:
                del self.open[next(iter(self.open))]

    # -- waiting -------------------------------------------------------------------------------------

    async def news_of(self, entry: Kept, seconds: float | None = None) -> bool:
        """Wait until there are any; whether there were within that time."""
        if self._left:
            raise NotConnected(f"the agent left the hall: nobody can tell it what becomes of {entry.id}")
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry.waiting.add(news)
        try:
            await asyncio.wait((news,), timeout=seconds)
        finally:
            entry.waiting.discard(news)
        if news.done():
            news.result()
        return news.done()

    def wake(self, entry: Kept) -> None:
        for news in entry.waiting:
            if not news.done():
                news.set_result(None)

    def begin(self) -> None:
        """The agent is in a hall."""
        self._left = False

    def end(self, error: BaseException | None) -> None:
        """The agent left for good."""
        self._left = True
        why = "the agent left the hall" if error is None else f"the agent left the hall: {error}"
        for entry in self.entries():
            for news in entry.waiting:
                if not news.done():
                    news.set_exception(ConnectionLost(why))
                    news.exception()  # seen: who waited for it may be gone in this very moment

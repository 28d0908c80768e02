"""What an agent knows of the deals or disputes it has a part in, and the callers that wait for news of them.

Others decide how many offers an agent gets and how long they are. So a book is bounded in entries and in bytes.
When it is full, the oldest make room. The hall knows them too: LIST_PROPOSALS and LIST_CASES name them.
"""

import asyncio
from typing import Final, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from moothall.client.logs import log
from moothall.errors import ConnectionLost, NotConnected

MAX_OPEN: Final = 1000  # open ones that are kept
MAX_BYTES: Final = 8 * 1024 * 1024  # of the open ones, and as many of those that ended


class Entry(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def is_over(self) -> bool: ...

    @property
    def size(self) -> int:
        """Its approximate size in bytes."""

    @property
    def waiting(self) -> "set[asyncio.Future[None]]":
        """The callers that wait for news of it."""


Kept = TypeVar("Kept", bound=Entry)


class Shelf(Generic[Kept]):
    """The latest entries, as many as fit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sizes: dict[str, int] = {}
        self._bytes = 0
        self.entries: dict[str, Kept] = {}

    def put(self, entry: Kept) -> bool:
        """True if no other entry had to be dropped."""
        self.remove(entry.id)
        self.entries[entry.id] = entry
        self._sizes[entry.id] = entry.size
        self._bytes += entry.size
        count = len(self.entries)
        while len(self.entries) > self._most or (self._bytes > MAX_BYTES and len(self.entries) > 1):
            self.remove(next(iter(self.entries)))
        return len(self.entries) == count

    def remove(self, entry_id: str) -> None:
        if self.entries.pop(entry_id, None) is not None:
            self._bytes -= self._sizes.pop(entry_id)


class Book(Generic[Kept]):
    """One entry per id. Open entries stay, up to a limit; ended ones as long as a caller holds them."""

    def __init__(self, max_ended: int) -> None:
        """`max_ended` is the number of ended entries that stay although no caller holds them."""
        self._entries: WeakValueDictionary[str, Kept] = WeakValueDictionary()
        self._ended: Shelf[Kept] = Shelf(max_ended)
        self._open: Shelf[Kept] = Shelf(MAX_OPEN)
        self._left = False
        self._warned = False

    @property
    def open(self) -> dict[str, Kept]:
        return self._open.entries

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in self._entries

    def get(self, entry_id: str) -> Kept | None:
        return self._entries.get(entry_id)

    def entries(self) -> list[Kept]:
        return list(self._entries.values())

    def unfinished(self) -> set[str]:
        """The ids of all entries that are not over: those kept here, and those that a caller holds."""
        return {entry.id for entry in self.entries() if not entry.is_over}

    def keep(self, entry: Kept) -> None:
        """Keep an entry that is new or has changed."""
        self._entries[entry.id] = entry
        if entry.is_over:
            self._open.remove(entry.id)
            self._ended.put(entry)
        elif not self._open.put(entry) and not self._warned:
            self._warned = True
            log.warning(
                "there are more open deals or cases than this agent keeps in memory, and it forgets the oldest:"
                " proposals() and disputes() list all of them"
            )

    # -- waiting -------------------------------------------------------------------------------------

    async def news_of(self, entry: Kept, seconds: float | None = None) -> bool:
        """Wait until there are any; whether there were within that time."""
        if self._left:
            raise NotConnected(f"the agent left the hall, so it cannot learn what becomes of {entry.id}")
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

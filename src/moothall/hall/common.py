"""What all halls on one store have in common: the access lists, the message of the day and the caps on spending.

The store has the truth, and each hall has a copy in memory. A change holds in the copy at once, and is answered
when the store has it. When another hall on the same store has changed a list, this hall reads that list again.
"""

from collections import Counter
from collections.abc import Callable, Collection
from typing import Final, Literal, Protocol

from moothall.hall.outside import Log, Result, Store

ListName = Literal["allowlist", "bans", "motd", "caps"]

ALLOWLIST: Final = "allowlist"
BANS: Final = "bans"
MOTD: Final = "motd"
CAPS: Final = "caps"
LISTS: Final[tuple[ListName, ...]] = (ALLOWLIST, BANS, MOTD, CAPS)

Replace = Callable[[ListName, list[bytes]], None]


class CommonBooks(Protocol):
    """One unit of work. Every entry of a list has a name of its own, and is a record that the store does not
    read."""

    def listed(self, of: ListName) -> list[bytes]:
        """The records of a list, in the order in which their names were first entered."""

    def enlist(self, of: ListName, name: bytes, record: bytes) -> None:
        """Enter a record, or replace the one of that name."""

    def strike(self, of: ListName, names: Collection[bytes]) -> None:
        """Take out the records with these names."""


class Copies:
    """When this hall's copies of the lists go to the store, and when they come from it."""

    def __init__(self, store: Store[CommonBooks], log: Log) -> None:
        self._store = store
        self._log = log
        self._begun: Counter[ListName] = Counter()  # changes of this hall's own
        self._unfinished: Counter[ListName] = Counter()
        self._outdated: dict[ListName, Replace] = {}  # to be read when nothing is unfinished

    def change(
        self,
        of: ListName,
        work: Callable[[CommonBooks], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Write a change of the copy to the store."""
        self._begun[of] += 1
        self._unfinished[of] += 1

        def is_done(result: Result) -> None:
            self._finish(of)
            done(result)

        def has_failed(error: BaseException) -> None:
            self._finish(of)
            failed(error)

        self._store.submit(work, is_done, has_failed)

    def read_again(self, of: ListName, replace: Replace) -> None:
        """The store has another version of a list: `replace` the copy. A change of our own that is on its way to
        the store is waited for, or it would be missing from the copy meanwhile."""
        if self._unfinished[of]:
            self._outdated[of] = replace
            return
        begun = self._begun[of]

        def read(records: list[bytes]) -> None:
            if self._begun[of] == begun:
                replace(of, records)
            else:
                self.read_again(of, replace)

        def failed(error: BaseException) -> None:
            self._log.warning("list_not_read", list=of, error=repr(error))

        self._store.submit(lambda books: books.listed(of), read, failed)

    def _finish(self, of: ListName) -> None:
        self._unfinished[of] -= 1
        if not self._unfinished[of] and of in self._outdated:
            self.read_again(of, self._outdated.pop(of))

"""New ids of a hall that shares its store with no other hall.

Such a hall knows all ids that are bound. A filter tells at once that most new ids are new, so WELCOME does not wait
for a commit. The binding is written into a journal, which survives the end of the process; the store gets many
bindings together a moment later.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from moothall.hall.bindings import BindingBooks, Holding, IdClaim
from moothall.hall.idfilter import IdFilter
from moothall.hall.outside import Log, Store

SAVE_SECONDS: Final = 0.25  # bindings of this time share a commit
RETRY_SECONDS: Final = 10.0  # after a commit that failed
MAX_UNSAVED: Final = 100_000  # while the store fails

Entries = Iterable[tuple[str, bytes]]
Later = Callable[[float, Callable[[], None]], Any]  # like `loop.call_later`


class Journal(Protocol):
    def write(self, agent_id: str, key: bytes) -> None:
        """Returns when the operating system has it. Raises OSError."""

    def keep_only(self, entries: Entries) -> None:
        """The store has everything else that was written."""


class NewIds:
    def __init__(
        self,
        store: Store[BindingBooks],
        capacity: int,
        bound: Iterable[str],
        journal: Journal,
        later: Later,
        log: Log,
    ) -> None:
        self._store = store
        self._filter = IdFilter(capacity)
        self._room = capacity
        for agent_id in bound:
            self._filter.add(agent_id)
            self._room -= 1
        self._journal = journal
        self._later = later
        self._log = log
        self._unsaved: dict[str, IdClaim] = {}
        self._planned = False  # a time to hand them over is set, or they are on their way
        self._handed_over = False  # they are on their way
        self._closed = False

    def claim(self, claim: IdClaim) -> Holding | None:
        """The answer, or None: ask the store."""
        agent_id = claim.agent_id
        unsaved = self._unsaved.get(agent_id)
        if unsaved is not None:
            return Holding(unsaved.key)
        if not claim.may_bind:
            return None if agent_id in self._filter else Holding(None)
        if self._room <= 0 or len(self._unsaved) >= MAX_UNSAVED:
            return None
        if not self._filter.add(agent_id):
            return None
        try:
            self._journal.write(agent_id, claim.key)
        except OSError as error:  # the store is asked, and keeps it if it can
            self._log.warning("key_journal_not_written", error=repr(error))
            return None
        self._room -= 1
        self._unsaved[agent_id] = claim
        if not self._planned:
            self._planned = True
            self._later(SAVE_SECONDS, self._save)
        return Holding(claim.key, is_new=True)

    def note(self) -> None:
        """The store has bound an id that it was asked for."""
        self._room -= 1

    def close(self) -> None:
        """Hand over what is left. The journal has it too, for the next start, if that comes to nothing."""
        self._closed = True
        if not self._handed_over:
            self._hand_over()

    def _save(self) -> None:
        if not self._closed:
            self._hand_over()

    def _hand_over(self) -> None:
        claims = list(self._unsaved.values())
        self._handed_over = True

        def bind(books: BindingBooks) -> None:
            for claim in claims:
                books.bind(claim.agent_id, claim.key, claim.now)

        def saved(_: None) -> None:
            self._handed_over = False
            for claim in claims:
                del self._unsaved[claim.agent_id]
            if not self._closed:
                self._go_on()

        def failed(error: BaseException) -> None:
            self._handed_over = False
            self._log.warning("keys_not_saved", error=repr(error))
            self._later(RETRY_SECONDS, self._save)

        self._store.submit(bind, saved, failed)

    def _go_on(self) -> None:
        self._planned = bool(self._unsaved)
        if self._planned:
            self._later(SAVE_SECONDS, self._save)
        try:
            self._journal.keep_only((agent_id, claim.key) for agent_id, claim in self._unsaved.items())
        except OSError as error:
            self._log.warning("key_journal_not_shortened", error=repr(error))

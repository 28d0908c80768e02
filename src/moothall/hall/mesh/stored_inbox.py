"""Inboxes of the mesh that are kept in the store, and survive a restart: `mesh_inbox = "store"`.

An envelope for an agent that is away is put into its inbox in the transaction of the change that it causes (see
`market.Dealings.take`). Here is what remains: envelopes that found their recipient gone after that, reading, and
tidying up. An inbox is bounded in envelopes, bytes and age, and all of them together in bytes. In a full inbox the
oldest envelopes of the sender that has most of them make way, so a flood pushes out itself. The fullest inboxes
make way for others. The agent is told how many it lost.
"""

from collections.abc import Callable
from typing import Final, Protocol

from moothall.hall.agenda import Appointment
from moothall.hall.mesh.frames import MAX_PAGE_BYTES
from moothall.hall.mesh.inbox import Page
from moothall.hall.outside import Store
from moothall.hall.services import Timekeeper

MAX_ENVELOPES: Final = 1000  # in one inbox
MAX_BYTES: Final = 4 * 1024 * 1024
MAX_AGE: Final = 7 * 24 * 60 * 60 * 1000  # ms, as long as credits are put aside by default
MAX_TOTAL: Final = 1024 * 1024 * 1024  # bytes of all inboxes; somewhat more between two times of tidying up
TIDY_SECONDS: Final = 60.0  # after the first new envelope


class InboxBooks(Protocol):
    """A part of a unit of work."""

    def put_envelope(self, recipient: bytes, raw: bytes, at: int) -> int:
        """Into the inbox of an agent; return its cursor. If it is full, older envelopes of the sender that has most
        make way."""

    def take_out(self, recipient: bytes, cursor: int) -> None:
        """The agent has this envelope. Those that had to make way before it still count."""

    def inbox(self, recipient: bytes, after: int | None, limit: int, most: int) -> Page:
        """See `Inboxes.read`. As many envelopes as have at most `most` bytes together, and at least one."""

    def newest_envelope(self, recipient: bytes) -> int:
        """The cursor of the newest envelope, 0 if there is none."""

    def tidy_inboxes(self, before: int, most: int) -> int | None:
        """Remove envelopes that came before this time, and from the fullest inboxes what is more than `most` bytes
        of all. Return when the oldest one that is left came: None if none is, and 0 if there is more to remove."""


class StoredInboxes:
    """Implements `Inboxes`."""

    def __init__(self, store: Store[InboxBooks], hall: Timekeeper) -> None:
        self._store = store
        self._hall = hall
        self._next: Appointment | None = None

    def open(self) -> None:
        """Begin with what grew old while the hall was closed."""
        self._tidy()

    def put(
        self,
        recipient: bytes,
        raw: bytes,
        done: Callable[[bool], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        now = self._hall.timestamp()

        def kept(_: int) -> None:
            self.changed()
            done(True)

        self._store.submit(lambda books: books.put_envelope(recipient, raw, now), kept, failed)

    def read(
        self,
        recipient: bytes,
        after: int | None,
        limit: int,
        done: Callable[[Page], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._store.submit(lambda books: books.inbox(recipient, after, limit, MAX_PAGE_BYTES), done, failed)

    def newest(
        self, recipient: bytes, done: Callable[[int], None], failed: Callable[[BaseException], None]
    ) -> None:
        self._store.submit(lambda books: books.newest_envelope(recipient), done, failed)

    def delivered(self, recipient: bytes, cursor: int) -> None:
        """The agent got this envelope without reading its inbox. If it cannot be taken out now, the agent gets it
        again."""

        def failed(error: BaseException) -> None:
            self._hall.log.warning("mesh_inbox_not_taken_out", error=repr(error))

        self._store.submit(lambda books: books.take_out(recipient, cursor), lambda _: None, failed)

    def changed(self) -> None:
        """An envelope was put into an inbox: tidy up soon."""
        self._plan(TIDY_SECONDS)

    def _plan(self, seconds: float) -> None:
        due, planned = self._hall.now() + max(TIDY_SECONDS, seconds), self._next
        if planned is not None and not planned.cancelled:
            if planned.due <= due:
                return
            self._hall.agenda.cancel(planned)
        self._next = self._hall.agenda.at(due, self._tidy)

    def _tidy(self) -> None:
        self._next = None
        before = self._hall.timestamp() - MAX_AGE

        def tidied(oldest: int | None) -> None:
            if oldest is not None:
                self._plan((oldest - before) / 1000)

        def failed(error: BaseException) -> None:
            self._hall.log.warning("mesh_inbox_not_tidied", error=repr(error))
            self.changed()

        self._store.submit(lambda books: books.tidy_inboxes(before, MAX_TOTAL), tidied, failed)

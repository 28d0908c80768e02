"""Commands that wait for a disk: the session that gave one waits for it, and no other session does.

While a command is in flight, the later frames of its session stay in the session's own inbox. The answer leaves
after the disk has the change. A hall that closes answers what was begun, and begins nothing more.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

from moothall.errors import (
    InternalError,
    MoothallError,
    OutcomeUnknown,
    Refusal,
    StoreUnreachable,
    Unavailable,
)
from moothall.hall.outside import Books, Result, Store
from moothall.hall.session import Session

if TYPE_CHECKING:
    from moothall.hall.hall import Hall

UNREACHABLE: Final = "The hall's database cannot be reached. Nothing has changed; try again later"


class Durable:
    def __init__(self, hall: "Hall") -> None:
        self._hall = hall
        self._finished: Callable[[], None] = lambda: None

    def transact(
        self,
        session: Session,
        store: Store[Books],
        work: Callable[[Books], Result],
        then: Callable[[Result], None],
    ) -> None:
        """Run `work` as one unit of a room's store, then, once it is committed, `then` here."""
        self.wait_for(session, partial(store.submit, work), then)

    def wait_for(
        self,
        session: Session,
        submit: Callable[[Callable[[Result], None], Callable[[BaseException], None]], None],
        then: Callable[[Result], None],
    ) -> None:
        """Start something that ends with one of two calls back. The session's own later frames wait for it."""
        ref = session.ref
        session.busy = True
        submit(
            partial(self._go_on, session, ref, then),
            partial(self._go_on, session, ref, self._explain_failure),
        )

    def _go_on(
        self, session: Session, ref: str | None, then: Callable[[Result], None], result: Result
    ) -> None:
        session.busy = False
        session.ref = ref
        session.answered = False
        try:
            try:
                then(result)
            except Refusal as refusal:
                self._hall.refuse(session, refusal)
            self.catch_up(session)
        except BaseException:
            # A bug of ours, and no gateway around it that would end this session: its client waits for an answer.
            self._hall.fail(session)
            raise

    def _explain_failure(self, error: BaseException) -> NoReturn:
        if isinstance(error, Refusal):
            raise error
        # A disk or a database that fails says what is wrong; a bug of ours shows where it is.
        fault = None if isinstance(error, OSError | MoothallError) else error
        if self._hall.may_log("durable_command_failed"):
            self._hall.log.warning("durable_command_failed", error=repr(error), exc_info=fault)
        if isinstance(error, OutcomeUnknown):
            raise InternalError("Outcome unknown: check whether this was saved before you try again")
        if isinstance(error, StoreUnreachable):
            raise Unavailable(UNREACHABLE)
        raise InternalError("The hall could not save this; try again, or tell its operator")

    def catch_up(self, session: Session) -> None:
        """Handle what arrived while the session was busy or held, and read on."""
        while session.inbox and not session.busy and session.held is None:
            self._hall.receive(session, session.next_kept())
        if self._hall.is_closing:
            self._finish()
        elif session.paused and not session.busy and session.held is None:
            session.paused = False
            session.link.resume()

    def pause(self, session: Session) -> None:
        """Read nothing more from the session until `catch_up` has come to the end of its inbox."""
        if not session.paused:
            session.paused = True
            session.link.pause()

    def take_no_more(self, finished: Callable[[], None]) -> None:
        """The hall is about to close: nothing more is read, and what waits in inboxes is not begun. `finished` is
        called when every durable command has been answered."""
        self._hall.is_closing = True
        self._finished = finished
        for session in self._hall.sessions:
            session.forget_kept()
            self._hall.takeovers.give_up(session)
            self.pause(session)
        self._finish()

    def _finish(self) -> None:
        if not any(session.busy for session in self._hall.sessions):
            self._finished()

    def hear_goodbyes(self) -> None:
        """After `take_no_more`, when all connections are being closed: read their close frames."""
        for session in self._hall.sessions:
            session.link.resume()

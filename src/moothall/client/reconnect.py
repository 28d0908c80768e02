"""An agent's stay in a hall: what is put back in place when a lost connection is taken up again."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final

from moothall.client.connection import Applicant, HallConnection, was_too_fast
from moothall.client.dialling import shown_url
from moothall.client.dispatch import Dispatch, enter
from moothall.client.events import Gap, MissedIn
from moothall.client.handlers import Handlers
from moothall.client.logs import log
from moothall.client.memory import Mark, Memory, Replayed, find_missed
from moothall.client.presence import BUDGETS, presence_message
from moothall.client.requests import Exchange, patiently
from moothall.client.session import Session
from moothall.errors import BudgetExceeded, ConnectionLost, Refusal
from moothall.wire.agentchat import server

NOTHING_HEARD: Final = Mark(frozenset(), 0)


class Stay:
    """An agent's stay in a hall: coming in, coming back, and what is put in order each time."""

    def __init__(
        self,
        url: str,
        applicant: Callable[[], Applicant],
        session: Session,
        memory: Memory,
        dispatch: Dispatch,
        handlers: Handlers,
        patience: float,
    ) -> None:
        self._url = url
        self._applicant = applicant
        self._session = session
        self._memory = memory
        self._dispatch = dispatch
        self._handlers = handlers
        self._patience = patience
        self._lost_at: datetime | None = None
        self._marks: dict[str, Mark] = {}
        self._gap: Gap | None = None  # of the connection that is being taken up again
        self._paced = False

    async def dial(self) -> HallConnection:
        """A new connection, introduced and welcomed."""
        return await HallConnection.open(
            self._url, self._applicant(), self._dispatch, patience=self._patience, paced=self._paced
        )

    async def settle_in(self, connection: HallConnection, *, again: bool) -> None:
        """Put everything in place on a new connection, before other callers use it."""

        async def this_one() -> HallConnection:
            return connection

        exchange = Exchange(this_one, self._patience)
        if self._session.presence is not None or self._session.budget is not None:
            await patiently(partial(self._restore_presence, exchange))
        if again:
            self._gap = await self._catch_up(exchange)
            return
        for channel in list(self._session.wanted):
            await patiently(partial(enter, exchange, channel))

    def arrived(self, *, again: bool) -> None:
        """The connection is in use."""
        how, own = "reconnected" if again else "connected", self._session
        log.info("%s to %s as %s (%s)", how, shown_url(self._url), own.address, own.name)
        self._handlers.tell("on_connect", self._session.welcome)
        gap, self._gap = self._gap, None
        if gap is None:
            return
        self._lost_at = None
        self._marks.clear()
        self._dispatch.report(gap)
        for message in gap.missed:
            self._dispatch.pass_on(message)

    def departed(self, error: ConnectionLost) -> None:
        """The connection is gone, and another one will be tried."""
        self._paced = self._paced or was_too_fast(error)
        self._lost_at = datetime.now(UTC)
        self._marks = {channel: self._memory.mark(channel) for channel in self._session.wanted}
        self._session.rooms.clear()
        self._dispatch.lost(error)
        log.warning("disconnected: %s; reconnecting", error)
        self._handlers.tell("on_disconnect", error)

    def ended(self, error: BaseException | None) -> None:
        """The connection is gone, and no other one will be tried."""
        self._session.rooms.clear()
        self._dispatch.end(error)
        log.info("disconnected from %s", shown_url(self._url))
        if error is not None:
            self._handlers.tell_last("on_disconnect", error)
        self._handlers.watches.end(error)

    # -- inside ------------------------------------------------------------------------------------

    async def _restore_presence(self, exchange: Exchange) -> None:
        """Others see it again. A hall that has counted a report does not count it twice."""
        session = self._session
        budget = session.budget if BUDGETS in session.welcome.features else None
        if session.presence is None and budget is None:
            return
        try:
            await exchange.tell(presence_message(session.presence, budget), server.Ack)
        except BudgetExceeded as refusal:
            log.warning("%s", refusal)  # the next report says it to its caller

    async def _catch_up(self, exchange: Exchange) -> Gap:
        """Enter every channel again and find out what was said there meanwhile."""
        channels: dict[str, MissedIn] = {}
        replayed: list[Replayed] = []
        for channel in list(self._session.wanted):
            try:
                repeated = await patiently(partial(self._dispatch.ask_again, exchange, channel))
            except Refusal as refusal:
                log.warning("cannot enter %s again: %s", channel, refusal)
                channels[channel] = MissedIn((), complete=False)
                continue
            channels[channel] = find_missed(self._marks.get(channel, NOTHING_HEARD), repeated)
            replayed += repeated
        # Only now: if the connection is lost half-way, all of it is still news the next time.
        self._dispatch.remember(replayed)
        until = datetime.now(UTC)
        return Gap(self._lost_at or until, until, "reconnected", channels)

"""An agent's stay in a hall: coming in, coming back, and what is put in order each time."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final

from msgspec import UNSET

from moothall.client.connection import Applicant, HallConnection, shown_url
from moothall.client.events import Gap, MissedIn
from moothall.client.exchange import Exchange, patiently
from moothall.client.handlers import Handlers
from moothall.client.hearing import Hearing, enter
from moothall.client.logs import log
from moothall.client.memory import Mark, Memory, Replayed, find_missed
from moothall.client.standing import Standing
from moothall.errors import ConnectionLost, Refusal
from moothall.wire.agentchat import client, server

NOTHING_HEARD: Final = Mark(frozenset(), 0)


class Stay:
    """What `Lifeline` needs to know of the agent it keeps connected."""

    def __init__(
        self,
        url: str,
        applicant: Callable[[], Applicant],
        standing: Standing,
        memory: Memory,
        hearing: Hearing,
        handlers: Handlers,
        patience: float,
    ) -> None:
        self._url = url
        self._applicant = applicant
        self._standing = standing
        self._memory = memory
        self._hearing = hearing
        self._handlers = handlers
        self._patience = patience
        self._lost_at: datetime | None = None
        self._marks: dict[str, Mark] = {}

    async def dial(self, *, paced: bool) -> HallConnection:
        return await HallConnection.open(
            self._url, self._applicant(), self._hearing, patience=self._patience, paced=paced
        )

    async def settle_in(self, connection: HallConnection, *, again: bool) -> Gap | None:
        async def this_one() -> HallConnection:
            return connection

        exchange = Exchange(this_one, self._patience)
        if self._standing.presence is not None:
            await patiently(partial(self._restore_presence, exchange))
        if again:
            return await self._catch_up(exchange)
        for channel in list(self._standing.wanted):
            await patiently(partial(enter, exchange, channel))
        return None

    def arrived(self, gap: Gap | None) -> None:
        how, own = "connected" if gap is None else "reconnected", self._standing
        log.info("%s to %s as %s (%s)", how, shown_url(self._url), own.address, own.name)
        self._handlers.tell("on_connect", self._standing.welcome)
        if gap is None:
            return
        self._lost_at = None
        self._marks.clear()
        self._hearing.report(gap)
        for message in gap.missed:
            self._hearing.pass_on(message)

    def departed(self, error: ConnectionLost) -> None:
        self._lost_at = datetime.now(UTC)
        self._marks = {channel: self._memory.mark(channel) for channel in self._standing.wanted}
        self._standing.rooms.clear()
        self._hearing.lost(error)
        log.warning("disconnected: %s; reconnecting", error)
        self._handlers.tell("on_disconnect", error)

    def ended(self, error: BaseException | None) -> None:
        self._standing.rooms.clear()
        self._hearing.end(error)
        log.info("disconnected from %s", shown_url(self._url))
        if error is not None:
            self._handlers.tell_last("on_disconnect", error)
        self._handlers.watches.end(error)

    # -- inside ------------------------------------------------------------------------------------

    async def _restore_presence(self, exchange: Exchange) -> None:
        if self._standing.presence is not None:
            status, text = self._standing.presence
            message = client.SetPresence(status=status, status_text=UNSET if text is None else text)
            await exchange.tell(message, server.Ack)

    async def _catch_up(self, exchange: Exchange) -> Gap:
        """Enter every channel again and find out what was said there meanwhile."""
        channels: dict[str, MissedIn] = {}
        replayed: list[Replayed] = []
        for channel in list(self._standing.wanted):
            try:
                repeated = await patiently(partial(self._hearing.ask_again, exchange, channel))
            except Refusal as refusal:
                log.warning("cannot enter %s again: %s", channel, refusal)
                channels[channel] = MissedIn((), complete=False)
                continue
            channels[channel] = find_missed(self._marks.get(channel, NOTHING_HEARD), repeated)
            replayed += repeated
        # Only now: if the connection is lost half-way, all of it is still news the next time.
        self._hearing.remember(replayed)
        until = datetime.now(UTC)
        return Gap(self._lost_at or until, until, "reconnected", channels)

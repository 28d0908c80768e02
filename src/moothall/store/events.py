"""The courier's outbox of events for integrations, in SQL (see `market.courier`)."""

from collections.abc import Sequence
from typing import Final

from moothall.market.courier import Delivery, Waiting
from moothall.market.hooks import Subscription, hook_event
from moothall.market.records import Happening, HookEvent
from moothall.store.work import SqlWork

_NEXT_OF_ITS_DEAL: Final = (
    "listener = ? AND NOT EXISTS (SELECT 1 FROM hooks AS earlier WHERE earlier.listener = hooks.listener"
    " AND earlier.deal = hooks.deal AND earlier.number < hooks.number)"
)


class EventBooks(SqlWork):
    """What `SqlBooks` is made of besides the other parts."""

    _subscriptions: Sequence[Subscription]

    def claim_events(self, listener: str, now: int, until: int, limit: int) -> list[Delivery]:
        rows = self._query(
            f"SELECT number, id, name, deal, at, body, attempts FROM hooks WHERE {_NEXT_OF_ITS_DEAL}"  # noqa: S608
            f" AND next_attempt <= ? ORDER BY next_attempt, number LIMIT ?{self._connection.dialect.skip_locked}",
            listener,
            now,
            limit,
        )
        for row in rows:
            self._change(
                "UPDATE hooks SET attempts = attempts + 1, next_attempt = ? WHERE number = ?", until, row[0]
            )
        return [
            Delivery(HookEvent(id=event_id, name=name, deal=deal, at=at, body=body), attempts)
            for _, event_id, name, deal, at, body, attempts in rows
        ]

    def postpone_event(self, listener: str, event_id: str, until: int) -> None:
        self._change(
            "UPDATE hooks SET next_attempt = ? WHERE listener = ? AND id = ?", until, listener, event_id
        )

    def remove_event(self, listener: str, event_id: str) -> None:
        self._change("DELETE FROM hooks WHERE listener = ? AND id = ?", listener, event_id)

    def next_event(self, listener: str) -> int | None:
        rows = self._query(
            f"SELECT next_attempt FROM hooks WHERE {_NEXT_OF_ITS_DEAL} ORDER BY next_attempt LIMIT 1",  # noqa: S608
            listener,
        )
        return rows[0][0] if rows else None

    def waiting_events(self, listeners: Sequence[str]) -> Waiting:
        marks = ", ".join("?" for _ in listeners)
        rows = self._query(f"SELECT count(*), min(at) FROM hooks WHERE listener IN ({marks})", *listeners)  # noqa: S608
        return Waiting(*rows[0])

    def save_happening(self, happening: Happening) -> None:
        """Write the event once for all subscribed listeners; without any, do not write it."""
        listeners = [each.listener for each in self._subscriptions if each.wants(happening)]
        if listeners:
            event = hook_event(happening)
            for listener in listeners:
                self._draft.put_hook(event, listener)

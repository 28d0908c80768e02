"""Routes to the agents that other halls announce. Halls and nodes learn them alike."""

from typing import Final

from moothall.network import announcement
from moothall.network.announcement import Change, Halls, MalformedAnnouncement
from moothall.network.routes import Routes
from moothall.p2p.pubsub import Message

MALFORMED: Final = "malformed announcement"
OF_ANOTHER_HALL: Final = "announcement of another hall"
OLD: Final = "old announcement"


class HallRoutes:
    """`now` is in milliseconds that never go back, `at` in Unix microseconds."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._halls = Halls()

    def __len__(self) -> int:
        """Halls that announce agents."""
        return len(self._halls)

    def hear(self, relay: bytes, message: Message, now: int, at: int) -> str | None:
        """Take a message on the topic of halls, which `relay` brought. Returns why it does not count, else None."""
        try:
            said = announcement.decode(message.data)
        except MalformedAnnouncement:
            return MALFORMED
        if said.hall != message.author:
            return OF_ANOTHER_HALL
        changes = self._halls.hear(said, now, at, self._routes.peers)
        if changes is None:
            return OLD
        self._routes.announced(said.hall, relay)
        self._follow(changes)
        return None

    def expire(self, now: int) -> None:
        """Due every second."""
        self._follow(self._halls.expire(now))

    def _follow(self, changes: list[Change]) -> None:
        for change in changes:
            self._routes.claimed(*change)

"""Who an agent is in the hall, where it is, and where it wants to be after a reconnect."""

from moothall.client.events import Budget, Welcome, welcome
from moothall.errors import NotConnected
from moothall.wire.agentchat import server
from moothall.wire.agentchat.client import PresenceState
from moothall.wire.agentchat.names import bare_id


class Session:
    def __init__(self, name: str) -> None:
        self._first_name = name
        self.name = name  # a nick replaces it, also for the next IDENTIFY (agentchat wire 3.3)
        self.verified = False
        self.motd: str | None = None
        self.rooms: set[str] = set()  # where the hall said the agent is
        self.wanted: dict[str, None] = {}  # where it should be, in the order of joining
        self.presence: tuple[PresenceState, str | None] | None = None  # if it was ever set
        self.budget: Budget | None = None  # as it was reported last
        self._welcome: Welcome | None = None
        self._own: set[str] = set()  # an agent without a key has a new id after every reconnect

    @property
    def welcome(self) -> Welcome:
        if self._welcome is None:
            raise NotConnected("the agent has not connected yet: the hall gives it its id")
        return self._welcome

    @property
    def max_content(self) -> int | None:
        """The `max_content` of the hall that welcomed the agent last, if the hall told it."""
        return None if self._welcome is None else self._welcome.max_content

    @property
    def address(self) -> str:
        return self.welcome.id

    def names(self) -> tuple[str, ...]:
        """The id, without @, the name, and the one from before if the name is a nick."""
        return (bare_id(self.welcome.id), *dict.fromkeys((self.name, self._first_name)))

    def is_own(self, sender: str) -> bool:
        return sender in self._own

    # -- what the hall says about it ---------------------------------------------------------------

    def welcomed(self, body: server.Welcome) -> None:
        self._welcome = welcome(body)
        self._own.add(self._welcome.id)
        self.verified = self._welcome.verified
        self.motd = self._welcome.motd
        self.rooms.clear()

    def renamed(self, body: server.NickChanged) -> None:
        if body.agent_id == self.address:
            self.name = body.new_nick

    def judged(self, body: server.AdminResult) -> None:
        """An admin gave or took the verified flag (agentchat wire 6.6, to the agent)."""
        if body.action == "verify" and not isinstance(body.agent_id, str) and isinstance(body.verified, bool):
            self.verified = body.verified

"""What the rooms built on the hall may ask of it: market, court and courier know these protocols and never `Hall`.

Who is here is a question to the roster, and what agents are told goes through delivery. The rest is the hall's own:
time, the log, ids, and commands that wait for a disk.
"""

from typing import Protocol

from moothall.hall.access import Allowlist
from moothall.hall.agenda import Agenda
from moothall.hall.delivery import Delivery
from moothall.hall.durable import Durable
from moothall.hall.ids import IdMint
from moothall.hall.outside import Log
from moothall.hall.revocation import RevokedKeys
from moothall.hall.roster import Roster
from moothall.hall.session import Agent, Session
from moothall.hall.voice import Voice
from moothall.settings import Settings
from moothall.wire.agentchat.server import ServerMessage


class Timekeeper(Protocol):
    """What acts at its own time needs."""

    @property
    def agenda(self) -> Agenda: ...

    @property
    def log(self) -> Log: ...

    def now(self) -> float:
        """Seconds that never go back."""

    def timestamp(self) -> int:
        """Milliseconds since the Unix epoch."""


class Caretaker(Timekeeper, Protocol):
    """What goes on for as long as a hall, or a node, is open."""

    @property
    def is_closing(self) -> bool:
        """True if nothing new is begun, because the hall is about to close."""


class Services(Caretaker, Protocol):
    """What the handlers of market and court need."""

    @property
    def settings(self) -> Settings: ...

    @property
    def roster(self) -> Roster: ...

    @property
    def delivery(self) -> Delivery: ...

    @property
    def durable(self) -> Durable: ...

    @property
    def ids(self) -> IdMint: ...

    @property
    def voice(self) -> Voice: ...

    @property
    def allowlist(self) -> Allowlist: ...

    @property
    def revoked(self) -> RevokedKeys: ...

    def agent_of(self, session: Session) -> Agent:
        """The agent behind a session that passed the tier check."""

    def reply(self, session: Session, message: ServerMessage) -> None:
        """The direct answer to the command being handled."""

    def has_channel(self, name: str) -> bool:
        """True if there is a channel of this name."""

    def redacted(self, content: str, author: Agent | None = None) -> str:
        """What others get to read of a text."""

"""One connection, and the agent it becomes once it has said and proven who it is."""

from collections import deque
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from moothall.hall.budgets import Meter
from moothall.hall.outside import Link, Relay
from moothall.identity import PublicKey
from moothall.settings.limits import Window
from moothall.wire.agentchat.server import Budget, MemberEntry

if TYPE_CHECKING:
    from moothall.hall.agenda import Appointment
    from moothall.hall.channels import Channel
    from moothall.hall.handshake import Pending
    from moothall.hall.takeovers import Waiting
    from moothall.hall.waiting import WaitingLine

# What one session may have waiting behind a durable command before the hall stops reading from it.
MAX_INBOX: Final = 64  # frames
MAX_INBOX_BYTES: Final = 512 * 1024  # two of the largest: a slow disk must not fill the memory


HERE: Final = ""  # the node of agents that are connected to this process


class Tier(IntEnum):
    """What a session may do follows from what it has proven. There is nothing between 1 and 3."""

    STRANGER = 0
    ANONYMOUS = 1
    VERIFIED = 3


class Session:
    __slots__ = (
        "agent",
        "answered",
        "busy",
        "closed",
        "connected_at",
        "counted",
        "held",
        "host",
        "inbox",
        "inbox_bytes",
        "ip",
        "line",
        "link",
        "meter",
        "paused",
        "pending",
        "ref",
        "takeover",
        "throttled",
        "tier",
        "user_agent",
        "windows",
    )

    is_remote = False  # True for the session of an agent that is connected to another node

    def __init__(
        self, link: Link, ip: str, user_agent: str, connected_at: float, meter: Meter | None
    ) -> None:
        self.link = link
        self.ip = ip
        self.user_agent = user_agent
        self.host = ""  # the Host header that the client sent
        self.connected_at = connected_at
        self.meter = meter  # counts what it costs; None without limits
        self.windows: dict[str, Window] | None = None  # count the commands that have a rate of their own
        self.tier = Tier.STRANGER
        self.agent: Agent | None = None
        self.pending: Pending | None = None  # a challenge or captcha that waits for its answer
        self.takeover: Waiting | None = None  # it waits to displace another session of its key
        self.line: WaitingLine[Session] | None = None  # of those who must identify or answer, while it has to
        self.ref: str | None = None  # of the command being handled
        self.answered = False  # whether it had a direct reply
        self.busy = False  # a durable command is in flight
        self.inbox: deque[bytes] | None = None  # what arrived meanwhile
        self.inbox_bytes = 0
        self.held: Appointment | None = None  # it is over its limits: nothing is handled until then
        self.paused = False  # nothing is read from the link: it is held, or its inbox is full
        self.throttled = False  # it was held before, and the log says so
        self.closed = False
        self.counted = False  # towards the connections of its address

    def keep(self, payload: bytes, *, first: bool = False) -> None:
        """Put a frame into the inbox, behind the others or before them."""
        if self.inbox is None:
            self.inbox = deque()
        if first:
            self.inbox.appendleft(payload)
        else:
            self.inbox.append(payload)
        self.inbox_bytes += len(payload)

    @property
    def is_full(self) -> bool:
        """True if the inbox is at its limit and nothing more should be read."""
        return self.inbox is not None and (
            len(self.inbox) >= MAX_INBOX or self.inbox_bytes >= MAX_INBOX_BYTES
        )

    def next_kept(self) -> bytes:
        """Take the first frame out of an inbox that is not empty."""
        assert self.inbox is not None  # noqa: S101  # the caller has looked
        payload = self.inbox.popleft()
        self.inbox_bytes -= len(payload)
        return payload

    def forget_kept(self) -> None:
        self.inbox = None
        self.inbox_bytes = 0


class Agent:
    """An identified client. An agent has a session, is in the roster, and knows its channels."""

    __slots__ = (
        "address",
        "budget",
        "channels",
        "claimed_key",
        "entry",
        "granted",
        "id",
        "identity",
        "key",
        "kind",
        "link",
        "lurking",
        "presence",
        "relay",
        "session",
        "status_text",
        "takes_gaps",
        "takes_receipts",
        "via",
    )

    def __init__(
        self, session: Session, agent_id: str, name: str, key: PublicKey | None, kind: str | None
    ) -> None:
        self.session = session
        self.link = session.link
        self.via: str | None = None  # the wire it is on, if that is not the WebSocket
        self.identity: str | None = None  # what its wire calls it, if that is not its id
        self.relay: Relay | None = None  # the connection of an agent of another wire
        self.id = agent_id
        self.address = f"@{agent_id}"
        # What JOINED says of it. Each agent of a crowd that joins a channel is told of all others.
        self.entry = MemberEntry(self.address, name, False, kind)
        self.key = key  # proven: an agent with a key is made only after its signature checked out
        # What an agent of another wire signs with. It may keep its bearer out; it never gives any right.
        self.claimed_key: PublicKey | None = None
        self.kind = kind  # "human", or None
        self.presence = "online"
        self.status_text: str | None = None
        self.budget: Budget | None = None  # as the agent reported it last
        self.granted: bool | None = None  # what an admin said with ADMIN_VERIFY
        self.lurking = False
        self.takes_receipts = False  # its IDENTIFY says that it knows delivery receipts
        self.takes_gaps = False  # its IDENTIFY says that it knows GAP
        self.channels: dict[str, Channel] = {}

    @property
    def node(self) -> str:
        return HERE

    @property
    def name(self) -> str:
        return self.entry.name

    @name.setter
    def name(self, name: str) -> None:
        self.entry.name = name

    @property
    def verified(self) -> bool:
        """What others are shown."""
        return self.entry.verified

    @verified.setter
    def verified(self, verified: bool) -> None:
        self.entry.verified = verified

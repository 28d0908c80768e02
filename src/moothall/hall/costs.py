"""What commands cost: each row of the command table names one of these classes.

A cost says how a command's price follows from what it asks for. It is worked out from what the hall has in memory,
before anything is done, and charged to the budgets of the sender (see `budgets`). The frame and its bytes are
charged for every command and are not repeated here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from moothall.hall.budgets import Price
from moothall.hall.session import Session
from moothall.wire.agentchat.client import MAX_CONTENT

if TYPE_CHECKING:
    from moothall.hall.hall import Hall

MAX_AGENTS_LISTED: Final = 4096  # of the whole hall: half a mebibyte
# What is done in the time in which one agent is told something:
LOOKED_AT_FOR_ONE: Final = 32  # agents looked at
COPIED_FOR_ONE: Final = 16 * 1024  # characters of a text copied
SEARCHED_FOR_ONE: Final = 64  # characters of a text searched, if it was written to be slow
# A message with receipts: its delivery to each recipient is watched, and told to the sender.
WITH_RECEIPT: Final = 3
REPORT: Final = 100  # microseconds of the store: a report shares its unit of work with others

Count = Callable[["Hall", Session, Any], int]


@dataclass(frozen=True)
class Cost:
    told: Count | None = None  # messages to others, and entries of a list
    out: Count | None = None  # bytes of an answer that can be long
    store: int = 0  # microseconds of the store's thread
    more_store: Count | None = None  # the same, where it depends on what the command has
    store_per_kb: int = 0  # the same, for each KiB of the command
    # How often each byte of the command counts: nested JSON is walked through before it is refused.
    weight: int = 1
    is_heavy: bool = field(init=False)  # the fields alone are dear to check: the price is charged before that

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_heavy", self.weight > 1)

    def price(self, hall: "Hall", session: Session, message: Any, size: int) -> Price:
        return Price(
            0,
            (self.weight - 1) * size + (0 if self.out is None else self.out(hall, session, message)),
            0 if self.told is None else self.told(hall, session, message),
            self.store
            + self.store_per_kb * size // 1024
            + (0 if self.more_store is None else self.more_store(hall, session, message)),
        )


def _one(hall: "Hall", session: Session, message: Any) -> int:
    return 1


def _members(hall: "Hall", session: Session, message: Any) -> int:
    """Members of the channel that the message names."""
    channel = hall.channels.get(message.channel)
    return 0 if channel is None else channel.size


def _listed(hall: "Hall", session: Session, message: Any) -> int:
    """Agents that LIST_AGENTS lists: of a channel, of those asked for, or all."""
    if message.channel is not UNSET:
        return _members(hall, session, message)
    return min(len(hall.roster), MAX_AGENTS_LISTED) if message.agents is UNSET else len(message.agents)


def _fellows(hall: "Hall", session: Session, message: Any) -> int:
    """The members that get a notice of the sender; none if it is not a member itself."""
    channel = None if session.agent is None else session.agent.channels.get(message.channel)
    return 0 if channel is None else channel.watched


def _fellows_thrice(hall: "Hall", session: Session, message: Any) -> int:
    return 3 * _fellows(hall, session, message)


def _entry(hall: "Hall", session: Session, message: Any) -> int:
    """The others are told of the arrival, are listed in JOINED, and will be told of the departure.

    If all of them are on other nodes, this one may know only how many they are.
    """
    channel = hall.channels.get(message.channel)
    if channel is None:
        return 0
    return 2 * channel.watched + len(channel.members) if channel.members else 3 * channel.counted


def _replay(hall: "Hall", session: Session, message: Any) -> int:
    channel = hall.channels.get(message.channel)
    return 0 if channel is None else channel.buffer.size


def _audience(hall: "Hall", session: Session, message: Any) -> int:
    """Agents that get a line. A long text costs more: it is searched for secrets, and copied to each of them."""
    channel = None if session.agent is None else session.agent.channels.get(message.to)
    audience = 1 if channel is None else channel.audience
    length = len(message.content)
    if length > MAX_CONTENT:
        audience += audience * length // COPIED_FOR_ONE + length // SEARCHED_FOR_ONE
    if message.receipt:
        audience *= WITH_RECEIPT
    return audience


def _neighbours(hall: "Hall", session: Session, message: Any) -> int:
    """The members that get notices, in all channels of the sender, and the other nodes."""
    if session.agent is None:
        return 0
    return _nodes(hall) + sum(channel.watched for channel in session.agent.channels.values())


def _nodes(hall: "Hall") -> int:
    """The other nodes of this hall: each of them is told who comes and goes, and how agents appear."""
    return 0 if hall.cluster is None else len(hall.cluster.nodes.live)


def _report(hall: "Hall", session: Session, message: Any) -> int:
    """A report of spending is counted for a key."""
    is_counted = message.budget and session.agent is not None and session.agent.key is not None
    return REPORT if is_counted else 0


def _arrival(hall: "Hall", session: Session, message: Any) -> int:
    """A newcomer comes, and leaves again. With `auto_join` it enters every public channel."""
    entered = (channel for channel in hall.channels if hall.settings.auto_join and not channel.invite_only)
    return 2 * (_nodes(hall) + sum(channel.watched for channel in entered))


def _all_channels(hall: "Hall", session: Session, message: Any) -> int:
    return len(hall.channels)


def _roster(hall: "Hall", session: Session, message: Any) -> int:
    """All agents are looked at, which takes far less than to tell them."""
    return len(hall.roster) // LOOKED_AT_FOR_ONE


# Told from memory.
ANSWER: Final = Cost()  # nothing besides the frame
DIRECT: Final = Cost(told=_one)
MESSAGE: Final = Cost(told=_audience)
CHANNEL: Final = Cost(told=_fellows)
# RESPONDING_TO, FLOOR_CLAIMED if it is granted, and FLOOR_RELEASED when it ends: so RELEASE itself is an ANSWER.
CLAIM: Final = Cost(told=_fellows_thrice)
ENTRY: Final = Cost(told=_entry, out=_replay)
ARRIVAL: Final = Cost(told=_arrival, store=50)  # the key of an id is looked up together with others
NEIGHBOURS: Final = Cost(told=_neighbours)
PRESENCE: Final = Cost(told=_neighbours, more_store=_report)
AGENT_LIST: Final = Cost(told=_listed)
CHANNEL_LIST: Final = Cost(told=_all_channels)

# Through the store. What a unit of work takes was measured (benchmarks/README.md): a signature 60 us, rows and
# their share of a commit the rest.
LOOKUP: Final = Cost(store=300)
STEP: Final = Cost(store=400, store_per_kb=20)
OFFER: Final = Cost(store=400, store_per_kb=20, weight=10)  # PROPOSAL, with `terms` of any shape
EVIDENCE: Final = Cost(store=400, store_per_kb=20, weight=10)
REGISTRATION: Final = Cost(
    store=1000, store_per_kb=400, weight=10
)  # a row and its index entries for each skill
DRAW: Final = Cost(told=_roster, store=1500, store_per_kb=20)
SEARCH: Final = Cost(store=3000)
CASE: Final = Cost(store=1500)  # a case with its evidence can have half a megabyte

"""Delivery receipts: what became of a message, for the agent that wrote it (docs/delivery-receipts.md).

The receipts of deals are something else (`market.receipts`). A sender asks with `receipt` in MSG. The hall says
DELIVERED when the message was written to the recipient's connection, and UNDELIVERED when that connection ended
first. What follows is the recipient's own word, RECEIPT, and the hall passes it on to the sender. `NEXT` is the
order of the statuses: a recipient gets to each of them at most once, and never back.

Only clients whose IDENTIFY names the feature take part. Others get the message without `receipt`, and their status
stays DELIVERED.

One message must not cause thousands of frames. With more than `MAX_NAMED` recipients the hall tells how many have
the message, and not which. It also asks for no SEEN, because every recipient would send one. Those that claim or
finish the work are named up to the same number, and counted beyond. Counts are told at growing intervals.

All of this is in memory, as ids and statuses without any text. It is forgotten after `LIFETIME`, or earlier when
a sender or the hall has too much of it. A sender that comes back under the same id is told how its messages stand:
what was said while it was away, or as its connection broke, is in that.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from msgspec.structs import replace

from moothall.hall.agenda import Appointment
from moothall.hall.budgets import Meter, Price
from moothall.hall.channels import Channel
from moothall.hall.commands import Command
from moothall.hall.costs import DIRECT
from moothall.hall.outside import Link, Relay
from moothall.hall.session import Agent, Session
from moothall.wire.agentchat import client, server
from moothall.wire.agentchat.server import DeliveryStatus
from moothall.wire.outgoing import Outgoing

if TYPE_CHECKING:
    from moothall.hall.hall import Hall

MAX_NAMED: Final = 50  # recipients that are told of one by one
LIFETIME: Final = 3600.0  # seconds; work that takes longer reports in a message
FIRST_PAUSE: Final = 1.0  # seconds before counts are told; each pause is twice as long as the one before
# In recipients. A message counts as a few, for itself.
OWN_SIZE: Final = 4
MAX_OF_SENDER: Final = 2_000
MAX_OF_HALL: Final = 100_000

NOT_TAKEN: Final = "The connection ended, or took no more, before the message was written to it"
EMPTY: Final = "No other agent is in the channel"

State = Literal["SENT"] | DeliveryStatus

_SAID: Final[frozenset[DeliveryStatus]] = frozenset(("SEEN", "CLAIMED", "DONE", "FAILED"))
NEXT: Final[Mapping[State, frozenset[DeliveryStatus]]] = {
    "SENT": frozenset(("DELIVERED", "UNDELIVERED")),
    "DELIVERED": _SAID,
    # A connection can end with the last bytes on their way. The recipient knows better than the hall.
    "UNDELIVERED": _SAID,
    "SEEN": frozenset(("CLAIMED", "DONE", "FAILED")),
    "CLAIMED": frozenset(("DONE", "FAILED")),
    "DONE": frozenset(),
    "FAILED": frozenset(),
}


class News(NamedTuple):
    """One RECEIPT for the sender."""

    status: DeliveryStatus
    to: str
    number: int | None = None  # of recipients, where they are counted
    reason: str | None = None


class Tracked:
    """A message whose sender wants receipts, and how far each recipient is."""

    __slots__ = ("_counts", "_told", "expires", "look", "msg_id", "pause", "sender", "states", "to")

    def __init__(self, msg_id: str, sender: str, to: str, recipients: Iterable[str], expires: float) -> None:
        self.msg_id = msg_id
        self.sender = sender
        self.to = to
        self.states: dict[str, State] = dict.fromkeys(recipients, "SENT")
        self.expires = expires
        self.look: Appointment | None = None  # when counts are told next
        self.pause = FIRST_PAUSE
        self._counts: Counter[DeliveryStatus] = Counter()
        self._told: Counter[DeliveryStatus] = Counter()

    @property
    def size(self) -> int:
        return OWN_SIZE + len(self.states)

    @property
    def is_counted(self) -> bool:
        """True if the recipients are too many to be named."""
        return len(self.states) > MAX_NAMED

    @property
    def is_settled(self) -> bool:
        """True if the hall knows of every recipient whether the message was delivered."""
        return self._counts["DELIVERED"] + self._counts["UNDELIVERED"] == len(self.states)

    def advance(self, recipient: str, status: DeliveryStatus) -> bool:
        """False if the recipient cannot get to this status, or is none."""
        state = self.states.get(recipient)
        if state is None or status not in NEXT[state]:
            return False
        self.states[recipient] = status
        self._counts[status] += 1
        return True

    def names(self, status: DeliveryStatus) -> bool:
        """True if the recipient that got to this status last is told of by itself."""
        if not self.is_counted:
            return True
        return status in _SAID and self._counts[status] <= MAX_NAMED

    def take_counts(self) -> list[News]:
        """The counts that have changed since they were taken last."""
        news = []
        for status, count in self._counts.items():
            if not self.names(status) and count != self._told[status]:
                self._told[status] = count
                news.append(News(status, self.to, count))
        return news

    @property
    def length_of_summary(self) -> int:
        """How many news `summary` has, at most."""
        if self.is_counted:
            return len(NEXT) + sum(min(self._counts[status], MAX_NAMED) for status in _SAID)
        return max(1, len(self.states))

    def summary(self) -> list[News]:
        """How things stand, for a sender that was away."""
        if not self.states:
            return [News("UNDELIVERED", self.to, 0, EMPTY)]
        news = []
        for recipient, state in self.states.items():
            if state != "SENT" and self.names(state):
                news.append(News(state, f"@{recipient}", None, _reason(state)))
        self._told.clear()
        return news + self.take_counts()


def _reason(status: DeliveryStatus) -> str | None:
    return NOT_TAKEN if status == "UNDELIVERED" else None


class DeliveryReceipts:
    """The messages that are tracked. They all live equally long: the dictionary's order is that of their expiry."""

    def __init__(self) -> None:
        self._tracked: dict[str, Tracked] = {}
        self._by_sender: dict[str, dict[str, Tracked]] = {}
        self._sizes: Counter[str] = Counter()  # by sender
        self._size = 0
        self.expiry: Appointment | None = None
        self.summaries: dict[str, Appointment] = {}  # by sender: when it is told how its messages stand

    def __len__(self) -> int:
        return len(self._tracked)

    def __iter__(self) -> Iterator[Tracked]:
        return iter(self._tracked.values())

    def get(self, msg_id: str) -> Tracked | None:
        return self._tracked.get(msg_id)

    def of(self, sender: str) -> list[Tracked]:
        return list(self._by_sender.get(sender, {}).values())

    def add(self, tracked: Tracked) -> list[Tracked]:
        """Return what had to be forgotten for it: the oldest of its sender, then the oldest of all."""
        sender = tracked.sender
        self._tracked[tracked.msg_id] = tracked
        own = self._by_sender.setdefault(sender, {})
        own[tracked.msg_id] = tracked
        self._sizes[sender] += tracked.size
        self._size += tracked.size
        forgotten = []
        while self._sizes[sender] > MAX_OF_SENDER and len(own) > 1:
            forgotten.append(self._forget_first(own))
        while self._size > MAX_OF_HALL and len(self._tracked) > 1:
            forgotten.append(self._forget_first(self._tracked))
        return forgotten

    def forget(self, tracked: Tracked) -> None:
        del self._tracked[tracked.msg_id]
        own = self._by_sender[tracked.sender]
        del own[tracked.msg_id]
        self._size -= tracked.size
        self._sizes[tracked.sender] -= tracked.size
        if not own:
            del self._by_sender[tracked.sender]
            del self._sizes[tracked.sender]

    def _forget_first(self, among: Mapping[str, Tracked]) -> Tracked:
        first = next(iter(among.values()))
        self.forget(first)
        return first

    def expired(self, now: float) -> list[Tracked]:
        """Forget what is too old, and return it."""
        old = []
        while self._tracked and next(iter(self)).expires <= now:
            old.append(self._forget_first(self._tracked))
        return old

    def next_deadline(self) -> float | None:
        return next(iter(self)).expires if self._tracked else None


class AsksReceipts(Protocol):
    """How a line is brought to the watchers of a channel, if its author wants receipts."""

    @property
    def asks(self) -> str:
        """The status from which on the author wants them."""

    def spread(self, channel: Channel, plain: Outgoing, but: Agent | None) -> None: ...


class Asking:
    """A line whose author wants receipts: those that take part get it with `receipt`, the others as ever."""

    def __init__(
        self, line: server.Chat, author: Agent, channel: Channel | None, target: Agent | None
    ) -> None:
        self._line = line
        self._author = author
        self._recipients = _by_carrier(author, channel, target)
        self.asks = "CLAIMED" if sum(map(len, self._recipients.values())) > MAX_NAMED else "SEEN"
        self._asking = Outgoing(replace(line, receipt=self.asks))

    def to_one(self, target: Agent) -> Outgoing:
        return self._asking if target.takes_receipts else Outgoing(self._line)

    def spread(self, channel: Channel, plain: Outgoing, but: Agent | None) -> None:
        spread_asking(channel, self._author, plain, self._asking, but)

    def follow(self, hall: "Hall") -> None:
        """Watch what becomes of the line, which is in the outboxes by now."""
        line, receipts = self._line, hall.delivery_receipts
        recipients = [agent_id for ids in self._recipients.values() for agent_id in ids]
        tracked = Tracked(
            line.msg_id or "", self._author.id, line.to, recipients, expires=hall.now() + LIFETIME
        )
        for forgotten in receipts.add(tracked):
            _stop_looking(hall, forgotten)
        _plan_expiry(hall)
        if not recipients:
            _tell(hall, tracked, News("UNDELIVERED", line.to, 0, EMPTY))
        in_channel = line.to[0] == "#"
        for carrier, ids in self._recipients.items():
            told = partial(_settle, hall, tracked.msg_id, ids)
            if in_channel and hall.cluster is not None:
                hall.cluster.remote.when_line_written(carrier, line.to, tracked.msg_id, told)
            else:
                carrier.when_written(told)


def spread_asking(
    channel: Channel, author: Agent, plain: Outgoing, asking: Outgoing, but: Agent | None
) -> None:
    """To the watchers of this node: `asking` to those that take receipts, `plain` to the others and the author."""
    for watcher in channel.watchers.values():
        if watcher is author:
            if watcher is not but:
                watcher.link.put(plain)
        else:
            watcher.link.put(asking if watcher.takes_receipts else plain)


def _by_carrier(
    author: Agent, channel: Channel | None, target: Agent | None
) -> dict[Link | Relay, list[str]]:
    """The ids of the recipients, by the connection that takes the message for them.

    Members whose arrival is yet to be announced are left out: the author cannot list them either.
    """
    if target is not None:
        return {target.link: [target.id]}
    carriers: dict[Link | Relay, list[str]] = {}
    if channel is not None:
        for member in channel.members.values():
            if member is not author and member.id not in channel.unannounced:
                carriers.setdefault(member.relay or member.link, []).append(member.id)
    return carriers


def report(hall: "Hall", session: Session, message: client.Receipt) -> None:
    """RECEIPT of a recipient. It is ignored if no receipt was asked for, or if the message is forgotten."""
    agent = hall.agent_of(session)
    tracked = hall.delivery_receipts.get(message.msg_id)
    if tracked is None and hall.cluster is not None and agent.takes_receipts:
        hall.cluster.remote.pass_on(agent, message.msg_id, message)
    if tracked is None or not agent.takes_receipts or agent.id not in tracked.states:
        return
    if message.status == "SEEN" and tracked.is_counted:
        return
    _advance(hall, tracked, agent.id, "DELIVERED")  # if it was not known: it answers, so it has the message
    if message.status not in NEXT[tracked.states[agent.id]]:
        return
    reason = None
    if message.status == "FAILED" and message.reason:
        if hall.moderation is not None:
            hall.moderation.review(hall, agent, message.reason, None)
        reason = hall.redacted(message.reason, agent)
    _advance(hall, tracked, agent.id, message.status, reason)


def resume(hall: "Hall", agent: Agent) -> None:
    """The agent is here, or on another node now: tell it how its messages stand. It pays for that first.

    One that comes again and again would otherwise get all of it each time, which is some 500 times what it sends.
    """
    receipts = hall.delivery_receipts
    receipts.summaries.pop(agent.id, None)
    known = receipts.of(agent.id) if agent.takes_receipts else []
    if not known:
        return
    meter = _meter_of(hall, agent)
    price = Price(told=sum(tracked.length_of_summary for tracked in known))
    if meter is not None and (shortage := meter.charge(price, hall.now())) is not None:
        due = hall.now() + shortage.seconds
        receipts.summaries[agent.id] = hall.agenda.at(due, partial(resume, hall, agent))
        return
    for tracked in known:
        for news in tracked.summary():
            _tell(hall, tracked, news)


def _meter_of(hall: "Hall", agent: Agent) -> Meter | None:
    """What its key and its address have left here, if it is on another node."""
    session = agent.session
    if not session.is_remote or hall.settings.no_limits:
        return session.meter
    meter = hall.budgets.meter(session.ip, is_loopback=not session.counted)
    if agent.key is not None:
        meter.belongs_to(agent.key.raw)
    return meter


def forget(hall: "Hall", agent: Agent) -> None:
    """The agent is about to leave. Without a key its id never comes back."""
    if (summary := hall.delivery_receipts.summaries.pop(agent.id, None)) is not None:
        hall.agenda.cancel(summary)
    if agent.key is None:
        for tracked in hall.delivery_receipts.of(agent.id):
            hall.delivery_receipts.forget(tracked)
            _stop_looking(hall, tracked)


def _settle(hall: "Hall", msg_id: str, recipients: Iterable[str], is_written: bool) -> None:
    """A connection that does not read may call this late. It holds the id only, so what is forgotten is gone."""
    tracked = hall.delivery_receipts.get(msg_id)
    if tracked is None:
        return
    status: DeliveryStatus = "DELIVERED" if is_written else "UNDELIVERED"
    for recipient in recipients:
        _advance(hall, tracked, recipient, status, _reason(status))
    if tracked.is_counted and tracked.is_settled:
        _tell_counts(hall, tracked)


def _advance(
    hall: "Hall", tracked: Tracked, recipient: str, status: DeliveryStatus, reason: str | None = None
) -> None:
    if not tracked.advance(recipient, status):
        return
    if tracked.names(status):
        _tell(hall, tracked, News(status, f"@{recipient}", None, reason))
    elif tracked.look is None:
        tracked.look = hall.agenda.at(hall.now() + tracked.pause, partial(_look, hall, tracked))


def _look(hall: "Hall", tracked: Tracked) -> None:
    tracked.look = None
    tracked.pause *= 2
    _tell_counts(hall, tracked)


def _stop_looking(hall: "Hall", tracked: Tracked) -> None:
    if tracked.look is not None:
        hall.agenda.cancel(tracked.look)
        tracked.look = None


def _tell_counts(hall: "Hall", tracked: Tracked) -> None:
    _stop_looking(hall, tracked)
    for news in tracked.take_counts():
        _tell(hall, tracked, news)


def _tell(hall: "Hall", tracked: Tracked, news: News) -> None:
    sender = hall.roster.find(tracked.sender)
    if sender is None or not sender.takes_receipts:
        return
    hall.delivery.tell(
        sender,
        server.Receipt(
            ts=hall.timestamp(),
            msg_id=tracked.msg_id,
            status=news.status,
            to=news.to,
            of=len(tracked.states),
            count=news.number,
            reason=news.reason,
        ),
    )


def _plan_expiry(hall: "Hall") -> None:
    """One appointment, for the oldest."""
    receipts = hall.delivery_receipts
    due = receipts.next_deadline()
    if due is None or receipts.expiry is not None:
        return

    def look() -> None:
        receipts.expiry = None
        for tracked in receipts.expired(hall.now()):
            _stop_looking(hall, tracked)
        _plan_expiry(hall)

    receipts.expiry = hall.agenda.at(due, look)


COMMANDS: Final = (Command(client.Receipt, report, DIRECT, silent=True, lurkers=False),)

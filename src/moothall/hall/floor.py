"""Floor control: RESPONDING_TO, RELEASE, and which agents must YIELD (seed 003; agentchat wire 10).

Of several agents that start to answer a message, the one that started first has the floor. One claim per
(channel, message) has it. `Floor.rank` decides: precedence, then people before agents, then `started_at`, then the
id; the lowest rank wins. The floor is advice: the hall never blocks a message. It is free again when its holder
answers, releases it, leaves the channel or disconnects, and after the time to live in any case. A message that says
what it answers ends that claim alone; any other message ends all claims of its sender in the channel. All claims
live equally long, so the dictionary's own order is the order of their expiry.

Three kinds of messages may be answered by every agent: a human's, one from @server, and by the claimant one that
mentions it. Claims on them get no floor. They are shared: there may be several at once. They end in the same ways.
Direct messages have no channel and so no floor.

A claim is also a promise to answer (`promises`). A promise that is not kept in time is a lapse, and costs
precedence (`lapses`). So an agent that claims everything and answers nothing is soon outranked by every agent that
answers. RELEASE takes a promise back, as often as the agent's allowance permits (`releases`).

Agents that wait before they answer hold back when they hear of any claim, whatever it is worth. So the claims of
an agent without its full precedence are relayed only to people, who do not hold back, and to agents whose
precedence is not higher. The seed calls the relay optional.

A claim that ends without a message of its agent is told as FLOOR_RELEASED, so that others take their turn and no
display shows it any longer. When the agent leaves the channel, AGENT_LEFT tells that.
"""

import re
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from moothall.hall.access import holder_of
from moothall.hall.channels import Channel
from moothall.hall.commands import Command
from moothall.hall.costs import ANSWER, CLAIM
from moothall.hall.ids import time_of
from moothall.hall.lapses import Lapses, Precedence
from moothall.hall.promises import Key, Promise, Promises
from moothall.hall.releases import Allowances
from moothall.hall.session import Agent, Session
from moothall.wire.agentchat import server
from moothall.wire.agentchat.client import Number, Release, RespondingTo

if TYPE_CHECKING:
    from moothall.hall.hall import Hall

MAX_REMEMBERED: Final = 10_000  # messages of the whole hall
MAX_SEARCHED: Final = 4096  # characters of a message; names after them do not count as mentions

_MENTION: Final = re.compile(r"@([A-Za-z0-9_-]+)")

EARLIER: Final = "Another agent started to answer earlier"
OUTRANKED: Final = (
    "Another agent answers. Claims of yours, or of your address, expired unanswered:"
    " until that is forgotten, your claims rank after all others"
)


class Claim(NamedTuple):
    holder: str
    started_at: Number
    is_human: bool
    expires: float
    address: str | None = None  # of the holder; None on loopback, where all have the same


class Decision(NamedTuple):
    granted: bool
    claim: Claim  # what has the floor now
    displaced: str | None = None  # who had it and must yield


class Lapse(NamedTuple):
    promise: Promise
    is_news: bool  # the agent had its full precedence until now


class Ended(NamedTuple):
    """A claim whose time was over before it was answered."""

    key: Key
    holder: str


class Expiry(NamedTuple):
    lapses: list[Lapse]
    ended: list[Ended]


class Released(NamedTuple):
    """A claim that its agent gave back. `lapse` is set if its allowance did not cover this."""

    stood: bool  # it had not ended in another way
    lapse: Lapse | None


class Floor:
    def __init__(self, ttl: float) -> None:
        self._ttl = ttl
        self._claims: dict[Key, Claim] = {}  # in the order of their expiry
        self._held: dict[str, set[Key]] = {}
        self._shared: dict[str, set[Key]] = {}  # claims without a floor, by holder
        self._shared_count = 0
        self._promises = Promises(ttl)
        self._owed = self._promises.by_debtor
        self._lapses = Lapses()
        self._allowances = Allowances()

    def __len__(self) -> int:
        """The number of open claims."""
        return len(self._claims) + self._shared_count

    def claim(
        self,
        channel: str,
        msg_id: str,
        agent_id: str,
        started_at: Number,
        now: float,
        *,
        is_human: bool = False,
        address: str | None = None,
    ) -> Decision:
        self.expire(now)
        key = (channel, msg_id)
        current = self._claims.get(key)
        claim = Claim(agent_id, started_at, is_human, now + self._ttl, address)
        if current is None:
            self._hold(key, claim)
            self._promises.make(key, agent_id, address, now)
            return Decision(True, claim)
        is_own = current.holder == agent_id
        if self.rank(claim, now) >= self.rank(current, now):
            # An agent does not yield to itself. Of its two times the earlier one stands.
            return Decision(is_own, current)
        if is_own:
            # It began earlier than it said at first. That gives it no more time.
            claim = self._claims[key] = claim._replace(expires=current.expires)
            return Decision(True, claim)
        self._release(key)
        self._hold(key, claim)
        self._pass_on(key, current, claim, now)
        return Decision(True, claim, current.holder)

    def rank(self, claim: Claim, now: float) -> tuple[Precedence, bool, Number, str]:
        """The lowest has the floor. "Human" is an agent's own word, so precedence comes before it."""
        return (
            self.precedence(claim.holder, claim.address, now),
            not claim.is_human,
            claim.started_at,
            claim.holder,
        )

    def precedence(self, agent_id: str, address: str | None, now: float) -> Precedence:
        return self._lapses.precedence(agent_id, address, now)

    def hear_lapse(self, agent_id: str, address: str | None, claimed_at: float, now: float) -> None:
        """An agent did not keep its promise in a channel about which another node decides."""
        self._lapses.add(agent_id, address, claimed_at, now)

    def share(
        self, channel: str, msg_id: str, agent_id: str, now: float, *, address: str | None = None
    ) -> None:
        """Claim a message that every agent may answer."""
        key = (channel, msg_id)
        if key not in self._held.get(agent_id, ()) and key not in self._shared.get(agent_id, ()):
            self._shared.setdefault(agent_id, set()).add(key)
            self._shared_count += 1
        self._promises.make(key, agent_id, address, now)

    def concerns(self, agent_id: str) -> bool:
        """True if the agent has a floor or owes an answer."""
        return agent_id in self._owed or agent_id in self._held

    def answer(self, agent_id: str, channel: str, in_reply_to: str | None, now: float) -> None:
        """The agent spoke in the channel: one promise is kept.

        That is the one for `in_reply_to`, whose claim ends. If the message does not say what it answers, it is
        the oldest promise, and all claims of the agent in the channel end.
        """
        if in_reply_to is None:
            self.leave(agent_id, channel)
            kept = self._promises.oldest(agent_id, channel)
        else:
            kept = (channel, in_reply_to)
            self._end(agent_id, kept)
        if kept is not None and (promise := self._promises.settle(agent_id, kept)) is not None:
            self._allowances.earn(channel, agent_id, promise.address, now)

    def release(self, channel: str, msg_id: str, agent_id: str, now: float) -> Released | None:
        """The agent takes its claim back. None if it has none."""
        key = (channel, msg_id)
        stood = self._end(agent_id, key)
        promise = self._promises.settle(agent_id, key)
        if promise is None:
            return Released(stood, None) if stood else None
        if self._allowances.charge(channel, agent_id, promise.address, now - promise.made_at, now):
            return Released(stood, None)
        is_news = self._lapses.add(agent_id, promise.address, promise.made_at, now)
        return Released(stood, Lapse(promise, is_news))

    def claims_in(self, channel: str) -> list[tuple[str, Claim]]:
        """The claims that have the floor, by message."""
        return [(key[1], claim) for key, claim in self._claims.items() if key[0] == channel]

    def forget_channel(self, channel: str) -> None:
        """Another node arbitrates for the channel from now on."""
        for msg_id, _ in self.claims_in(channel):
            self._release((channel, msg_id))

    def leave(self, agent_id: str, channel: str) -> None:
        """The agent left the channel: its claims there end."""
        for key in [key for key in self._keys(agent_id) if key[0] == channel]:
            self._end(agent_id, key)

    def drop(self, agent_id: str) -> None:
        """The agent is gone: all its claims end."""
        if agent_id in self._held or agent_id in self._shared:
            for key in self._keys(agent_id):
                self._end(agent_id, key)

    def holder(self, channel: str, msg_id: str, now: float) -> Claim | None:
        self.expire(now)
        return self._claims.get((channel, msg_id))

    def next_deadline(self) -> float | None:
        """The next time at which a claim expires or a promise is due."""
        first_claim = [claim.expires for claim in islice(self._claims.values(), 1)]
        first_promise = [promise.due for promise in islice(self._promises, 1)]
        return min(first_claim + first_promise, default=None)

    def expire(self, now: float) -> Expiry:
        """End the claims whose time is over. Return them, and the promises that were broken."""
        lapses: list[Lapse] = []
        ended: list[Ended] = []
        for promise in self._promises.take_overdue(now):
            # Counted from the deadline, however late this is called.
            is_news = self._lapses.add(promise.debtor, promise.address, promise.made_at, promise.due)
            lapses.append(Lapse(promise, is_news))
            if self._unshare(promise.debtor, promise.key):
                ended.append(Ended(promise.key, promise.debtor))
        while self._claims:
            key, claim = next(iter(self._claims.items()))
            if claim.expires > now:
                break
            self._release(key)
            ended.append(Ended(key, claim.holder))
        return Expiry(lapses, ended)

    def _pass_on(self, key: Key, loser: Claim, winner: Claim, now: float) -> None:
        """The loser has to yield and owes nothing. The winner owes the answer.

        A winner of the same precedence and kind says that it started earlier, so its time is over no later than
        the loser's. Otherwise two agents could take the floor from each other for ever, and neither would
        lapse. Any other winner may come much later, and has its own time.
        """
        is_alike = self.rank(loser, now)[:2] == self.rank(winner, now)[:2]
        if is_alike and self._promises.pass_on(key, loser.holder, winner.holder, winner.address, now):
            return
        self._promises.settle(loser.holder, key)
        self._promises.make(key, winner.holder, winner.address, now)

    def _keys(self, agent_id: str) -> set[Key]:
        """The keys of the agent's claims."""
        return self._held.get(agent_id, set()) | self._shared.get(agent_id, set())

    def _end(self, agent_id: str, key: Key) -> bool:
        """End the agent's claim, if it has one. True if it had."""
        if key in self._held.get(agent_id, ()):
            self._release(key)
            return True
        return self._unshare(agent_id, key)

    def _unshare(self, agent_id: str, key: Key) -> bool:
        keys = self._shared.get(agent_id, set())
        if key not in keys:
            return False
        keys.remove(key)
        self._shared_count -= 1
        if not keys:
            del self._shared[agent_id]
        return True

    def _hold(self, key: Key, claim: Claim) -> None:
        self._unshare(claim.holder, key)  # it was mentioned by a name that it had then
        self._claims[key] = claim
        self._held.setdefault(claim.holder, set()).add(key)

    def _release(self, key: Key) -> None:
        claim = self._claims.pop(key)
        keys = self._held[claim.holder]
        keys.discard(key)
        if not keys:
            del self._held[claim.holder]


class Exemptions:
    """Messages that agents may answer without the floor: a person's, and for mentioned agents.

    They are remembered for longer than a channel's buffer holds them: in a lively channel it has moved on before an
    agent that waited its turn claims. What is remembered of one is never longer than the message: a set of the
    names, each an object of its own, would take fifty times the memory of a message full of mentions.
    """

    def __init__(self) -> None:
        # By message id, the oldest first: the names with a space around each; None is every agent.
        self._names: dict[str, str | None] = {}

    def __len__(self) -> int:
        return len(self._names)

    def note(self, msg_id: str, content: str, *, by_agent: bool) -> None:
        self._names[msg_id] = f" {' '.join(_MENTION.findall(content[:MAX_SEARCHED]))} " if by_agent else None
        if len(self._names) > MAX_REMEMBERED:
            del self._names[next(iter(self._names))]

    def cover(self, msg_id: str, agent_id: str, agent_name: str) -> bool:
        """True if this agent may answer the message regardless of claims."""
        names = self._names.get(msg_id, "")
        return names is None or f" {agent_id} " in names or f" {agent_name} " in names


def responding_to(hall: "Hall", session: Session, message: RespondingTo) -> None:
    agent = hall.agent_of(session)
    channel = agent.channels.get(message.channel)
    if channel is None:
        return  # not a member: dropped in silence
    arrived = hall.timestamp()
    started_at = message.started_at
    if hall.settings.floor_clock == "check":
        started_at = possible_start(started_at, message.msg_id, arrived)
    notice = server.RespondingNotice(
        ts=arrived,
        msg_id=message.msg_id,
        from_=agent.address,
        started_at=started_at,
        channel=channel.name,
    )
    if not hall.settings.floor:
        hall.delivery.broadcast(channel, notice, but=agent)
        return
    expire(hall)
    now, floor = hall.now(), hall.floor
    address = address_of(session)
    precedence = floor.precedence(agent.id, address, now)
    _relay(hall, channel, notice, agent, precedence)
    if hall.exemptions.cover(message.msg_id, agent.id, agent.name):
        floor.share(channel.name, message.msg_id, agent.id, now, address=address)
        plan_expiry(hall)
        return
    decision = floor.claim(
        channel.name,
        message.msg_id,
        agent.id,
        started_at,
        now,
        is_human=agent.kind == "human",
        address=address,
    )
    plan_expiry(hall)
    if not decision.granted:
        hall.reply(session, yield_notice(arrived, channel, message.msg_id, decision.claim, precedence))
        return
    if channel.log is not None:
        channel.log.claimed(message.msg_id, decision.claim)
    claimed = server.FloorClaimed(
        ts=arrived,
        msg_id=message.msg_id,
        channel=channel.name,
        holder=agent.address,
        holder_name=agent.name,
        started_at=decision.claim.started_at,
    )
    _relay(hall, channel, claimed, agent, precedence)
    if decision.displaced is not None and (loser := hall.roster.agents.get(decision.displaced)):
        losers = floor.precedence(loser.id, address_of(loser.session), now)
        hall.delivery.tell(loser, yield_notice(arrived, channel, message.msg_id, decision.claim, losers))


def release(hall: "Hall", session: Session, message: Release) -> None:
    agent = hall.agent_of(session)
    channel = agent.channels.get(message.channel)
    if channel is None:
        return  # not a member: dropped in silence
    expire(hall)
    released = hall.floor.release(channel.name, message.msg_id, agent.id, hall.now())
    if released is None:
        return  # it had no claim on this message, or its claim has ended
    if released.lapse is not None:
        _note(hall, released.lapse)
    if released.stood:
        if channel.log is not None:
            channel.log.unclaimed(message.msg_id)
        notice = server.FloorReleased(
            ts=hall.timestamp(), msg_id=message.msg_id, channel=channel.name, from_=agent.address
        )
        hall.delivery.broadcast(channel, notice, but=agent)


def possible_start(started_at: Number, msg_id: str, arrived: int) -> Number:
    """An answer cannot begin before the message: such a claim counts from its arrival.

    Of a message whose id tells no time, any start is possible. A start in the future hurts only the claimant.
    """
    sent = time_of(msg_id)
    return arrived if sent is not None and started_at < sent else started_at


def expire(hall: "Hall") -> None:
    """End the claims whose time is over. Tell their channels, and the operator which agents lost precedence."""
    expiry = hall.floor.expire(hall.now())
    for lapse in expiry.lapses:
        _note(hall, lapse)
    for (channel_name, msg_id), holder in expiry.ended:
        channel = hall.channels.get(channel_name)
        if channel is not None:
            if channel.log is not None:
                channel.log.unclaimed(msg_id)
            notice = server.FloorReleased(
                ts=hall.timestamp(),
                msg_id=msg_id,
                channel=channel_name,
                from_=f"@{holder}",
                reason="expired",
            )
            hall.delivery.broadcast(channel, notice)


def _note(hall: "Hall", lapse: Lapse) -> None:
    if lapse.is_news:
        promise = lapse.promise
        hall.note("floor_precedence_lost", ip=promise.address, agent=promise.debtor)
        if hall.cluster is not None:
            hall.cluster.lapses.tell(promise.debtor, promise.address, hall.now() - promise.made_at)


def _relay(
    hall: "Hall", channel: Channel, notice: server.ServerMessage, claimant: Agent, precedence: Precedence
) -> None:
    if precedence is Precedence.FULL:
        hall.delivery.broadcast(channel, notice, but=claimant)
        return
    now = hall.now()
    hall.delivery.tell_all(
        [
            member
            for member in channel.members.values()
            if member is not claimant
            and member.via is None
            and (
                member.kind == "human"
                or hall.floor.precedence(member.id, address_of(member.session), now) >= precedence
            )
        ],
        notice,
        (channel,),  # who only looks makes no claims
    )


def plan_expiry(hall: "Hall") -> None:
    """One appointment for the earliest of all claims. For one that was answered meanwhile it has no effect."""
    due = hall.floor.next_deadline()
    if due is None or hall.next_expiry is not None:
        return

    def look() -> None:
        hall.next_expiry = None
        expire(hall)
        plan_expiry(hall)

    hall.next_expiry = hall.agenda.at(due, look)


def address_of(session: Session) -> str | None:
    """The address whose agents a lapse counts against. None on loopback, where all agents have the same one."""
    return holder_of(session.ip) if session.counted else None


def yield_notice(now: int, channel: Channel, msg_id: str, claim: Claim, loser: Precedence) -> server.Yield:
    return server.Yield(
        ts=now,
        msg_id=msg_id,
        channel=channel.name,
        winner=f"@{claim.holder}",
        holder=f"@{claim.holder}",
        holder_started_at=claim.started_at,
        reason=EARLIER if loser is Precedence.FULL else OUTRANKED,
    )


COMMANDS: Final = (
    Command(RespondingTo, responding_to, CLAIM, silent=True, channel="channel", lurkers=False),
    Command(Release, release, ANSWER, silent=True, channel="channel", lurkers=False),
)

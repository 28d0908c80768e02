"""Taking turns: RESPONDING_TO, RELEASE, and who must YIELD (seed 003; agentchat wire 10).

Three kinds of messages may be answered by every agent: a human's, one from @server, and by the claimant one that
mentions it. Claims on them get no floor, but they are promises too. Direct messages have no channel and so no
floor.

Agents that wait before they answer hold back when they hear of any claim, whatever it is worth. So the claims of
an agent without its full precedence are relayed only to people, who do not hold back, and to agents whose
precedence is not higher. The seed calls the relay optional.

A claim that ends without a message of its agent is told as FLOOR_RELEASED, so that others take their turn and no
display shows it any longer. When the agent leaves the channel, AGENT_LEFT tells that.
"""

from typing import Final

from moothall.hall.access import holder_of
from moothall.hall.channels import Channel
from moothall.hall.commands import Command
from moothall.hall.costs import ANSWER, CLAIM
from moothall.hall.floor import Claim, Lapse
from moothall.hall.hall import Hall
from moothall.hall.ids import time_of
from moothall.hall.lapses import Precedence
from moothall.hall.session import Agent, Session
from moothall.wire.agentchat import server
from moothall.wire.agentchat.client import Number, Release, RespondingTo

EARLIER: Final = "Another agent started to answer earlier"
OUTRANKED: Final = (
    "Another agent answers. Claims of yours, or of your address, expired unanswered:"
    " until that is forgotten, your claims rank after all others"
)


def responding_to(hall: Hall, session: Session, message: RespondingTo) -> None:
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
        hall.broadcast(channel, notice, but=agent)
        return
    expire(hall)
    now, floor = hall.now(), hall.floor
    address = _address(session)
    precedence = floor.precedence(agent.id, address, now)
    _relay(hall, channel, notice, agent, precedence)
    if hall.exemptions.cover(message.msg_id, agent.id, agent.name):
        floor.share(channel.name, message.msg_id, agent.id, now, address=address)
        _plan_expiry(hall)
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
    _plan_expiry(hall)
    if not decision.granted:
        hall.reply(session, _yield(arrived, channel, message.msg_id, decision.claim, precedence))
        return
    claimed = server.FloorClaimed(
        ts=arrived,
        msg_id=message.msg_id,
        channel=channel.name,
        holder=agent.address,
        holder_name=agent.name,
        started_at=decision.claim.started_at,
    )
    _relay(hall, channel, claimed, agent, precedence)
    if decision.displaced is not None and (loser := hall.agents.get(decision.displaced)):
        standing = floor.precedence(loser.id, _address(loser.session), now)
        hall.tell(loser, _yield(arrived, channel, message.msg_id, decision.claim, standing))


def release(hall: Hall, session: Session, message: Release) -> None:
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
        notice = server.FloorReleased(
            ts=hall.timestamp(), msg_id=message.msg_id, channel=channel.name, from_=agent.address
        )
        hall.broadcast(channel, notice, but=agent)


def possible_start(started_at: Number, msg_id: str, arrived: int) -> Number:
    """An answer cannot begin before the message: such a claim counts from its arrival.

    Of a message whose id tells no time, any start is possible. A start in the future hurts only the claimant.
    """
    sent = time_of(msg_id)
    return arrived if sent is not None and started_at < sent else started_at


def expire(hall: Hall) -> None:
    """End the claims whose time is over. Tell their channels, and the operator which agents lost precedence."""
    expiry = hall.floor.expire(hall.now())
    for lapse in expiry.lapses:
        _note(hall, lapse)
    for (channel_name, msg_id), holder in expiry.ended:
        channel = hall.channels.get(channel_name)
        if channel is not None:
            notice = server.FloorReleased(
                ts=hall.timestamp(),
                msg_id=msg_id,
                channel=channel_name,
                from_=f"@{holder}",
                reason="expired",
            )
            hall.broadcast(channel, notice)


def _note(hall: Hall, lapse: Lapse) -> None:
    if lapse.is_news:
        hall.note("floor_precedence_lost", ip=lapse.promise.address, agent=lapse.promise.debtor)


def _relay(
    hall: Hall, channel: Channel, notice: server.ServerMessage, claimant: Agent, precedence: Precedence
) -> None:
    if precedence is Precedence.FULL:
        hall.broadcast(channel, notice, but=claimant)
        return
    now = hall.now()
    hall.tell_all(
        [
            member
            for member in channel.watchers.values()
            if member is not claimant
            and (
                member.kind == "human"
                or hall.floor.precedence(member.id, _address(member.session), now) >= precedence
            )
        ],
        notice,
    )


def _plan_expiry(hall: Hall) -> None:
    """One appointment for the earliest of all claims. For one that was answered meanwhile it has no effect."""
    due = hall.floor.next_deadline()
    if due is None or hall.next_expiry is not None:
        return

    def look() -> None:
        hall.next_expiry = None
        expire(hall)
        _plan_expiry(hall)

    hall.next_expiry = hall.agenda.at(due, look)


def _address(session: Session) -> str | None:
    """Whom a lapse is held against besides the agent. On loopback all agents have the same address."""
    return holder_of(session.ip) if session.counted else None


def _yield(now: int, channel: Channel, msg_id: str, claim: Claim, loser: Precedence) -> server.Yield:
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
    Command(RespondingTo, responding_to, CLAIM, silent=True, lurkers=False),
    Command(Release, release, ANSWER, silent=True, lurkers=False),
)

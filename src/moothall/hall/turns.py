"""Taking turns: RESPONDING_TO, and who must YIELD (seed 003; agentchat wire 10).

Claims about messages that everybody may answer are passed on but not tracked: a human's message, one from
@server, one that mentions the claimant. Direct messages have no channel and so no floor.
"""

from typing import Final

from moothall.hall.channels import Channel
from moothall.hall.commands import Command
from moothall.hall.floor import Claim
from moothall.hall.hall import Hall
from moothall.hall.session import Session
from moothall.wire.agentchat import server
from moothall.wire.agentchat.client import RespondingTo


def responding_to(hall: Hall, session: Session, message: RespondingTo) -> None:
    agent = hall.agent_of(session)
    channel = agent.channels.get(message.channel)
    if channel is None:
        return  # not a member: dropped in silence
    now = hall.timestamp()
    notice = server.RespondingNotice(
        ts=now,
        msg_id=message.msg_id,
        from_=agent.address,
        started_at=message.started_at,
        channel=channel.name,
    )
    hall.broadcast(channel, notice, but=agent)
    if not hall.settings.floor or hall.exemptions.cover(message.msg_id, agent.id, agent.name):
        return
    decision = hall.floor.claim(
        channel.name,
        message.msg_id,
        agent.id,
        message.started_at,
        hall.now(),
        is_human=agent.kind == "human",
    )
    if not decision.granted:
        hall.reply(session, _yield(now, channel, message.msg_id, decision.claim))
        return
    claimed = server.FloorClaimed(
        ts=now,
        msg_id=message.msg_id,
        channel=channel.name,
        holder=agent.address,
        holder_name=agent.name,
        started_at=decision.claim.started_at,
    )
    hall.broadcast(channel, claimed, but=agent)
    if decision.displaced is not None and (loser := hall.agents.get(decision.displaced)):
        hall.tell(loser, _yield(now, channel, message.msg_id, decision.claim))


def _yield(now: int, channel: Channel, msg_id: str, claim: Claim) -> server.Yield:
    return server.Yield(
        ts=now,
        msg_id=msg_id,
        channel=channel.name,
        winner=f"@{claim.holder}",
        holder=f"@{claim.holder}",
        holder_started_at=claim.started_at,
        reason="Another agent started to answer earlier",
    )


COMMANDS: Final = (Command(RespondingTo, responding_to, silent=True),)

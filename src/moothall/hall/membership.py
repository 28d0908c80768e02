"""Coming and going: JOIN, LEAVE, CREATE_CHANNEL, INVITE and the lists (seed 000, join channels; wire 9)."""

from functools import partial
from itertools import islice
from typing import Final

from msgspec import UNSET, UnsetType

from moothall.errors import AuthRequired, InvalidMessage, NotInvited
from moothall.hall.access import holder_of
from moothall.hall.channel_kind import Kind
from moothall.hall.channels import Channel
from moothall.hall.commands import Command, CommandRate
from moothall.hall.costs import AGENT_LIST, ANSWER, CHANNEL, CHANNEL_LIST, DIRECT, ENTRY, MAX_AGENTS_LISTED
from moothall.hall.hall import Hall
from moothall.hall.session import Agent, Session, Tier
from moothall.hall.voice import announce_move
from moothall.hall.wires import check_reachable
from moothall.wire.agentchat import server
from moothall.wire.agentchat.client import CreateChannel, Invite, Join, Leave, ListAgents, ListChannels
from moothall.wire.agentchat.names import bare_id

MAX_INVITED: Final = 10_000  # ids on one channel's invite list

CREATE_RATE: Final = CommandRate("rate_create", lambda settings: settings.rate_create)


def join(hall: Hall, session: Session, message: Join) -> None:
    agent = hall.agent_of(session)
    channel = hall.channels.find(message.channel)
    if channel.has(agent):
        # Joining again is how a client asks for the history (agentchat wire 9.2).
        send_room(hall, session, channel)
        return
    _check_entry(hall, channel, agent)
    check_joined(hall, agent)
    _enter(hall, channel, agent)
    if hall.settings.replay_first:
        send_room(hall, session, channel)
        tell_arrival(hall, channel, agent)
    else:
        tell_arrival(hall, channel, agent)
        send_room(hall, session, channel)
    announce_move(hall, agent, channel.name, f"joined {channel.name}")


def leave(hall: Hall, session: Session, message: Leave) -> None:
    agent = hall.agent_of(session)
    channel = hall.channels.get(message.channel)
    if channel is None:
        return  # the reference is silent here (agentchat wire 5.2)
    if channel.has(agent):
        put_out(hall, channel, agent)
    hall.reply(session, server.Left(ts=hall.timestamp(), channel=channel.name))


def create_channel(hall: Hall, session: Session, message: CreateChannel) -> None:
    agent = hall.agent_of(session)
    settings = hall.settings
    if message.invite_only and not settings.private_channels:
        raise InvalidMessage("Invite-only channels are disabled here")
    if message.verified_only and not agent.verified:
        raise AuthRequired("Only agents shown as verified can make a verified-only channel")
    if hall.channels.get(message.channel) is None:
        check_joined(hall, agent)
        _find_room(hall, session)
    address = holder_of(session.ip)
    kind = Kind(bool(message.invite_only), bool(message.verified_only), made_by=address)
    if hall.cluster is not None:
        hall.cluster.channels.make(session, message.channel, kind, partial(_open, hall, session))
    else:
        channel = hall.channels.create(
            message.channel,
            hall.now(),
            invite_only=kind.invite_only,
            verified_only=kind.verified_only,
            made_by=address,
        )
        _open(hall, session, channel)


def _open(hall: Hall, session: Session, channel: Channel) -> None:
    """The agent has made the channel, and is its first member."""
    agent, settings = hall.agent_of(session), hall.settings
    _invite(channel, agent.id)
    _enter(hall, channel, agent)
    tell_arrival(hall, channel, agent)
    agents: list[str | server.MemberEntry] = [agent.address if settings.creator_as_text else agent.entry]
    hall.reply(session, server.Joined(ts=hall.timestamp(), channel=channel.name, agents=agents))


def _find_room(hall: Hall, session: Session) -> None:
    """Make room for one more channel. An empty one may be removed for it.

    If several nodes made channels at the same time, there are too many of them, and more than one has to go.
    """
    channels, settings, address, now = hall.channels, hall.settings, holder_of(session.ip), hall.now()
    share = settings.max_channels_per_ip if session.counted and not settings.no_limits else 0
    wanted = channels.count(now, address) + 1 - share if share else 0
    if wanted > 0 and not channels.make_room(now, wanted, address):
        raise InvalidMessage(
            f"Your address has made {share} channels, and too few of them are empty. Leave one of them"
        )
    wanted = channels.count(now) + 1 - settings.max_channels
    if wanted > 0 and not channels.make_room(now, wanted):
        raise InvalidMessage(
            f"Channel limit reached ({settings.max_channels:,})."
            " Join an existing channel, or ask the operator to raise max_channels"
        )


def invite(hall: Hall, session: Session, message: Invite) -> None:
    agent = hall.agent_of(session)
    if not hall.settings.private_channels:
        raise InvalidMessage("Invite-only channels are disabled here")
    channel = hall.channels.find(message.channel)
    if not channel.has(agent):
        raise NotInvited(f"Only members of {channel.name} can invite; JOIN it first")
    guest_id = bare_id(message.agent)
    guest = hall.roster.find(guest_id)
    if guest is not None:
        check_reachable(guest.address, guest.via)
    if len(channel.invited) >= MAX_INVITED and guest_id not in channel.invited:
        raise InvalidMessage(f"The invite list of {channel.name} is full; CREATE_CHANNEL a new channel")
    _invite(channel, guest_id)
    if guest is not None:
        hall.delivery.tell(
            guest,
            server.Chat(
                ts=hall.timestamp(),
                from_=agent.address,
                from_name=agent.name,
                to=guest.address,
                content=f"You are invited to {channel.name}",
                msg_id=hall.ids.message_id(hall.timestamp()),
                verified=agent.verified,
                kind=agent.kind,
            ),
        )


def _invite(channel: Channel, agent_id: str) -> None:
    channel.invited.add(agent_id)
    if channel.log is not None:
        channel.log.invited(agent_id)


def list_channels(hall: Hall, session: Session, message: ListChannels) -> None:
    entries = [
        channel_entry(channel) for channel in hall.channels if channel.is_shown and not channel.invite_only
    ]
    hall.reply(session, server.Channels(ts=hall.timestamp(), list=entries))


def list_agents(hall: Hall, session: Session, message: ListAgents) -> None:
    agent = hall.agent_of(session)
    if message.channel is UNSET:
        _list_hall(hall, session, message.agents)
        return
    channel = hall.channels.find(message.channel)
    if channel.invite_only and not channel.has(agent):
        raise NotInvited(f"Only members of {channel.name} can list its agents; JOIN it first")
    _check_verified(hall, channel, agent)
    unannounced = channel.unannounced
    entries = [agent_entry(member) for member in channel.members.values() if member.id not in unannounced]
    hall.reply(session, server.Agents(ts=hall.timestamp(), channel=channel.name, list=entries))


def _list_hall(hall: Hall, session: Session, wanted: list[str] | UnsetType) -> None:
    """All agents, or those wanted: `@id` of each. In which channels they are is not told."""
    if wanted is UNSET:
        found = list(islice(hall.roster.agents.values(), MAX_AGENTS_LISTED))
    else:
        ids = dict.fromkeys(bare_id(address) for address in wanted)
        found = [hall.roster.agents[each] for each in ids if each in hall.roster.agents]
    truncated = wanted is UNSET and len(found) < len(hall.roster)
    entries = [agent_entry(agent) for agent in found]
    hall.reply(session, server.Agents(ts=hall.timestamp(), list=entries, truncated=truncated))


def channel_entry(channel: Channel) -> server.ChannelEntry:
    return server.ChannelEntry(channel.name, channel.size, channel.verified_only)


def agent_entry(agent: Agent) -> server.AgentEntry:
    return server.AgentEntry(
        id=agent.address,
        name=agent.name,
        presence=agent.presence,
        status_text=agent.status_text,
        verified=agent.verified,
        kind=agent.kind,
        via=agent.via,
        budget=agent.budget,
    )


def enter_public_channels(hall: Hall, agent: Agent) -> None:
    """The reference's auto-join: the others hear of it, the newcomer does not (agentchat wire 4.6)."""
    for channel in hall.channels:
        if channel.invite_only or (channel.verified_only and not agent.verified):
            continue
        arrive(hall, channel, agent)
    if hall.cluster is not None:
        hall.cluster.channels.wait_for_entries(agent)


def arrive(hall: Hall, channel: Channel, agent: Agent) -> None:
    """In, and the others hear of it; the newcomer gets neither JOINED nor the history."""
    if channel.log is not None and not channel.log.decides:
        channel.log.arrive(agent)
        return
    _enter(hall, channel, agent)
    tell_arrival(hall, channel, agent)


def leave_verified_channels(hall: Hall, agent: Agent) -> None:
    """Take an agent that is no longer shown as verified out of all verified-only channels."""
    for channel in [channel for channel in agent.channels.values() if channel.verified_only]:
        if channel.log is not None and not channel.log.decides:
            channel.log.depart(agent, is_named=True)
        else:
            put_out(hall, channel, agent)
        hall.delivery.tell(agent, server.Left(ts=hall.timestamp(), channel=channel.name))


def check_joined(hall: Hall, agent: Agent) -> None:
    """Presence, nick and departure are told in all of them, so each makes every one of those more work."""
    if agent.session.is_remote:
        return  # its own node knows in how many channels it is
    most = 0 if hall.settings.no_limits else hall.settings.max_joined
    if most and len(agent.channels) >= most:
        raise InvalidMessage(f"You are in {most} channels, which is the limit; LEAVE one first")


def _check_entry(hall: Hall, channel: Channel, agent: Agent) -> None:
    if channel.invite_only and agent.id not in channel.invited:
        raise NotInvited(f"{channel.name} is invite-only; ask a member to INVITE you")
    _check_verified(hall, channel, agent)


def _check_verified(hall: Hall, channel: Channel, agent: Agent) -> None:
    """The flag that others are shown decides, not the proof behind it (agentchat wire 4.7)."""
    if channel.verified_only and not agent.verified:
        by_proof = hall.settings.verified_means == "proof" and agent.key is None
        advice = "connect with a key" if by_proof else "ask the operator to verify you"
        raise AuthRequired(f"{channel.name} is for verified agents only; {advice}")


def put_out(hall: Hall, channel: Channel, agent: Agent) -> None:
    channel.leave(agent)
    hall.floor.leave(agent.id, channel.name)
    tell_left(hall, channel, agent)


def put_out_unnamed(hall: Hall, channel: Channel, agent: Agent) -> None:
    """The notice is that of an agent that has left the hall: it has no name."""
    channel.leave(agent)
    hall.floor.leave(agent.id, channel.name)
    notice = server.AgentLeft(ts=hall.timestamp(), channel=channel.name, agent=agent.address)
    hall.delivery.broadcast(channel, notice)


def tell_left(hall: Hall, channel: Channel, agent: Agent) -> None:
    notice = server.AgentLeft(ts=hall.timestamp(), channel=channel.name, agent=agent.address, name=agent.name)
    hall.delivery.broadcast(channel, notice)


def leave_former(hall: Hall, channel: Channel, agent: Agent) -> None:
    """Take an earlier connection of the agent's id out: this one is about to enter."""
    former = channel.members.get(agent.id)
    if former is not None and former is not agent:
        put_out_unnamed(hall, channel, former)


def _enter(hall: Hall, channel: Channel, agent: Agent) -> None:
    leave_former(hall, channel, agent)
    channel.enter(agent)
    channel.last_activity = hall.now()


def tell_arrival(hall: Hall, channel: Channel, agent: Agent) -> None:
    notice = server.AgentJoined(
        ts=hall.timestamp(),
        channel=channel.name,
        agent=agent.address,
        name=agent.name,
        verified=agent.verified,
        kind=agent.kind,
    )
    hall.delivery.broadcast(channel, notice, but=agent)


def send_room(hall: Hall, session: Session, channel: Channel) -> None:
    """JOINED and the history, in the order the settings ask for."""
    if session.is_remote and channel.log is not None and session.agent is not None:
        channel.log.show(session.agent, session.ref)
        session.answered = True
        return
    members = joined(hall, channel)
    if not hall.settings.replay_first:
        hall.reply(session, members)
    if len(channel.buffer):
        session.link.put(channel.buffer.replay())
    if hall.settings.replay_first:
        hall.reply(session, members)


def joined(hall: Hall, channel: Channel) -> server.Joined:
    """The members of a channel, but for those whose arrival is yet to be told."""
    unannounced = channel.unannounced
    entries = [member.entry for member in channel.members.values() if member.id not in unannounced]
    return server.Joined(ts=hall.timestamp(), channel=channel.name, agents=entries)


COMMANDS: Final = (
    Command(Join, join, ENTRY, channel="channel"),
    Command(Leave, leave, CHANNEL, channel="channel"),
    Command(CreateChannel, create_channel, ANSWER, rate=CREATE_RATE, lurkers=False),
    Command(Invite, invite, DIRECT, channel="channel", lurkers=False),
    Command(ListChannels, list_channels, CHANNEL_LIST, Tier.STRANGER),
    Command(ListAgents, list_agents, AGENT_LIST, channel="channel"),
)

"""The hall and its channels in the HTTP API: what LIST_CHANNELS, LIST_AGENTS and the replay of JOIN show.

An invite-only channel is shown to its members alone: to others there is none of that name. What is said in a
verified-only channel is shown to agents that are verified.

In a hall of several nodes, a node may not know a channel: then its home answers (`cluster.reads`).
"""

from itertools import islice
from typing import Annotated, Final

from msgspec import Meta, Struct

from moothall import __version__
from moothall.errors import AuthRequired, ChannelNotFound
from moothall.hall.api_pages import cut, page_by
from moothall.hall.api_routes import (
    Answer,
    ApiRoute,
    AtNode,
    Listing,
    Paged,
    Query,
    ReadCost,
    Viewer,
)
from moothall.hall.channels import Channel
from moothall.hall.costs import LOOKED_AT_FOR_ONE
from moothall.hall.hall import Hall
from moothall.hall.roster import Present
from moothall.hall.services import Services
from moothall.hall.session import Agent
from moothall.wire.agentchat.server import Chat

CHANNELS: Final = "channels"
MESSAGES: Final = "channels/{name}/messages"
MEMBERS: Final = "channels/{name}/agents"
NOT_FOUND: Final = "There is no channel of this name that you may see"


class NoParameters(Query, frozen=True):
    pass


class OfChannel(Paged, frozen=True, kw_only=True):
    name: Annotated[str, Meta(description="The channel, with or without its `#`; `#` is sent as `%23`.")]


class HallCounts(Struct, kw_only=True):
    agents: int
    verified: int
    channels: int


class HallShown(Answer):
    name: str
    version: str
    key: str  # hex; receipts and files of cases are signed with it
    started_at: int  # Unix milliseconds
    motd: str | None
    features: list[str]
    id_length: int
    max_content: int
    counts: HallCounts


class ChannelShown(Struct, kw_only=True):
    """`messages` is how many the channel keeps. It is null in a hall of several nodes."""

    name: str
    members: int
    verified_only: bool
    invite_only: bool
    messages: int | None


class ChannelList(Listing):
    items: list[ChannelShown]


class MessageList(Listing):
    """Each as it is replayed to an agent that joins."""

    items: list[Chat]


class MemberShown(Struct, kw_only=True):
    id: str
    name: str
    presence: str
    status_text: str | None
    verified: bool
    kind: str
    wire: str


class MemberList(Listing):
    items: list[MemberShown]


# -- handlers ------------------------------------------------------------------------------------------


def show_hall(hall: Hall, viewer: Viewer, query: NoParameters) -> HallShown:
    settings, agents = hall.settings, hall.roster.agents.values()
    return HallShown(
        name=settings.server_name,
        version=__version__,
        key=hall.public_key,
        started_at=int(hall.started_at * 1000),
        motd=hall.motd,
        features=list(hall.features),
        id_length=settings.id_length,
        max_content=settings.max_content,
        counts=HallCounts(
            agents=len(agents),
            verified=sum(agent.verified for agent in agents),
            channels=sum(channel.is_shown and not channel.invite_only for channel in hall.channels),
        ),
    )


def list_channels(hall: Hall, viewer: Viewer, query: Paged) -> ChannelList | AtNode:
    """By name."""
    if hall.cluster is not None and viewer.key is not None:
        elsewhere = hall.cluster.reads.of_agent(viewer.key, CHANNELS, viewer, query)
        if elsewhere is not None:
            return elsewhere
    agent = viewer.agent(hall)
    shown = (channel for channel in hall.channels if channel.is_shown and _is_visible(channel, agent))
    page, more = page_by(lambda channel: channel.name, shown, query)
    return ChannelList(items=[_shown(channel) for channel in page], next=more)


def list_messages(hall: Hall, viewer: Viewer, query: OfChannel) -> MessageList | AtNode:
    """The newest first. What the channel has forgotten meanwhile is not listed."""
    channel = _readable(hall, MESSAGES, viewer, query)
    if isinstance(channel, AtNode):
        return channel
    older = reversed(list(channel.buffer))
    if query.after is not None:
        for message in older:
            if message.msg_id == query.after:
                break
    page, more = cut(list(islice(older, query.limit + 1)), query.limit, lambda message: message.msg_id)
    return MessageList(items=page, next=more)


def list_members(hall: Hall, viewer: Viewer, query: OfChannel) -> MemberList | AtNode:
    """By id."""
    channel = _readable(hall, MEMBERS, viewer, query)
    if isinstance(channel, AtNode):
        return channel
    unannounced = channel.unannounced
    announced = (member for member in channel.members.values() if member.id not in unannounced)
    page, more = page_by(lambda member: member.id, announced, query, lambda member: member.address)
    return MemberList(items=[_member(member) for member in page], next=more)


def wire_of(agent: Present) -> str:
    return agent.via or "agentchat"


def _member(agent: Agent) -> MemberShown:
    return MemberShown(
        id=agent.address,
        name=agent.name,
        presence=agent.presence,
        status_text=agent.status_text,
        verified=agent.verified,
        kind=agent.kind or "agent",
        wire=wire_of(agent),
    )


def _shown(channel: Channel) -> ChannelShown:
    return ChannelShown(
        name=channel.name,
        members=channel.size,
        verified_only=channel.verified_only,
        invite_only=channel.invite_only,
        messages=len(channel.buffer) if channel.log is None else None,
    )


def _is_visible(channel: Channel, agent: Agent | None) -> bool:
    return not channel.invite_only or (agent is not None and channel.has(agent))


def _named(hall: Hall, name: str) -> Channel | None:
    return hall.channels.get(name if name.startswith("#") else f"#{name}")


def _readable(hall: Hall, route: str, viewer: Viewer, query: OfChannel) -> Channel | AtNode:
    """A channel whose members and messages the viewer may see, or where to ask for them.

    Raises ChannelNotFound, AuthRequired or Unavailable.
    """
    agent = viewer.agent(hall)
    channel = _named(hall, query.name)
    if channel is None or not _may_be_visible(channel, agent):
        raise ChannelNotFound(NOT_FOUND)
    if hall.cluster is not None:
        elsewhere = hall.cluster.reads.of_channel(channel.name, route, viewer, query)
        if elsewhere is not None:
            return elsewhere
    if not channel.is_shown or not _is_visible(channel, agent):
        raise ChannelNotFound(NOT_FOUND)
    if channel.verified_only and (agent is None or not agent.verified):
        raise AuthRequired(f"{channel.name} is for verified agents only; connect, and send an API token")
    return channel


def _may_be_visible(channel: Channel, agent: Agent | None) -> bool:
    """False if no other node can know better: this node knows all channels of its own agents."""
    return _is_visible(channel, agent) or (agent is not None and agent.session.is_remote)


def _channels_looked_at(hall: Hall, query: Paged) -> int:
    return query.limit + len(hall.channels) // LOOKED_AT_FOR_ONE


def _members_looked_at(hall: Hall, query: OfChannel) -> int:
    channel = _named(hall, query.name)
    return query.limit + (0 if channel is None else channel.size // LOOKED_AT_FOR_ONE)


def roster_looked_at(hall: Services, query: Query) -> int:
    return len(hall.roster) // LOOKED_AT_FOR_ONE


ROUTES: Final = (
    ApiRoute(
        "hall",
        show_hall,
        NoParameters,
        HallShown,
        "Name, version, key and counts of the hall.",
        ReadCost(roster_looked_at),
    ),
    ApiRoute(
        CHANNELS,
        list_channels,
        Paged,
        ChannelList,
        "Public channels, and the invite-only ones that the viewer is in; by name.",
        ReadCost(_channels_looked_at),
    ),
    ApiRoute(
        MESSAGES,
        list_messages,
        OfChannel,
        MessageList,
        "What a channel keeps of its messages, the newest first.",
        ReadCost(lambda hall, query: query.limit),
        fresh=0.1,
    ),
    ApiRoute(
        MEMBERS,
        list_members,
        OfChannel,
        MemberList,
        "The members of a channel, by id.",
        ReadCost(_members_looked_at),
    ),
)

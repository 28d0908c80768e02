"""Tools to be in a hall and to speak there."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from moothall.client import Agent
from moothall.client.dialling import shown_url
from moothall.client.logs import log
from moothall.client.markers import strip
from moothall.errors import MoothallError, Refusal, UsageError
from moothall.tools.advice import explain
from moothall.tools.options import checked_name
from moothall.tools.session import Ticket
from moothall.tools.table import (
    CHANGES,
    READS,
    REPEATABLE,
    Arguments,
    Call,
    Channel,
    NoArguments,
    Result,
    Tool,
)
from moothall.wire.agentchat.client import ReportedStatus
from moothall.wire.agentchat.names import with_hash

OUTCOMES: Final[Mapping[str, ReportedStatus]] = {"done": "DONE", "failed": "FAILED"}
MAX_MESSAGE: Final = 100_000  # characters; the hall has a limit of its own, usually 4,096

MsgId = Annotated[str, Meta(description="The `msg_id` of a message.", min_length=1, max_length=200)]
Target = Annotated[
    str,
    Meta(
        description="A #channel, or the @id of an agent for a direct message.",
        min_length=1,
        max_length=80,
        examples=["#general", "@1f3a9c02"],
    ),
]


class Connect(Arguments):
    name: (
        Annotated[
            str,
            Meta(
                description="The name to appear under: 1 to 32 letters, digits, - or _. It gets its own key file,"
                " unless one is set. Without a name and a key file you are anonymous, and cannot trade.",
                min_length=1,
                max_length=32,
                pattern="^[A-Za-z0-9_-]+$",
            ),
        ]
        | None
    ) = None
    identity_path: (
        Annotated[
            str,
            Meta(
                description="The key file to prove who you are; one below ~/.agentchat is made if it is missing.",
                min_length=1,
                max_length=4096,
            ),
        ]
        | None
    ) = None
    channels: (
        Annotated[
            list[Channel],
            Meta(description="Channels to join. Default: #general, #discovery and #bounties.", max_length=50),
        ]
        | None
    ) = None
    server_url: (
        Annotated[
            str,
            Meta(description="The hall, such as ws://127.0.0.1:6667. Default: the user's.", max_length=2048),
        ]
        | None
    ) = None


class Connected(Result):
    success: bool
    agent_id: Annotated[str, Meta(description="Your @id: how other agents address you.")]
    name: str
    server: str
    persistent: Annotated[bool, Meta(description="True if you have a key, and so the same id next time.")]
    identity_path: str | None
    marketplace: Annotated[bool, Meta(description="True if you can make deals and go to court.")]
    channels: Annotated[list[str], Meta(description="The channels you are in.")]
    refused: Annotated[
        dict[str, str] | UnsetType,
        Meta(description="Channels that you asked for and are not in, and why."),
    ] = UNSET
    motd: Annotated[
        str | UnsetType, Meta(description="The hall's message of the day, written by its operator.")
    ] = UNSET


async def connect(call: Call, asked: Connect) -> Connected:
    options = call.session.options
    name = checked_name(asked.name) if asked.name is not None else options.name
    key = options.chosen_key(asked.identity_path, asked.name)
    channels = tuple(map(with_hash, options.channels if asked.channels is None else asked.channels))
    agent = await call.session.connect(Ticket(options.chosen_url(asked.server_url), name, key, channels))
    refused = {} if asked.channels is None else await _refused(call, agent, channels)
    return Connected(
        success=True,
        agent_id=agent.address,
        name=agent.name,
        server=shown_url(call.session.url),
        persistent=agent.identity is not None,
        identity_path=str(key) if isinstance(key, Path) else None,
        marketplace=agent.identity is not None,
        channels=sorted(agent.rooms),
        refused=refused or UNSET,
        motd=agent.motd if agent.motd is not None else UNSET,
    )


async def _refused(call: Call, agent: Agent, channels: tuple[str, ...]) -> dict[str, str]:
    """The channels that the hall does not let the agent into, each with its reason."""
    found = {}
    for channel in channels:
        if channel not in agent.rooms:
            try:
                await call.session.join(channel)
            except Refusal as refusal:
                found[channel] = explain(refusal)
    return found


class Send(Arguments):
    target: Target
    message: Annotated[str, Meta(description="The text.", min_length=1, max_length=MAX_MESSAGE)]
    in_reply_to: (
        Annotated[str, Meta(description="The `msg_id` of the message that this answers.", max_length=200)]
        | None
    ) = None
    receipt: Annotated[
        bool,
        Meta(description="Ask for receipts: agentchat_listen tells when the message is delivered and seen."),
    ] = False
    outcome: (
        Annotated[
            Literal["done", "failed"],
            Meta(
                description="Tell the sender of `in_reply_to`, if it asked, that its request is done or failed."
            ),
        ]
        | None
    ) = None
    force: Annotated[
        bool, Meta(description="Send even if another agent has the floor for the message it answers.")
    ] = False


class Sent(Result):
    success: bool
    target: str
    message: str
    from_: str = msgspec.field(name="from")
    msg_id: Annotated[str, Meta(description="The id of the new message, where the hall tells it.")] | None


async def send(call: Call, asked: Send) -> Sent:
    agent = await call.session.agent()
    target = asked.target if asked.target.startswith("@") else with_hash(asked.target)
    text = strip(asked.message).text
    if not text:
        raise UsageError(
            "Nothing was sent: the text has only markers such as @@wake@@, which are for your own runtime. Add what"
            " you want to say."
        )
    if asked.outcome is not None and asked.in_reply_to is None:
        raise UsageError(
            "`outcome` needs `in_reply_to`: the `msg_id` of the request. Add it and repeat the call."
        )
    if asked.in_reply_to is not None and not asked.force:
        holder = call.session.floor.holder(target, asked.in_reply_to)
        if holder is not None:
            raise UsageError(
                f"Nothing was sent: {holder} has the floor for {asked.in_reply_to} and is answering it. Listen for"
                " that answer. If yours is still needed then, send it with `force`: true."
            )
    if target.startswith("#") and target not in agent.rooms:
        await call.session.join(target)
    if asked.receipt:
        delivery = await agent.send(target, text, in_reply_to=asked.in_reply_to, receipt=True)
        msg_id = delivery.id
    else:
        msg_id = await agent.send(target, text, in_reply_to=asked.in_reply_to)
    if asked.outcome is not None and asked.in_reply_to is not None:
        call.session.in_background(report(agent, asked.in_reply_to, OUTCOMES[asked.outcome]))
    return Sent(success=True, target=target, message=text, from_=agent.address, msg_id=msg_id)


async def report(agent: Agent, msg_id: str, status: ReportedStatus) -> None:
    """Tell the sender of a message, if it asked, what became of it."""
    try:
        await agent.report(msg_id, status)
    except MoothallError as error:
        log.debug("the sender of %s is not told: %s", msg_id, error)


class Claim(Arguments):
    msg_id: MsgId
    channel: Channel


class Claimed(Result):
    success: bool
    granted: Annotated[
        bool, Meta(description="True if you may answer the message; False: another agent does.")
    ]
    msg_id: str
    channel: str
    started_at: Annotated[int, Meta(description="Milliseconds since 1970.")]
    agent_id: str
    holder: Annotated[str | UnsetType, Meta(description="The agent that has the floor instead.")] = UNSET
    reason: Annotated[
        str | UnsetType, Meta(description="Why the message is not yours to answer, if none has the floor.")
    ] = UNSET


async def claim(call: Call, asked: Claim) -> Claimed:
    agent = await call.session.agent()
    channel, floor = with_hash(asked.channel), call.session.floor
    if channel not in agent.rooms:
        raise UsageError(
            f"Nothing was claimed: you are not in {channel}. Use the `to` of the message as `channel`, or join it"
            " first: agentchat_listen with `channels`."
        )
    started_at = int(time.time() * 1000)
    heard = call.session.mailbox().chat(channel, asked.msg_id)
    reason = None if heard is None else agent.objection(heard)
    granted = reason is None and await agent.claim(asked.msg_id, channel, started_at / 1000)
    if granted and heard is not None and (reason := agent.objection(heard)) is not None:
        # Another agent has answered while the claim was under way: the hall delivers that before it grants.
        await agent.release(asked.msg_id, channel)
        granted = False
    if granted:
        floor.won(channel, asked.msg_id)
    return Claimed(
        success=True,
        granted=granted,
        msg_id=asked.msg_id,
        channel=channel,
        started_at=started_at,
        agent_id=agent.address,
        holder=UNSET if granted else floor.holder(channel, asked.msg_id) or UNSET,
        reason=UNSET if reason is None else f"Be silent: {reason}.",
    )


class ListedChannel(Result):
    name: str
    agents: Annotated[int, Meta(description="How many are in it.")]
    verified_only: bool = False


class Channels(Result):
    channels: list[ListedChannel]
    joined: list[str]


async def channels(call: Call, asked: NoArguments) -> Channels:
    agent = await call.session.agent()
    listed = await agent.channels()
    return Channels(
        channels=[
            ListedChannel(name=each.name, agents=each.members, verified_only=each.verified_only)
            for each in listed
        ],
        joined=sorted(agent.rooms),
    )


class Leave(Arguments):
    channel: Channel


class Left(Result):
    success: bool
    left: str
    remaining: list[str]


async def leave(call: Call, asked: Leave) -> Left:
    agent = await call.session.agent()
    channel = with_hash(asked.channel)
    await agent.leave(channel)
    call.session.remember_channel(channel, wanted=False)
    return Left(success=True, left=channel, remaining=sorted(agent.rooms))


class CreateChannel(Arguments):
    channel: Channel
    invite_only: Annotated[bool, Meta(description="Only agents that a member invites can join.")] = False


class Created(Result):
    success: bool
    channel: str
    agents: Annotated[list[str], Meta(description="Who is in it.")]


async def create_channel(call: Call, asked: CreateChannel) -> Created:
    agent = await call.session.agent()
    channel = with_hash(asked.channel)
    await agent.create_channel(channel, invite_only=asked.invite_only)
    call.session.remember_channel(channel, wanted=True)
    return Created(success=True, channel=channel, agents=[agent.address])


class Nick(Arguments):
    nick: Annotated[
        str,
        Meta(
            description="The new name: 1 to 32 letters, digits, - or _.",
            min_length=1,
            max_length=32,
            pattern="^[A-Za-z0-9_-]+$",
        ),
    ]


class Renamed(Result):
    success: bool
    nick: str
    agent_id: str


async def nick(call: Call, asked: Nick) -> Renamed:
    agent = await call.session.agent()
    await agent.set_nick(asked.nick)
    return Renamed(success=True, nick=asked.nick, agent_id=agent.address)


class SetPresence(Arguments):
    status_text: Annotated[
        str,
        Meta(
            description="One line for others: what you are doing. Some halls take 100 characters.",
            max_length=120,
        ),
    ]


class PresenceSet(Result):
    success: bool
    status_text: str


async def set_presence(call: Call, asked: SetPresence) -> PresenceSet:
    agent = await call.session.agent()
    await agent.set_presence("online", asked.status_text)
    call.session.status_text = asked.status_text
    return PresenceSet(success=True, status_text=asked.status_text)


TOOLS: Final[tuple[Tool[Any, Any], ...]] = (
    Tool(
        "agentchat_connect",
        "Connect to a hall",
        "Enter the hall under a name or with a key file, and join channels. Other tools connect by themselves: call"
        " this to choose who you are, or to come back after another process took over your key.",
        Connect,
        Connected,
        connect,
        REPEATABLE,
    ),
    Tool(
        "agentchat_send",
        "Send a message",
        "Say something in a channel, or to one agent. A channel is joined first if needed. Claim a channel message"
        " with agentchat_claim before you answer it, so that agents do not answer all at once.",
        Send,
        Sent,
        send,
        CHANGES,
    ),
    Tool(
        "agentchat_claim",
        "Claim the floor",
        "Tell the others that you are answering a message. `granted` says whether you may.",
        Claim,
        Claimed,
        claim,
        REPEATABLE,
    ),
    Tool(
        "agentchat_channels",
        "List channels",
        "List the channels of the hall, and those you are in.",
        NoArguments,
        Channels,
        channels,
        READS,
    ),
    Tool("agentchat_leave", "Leave a channel", "Leave a channel, for good.", Leave, Left, leave, REPEATABLE),
    Tool(
        "agentchat_create_channel",
        "Create a channel",
        "Make a channel and join it.",
        CreateChannel,
        Created,
        create_channel,
        CHANGES,
    ),
    Tool(
        "agentchat_nick",
        "Change your name",
        "Change the name that others see. Halls allow this once in 30 seconds.",
        Nick,
        Renamed,
        nick,
        REPEATABLE,
    ),
    Tool(
        "agentchat_set_presence",
        "Say what you are doing",
        "Show others one line about what you are doing.",
        SetPresence,
        PresenceSet,
        set_presence,
        REPEATABLE,
    ),
)

"""Talking: MSG to channels and agents, FILE_CHUNK, TYPING (seed 000, communicate; wire 9).

The order for a message is: fields, moderation, redaction, callback markers, routing (wire 9.3). A
message to an unknown agent or channel is refused first, unless it has callback markers: those always count.
"""

from collections.abc import Callable
from typing import Final, NoReturn

from moothall.errors import (
    AgentNotFound,
    ChannelNotFound,
    InvalidMessage,
    NotInvited,
    RateLimited,
    Refusal,
)
from moothall.hall.callbacks import take_callbacks
from moothall.hall.channels import Channel
from moothall.hall.commands import Command, CommandRate, Row
from moothall.hall.costs import CHANNEL, DIRECT, MESSAGE
from moothall.hall.delivery_receipts import Asking, AsksReceipts
from moothall.hall.hall import Hall
from moothall.hall.session import Agent, Session
from moothall.hall.wires import check_reachable
from moothall.settings import Settings
from moothall.wire.agentchat.callback_markers import MARKER
from moothall.wire.agentchat.client import FileChunk, Msg, Typing
from moothall.wire.agentchat.jstext import utf16_length
from moothall.wire.agentchat.names import bare_id
from moothall.wire.agentchat.server import Ack, Chat, Chunk, Error, TypingNotice
from moothall.wire.outgoing import Outgoing

MESSAGE_RATE: Final = CommandRate("rate_message", lambda settings: settings.rate_message, is_of_key=True)
CHUNK_RATE: Final = CommandRate("rate_chunk", lambda settings: settings.rate_chunk, is_of_key=True)


def message_check(limit: int) -> Callable[[Msg], None]:
    """What checks the fields of a MSG, whose content has at most `limit` UTF-16 code units (agentchat wire 2.4)."""
    surely_short = limit // 2  # a character is one or two of them

    def check(message: Msg) -> None:
        if message.to[0] not in "#@":
            raise InvalidMessage("Invalid `to`: # and a channel, or @ and an agent id")
        content = message.content
        if len(content) > surely_short and utf16_length(content) > limit:
            raise InvalidMessage(f"Invalid `content`: a text of at most {limit} characters")

    return check


def message(hall: Hall, session: Session, message: Msg) -> None:
    agent = hall.agent_of(session)
    to = message.to
    channel = agent.channels.get(to)
    target = hall.roster.find(to[1:]) if to[0] == "@" else None
    if channel is None and target is None and MARKER not in message.content:
        _refuse_address(hall, to)
    if target is not None:
        check_reachable(target.address, target.via)
        if hall.cluster is not None:
            hall.cluster.check_reaches(target)
    line = compose(hall, agent, message, channel)
    if line is None:
        return
    asking = Asking(line, agent, channel, target) if message.receipt and agent.takes_receipts else None
    if channel is not None:
        if channel.log is not None and not channel.log.decides:
            _say_elsewhere(hall, session, agent, channel, line, asking)
            return
        say_here(hall, agent, channel, line, asking)
    elif target is not None:
        target.link.put(Outgoing(line) if asking is None else asking.to_one(target))
        if hall.settings.echo and target is not agent:
            hall.delivery.tell(agent, line)
    else:
        _refuse_address(hall, to)
    if session.ref is not None:
        hall.reply(session, Ack(ts=line.ts, msg_id=line.msg_id))
    if asking is not None:  # after ACK, which tells the sender which message the receipts are about
        asking.follow(hall)


def compose(
    hall: Hall, agent: Agent, message: Msg, channel: Channel | None, original: bytes | None = None
) -> Chat | None:
    """What others get to read of a message, whatever wire it came by. None: it had callbacks only.

    `original` is the packet or envelope that it came in, as its author signed it; None on the WebSocket. Raises
    Refusal, if the message is moderated.
    """
    content = message.content
    if hall.moderation is not None:
        hall.moderation.review(hall, agent, content, channel.name if channel is not None else None)
    if hall.suspects is not None and hall.suspects(content):
        content = hall.redacted(content, agent)
    if "@" in content and MARKER in content:  # one character is found several times as fast as five
        rest = take_callbacks(hall, agent, content)
        if rest is None:
            return None
        content = rest
    now = hall.timestamp()
    line = Chat(
        agent.address,
        agent.name,
        message.to,
        content,
        hall.ids.message_id(now),
        agent.verified,
        agent.kind,
        message.sig or None,
        message.in_reply_to or None,
        ts=now,
    )
    if agent.via is not None:
        line.via = agent.via
        # With a secret taken out of the text, the original that has it must not be passed on either.
        line.packet = original if content == message.content else None
    return line


def say(hall: Hall, agent: Agent, channel: Channel, line: Chat) -> None:
    """Into a channel that the agent is in, wherever its home is."""
    if channel.log is None or channel.log.decides:
        say_here(hall, agent, channel, line)
    else:
        channel.log.say(agent, line, None, lambda refusal: None)


def _say_elsewhere(
    hall: Hall, session: Session, agent: Agent, channel: Channel, line: Chat, asking: Asking | None
) -> None:
    """At the home of the channel, which is another node. ACK follows when all nodes are told."""
    ref, session.answered = session.ref, True

    def said(refusal: Refusal | None) -> None:
        if refusal is not None:
            hall.tally.refused[refusal.code] += 1
            error = Error(ts=hall.timestamp(), code=refusal.code, message=refusal.message)
            session.link.put(Outgoing(error, ref))
            return
        if ref is not None:
            session.link.put(Outgoing(Ack(ts=line.ts, msg_id=line.msg_id), ref))
        if asking is not None:
            asking.follow(hall)

    if channel.log is not None:
        channel.log.say(agent, line, asking, said)


def say_here(
    hall: Hall, agent: Agent, channel: Channel, line: Chat, asking: AsksReceipts | None = None
) -> None:
    """Into a channel that the agent is in, and about which this node decides. Other wires have no echo."""
    has_echo = hall.settings.echo and agent.via is None
    but = None if has_echo else agent
    hall.delivery.say(channel, line, but, by_agent=agent.kind is None, author=agent, asking=asking)
    channel.last_activity = hall.now()
    if hall.floor.concerns(agent.id):
        hall.floor.answer(agent.id, channel.name, line.in_reply_to, hall.now())


def file_chunk(hall: Hall, session: Session, message: FileChunk) -> None:
    """Passed on as it is: no buffer, no redaction, no echo (agentchat wire 15).

    The receiver cannot decline, and a few senders within their rates can exceed its bandwidth. So chunks may fill
    half of its outbox, and beyond that the sender is refused.
    """
    agent = hall.agent_of(session)
    target = hall.roster.find(bare_id(message.to))
    if target is None:
        _refuse_address(hall, message.to)
    if target.via is not None:
        raise InvalidMessage(f"{target.address} is on the {target.via} wire, which carries no files")
    if hall.cluster is not None:
        hall.cluster.check_reaches(target)
    unread = target.link.unread
    if unread and unread + len(message.content) > hall.settings.outbox_limit // 2:
        raise RateLimited(f"{target.address} does not read this fast; send this chunk again in a moment")
    chunk = Chunk(ts=hall.timestamp(), from_=agent.address, to=message.to, content=message.content)
    hall.delivery.tell(target, chunk)


def typing(hall: Hall, session: Session, message: Typing) -> None:
    agent = hall.agent_of(session)
    channel = agent.channels.get(message.channel)
    if channel is not None:
        notice = TypingNotice(
            ts=hall.timestamp(), from_=agent.address, from_name=agent.name, channel=channel.name
        )
        hall.delivery.broadcast(channel, notice, but=agent)


def _refuse_address(hall: Hall, to: str) -> NoReturn:
    """Non-members get the same error as for a missing channel (seed 000, channel errors)."""
    if to[0] == "@":
        raise AgentNotFound(f"There is no agent {to[:64]} here")
    if hall.channels.get(to) is not None and hall.settings.not_member_code == NotInvited.code:
        raise NotInvited(f"You are not in {to}")
    raise ChannelNotFound(f"You are in no channel {to[:64]}; JOIN it first")


def commands(settings: Settings) -> tuple[Row, ...]:
    check = message_check(settings.max_content)
    return (
        Command(Msg, message, MESSAGE, rate=MESSAGE_RATE, check=check, lurkers=False),
        Command(FileChunk, file_chunk, DIRECT, rate=CHUNK_RATE, lurkers=False),
        Command(Typing, typing, CHANNEL, silent=True, channel="channel"),
    )

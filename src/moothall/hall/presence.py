"""How agents appear to others: nick and presence (seed 001, presence; agentchat wire 5.1)."""

from typing import Final

from msgspec import UNSET

from moothall.errors import InvalidName
from moothall.hall.commands import Command
from moothall.hall.hall import Hall
from moothall.hall.session import Session
from moothall.wire.agentchat import server
from moothall.wire.agentchat.client import SetNick, SetPresence
from moothall.wire.agentchat.names import is_reserved_nick


def check_nick(message: SetNick) -> None:
    if is_reserved_nick(message.nick):
        raise InvalidName(f"The nick {message.nick} is reserved")


def set_nick(hall: Hall, session: Session, message: SetNick) -> None:
    agent = hall.agent_of(session)
    notice = server.NickChanged(
        ts=hall.timestamp(), agent_id=agent.address, old_nick=agent.name, new_nick=message.nick
    )
    agent.name = message.nick
    for channel in agent.channels.values():
        hall.broadcast(channel, notice)
    hall.reply(session, notice)


def set_presence(hall: Hall, session: Session, message: SetPresence) -> None:
    agent = hall.agent_of(session)
    agent.presence = message.status
    agent.status_text = None if message.status_text is UNSET else message.status_text
    notice = server.PresenceChanged(
        ts=hall.timestamp(),
        agent_id=agent.address,
        name=agent.name,
        presence=agent.presence,
        status_text=agent.status_text,
    )
    hall.tell_all(hall.channels.shared_with(agent), notice)


COMMANDS: Final = (
    Command(SetNick, set_nick, rate="rate_nick", check=check_nick),
    Command(SetPresence, set_presence),
)

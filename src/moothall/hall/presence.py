"""How agents appear to others: nick and presence (seed 001, presence; agentchat wire 5.1)."""

from typing import Final

from msgspec import UNSET

from moothall.errors import InvalidName, LurkMode
from moothall.hall.commands import Command, CommandRate
from moothall.hall.costs import NEIGHBOURS, PRESENCE
from moothall.hall.hall import Hall
from moothall.hall.reporting import report
from moothall.hall.session import Agent, Session
from moothall.hall.spending import Report
from moothall.hall.voice import one_line
from moothall.wire.agentchat import server
from moothall.wire.agentchat.client import SetNick, SetPresence
from moothall.wire.agentchat.names import is_reserved_nick
from moothall.wire.outgoing import Bundle, Outgoing

TICK: Final = 0.1  # seconds in which presence changes are collected

NICK_RATE: Final = CommandRate("rate_nick", lambda settings: settings.rate_nick)


def check_nick(message: SetNick) -> None:
    if is_reserved_nick(message.nick):
        raise InvalidName(f"The nick {message.nick} is reserved")


def set_nick(hall: Hall, session: Session, message: SetNick) -> None:
    hall.reply(session, rename(hall, hall.agent_of(session), message.nick))


def rename(hall: Hall, agent: Agent, name: str) -> server.NickChanged:
    """Give the agent this name, and tell the members of this node that are in its channels."""
    notice = server.NickChanged(
        ts=hall.timestamp(), agent_id=agent.address, old_nick=agent.name, new_nick=name
    )
    hall.roster.rename(agent, name)
    for channel in agent.channels.values():
        hall.delivery.broadcast_here(channel, notice)
    return notice


def set_presence(hall: Hall, session: Session, message: SetPresence) -> None:
    agent = hall.agent_of(session)
    if message.status is not UNSET:
        status_text = None if message.status_text is UNSET else _check_text(hall, agent, message.status_text)
        agent.presence = message.status
        agent.status_text = status_text
        hall.roster.presence_changed(agent)
    budget = message.budget
    if budget is not UNSET:
        agent.budget = None if budget is None else server.Budget(budget.limit, budget.spent)
    hall.roster.changed(agent)
    tell_presence(hall, agent)
    if budget:
        report(hall, session, agent, Report(budget.session, budget.spent))


def tell_presence(hall: Hall, agent: Agent) -> None:
    """Tell the members of this node that share a channel with the agent."""
    if hall.presence_changes is None:
        others = hall.channels.shared_with(agent)
        hall.delivery.tell_all(others, _notice(hall, agent), agent.channels.values())
        _begin_tick(hall)
    else:
        hall.presence_changes[agent.id] = agent


def _begin_tick(hall: Hall) -> None:
    """A first change is told at once. Those within a tick of it are told together at its end, each agent with its
    last presence: a member gets one write for all of them."""
    hall.presence_changes = {}
    hall.agenda.at(hall.now() + TICK, lambda: _end_tick(hall))


def _end_tick(hall: Hall) -> None:
    changes, hall.presence_changes = hall.presence_changes or {}, None
    changed = [agent for agent in changes.values() if hall.roster.agents.get(agent.id) is agent]
    if changed:
        _tell_together(hall, changed)
        _begin_tick(hall)


def _tell_together(hall: Hall, changed: list[Agent]) -> None:
    """Members that share the same channels with the changed agents get the same bundle, less their own notice."""
    notices = {agent.id: Outgoing(_notice(hall, agent)) for agent in changed}
    by_channel: dict[str, list[str]] = {}
    members: dict[str, Agent] = {}
    for agent in changed:
        for channel in agent.channels.values():
            if channel.name not in by_channel:
                by_channel[channel.name] = []
                members.update(channel.watchers)
            by_channel[channel.name].append(agent.id)
    bundles: dict[tuple[str, ...], Bundle] = {}
    for member in members.values():
        shared = tuple(name for name in member.channels if name in by_channel)
        bundle = bundles.get(shared)
        if bundle is None:
            others = dict.fromkeys(other for name in shared for other in by_channel[name])
            bundle = bundles[shared] = Bundle([notices[other] for other in others])
        own = notices.get(member.id)
        if own is not None:
            bundle = Bundle([notice for notice in bundle.parts if notice is not own])
        if bundle.parts:
            member.link.put(bundle)
    if hall.delivery.gallery is not None:
        seen = [agent for agent in changed if any(channel.is_public for channel in agent.channels.values())]
        if seen:
            hall.delivery.gallery.put(Bundle([notices[agent.id] for agent in seen]))


def _notice(hall: Hall, agent: Agent) -> server.PresenceChanged:
    return server.PresenceChanged(
        ts=hall.timestamp(),
        agent_id=agent.address,
        name=agent.name,
        presence=agent.presence,
        status_text=agent.status_text,
        budget=agent.budget,
    )


def _check_text(hall: Hall, agent: Agent, text: str) -> str:
    """Others read it as they read a message, so it is held to the same rules (agentchat wire 9.3)."""
    if not text:
        return text
    if agent.lurking:
        raise LurkMode("You may only listen here; send SET_PRESENCE without `status_text`")
    text = one_line(text)
    if hall.moderation is not None:
        hall.moderation.review(hall, agent, text, None)
    return hall.redacted(text, agent)


COMMANDS: Final = (
    Command(SetNick, set_nick, NEIGHBOURS, rate=NICK_RATE, check=check_nick, lurkers=False),
    Command(SetPresence, set_presence, PRESENCE),
)

"""What @server says about deals and skills in #bounties and #discovery (agentchat wire 11.2, 11.3, 14)."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from moothall.hall.voice import quote, quote_name
from moothall.market.news import Accepted, Proposed, SkillsRegistered
from moothall.market.outcome import News
from moothall.market.records import Proposal, Registration
from moothall.wire.agentchat.jstext import field_text

BOUNTIES: Final = "#bounties"
DISCOVERY: Final = "#discovery"
MAX_PRICE: Final = 32  # characters of an amount, or of a currency, that a line repeats
MAX_LISTED: Final = 2000  # characters of the list that #discovery is told
MAX_NAMED: Final = 100  # characters of one capability in it
ANNOUNCE_SECONDS: Final = 60.0  # between two lines about the skills of one agent


# The channel of the line about each kind of news. Nothing is announced about the others.
CHANNELS: Final[Mapping[type[News], str]] = {
    Proposed: BOUNTIES,
    Accepted: BOUNTIES,
    SkillsRegistered: DISCOVERY,
}


class ServiceLine(Struct, kw_only=True, frozen=True, gc=False):
    """A line of @server in a channel. It quotes what the agent `about` wrote."""

    channel: str
    content: str
    about: str  # an agent's address
    buffered: bool = True
    spacing: float = 0.0  # seconds between two about one agent; of those that come too soon, the last is kept


def line_about(news: News) -> ServiceLine | None:
    """None: nothing is announced about this."""
    if isinstance(news, Proposed):
        return _bounty(news.deal)
    if isinstance(news, Accepted):
        return _claimed(news.deal)
    if isinstance(news, SkillsRegistered):
        return _registered(news.registration)
    return None


def _bounty(deal: Proposal) -> ServiceLine:
    amount, currency = _short(deal.amount), _short(deal.currency)
    price = f" ({amount} {currency or 'ELO'})" if deal.amount else ""
    stake = f" [stake: {deal.proposer_stake} ELO]" if deal.proposer_stake else ""
    content = f'[BOUNTY] {deal.from_} → {deal.to}: "{quote(deal.task)}"{price}{stake} — {deal.id}'
    return ServiceLine(channel=BOUNTIES, content=content, about=deal.from_)


def _claimed(deal: Proposal) -> ServiceLine:
    content = f'[CLAIMED] {deal.id} accepted by {deal.to} — "{quote(deal.task)}"'
    return ServiceLine(channel=BOUNTIES, content=content, about=deal.from_)


def _registered(registration: Registration) -> ServiceLine:
    skills: list[dict[str, Any]] = registration.skills
    listed = ", ".join(quote_name(skill["capability"], MAX_NAMED) for skill in skills)
    if len(listed) > MAX_LISTED:
        listed = listed[: MAX_LISTED - 1] + "…"
    address = f"@{registration.agent_id}"
    content = f"Agent {address} registered {len(skills)} skill(s): {listed}"
    return ServiceLine(
        channel=DISCOVERY, content=content, about=address, buffered=False, spacing=ANNOUNCE_SECONDS
    )


def _short(value: object) -> str:
    return quote(field_text(value), MAX_PRICE)

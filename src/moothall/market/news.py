"""What the parties of a deal are told. A deal says most of it itself: it is the record as the decision left it."""

from moothall.market.movement import Movement
from moothall.market.outcome import News, Notice
from moothall.market.records import Proposal, Registration


class DealNews(News, frozen=True, gc=False):
    deal: Proposal


class Proposed(DealNews, frozen=True, gc=False):
    pass


class Accepted(DealNews, frozen=True, gc=False):
    pass


class Rejected(DealNews, frozen=True, gc=False):
    pass


class Completed(DealNews, frozen=True, gc=False):
    movement: Movement


class Disputed(DealNews, frozen=True, gc=False):
    movement: Movement


class Expired(DealNews, frozen=True, gc=False):
    pass


class SkillsRegistered(News, frozen=True, gc=False):
    registration: Registration


def to_parties(news: DealNews) -> tuple[Notice]:
    """Also to the party that acted: its client waits for it (agentchat wire 18.1, points 4 and 5)."""
    return (Notice((news.deal.proposer, news.deal.recipient), news),)

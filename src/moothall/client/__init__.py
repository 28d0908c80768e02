"""The SDK: an agent in a hall."""

from moothall.client.admin import Admin, Approved
from moothall.client.agent import Agent
from moothall.client.backoff import Backoff
from moothall.client.events import (
    Arrival,
    ChannelInfo,
    ChatLine,
    Departure,
    Gap,
    Member,
    Message,
    MissedIn,
    NickChange,
    PresenceChange,
    RankedAgent,
    Rating,
    RatingChange,
    RatingPoint,
    Receipt,
    SkillOffer,
    SkillRating,
    Typing,
    Welcome,
)
from moothall.client.floor import FloorPolicy
from moothall.client.proposal import Deal, DealChange, Proposal
from moothall.client.sync import SyncAdmin, SyncAgent, SyncMessage, SyncProposal

__all__ = [
    "Admin",
    "Agent",
    "Approved",
    "Arrival",
    "Backoff",
    "ChannelInfo",
    "ChatLine",
    "Deal",
    "DealChange",
    "Departure",
    "FloorPolicy",
    "Gap",
    "Member",
    "Message",
    "MissedIn",
    "NickChange",
    "PresenceChange",
    "Proposal",
    "RankedAgent",
    "Rating",
    "RatingChange",
    "RatingPoint",
    "Receipt",
    "SkillOffer",
    "SkillRating",
    "SyncAdmin",
    "SyncAgent",
    "SyncMessage",
    "SyncProposal",
    "Typing",
    "Welcome",
]

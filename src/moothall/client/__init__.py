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
    Typing,
    Welcome,
)
from moothall.client.floor import FloorPolicy
from moothall.client.sync import SyncAdmin, SyncAgent, SyncMessage

__all__ = [
    "Admin",
    "Agent",
    "Approved",
    "Arrival",
    "Backoff",
    "ChannelInfo",
    "ChatLine",
    "Departure",
    "FloorPolicy",
    "Gap",
    "Member",
    "Message",
    "MissedIn",
    "NickChange",
    "PresenceChange",
    "SyncAdmin",
    "SyncAgent",
    "SyncMessage",
    "Typing",
    "Welcome",
]

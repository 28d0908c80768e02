"""The SDK: an agent in a hall."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from moothall.client.admin import Admin, Approved
    from moothall.client.agent import Agent
    from moothall.client.background import (
        SyncAdmin,
        SyncDelivery,
        SyncDispute,
        SyncFileOffer,
        SyncFileTransfer,
        SyncMessage,
        SyncProposal,
    )
    from moothall.client.backoff import Backoff
    from moothall.client.delivery import Delivery, DeliveryReceipt
    from moothall.client.dispute import Assignment, Case, Dispute, Filing
    from moothall.client.docket import ArbiterResult, Ruling, Vote
    from moothall.client.events import (
        Answering,
        ApiToken,
        Arrival,
        Budget,
        ChannelInfo,
        Departure,
        FloorChange,
        Gap,
        Member,
        MissedIn,
        NickChange,
        PresenceChange,
        Typing,
        Welcome,
    )
    from moothall.client.evidence import Evidence, EvidenceItem
    from moothall.client.file_offer import FileOffer, FileTransfer, ReceivedFiles
    from moothall.client.floor import FloorPolicy
    from moothall.client.message import ChatLine, Message
    from moothall.client.proposal import Deal, DealChange, Proposal
    from moothall.client.ratings import (
        MeshReputation,
        RankedAgent,
        Rating,
        RatingChange,
        RatingPoint,
        Receipt,
        SkillOffer,
        SkillRating,
    )
    from moothall.client.sync import SyncAgent
    from moothall.files.control import OfferedFile
    from moothall.files.progress import Progress
    from moothall.files.saving import SavedFile, Skipped

__all__ = [
    "Admin",
    "Agent",
    "Answering",
    "ApiToken",
    "Approved",
    "ArbiterResult",
    "Arrival",
    "Assignment",
    "Backoff",
    "Budget",
    "Case",
    "ChannelInfo",
    "ChatLine",
    "Deal",
    "DealChange",
    "Delivery",
    "DeliveryReceipt",
    "Departure",
    "Dispute",
    "Evidence",
    "EvidenceItem",
    "FileOffer",
    "FileTransfer",
    "Filing",
    "FloorChange",
    "FloorPolicy",
    "Gap",
    "Member",
    "MeshReputation",
    "Message",
    "MissedIn",
    "NickChange",
    "OfferedFile",
    "PresenceChange",
    "Progress",
    "Proposal",
    "RankedAgent",
    "Rating",
    "RatingChange",
    "RatingPoint",
    "Receipt",
    "ReceivedFiles",
    "Ruling",
    "SavedFile",
    "SkillOffer",
    "SkillRating",
    "Skipped",
    "SyncAdmin",
    "SyncAgent",
    "SyncDelivery",
    "SyncDispute",
    "SyncFileOffer",
    "SyncFileTransfer",
    "SyncMessage",
    "SyncProposal",
    "Typing",
    "Vote",
    "Welcome",
]

# A name's home is loaded when the name is first used (PEP 562): a command that sends a line needs `Agent` alone.
_HOMES: Final = (
    "moothall.client.agent",
    "moothall.client.events",
    "moothall.client.delivery",
    "moothall.client.message",
    "moothall.client.floor",
    "moothall.client.proposal",
    "moothall.client.docket",
    "moothall.client.evidence",
    "moothall.client.dispute",
    "moothall.client.ratings",
    "moothall.client.file_offer",
    "moothall.client.admin",
    "moothall.client.sync",
    "moothall.client.background",
    "moothall.files.control",
    "moothall.files.progress",
    "moothall.files.saving",
)


def __getattr__(name: str) -> object:
    if name in __all__:
        for home in _HOMES:
            module = import_module(home)
            if name in vars(module):
                return vars(module)[name]
    raise AttributeError(f"module 'moothall.client' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]

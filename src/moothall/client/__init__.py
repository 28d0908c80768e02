"""The SDK: an agent in a hall."""

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

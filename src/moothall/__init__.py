"""moothall: a meeting hall for AI agents."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from moothall.client import (
        Agent,
        Arrival,
        Backoff,
        ChannelInfo,
        DealChange,
        Departure,
        FloorPolicy,
        Gap,
        Member,
        Message,
        MissedIn,
        NickChange,
        PresenceChange,
        Proposal,
        RankedAgent,
        Rating,
        RatingChange,
        RatingPoint,
        Receipt,
        SkillOffer,
        SkillRating,
        SyncAgent,
        SyncMessage,
        SyncProposal,
        Typing,
        Welcome,
    )
    from moothall.errors import (
        AgentNotFound,
        AuthRequired,
        Banned,
        ChannelExists,
        ChannelNotFound,
        ClientError,
        ConnectionFailed,
        ConnectionLost,
        Displaced,
        FloorLost,
        FloorTaken,
        InsufficientReputation,
        InvalidMessage,
        InvalidProposal,
        InvalidSignature,
        InvalidStake,
        KeyFileError,
        Kicked,
        LurkMode,
        MoothallError,
        NoPublicKey,
        NotAllowed,
        NotConnected,
        NotInvited,
        NotProposalParty,
        ProposalExpired,
        ProposalNotFound,
        RateLimited,
        Refusal,
        ReplyTimeout,
        SignatureRequired,
        UnexpectedReply,
        UnknownRefusal,
        UsageError,
        VerificationFailed,
        VerificationRequired,
    )
    from moothall.identity import Identity, PrivateKey, PublicKey
    from moothall.market.receipts import verify_receipt

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentNotFound",
    "Arrival",
    "AuthRequired",
    "Backoff",
    "Banned",
    "ChannelExists",
    "ChannelInfo",
    "ChannelNotFound",
    "ClientError",
    "ConnectionFailed",
    "ConnectionLost",
    "DealChange",
    "Departure",
    "Displaced",
    "FloorLost",
    "FloorPolicy",
    "FloorTaken",
    "Gap",
    "Identity",
    "InsufficientReputation",
    "InvalidMessage",
    "InvalidProposal",
    "InvalidSignature",
    "InvalidStake",
    "KeyFileError",
    "Kicked",
    "LurkMode",
    "Member",
    "Message",
    "MissedIn",
    "MoothallError",
    "NickChange",
    "NoPublicKey",
    "NotAllowed",
    "NotConnected",
    "NotInvited",
    "NotProposalParty",
    "PresenceChange",
    "PrivateKey",
    "Proposal",
    "ProposalExpired",
    "ProposalNotFound",
    "PublicKey",
    "RankedAgent",
    "RateLimited",
    "Rating",
    "RatingChange",
    "RatingPoint",
    "Receipt",
    "Refusal",
    "ReplyTimeout",
    "SignatureRequired",
    "SkillOffer",
    "SkillRating",
    "SyncAgent",
    "SyncMessage",
    "SyncProposal",
    "Typing",
    "UnexpectedReply",
    "UnknownRefusal",
    "UsageError",
    "VerificationFailed",
    "VerificationRequired",
    "Welcome",
    "verify_receipt",
]

# Importing `moothall` alone costs nothing: a name's home is loaded when the name is first used (PEP 562). The
# lightest home comes first, so that catching an error does not load a WebSocket client.
_HOMES: Final = ("moothall.errors", "moothall.identity", "moothall.client", "moothall.market.receipts")


def __getattr__(name: str) -> object:
    if name in __all__:
        for home in _HOMES:
            module = import_module(home)
            if name in vars(module):
                return vars(module)[name]
    raise AttributeError(f"module 'moothall' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]

"""moothall: a meeting hall for AI agents."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from moothall.client import (
        Agent,
        Arrival,
        Backoff,
        ChannelInfo,
        Departure,
        FloorPolicy,
        Gap,
        Member,
        Message,
        MissedIn,
        NickChange,
        PresenceChange,
        SyncAgent,
        SyncMessage,
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
        InvalidMessage,
        KeyFileError,
        Kicked,
        LurkMode,
        MoothallError,
        NoPublicKey,
        NotAllowed,
        NotConnected,
        NotInvited,
        RateLimited,
        Refusal,
        ReplyTimeout,
        UnexpectedReply,
        UnknownRefusal,
        UsageError,
        VerificationFailed,
    )
    from moothall.identity import Identity, PrivateKey, PublicKey

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
    "Departure",
    "Displaced",
    "FloorLost",
    "FloorPolicy",
    "FloorTaken",
    "Gap",
    "Identity",
    "InvalidMessage",
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
    "PresenceChange",
    "PrivateKey",
    "PublicKey",
    "RateLimited",
    "Refusal",
    "ReplyTimeout",
    "SyncAgent",
    "SyncMessage",
    "Typing",
    "UnexpectedReply",
    "UnknownRefusal",
    "UsageError",
    "VerificationFailed",
    "Welcome",
]

# Importing `moothall` alone costs nothing: a name's home is loaded when the name is first used (PEP 562). The
# lightest home comes first, so that catching an error does not load a WebSocket client.
_HOMES: Final = ("moothall.errors", "moothall.identity", "moothall.client")


def __getattr__(name: str) -> object:
    if name in __all__:
        for home in _HOMES:
            module = import_module(home)
            if name in vars(module):
                return vars(module)[name]
    raise AttributeError(f"module 'moothall' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]

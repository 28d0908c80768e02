"""What agents, nicks and channels may be called (agentchat wire 3.3; seed 001, identity and channels)."""

import re
from typing import Annotated, Final

from msgspec import Meta

# \Z and not $: a trailing newline is not part of a name (agentchat wire 2.5).
NAME_PATTERN: Final = r"\A[a-zA-Z0-9_-]{1,32}\Z"
NICK_PATTERN: Final = r"\A[a-zA-Z0-9_-]{1,24}\Z"
CHANNEL_PATTERN: Final = r"\A#[a-zA-Z0-9_-]{1,31}\Z"

MAX_ADDRESS: Final = 256  # addresses have 9 or 17 characters, and some are remembered (INVITE)

RESERVED_NICKS: Final = frozenset(
    (
        "server",
        "admin",
        "system",
        "root",
        "moderator",
        "mod",
        "bot",
        "agentchat",
        "operator",
        "shadow",
        "god",
        "jc",
    )
)

Name = Annotated[str, Meta(pattern=NAME_PATTERN)]
Nick = Annotated[str, Meta(pattern=NICK_PATTERN)]
ChannelName = Annotated[str, Meta(pattern=CHANNEL_PATTERN)]
AgentAddress = Annotated[str, Meta(pattern=r"\A@.", max_length=MAX_ADDRESS)]

SERVER: Final = "@server"  # who service messages are from
# Why a connection with too many frames is closed (agentchat wire 1.3)
TOO_FAST: Final = "Rate limit exceeded"

# `Server` in any case, with digits that look like its letters, and with - and _ around or between them. A
# name has no other characters, such as full-width letters, those of other alphabets, or invisible ones.
_is_like_server: Final = re.compile(
    r"[_-]*".join(("", "[s5]", "[e3]", "r", "v", "[e3]", "r", "")), re.IGNORECASE
).fullmatch
_is_channel: Final = re.compile(CHANNEL_PATTERN).match


def is_channel_name(text: str) -> bool:
    return _is_channel(text) is not None


def with_hash(word: str) -> str:
    """`general` or `#general` -> `#general`."""
    return word if word.startswith("#") else f"#{word}"


def is_like_server(name: str) -> bool:
    """True if people would take the name for that of the hall, which speaks as @server, `Server`."""
    return _is_like_server(name) is not None


def is_reserved_nick(nick: str) -> bool:
    return nick.lower() in RESERVED_NICKS or is_like_server(nick)


def bare_id(address: str) -> str:
    """`@abc` or `abc` -> `abc`."""
    return address.removeprefix("@")

"""Messages from server to client, one struct each (agentchat wire 6).

Every message has `ts`, the hall's clock in milliseconds when it was made. Fields marked optional there are
left out when they have nothing to say; fields that may be null are sent as null.
Market and court messages live beside these in the modules of their own rooms' wire, as those rooms open.
"""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

from moothall.wire.agentchat.client import Number, ReportedStatus

DeliveryStatus = Literal["DELIVERED", "UNDELIVERED"] | ReportedStatus


class ServerMessage(Struct, tag_field="type", kw_only=True, omit_defaults=True, gc=False):
    ts: int


# -- session ---------------------------------------------------------------------------------------


class Welcome(ServerMessage, tag="WELCOME", kw_only=True):
    agent_id: str
    name: str
    server: str
    verified: bool | UnsetType = UNSET
    lurk: bool = False
    motd: str | None = None
    disclaimer: str = ""  # always there on our wire; the seed's WELCOME has none
    features: Any = ()  # ours: names of our extensions; another server may send anything under this name
    max_content: Any = None  # ours: UTF-16 code units of the longest MSG


class Challenge(ServerMessage, tag="CHALLENGE", kw_only=True):
    challenge_id: str
    nonce: str
    expires_at: int
    # Ours: who asks. The nonce follows from these three, so that no other server can use the answer.
    hall_key: str | None = None
    hall_random: str | None = None
    hall_host: str | None = None


class CaptchaChallenge(ServerMessage, tag="CAPTCHA_CHALLENGE", kw_only=True):
    captcha_id: str
    question: str
    hint: str | None = None
    expires_at: int


class Pong(ServerMessage, tag="PONG", kw_only=True):
    pass


class Error(ServerMessage, tag="ERROR", kw_only=True):
    code: str
    message: str


class Ack(ServerMessage, tag="ACK", kw_only=True):
    """Ours: the reply to a message with `ref` that has no other reply. Carries the id a MSG was given."""

    msg_id: str | None = None


class TakeoverPending(ServerMessage, tag="TAKEOVER_PENDING", kw_only=True):
    """Ours: the key is proven, and a session that has it is displaced in this time. Then WELCOME follows."""

    wait_ms: int


class SessionDisplaced(ServerMessage, tag="SESSION_DISPLACED", kw_only=True):
    reason: str
    new_ip: str


class Kicked(ServerMessage, tag="KICKED", kw_only=True):
    reason: str


class BannedNotice(ServerMessage, tag="BANNED", kw_only=True):
    reason: str


class KeyRevoked(ServerMessage, tag="KEY_REVOKED", kw_only=True):
    """Ours: the answer to REVOKE_KEY, and the last word to a session with that key."""

    agent_id: str
    fingerprint: str


class ApiTokenGiven(ServerMessage, tag="API_TOKEN", kw_only=True):
    """Ours: the answer to API_TOKEN. Send it as `Authorization: Bearer` to /api/v1/."""

    token: str
    expires_at: int


class MotdUpdate(ServerMessage, tag="MOTD_UPDATE", kw_only=True):
    motd: str | None


class NickChanged(ServerMessage, tag="NICK_CHANGED", kw_only=True):
    agent_id: str
    old_nick: str
    new_nick: str


class Budget(Struct, gc=False, frozen=True):
    """Ours: what a worker may spend and has spent, in tokens of its current session, as it says."""

    limit: int
    spent: int


class PresenceChanged(ServerMessage, tag="PRESENCE_CHANGED", kw_only=True):
    agent_id: str
    name: str
    presence: str
    status_text: str | None
    budget: Any = None  # ours: a Budget; another server may send anything under this name


# -- those who only look ---------------------------------------------------------------------------


class WatchedHall(ServerMessage, tag="HALL", kw_only=True):
    """Ours: the first message at /watch. A snapshot of what is public follows, then what happens."""

    server: str
    motd: str | None = None
    hall_key: str
    features: Any = ()  # as in WELCOME


class Gap(ServerMessage, tag="GAP", kw_only=True):
    """Ours: messages were not sent. A watcher that read too slowly gets `missed`; HALL and a snapshot follow.

    An agent gets `channel` and `reason`: nodes of the hall did not reach each other.
    """

    missed: int | None = None
    channel: str | None = None
    reason: str | None = None


# -- channels and chat -----------------------------------------------------------------------------


class MemberEntry(Struct, omit_defaults=True, gc=False):
    """One agent in JOINED."""

    id: str
    name: str
    verified: bool
    kind: str | None = None


class AgentEntry(Struct, omit_defaults=True, gc=False, kw_only=True):
    """One agent in AGENTS."""

    id: str
    name: str
    presence: str
    status_text: str | None
    verified: bool
    kind: str | None = None
    via: str | None = None  # the wire it is on, if that is another
    budget: Any = None  # ours: a Budget; another server may send anything under this name


class ChannelEntry(Struct, omit_defaults=True, gc=False, rename={"verified_only": "verifiedOnly"}):
    """One channel in CHANNELS."""

    name: str
    agents: int
    verified_only: bool = False


class Joined(ServerMessage, tag="JOINED", kw_only=True):
    channel: str
    agents: list[Any]  # MemberEntry, or after CREATE_CHANNEL in the 0.36 profile the creator's id


class Left(ServerMessage, tag="LEFT", kw_only=True):
    channel: str


class AgentJoined(ServerMessage, tag="AGENT_JOINED", kw_only=True):
    channel: str
    agent: str
    name: str
    verified: bool
    kind: str | None = None


class AgentLeft(ServerMessage, tag="AGENT_LEFT", kw_only=True):
    channel: str
    agent: str
    name: str | None = None


class Channels(ServerMessage, tag="CHANNELS", kw_only=True):
    """`truncated` is for watchers: there are more channels, and those were quiet for longer."""

    list: list[ChannelEntry]
    truncated: bool = False


class Agents(ServerMessage, tag="AGENTS", kw_only=True):
    """Without `channel` the agents are those of the hall; `truncated` says that there are more."""

    channel: str | None = None
    list: list[AgentEntry]
    truncated: bool = False


class Chat(ServerMessage, tag="MSG"):
    """A chat message, a service line or a fired callback; which fields are set tells which.

    Its fields can be given by position, which takes half the time: this is the message there is most of.
    """

    from_: str = field(name="from")
    from_name: str
    to: str
    content: str
    msg_id: str | None = None
    verified: bool | UnsetType = UNSET
    kind: str | None = None
    sig: str | None = None
    in_reply_to: str | None = None
    cb_id: str | None = None
    cb_origin: str | None = None
    replay: bool = False
    via: str | None = None  # the wire it came in on, if that is another
    # The signed packet it came in (base64 in JSON): its author's key can be checked
    packet: bytes | None = None
    # Ours: its author wants delivery receipts, from this status on: "SEEN" or "CLAIMED". Another server may send
    # anything under this name.
    receipt: Any = None


class Receipt(ServerMessage, tag="RECEIPT", kw_only=True):
    """Ours: what became of a message, for the agent that wrote it.

    `to` is the recipient that the status is about. With `count` it is the channel, and so many of its recipients
    have had this status by now.
    """

    msg_id: str
    status: DeliveryStatus
    to: str
    of: int  # recipients of the message
    count: int | None = None
    reason: str | None = None


class TypingNotice(ServerMessage, tag="TYPING", kw_only=True):
    from_: str = field(name="from")
    from_name: str
    channel: str


class Chunk(ServerMessage, tag="FILE_CHUNK", kw_only=True):
    from_: str = field(name="from")
    to: str
    content: str


# -- floor -----------------------------------------------------------------------------------------


class RespondingNotice(ServerMessage, tag="RESPONDING_TO", kw_only=True):
    msg_id: str
    from_: str = field(name="from")
    started_at: Number
    channel: str


class FloorClaimed(ServerMessage, tag="FLOOR_CLAIMED", kw_only=True):
    msg_id: str
    channel: str
    holder: str
    holder_name: str
    started_at: Number


class Yield(ServerMessage, tag="YIELD", kw_only=True):
    msg_id: str
    channel: str
    winner: str
    holder: str
    holder_started_at: Number
    reason: str


class FloorReleased(ServerMessage, tag="FLOOR_RELEASED", kw_only=True):
    """Ours: a claim ended without an answer. Its agent gave it back, or the reason is "expired"."""

    msg_id: str
    channel: str
    from_: str = field(name="from")
    reason: Literal["expired"] | None = None


# -- peer verification -----------------------------------------------------------------------------


class VerifyRequestNotice(ServerMessage, tag="VERIFY_REQUEST", kw_only=True):
    """To the target with `from` and `nonce`; to the requester with `target` and `status`."""

    request_id: str
    from_: str | None = field(name="from", default=None)
    nonce: str | None = None
    target: str | None = None
    status: Literal["pending"] | None = None


class VerifySuccess(ServerMessage, tag="VERIFY_SUCCESS", kw_only=True):
    """To the requester with `agent` and `pubkey`; to the responder with `verified`."""

    request_id: str
    agent: str | None = None
    pubkey: str | None = None
    verified: bool | UnsetType = UNSET


class VerifyFailed(ServerMessage, tag="VERIFY_FAILED", kw_only=True):
    """To the requester with `target` and `reason`; to the responder with `verified`."""

    request_id: str
    target: str | None = None
    reason: str | None = None
    verified: bool | UnsetType = UNSET


# -- administration --------------------------------------------------------------------------------


class AllowlistEntry(Struct, kw_only=True, gc=False, rename="camel"):
    """One approved key in ADMIN_RESULT."""

    agent_id: str
    pubkey_prefix: str
    approved_at: str
    note: str | None


class BanEntry(Struct, kw_only=True, gc=False, rename="camel"):
    """Ours: one ban in ADMIN_RESULT. With a key it holds for that key, without for every key with the id."""

    agent_id: str
    reason: str | None
    banned_at: str
    pubkey: str | UnsetType = UNSET


class BudgetEntry(Struct, kw_only=True, gc=False, omit_defaults=True, rename="camel"):
    """Ours: what one key has spent on a day, and its cap. `name` is that of an agent that is here."""

    agent_id: str
    pubkey: str
    spent: int
    cap: int | None = None
    name: str | None = None


class AdminResult(ServerMessage, tag="ADMIN_RESULT", kw_only=True, rename={"agent_id": "agentId"}):
    """Which fields are set depends on `action` (agentchat wire 6.6)."""

    action: str
    success: bool | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET
    entries: list[AllowlistEntry] | UnsetType = UNSET
    bans: list[BanEntry] | UnsetType = UNSET
    total: int | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    strict: bool | UnsetType = UNSET
    motd: str | UnsetType | None = UNSET
    kicked: bool | UnsetType = UNSET
    verified: bool | UnsetType = UNSET
    note: str | UnsetType = UNSET
    budgets: list[BudgetEntry] | UnsetType = UNSET
    day: str | UnsetType = UNSET
    spent: int | UnsetType = UNSET  # by all keys together
    cap: int | UnsetType | None = UNSET

"""Messages from client to server, one struct each (agentchat wire 5).

Decoding one of these is its validation: a field that is missing or has the wrong type or length never gets
past the decoder. Unknown fields are ignored. Any message may carry `ref`, which its direct reply or ERROR
echoes.
"""

from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from moothall.wire.agentchat.names import AgentAddress, ChannelName, Name, Nick

MAX_CONTENT: Final = 4096  # seed 001, transport; a hall may choose another limit for MSG (`max_content`)
MAX_FRAME: Final = 256 * 1024  # seed 001, transport; a hall may choose another limit (`max_frame`)
MAX_STATUS_TEXT: Final = 100  # seed 001, presence
# Of a MSG. The hall does not check it, but sends it to all members and keeps it in the channel's buffer. An Ed25519
# signature has 88.
MAX_SIGNATURE: Final = 1024
MAX_REF: Final = 256
MAX_DOUBLE: Final = 1e308
MAX_ID: Final = 256  # message, proposal, dispute and request ids are shorter
MAX_FEATURES: Final = 32  # that a client names in IDENTIFY
MAX_RECEIPT_REASON: Final = 200
MAX_AGENTS_ASKED: Final = 100  # ids in one LIST_AGENTS
MAX_TOKENS: Final = 2**53  # that every JSON library reads exactly
MAX_NONCE: Final = 1024  # of a dispute; a case keeps it, and the reference's tools draw 32 characters

Number = int | float
Text = Annotated[str, Meta(min_length=1)]
Id = Annotated[str, Meta(min_length=1, max_length=MAX_ID)]
Nonce = Annotated[str, Meta(min_length=1, max_length=MAX_NONCE)]
Ref = Annotated[str, Meta(max_length=MAX_REF)]
Limit = Annotated[int, Meta(ge=1, le=1000)]
Stake = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)]
SESSION_PATTERN: Final = r"\A[A-Za-z0-9_.:-]{0,64}\Z"  # tells a worker's sessions apart
Tokens = Annotated[int, Meta(ge=0, le=MAX_TOKENS)]
Scalar = int | float | str | bool
PresenceState = Literal["online", "away", "busy", "offline", "listening"]
Verdict = Literal["disputant", "respondent", "mutual"]
FeatureName = Annotated[str, Meta(max_length=64)]
# What a recipient can say of a message. The hall itself says DELIVERED and UNDELIVERED (see `server`).
ReportedStatus = Literal["SEEN", "CLAIMED", "DONE", "FAILED"]


class ClientMessage(Struct, tag_field="type", kw_only=True, gc=False):
    feature: ClassVar[str | None] = None  # which of our extensions it belongs to: WELCOME lists those served

    ref: Ref | None = None


# -- session ---------------------------------------------------------------------------------------


class Identify(ClientMessage, tag="IDENTIFY", kw_only=True):
    name: Name
    pubkey: Text | None = None
    kind: Literal["agent", "human"] = "agent"
    # Ours: the extensions that this client takes part in. Those that the hall does not know are ignored.
    features: Annotated[list[FeatureName], Meta(max_length=MAX_FEATURES)] | None = None


class VerifyIdentity(ClientMessage, tag="VERIFY_IDENTITY", kw_only=True):
    challenge_id: Text
    signature: Text
    timestamp: Number

    def __post_init__(self) -> None:
        _require_time(self.timestamp, "timestamp")


class CaptchaResponse(ClientMessage, tag="CAPTCHA_RESPONSE", kw_only=True):
    captcha_id: Text
    answer: str


class Ping(ClientMessage, tag="PING", kw_only=True):
    pass


class RevokeKey(ClientMessage, tag="REVOKE_KEY", kw_only=True):
    """Ours: a revocation notice (agentchat wire 3.7), which is its own proof."""

    feature: ClassVar[str | None] = "revoke"

    notice: dict[str, Any]


class ApiToken(ClientMessage, tag="API_TOKEN", kw_only=True):
    """Ours: ask for a token of the HTTP API, for the key of this session."""

    feature: ClassVar[str | None] = "api"


class SetNick(ClientMessage, tag="SET_NICK", kw_only=True):
    nick: Nick


class ReportedBudget(Struct, kw_only=True, gc=False):
    """Ours: what a worker may spend and has spent, in tokens of its current session.

    `session` tells sessions apart. Without it, `spent` that is less than before tells a new one.
    """

    limit: Tokens
    spent: Tokens
    session: Annotated[str, Meta(pattern=SESSION_PATTERN)] = ""


class SetPresence(ClientMessage, tag="SET_PRESENCE", kw_only=True):
    """`budget` is ours. It stays until it is reported anew; null takes it away. A message with it may leave
    `status` out: then status and text stay as they are."""

    status: PresenceState | UnsetType = UNSET
    status_text: Annotated[str, Meta(max_length=MAX_STATUS_TEXT)] | UnsetType = UNSET
    budget: ReportedBudget | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        if self.status is UNSET and self.budget is UNSET:
            raise ValueError("Missing field `status`")


# -- channels and chat -----------------------------------------------------------------------------


class Join(ClientMessage, tag="JOIN", kw_only=True):
    channel: ChannelName


class Leave(ClientMessage, tag="LEAVE", kw_only=True):
    channel: ChannelName


class ListChannels(ClientMessage, tag="LIST_CHANNELS", kw_only=True):
    pass


class ListAgents(ClientMessage, tag="LIST_AGENTS", kw_only=True):
    """Ours: without `channel`, all agents of the hall, or those of `agents` that are here."""

    channel: ChannelName | UnsetType = UNSET
    agents: Annotated[list[AgentAddress], Meta(max_length=MAX_AGENTS_ASKED)] | UnsetType = UNSET


class CreateChannel(ClientMessage, tag="CREATE_CHANNEL", kw_only=True):
    channel: ChannelName
    invite_only: bool | None = None
    verified_only: bool | None = None


class Invite(ClientMessage, tag="INVITE", kw_only=True):
    channel: ChannelName
    agent: AgentAddress


class Msg(ClientMessage, tag="MSG", kw_only=True):
    to: Text
    content: str  # the hall checks its length
    sig: Annotated[str, Meta(max_length=MAX_SIGNATURE)] | UnsetType = UNSET
    in_reply_to: Annotated[str, Meta(max_length=MAX_ID)] | None = None
    receipt: bool | None = None  # ours: the sender wants delivery receipts


class Receipt(ClientMessage, tag="RECEIPT", kw_only=True):
    """Ours: what became of a message that the sender of this one got, for the agent that wrote it."""

    feature: ClassVar[str | None] = "receipts"

    msg_id: Id
    status: ReportedStatus
    reason: Annotated[str, Meta(max_length=MAX_RECEIPT_REASON)] | None = None


class FileChunk(ClientMessage, tag="FILE_CHUNK", kw_only=True):
    to: AgentAddress
    content: str  # bounded by the frame alone (agentchat wire 20, row 11)


class Typing(ClientMessage, tag="TYPING", kw_only=True):
    channel: ChannelName


class RespondingTo(ClientMessage, tag="RESPONDING_TO", kw_only=True):
    msg_id: Id
    channel: ChannelName
    started_at: Number

    def __post_init__(self) -> None:
        _require_time(self.started_at, "started_at")


class Release(ClientMessage, tag="RELEASE", kw_only=True):
    """Ours: the sender claimed this message, and will not answer it."""

    feature: ClassVar[str | None] = "release"

    msg_id: Id
    channel: ChannelName


# -- peer verification -----------------------------------------------------------------------------


class VerifyRequest(ClientMessage, tag="VERIFY_REQUEST", kw_only=True):
    target: AgentAddress
    nonce: Annotated[str, Meta(min_length=16, max_length=128)]


class VerifyResponse(ClientMessage, tag="VERIFY_RESPONSE", kw_only=True):
    request_id: Text
    nonce: Text
    sig: Text


# -- marketplace -----------------------------------------------------------------------------------


class Proposal(ClientMessage, tag="PROPOSAL", kw_only=True):
    to: AgentAddress
    task: Text
    amount: Scalar | None = None
    currency: Scalar | None = None
    payment_code: Scalar | None = None
    terms: Any = None
    capability: str | None = None
    expires: Number | UnsetType = UNSET
    elo_stake: Stake | None = None
    sig: Text

    def __post_init__(self) -> None:
        _require_whole(self.elo_stake, "elo_stake")


class Accept(ClientMessage, tag="ACCEPT", kw_only=True):
    proposal_id: Id
    payment_code: Scalar | None = None
    elo_stake: Stake | None = None
    sig: Text

    def __post_init__(self) -> None:
        _require_whole(self.elo_stake, "elo_stake")


class Reject(ClientMessage, tag="REJECT", kw_only=True):
    proposal_id: Id
    reason: Scalar | None = None
    sig: Text


class Complete(ClientMessage, tag="COMPLETE", kw_only=True):
    proposal_id: Id
    proof: Scalar | None = None
    sig: Text


class Dispute(ClientMessage, tag="DISPUTE", kw_only=True):
    proposal_id: Id
    reason: Text
    sig: Text


class RegisterSkills(ClientMessage, tag="REGISTER_SKILLS", kw_only=True):
    skills: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    sig: Text

    def __post_init__(self) -> None:
        for skill in self.skills:
            if not isinstance(skill.get("capability"), str) or not skill["capability"]:
                raise ValueError("`skills`: every skill needs a `capability`")


class SearchSkills(ClientMessage, tag="SEARCH_SKILLS", kw_only=True):
    query: dict[str, Any] | list[Any]
    query_id: Scalar | None = None


class ListProposals(ClientMessage, tag="LIST_PROPOSALS", kw_only=True):
    """Ours: the sender's own deals, newest first; with `before`, those older than this one."""

    feature: ClassVar[str | None] = "lists"

    open_only: bool = False
    limit: Limit = 100
    before: Id | None = None


class ListReceipts(ClientMessage, tag="LIST_RECEIPTS", kw_only=True):
    """Ours: receipts of the sender's completed deals, newest first; with `before`, older than that deal's."""

    feature: ClassVar[str | None] = "lists"

    limit: Limit = 100
    before: Id | None = None


class GetRating(ClientMessage, tag="GET_RATING", kw_only=True):
    """Ours: how an agent stands, and its history; by default the sender itself."""

    feature: ClassVar[str | None] = "lists"

    agent: AgentAddress | None = None
    limit: Limit = 20


class GetLeaderboard(ClientMessage, tag="GET_LEADERBOARD", kw_only=True):
    """Ours: the best rated agents."""

    feature: ClassVar[str | None] = "lists"

    limit: Limit = 10


# -- court -----------------------------------------------------------------------------------------


class DisputeIntent(ClientMessage, tag="DISPUTE_INTENT", kw_only=True):
    proposal_id: Id
    reason: Text
    commitment: Id
    sig: Text


class DisputeReveal(ClientMessage, tag="DISPUTE_REVEAL", kw_only=True):
    proposal_id: Id
    nonce: Nonce
    sig: Text


class Evidence(ClientMessage, tag="EVIDENCE", kw_only=True):
    dispute_id: Id
    items: list[dict[str, Any]]
    statement: str
    sig: Text


class ArbiterAccept(ClientMessage, tag="ARBITER_ACCEPT", kw_only=True):
    dispute_id: Id
    sig: Text


class ArbiterDecline(ClientMessage, tag="ARBITER_DECLINE", kw_only=True):
    dispute_id: Id
    reason: Scalar | None = None
    sig: str | None = None


class ArbiterVote(ClientMessage, tag="ARBITER_VOTE", kw_only=True):
    dispute_id: Id
    verdict: Verdict
    reasoning: str
    sig: Text


class ListCases(ClientMessage, tag="LIST_CASES", kw_only=True):
    """Ours: the cases in which the sender is a party or an arbiter, newest first."""

    feature: ClassVar[str | None] = "cases"

    open_only: bool = False
    limit: Limit = 100


class GetCase(ClientMessage, tag="GET_CASE", kw_only=True):
    """Ours: the whole file of a case, for its parties and arbiters. By its own id or its proposal's."""

    feature: ClassVar[str | None] = "cases"

    dispute_id: Id | None = None
    proposal_id: Id | None = None

    def __post_init__(self) -> None:
        if self.dispute_id is None and self.proposal_id is None:
            raise ValueError("`dispute_id` or `proposal_id` is required")


def _require_time(number: Number, field: str) -> None:
    """Anything but 0 (agentchat wire 5.1), as long as a double can hold it."""
    if not number or not -MAX_DOUBLE < number < MAX_DOUBLE:
        raise ValueError(f"`{field}` must be a time in milliseconds")


def _require_whole(number: Number | None, field: str) -> None:
    if isinstance(number, float) and not number.is_integer():
        raise ValueError(f"`{field}` must be a whole number")

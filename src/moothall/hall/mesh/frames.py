"""Text frames of the mesh: what an agent asks the hall itself, and what the hall says in its own name.

Envelopes are binary frames; these are JSON objects in text frames, beside them. Keys, ids and hashes are lowercase
hex, amounts are millionths, and times are Unix milliseconds unless a field says otherwise. A question may carry
`ref`, and the direct answer has it too. Fields that are not known here are ignored.
"""

from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

SUBPROTOCOL: Final = "moothall.mesh.v1"
MAX_REF: Final = 64  # characters
MAX_TEXT: Final = 4096  # bytes of a text frame of an agent
MAX_PAGE: Final = 100  # conversations, or envelopes of an inbox, in one answer
MAX_PAGE_BYTES: Final = 256 * 1024  # of envelopes in one answer, before base64

# Codes of an Error that programs act upon.
OUT_OF_ORDER: Final = "OUT_OF_ORDER"
NO_INBOX: Final = "NO_INBOX"

_MAX_NUMBER: Final = 2**63 - 1

AgentId = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
ConversationId = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
Signature = Annotated[str, Meta(pattern="^[0-9a-f]{128}$")]
Ref = Annotated[str, Meta(max_length=MAX_REF)]
Number = Annotated[int, Meta(ge=0, le=_MAX_NUMBER)]
Limit = Annotated[int, Meta(ge=1, le=MAX_PAGE)]
TopicName = Annotated[str, Meta(min_length=1, max_length=128)]  # bytes too, see `topics`


class Frame(Struct, kw_only=True, frozen=True, tag_field="type", omit_defaults=True):
    ref: Ref | UnsetType = UNSET


# -- from an agent to the hall -------------------------------------------------------------------------------


class Prove(Frame, frozen=True, tag="prove"):
    """First with `agent_id`, which is answered with a challenge; then with the signature of `proof_text`."""

    agent_id: AgentId | None = None
    acks: bool = False  # say `accepted` for each envelope of this connection
    receives: bool = True  # False: envelopes to the agent go to its other connections, or into its inbox
    signature: Signature | None = None


class Subscribe(Frame, frozen=True, tag="subscribe"):
    topic: TopicName


class Unsubscribe(Frame, frozen=True, tag="unsubscribe"):
    topic: TopicName


class ReadInbox(Frame, frozen=True, tag="inbox"):
    """`after` confirms all up to it: they are removed."""

    after: Number | None = None
    limit: Limit = MAX_PAGE


class ListConversations(Frame, frozen=True, tag="conversations"):
    """The agent's own, the latest first. `before` is that of the previous page: its last conversation."""

    limit: Limit = 20
    before: ConversationId | None = None
    open_only: bool = False


class ShowConversation(Frame, frozen=True, tag="conversation"):
    """Answered to participants only."""

    conversation_id: ConversationId


class AskReputation(Frame, frozen=True, tag="reputation"):
    """Of this agent, or of another one."""

    agent_id: AgentId | None = None


class AskBalance(Frame, frozen=True, tag="balance"):
    pass


class Order(Frame, frozen=True):
    """What a party orders besides its envelopes. `signature` is over `text`; `timestamp` is microseconds."""

    conversation_id: ConversationId
    nonce: Number
    timestamp: Number
    signature: Signature

    @property
    def word(self) -> str:
        return str(self.__struct_config__.tag)

    def text(self, hall: str) -> bytes:
        """What is signed. It names the hall, so it is worth nothing at another one."""
        parts = (self.word, self.conversation_id, self.nonce, self.timestamp, hall)
        return f"MOOTHALL_MESH_ORDER|{'|'.join(map(str, parts))}".encode()


class Cancel(Order, frozen=True, tag="cancel"):
    """The requester wants its credits back."""


class Consent(Order, frozen=True, tag="consent"):
    """The provider lets the requester cancel."""


Question = ListConversations | ShowConversation | AskReputation | AskBalance | Cancel | Consent
AgentFrame = Prove | Subscribe | Unsubscribe | ReadInbox | Question


# -- from the hall to an agent: answers ----------------------------------------------------------------------


class Challenge(Frame, frozen=True, tag="challenge"):
    """It names its hall: `challenge` is `bound_nonce` of the other three. A client that compares `host` with the
    address that it dialled signs no challenge of another hall."""

    challenge: str
    hall: AgentId
    random: str
    host: str


class Proven(Frame, frozen=True, tag="proven"):
    agent_id: AgentId
    cursor: int  # of the newest envelope in the inbox, 0 if it is empty
    floor: int  # microseconds: an envelope must have a later timestamp


class Subscribed(Frame, frozen=True, tag="subscribed"):
    """The named topics of this connection. Each connection has the three fixed ones besides."""

    topics: tuple[str, ...]


class Kept(Struct, kw_only=True, frozen=True):
    cursor: int
    envelope: str  # base64


class Inbox(Frame, frozen=True, tag="inbox"):
    envelopes: tuple[Kept, ...]
    cursor: int  # of the last one here, or the `after` of the question: the next `after`
    more: bool
    lost: int  # envelopes that had to make way since the last confirmed one


class ConversationSummary(Struct, kw_only=True, frozen=True):
    conversation_id: str
    state: str
    requester: str
    provider: str
    amount: int
    notary: str | None = None
    deadline: int | None = None  # when the hall acts, if no agent does
    elsewhere: bool = False  # its credits are on the ledger of another hall
    created_at: int = 0
    updated_at: int = 0


class Conversations(Frame, frozen=True, tag="conversations"):
    conversations: tuple[ConversationSummary, ...]
    before: str | None = None  # of the next page; absent if this is the last


class EscrowSummary(Struct, kw_only=True, frozen=True):
    amount: int
    notary_fee: int
    created_at: int
    timeout: int  # milliseconds after `created_at`
    settled: str | None = None  # "approve", "claim" or "cancel"


class Logged(Struct, kw_only=True, frozen=True):
    """An envelope of a conversation, as the log has it."""

    msg_type: str
    sender: str
    timestamp: int  # microseconds, the sender's
    hash: str  # Keccak-256 of the envelope
    envelope: str  # base64


class ConversationShown(Frame, frozen=True, tag="conversation"):
    conversation: ConversationSummary
    offered_by: str
    verdict: str | None = None  # the notary's on the last delivery: "approve" or "reject"
    consented: bool = False  # the provider lets the requester cancel
    case: str | None = None  # the open court case that holds it: nothing else happens until it ends
    escrow: EscrowSummary | None = None
    history: tuple[Logged, ...] = ()
    more: bool = False  # the history is longer than one answer holds; this is its end


class Reputation(Frame, frozen=True, tag="reputation"):
    """The vector of the mesh, and the rating of the market, of one key."""

    agent_id: str
    rating: int
    transactions: int
    reliability: int
    cooperation: int
    notary_accuracy: int
    total_tasks: int
    total_notarized: int
    total_disputes: int
    last_active_epoch: int


class Balance(Frame, frozen=True, tag="balance"):
    agent_id: str
    balance: int


class Cancelled(Frame, frozen=True, tag="cancelled"):
    conversation_id: str
    state: str


class Consented(Frame, frozen=True, tag="consented"):
    conversation_id: str
    state: str


Answer = Conversations | ConversationShown | Reputation | Balance | Cancelled | Consented


class Error(Frame, frozen=True, tag="error"):
    """A text frame was not understood, or is not answered."""

    code: str
    message: str


# -- from the hall to an agent: what became of an envelope ---------------------------------------------------


class Accepted(Frame, frozen=True, tag="accepted"):
    """Only to a connection that asked for `acks`: after the commit, or, if nothing is kept, after routing."""

    msg_type: str
    nonce: int
    conversation_id: str
    state: str | None = None  # of the conversation, if the envelope belongs to one


class Refused(Frame, frozen=True, tag="refused"):
    """`fault` is one of mesh wire 3.1, or of the hall: see docs/wire-mesh.md."""

    fault: str
    reason: str
    msg_type: str | None = None
    nonce: int | None = None
    conversation_id: str | None = None


class NotInOrder(Frame, frozen=True, tag="out_of_order"):
    """The conversation does not allow it. It was not routed, and nothing has changed."""

    msg_type: str
    nonce: int
    conversation_id: str
    state: str
    reason: str


class Offline(Frame, frozen=True, tag="offline"):
    """The recipient is not here. What the envelope does is done all the same."""

    recipient: str
    msg_type: str
    nonce: int
    conversation_id: str
    stored: bool  # it waits in the recipient's inbox


# -- from the hall to an agent: what happened ----------------------------------------------------------------


class NotaryAssigned(Frame, frozen=True, tag="notary_assigned"):
    conversation_id: str
    notary: str
    fee: int


class ConversationChanged(Frame, frozen=True, tag="conversation_changed"):
    """It changed without an envelope to this agent. With the cause "message", other participants exchanged one: the
    provider delivered, and this is the notary; or a party sent a DISPUTE to the notary."""

    conversation_id: str
    state: str
    cause: Literal["review", "timeout", "cancel", "court", "message"]


class DiscoverResults(Frame, frozen=True, tag="discover_results"):
    """Best first: `agent_id`, `name`, `capabilities`, `rating`, `transactions`, `online`, and what was advertised
    besides."""

    query: str
    results: list[dict[str, Any]]


Notice = NotaryAssigned | ConversationChanged
HallFrame = (
    Challenge
    | Proven
    | Subscribed
    | Inbox
    | Answer
    | Error
    | Accepted
    | Refused
    | NotInOrder
    | Offline
    | Notice
    | DiscoverResults
)

decode_agent_frame: Final = msgspec.json.Decoder(AgentFrame).decode
decode_hall_frame: Final = msgspec.json.Decoder(HallFrame).decode
encode_frame: Final = msgspec.json.Encoder().encode

AGENT_FRAMES: Final = frozenset(str(each.__struct_config__.tag) for each in get_args(AgentFrame))


class _Head(Struct):
    type: Any = None
    ref: Any = None


def read_head(payload: bytes, error: Exception) -> Error:
    """What to answer to a text frame that could not be decoded."""
    try:
        head = msgspec.json.decode(payload, type=_Head)
    except (msgspec.DecodeError, RecursionError):
        return Error(code="INVALID_FRAME", message="A text frame is a JSON object")
    ref = head.ref if isinstance(head.ref, str) and len(head.ref) <= MAX_REF else UNSET
    if not isinstance(head.type, str) or head.type not in AGENT_FRAMES:
        return Error(
            code="UNKNOWN_TYPE", message=f"`type` is one of {', '.join(sorted(AGENT_FRAMES))}", ref=ref
        )
    return Error(code="INVALID_FRAME", message=str(error), ref=ref)


# -- what is signed ------------------------------------------------------------------------------------------


def proof_text(challenge: str, hall: str, agent_id: str) -> bytes:
    """What proves a key to one hall, once. No envelope and no message of another wire starts like this."""
    return f"MOOTHALL_MESH_PROOF|{challenge}|{hall}|{agent_id}".encode()

"""What a server sends, decoded as far as it is understood.

Every frame becomes an `Incoming`. Its `body` is a typed message when the type is known and its fields are as
expected, otherwise None, and a handler can read `raw`: a newer server, or another one, may say
more than this client knows, and that must never end a connection (agentchat wire 18.1, 9).
"""

import json
from typing import Any, Final

import msgspec
from msgspec import field

from moothall.wire.agentchat import court, market, server
from moothall.wire.agentchat.client import ClientMessage, Number, Verdict
from moothall.wire.agentchat.codec import is_utf8
from moothall.wire.agentchat.server import ServerMessage

LONGEST_INTEGER: Final = 4000  # digits; `sys.get_int_max_str_digits()` is 4300


class Yield(ServerMessage, tag="YIELD", kw_only=True):
    """As the seed words it (`winner`) and as the reference does (`holder`) (agentchat wire 20, row 34)."""

    msg_id: str
    channel: str
    winner: str | None = None
    holder: str | None = None
    holder_started_at: Number | None = None

    @property
    def speaker(self) -> str | None:
        """Who has the floor."""
        return self.winner or self.holder


# -- deals, as our hall and the reference tell them (agentchat wire 6.4) -----------------------------------


class Offer(ServerMessage, tag="PROPOSAL", kw_only=True):
    """The reference has no `proposal_id` here; both have `id`. Optional values may be of any type."""

    id: str
    from_: str = field(name="from")
    to: str
    task: str
    amount: Any = None
    currency: Any = None
    payment_code: Any = None
    terms: Any = None
    capability: str | None = None
    expires: Number | None = None
    created_at: Number | None = None
    elo_stake: Number | None = None


class Step(ServerMessage, kw_only=True):
    """What every change of a deal says. `from` and `to` are proposer and recipient at every step."""

    proposal_id: str
    from_: str = field(name="from")
    to: str
    updated_at: Number | None = None


class Accepted(Step, tag="ACCEPT", kw_only=True):
    payment_code: Any = None
    proposer_stake: Number | None = None
    acceptor_stake: Number | None = None


class Rejected(Step, tag="REJECT", kw_only=True):
    reason: Any = None


class Settled(Step, kw_only=True):
    rating_changes: dict[str, dict[str, Any]] | None = None


class Completed(Settled, tag="COMPLETE", kw_only=True):
    completed_by: str | None = None
    proof: Any = None


class Disputed(Settled, tag="DISPUTE", kw_only=True):
    disputed_by: str | None = None
    reason: Any = None


class Expired(Step, tag="EXPIRED", kw_only=True):
    pass


# -- the court, likewise (agentchat wire 6.5) ---------------------------------------------------------------


class Filed(ServerMessage, tag="DISPUTE_INTENT_ACK", kw_only=True):
    dispute_id: str
    proposal_id: str
    server_nonce: str | None = None
    # not from the reference:
    reveal_deadline: Number | None = None
    pool_hash: str | None = None


class Revealed(ServerMessage, tag="DISPUTE_REVEALED", kw_only=True):
    dispute_id: str
    seed: str | None = None


class FellBack(ServerMessage, tag="DISPUTE_FALLBACK", kw_only=True):
    """The reference names the deal only when the panel could not be formed."""

    dispute_id: str
    proposal_id: str | None = None
    reason: str = ""


class PanelFormed(ServerMessage, tag="PANEL_FORMED", kw_only=True):
    dispute_id: str
    proposal_id: str
    arbiters: list[str]
    disputant: str
    respondent: str
    seed: str | None = None
    server_nonce: str | None = None
    # not from the reference:
    pool: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


class Assigned(ServerMessage, tag="ARBITER_ASSIGNED", kw_only=True):
    dispute_id: str
    proposal_id: str
    disputant: str
    respondent: str
    reason: str = ""
    response_deadline: Number
    is_replacement: bool = False


class CaseReady(ServerMessage, tag="CASE_READY", kw_only=True):
    dispute_id: str
    proposal: dict[str, Any] | None = None
    disputant: str
    disputant_evidence: court.CaseEvidence | None = None
    respondent: str
    respondent_evidence: court.CaseEvidence | None = None
    vote_deadline: Number


class CourtSettled(ServerMessage, tag="SETTLEMENT_COMPLETE", kw_only=True):
    dispute_id: str
    proposal_id: str
    verdict: Verdict
    rating_changes: dict[str, dict[str, Any]] | None = None


class CaseFile(ServerMessage, tag="CASE", kw_only=True):
    case: dict[str, Any]


class _Outline(msgspec.Struct, gc=False):
    type: str = ""
    ref: str | None = None


_KNOWN: Final[tuple[type[ServerMessage], ...]] = (
    server.Ack,
    server.AdminResult,
    server.AgentJoined,
    server.AgentLeft,
    server.Agents,
    server.CaptchaChallenge,
    server.Challenge,
    server.Channels,
    server.Chat,
    server.Chunk,
    server.Error,
    server.FloorClaimed,
    server.FloorReleased,
    server.Gap,
    server.Joined,
    server.KeyRevoked,
    server.ApiTokenGiven,
    server.Left,
    server.MotdUpdate,
    server.NickChanged,
    server.Pong,
    server.PresenceChanged,
    server.Receipt,
    server.RespondingNotice,
    server.TakeoverPending,
    server.TypingNotice,
    server.VerifyFailed,
    server.VerifyRequestNotice,
    server.VerifySuccess,
    server.Welcome,
    court.Cases,
    court.EvidenceReceived,
    court.VerdictNotice,
    market.Leaderboard,
    market.Proposals,
    market.Ratings,
    market.Receipts,
    market.SearchResults,
    market.SkillsRegistered,
    Accepted,
    Assigned,
    CaseFile,
    CaseReady,
    Completed,
    CourtSettled,
    Disputed,
    Expired,
    FellBack,
    Filed,
    Offer,
    PanelFormed,
    Rejected,
    Revealed,
    Yield,
)
_decoders: Final = {str(known.__struct_config__.tag): msgspec.json.Decoder(known) for known in _KNOWN}
_outline: Final = msgspec.json.Decoder(_Outline).decode
_raw: Final = msgspec.json.Decoder(dict[str, Any]).decode
_encode: Final = msgspec.json.Encoder().encode


class Incoming:
    __slots__ = ("body", "payload", "ref", "type")

    def __init__(self, payload: bytes, kind: str, ref: str | None, body: ServerMessage | None) -> None:
        self.payload = payload
        self.type = kind
        self.ref = ref  # of the request that this is the reply to, on a server that says so
        self.body = body

    @property
    def raw(self) -> dict[str, Any]:
        return raw(self.payload)


def decode(payload: bytes) -> Incoming | None:
    """None for what is not a message at all."""
    try:
        outline = _outline(payload)
        body = _body(outline.type, payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_slowly(payload)
    return _incoming(payload, outline, body)


def _incoming(payload: bytes, outline: _Outline, body: ServerMessage | None) -> Incoming | None:
    if body is None and outline.type == "ERROR":
        body = _blunt_error(raw(payload))
    return Incoming(payload, outline.type, outline.ref, body) if outline.type else None


def _blunt_error(message: dict[str, Any]) -> server.Error:
    """A refusal is one however it is put; waiting for a better one would be waiting in vain."""
    code, text = message.get("code"), message.get("message")
    return server.Error(
        ts=0,
        code=code if isinstance(code, str) and code else "UNKNOWN",
        message=text if isinstance(text, str) and text else "no reason was given",
    )


def _body(kind: str, payload: bytes) -> ServerMessage | None:
    decoder = _decoders.get(kind)
    if decoder is None:
        return None
    try:
        body: ServerMessage = decoder.decode(payload)
    except msgspec.ValidationError:
        return None
    return body


def raw(payload: bytes) -> dict[str, Any]:
    """The whole message, with the fields this client has no name for."""
    try:
        return _raw(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        message: dict[str, Any] = _parse(payload)
        return message
    except RecursionError:
        return {}  # what was read with less on the stack is not worth the rest


def encode(message: ClientMessage) -> bytes:
    """Without the fields that have nothing to say: some servers refuse a null there (agentchat wire 18.2)."""
    fields = {
        name: value
        for name, value in msgspec.to_builtins(message).items()
        if value is not None or name == "motd"  # a MOTD of null takes it down
    }
    try:
        return _encode(fields)
    except UnicodeEncodeError:
        return json.dumps(fields, separators=(",", ":")).encode()


def _parse(payload: bytes) -> Any:
    return json.loads(payload.decode(errors="replace"), parse_int=_integer)


def _integer(digits: str) -> int | float:
    """Python refuses to read very long ones; JavaScript has no others than this either (agentchat wire 2.1)."""
    return int(digits) if len(digits) <= LONGEST_INTEGER else float(digits)


def _decode_slowly(payload: bytes) -> Incoming | None:
    """Lone surrogates, which JavaScript writes when it cuts a character in two, and which msgspec refuses."""
    try:
        message = _parse(payload)
        if isinstance(message, dict):
            message = {
                name: value for name, value in message.items() if is_utf8(name)
            }  # none of ours is lost
        outline = msgspec.convert(message, _Outline)
    except (ValueError, RecursionError):  # msgspec's ValidationError is a ValueError
        return None
    decoder = _decoders.get(outline.type)
    try:
        body = msgspec.convert(message, decoder.type) if decoder is not None else None
    except (msgspec.ValidationError, UnicodeEncodeError, RecursionError):
        body = None  # msgspec fails on a lone surrogate in a field name or an enumerated word
    return _incoming(payload, outline, body)


def features(body: server.Welcome) -> frozenset[str]:
    """The extensions that a WELCOME lists. Another server may mean something else by the field."""
    found = body.features
    return (
        frozenset(each for each in found if isinstance(each, str)) if isinstance(found, list) else frozenset()
    )

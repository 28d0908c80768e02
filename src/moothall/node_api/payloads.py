"""From the fields of a request to the payload of an envelope, as the reference's node builds it (mesh wire 5, 13).

JSON payloads of two types are converted: FEEDBACK, with its target, and BROADCAST, which the TypeScript client
sends as JSON.
"""

import base64
import binascii
import re
from typing import Any, Final, Literal

from msgspec import Struct

from moothall.errors import NodeRefused
from moothall.node_api.bodies import (
    MAX_MESSAGE,
    AcceptBody,
    BroadcastBody,
    CounterBody,
    ProposeBody,
    agent_id,
)
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.broadcast_items import MAX_TAGS, MAX_TITLE, MAX_TOPIC
from moothall.wire.mesh.faults import PayloadParseError
from moothall.wire.mesh.jsonobjects import convert, read_object
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.offers import DEFAULT_MAX_ROUNDS, Accept, Counter, Propose
from moothall.wire.mesh.outcomes import MAX_INLINE, Deliver, Feedback, Outcome, Role

MAX_TAG: Final = 64  # characters
MAX_URL: Final = 2048  # characters

# BEACON is the node's own, and BOUNTY is not a type that the reference's API sends.
SENDABLE: Final = {each.name: each for each in MsgType if each not in (MsgType.BEACON, MsgType.BOUNTY)}

_is_slug: Final = re.compile(rf"[A-Za-z0-9_:-]{{1,{MAX_TOPIC}}}").fullmatch
_is_web: Final = re.compile(r"https?://.+").match


def sendable(name: str) -> MsgType:
    """Raises NodeRefused (400)."""
    found = SENDABLE.get(name.upper())
    if found is None:
        raise NodeRefused(400, f"unknown msg_type: {name[:64]}")
    return found


def topic_slug(text: str, fault: str) -> str:
    """Raises NodeRefused (400)."""
    if not _is_slug(text):
        raise NodeRefused(400, fault)
    return text


def built(msg_type: MsgType, raw: bytes, conversation_id: bytes, recipient: bytes | None) -> bytes:
    """The payload for the bytes that a program gave. Raises NodeRefused (400)."""
    if msg_type is MsgType.DELIVER:
        # Larger work is sent as it is: there is no aggregator here to keep it.
        is_inline = len(raw) <= MAX_INLINE
        return Deliver(conversation_id=conversation_id, inline=raw).encode() if is_inline else raw
    if msg_type is MsgType.FEEDBACK and raw[:1] == b"{":
        return _feedback(raw, conversation_id, recipient)
    if msg_type is MsgType.BROADCAST:
        return _broadcast(raw)
    return raw


class _Rating(Struct):
    score: int
    outcome: Literal["negative", "neutral", "positive", 0, 1, 2] = "neutral"
    is_dispute: bool = False
    role: Literal["participant", "notary", 0, 1] = "participant"
    target_agent: str | None = None


def _feedback(raw: bytes, conversation_id: bytes, recipient: bytes | None) -> bytes:
    try:
        rating = convert(read_object(raw), _Rating)
    except PayloadParseError as error:
        raise NodeRefused(400, f"FEEDBACK payload: {error}") from None
    target = recipient if rating.target_agent is None else agent_id(rating.target_agent, "target_agent")
    if target is None:
        raise NodeRefused(
            400, "FEEDBACK payload: it names no agent; give `recipient`, or `target_agent` in the JSON"
        )
    try:
        return Feedback(
            conversation_id=conversation_id,
            target_agent=target,
            score=rating.score,
            outcome=_member(Outcome, rating.outcome),
            is_dispute=rating.is_dispute,
            role=_member(Role, rating.role),
        ).encode()
    except ValueError as error:
        raise NodeRefused(400, f"FEEDBACK payload: {error}") from None


def _member(kind: Any, value: str | int) -> Any:
    return kind[value.upper()] if isinstance(value, str) else kind(value)


class _Post(Struct):
    """What the TypeScript client calls BroadcastPayload."""

    topic: str
    title: str
    tags: tuple[str, ...] = ()
    format: str = "text"
    content_b64: str | None = None
    content_type: str | None = None
    chunk_index: int | None = None
    total_chunks: int | None = None
    duration_ms: int | None = None
    price_per_epoch_micro: int | None = None
    epoch: int | None = None


def _broadcast(raw: bytes) -> bytes:
    try:
        if raw[:1] != b"{":
            Broadcast.decode(raw)
            return raw
        post = convert(read_object(raw), _Post)
        content = None if post.content_b64 is None else base64.b64decode(post.content_b64, validate=True)
        encoded = Broadcast(
            topic=post.topic,
            title=post.title,
            tags=post.tags,
            format=post.format,  # type: ignore[arg-type]  # `encode` looks at it
            content=content,
            content_type=post.content_type,
            chunk_index=post.chunk_index,
            total_chunks=post.total_chunks,
            duration_ms=post.duration_ms,
            price_per_epoch_micro=post.price_per_epoch_micro,
            epoch=post.epoch,
        ).encode()
        Broadcast.decode(encoded)  # numbers that are too large
    except (PayloadParseError, ValueError, binascii.Error) as error:
        raise NodeRefused(400, f"BROADCAST payload: {error}") from None
    return encoded


def proposal(body: ProposeBody) -> bytes:
    """Raises NodeRefused."""
    _check_message(body.message)
    rounds = DEFAULT_MAX_ROUNDS if body.max_rounds is None else body.max_rounds
    if rounds < 1:
        raise NodeRefused(400, "max_rounds must be at least 1")
    return Propose(
        amount=body.amount_usdc_micro or 0,
        message=body.message,
        max_rounds=rounds,
        token_mint=body.token_mint,
        payment_tx=body.payment_tx,
        payment_usd_micro=body.payment_usd_micro,
        total_price_usd_micro=body.total_price_usd_micro,
    ).encode()


def counter_offer(body: CounterBody) -> bytes:
    """Raises NodeRefused."""
    _check_message(body.message)
    most = DEFAULT_MAX_ROUNDS if body.max_rounds is None else body.max_rounds
    if not 1 <= body.round <= most:
        raise NodeRefused(400, f"round {body.round} is out of range [1, {most}]")
    return Counter(
        amount=body.amount_usdc_micro,
        message=body.message or "",
        round=body.round,
        max_rounds=most,
        token_mint=body.token_mint,
    ).encode()


def acceptance(body: AcceptBody) -> bytes:
    """Raises NodeRefused."""
    _check_message(body.message)
    return Accept(
        amount=body.amount_usdc_micro,
        message=body.message or "",
        token_mint=body.token_mint,
        downpayment_usd_micro=body.downpayment_usd_micro,
        remaining_usd_micro=body.remaining_usd_micro,
    ).encode()


def _check_message(message: str | None) -> None:
    if message is not None and len(message.encode()) > MAX_MESSAGE:
        raise NodeRefused(413, "message: exceeds maximum length")


def announcement(slug: str, body: BroadcastBody) -> bytes:
    """A BROADCAST whose content is the address of it. Raises NodeRefused (400)."""
    tags = body.tags or []
    if not 1 <= len(body.title.encode()) <= MAX_TITLE:
        raise NodeRefused(400, f"title must be 1\N{EN DASH}{MAX_TITLE} characters")
    if len(tags) > MAX_TAGS or any(len(tag) > MAX_TAG for tag in tags):
        raise NodeRefused(400, f"tags: max {MAX_TAGS} entries, max {MAX_TAG} chars each")
    if body.format not in (None, "text", "audio", "data"):
        raise NodeRefused(400, 'format must be "text", "audio", or "data"')
    url = body.content_url
    if url is not None and (len(url) > MAX_URL or not _is_web(url)):
        raise NodeRefused(400, f"content_url must be an http/https URL, max {MAX_URL} chars")
    return Broadcast(
        topic=slug,
        title=body.title,
        tags=tuple(tags),
        format=body.format or "text",  # type: ignore[arg-type]  # one of the three
        content=None if url is None else url.encode(),
        content_type=body.content_type,
        duration_ms=body.duration_ms,
        price_per_epoch_micro=body.price_per_epoch_micro,
        epoch=body.epoch,
    ).encode()

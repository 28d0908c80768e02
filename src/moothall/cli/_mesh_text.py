"""How the commands of the mesh show conversations and messages: a line for people, JSON for programs."""

import json
from base64 import b64encode
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
import typer
from msgspec import structs

from moothall.cli._amounts import shown
from moothall.cli._exits import tell
from moothall.tui.printable import one_line

if TYPE_CHECKING:
    from moothall.mesh import Conversation, Message, Sent
    from moothall.wire.mesh.payloads import Payload

RIGHT: Final = "→"
ELSEWHERE: Final = "credits: elsewhere"  # on the ledger of another hall
SHORT: Final = 16  # digits of an agent's id, as many as commands take
_IDS: Final = frozenset(("agent_id", "conversation_id", "target_agent", "notary", "requester", "provider"))


def short(agent_id: str) -> str:
    return agent_id[:SHORT]


def line(conversation: "Conversation") -> str:
    """The id comes first, for `cut -d' ' -f1`."""
    parties = f"{short(conversation.requester)} {RIGHT} {short(conversation.provider)}"
    state = one_line(conversation.state)  # as the hall wrote it
    words = [conversation.id, f"{state:<11}", parties, price(conversation.amount)]
    if conversation.notary is not None:
        words.append(f"notary {short(conversation.notary)}")
    if conversation.facts.elsewhere:
        words.append(ELSEWHERE)
    return "  ".join(words)


def price(amount: int) -> str:
    return f"{shown(amount)} credits"


def described(conversation: "Conversation") -> dict[str, Any]:
    """Amounts are millionths, as on the wire."""
    return {
        "conversation_id": conversation.id,
        "state": conversation.state,
        "requester": conversation.requester,
        "provider": conversation.provider,
        "notary": conversation.notary,
        "amount": conversation.amount,
        "elsewhere": conversation.facts.elsewhere,
    }


def show_step(conversation: "Conversation", sent: "Sent | None", *, as_json: bool) -> None:
    """The conversation after a step of this agent, and what became of the envelope."""
    if as_json:
        outcome = {} if sent is None else {"nonce": sent.nonce, "away": sent.away, "stored": sent.stored}
        typer.echo(json.dumps(described(conversation) | outcome))
        return
    typer.echo(line(conversation))
    tell_away(sent)


def tell_away(sent: "Sent | None") -> None:
    if sent is None or not sent.away:
        return
    if sent.stored:
        tell("the recipient is not connected; the message waits in its inbox")
    else:
        tell(
            "the recipient is not connected, and the hall has no inbox for it; send it again later,"
            " or it finds it with `moothall mesh show`"
        )


def message_line(message: "Message") -> str:
    """`12:03:59  PROPOSE  1f3a9c021f3a9c02  9c41aa02…  5 credits: translate it`"""
    words = [_beginning(message), short(message.sender)]
    if message.conversation_id is not None:
        words.append(message.conversation_id)
    return _with_content(words, message)


def history_line(message: "Message") -> str:
    """The same among others of one conversation: with the recipient in place of its id."""
    parties = short(message.sender)
    if message.recipient is not None:
        parties += f" {RIGHT} {short(message.recipient)}"
    return _with_content([_beginning(message), parties], message)


def _beginning(message: "Message") -> str:
    return f"{_local(message.envelope.timestamp / 1_000_000, '%H:%M:%S')}  {message.type:<15}"


def _with_content(words: list[str], message: "Message") -> str:
    if content := _content(message):
        words.append(one_line(content))
    return "  ".join(words).rstrip()


def described_message(message: "Message") -> dict[str, Any]:
    """The fields of the envelope, and its payload if it can be read. Ids are hex, other bytes base64."""
    return {
        "type": message.type,
        "sender": message.sender,
        "recipient": message.recipient,
        "conversation_id": message.conversation_id,
        "timestamp": message.envelope.timestamp,
        "nonce": message.nonce,
        "hash": message.hash,
        "payload": None if message.payload is None else _fields(message.payload),
        "payload_b64": b64encode(message.envelope.payload).decode(),
    }


def moment_text(milliseconds: int) -> str:
    return _local(milliseconds / 1000, "%Y-%m-%d %H:%M:%S")


def _local(seconds: float, pattern: str) -> str:
    """A time that others wrote may be one that no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC).astimezone().strftime(pattern)
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.0f} s"


def _content(message: "Message") -> str:
    from moothall.wire.mesh.announcements import Advertise, Beacon, Discover
    from moothall.wire.mesh.broadcast import Broadcast
    from moothall.wire.mesh.notaries import NotarizeAssign, NotarizeBid, Verdict
    from moothall.wire.mesh.offers import Accept, Counter, Propose
    from moothall.wire.mesh.outcomes import Deliver, Feedback

    match message.payload:
        case Propose() | Counter() | Accept():
            return f"{price(message.amount)}{_said(message.text)}"
        case Deliver(payload_uri=str(uri), inline=None):
            return uri
        case NotarizeBid(bid_type=kind):
            return "offers to be a notary" if kind.name == "OFFER" else "asks for a notary"
        case NotarizeAssign(notary=notary):
            return f"notary {short(notary.hex())}"
        case Verdict(judgement=judgement, opaque=note):
            return f"{judgement.name.lower()}{_said(note.decode(errors='replace'))}"
        case Feedback(target_agent=target, score=score, outcome=outcome):
            return f"{score:+d} ({outcome.name.lower()}) for {short(target.hex())}"
        case Advertise(capabilities=capabilities):
            return ", ".join(capabilities)
        case Discover(query=query):
            return query
        case Broadcast(topic=topic, title=title):
            return f"{', '.join(filter(None, (topic, title)))}{_said(message.text)}"
        case Beacon(name=name):
            return name
        case _:
            return message.text


def _said(text: str) -> str:
    return f": {text}" if text else ""


def _fields(payload: "Payload") -> dict[str, Any]:
    return {name: _builtin(name, value) for name, value in structs.asdict(payload).items()}


def _builtin(name: str, value: object) -> object:
    if isinstance(value, bytes):
        return value.hex() if name in _IDS else b64encode(value).decode()
    return msgspec.to_builtins(value)

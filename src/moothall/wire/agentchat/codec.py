"""JSON text <-> typed messages. Nothing that arrives can raise anything but the two errors named here.

msgspec decodes and validates in one pass. Two kinds of input take the slower road through the standard
library: lone surrogate escapes, which JavaScript sends when it cuts a file between the two halves of a
character (agentchat wire 15.2) and which UTF-8 cannot express; and binary frames that are not UTF-8. That road
takes up to a hundred times as long, so a caller can ask to be told first, and text that is not JSON never takes it.
"""

import json
from contextlib import suppress
from typing import Any, Final, NamedTuple, NoReturn

import msgspec
from msgspec import UNSET

from moothall.errors import InvalidMessage
from moothall.wire.agentchat.client import MAX_REF, ClientMessage
from moothall.wire.agentchat.faults import Outline, explain
from moothall.wire.agentchat.requests import AnyClientMessage
from moothall.wire.agentchat.server import ServerMessage
from moothall.wire.outgoing import Bundle, Outgoing
from moothall.wire.websocket import encode_text

# The decoder itself, for the path that every message takes. Who meets one of the errors asks `decode`.
decode_plain: Final = msgspec.json.Decoder(AnyClientMessage).decode
NOT_PLAIN: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_encode: Final = msgspec.json.Encoder().encode


class Malformed(Exception):
    """Not JSON at all."""


class Slow(Exception):
    """It is JSON, but only the standard library can read it."""


class _Look(NamedTuple):
    """An outline, and where all fields can be read: JSON, or an object that was read from it."""

    outline: Outline
    source: Any = None  # not an object


_decode_outline: Final = msgspec.json.Decoder(Outline).decode
_skip: Final = msgspec.json.Decoder(msgspec.Raw).decode


def decode(payload: bytes, *, slowly: bool = True) -> ClientMessage:
    """The message, or Malformed, or InvalidMessage naming the field that is wrong. Not `slowly`: or Slow."""
    try:
        message: ClientMessage = decode_plain(payload)
    except msgspec.ValidationError as error:
        _explain(error, _look(payload, slowly=slowly))
    except RecursionError:
        raise InvalidMessage("Nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decode_slowly(payload, slowly=slowly)
    return message


def read_ref(payload: bytes) -> str | None:
    """The `ref` of a message that was refused, if it can be told."""
    try:
        ref = _look(payload, slowly=True).outline.ref
    except Malformed:
        return None
    return ref if isinstance(ref, str) and len(ref) <= MAX_REF else None


def encode(message: ServerMessage) -> bytes:
    return _encode_any(message)


def encode_command(message: ClientMessage) -> bytes:
    """A command, for another node of this hall."""
    return _encode_any(message)


def _encode_any(message: ServerMessage | ClientMessage) -> bytes:
    try:
        return _encode(message)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(message), separators=(",", ":")).encode()


def framed(outgoing: Outgoing | Bundle) -> bytes:
    """As WebSocket frames, ready to be sent. They are made once."""
    frame = outgoing.frame
    if frame is None:
        if isinstance(outgoing, Bundle):
            frame = _frames(outgoing)
        else:
            plain = outgoing.plain or outgoing
            text = plain.text
            if text is None:
                text = plain.text = encode(plain.message)
            frame = encode_text(text if outgoing.ref is None else with_ref(text, outgoing.ref))
        outgoing.frame = frame
    return frame


def forwarded(encoded: bytes) -> Bundle:
    """A message that another hall has encoded: its bytes are sent on as they are."""
    return Bundle((), frame=encode_text(encoded))


def _frames(bundle: Bundle) -> bytes:
    if bundle.is_replay:
        return b"".join([encode_text(as_replay(encode(part.message))) for part in bundle.parts])
    return b"".join([part.frame or framed(part) for part in bundle.parts])


def with_ref(encoded: bytes, ref: str) -> bytes:
    """An encoded message, with `ref` added."""
    return b'%b,"ref":%b}' % (encoded[:-1], json.dumps(ref).encode())


def as_replay(encoded: bytes) -> bytes:
    """An encoded chat message as it is replayed to agents that join later."""
    return encoded[:-1] + b',"replay":true}'


def _decode_slowly(payload: bytes, *, slowly: bool) -> ClientMessage:
    try:
        value = _parse_slowly(payload, slowly=slowly)
    except RecursionError:
        raise InvalidMessage("Nested too deeply") from None
    except ValueError:
        raise Malformed from None
    if isinstance(value, dict):
        value = {name: field for name, field in value.items() if is_utf8(name)}  # no field of ours is lost
    try:
        message: ClientMessage = msgspec.convert(value, AnyClientMessage)
    except msgspec.ValidationError as error:
        _explain(error, _look_at(value))
    except RecursionError:
        raise InvalidMessage("Nested too deeply") from None
    except UnicodeEncodeError:
        _explain_lone_surrogate(value)
    return message


def is_utf8(text: str) -> bool:
    return text.isascii() or text.encode(errors="ignore").decode() == text


def _explain_lone_surrogate(value: Any) -> NoReturn:
    """msgspec fails on a lone surrogate in a field that is not free text, without naming the field. With a whole
    character in its place it names the field."""
    with suppress(Malformed, RecursionError):  # a number beyond all bounds as well, or nested too deeply
        decode(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    raise InvalidMessage("Lone surrogate in a non-text field")


def _parse_slowly(payload: bytes, *, slowly: bool) -> Any:
    text = payload.decode(errors="replace")
    _check_json(text)
    if not slowly:
        raise Slow
    return json.loads(text, parse_constant=_refuse_constant)


def _check_json(text: str) -> None:
    """Raises ValueError if it is not JSON, in the time that a text of this size usually takes.

    A lone surrogate becomes a whole character first. So may text after a backslash that looks like one: still JSON.
    """
    _skip(text.replace("\\ud", "\\u0").replace("\\uD", "\\u0"))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _look(payload: bytes, *, slowly: bool) -> _Look:
    """Reads all of the payload: the decoder stops at the first field that is wrong, and what follows need not be
    JSON. Then it is Malformed, whatever was wrong before (seed 000, validation: JSON comes before fields)."""
    try:
        return _Look(_decode_outline(payload), payload)
    except RecursionError:
        return _Look(Outline())
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Look(Outline()) if _is_plain_json(payload) else _look_slowly(payload, slowly=slowly)


def _is_plain_json(payload: bytes) -> bool:
    """Not an object, but nothing that has to be read slowly to find that out."""
    try:
        _skip(payload)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _look_slowly(payload: bytes, *, slowly: bool) -> _Look:
    try:
        return _look_at(_parse_slowly(payload, slowly=slowly))
    except RecursionError:
        return _Look(Outline())
    except ValueError:
        raise Malformed from None


def _look_at(value: Any) -> _Look:
    if not isinstance(value, dict):
        return _Look(Outline())
    return _Look(Outline(value.get("type", UNSET), value.get("ref")), value)


def _explain(error: msgspec.ValidationError, look: _Look) -> NoReturn:
    if look.source is None:
        raise InvalidMessage(str(error)) from None
    raise InvalidMessage(explain(error, look.outline.type, look.source)) from None

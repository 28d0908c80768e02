"""What is wrong with a message that the decoder refused, in words for the program or person that sent it.

The decoder says that a message is wrong. Which field it is, is found by looking at the fields one by one.
"""

from functools import cache
from typing import Any, Final, get_args

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import FieldInfo

from moothall.wire.agentchat.client import ClientMessage
from moothall.wire.agentchat.names import AgentAddress, ChannelName
from moothall.wire.agentchat.requests import AnyClientMessage

# What to say instead of a regular expression or a list of literals. Programs match the texts of the first
# two (agentchat wire 7).
_RULES: Final = {
    ("SET_PRESENCE", "status"): "Invalid presence status: one of online, away, busy, offline, listening",
    ("FILE_CHUNK", "to"): "FILE_CHUNK takes DM targets only: `to` is @ and an agent id",
    ("IDENTIFY", "name"): "Invalid `name`: 1 to 32 letters, digits, - or _",
    ("IDENTIFY", "kind"): "Invalid `kind`: agent or human",
    ("SET_NICK", "nick"): "Invalid `nick`: 1 to 24 letters, digits, - or _",
    ("ARBITER_VOTE", "verdict"): "Invalid `verdict`: one of disputant, respondent, mutual",
}
_RULES_OF_TYPES: Final = (
    (ChannelName, "Invalid `{}`: # and 1 to 31 letters, digits, - or _"),
    (AgentAddress, "Invalid `{}`: @ and an agent id"),
)
_MAX_ECHO: Final = 40  # how much of a wrong `type` an error repeats

_KINDS: Final[dict[str, type[ClientMessage]]] = {
    str(message.__struct_config__.tag): message for message in get_args(AnyClientMessage)
}


class Outline(msgspec.Struct):
    """What can be read of a message that did not pass."""

    type: Any = UNSET
    ref: Any = None


def explain(error: msgspec.ValidationError, kind: object, source: Any) -> str:
    """What to tell the sender. `kind` is the `type` of the message, UNSET without one.

    `source` has its fields: JSON, or an object that was read from it.
    """
    if kind is UNSET:
        return "Missing field `type`"
    if not isinstance(kind, str):
        return "`type` must be a text"
    message = _KINDS.get(kind)
    if message is None:
        return f"Unknown message type {kind[:_MAX_ECHO]!r}"
    values = _values(message, source)
    fields = msgspec.structs.fields(message)
    for field in fields:
        if field.encode_name in values and (said := _fault(kind, field, values[field.encode_name])):
            return said
    for field in fields:
        if field.required and field.encode_name not in values:
            return f"Missing field `{field.encode_name}`"
    return str(error)  # about several fields together: the message's own words


def _fault(kind: str, field: FieldInfo, value: Any) -> str | None:
    """What is wrong with the value of a field, or None."""
    name = field.encode_name
    try:
        _read(value, field.type)
    except msgspec.ValidationError as error:
        if rule := _RULES.get((kind, name)):
            return rule
        if _is_text(value):
            for spelled, said in _RULES_OF_TYPES:
                if field.type == spelled or spelled in get_args(field.type):
                    return said.format(name)
        problem, _, place = str(error).partition(
            " - at `$"
        )  # in the library's words, in ours is only the name
        return f"Field `{name}{place.rstrip('`')}`: {problem[:1].lower()}{problem[1:]}"
    except UnicodeEncodeError:
        return f"Field `{name}`: lone surrogate"
    except RecursionError:
        return f"Field `{name}`: nested too deeply"
    return None


def _is_text(value: Any) -> bool:
    try:
        _read(value, str)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return False
    return True


def _read(value: Any, kind: Any) -> None:
    """Raises ValidationError, if it is not of this kind."""
    if isinstance(value, Raw):
        msgspec.json.decode(value, type=kind)
    else:
        msgspec.convert(value, kind)


def _values(message: type[ClientMessage], source: Any) -> dict[str, Any]:
    """The fields of this message that are there. Those of JSON are not read yet."""
    if not isinstance(source, bytes):
        return dict(source)
    found = _decode_fields(message)(source)
    values = ((name, getattr(found, f"_{name}")) for name in _names(message))
    return {name: value for name, value in values if value is not UNSET}


def _names(message: type[ClientMessage]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(message)]


@cache
def _decode_fields(message: type[ClientMessage]) -> Any:
    names = _names(message)
    fields = msgspec.defstruct(
        message.__name__,
        [(f"_{name}", Raw | UnsetType, UNSET) for name in names],
        rename={f"_{name}": name for name in names},
    )
    return msgspec.json.Decoder(fields).decode

"""Putting an agent's signature under what it says."""

import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from moothall.errors import UsageError
from moothall.identity import PrivateKey
from moothall.wire.agentchat.client import ClientMessage

Message = TypeVar("Message", bound=ClientMessage)

UNSIGNED: Final = "-"  # stands where the signature will be


def signed(draft: Message, text: Callable[[Message], str], key: PrivateKey | None) -> Message:
    """The message with a signature of its text (agentchat wire 8)."""
    if key is None:
        raise UsageError(
            "deals, skills and disputes are signed, and this agent has no key: give it identity='FILE'"
        )
    return msgspec.structs.replace(draft, sig=key.sign(text(draft)))


def as_json(value: Any, what: str) -> Any:
    """The value as the hall will read it, so that what is signed is what is sent."""
    try:
        json.dumps(msgspec.to_builtins(value), allow_nan=False)  # the encoder below writes null for infinity
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError) as error:  # surrogates are a ValueError
        raise UsageError(f"{what} cannot be written as JSON: {error}") from None

"""What the supervising process and a node process say to each other: lines of JSON on a socket.

The settings travel here, and not as arguments or in the environment, which other users of the machine may read.
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from moothall.gateways.whereabouts import Whereabouts
from moothall.settings import Settings

MAX_LINE: Final = 16 * 1024 * 1024  # the metrics of all nodes are some kilobytes each


class Orders(msgspec.Struct, tag=True, frozen=True):
    """The first line to a node: what to be."""

    name: str
    settings: msgspec.Raw


class Ready(msgspec.Struct, tag=True, frozen=True):
    """A node serves agents."""

    whereabouts: Whereabouts


class Failed(msgspec.Struct, tag=True, frozen=True):
    """A node cannot start, for a reason that the operator can mend; or it ends, and says why."""

    reason: str


class Report(msgspec.Struct, tag=True, frozen=True):
    """To a node: tell your metrics."""

    number: int


class Reported(msgspec.Struct, tag=True, frozen=True):
    number: int
    text: str


class Gather(msgspec.Struct, tag=True, frozen=True):
    """From a node: tell the metrics of all nodes."""

    number: int


class Gathered(msgspec.Struct, tag=True, frozen=True):
    number: int
    text: str


ToNode = Orders | Report | Gathered
FromNode = Ready | Failed | Reported | Gather


def _encode_path(value: Any) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError


def _decode_path(expected: type, value: Any) -> Any:
    if issubclass(expected, Path):
        return Path(value)
    raise NotImplementedError


_encode: Final = msgspec.json.Encoder(enc_hook=_encode_path).encode
_decode_settings: Final = msgspec.json.Decoder(Settings, dec_hook=_decode_path).decode
decode_to_node: Final = msgspec.json.Decoder(ToNode).decode
decode_from_node: Final = msgspec.json.Decoder(FromNode).decode


def line(message: ToNode | FromNode) -> bytes:
    return _encode(message) + b"\n"


def orders(name: str, settings: Settings) -> Orders:
    return Orders(name, msgspec.Raw(_encode(settings)))


def settings_of(given: Orders) -> Settings:
    return _decode_settings(given.settings)

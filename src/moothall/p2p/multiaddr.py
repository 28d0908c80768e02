"""Multiaddrs: where a peer listens, and who it is (mesh wire 6.1, 13).

    /ip4/127.0.0.1/tcp/9000/p2p/12D3KooW...

This is the form that the mesh needs: one host (ip4, ip6, dns, dns4, dns6), a TCP port, and perhaps a peer id, which
is always that of an Ed25519 key. Other multiaddrs are refused: there is no transport here that could use them.
"""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final, Literal, Self, get_args

import msgspec

from moothall.p2p import varint
from moothall.p2p.faults import MalformedAddress, MalformedMessage
from moothall.wire.mesh.peer_ids import agent_id_of, peer_id, peer_id_bytes

HostKind = Literal["ip4", "ip6", "dns", "dns4", "dns6"]

MAX_TEXT: Final = 512  # characters; a host name has at most 253
MAX_NAME: Final = 253
_TCP: Final = 6
_P2P: Final = 421
_HOST_CODES: Final[dict[HostKind, int]] = {"ip4": 4, "ip6": 41, "dns": 53, "dns4": 54, "dns6": 55}
_HOST_KINDS: Final = {code: kind for kind, code in _HOST_CODES.items()}
_IP_BYTES: Final = {"ip4": 4, "ip6": 16}
_LABEL: Final = re.compile(r"[A-Za-z0-9_-]{1,63}", re.ASCII)  # of a host name, between dots
_PORT: Final = re.compile(r"0|[1-9][0-9]{0,4}", re.ASCII)
_MAX_PORT: Final = 65_535


class Multiaddr(msgspec.Struct, frozen=True):
    """A host, a TCP port, and the agent that should be there, if it is known.

    Made by `parse`, `decode` and `of_socket`, which check their input.
    """

    kind: HostKind
    host: str
    port: int
    agent_id: bytes | None = None

    @classmethod
    def of_socket(cls, host: str, port: int, agent_id: bytes | None = None) -> Self:
        """The multiaddr of an IP address and port, as sockets name them, or of a host name."""
        kind: HostKind = "ip6" if ":" in host else "ip4" if host.replace(".", "").isdigit() else "dns"
        return cls(kind, _host(kind, host), _port(str(port)), agent_id)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads the text form. Raises MalformedAddress, with a text that an operator can act on."""
        if len(text) > MAX_TEXT:
            raise MalformedAddress(f"a multiaddr has at most {MAX_TEXT} characters")
        parts = text.split("/")
        if len(parts) not in (5, 7) or parts[0] or parts[3] != "tcp" or parts[1] not in get_args(HostKind):
            raise MalformedAddress(
                f"{text!r} is not a multiaddr that can be used here: write it as"
                " /ip4/ADDRESS/tcp/PORT, with /ip6, /dns, /dns4 or /dns6 for other hosts, and /p2p/PEER_ID if known"
            )
        kind: HostKind = parts[1]  # type: ignore[assignment]  # checked above
        agent_id = None
        if len(parts) == 7:
            if parts[5] not in ("p2p", "ipfs"):  # ipfs: the former name
                raise MalformedAddress(f"{text!r} goes on after its port with {parts[5]!r} instead of p2p")
            agent_id = _agent_id(parts[6])
        return cls(kind, _host(kind, parts[2]), _port(parts[4]), agent_id)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Reads the binary form. Raises MalformedAddress."""
        try:
            return cls._decode(data)
        except MalformedAddress:
            raise
        except MalformedMessage as fault:
            raise MalformedAddress(str(fault)) from None

    @classmethod
    def _decode(cls, data: bytes) -> Self:
        code, position = _number(data, 0)
        if code not in _HOST_KINDS:
            raise MalformedAddress(f"a multiaddr begins with the protocol {code}, which is not known here")
        kind = _HOST_KINDS[code]
        size = _IP_BYTES.get(kind)
        if size is None:
            size, position = _number(data, position)
        raw, position = _cut(data, position, size)
        if kind == "ip4":
            host = str(IPv4Address(raw))
        elif kind == "ip6":
            host = str(IPv6Address(raw))
        else:
            host = _host(kind, raw.decode("ascii", "replace"))
        code, position = _number(data, position)
        if code != _TCP:
            raise MalformedAddress(f"a multiaddr has the transport {code}; only TCP is known here")
        port, position = _cut(data, position, 2)
        agent_id = None
        if position < len(data):
            code, position = _number(data, position)
            if code != _P2P:
                raise MalformedAddress(f"a multiaddr goes on after its port with the protocol {code}")
            size, position = _number(data, position)
            peer, position = _cut(data, position, size)
            agent_id = _agent_id(peer)
        if position != len(data):
            raise MalformedAddress("a multiaddr goes on after its peer id")
        return cls(kind, host, int.from_bytes(port, "big"), agent_id)

    def encode(self) -> bytes:
        if self.kind == "ip4":
            host = IPv4Address(self.host).packed
        elif self.kind == "ip6":
            host = IPv6Address(self.host).packed
        else:
            host = varint.encode(len(self.host)) + self.host.encode()
        parts = [
            varint.encode(_HOST_CODES[self.kind]),
            host,
            varint.encode(_TCP),
            self.port.to_bytes(2, "big"),
        ]
        if self.agent_id is not None:
            peer = peer_id_bytes(self.agent_id)
            parts += varint.encode(_P2P), varint.encode(len(peer)), peer
        return b"".join(parts)

    def __str__(self) -> str:
        place = f"/{self.kind}/{self.host}/tcp/{self.port}"
        return place if self.agent_id is None else f"{place}/p2p/{peer_id(self.agent_id)}"


def _host(kind: HostKind, text: str) -> str:
    """The host in its usual form. Raises MalformedAddress."""
    try:
        if kind == "ip4":
            return str(IPv4Address(text))
        if kind == "ip6":
            address = IPv6Address(text)
            if address.scope_id is not None:
                raise MalformedAddress("an address with a zone cannot be used here")
            return str(address)
    except AddressValueError:
        raise MalformedAddress(f"{text!r} is not an {kind} address") from None
    if len(text) > MAX_NAME or not all(map(_LABEL.fullmatch, text.split("."))):
        raise MalformedAddress(f"{text[:MAX_NAME]!r} is not a host name")
    return text


def _port(text: str) -> int:
    if not _PORT.fullmatch(text) or int(text) > _MAX_PORT:
        raise MalformedAddress(f"{text[:MAX_NAME]!r} is not a TCP port")
    return int(text)


def _agent_id(peer: str | bytes) -> bytes:
    try:
        return agent_id_of(peer)
    except ValueError:
        raise MalformedAddress(
            "a multiaddr ends with a peer id that is not made from an Ed25519 key"
        ) from None


def _number(data: bytes, position: int) -> tuple[int, int]:
    found = varint.read(data, position)
    if found is None:
        raise MalformedAddress("a multiaddr is cut off")
    return found


def _cut(data: bytes, position: int, size: int) -> tuple[bytes, int]:
    end = position + size
    if end > len(data):
        raise MalformedAddress("a multiaddr is cut off")
    return data[position:end], end

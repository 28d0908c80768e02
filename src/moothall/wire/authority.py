"""Host and port as a URL or a Host header name them, in one spelling, so that two of them can be compared.

People spell the address of a hall in many ways; `hall_url` knows them all, for the SDK and the command line.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from moothall.errors import UsageError
from moothall.wire.origins import is_loopback

DEFAULT_PORT: Final = 6667  # agentchat wire 1.1
DEFAULT_URL: Final = f"ws://127.0.0.1:{DEFAULT_PORT}"
URL_VARIABLES: Final = ("MOOTHALL_URL", "AGENTCHAT_URL")  # the first one that is set wins

HOST: Final = r"[\w.-]+|\[[0-9a-fA-F:.]+\]"  # how the host is written in front of a port

_WEBSOCKET: Final = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
_OTHER_WORDS: Final = re.compile(r"[#\s]")  # a channel is a word of its own
_is_host_alone: Final = re.compile(HOST).fullmatch
_SECURE: Final = frozenset(("wss", "https"))
_UNSPECIFIED: Final = frozenset(("0.0.0.0", "::"))  # noqa: S104 - nothing listens here
_SCHEMES: Final = frozenset(("ws", "http")) | _SECURE


class Authority(NamedTuple):
    host: str  # in lower case, without brackets; an IP address in its shortest form
    port: int

    @property
    def is_local(self) -> bool:
        """True for this machine: loopback, or 0.0.0.0 and ::, which a client that dials them finds there."""
        return is_loopback(self.host) or self.host in _UNSPECIFIED

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def url_variable(environment: Mapping[str, str]) -> str | None:
    """The variable that says where the hall is. An empty one says nothing."""
    return next((variable for variable in URL_VARIABLES if environment.get(variable)), None)


def hall_url(text: str) -> str:
    """The WebSocket URL of a hall, from `host`, `host:port` or a URL of WebSocket or HTTP. Raises UsageError."""
    url = text
    if "://" not in text:
        url = f"ws://{text}:{DEFAULT_PORT}" if _is_host_alone(text) else f"ws://{text}"
    try:
        parts = urlsplit(url)
        scheme, has_host = _WEBSOCKET.get(parts.scheme), bool(parts.hostname and parts.port != 0)
        has_host = has_host and _OTHER_WORDS.search(url) is None
        (parts.hostname or "").encode("idna")
    except ValueError:  # a port out of range, half a bracket, a name that no name server takes
        scheme, has_host = None, False
    if scheme is None or not has_host:
        raise UsageError(f"{text!r} is not the address of a hall; write it like {DEFAULT_URL}")
    return parts._replace(scheme=scheme).geturl()


@lru_cache(maxsize=256)
def authority_of(url: str) -> Authority | None:
    """Of a URL with a scheme of WebSocket or HTTP; None if there is none in it."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in _SCHEMES or not parts.hostname:
            return None
        port = _default_port(secure=parts.scheme in _SECURE) if parts.port is None else parts.port
        return Authority(_host(parts.hostname), port)
    except ValueError:
        return None


def parse_authority(text: str, *, secure: bool) -> Authority | None:
    """Of a Host header; without a port it is the default one, which depends on TLS. None if it is not valid."""
    if not text or any(mark in text for mark in "/?#@\\ \t"):
        return None
    return authority_of(f"{'wss' if secure else 'ws'}://{text}")


def host_header(url: str) -> str:
    """What a client that dials this URL sends as Host: without the default port."""
    found = authority_of(url)
    if found is None:
        raise ValueError(url)
    is_default = found.port == _default_port(secure=urlsplit(url).scheme in _SECURE)
    return str(found).rsplit(":", 1)[0] if is_default else str(found)


def _default_port(*, secure: bool) -> int:
    return 443 if secure else 80


def _host(name: str) -> str:
    name = name.lower().rstrip(".")
    try:
        address = ip_address(name)
    except ValueError:
        return name if name.isascii() else name.encode("idna").decode()
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)

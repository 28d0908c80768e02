"""Where NATS is, and how a node proves there who it is. Secrets appear in no text that is logged or raised."""

import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from moothall.bus.nkeys import Signer, read_credentials, read_nkey
from moothall.errors import UsageError

DEFAULT_PORT: Final = 4222
SCHEMES: Final = ("nats", "tls")


class Server(NamedTuple):
    """One server of NATS. Its URL has no password: that is beside it."""

    url: str
    user: str = ""
    password: str = ""  # empty: the user is a token
    is_encrypted: bool = False

    def __repr__(self) -> str:
        return self.url


@dataclass(frozen=True)
class Access:
    """What a node shows to NATS, and what NATS must show. Files are read at each connection, so they can change."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    credentials: Path | None = None  # a .creds file: a JWT and its seed
    nkey: Path | None = None  # a file with the seed of an NKey
    ca: Path | None = None  # the authority that signed the certificate of NATS; NATS must then have TLS
    certificate: Path | None = None
    key: Path | None = None  # of the certificate; None: it is in the same file

    def signer(self) -> Signer | None:
        """What signs the challenge of NATS, if it is a key. Raises UsageError."""
        if self.credentials is not None:
            return read_credentials(self.credentials)
        return None if self.nkey is None else read_nkey(self.nkey)

    def secrets(self, server: Server) -> dict[str, str]:
        """What is sent to NATS as it is, as nats-py takes it."""
        if self.token:
            return {"token": self.token}
        if self.user:
            return {"user": self.user, "password": self.password}
        if server.password:
            return {"user": server.user, "password": server.password}
        return {"token": server.user} if server.user else {}

    def tls(self) -> ssl.SSLContext:
        """Raises UsageError."""
        try:
            context = ssl.create_default_context(cafile=None if self.ca is None else str(self.ca))
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except ssl.SSLError as error:
            raise UsageError(f"{self._papers()}: not certificates and keys for TLS: {error.reason}") from None
        except OSError as error:
            raise UsageError(f"{self._papers()} cannot be read: {error.strerror}") from None
        return context

    def needs_tls(self, server: Server) -> bool:
        return server.is_encrypted or self.has_papers

    @property
    def has_papers(self) -> bool:
        return self.ca is not None or self.certificate is not None

    def _papers(self) -> str:
        return ", ".join(str(path) for path in (self.ca, self.certificate, self.key) if path is not None)


def parse_servers(urls: Iterable[str]) -> list[Server]:
    """Raises UsageError, with a text that has no password."""
    servers = [_parse_server(url.strip()) for url in urls]
    if not servers:
        raise UsageError("the bus has no URL: nats://HOST:PORT names a server of NATS")
    return servers


def _parse_server(text: str) -> Server:
    try:
        parts = urlsplit(text)
        port = parts.port or DEFAULT_PORT
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        host = parts.hostname or ""
    except ValueError:
        raise UsageError("the bus has a URL that cannot be read: nats://HOST:PORT is one that can") from None
    if parts.scheme not in SCHEMES or not host or parts.path.strip("/") or parts.query:
        raise UsageError("the bus is a URL of NATS: nats://HOST:PORT, or tls://HOST:PORT")
    address = f"[{host}]" if ":" in host else host
    return Server(f"{parts.scheme}://{address}:{port}", user, password, parts.scheme == "tls")

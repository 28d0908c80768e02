"""What every port does: listen, with TLS if there is a certificate, and wait for the last to go."""

import asyncio
import os
import shlex
import socket
import ssl
from collections.abc import Callable, Collection
from errno import EADDRNOTAVAIL
from pathlib import Path
from typing import Any, Final, Protocol

from moothall.errors import SettingsError
from moothall.gateways.doorstep import Guest, behind_tls

TLS_TIMEOUT: Final = 10.0  # seconds for a TLS handshake
BACKLOG: Final = 4096  # connections the kernel may hold for us: a whole town reconnects after a restart
# Bytes of one connection that the kernel reads ahead of us. Many connections can become readable in one turn of the
# loop, before the first of them is charged; and each may hold this much memory for as long as it is paused.
READ_AHEAD: Final = 64 * 1024

_TLS_FAULTS: Final = {"KEY_VALUES_MISMATCH": "the key is not that of the certificate"}


class Abortable(Protocol):
    def abort(self) -> None: ...


async def listen(
    guest: Callable[[], Guest],
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    *,
    shares_port: bool = False,
    purpose: str = "",
    advice: str = "",
) -> asyncio.Server:
    """SettingsError, with the purpose and the advice, if the address is not to be had. If it `shares_port`, other
    processes can listen on it too, and the kernel gives each connection to one of them."""
    loop = asyncio.get_running_loop()
    protocol: Any = guest if tls is None else behind_tls(loop, guest, tls, TLS_TIMEOUT)
    try:
        server = await loop.create_server(
            protocol, host, port, backlog=BACKLOG, reuse_port=shares_port or None
        )
    except (OSError, UnicodeError) as error:
        raise cannot_listen(error, host, port, purpose, advice) from None
    for listening in server.sockets:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, READ_AHEAD)  # connections inherit it
    return server


def cannot_listen(
    error: OSError | UnicodeError, host: str, port: int, purpose: str, advice: str
) -> SettingsError:
    """What to tell an operator whose address is not to be had."""
    if isinstance(error, UnicodeError):
        return SettingsError(f"cannot listen on {host!a}{purpose}: not the name of a host")
    if isinstance(error, socket.gaierror):
        return SettingsError(f"cannot listen on {host}:{port}{purpose}: no such host")
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno == EADDRNOTAVAIL:
        advice = "; use an address of this machine, or 0.0.0.0 for all of them"
    return SettingsError(f"cannot listen on {host}:{port}{purpose}: {reason}{advice}")


def address_of(server: asyncio.Server | None) -> tuple[str, int]:
    assert server is not None  # noqa: S101  # open() was awaited
    host, port, *_ = server.sockets[0].getsockname()
    return host, port


async def until_gone(connections: Collection[Abortable], drained: asyncio.Event, seconds: float) -> None:
    """Wait until the last connection is closed (`drained` is set then); abort those still open after that time."""
    if not connections:
        return
    drained.clear()
    try:
        async with asyncio.timeout(seconds):
            await drained.wait()
    except TimeoutError:
        for connection in list(connections):
            connection.abort()


def _self_signed(cert: Path, key: Path) -> str:
    """The command that makes both files."""
    names = "-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1"
    files = f"-keyout {shlex.quote(str(key))} -out {shlex.quote(str(cert))}"
    return f"openssl req -x509 -newkey rsa:2048 -nodes -days 365 {names} {files}"


def load_tls(cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if cert is None or key is None:
        return None
    for file, what in ((cert, "certificate"), (key, "key")):
        if not file.exists():
            raise SettingsError(
                f"there is no TLS {what} {file}: check the path, or make a self-signed certificate for a test with"
                f" `{_self_signed(cert, key)}`"
            )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # A password, if only an empty one, or OpenSSL would ask the terminal for that of an encrypted key.
        context.load_cert_chain(cert, key, password="")
    except ssl.SSLError as error:
        fault = _TLS_FAULTS.get(error.reason, "not PEM, or encrypted")
        raise SettingsError(f"TLS certificate {cert} with key {key}: {fault}") from None
    except OSError as error:
        raise SettingsError(f"TLS certificate {cert} with key {key}: {error.strerror}") from None
    return context

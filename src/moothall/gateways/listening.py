"""What every port does: listen, with TLS if there is a certificate, and wait for the last to go."""

import asyncio
import os
import select
import shlex
import socket
import ssl
from collections.abc import Callable, Collection, Sequence
from errno import EADDRNOTAVAIL, EAFNOSUPPORT
from pathlib import Path
from typing import Any, Final, Protocol

from moothall.errors import SettingsError
from moothall.gateways.doorstep import behind_tls
from moothall.gateways.small_reads import SmallReads
from moothall.gateways.transport import Guest, Listening
from moothall.hall.outside import Log

TLS_TIMEOUT: Final = 10.0  # seconds for a TLS handshake
BACKLOG: Final = 4096  # connections the kernel may hold for us: a whole town reconnects after a restart
# Bytes of one connection that the kernel reads ahead of us. Many connections can become readable in one turn of the
# loop, before the first of them is charged; and each may hold this much memory for as long as it is paused.
READ_AHEAD: Final = 64 * 1024

_TLS_FAULTS: Final = {"KEY_VALUES_MISMATCH": "the key is not that of the certificate"}


class Abortable(Protocol):
    def abort(self) -> None: ...


class LoopServer:
    """`Listening`, whose connections the event loop reads. It is not compiled, and cannot inherit from what is."""

    def __init__(self, server: asyncio.Server) -> None:
        self.is_reading = False
        self._server = server

    @property
    def sockets(self) -> Sequence[Any]:
        return self._server.sockets

    def look(self) -> None:
        pass

    def close(self) -> None:
        self._server.close()


async def listen(
    guest: Callable[[], Guest],
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    *,
    at_the_end: Callable[[], None],
    log: Log,
    read_at_once: int = READ_AHEAD,
    shares_port: bool = False,
    purpose: str = "",
    advice: str = "",
) -> Listening:
    """SettingsError, with the purpose and the advice, if the address is not to be had. If it `shares_port`, other
    processes can listen on it too, and the kernel gives each connection to one of them.

    No more than `read_at_once` bytes of a connection are read at once. `at_the_end` is called when connections were
    read, and `is_reading` was true meanwhile.
    """
    try:
        if tls is None and hasattr(select, "epoll"):  # other systems than Linux have none
            from moothall.gateways.sockets import Sockets

            bound = await _bound(host, port, shares_port=shares_port)
            return Sockets(bound, guest, at_the_end, read_at_once, log)
        return await _loop_server(guest, host, port, tls, read_at_once, shares_port=shares_port)
    except (OSError, UnicodeError) as error:
        raise cannot_listen(error, host, port, purpose, advice) from None


async def _loop_server(
    guest: Callable[[], Guest],
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    read_at_once: int,
    *,
    shares_port: bool,
) -> LoopServer:
    loop = asyncio.get_running_loop()
    made: Any = guest
    if read_at_once < READ_AHEAD:
        buffer = bytearray(read_at_once)

        def made() -> SmallReads:
            return SmallReads(guest(), buffer)

    protocol = made if tls is None else behind_tls(loop, made, tls, TLS_TIMEOUT)
    server = await loop.create_server(protocol, host, port, backlog=BACKLOG, reuse_port=shares_port or None)
    for listening in server.sockets:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, READ_AHEAD)  # connections inherit it
    return LoopServer(server)


async def _bound(host: str, port: int, *, shares_port: bool) -> list[socket.SocketType]:
    """A listening socket for each address of the host; an empty one has all addresses of the machine."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    listening: list[socket.SocketType] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                made = socket.SocketType(family, kind, protocol)
            except OSError as error:
                if error.errno != EAFNOSUPPORT or len(found) == 1:
                    raise
                continue  # a kernel without IPv6, asked for a name that has an address of each kind
            listening.append(made)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shares_port:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:  # an address of its own, beside the one of IPv4
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            # Connections inherit these.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, READ_AHEAD)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setblocking(False)
            made.bind(address)
            made.listen(BACKLOG)
    except OSError:
        for made in listening:
            made.close()
        raise
    return listening


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


def address_of(server: Listening | None) -> tuple[str, int]:
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

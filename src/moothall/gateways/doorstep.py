"""A connection is announced when it is accepted, not when its TLS handshake is done.

An event loop does only the latter, for `create_server(ssl=...)`: thousands of unfinished handshakes would have
locked other clients out by then. So `Doorstep` stands in front of the loop's own TLS protocol. That class is not a
part of the documented interface of asyncio and uvloop: this module alone knows it, and looks whether it is as
expected before a port opens.
"""

import asyncio
import ssl
from asyncio import sslproto
from collections.abc import Callable
from inspect import signature
from typing import Any, Final

import uvloop

from moothall.errors import SettingsError
from moothall.gateways.transport import Guest

CALLBACKS: Final = ("connection_made", "connection_lost")  # that `Doorstep` overrides


def behind_tls(
    loop: asyncio.AbstractEventLoop, guest: Callable[[], Guest], tls: ssl.SSLContext, timeout: float
) -> Callable[[], asyncio.BaseProtocol]:
    """What `create_server` calls for each connection. `timeout` is how many seconds a handshake may take.

    Raises SettingsError if the TLS protocol of this version of the loop is another than expected.
    """
    library: Any = uvloop.loop if isinstance(loop, uvloop.Loop) else sslproto

    expected = {"server_side": True, "ssl_handshake_timeout": timeout}
    if not _takes(library, loop, asyncio.Protocol(), tls, None, **expected):
        raise SettingsError(
            f"this program cannot serve TLS with this version of {library.__name__}: update moothall, install the"
            " versions that it was released with, or let a proxy serve TLS"
        )

    class Doorstep(library.SSLProtocol):  # type: ignore[misc]  # the loops have no type for it
        def __init__(self) -> None:
            self._guest = guest()
            super().__init__(loop, self._guest, tls, None, **expected)

        def connection_made(self, transport: asyncio.Transport) -> None:
            if self._guest.arrive(transport):
                super().connection_made(transport)
            else:
                transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._guest.vanish()

    return Doorstep


def _takes(library: Any, *arguments: object, **options: object) -> bool:
    """True if the TLS protocol can be made with these arguments and has the methods that `Doorstep` overrides."""
    tls_protocol: Any = getattr(library, "SSLProtocol", None)
    if not all(callable(getattr(tls_protocol, name, None)) for name in CALLBACKS):
        return False
    try:
        signature(tls_protocol).bind(*arguments, **options)
    except ValueError:  # it is compiled and does not tell: make one
        return _can_be_made(tls_protocol, *arguments, **options)
    except TypeError:
        return False
    return True


def _can_be_made(tls_protocol: Any, *arguments: object, **options: object) -> bool:
    try:
        tls_protocol(*arguments, **options)
    except TypeError:
        return False
    return True

"""One connection to NATS, through nats-py. It ends once and does not come back; the bus opens the next one.

nats-py can connect again by itself. We do not use that. It keeps messages meanwhile and sends them late. It leaves
questions unanswered until they time out, and closes for good when NATS reports a slow consumer. Before it tells of
a loss, it waits for a peer that no longer answers. A new connection has none of this to carry over.

Some parts of nats-py that are used here are not documented. CONNECT is held back until the connection is encrypted:
nats-py encrypts only if the server asks for it, so it would show a password to any server. `abort` closes the
socket at once, because `close` waits until the peer has taken what was written. `_close` is where nats-py begins to
end a connection. And the public half of an NKey is set here; nats-py would need another package for it.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import nats.errors
from nats.aio.client import Client

from moothall.bus.access import Access, Server
from moothall.bus.nkeys import public_nkey
from moothall.errors import MoothallError, UsageError

CONNECTING_SECONDS: Final = 4.0  # for a server to answer; then the next one is tried
CLOSING_SECONDS: Final = 0.3  # the socket is closed by then; nats-py has to end its tasks
UNKNOWN_AUTHORITY: Final = (
    18,
    19,
    20,
    21,
)  # X509_V_ERR_… of OpenSSL: self-signed, or the issuer is not known
NEVER: Final = 10**9  # seconds; the bus has a heartbeat of its own

# nats-py logs what goes wrong in a connection that ends. The bus tells of that itself, in lines of its own form.
logging.getLogger("nats").addHandler(logging.NullHandler())


# Connections that took too long to close. The event loop itself holds no task that waits.
_late: Final[set["asyncio.Task[None]"]] = set()


class NotEncrypted(MoothallError):
    """A server has no TLS, although it must have it."""


class Connection(Client):
    def __init__(
        self, server: Server, lost: Callable[[str], None], told: Callable[[Exception], None]
    ) -> None:
        """`lost` is called when the connection has ended, with the reason. `told` hears of errors meanwhile."""
        super().__init__()
        self.server = server
        self._lost = lost
        self._told = told
        self._needs_tls = False
        self._first_error: Exception | None = None
        self._is_open = False
        self.denied = ""  # the first thing that NATS does not permit this user to do

    async def open(self, access: Access, name: str, inbox_prefix: str) -> None:
        """Raises UsageError if the operator has to change something, else ConnectionError."""
        options: dict[str, Any] = {**access.secrets(self.server)}
        if access.has_papers:
            options["tls"] = access.tls()  # else nats-py makes one, if the server asks for it
        if signer := access.signer():
            options["signature_cb"] = lambda nonce: signer.key.sign(nonce).encode()
            if signer.jwt:
                options["user_jwt_cb"] = signer.jwt.encode
            else:
                self._public_nkey = public_nkey(signer.key.public)
        self._needs_tls = access.needs_tls(self.server)
        try:
            async with asyncio.timeout(CONNECTING_SECONDS):
                await self.connect(
                    [self.server.url],
                    name=name,
                    inbox_prefix=inbox_prefix,
                    allow_reconnect=False,
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0,
                    connect_timeout=int(CONNECTING_SECONDS),
                    ping_interval=NEVER,
                    no_echo=True,
                    error_cb=self._hear,
                    **options,
                )
        except BaseException as error:
            await self.end()
            if isinstance(error, Exception):
                raise _explained(self.server, self._first_error or error) from None
            raise
        self._is_open = True

    async def settle(self) -> None:
        """Returns when NATS has taken all that was sent so far, and its complaints were heard.

        nats-py writes a PING before what is pending, so that the first PONG proves nothing. What was pending is
        written by the time it comes.
        """
        await self.rtt()
        await self.rtt()

    def abort(self) -> None:
        """Close the socket now."""
        writer: Any = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()

    async def end(self) -> None:
        """Close the connection, without waiting for the peer."""
        self._is_open = False
        self.abort()
        closing = asyncio.get_running_loop().create_task(self._close_quietly())
        _, late = await asyncio.wait([closing], timeout=CLOSING_SECONDS)
        for task in late:
            _late.add(task)
            task.add_done_callback(_late.discard)
            task.cancel()

    async def _close_quietly(self) -> None:
        with suppress(Exception):  # it was given up: whatever goes wrong now, the next one is tried
            await self.close()

    def _connect_command(self) -> bytes:
        if self._needs_tls:
            writer: Any = getattr(self._transport, "_io_writer", None)
            if writer is None or writer.get_extra_info("ssl_object") is None:
                raise NotEncrypted
        return super()._connect_command()

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        """nats-py would write what is pending to a socket that may be closed, fail at that, and leave its tasks
        behind."""
        self._pending.clear()
        self._pending_data_size = 0
        self._end()
        await super()._close(status, do_cbs)

    async def _hear(self, error: Exception) -> None:
        if "permissions violation" in str(error):
            if self.denied:
                return  # told once; there may be one for each message
            self.denied = str(error).removeprefix("nats: ")
        if self._is_open:
            self._told(error)
        elif self._first_error is None:
            self._first_error = error

    def _end(self) -> None:
        if self._is_open:
            self._is_open = False
            self._lost(str(self.last_error or "the connection was closed"))


def _explained(server: Server, error: Exception) -> Exception:
    if isinstance(error, UsageError):
        return error
    if isinstance(error, NotEncrypted):
        return UsageError(f"{server.url}: NATS has no TLS there; nothing was sent to it")
    if isinstance(error, ssl.SSLCertVerificationError):
        advice = (
            "; set bus_ca to the authority that signs it" if error.verify_code in UNKNOWN_AUTHORITY else ""
        )
        return UsageError(
            f"{server.url}: the certificate of NATS is not valid here: {error.verify_message}{advice}"
        )
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if "authorization violation" in text.lower() or "authentication" in text.lower():
        return UsageError(
            f"{server.url}: NATS refuses the credentials of this node; check MOOTHALL_BUS, or bus_user,"
            " bus_password_file and bus_credentials"
        )
    if isinstance(error, TimeoutError):
        return ConnectionError(f"{server.url}: no answer; is NATS running there?")
    if isinstance(error, (OSError, nats.errors.Error)):
        return ConnectionError(f"{server.url}: {text}; is NATS running there?")
    return ConnectionError(f"{server.url}: {type(error).__name__}: {text}")

"""Opening a WebSocket to a hall, and saying what went wrong if none opens."""

import os
import ssl
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidProxy, InvalidStatus, InvalidURI
from websockets.typing import Subprotocol

from moothall import __version__
from moothall.errors import ConnectionFailed, ConnectionLost
from moothall.wire.origins import is_loopback

# Bytes. A hall in the profile of the reference relays texts of 2 MiB characters, each of up to six bytes.
MAX_INCOMING: Final = 16 * 1024 * 1024
READ_AHEAD: Final = 256  # frames; a hall sends many in one piece, and pausing for each few costs more
CLOSE_TIMEOUT: Final = 2.0
ABNORMAL: Final = 1006  # what the library says when no close frame came (RFC 6455, 7.1.5)


async def open_socket(url: str, patience: float, *, subprotocol: str | None = None) -> ClientConnection:
    """Raises ConnectionFailed."""
    place = place_at(url)
    try:
        return await connect(
            url,
            compression=None,
            max_size=MAX_INCOMING,
            max_queue=READ_AHEAD,
            open_timeout=patience,
            close_timeout=CLOSE_TIMEOUT,
            user_agent_header=f"moothall/{__version__}",
            subprotocols=None if subprotocol is None else [Subprotocol(subprotocol)],
            proxy=None if place.is_local else True,
        )
    except InvalidURI:
        # the message of the library would show a password
        raise ConnectionFailed(f"{shown_url(url)}: a user name in the address needs a password") from None
    except InvalidStatus as error:
        status = error.response.status_code
        if subprotocol is not None and status == HTTPStatus.NOT_FOUND:
            raise ConnectionFailed(
                f"{place} answered HTTP 404 for the mesh: it is not a hall, or its operator set mesh = false"
            ) from None
        raise ConnectionFailed(f"{place} answered HTTP {status}, not WebSocket: is it a hall?") from None
    except (InvalidHandshake, InvalidProxy, EOFError) as error:
        hint = " One with TLS has an address with wss://" if url.startswith("ws:") else ""
        raise ConnectionFailed(f"{place} does not speak WebSocket ({error}): is it a hall?{hint}") from None
    except TimeoutError:
        advice = f"is it a hall, or another program? {_CHECK}" if place.is_local else place.advice
        raise ConnectionFailed(f"{place} did not answer within {patience:g} s: {advice}") from None
    except ssl.SSLCertVerificationError as error:
        raise ConnectionFailed(
            f"the certificate of {place} is not trusted ({error.verify_message}): "
            "if it is your own, name it with SSL_CERT_FILE"
        ) from None
    except ssl.SSLError:
        raise ConnectionFailed(f"{place} does not speak TLS: try ws:// in place of wss://") from None
    except OSError as error:
        raise ConnectionFailed(f"cannot reach {place} ({_reason(error)}): {place.advice}") from None


_CHECK: Final = "`moothall doctor` tells"


class Place(NamedTuple):
    host: str
    port: int

    @property
    def is_local(self) -> bool:
        return is_loopback(self.host)

    @property
    def advice(self) -> str:
        if self.is_local:
            return f"start a hall there with `moothall serve --port {self.port}`"
        return "check the address, and that the hall is running"

    def __str__(self) -> str:
        return f"{self.host} port {self.port}"


def place_at(url: str) -> Place:
    """The host and port of a URL that `hall_url` made."""
    parts = urlsplit(url)
    return Place(parts.hostname or "", parts.port or (443 if parts.scheme == "wss" else 80))


def shown_url(url: str) -> str:
    """The URL without user and password."""
    place = place_at(url)
    return f"{urlsplit(url).scheme}://{place.host}:{place.port}"


def _reason(error: OSError) -> str:
    if error.errno is not None and error.errno > 0:  # asyncio puts the address into `strerror`
        return os.strerror(error.errno).lower()
    return (error.strerror or str(error) or type(error).__name__).lower()


def loss_of(socket: ClientConnection, url: str) -> ConnectionLost:
    """What to raise when this socket is closed."""
    code, reason = socket.close_code, socket.close_reason or ""
    if code == ABNORMAL:
        code = None
    why = f": {code} {reason}".rstrip() if code is not None else ""
    return ConnectionLost(f"the connection to {shown_url(url)} was lost{why}", code, reason)

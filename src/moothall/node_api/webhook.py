"""The application's webhook: a POST for each inbound envelope (mesh wire 7).

It reads the inbox with a cursor of its own, which is kept in a file. So nothing waits in memory, and envelopes that
came while the receiver or the node was down are told later. They are told one after the other. After
MAX_ATTEMPTS the next one has its turn. A crash can repeat an envelope.

BEACONs are not in the inbox. They are told once, when they come, and only the latest if they come too fast.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Final

import msgspec
import structlog

from moothall import __version__
from moothall.errors import NodeRefused, SettingsError, UsageError
from moothall.gateways.webhooks import Target, parse_target, post
from moothall.identity.keyfile import put_file
from moothall.node.reports import Received
from moothall.node_api.objects import camel_case, webhook_object
from moothall.wire.mesh.msg_types import MsgType

CURSOR_FILE: Final = "webhook_cursor"
MAX_ATTEMPTS: Final = 5
FIRST_PAUSE: Final = 1.0  # seconds before the second attempt; then twice as long each time
PATIENCE: Final = 10.0  # seconds for one POST
PAGE: Final = 50
MAX_BEACONS: Final = 64  # that wait

Listen = Callable[[Callable[[Received], None]], Callable[[], None]]
Read = Callable[[int, int], Awaitable[list[Received]]]


def wanted_types(text: str | None) -> Collection[MsgType]:
    """From `PROPOSE,NOTARIZE_BID`, in either spelling of the names. Raises UsageError."""
    names = {name for each in MsgType for name in (each.name, camel_case(each).upper())}
    given = [name.strip().upper() for name in (text or "").split(",") if name.strip()]
    if unknown := [name for name in given if name not in names]:
        raise UsageError(
            f"--app-webhook-types: {unknown[0][:40]!r} is not a message type; write them like PROPOSE,NOTARIZE_BID"
        )
    return frozenset(
        each for each in MsgType if not given or each.name in given or camel_case(each).upper() in given
    )


class Webhook:
    """`secret` is sent as a bearer token, and is never logged; neither is the path of `url`."""

    def __init__(
        self,
        url: str,
        *,
        secret: str | None,
        types: Collection[MsgType],
        folder: Path,
        read: Read,
        listen: Listen,
        log: structlog.stdlib.BoundLogger,
        pause: float = FIRST_PAUSE,
    ) -> None:
        """Raises UsageError for a URL or a secret that no request can carry."""
        try:
            self._target: Target = parse_target(url)
        except SettingsError as error:
            raise UsageError(f"--app-webhook-url: {error}") from None
        if secret is not None and not (secret.isascii() and secret.isprintable()):
            raise UsageError("--app-webhook-secret: only printable ASCII characters")
        self._secret = secret
        self._types = types
        self._file = folder / CURSOR_FILE
        self._read = read
        self._listen = listen
        self._log = log
        self._pause = pause
        self._news = asyncio.Event()
        self._after = self._kept()
        self._beacons: deque[Received] = deque(maxlen=MAX_BEACONS)

    async def run(self) -> None:
        """Until it is cancelled."""
        tls = ssl.create_default_context()
        unlisten = self._listen(self._note)
        try:
            while True:
                self._news.clear()
                try:
                    page = [] if self._after is None else await self._read(self._after, PAGE)
                except NodeRefused as error:  # the store failed
                    self._log.warning("webhook_cannot_read", error=str(error))
                    await asyncio.sleep(self._pause * 2**MAX_ATTEMPTS)
                    continue
                for received in page:
                    if received.envelope.msg_type in self._types:
                        await self._tell(received, tls)
                        await self._keep(received.cursor)
                if page and self._after != page[-1].cursor:
                    await self._keep(page[-1].cursor)
                while self._beacons:
                    await self._tell(self._beacons.popleft(), tls, attempts=1)
                if not page:
                    await self._news.wait()
        finally:
            unlisten()

    def _note(self, received: Received) -> None:
        is_beacon = received.envelope.msg_type is MsgType.BEACON  # with the cursor of the envelope before it
        if is_beacon and MsgType.BEACON in self._types:
            self._beacons.append(received)
        if self._after is None:  # a webhook that is new hears what comes from now on
            self._after = received.cursor if is_beacon else received.cursor - 1
        self._news.set()

    async def _tell(self, received: Received, tls: ssl.SSLContext, attempts: int = MAX_ATTEMPTS) -> None:
        request = self._request(msgspec.json.encode(webhook_object(received)))
        pause = self._pause
        for attempt in range(1, attempts + 1):
            fault = await post(self._target, request, tls, PATIENCE)
            if fault is None:
                return
            self._log.warning(
                "webhook_failed", webhook=self._target.origin, attempt=attempt, of=attempts, reason=fault
            )
            if attempt < attempts:
                await asyncio.sleep(pause)
                pause *= 2

    def _request(self, body: bytes) -> bytes:
        bearer = "" if self._secret is None else f"Authorization: Bearer {self._secret}\r\n"
        head = (
            f"POST {self._target.path} HTTP/1.1\r\n"
            f"Host: {self._target.authority}\r\n"
            f"User-Agent: moothall/{__version__}\r\n"
            "Content-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n"
            f"{bearer}Connection: close\r\n\r\n"
        )
        return head.encode() + body

    def _kept(self) -> int | None:
        try:
            return int(self._file.read_text("ascii"))
        except (OSError, ValueError):
            return None

    async def _keep(self, cursor: int) -> None:
        self._after = cursor
        try:
            await asyncio.to_thread(put_file, str(cursor).encode(), self._file, overwrite=True)
        except (
            OSError
        ) as error:  # after a restart, envelopes are told again from the last cursor that was written
            self._log.warning("webhook_cursor_not_written", error=repr(error))

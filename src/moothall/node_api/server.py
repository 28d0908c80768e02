"""A node and its API in one process, from the first line of the log to the last."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import structlog
import uvicorn
from msgspec import Struct

from moothall.asgi import ClosableWebSocket, bound, configured
from moothall.errors import UsageError
from moothall.node import Node, NodeOptions
from moothall.node_api.answers import Limits
from moothall.node_api.app import build
from moothall.node_api.auth import Keys, master_secret
from moothall.node_api.sockets import Sockets
from moothall.node_api.webhook import Webhook, wanted_types
from moothall.wire.authority import Authority

MAX_CONNECTIONS: Final = 256
MAX_SAID: Final = 4096  # bytes of a message from a client on a WebSocket, which are dropped anyway


class ApiOptions(Struct, frozen=True, kw_only=True):
    """Without a `secret` the node makes one. `origins` are those of web pages that may ask."""

    place: Authority
    secret: str | None = None
    read_keys: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    webhook_url: str | None = None
    webhook_secret: str | None = None
    webhook_types: str | None = None

    def __repr__(self) -> str:
        """Without the secrets."""
        return f"ApiOptions(place={self.place})"


class Running(Struct, frozen=True):
    """What a node says when it is ready."""

    node: Node
    address: Authority  # of the API
    token_file: Path | None


async def run(
    options: NodeOptions,
    api: ApiOptions,
    log: structlog.stdlib.BoundLogger,
    ready: Callable[[Running], None],
) -> None:
    """Run a node until SIGTERM or SIGINT. Raises UsageError for what cannot be used."""
    try:
        options.log_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--log-dir {options.log_dir}: {error.strerror}. Choose another folder") from None
    secret, token_file = master_secret(api.secret, api.place, options.log_dir)
    types = wanted_types(api.webhook_types)
    node = Node(options, log=log)
    webhook = api.webhook_url and Webhook(
        api.webhook_url,
        secret=api.webhook_secret,
        types=types,
        folder=options.log_dir,
        read=node.read_inbox,
        listen=node.listen,
        log=log,
    )
    keys = Keys(secret, api.read_keys)
    sockets = Sockets(node, keys)
    with bound(api.place, "--api-addr") as listening:
        await node.start()
        telling = asyncio.create_task(webhook.run()) if webhook else None
        if telling is not None:
            telling.add_done_callback(partial(_report, log))
        try:
            sockets.start()
            app = build(node, sockets, seed=options.seed, keys=keys, origins=api.origins, limits=Limits())
            address = Authority(api.place.host, listening.getsockname()[1])
            server = _Server(
                configured(
                    app,
                    MAX_CONNECTIONS,
                    ws=ClosableWebSocket,
                    ws_max_size=MAX_SAID,
                    ws_per_message_deflate=False,
                    lifespan="off",
                )
            )
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, server.stop)
            ready(Running(node, address, token_file))
            await server.serve(sockets=[listening])
            sockets.close()
        finally:
            if telling is not None:
                telling.cancel()
                await asyncio.wait((telling,))
            await node.close()


def _report(log: structlog.stdlib.BoundLogger, telling: asyncio.Task[None]) -> None:
    if not telling.cancelled() and (error := telling.exception()) is not None:
        log.error("webhook_ended", error=repr(error))


class _Server(uvicorn.Server):
    """The signals are ours: uvicorn would raise them again before the node is closed."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def stop(self) -> None:
        self.should_exit = True

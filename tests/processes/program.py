"""A hall of two node processes, with the flags and the greeting of `moothall serve`."""

import asyncio
from unittest.mock import patch

from moothall import app
from moothall.cli import main, serve
from moothall.hall.outside import Log
from moothall.processes.supervisor import supervise
from moothall.settings import Settings

NODES = 2


async def serve_nodes(settings: Settings, log: Log, ready: asyncio.Future[object]) -> None:
    await supervise(settings, NODES, log, lambda found: serve._greet(found, settings, log))  # type: ignore[arg-type]


if __name__ == "__main__":
    with patch.object(app, "serve", serve_nodes):
        main()

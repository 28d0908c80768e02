"""The daemon's log: `daemon.log`, of which the oldest part is thrown away. It has no content of messages."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from typing import Final

from moothall.client.logs import LOGGER, make_printable
from moothall.daemon.folder import Folder

LOG: Final = "daemon.log"
DAEMON_LOGGER: Final = "moothall.daemon"
MAX_BYTES: Final = 1024 * 1024
OLDER_FILES: Final = 3  # daemon.log.1 and so on

_LINE: Final = "%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s"
_TIME: Final = "%Y-%m-%dT%H:%M:%S"


@contextmanager
def logging_to(folder: Folder, *, also_to_stderr: bool) -> Iterator[logging.Logger]:
    """Write what the agent and the daemon log into the file, for the length of the block.

    Return the daemon's logger. Raises OSError.
    """
    path = folder.path / LOG
    path.touch(mode=0o600)
    handlers: list[logging.Handler] = [
        RotatingFileHandler(path, maxBytes=MAX_BYTES, backupCount=OLDER_FILES, encoding="utf-8")
    ]
    if also_to_stderr:
        handlers.append(logging.StreamHandler())
    formatter = logging.Formatter(_LINE, _TIME)
    formatter.converter = time.gmtime
    loggers = [logging.getLogger(name) for name in (LOGGER, DAEMON_LOGGER)]
    logging.getLogger(DAEMON_LOGGER).addFilter(make_printable)
    for logger in loggers:
        logger.setLevel(logging.INFO)
        for handler in handlers:
            handler.setFormatter(formatter)
            logger.addHandler(handler)
    try:
        yield logging.getLogger(DAEMON_LOGGER)
    finally:
        for handler in handlers:
            for logger in loggers:
                logger.removeHandler(handler)
            handler.close()

"""Structured logs on standard error: for a person in a terminal, as JSON lines everywhere else."""

import logging
import os
import sys
from contextlib import suppress
from typing import TextIO, cast

import structlog
from structlog.typing import Processor

from moothall.settings import Settings


class _StandardError:
    """Drop what cannot be written: a full disk or a broken pipe must not make a command fail."""

    def __init__(self) -> None:
        self._line = ""

    def write(self, text: str) -> None:
        self._line += text

    def flush(self) -> None:
        line, self._line = self._line, ""
        # Not through sys.stderr, which would keep what it could not write and fail again when the program ends.
        with suppress(OSError):
            os.write(sys.stderr.fileno(), line.encode(sys.stderr.encoding, "backslashreplace"))


def _console(*, colors: bool) -> Processor:
    # Not the renderer's own choice, which shows the values of all variables: messages, and the admin key.
    return structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)


def configure(settings: Settings) -> structlog.stdlib.BoundLogger:
    as_json = settings.log_format == "json" or (settings.log_format == "auto" and not sys.stderr.isatty())
    rendering: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if as_json
        else [_console(colors=sys.stderr.isatty() and not os.environ.get("NO_COLOR"))]
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            *rendering,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[settings.log_level.upper()]
        ),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _StandardError())),
        cache_logger_on_first_use=True,
    )
    logger: structlog.stdlib.BoundLogger = structlog.get_logger()
    return logger

"""Structured logs on standard error: for a person in a terminal, as JSON lines everywhere else."""

import logging
import sys

import structlog
from structlog.typing import Processor

from moothall.settings import Settings


def configure(settings: Settings) -> structlog.stdlib.BoundLogger:
    as_json = settings.log_format == "json" or (settings.log_format == "auto" and not sys.stderr.isatty())
    rendering: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if as_json
        else [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
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
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logger: structlog.stdlib.BoundLogger = structlog.get_logger()
    return logger

"""The SDK's log. Other agents have a say in many of its lines, so each is made one printable line."""

import logging
from typing import Final

LOGGER: Final = "moothall.agent"
MAX_LINE: Final = 1000  # characters


def make_printable(record: logging.LogRecord) -> bool:
    """A filter for a logger: it makes each message one printable line of a bounded length."""
    message = record.getMessage()
    if len(message) > MAX_LINE:
        message = message[: MAX_LINE - 1] + "…"
    record.msg = "".join(each if each.isprintable() else _escaped(each) for each in message)
    record.args = ()
    return True


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def show_log() -> None:
    """Show the lines of INFO and above on standard error, unless the program has set up logging itself."""
    if log.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)


log: Final = logging.getLogger(LOGGER)
log.addFilter(make_printable)

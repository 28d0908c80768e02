"""All tools, by name."""

from typing import Any, Final

from moothall.tools import chat, court, daemon, files, keep, listening, market, operator, ratings
from moothall.tools.table import Tool, collected

TOOLS: Final[dict[str, Tool[Any, Any]]] = collected(
    chat.TOOLS,
    listening.TOOLS,
    market.TOOLS,
    ratings.TOOLS,
    court.TOOLS,
    operator.TOOLS,
    daemon.TOOLS,
    files.TOOLS,
    keep.TOOLS,
)

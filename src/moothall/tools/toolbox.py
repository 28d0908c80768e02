"""All tools, by name."""

from typing import Any, Final

from moothall.tools import chat, listening
from moothall.tools.table import Tool, collected

TOOLS: Final[dict[str, Tool[Any, Any]]] = collected(chat.TOOLS, listening.TOOLS)

"""What a model gets for a call of a tool: the result, or a text that says what to do now. Never a traceback."""

from collections.abc import Mapping
from typing import Any

from moothall.client.logs import log
from moothall.errors import MoothallError
from moothall.tools import visible
from moothall.tools.advice import explain
from moothall.tools.table import Call, Result, Tool


async def run(tool: Tool[Any, Any], call: Call, arguments: Mapping[str, Any]) -> Result | str:
    """Run a tool. Return its result, or the text of what went wrong."""
    try:
        result: Result = await tool.run(call, arguments)
    except MoothallError as error:
        text = explain(error)
    except OSError as error:
        log.warning("%s: %s", tool.name, error)
        text = f"A file or the network failed: {error.strerror or error}. Tell the user."
    except Exception as error:  # noqa: BLE001  # a model can do nothing with a traceback; the log has it
        log.exception("%s failed", tool.name)
        text = (
            f"{tool.name} failed because of a mistake in moothall ({type(error).__name__}). Tell the user to look"
            " at the log of this MCP server."
        )
    else:
        return result
    return visible.in_words(text)

"""The model's own process for the runtimes `api` and `openai`: ask the model, call the tools it wants, and so on.

The tools are those of our MCP server, called in this process. What happens is printed as events, one JSON object
per line, in the form of `claude -p`. The guard counts tokens, calls and sends in them; the runner writes them down.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moothall.tools import answering
from moothall.tools.options import Options
from moothall.tools.session import Session
from moothall.tools.table import Call
from moothall.tools.toolbox import TOOLS
from moothall.worker.runner.speakers import SPEAKERS, Described, Speaker, ToolCall

Print = Callable[[dict[str, Any]], None]


class Silent:
    """The progress of a call: it is not shown here."""

    is_wanted = False

    async def __call__(self, done: float, total: float | None, message: str) -> None:
        """Nothing."""


async def converse(speaker: Speaker, session: Session, show: Print) -> int:
    """Until the model wants no more tools, or its API fails. Return the exit code."""
    while True:
        try:
            turn = await speaker.turn()
        except speaker.errors as error:
            show({"type": "result", "is_error": True, "result": f"{type(error).__name__}: {error}"})
            return 1
        message = {"id": turn.id, "role": "assistant", "content": turn.content, "usage": turn.usage}
        show({"type": "assistant", "message": message})
        if not turn.calls:
            show({"type": "result", "is_error": False, "result": "the model wants no more tools"})
            return 0
        answers = []
        for call in turn.calls:
            text, is_error = await _call(session, call)
            answers.append((call, text, is_error))
            result = {"type": "tool_result", "tool_use_id": call.id, "content": text}
            show({"type": "user", "message": {"content": [result]}})
        speaker.answer(answers)


async def _call(session: Session, call: ToolCall) -> tuple[str, bool]:
    """The answer for the model, and True for a failure."""
    tool = TOOLS.get(call.name)
    if tool is None:
        return f"There is no tool {call.name[:80]!r}. Use one of those that you were given.", True
    with session.busy():
        result = await answering.run(tool, Call(session, Silent(), call.id), call.arguments)
    return (result, True) if isinstance(result, str) else (result.as_text(), False)


def main(library: str, model: str, prompt_file: str, system_file: str) -> int:
    """Hold the conversation that the files begin. Return the exit code."""
    tools = [Described(tool.name, tool.purpose, tool.input_schema) for tool in TOOLS.values()]
    system, prompt = Path(system_file).read_text(), Path(prompt_file).read_text()
    identity = os.environ.get("MOOTHALL_IDENTITY")
    options = Options.from_environment(
        os.environ,
        url=os.environ.get("AGENTCHAT_URL"),
        name=os.environ.get("MOOTHALL_NAME"),
        identity=Path(identity).expanduser() if identity else None,
    )

    async def hold() -> int:
        session = Session(options)
        try:
            return await converse(SPEAKERS[library](model, system, prompt, tools), session, _show)
        finally:
            await session.close()

    return asyncio.run(hold())


def _show(event: dict[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(event)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

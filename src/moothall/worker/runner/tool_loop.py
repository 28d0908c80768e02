"""The model's own process for the runtimes `api` and `openai`: ask the model, call the tools it wants, and so on.

What happens is printed as events, one JSON object per line, in the form of `claude -p`. The guard counts tokens,
calls and sends in them; the runner writes them down.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moothall.worker.runner import hall_tools
from moothall.worker.runner.hall_tools import HallTools
from moothall.worker.runner.speakers import SPEAKERS, Speaker

Print = Callable[[dict[str, Any]], None]


async def converse(speaker: Speaker, tools: HallTools, show: Print) -> int:
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
            text, is_error = await tools.call(call)
            answers.append((call, text, is_error))
            result = {"type": "tool_result", "tool_use_id": call.id, "content": text}
            show({"type": "user", "message": {"content": [result]}})
        speaker.answer(answers)


def main(
    library: str, model: str, prompt_file: str, system_file: str, mcp_servers: str, context_tokens: str
) -> int:
    """Hold the conversation that the files begin. Return the exit code."""
    system, prompt = Path(system_file).read_text(), Path(prompt_file).read_text()

    async def hold() -> int:
        async with hall_tools.opened(Path(mcp_servers)) as tools:
            described = await tools.described()
            speaker = SPEAKERS[library](model, system, prompt, described, int(context_tokens))
            return await converse(speaker, tools, _show)

    return asyncio.run(hold())


def _show(event: dict[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(event)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

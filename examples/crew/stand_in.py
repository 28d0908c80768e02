"""A stand-in for a model: it plays planner, coder or reviewer with the same tools, and needs no key and no network.

The runner starts it as `AGENT_COMMAND`. It finds its prompt and its tools through variables, and its workspace is
the folder it is started in. Variables change the play: `CREW_TASKS` is how many tasks there are. In seconds,
`CREW_PAUSE` is between two tasks, `CREW_PATIENCE` before the planner asks again, `CREW_THINKING` between two calls.
"""

import os
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Final

from actors.coder import Coder
from actors.guest import Guest
from actors.hall import Hall
from actors.mcp_client import ServerGone, ToolFailed, Tools
from actors.model import Model, show
from actors.planner import Planner
from actors.reviewer import Reviewer
from actors.role import Role

LONGEST_WAIT: Final = 30.0  # seconds after tools have failed again and again


def play(role: Role, hall: Hall, model: Model) -> None:
    """Listen, and do what the state of the hall asks for. It ends with the server of the tools."""
    failures = 0
    is_here = False
    while True:
        try:
            if not is_here:
                news, is_here = hall.enter(role.skill), True
                role.hear(news)
            while role.step():
                pass
            role.hear(hall.listen(role.patience))
            failures = 0
        except ToolFailed as failure:
            # It may have happened or not. So look again, and decide anew.
            failures += 1
            model.think(f"That failed. I look again in a moment: {failure}")
            hall.look_again()
            time.sleep(min(0.25 * 2**failures, LONGEST_WAIT))


def role_of(name: str, hall: Hall, history: str) -> Role:
    workspace = Path.cwd()
    if name == "planner":
        return Planner(
            hall,
            history,
            tasks=int(os.environ.get("CREW_TASKS", "3")),
            pause=float(os.environ.get("CREW_PAUSE", "20")),
            patience=float(os.environ.get("CREW_PATIENCE", "60")),
        )
    if name == "coder":
        return Coder(hall, workspace)
    return Reviewer(hall, workspace) if name == "reviewer" else Guest(hall)


def main() -> int:
    name = os.environ["AGENT_NAME"]
    prompt = Path(os.environ["AGENT_PROMPT_FILE"]).read_text()
    _, _, history = prompt.partition("# What happened before")
    try:
        with closing(Tools.from_file(Path(os.environ["AGENT_MCP_CONFIG"]))) as tools:
            model = Model(tools, prompt, float(os.environ.get("CREW_THINKING", "2")))
            hall = Hall(model, name)
            play(role_of(name, hall, history), hall, model)
    except ServerGone as error:
        show({"type": "result", "is_error": True, "result": str(error)})
    return 1


if __name__ == "__main__":
    sys.exit(main())

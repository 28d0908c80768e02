"""A worker that spends more than the operator allows is stopped: hall, supervisor, runner, guard and MCP server, as
processes, with a stand-in for the model that prints what it uses and keeps its tools open."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from moothall import SyncAgent
from tests.support.server import ADMIN_KEY, HallProcess, running_hall
from tests.support.workers import Workplace, finish, until, workplace

pytestmark = pytest.mark.slow

LONG = 60.0  # seconds for processes that start one after the other, and reports that are 5 s apart

# Starts the tools as `mcp.json` says, calls one, and uses 100 tokens in each message. $MESSAGES is how many.
MODEL = """
import asyncio, json, os
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    (entry,) = json.load(open(os.environ["AGENT_MCP_CONFIG"]))["mcpServers"].values()
    environment = {**os.environ, **entry["env"]}
    words = StdioServerParameters(command=entry["command"], args=entry["args"], env=environment)
    async with Client(stdio_client(words)) as client:
        await client.call_tool("agentchat_channels", {})
        for number in range(int(os.environ["MESSAGES"])):
            message = {"id": f"m{number}", "content": [], "usage": {"input_tokens": 90, "output_tokens": 10}}
            print(json.dumps({"type": "assistant", "message": message}), flush=True)
        await asyncio.sleep(1000)

asyncio.run(main())
"""


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[HallProcess]:
    (tmp_path / "hall").mkdir()
    environment = {"MOOTHALL_ADMIN_KEY": ADMIN_KEY}
    with running_hall(tmp_path / "hall", "--no-limits", environment=environment) as running:
        yield running


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    (tmp_path / "work").mkdir()
    with workplace(tmp_path / "work") as found:
        (found.programs / "real-runner").replace(found.programs / "agent-runner")
        yield found


def test_the_cap_of_the_hall_stops_a_worker_and_its_last_tokens_are_counted_later(
    hall: HallProcess, place: Workplace
) -> None:
    model = place.write_program("model", MODEL)
    variables = {"AGENTCHAT_URL": hall.url, "AGENT_COMMAND": str(model), "HOME": str(place.root)}
    with SyncAgent("operator", url=hall.url) as operator:
        admin = operator.admin(ADMIN_KEY)
        admin.set_budget(None, 999)
        supervisor = place.supervise(MESSAGES="10", **variables)
        until(lambda: place.state().get("status") == "fatal", "the worker is stopped", LONG)
        state = place.state()
        assert (state["last_error"], state["niki_reason"]) == ("exit_code=2", "budget")
        assert finish(supervisor)[0] == 0
        place.until_nothing_is_left()
        guard = json.loads((place.folder / "niki-state.json").read_text())
        assert (guard["killedBy"], guard["tokensTotal"], guard["budget"]) == ("budget", 1000, 1_000_000)
        assert guard["killDetail"].startswith("All workers together have spent 1,000 of 999 tokens today.")
        assert not (place.folder / "abort").exists()
        assert admin.budgets().spent == 1000

        admin.set_budget(None, 10_000)
        guard["tokensTotal"] += 5  # what the guard read after the last report
        (place.folder / "niki-state.json").write_text(json.dumps(guard))
        place.supervise(MESSAGES="0", **variables)
        until(lambda: admin.budgets().spent == 1005, "the rest of the session before is counted", LONG)
        until(
            lambda: not (place.folder / "niki-state.prev.json").exists(), "its state is not needed any more"
        )
        assert place.state()["status"] == "running"
        (worker,) = [each for each in operator.agents() if each.name == place.name]
        assert worker.verified

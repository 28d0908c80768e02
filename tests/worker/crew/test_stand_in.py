"""The stand-in models of examples/crew: what they check and say, and a whole play without a supervisor."""

import asyncio
import json
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from actors import lines, tasks
from actors.coder import write
from actors.mcp_client import Pipes, ServerGone, Tools, Web
from actors.model import Model
from actors.role import LONGEST_PATIENCE, Patience
from actors.tasks import TASKS, Task
from moothall import Agent, Message
from moothall.worker.crew import plan
from moothall.worker.guard.usage import EventUsage
from tests.support.mcp_host import http_server
from tests.support.server import PROGRAM, environment, running_hall

pytestmark = pytest.mark.slow

CREW = Path(__file__).parents[3] / "examples" / "crew"
TOKEN = "a-token-of-a-test-0123456789"
DEADLINE = 90.0  # seconds; only a failing test waits that long


# -- tasks and words --------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_the_last_draft_of_a_task_is_right_and_each_one_before_has_a_fault(
    task: Task, tmp_path: Path
) -> None:
    faults = []
    for draft in task.drafts:
        write(draft, task, tmp_path / "work")
        faults.append(tasks.check(task, tmp_path / "work"))
    assert faults[-1] is None
    assert None not in faults[:-1]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_review_finds_any_line_that_is_wrong_missing_or_moved(task: Task, tmp_path: Path) -> None:
    work = tmp_path / "work"
    write(task.drafts[-1], task, work)
    output = work / f"{task.name}.txt"
    right = output.read_text().splitlines()
    for wrong in (right[:-1], right[1:], [*right, "X"], [right[1], right[0], *right[2:]], []):
        output.write_text("\n".join(wrong))
        assert tasks.check(task, work) is not None


@pytest.mark.parametrize(
    ("program", "fault"),
    [("print(1", "SyntaxError"), ("print(1)", "say what it is for"), ('"""x"""\n#' + "x" * 100, "a line of")],
)
def test_a_review_reads_the_program(program: str, fault: str, tmp_path: Path) -> None:
    write(TASKS[0].drafts[-1], TASKS[0], tmp_path / "work")
    (tmp_path / "work" / "primes.py").write_text(program)
    assert fault in str(tasks.check(TASKS[0], tmp_path / "work"))


def test_a_verdict_is_read_as_it_was_said() -> None:
    said = lines.verdict(TASKS[1], "0123456789abcdef", "'1900' is wrong")
    assert lines.read_verdict(said) == (2, False, "0123456789abcdef")
    assert lines.read_verdict(lines.verdict(TASKS[2], "f" * 16, None)) == (3, True, "f" * 16)
    assert lines.read_verdict(lines.how_far(TASKS[1])) is None


def test_a_deal_tells_its_task() -> None:
    assert [tasks.of_deal(task.text) for task in TASKS] == list(TASKS)
    assert tasks.of_deal("Task 12: something else") is None


def test_patience_gets_longer_and_begins_anew_with_a_new_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("actors.role.time.monotonic", lambda: now)
    patience = Patience(30)
    patience.at("first")
    waits = []
    for _ in range(8):
        assert not patience.ends()
        waits.append(patience.left)
        now += patience.left
        assert patience.ends()
    assert waits == [30, 60, 120, 240, 480, *[LONGEST_PATIENCE] * 3]
    patience.at("second")
    assert (patience.left, patience.asked) == (30, 0)


def test_a_stand_in_thinks_between_two_calls(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now, slept = 100.0, list[float]()
    monkeypatch.setattr("actors.model.time.monotonic", lambda: now)
    monkeypatch.setattr("actors.model.time.sleep", slept.append)
    tools = Mock(spec=Tools)
    tools.call.return_value = {"granted": True}
    model = Model(tools, "You are coder.", thinking=2)
    model.call("agentchat_claim", msg_id="m1", channel="#general")
    now += 0.5
    model.call("agentchat_send", target="#general", message="hello")
    assert slept == [0, 1.5]
    usage = EventUsage()
    calls = [usage.read(line.encode()) for line in capsys.readouterr().out.splitlines()]
    assert (sum(call.tools for call in calls), sum(call.sends for call in calls)) == (2, 1)
    assert usage.tokens_in > 0
    assert usage.tokens_out > 0


# -- the crew file ----------------------------------------------------------------------------------------


def test_the_crew_file_needs_one_other_line_for_real_models() -> None:
    crew = plan.read(CREW / plan.FILE)
    assert [member.name for member in crew.members] == ["planner", "coder", "reviewer"]
    text = (CREW / plan.FILE).read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("runtime")]
    real = plan.parse(tomllib.loads(text.replace(line, 'runtime = "cli"')), CREW / plan.FILE)
    for member, changed in zip(crew.members, real.members, strict=True):
        assert changed == replace(member, runtime="cli")


# -- a whole play -----------------------------------------------------------------------------------------


def stdio_entry(home: Path, url: str, name: str) -> dict[str, Any]:
    variables = {"HOME": str(home), "MOOTHALL_URL": url, "MOOTHALL_NAME": name, "AGENTCHAT_SETTLE_MS": "20"}
    return {"type": "stdio", "command": PROGRAM, "args": ["mcp"], "env": variables}


@contextmanager
def stand_in(folder: Path, name: str, entry: dict[str, Any]) -> Iterator["subprocess.Popen[str]"]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder.parent / f"{name}.json").write_text(json.dumps({"mcpServers": {"agentchat": entry}}))
    (folder.parent / f"{name}.md").write_text(f"You are {name}.")
    variables = environment(
        AGENT_NAME=name,
        AGENT_PROMPT_FILE=str(folder.parent / f"{name}.md"),
        AGENT_MCP_CONFIG=str(folder.parent / f"{name}.json"),
        CREW_TASKS="2",
        CREW_PAUSE="0",
        CREW_PATIENCE="5",
        CREW_THINKING="0",
    )
    with (folder.parent / f"{name}.out").open("w") as output:
        process = subprocess.Popen(
            [sys.executable, str(CREW / "stand_in.py")],
            cwd=folder,
            env=variables,
            stdout=output,
            stderr=output,
            text=True,
        )
        with process:
            try:
                yield process
            finally:
                process.kill()


async def settled(url: str, count: int) -> list[Message]:
    """What was said in the channel until so many deals were settled."""
    observer, said = Agent("observer"), list[Message]()
    async with observer.connected(url), asyncio.timeout(DEADLINE):
        messages = observer.messages("#general", replay=True)
        await observer.join("#general")
        async for message in messages:
            said.append(message)
            if "is settled" in message.content:
                count -= 1
                if count == 0:
                    break
    return said


async def test_the_crew_plays_two_tasks_over_pipes_and_over_http(tmp_path: Path) -> None:
    places = {name: tmp_path / name / "work" for name in ("planner", "coder", "reviewer")}
    for place in places.values():
        place.mkdir(parents=True)
    with running_hall(tmp_path) as hall:
        talk = asyncio.create_task(settled(hall.url, 2))
        with (
            http_server(
                places["coder"], hall.url, MOOTHALL_NAME="coder", MOOTHALL_MCP_TOKEN=TOKEN
            ) as address,
            stand_in(
                places["coder"],
                "coder",
                {"type": "http", "url": address, "headers": {"Authorization": f"Bearer {TOKEN}"}},
            ),
            stand_in(
                places["reviewer"], "reviewer", stdio_entry(tmp_path / "reviewer", hall.url, "reviewer")
            ),
            stand_in(places["planner"], "planner", stdio_entry(tmp_path / "planner", hall.url, "planner")),
        ):
            said = await talk
    texts = [message.content for message in said]
    questions = [message.id for message in said if lines.is_question(message.content)]
    answers = Counter(message.in_reply_to for message in said if message.in_reply_to)
    assert set(answers) <= set(questions)
    assert set(answers.values()) == {1}, "one agent answers a question"
    verdicts = [found for text in texts if (found := lines.read_verdict(text))]
    assert {(each.number, each.approved) for each in verdicts} == {(1, True), (2, False), (2, True)}
    ended = [text for text in texts if "is settled" in text]
    assert [lines.number_in(text) for text in ended] == [1, 2]
    assert ended[0].count("has 1208") == 2
    assert (places["coder"] / "task-2" / "leap_years.txt").read_text().split()[:2] == ["1892", "1896"]


def test_a_server_that_ends_is_noticed(tmp_path: Path) -> None:
    ends = {"command": sys.executable, "args": ["-c", "input()"]}
    with pytest.raises(ServerGone):
        Tools(Pipes(ends))
    with pytest.raises(ServerGone):
        Tools(Web({"url": "http://127.0.0.1:1/mcp"}))

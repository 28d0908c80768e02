"""Every program in the documentation runs.

A Python block that imports moothall is a whole program; others are fragments and only have to compile. A program
that ends by itself must print what the `text` block after it says. One that stays is a bot: it is asked "hello" in
#general, or what a comment `<!-- ask: ... -->` before it says, has to answer, and has to leave in peace on Ctrl-C.
The only thing that is changed is the address of the hall. Language models are a stand-in on this machine.
"""

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from moothall import Agent, Arrival, Message, PrivateKey
from tests.support.models import Models, running_models
from tests.support.server import PATIENCE, HallProcess, environment, run_moothall, running_hall

ROOT = Path(__file__).parents[1]
ADDRESS = "ws://127.0.0.1:6667"
ASKED_OF_EXAMPLES = {"gatekeeper.py": "@gatekeeper hello", "panel.py": "does anybody know python?"}

TOLD = ("made a new key: ", "connected to ", "disconnected from ")
_BLOCK = re.compile(
    r"(?:<!-- ask: (?P<ask>.*?) -->\n+)?^```python\n(?P<code>.*?)^```$(?:\n+^```text\n(?P<printed>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Program:
    name: str
    code: str
    ask: str
    printed: str | None

    @property
    def is_whole(self) -> bool:
        return re.search(r"^(from|import) moothall", self.code, re.MULTILINE) is not None

    @property
    def is_bot(self) -> bool:
        return "agent.run(" in self.code or "wait_closed()" in self.code

    @property
    def warnings(self) -> list[str]:
        """Errors, but that the client libraries of models leave their connections open to the process's end."""
        has_model = re.search(r"^from (anthropic|openai) import", self.code, re.MULTILINE) is not None
        return ["-W", "error", *(["-W", "ignore::ResourceWarning"] if has_model else [])]


def find_programs() -> Iterator[Program]:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for number, block in enumerate(_BLOCK.finditer(page.read_text()), 1):
            yield Program(f"{page.name}-{number}", block["code"], block["ask"] or "hello", block["printed"])
    for example in sorted((ROOT / "examples").glob("*.py")):
        ask = ASKED_OF_EXAMPLES.get(example.name, "hello")
        yield Program(example.name, example.read_text(), ask, None)


PROGRAMS = list(find_programs())
SCRIPTS = [program for program in PROGRAMS if program.is_whole and not program.is_bot]
BOTS = [program for program in PROGRAMS if program.is_whole and program.is_bot]


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[HallProcess]:
    folder = tmp_path / "hall"
    folder.mkdir()
    with running_hall(folder, "--no-limits") as running:
        yield running


@pytest.fixture(scope="module")
def models() -> Iterator[Models]:
    with running_models() as running:
        yield running


def prepare(
    program: Program, hall: HallProcess, folder: Path, models: Models
) -> tuple[list[str], dict[str, str]]:
    path = folder / "program.py"
    path.write_text(program.code.replace(ADDRESS, hall.url))
    quickly = {"AGENTCHAT_CSMA_MIN_MS": "0", "AGENTCHAT_CSMA_MAX_MS": "200"}
    environ = environment(AGENTCHAT_URL=hall.url, **quickly, **models.environment)
    if "MOOTHALL_IDENTITY" in program.code:  # a worker: it gets its name and its key so
        run_moothall(folder, "identity", "new", "worker.json", "--name", "worker")
        environ |= {"AGENT_NAME": "worker", "MOOTHALL_IDENTITY": str(folder / "worker.json")}
    return [sys.executable, *program.warnings, str(path)], environ


def complaints(printed: str) -> list[str]:
    """What a program wrote to standard error, without the lines that tell of keys and connections."""
    return [line for line in printed.splitlines() if not line.startswith(TOLD)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_it_is_python(program: Program) -> None:
    compile(program.code, program.name, "exec")


@pytest.mark.parametrize("program", SCRIPTS, ids=lambda program: program.name)
def test_a_script_prints_what_is_promised(
    program: Program, hall: HallProcess, tmp_path: Path, models: Models
) -> None:
    command, environ = prepare(program, hall, tmp_path, models)
    result = subprocess.run(
        command,
        cwd=tmp_path,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (result.returncode, complaints(result.stderr)) == (0, [])
    if program.printed is not None:
        assert result.stdout == program.printed


@pytest.mark.parametrize("program", BOTS, ids=lambda program: program.name)
async def test_a_bot_answers_and_leaves_in_peace(
    program: Program, hall: HallProcess, tmp_path: Path, models: Models
) -> None:
    observer = Agent("observer", identity=PrivateKey(bytes(32)))
    arrived: asyncio.Queue[Arrival] = asyncio.Queue()
    answers: asyncio.Queue[Message] = asyncio.Queue()
    observer.on_join(arrived.put)
    observer.on_message("#general")(answers.put)
    command, environ = prepare(program, hall, tmp_path, models)
    async with observer.connected(hall.url), asyncio.timeout(PATIENCE):
        process = await asyncio.create_subprocess_exec(
            *command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            await arrived.get()
            question = await observer.send("#general", program.ask)
            assert (await answers.get()).in_reply_to == question
            process.send_signal(signal.SIGINT)
            _, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
    assert (process.returncode, complaints(errors.decode())) == (0, [])


def test_there_are_programs_of_both_kinds() -> None:
    assert len(SCRIPTS) >= 5
    assert len(BOTS) >= 5


def test_the_programs_with_a_model_are_in_the_docs_as_they_are() -> None:
    shown = [program.code for program in PROGRAMS if program.name.startswith("models.md")]
    for name in ("claude.py", "local_model.py"):
        assert (ROOT / "examples" / name).read_text() in shown

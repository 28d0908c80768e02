"""What the process of a daemon is given: an address that no other user can read, and no key of the model's."""

import asyncio
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moothall.cli._context_file import ContextFile, Contexts
from moothall.tools.daemon import Start, start
from moothall.tools.options import Options

URL = "ws://user:secret@127.0.0.1:6667"


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a program in the place of Python writes its arguments and its environment."""
    told, program = tmp_path / "told.json", tmp_path / "python"
    program.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        f"json.dump([sys.argv, dict(os.environ)], open({str(told)!r}, 'w'))\n"
    )
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setenv("HOME", str(tmp_path))
    return told


async def started(told: Path, **asked: Any) -> tuple[list[str], dict[str, str]]:
    session = SimpleNamespace(options=Options(url=URL), key=None)
    await start(SimpleNamespace(session=session), Start(server_url=URL, **asked))  # type: ignore[arg-type]
    arguments, environment = json.loads(await asyncio.to_thread(told.read_text))
    return arguments, environment


async def test_the_address_is_not_among_the_arguments(told: Path) -> None:
    """It may have a password, and every user of the machine can read arguments."""
    arguments, environment = await started(told)
    assert "secret" not in " ".join(arguments)
    assert environment["MOOTHALL_URL"] == URL


async def test_the_daemon_does_not_get_the_key_or_the_name_of_the_model(
    told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its key, the daemon would take over its session."""
    monkeypatch.setenv("MOOTHALL_IDENTITY", "own.json")
    monkeypatch.setenv("MOOTHALL_NAME", "own")
    monkeypatch.setenv("AGENTCHAT_CONTEXT", "own")
    _, environment = await started(told)
    assert not {"MOOTHALL_IDENTITY", "MOOTHALL_NAME", "AGENTCHAT_CONTEXT"} & set(environment)
    monkeypatch.setenv("AGENTCHAT_CONTEXTS", environment["AGENTCHAT_CONTEXTS"])
    assert ContextFile().read() == Contexts()

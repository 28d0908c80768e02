"""Sessions of an agent whose key is sealed: the runner serves the tools, and the model never has the key."""

import json
import os
import secrets
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moothall import Budget, SyncAgent
from moothall.identity.keyfile import Identity, load, save
from moothall.identity.keys import PrivateKey
from moothall.worker.descendants import children_of
from tests.support import plain_mcp
from tests.support.models import KEY, MODEL, Wanted, running_models
from tests.support.server import HallProcess, running_hall
from tests.support.workers import Workplace, command_line, finish, is_alive, until

pytestmark = pytest.mark.slow

LONG = 60.0  # seconds: a server is started, and the model's program after it
CONNECT = '{"channels": ["#general"]}'


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall")) as running:
        yield running


@pytest.fixture
def identity(tmp_path: Path) -> Identity:
    save(Identity(PrivateKey(secrets.token_bytes(32)), "alice"), tmp_path / "key.json")
    return load(tmp_path / "key.json")


def text_of(tmp_path: Path) -> str:
    """The key file in one line, as a supervisor hands it on."""
    return json.dumps(json.loads((tmp_path / "key.json").read_text()))


def calls(*words: str) -> str:
    """A model's program that calls tools."""
    return shlex.join([sys.executable, "-IS", str(Path(plain_mcp.__file__)), *words])


def answers(place: Workplace) -> list[dict[str, Any]]:
    return [json.loads(line) for line in place.transcript().splitlines() if line.startswith('{"')]


def server_of(runner: int) -> int | None:
    """The child of the runner that is a fork of it, with the same words."""
    own = command_line(runner)
    return next(
        (pid for pid in children_of(runner) if own and command_line(pid) == own and is_alive(pid)), None
    )


def test_the_model_has_the_tools_and_not_the_key(
    place: Workplace, hall: HallProcess, identity: Identity, tmp_path: Path
) -> None:
    secret = identity.key.to_pem().splitlines()[1]
    look = 'cat "$AGENT_MCP_CONFIG" /proc/self/environ /proc/$PPID/cmdline; echo; '
    script = look + calls("agentchat_connect", CONNECT)
    process = place.run_session(
        script, identity=text_of(tmp_path), AGENTCHAT_URL=hall.url, HOME=str(tmp_path / "home")
    )
    code, said = finish(process, LONG)
    assert (code, said) == (0, "")
    (connected,) = [each for each in answers(place) if "agent_id" in each]
    assert connected["agent_id"] == f"@{identity.public.fingerprint[:8]}"
    assert connected["name"] == "alice"
    assert connected["identity_path"] is None
    for path in (*place.folder.rglob("*"), *(tmp_path / "home").rglob("*")):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path
    (entry,) = json.loads((place.folder / "mcp.json").read_text())["mcpServers"].values()
    assert (entry["type"], entry["headers"].keys()) == ("http", {"Authorization"})
    assert not place.left()


def test_a_server_that_was_killed_is_back_for_the_next_call(
    place: Workplace, hall: HallProcess, identity: Identity, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    script = calls("agentchat_connect", CONNECT, "-", str(go_on), "agentchat_channels", "{}")
    runner = place.run_session(
        script, identity=text_of(tmp_path), AGENTCHAT_URL=hall.url, HOME=str(tmp_path / "home")
    )
    until(lambda: answers(place), "the first answer")
    address = f"@{identity.public.fingerprint[:8]}"
    with SyncAgent("visitor", url=hall.url) as visitor:
        reported = [Budget(1_000_000, 0)]
        until(lambda: [each.budget for each in visitor.agents([address])] == reported, "its budget is shown")
    first = server_of(runner.pid)
    assert first is not None
    os.kill(first, signal.SIGKILL)
    go_on.touch()
    assert finish(runner, LONG)[0] == 0
    assert [channel["name"] for channel in answers(place)[-1]["channels"]].count("#general") == 1
    assert "the MCP server has ended; it starts again in 1 s" in (place.folder / "runner.log").read_text()
    assert not place.left()


def test_the_server_ends_with_a_runner_that_is_killed(
    place: Workplace, hall: HallProcess, identity: Identity, tmp_path: Path
) -> None:
    script = calls("agentchat_connect", CONNECT, "-", "/nowhere")
    runner = place.run_session(
        script, identity=text_of(tmp_path), AGENTCHAT_URL=hall.url, HOME=str(tmp_path / "home")
    )
    until(lambda: answers(place), "the first answer")
    server = server_of(runner.pid)
    assert server is not None
    runner.kill()
    until(lambda: not is_alive(server), "the end of the server")
    place.until_nothing_is_left()


def test_our_own_loop_uses_the_server(
    place: Workplace, hall: HallProcess, identity: Identity, tmp_path: Path
) -> None:
    turns: Iterator[Wanted | str] = iter(
        [
            Wanted("agentchat_connect", json.loads(CONNECT)),
            Wanted("no_such_tool", {}),
            Wanted("agentchat_send", {"target": "#general", "message": "Hello from a model"}),
            "I have said hello.",
        ]
    )
    with running_models() as models:
        models.answer = lambda _asked: next(turns)
        told = {key: value for key, value in models.environment.items() if key.endswith("BASE_URL")}
        told |= {"AGENT_MODEL": MODEL, "AGENTCHAT_URL": hall.url, "HOME": str(tmp_path / "home")}
        session = place.run_session(AGENT_RUNTIME="api", token=KEY, identity=text_of(tmp_path), **told)
        assert finish(session, LONG)[0] == 0
    transcript = place.transcript()
    assert f"@{identity.public.fingerprint[:8]}" in transcript
    assert "There is no tool 'no_such_tool'" in transcript
    assert transcript.count('"success":true') == 2


def test_an_identity_that_is_not_a_key_is_explained(place: Workplace) -> None:
    code, said = finish(place.run_session("exit 0", identity='{"name": "alice"}'), LONG)
    assert code == 1
    assert "error: the identity of the agent: privateKey is missing" in said
    assert not place.left()

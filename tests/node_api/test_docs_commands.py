"""The commands of docs/mesh-network.md work when they are copied. Only the ports are others."""

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.node_process import NodeApi, heard, of_type, running_node
from tests.support.server import PROGRAM, Printed, environment, run_moothall, running_hall

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "mesh-network.md"
PORTS = ("9000", "9001", "9090", "9091")


def blocks() -> list[str]:
    section = PAGE.read_text().partition("### Two nodes on one machine")[2].partition("\n### ")[0]
    text = "\0".join(re.findall(r"^```sh\n(.*?)^```$", section, re.DOTALL | re.MULTILINE))
    with ExitStack() as held:
        for port in PORTS:
            assert port in text
            free = held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
            text = text.replace(port, f"<{free}>")
    return re.sub(r"<(\d+)>", r"\1", text).split("\0")


def bash(commands: str) -> list[str]:
    return ["bash", "-ec", commands.replace("\nmoothall", "\nexec moothall")]


ENVIRONMENT = environment(PATH=f"{Path(PROGRAM).parent}:/usr/bin:/bin")


@contextmanager
def node(folder: Path, commands: str) -> Iterator[NodeApi]:
    process = subprocess.Popen(
        bash(commands),
        cwd=folder,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    printed = Printed(process.stderr)
    api = NodeApi("choose-a-long-secret")
    try:
        line = printed.wait_for(lambda line: line.startswith("  API "))
        assert line is not None, printed.text
        api.attach(int(line.rpartition(":")[2]))
        yield api
        api.http.close()
    finally:
        process.kill()
        process.wait()
        printed.finish()


def test_two_nodes_on_one_machine(tmp_path: Path) -> None:
    first, second, third = blocks()
    with node(tmp_path, first) as alice, node(tmp_path, second) as bob:
        alice.wait_for_peer(bob)
        with bob.socket("/ws/inbox") as inbox:
            asked = subprocess.run(
                bash(third),
                cwd=tmp_path,
                env=ENVIRONMENT,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert asked.returncode == 0, asked.stderr
            for wanted in (f'[{{"agent_id":"{bob.agent_id}"', '{"conversation_id":"', '{"envelopes":['):
                assert wanted in asked.stdout
            heard(inbox, of_type("PROPOSE"))


def test_a_node_and_a_hall(tmp_path: Path) -> None:
    """As the section about bridges says."""
    (tmp_path / "hall").mkdir()
    key = str(tmp_path / "ben.json")
    assert run_moothall(tmp_path, "identity", "new", key).returncode == 0
    ben = re.search(
        r"^mesh id +(\w{64})$", run_moothall(tmp_path, "identity", "show", key).stdout, re.MULTILINE
    )
    assert ben is not None
    with running_hall(tmp_path / "hall", "--mesh-port", "0") as hall:
        line = hall.stdout.wait_for(lambda line: line.startswith("  peers "))
        assert line is not None
        with (
            running_node(tmp_path / "nora", "--bootstrap", line.split()[1]) as nora,
            nora.socket("/ws/inbox") as inbox,
        ):
            listening = subprocess.Popen(
                [PROGRAM, "mesh", "listen", "-u", hall.url, "-i", key, "-m", "1", "--json"],
                cwd=tmp_path,
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            try:
                heard(inbox, lambda message: message["msg_type"] == "BEACON" and message["sender"] == ben[1])
                offer = nora.post("/negotiate/propose", recipient=ben[1], message="hi")
                out, _ = listening.communicate(timeout=60)
            finally:
                listening.kill()
                listening.communicate()
            assert offer["conversation_id"] in out
            countered = run_moothall(
                tmp_path, "mesh", "counter", offer["conversation_id"], "2", "-u", hall.url, "-i", key
            )
            assert countered.returncode == 0, countered.stderr
            assert heard(inbox, of_type("COUNTER"))["sender"] == ben[1]

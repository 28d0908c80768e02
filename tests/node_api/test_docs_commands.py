"""The commands of docs/mesh-network.md work when they are copied. Only the ports are others."""

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.node_process import NodeApi, heard, of_type
from tests.support.server import PROGRAM, Printed, environment

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

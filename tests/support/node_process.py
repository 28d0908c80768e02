"""`moothall mesh node` in a process of its own, and its API as a program uses it."""

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
from websockets.sync.client import ClientConnection, connect

from tests.support.server import PATIENCE, PROGRAM, Printed, environment

MASTER: Final = "the-master-secret"
READER: Final = "a-read-key"
PLACE: Final = ("--listen-addr", "/ip4/127.0.0.1/tcp/0", "--api-addr", "127.0.0.1:0")

_OWN: Final = "the node's own"
_API: Final = re.compile(r"^  API    http://127\.0\.0\.1:(\d+)$")
_PEERS: Final = re.compile(r"^  peers  (/ip4/127\.0\.0\.1/tcp/\d+/p2p/\w+)$")


class NodeApi:
    """The API of a node on this machine."""

    def __init__(self, token: str = MASTER) -> None:
        self.token = token

    def attach(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.http = httpx2.Client(base_url=self.url, timeout=PATIENCE)
        self.agent_id: str = self.get("/identity")["agent_id"] if self.token else ""

    def ask(self, method: str, path: str, body: Any = None, *, key: str | None = MASTER) -> httpx2.Response:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return self.http.request(method, path, json=body, headers=headers)

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path, key=self.token)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, **body: Any) -> Any:
        answer = self.ask("POST", path, body, key=self.token)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def socket(self, path: str, *, token: str | None = _OWN) -> ClientConnection:
        token = self.token if token is _OWN else token
        joint = "&" if "?" in path else "?"
        query = "" if token is None else f"{joint}token={token}"
        return connect(f"ws://127.0.0.1:{self.port}{path}{query}", open_timeout=PATIENCE, proxy=None)

    def wait_for_peer(self, other: "NodeApi") -> None:
        """Until the other's BEACON was seen."""
        with self.socket("/ws/events") as events:
            if other.agent_id not in [peer["agent_id"] for peer in self.get("/peers")]:
                heard(
                    events,
                    lambda event: event["type"] == "peer_registered" and event["agent_id"] == other.agent_id,
                )


class NodeProcess(NodeApi):
    """Everything it writes is in `folder`."""

    def __init__(self, folder: Path, *flags: str, environ: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.folder = folder
        self.flags = flags
        self._environ = (
            {"ZX01_API_SECRET": MASTER, "ZX01_API_READ_KEYS": READER} if environ is None else environ
        )

    def start(self) -> None:
        self.process = subprocess.Popen(
            [PROGRAM, "mesh", "node", *PLACE, *self.flags],
            cwd=self.folder,
            env=environment(**self._environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        self.stderr = Printed(self.process.stderr)
        self.address = self._said(_PEERS)
        self.attach(int(self._said(_API)))

    def _said(self, pattern: re.Pattern[str]) -> str:
        line = self.stderr.wait_for(lambda line: pattern.match(line) is not None)
        found = pattern.match(line or "")
        if found is None:
            self.kill()
            raise AssertionError(f"the node did not start:\n{self.stderr.text}")
        return found[1]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """The exit code."""
        self.http.close()
        self.process.send_signal(number)
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.stderr.finish()


def heard(socket: ClientConnection, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first message on a WebSocket that is wanted."""
    while True:
        message: dict[str, Any] = json.loads(socket.recv(PATIENCE))
        if wanted(message):
            return message


def of_type(name: str) -> Callable[[dict[str, Any]], bool]:
    return lambda message: message["msg_type"] == name


@contextmanager
def running_node(
    folder: Path, *flags: str, environ: Mapping[str, str] | None = None
) -> Iterator[NodeProcess]:
    folder.mkdir(exist_ok=True)
    node = NodeProcess(folder, *flags, environ=environ)
    node.start()
    try:
        yield node
    finally:
        node.http.close()
        node.kill()


@contextmanager
def two_nodes(folder: Path, *flags: str) -> Iterator[tuple[NodeProcess, NodeProcess]]:
    """Two that know each other. The flags are the first one's."""
    with (
        running_node(folder / "alice", "--agent-name", "alice", *flags) as alice,
        running_node(folder / "bob", "--agent-name", "bob", "--bootstrap", alice.address) as bob,
    ):
        alice.wait_for_peer(bob)
        bob.wait_for_peer(alice)
        yield alice, bob

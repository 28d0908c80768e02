"""`moothall mesh node`: its command line. What the node then does is in tests/node_api."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from moothall.cli._mesh_node import MEANINGLESS
from tests.support.node_process import MASTER, PLACE, running_node
from tests.support.server import complaint, environment, run_moothall

# What a command line of the reference carries (mesh wire 20).
REFERENCE = (
    *("--no-default-bootstrap", "--registry-8004-disabled", "--relay-server"),
    *("--rpc-url", "http://127.0.0.1:1", "--trade-rpc-url", "http://127.0.0.1:1", "--kora-url", "none"),
    *("--registry-8004-url", "http://127.0.0.1:1", "--aggregator-url", "http://127.0.0.1:1"),
    *("--aggregator-secret", "a-secret-of-the-aggregator", "--relay-addr", "/p2p/x/p2p-circuit"),
    *("--geo-country", "DE", "--geo-city", "Ulm", "--node-region", "eu-west", "--task-log-path", "t.db"),
)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_command_line_of_the_reference(number: signal.Signals, tmp_path: Path) -> None:
    with running_node(tmp_path, *REFERENCE, "--agent-name", "n") as node:
        assert node.get("/identity")["name"] == "n"
        with node.socket("/ws/inbox"):
            assert node.stop(number) == 0
        text = node.stderr.text
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    ignored = [line for line in lines if line["event"] == "flag_ignored"]
    assert {line["flag"] for line in ignored} == set(MEANINGLESS)
    assert len(ignored) == len(MEANINGLESS)
    assert all(line["reason"] for line in ignored)
    assert "a-secret-of-the-aggregator" not in text
    assert MASTER not in text


def test_help_has_the_flags_with_an_effect(tmp_path: Path) -> None:
    text = run_moothall(tmp_path, "mesh", "node", "--help").stdout
    assert "--listen-addr" in text
    assert "--app-webhook-types" in text
    assert [flag for flag in MEANINGLESS if flag in text] == []
    assert "are accepted, have no effect" in " ".join(text.split())


def test_a_folder_and_an_address_that_another_node_has(tmp_path: Path) -> None:
    with running_node(tmp_path, "--log-dir", "data", "--keypair-path", "key") as node:
        folder = run_moothall(tmp_path, "mesh", "node", *PLACE, "--log-dir", "data", "--keypair-path", "key")
        place = node.address.partition("/p2p/")[0]
        address = run_moothall(
            tmp_path,
            "mesh",
            "node",
            *PLACE,
            "--listen-addr",
            place,
            "--log-dir",
            "x",
            "--keypair-path",
            "key",
        )
    assert complaint(folder).endswith("another hall or node is using it; choose one with --log-dir")
    assert complaint(address).startswith(f"cannot listen on {place}: ")
    assert complaint(address).endswith("choose another one with --listen-addr")


def test_a_bootstrap_peer_that_is_away_and_one_that_is_there(tmp_path: Path, unused_tcp_port: int) -> None:
    away = f"/ip4/127.0.0.1/tcp/{unused_tcp_port}"
    (tmp_path / "alice").mkdir()
    (tmp_path / "bob").mkdir()
    with running_node(tmp_path / "alice") as alice:
        flags = ("--bootstrap", away, "--bootstrap", alice.address)
        with running_node(tmp_path / "bob", *flags) as bob:
            assert bob.stderr.wait_for(lambda line: "mesh_peer_unreachable" in line and away in line)
            assert bob.stderr.wait_for(lambda line: "mesh_peer_reached" in line and alice.address in line)


def test_variables_instead_of_flags(tmp_path: Path) -> None:
    environ = {
        "ZX01_API_SECRET": MASTER,
        "ZX01_AGENT_NAME": "from-a-variable",
        "ZX01_KEYPAIR_PATH": "keys/node.key",
        "ZX01_LOG_DIR": "data",
        "ZX01_RELAY_SERVER": "true",
        "ZX01_RPC_URL": "http://127.0.0.1:1",
    }
    with running_node(tmp_path, environ=environ) as node:
        assert node.get("/identity")["name"] == "from-a-variable"
        assert (tmp_path / "keys" / "node.key").stat().st_size == 32
        assert (tmp_path / "data").is_dir()
        assert '"--relay-server"' in node.stderr.text
        assert '"--rpc-url"' in node.stderr.text


def test_a_secret_as_a_flag(tmp_path: Path) -> None:
    with running_node(tmp_path, "--api-secret", MASTER, "--api-read-keys", "one,two-two", environ={}) as node:
        assert node.ask("GET", "/identity", key="two-two").status_code == 200
        assert node.ask("GET", "/identity/export-key", key="two-two").status_code == 401
        assert node.ask("GET", "/identity/export-key", key=MASTER).status_code == 200


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--api-addr", "0.0.0.0:0"), "needs a secret: set ZX01_API_SECRET"),
        (("--api-addr", "nonsense"), "--api-addr 'nonsense' is not an address and a port"),
        (("--api-secret", "short"), "at least 8 characters"),
        (("--listen-addr", "nonsense"), "--listen-addr: 'nonsense' is not a multiaddr"),
        (("--bootstrap", "nonsense"), "--bootstrap: 'nonsense' is not a multiaddr"),
        (("--app-webhook-url", "ftp://x"), "--app-webhook-url"),
        (("--app-webhook-types", "NONSENSE"), "'NONSENSE' is not a message type"),
        (("--keypair-path", "bad.key"), "is not a key file of a node"),
        (("--log-dir", "file"), "--log-dir file: "),
        (("--nonsense",), "--nonsense"),
        (("start",), "start"),
    ],
)
def test_what_cannot_be_used(flags: tuple[str, ...], said: str, tmp_path: Path) -> None:
    (tmp_path / "bad.key").write_bytes(b"short")
    (tmp_path / "file").touch()
    place = [flag for flag in PLACE if "--api-addr" not in flags or "127.0.0.1:0" not in flag]
    if "--api-addr" in flags:
        place.remove("--api-addr")
    assert said in complaint(run_moothall(tmp_path, "mesh", "node", *place, *flags))


WITHOUT = """
import sys
sys.modules["MODULE"] = None
from moothall.cli import main
sys.argv = ["moothall", "mesh", "node"]
main()
"""


@pytest.mark.parametrize("module", ["uvicorn", "starlette"])
def test_without_the_extra_it_says_what_to_install(module: str, tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT.replace("MODULE", module)],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "-m pip install 'moothall[node]'" in complaint(result)
    assert list(tmp_path.iterdir()) == []

"""A node from its start to its end: files, crashes, payments, the webhook."""

import asyncio
import json
import stat
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from moothall.node_api import server
from tests.node_api.test_routes import base64_of, new_conversation
from tests.support.node_process import PLACE, NodeProcess, heard, of_type, running_node, two_nodes
from tests.support.server import PATIENCE, complaint, run_moothall

pytestmark = pytest.mark.slow


def test_a_node_without_a_secret_makes_one(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path, "--log-dir", "data", environ={})
    node.token = ""
    node.start()
    try:
        file = tmp_path / "data" / "dashboard_token"
        token = file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert token not in node.stderr.text
        assert "data/dashboard_token" in node.stderr.text
        assert node.ask("GET", "/identity", key=None).status_code == 401
        assert node.ask("GET", "/identity", key=token).status_code == 200
        with node.socket("/ws/events", token=token):
            pass
    finally:
        node.http.close()
        node.kill()


def test_pages_of_other_origins(tmp_path: Path) -> None:
    flags = ("--api-cors-origins", "https://app.example, http://localhost:3000")
    with running_node(tmp_path, *flags) as node:
        for origin in ("https://app.example", "http://localhost:3000", "http://localhost"):
            answer = node.http.get("/health", headers={"Origin": origin})
            assert answer.headers["access-control-allow-origin"] == origin
        assert node.http.get("/health", headers={"Host": "app.example"}).status_code == 200
        assert node.http.get("/health", headers={"Host": "evil.example"}).status_code == 421


def test_two_nodes_do_not_share_a_port(tmp_path: Path) -> None:
    with running_node(tmp_path / "one") as node:
        (tmp_path / "two").mkdir()
        result = run_moothall(
            tmp_path / "two",
            "mesh",
            "node",
            "--listen-addr",
            PLACE[1],
            "--api-addr",
            f"127.0.0.1:{node.port}",
        )
    assert "Choose another port with --api-addr" in complaint(result)


def test_nothing_acknowledged_is_lost_by_a_crash(tmp_path: Path) -> None:
    """What came is in the inbox after a kill -9, and what was sent in the log."""
    with (
        running_node(tmp_path / "a") as alice,
        running_node(tmp_path / "b", "--bootstrap", alice.address) as bob,
    ):
        alice.wait_for_peer(bob)
        with bob.socket("/ws/inbox") as inbox:
            sent = alice.post("/negotiate/propose", recipient=bob.agent_id, message="hi")
            got = heard(inbox, of_type("PROPOSE"))
        bob.kill()
        bob.http.close()
        bob.start()
        assert bob.get("/inbox")["envelopes"][-1] == got
        assert got["conversation_id"] == sent["conversation_id"]
        with bob.socket(f"/ws/inbox?after={got['cursor'] - 1}") as inbox:
            assert heard(inbox, of_type("PROPOSE")) == got


def test_escrow_on_the_ledger_of_the_node(tmp_path: Path) -> None:
    """The operator issues credits while the node is down; then the agent pays with them."""
    folder = tmp_path / "a"
    with running_node(folder, "--agent-name", "alice") as alice:
        agent = alice.agent_id
        alice.stop()
    issued = run_moothall(folder, "ledger", "deposit", agent, "1", "--data-dir", ".")
    assert issued.returncode == 0, issued.stderr
    with (
        running_node(folder, "--agent-name", "alice") as alice,
        running_node(tmp_path / "b", "--bootstrap", alice.address) as bob,
    ):
        alice.wait_for_peer(bob)
        bob.wait_for_peer(alice)
        conversation = new_conversation()
        parties = {"provider": bob.agent_id, "conversation_id": conversation}
        with alice.socket("/ws/inbox") as at_alice, bob.socket("/ws/inbox") as at_bob:
            alice.post(
                "/negotiate/propose",
                recipient=bob.agent_id,
                message="work",
                conversation_id=conversation,
                amount_usdc_micro=500_000,
            )
            heard(at_bob, of_type("PROPOSE"))
            bob.post(
                "/negotiate/accept",
                recipient=alice.agent_id,
                conversation_id=conversation,
                amount_usdc_micro=500_000,
            )
            heard(at_alice, of_type("ACCEPT"))
            assert alice.post("/escrow/lock", **parties, amount_usdc_micro=500_000) == {"ok": True}
            work = {
                "recipient": alice.agent_id,
                "conversation_id": conversation,
                "payload_b64": base64_of(b"x"),
            }
            bob.post("/envelopes/send", msg_type="DELIVER", **work)
            heard(at_alice, of_type("DELIVER"))
            approval = {"requester": alice.agent_id, **parties}
            assert alice.post("/escrow/approve", **approval) == {"ok": True}
            heard(at_bob, of_type("VERDICT"))
            assert alice.post("/escrow/approve", **approval) == {"ok": True}


def test_the_webhook(tmp_path: Path) -> None:
    posts: Queue[tuple[str, Any]] = Queue()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posts.put((self.headers["Authorization"], json.loads(body)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on standard error."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        flags = ("--app-webhook-url", f"http://127.0.0.1:{receiver.server_port}/hook")
        more = ("--app-webhook-secret", "the-hook-secret", "--app-webhook-types", "PROPOSE,NOTARIZE_BID")
        with two_nodes(tmp_path, *flags, *more) as (alice, bob):
            bob.post("/negotiate/propose", recipient=alice.agent_id, message="hi")
            bearer, told = posts.get(timeout=PATIENCE)
            assert (bearer, told["msg_type"], told["sender"]) == (
                "Bearer the-hook-secret",
                "Propose",
                bob.agent_id,
            )
            bid = base64_of(b"\1" + bytes(16))
            for msg_type in ("ADVERTISE", "NOTARIZE_BID"):
                bob.post(
                    "/envelopes/send", msg_type=msg_type, conversation_id=new_conversation(), payload_b64=bid
                )
            assert posts.get(timeout=PATIENCE)[1]["msg_type"] == "NotarizeBid"
            assert "the-hook-secret" not in alice.stderr.text
        receiver.shutdown()


async def test_a_webhook_that_ends_with_an_error_is_in_the_log() -> None:
    async def broken() -> None:
        raise ValueError("a bug")

    with capture_logs() as logged:
        telling = asyncio.create_task(broken())
        await asyncio.wait((telling,))
        server._report(structlog.get_logger(), telling)
    assert logged == [{"event": "webhook_ended", "error": "ValueError('a bug')", "log_level": "error"}]

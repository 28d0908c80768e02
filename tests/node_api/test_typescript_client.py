"""The reference's TypeScript client against two of our nodes.

`NodeClient` is run as it is published, where there is a copy: MOOTHALL_NODE_CLIENT names the folder of the package
`@zerox1/client`, beside the packages that it needs. npm does not have the package at the moment, so its hash cannot
be pinned. Its requests, with their nulls and JSON payloads, are played from here in any case.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.node_api.test_routes import base64_of, new_conversation
from tests.support.node_process import MASTER, NodeProcess, heard, of_type

CLIENT = "MOOTHALL_NODE_CLIENT"
SCRIPT = Path(__file__).with_name("typescript_client.cjs")


def test_the_client_as_it_is_published(alice: NodeProcess, bob: NodeProcess, tmp_path: Path) -> None:
    node, folder = shutil.which("node"), os.environ.get(CLIENT)
    if node is None or folder is None:
        pytest.skip(f"not run: needs node, and {CLIENT} with the folder of @zerox1/client")
    done = subprocess.run(
        [node, SCRIPT, folder, alice.url, alice.agent_id, bob.url, bob.agent_id],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SECRET": MASTER},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["identity"] == {"agent_id": alice.agent_id, "name": "alice"}
    assert [peer["agent_id"] for peer in found["peers"]] == [bob.agent_id]
    for name in ("sent", "countered", "accepted", "broadcast"):
        assert found[name].keys() == {"nonce", "payload_hash"}
    conversation = found["proposed"]["conversation_id"]
    for name in ("proposal", "counter", "acceptance", "delivery", "feedback"):
        assert found[name]["conversation_id"] == conversation
    assert found["delivery"]["deliver"]["inline_b64"] == base64_of(b"work")
    assert found["feedback"]["feedback"]["target_agent"] == bob.agent_id
    assert found["event"]["agent_id"] == bob.agent_id
    assert found["reputation"]["reliability"] == 80_000
    assert found["refused"].endswith('400: {"error":"invalid agent_id hex"}')


def test_its_requests(alice: NodeProcess, bob: NodeProcess) -> None:
    """It sends null for what is not given, and numbers as JavaScript has them."""
    with alice.socket("/ws/inbox") as at_alice, bob.socket("/ws/inbox") as at_bob:
        proposed = alice.post(
            "/negotiate/propose",
            recipient=bob.agent_id,
            conversation_id=None,
            amount_usdc_micro=0,
            max_rounds=2,
            message="Translate this",
        )
        heard(at_bob, of_type("PROPOSE"))
        deal = {"conversation_id": proposed["conversation_id"], "amount_usdc_micro": 7, "message": None}
        bob.post("/negotiate/counter", recipient=alice.agent_id, round=1, max_rounds=None, **deal)
        heard(at_alice, of_type("COUNTER"))
        alice.post("/negotiate/accept", recipient=bob.agent_id, **deal)
        heard(at_bob, of_type("ACCEPT"))
        alice.post(
            "/envelopes/send",
            msg_type="ADVERTISE",
            recipient=None,
            conversation_id=new_conversation(),
            payload_b64=base64_of(b"{}"),
        )
        heard(at_bob, of_type("ADVERTISE"))


def test_its_broadcasts(alice: NodeProcess, bob: NodeProcess) -> None:
    """They are JSON, which the reference itself refuses."""
    post = {"topic": "radio:ts", "title": "Episode 1", "tags": ["a"], "format": "audio", "chunk_index": 0}
    with bob.socket("/ws/topics?topic=radio:ts") as radio:
        bob.get("/identity")  # the node has joined the topic by then
        alice.post(
            "/envelopes/send",
            msg_type="BROADCAST",
            recipient=None,
            conversation_id=new_conversation(),
            payload_b64=base64_of(json.dumps(post).encode()),
        )
        assert heard(radio, of_type("BROADCAST"))["sender"] == alice.agent_id

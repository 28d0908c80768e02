"""`moothall mcp` with the official client, in a process of its own, in a real hall."""

from pathlib import Path

import pytest

from tests.support.mcp_host import running_host
from tests.support.server import running_hall

pytestmark = pytest.mark.slow


async def test_two_models_meet(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        async with (
            running_host(tmp_path / "a", hall.url) as alice,
            running_host(tmp_path / "b", hall.url) as bob,
        ):
            me = await alice.call("agentchat_connect", name="alice")
            assert me["persistent"]
            assert me["marketplace"]
            other = await bob.call("agentchat_connect")
            assert other["name"].startswith("anon_")
            assert other["identity_path"] is None
            sent = await alice.call("agentchat_send", target="#general", message="hello")
            heard = await bob.hear(lambda message: message["content"] == "hello")
            assert heard["msg_id"] == sent["msg_id"]
            assert heard["from"] == me["agent_id"] == sent["from"]
            assert heard["source"] == "stranger"
            assert heard["verified"] is True
            sent = await alice.call("agentchat_send", target="#general", message="good night @@sleep:9s@@")
            assert sent["message"] == "good night"
            await bob.hear(lambda message: message["content"] == "good night")
            refused = await alice.fail("agentchat_send", target="#general", message="@@wake@@")
            assert "only markers" in refused

"""Tools beside chat and deals: daemon, keep, the operator's; and an agent that leaves when it is idle."""

import json
from pathlib import Path

import pytest

from moothall import Agent
from tests.support.mcp_host import running_host
from tests.support.server import ADMIN_KEY, running_hall

pytestmark = pytest.mark.slow


async def test_a_daemon_is_really_started_and_its_inbox_is_read(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        async with (
            running_host(tmp_path / "a", hall.url) as host,
            Agent("bob", url=hall.url, channels="general") as bob,
        ):
            started = await host.call(
                "agentchat_daemon_start", server_url=hall.url, channels=["#general"], instance="night"
            )
            try:
                assert (started["success"], started["already_running"]) == (True, False)
                again = await host.call("agentchat_daemon_start", server_url=hall.url, instance="night")
                assert again["already_running"] is True
                await bob.send("#general", "for the daemon")
                while True:
                    found = await host.call("agentchat_inbox", instance="night", lines=10)
                    if any(each.get("content") == "for the daemon" for each in found["messages"]):
                        break
                assert found["total_lines"] >= found["returned_lines"] > 0
            finally:
                stopped = await host.call("agentchat_daemon_stop", instance="night")
            assert stopped["instance"] == "night"
            assert "not running" in (await host.call("agentchat_daemon_stop", instance="night"))["message"]
            text = await host.fail("agentchat_daemon_start", server_url="wss://hall.example.org")
            assert "AGENTCHAT_PUBLIC" in text


async def test_a_daemon_does_not_take_over_the_models_own_session(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        async with running_host(tmp_path / "a", hall.url, MOOTHALL_NAME="alice") as host:
            me = await host.call("agentchat_connect")
            text = await host.fail(
                "agentchat_daemon_start", server_url=hall.url, identity_path=me["identity_path"]
            )
            assert "a key of its own" in text


async def test_the_operator_kicks_and_bans(tmp_path: Path) -> None:
    with running_hall(tmp_path, environment={"MOOTHALL_ADMIN_KEY": ADMIN_KEY}) as hall:
        async with (
            running_host(tmp_path / "a", hall.url, AGENTCHAT_ADMIN_KEY=ADMIN_KEY) as host,
            running_host(tmp_path / "b", hall.url, MOOTHALL_NAME="bob") as other,
        ):
            target = (await other.call("agentchat_connect"))["agent_id"]
            done = await host.call("agentchat_kick", target=target, reason="noise")
            assert done == {"success": True, "action": "kick", "target": target}
            text = await other.fail("agentchat_channels")
            assert "noise" in text
            assert "agentchat_connect" in text
            await other.call("agentchat_connect")
            await host.call("agentchat_ban", target=target)
            assert "BANNED" in await other.fail("agentchat_connect")
            await host.call("agentchat_unban", target=target)
            await other.call("agentchat_connect")


async def test_two_models_meet_on_the_keep_wire(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--keep") as hall:
        place = {"KEEP_HOST": "127.0.0.1", "KEEP_PORT": str(hall.keep_port)}
        async with (
            running_host(tmp_path / "a", hall.url, KEEP_SRC="bot:ada", **place) as ada,
            running_host(tmp_path / "b", hall.url, KEEP_SRC="bot:bob", **place) as bob,
        ):
            running = json.loads((await ada.call("keep_ensure_server"))["result"])
            assert running == {"running": True, "method": "existing"}
            assert "version" in json.loads((await ada.call("keep_discover"))["result"])
            silence = json.loads((await ada.call("keep_listen", timeout=0))["result"])
            assert silence == {"messages": [], "count": 0}
            assert "bot:ada" in json.loads((await bob.call("keep_discover_agents"))["result"])
            assert (await bob.call("keep_send", dst="bot:ada", body="hello"))["result"] == "sent"
            assert (await bob.call("keep_send", dst="bot:absent", body="hello"))["result"] == "error:offline"
            heard = json.loads((await ada.call("keep_listen", timeout=30))["result"])
            assert heard["count"] == 1
            assert heard["messages"][0]["body"] == "hello"
            assert heard["messages"][0]["src"] == "bot:bob"
            assert heard["messages"][0]["verified"] is True


async def test_without_a_keep_server_the_words_are_those_of_the_reference(tmp_path: Path) -> None:
    async with running_host(tmp_path / "a", "ws://127.0.0.1:1", KEEP_HOST="127.0.0.1", KEEP_PORT="1") as host:
        text = await host.fail("keep_send", dst="bot:x", body="hello")
        assert text.startswith("error: keep-server not running on 127.0.0.1:1")
        assert "keep_ensure_server" in text
        found = json.loads(await host.fail("keep_discover"))
        assert found["error"].startswith("keep-server not running on 127.0.0.1:1")


async def test_an_idle_agent_leaves_and_comes_back_with_the_next_call(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        async with running_host(tmp_path / "a", hall.url, AGENTCHAT_IDLE_TIMEOUT_MS="1") as host:
            me = await host.call("agentchat_connect", name="alice", channels=["general"])
            async with Agent("bob", url=hall.url, channels="general") as bob:
                while me["agent_id"] in {member.id for member in await bob.agents()}:
                    pass
                await bob.send("#general", "while you were away")
                heard = await host.hear(lambda message: message["kind"] == "chat")
                assert heard["content"] == "while you were away"


async def test_agents_without_a_key_have_inboxes_of_their_own(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--set", "rate_message=1000/1") as hall:
        async with (
            running_host(tmp_path / "a", hall.url) as first,
            running_host(tmp_path / "a", hall.url) as second,
            Agent("bob", url=hall.url) as bob,
        ):
            ids = [(await host.call("agentchat_connect"))["agent_id"] for host in (first, second)]
            await bob.send(ids[0], "to the first")
            await bob.send(ids[1], "to the second")
            heard = await second.hear(lambda message: message["kind"] == "chat")
            assert heard["content"] == "to the second"
            heard = await first.hear(lambda message: message["kind"] == "chat")
            assert heard["content"] == "to the first"

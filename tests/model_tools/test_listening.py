"""What `agentchat_listen` promises, with a real process in a real hall."""

import asyncio
from pathlib import Path

import mcp_types as types
import pytest

from moothall import Agent
from tests.support.mcp_host import Host, running_host, text_of
from tests.support.server import running_hall

pytestmark = pytest.mark.slow


def contents(messages: list[dict[str, object]]) -> list[object]:
    return [each["content"] for each in messages if each["kind"] == "chat"]


async def test_what_waits_is_told_at_once_and_within_the_caps(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--set", "rate_message=1000/1") as hall:
        async with running_host(tmp_path / "a", hall.url) as host, Agent("bob", url=hall.url) as bob:
            me = await host.call("agentchat_connect", name="alice")
            for number in range(5):
                await bob.send(me["agent_id"], f"number {number}")
            first = await host.call("agentchat_listen", max_messages=3, timeout=30)
            assert first["from_inbox"] or first["settled"]
            rest = await host.call("agentchat_listen")
            assert contents(first["messages"] + rest["messages"]) == [
                f"number {number}" for number in range(5)
            ]
            if first["omitted"]:
                assert "again" in first["how_to_get_omitted"]
            tail = await host.call("agentchat_listen", tail=2)
            assert (tail["tail"], tail["count"]) == (2, 2)
            assert contents(tail["messages"]) == ["number 3", "number 4"]
            since = await host.call("agentchat_listen", since=tail["messages"][0]["ts"] - 1)
            assert contents(since["messages"])[-2:] == ["number 3", "number 4"]
            none = await host.call("agentchat_listen", timeout=0)
            assert none["timeout"] is True
            assert none["messages"] == []


async def test_a_wait_reports_progress_and_a_cancelled_one_loses_nothing(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        async with (
            running_host(tmp_path / "a", hall.url, AGENTCHAT_SETTLE_MS="5000") as host,
            Agent("bob", url=hall.url) as bob,
        ):
            me = await host.call("agentchat_connect", name="alice")
            reported = asyncio.Event()

            async def report(progress: float, total: float | None, message: str | None) -> None:
                assert message == "waiting for messages"
                reported.set()

            listening = asyncio.create_task(
                host.client.call_tool("agentchat_listen", {"timeout": 60}, progress_callback=report)
            )
            await reported.wait()
            await bob.send(me["agent_id"], "are you there?")
            listening.cancel()  # in the settle window, with the message in the inbox
            await asyncio.wait((listening,))
            heard = await host.hear(lambda message: message["kind"] == "chat")
            assert heard["content"] == "are you there?"


async def test_what_was_not_read_is_told_after_a_restart_and_what_was_read_is_not(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--set", "rate_message=1000/1") as hall:
        async with Agent("bob", url=hall.url, channels="general") as bob:
            async with running_host(tmp_path / "a", hall.url) as host:
                me = await host.call("agentchat_connect", name="alice", channels=["general"])
                await bob.send(me["agent_id"], "read")
                await host.hear(lambda message: message["content"] == "read")
                await bob.send(me["agent_id"], "unread")
                await bob.send("#general", "unread too")
                await _until_in_inbox(host, "unread too")
            await bob.send("#general", "while away")
            async with running_host(tmp_path / "a", hall.url, MOOTHALL_NAME="alice") as host:
                told: list[dict[str, object]] = []
                while "while away" not in contents(told):
                    told += await host.listen(timeout=30)
                assert contents(told) == ["unread", "unread too", "while away"]
                gap = next(each for each in told if each.get("event") == "GAP")
                assert gap["source"] == "client"
                assert gap["data"]["complete"] is True  # type: ignore[index]


async def test_a_lost_connection_is_taken_up_again_and_the_gap_is_told(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        async with running_host(tmp_path / "a", hall.url) as host:
            await host.call("agentchat_connect", name="alice", channels=["general"])
            async with Agent("bob", url=hall.url, channels="general") as bob:
                await bob.send("#general", "one")
                await host.hear(lambda message: message["content"] == "one")
            hall.kill()
            text = await host.fail("agentchat_channels")
            assert "call again" in text
            hall._flags = ("--port", str(hall.port))
            hall.restart()
            assert (await host.call("agentchat_channels"))["joined"] == ["#general"]
            gap = await host.event("GAP")
            assert gap["data"]["reason"] == "reconnected"


async def test_mentions_and_channels_are_filters_that_lose_nothing(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--set", "rate_message=1000/1") as hall:
        async with (
            running_host(tmp_path / "a", hall.url) as host,
            Agent("bob", url=hall.url, channels=["general", "agents"]) as bob,
        ):
            await host.call("agentchat_connect", name="alice", channels=["general", "agents"])
            await bob.send("#general", "to all")
            await bob.send("#agents", "to agents")
            await bob.send("#general", "hello @alice")
            await _until_in_inbox(host, "hello @alice")
            assert contents(await host.listen(mentions_only=True, timeout=30)) == ["hello @alice"]
            assert contents(await host.listen(channels=["#agents"], timeout=30)) == ["to agents"]
            assert contents(await host.listen(timeout=30)) == ["to all"]


async def test_a_model_that_listens_shows_it_and_keeps_its_status_text(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        async with (
            running_host(tmp_path / "a", hall.url) as host,
            Agent("bob", url=hall.url, channels="general") as bob,
        ):
            me = await host.call("agentchat_connect", name="alice", channels=["general"])
            await host.call("agentchat_set_presence", status_text="reviewing")
            change = bob.wait_for("presence", lambda change: change.presence == "listening")
            listening = asyncio.create_task(host.call("agentchat_listen", timeout=60))
            shown = await change
            assert (shown.id, shown.status_text) == (me["agent_id"], "reviewing")
            back = bob.wait_for("presence", lambda change: change.presence == "online")
            await bob.send(me["agent_id"], "done?")
            assert (await listening)["connected"] is True
            assert (await back).status_text == "reviewing"


async def test_two_calls_that_listen_share_what_comes(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--set", "rate_message=1000/1") as hall:
        async with running_host(tmp_path / "a", hall.url) as host, Agent("bob", url=hall.url) as bob:
            me = await host.call("agentchat_connect", name="alice")
            calls = {asyncio.create_task(host.call("agentchat_listen", timeout=60)) for _ in range(2)}
            await bob.send(me["agent_id"], "one")
            done, waiting = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            assert [contents(call.result()["messages"]) for call in done] == [["one"]]
            await bob.send(me["agent_id"], "two")
            (second,) = waiting
            assert contents((await second)["messages"]) == ["two"]


async def test_a_takeover_is_said_clearly_and_not_fought(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        async with running_host(tmp_path / "a", hall.url, MOOTHALL_NAME="alice") as first:
            await first.call("agentchat_connect")
            waiting = asyncio.create_task(first.client.call_tool("agentchat_listen", {"timeout": 60}))
            async with running_host(tmp_path / "a", hall.url, MOOTHALL_NAME="alice") as second:
                await second.call("agentchat_connect")
                result = await waiting
                assert isinstance(result, types.CallToolResult)
                assert result.is_error
                assert "took over" in text_of(result)
                assert "agentchat_connect" in text_of(result)
                assert "took over" in await first.fail("agentchat_channels")
                assert (await second.call("agentchat_channels"))["joined"]
                await first.call("agentchat_connect")
                assert "took over" in await second.fail("agentchat_channels")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_both_eras_of_the_protocol(tmp_path: Path, mode: str) -> None:
    with running_hall(tmp_path) as hall:
        async with running_host(tmp_path / "a", hall.url, mode=mode) as host:
            assert (await host.call("agentchat_listen", timeout=0))["count"] >= 0


async def _until_in_inbox(host: Host, content: str) -> None:
    """Wait until the process has heard something, without reading it."""
    while True:
        found = await host.call("agentchat_inbox")
        if any(each.get("content") == content for each in found["messages"]):
            return

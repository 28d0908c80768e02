"""Resources that a host reads and watches, and prompts that a person picks."""

import asyncio
import json
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import stdio_client
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError

from moothall import Agent
from moothall.errors import UsageError
from moothall.tools.prompts import PROMPTS
from moothall.tools.resources import RESOURCES, case_in
from tests.support.mcp_host import Host, parameters, running_host
from tests.support.server import running_hall

pytestmark = pytest.mark.slow


async def read(host: Host, uri: str) -> dict[str, Any]:
    (contents,) = (await host.client.read_resource(uri)).contents
    assert isinstance(contents, types.TextResourceContents)
    assert contents.mime_type == "application/json"
    found: dict[str, Any] = json.loads(contents.text)
    return found


def test_the_uri_of_a_case_has_its_id() -> None:
    assert case_in("moothall://case/disp_1a") == "disp_1a"
    assert case_in("moothall://case/../x") is None
    assert case_in("moothall://cases") is None


async def test_every_resource_can_be_read(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        async with (
            running_host(tmp_path / "a", hall.url, MOOTHALL_NAME="alice") as host,
            Agent("bob", url=hall.url) as bob,
        ):
            listed = {each.uri for each in (await host.client.list_resources()).resources}
            assert listed == RESOURCES.keys()
            assert {"moothall://channels", "moothall://agents", "moothall://proposals"} < listed
            (template,) = (await host.client.list_resource_templates()).resource_templates
            assert template.uri_template == "moothall://case/{id}"
            channels = await read(host, "moothall://channels")
            assert "#general" in channels["joined"]
            agents = await read(host, "moothall://agents")
            assert bob.address in {each["agent_id"] for each in agents["agents"]}
            assert (await read(host, "moothall://proposals"))["proposals"] == []
            assert (await read(host, "moothall://cases"))["cases"] == []
            await bob.send(agents["you"], "hello")
            while not (inbox := await read(host, "moothall://inbox"))["messages"]:
                pass
            assert inbox["messages"][0]["content"] == "hello"
            assert inbox["messages"][0]["source"] == "stranger"
            for wrong in ("moothall://nothing", "moothall://case/disp_none", "file:///etc/passwd"):
                with pytest.raises(MCPError) as caught:
                    await host.client.read_resource(wrong)
                assert "Traceback" not in caught.value.message
            assert (await host.listen(timeout=30))[0][
                "content"
            ] == "hello"  # reading there has marked nothing


async def test_a_host_of_the_newer_era_is_told_of_changes(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        async with (
            running_host(tmp_path / "a", hall.url) as host,
            Agent("bob", url=hall.url) as bob,
        ):
            me = await host.call("agentchat_connect", name="alice")
            async with host.client.listen(resource_subscriptions=["moothall://inbox"]) as stream:
                await bob.send(me["agent_id"], "news")
                async for event in stream:
                    assert event == ResourceUpdated("moothall://inbox")
                    break


async def test_a_host_of_the_older_era_subscribes_and_unsubscribes(tmp_path: Path) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()

    async def handle(message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            told.put_nowait(str(message.params.uri))

    with running_hall(tmp_path) as hall, (tmp_path / "errors.txt").open("w") as errors:
        started = stdio_client(parameters(tmp_path / "a", hall.url), errlog=errors)
        async with (
            Client(started, mode="legacy", message_handler=handle) as client,
            Agent("bob", url=hall.url, channels="general") as bob,
        ):
            me = await Host(client).call("agentchat_connect", name="alice")
            await subscribe(client, "moothall://inbox")
            await bob.send(me["agent_id"], "news")
            assert await told.get() == "moothall://inbox"
            stop = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri="moothall://inbox"))
            await client.session.send_request(stop, types.EmptyResult)
            await subscribe(client, "moothall://agents")
            await bob.set_presence("away")
            await bob.send(me["agent_id"], "more")
            assert await told.get() == "moothall://agents"


async def subscribe(client: Client, uri: str) -> None:
    request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
    await client.session.send_request(request, types.EmptyResult)


GIVEN = {
    "greet_channel": {"channel": "#general"},
    "offer_work": {"task": "A poem", "budget": "3 USD"},
    "judge_case": {"dispute_id": "disp_1"},
    "review_evidence": {"dispute_id": "disp_1"},
}


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_has_its_arguments_in_it(name: str) -> None:
    text = PROMPTS[name].filled(GIVEN[name])
    assert all(value in text for value in GIVEN[name].values())
    assert "{" not in text
    assert "agentchat_" in text


def test_a_prompt_refuses_other_arguments() -> None:
    prompt = PROMPTS["offer_work"]
    assert "Budget: \n" in prompt.filled({"task": "A poem"})
    for wrong in ({}, {"budget": "3"}, {"task": "A", "extra": "x"}, {"task": "x" * 501}):
        with pytest.raises(UsageError):
            prompt.filled(wrong)


async def test_prompts_are_listed_and_filled(tmp_path: Path) -> None:
    async with running_host(tmp_path / "a", "ws://127.0.0.1:1") as host:
        listed = (await host.client.list_prompts()).prompts
        assert {each.name for each in listed} == PROMPTS.keys()
        result = await host.client.get_prompt("greet_channel", {"channel": "#general"})
        (message,) = result.messages
        assert isinstance(message.content, types.TextContent)
        assert "#general" in message.content.text
        with pytest.raises(MCPError, match="There is no prompt"):
            await host.client.get_prompt("sing")
        with pytest.raises(MCPError, match="cannot reach"):
            await host.client.get_prompt("judge_case", {"dispute_id": "disp_1"})

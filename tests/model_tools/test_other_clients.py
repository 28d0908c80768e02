"""The MCP server and clients of others: the conformance kit and the inspector. Not run without node."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.mcp_host import http_server
from tests.support.node_clients import NodeClients, installed
from tests.support.server import PROGRAM, HallProcess, running_hall

pytestmark = pytest.mark.slow

SCENARIOS = (
    "server-initialize",
    "ping",
    "tools-list",
    "server-sse-multiple-streams",
    "resources-list",
    "prompts-list",
    "dns-rebinding-protection",
)
OWN_TOOL = "calls a tool of the kit's example server"
OWN_RESOURCE = "reads a resource of the kit's example server"
OWN_PROMPT = "gets a prompt of the kit's example server"
LEFT_OUT = {
    "logging-set-level": "log lines go to standard error: we do not offer the capability, which is optional",
    "completion-complete": "completes an argument of a prompt of the kit's example server",
    "tools-call-simple-text": OWN_TOOL,
    "tools-call-image": OWN_TOOL,
    "tools-call-audio": OWN_TOOL,
    "tools-call-embedded-resource": OWN_TOOL,
    "tools-call-mixed-content": OWN_TOOL,
    "tools-call-with-logging": OWN_TOOL,
    "tools-call-error": OWN_TOOL,
    "tools-call-with-progress": OWN_TOOL,
    "tools-call-sampling": OWN_TOOL,
    "tools-call-elicitation": OWN_TOOL,
    "json-schema-2020-12": OWN_TOOL,
    "elicitation-sep1034-defaults": OWN_TOOL,
    "elicitation-sep1330-enums": OWN_TOOL,
    "server-sse-polling": OWN_TOOL,
    "resources-read-text": OWN_RESOURCE,
    "resources-read-binary": OWN_RESOURCE,
    "resources-templates-read": OWN_RESOURCE,
    "resources-subscribe": OWN_RESOURCE,
    "resources-unsubscribe": OWN_RESOURCE,
    "prompts-get-simple": OWN_PROMPT,
    "prompts-get-with-args": OWN_PROMPT,
    "prompts-get-embedded-resource": OWN_PROMPT,
    "prompts-get-with-image": OWN_PROMPT,
}


@pytest.fixture(scope="module")
def clients() -> NodeClients:
    return installed()


@pytest.fixture(scope="module")
def hall(clients: NodeClients, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall"), "--no-limits") as running:
        yield running


@pytest.fixture(scope="module")
def address(hall: HallProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with http_server(tmp_path_factory.mktemp("mcp"), hall.url) as running:
        yield running


def test_every_scenario_of_the_kit_is_run_or_left_out_for_a_reason(
    clients: NodeClients, tmp_path: Path
) -> None:
    listed = clients.conformance("list", "--server", home=tmp_path).stdout
    assert set(re.findall(r"^  - (\S+)", listed, re.MULTILINE)) == {*SCENARIOS, *LEFT_OUT}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_conformance_kit_is_content(
    scenario: str, clients: NodeClients, address: str, tmp_path: Path
) -> None:
    result = clients.conformance("server", "--url", address, "--scenario", scenario, home=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert ", 0 failed, 0 warnings" in result.stdout


@pytest.fixture(params=["stdio", "http"])
def target(request: pytest.FixtureRequest, hall: HallProcess, address: str) -> list[str]:
    """How the inspector gets to the server."""
    if request.param == "http":
        return [address, "--transport", "http"]
    return [PROGRAM, "mcp", "--url", hall.url]


def test_the_inspector_calls_tools(target: list[str], clients: NodeClients, tmp_path: Path) -> None:
    def inspected(*arguments: str) -> Any:
        result = clients.inspector(*target, *arguments, home=tmp_path)
        assert result.returncode == 0, result.stdout + result.stderr
        return json.loads(result.stdout)

    tools = {tool["name"] for tool in inspected("--method", "tools/list")["tools"]}
    assert {"agentchat_connect", "agentchat_listen", "agentchat_send"} <= tools
    call = ("--method", "tools/call", "--tool-name")
    met = inspected(*call, "agentchat_connect", "--tool-arg", "name=ada")["structuredContent"]
    assert met["name"] == "ada"
    sent = inspected(
        *call,
        "agentchat_send",
        "--tool-arg",
        "target=#general",
        "--tool-arg",
        "message=hello from the inspector",
    )
    assert sent["structuredContent"]["success"] is True
    uris = {each["uri"] for each in inspected("--method", "resources/list")["resources"]}
    assert "moothall://channels" in uris
    read = inspected("--method", "resources/read", "--uri", "moothall://channels")["contents"]
    assert "#general" in read[0]["text"]
    assert inspected("--method", "prompts/list")["prompts"]

"""`moothall channels`, `agents`, `create` and `invite`; and what Tab offers."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from moothall import Agent, Budget, PrivateKey
from moothall.cli import _completion
from moothall.cli.main import app
from tests.support.server import HallProcess, running_hall
from tests.support.terminal import in_terminal

ALICE = PrivateKey(bytes(range(32)))


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall"), "--no-limits") as hall:
        yield hall


async def moothall(*arguments: str) -> Result:
    result = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    assert "Traceback" not in result.output
    return result


async def succeed(*arguments: str) -> str:
    result = await moothall(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


async def complaint(code: int, *arguments: str) -> str:
    result = await moothall(*arguments)
    assert result.exit_code == code, result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


# channels


async def test_channels_and_how_many_are_in_them(hall: HallProcess) -> None:
    async with Agent("bob", channels=["#general"]).connected(hall.url):
        lines = (await succeed("channels", hall.url)).splitlines()
        assert lines[0].split() == ["#general", "1", "all"]
        listed = json.loads(await succeed("channels", hall.url, "--json"))
        assert {"name": "#general", "agents": 1, "verified_only": False} in listed


# agents


async def test_agents_of_a_channel(hall: HallProcess) -> None:
    async with (
        Agent("alice", identity=ALICE, channels=["#agents"]).connected(hall.url) as alice,
        Agent("bob", human=True, channels=["#agents"]).connected(hall.url) as bob,
    ):
        await bob.set_presence("away", "gone \x1b[31mfishing")
        await alice.report_budget(Budget(1_000_000, 25_000, "s"))
        alice_line, bob_line = (await succeed("agents", hall.url, "#agents")).splitlines()
        tokens = ["25,000", "of", "1,000,000"]
        assert alice_line.split() == [alice.address, "alice", "online", "verified", "agent", "-", *tokens]
        assert bob_line.split() == [bob.address, "bob", "away", "-", "human", "gone", "[31mfishing", "-"]
        listed = json.loads(await succeed("agents", "agents", "--json", "-u", hall.url))
        assert listed[1] == {
            "id": bob.address,
            "name": "bob",
            "verified": False,
            "is_human": True,
            "presence": "away",
            "status_text": "gone  [31mfishing",  # the hall took the escape character out
            "via": None,
            "budget": None,
        }
        assert listed[0]["budget"] == {"limit": 1_000_000, "spent": 25_000}


async def test_agents_of_the_whole_hall(hall: HallProcess, tmp_path: Path) -> None:
    """In channels or not, but without the command itself."""
    none = await moothall("agents", hall.url)
    assert (none.exit_code, none.stdout, none.stderr) == (0, "", "no agent is here\n")
    async with (
        Agent("alice", channels=["#agents"]).connected(hall.url) as alice,
        Agent("bob").connected(hall.url) as bob,
    ):
        lines = (await succeed("agents", "-u", hall.url)).splitlines()
        assert [line.split()[:2] for line in lines] == [[alice.address, "alice"], [bob.address, "bob"]]
        assert len(json.loads(await succeed("agents", "--json", hall.url))) == 2
        shown = await asyncio.to_thread(in_terminal, tmp_path, "agents", hall.url)
        header, first, _ = shown.text.splitlines()
        assert header.split() == ["AGENT", "NAME", "PRESENCE", "KEY", "KIND", "STATUS", "TOKENS"]
        assert first.index("alice") == header.index("NAME")
        empty = await moothall("agents", "discovery", "-u", hall.url)
        assert (empty.stdout, empty.stderr) == ("", "no agent is in #discovery\n")


async def test_agents_of_no_channel(hall: HallProcess) -> None:
    assert "moothall channels" in await complaint(4, "agents", hall.url, "nowhere")


# create and invite


async def test_a_channel_is_made_once(hall: HallProcess) -> None:
    assert await succeed("create", hall.url, "standup") == "created #standup\n"
    assert "CHANNEL_EXISTS" in await complaint(4, "create", hall.url, "#standup")
    assert "#standup" in await succeed("channels", hall.url)


async def test_a_channel_for_verified_agents(hall: HallProcess, tmp_path: Path) -> None:
    key = str(tmp_path / "alice.json")
    await succeed("identity", "new", key)
    await succeed("create", hall.url, "trusted", "--verified-only", "-i", key)
    assert "--identity" in await complaint(4, "send", hall.url, "trusted", "hello")
    await succeed("send", hall.url, "trusted", "hello", "-i", key)


@pytest.mark.parametrize("guest", ["bob", "@bob", "@", "1f3a9c02 ", "@1F3A9C02", "everybody-here"])
async def test_only_an_id_can_be_invited(guest: str) -> None:
    assert "moothall agents" in await complaint(2, "invite", "council", guest)


async def test_a_private_channel_is_for_its_maker_and_the_invited(hall: HallProcess, tmp_path: Path) -> None:
    alice, bob = str(tmp_path / "alice.json"), str(tmp_path / "bob.json")
    await succeed("identity", "new", alice)
    await succeed("identity", "new", bob)
    await succeed("create", hall.url, "council", "-p", "-i", alice)
    assert "#council" not in await succeed("channels", hall.url)
    assert "NOT_INVITED" in await complaint(4, "send", hall.url, "council", "hello", "-i", bob)
    shown = json.loads(await succeed("identity", "show", "--json", "--file", bob))
    guest = shown["agent_id"]
    assert "NOT_INVITED" in await complaint(4, "invite", hall.url, "council", guest, "-i", bob)
    assert (
        await succeed("invite", hall.url, "council", guest, "-i", alice) == f"invited @{guest} to #council\n"
    )
    await succeed("send", hall.url, "council", "hello", "-i", bob)


# what Tab offers


async def test_tab_offers_the_channels_of_the_hall(
    hall: HallProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCHAT_URL", hall.url)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # which is not for this machine
    offered = await _completed("moothall agents #gen")
    assert offered == ["#general"]
    assert await _completed("moothall listen gen") == ["general"]
    assert await _completed("moothall send gen") == ["general"]
    assert "discovery" in await _completed("moothall listen general d")


async def test_tab_asks_the_hall_that_was_named(hall: HallProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTCHAT_URL", "ws://127.0.0.1:1")
    assert await _completed(f"moothall agents {hall.url} gen") == ["general"]
    assert await _completed("moothall agents gen") == []


async def test_tab_offers_settings_and_profiles() -> None:
    assert await _completed("moothall serve --set max_fr") == ["max_frame="]
    assert await _completed("moothall config --profile a") == ["agentchat-0.36"]
    assert "listen" in await _completed("moothall li")


async def _completed(line: str) -> list[str]:
    """What bash would offer at the end of the line."""
    words = line.split()
    variables = {
        "_MOOTHALL_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    result = await asyncio.to_thread(CliRunner().invoke, app, [], env=variables, prog_name="moothall")
    return result.stdout.split()


def test_tab_is_silent_where_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTCHAT_URL", "not an address")
    assert _completion.offered_channels(None) == []

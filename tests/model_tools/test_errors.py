"""What a model is told when something goes wrong: what happened, and what to do next. Never a traceback."""

import json
from pathlib import Path
from typing import Any

import pytest

from moothall import Agent, errors
from moothall.tools.advice import explain
from moothall.tools.options import Options
from moothall.tools.server import answer
from moothall.tools.session import Session
from moothall.tools.table import Arguments, Call, Hints, Result, Tool
from tests.support.mcp_host import running_host, text_of
from tests.support.server import running_hall

NEXT_STEP = (
    "agentchat_",
    "call again",
    "Tell the user",
    "tell the user",
    "again",
    "Choose",
    "Ask ",
    "ask",
    "look",
    "Only",
)


@pytest.mark.parametrize("code", sorted(errors.Refusal.by_code))
def test_every_refusal_says_its_code(code: str) -> None:
    assert explain(errors.Refusal.by_code[code]("no")).startswith(f"{code}: no")


@pytest.mark.parametrize(
    "error",
    [
        errors.Displaced("taken over"),
        errors.Kicked("bad manners"),
        errors.ConnectionFailed("cannot reach it"),
        errors.ConnectionLost("gone"),
        errors.NotConnected("not there"),
        errors.ReplyTimeout("silence"),
        errors.KeyFileMissing("no such file"),
        errors.UntrustedHall("another key"),
        errors.ChannelNotFound("#x"),
        errors.AgentNotFound("@x"),
        errors.RateLimited("too fast"),
        errors.ProposalNotFound("prop_x"),
        errors.SignatureRequired("no key"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_says_what_to_do_next(error: errors.MoothallError) -> None:
    text = explain(error)
    assert str(error) in text
    assert any(step in text for step in NEXT_STEP)


class Nothing(Arguments):
    pass


class Never(Result):
    pass


@pytest.mark.parametrize("mistake", [ZeroDivisionError("secret"), KeyError("secret"), RuntimeError("secret")])
async def test_a_mistake_of_ours_is_no_traceback(
    mistake: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(call: Call, asked: Nothing) -> Never:
        raise mistake

    tool: Tool[Any, Any] = Tool("broken", "Broken", "It fails.", Nothing, Never, fail, Hints())
    result = await answer(tool, Call(Session(Options()), None), {})  # type: ignore[arg-type]  # nothing is reported
    assert result.is_error
    text = text_of(result)
    assert "secret" not in text
    assert "Traceback" not in text
    assert "Tell the user" in text
    assert "secret" in caplog.text


async def test_a_hall_that_is_down_is_told_at_once_and_wrong_arguments_are_explained(tmp_path: Path) -> None:
    async with running_host(tmp_path / "a", "ws://127.0.0.1:1") as host:
        for tool in ("agentchat_channels", "agentchat_listen", "agentchat_my_rating"):
            text = await host.fail(tool)
            assert "cannot reach" in text
            assert "call again later" in text
        text = await host.fail("agentchat_listen", tail=0)
        assert "tail" in text
        assert "Correct the call" in text
        assert "no tool 'agentchat_fly'" in await host.fail("agentchat_fly")
        text = await host.fail("agentchat_send", target="#general", mesage="hello")
        assert "mesage" in text
        assert "message" in text
        text = await host.fail("agentchat_send", target="#general", message="hello", outcome="DONE")
        assert "Choose one of: done, failed." in text
        item = {"kind": "film", "label": "a", "value": "b"}
        text = await host.fail("agentchat_evidence", dispute_id="disp_1", items=[item], statement="s")
        assert "Choose one of: attestation, commit," in text
        text = await host.fail("agentchat_connect", server_url="wss://hall.example.org")
        assert "AGENTCHAT_PUBLIC" in text
        text = await host.fail("agentchat_kick", target="@1f3a9c02")
        assert "AGENTCHAT_ADMIN_KEY" in text


async def test_standard_output_carries_nothing_but_the_protocol(tmp_path: Path) -> None:
    """The client would have failed on any other line; what is logged is on standard error."""
    with running_hall(tmp_path) as hall:
        async with running_host(tmp_path / "a", hall.url) as host:
            await host.call("agentchat_connect", name="alice")
            text = await host.fail("agentchat_send", target="@1f3a9c02", message="hello")
            assert text.startswith("AGENT_NOT_FOUND")
            text = await host.fail("agentchat_accept", proposal_id="prop_none")
            assert "agentchat_proposals" in text
    assert "made a new key" in (tmp_path / "a" / "stderr.txt").read_text()


async def test_a_channel_that_is_not_there_is_told_and_not_waited_for(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        async with (
            running_host(tmp_path / "a", hall.url, MOOTHALL_NAME="alice") as host,
            Agent("bob", url=hall.url, channels=["general"]) as bob,
        ):
            me = await host.call("agentchat_connect", channels=["#general", "#nosuch"])
            assert me["channels"] == ["#general"]
            assert list(me["refused"]) == ["#nosuch"]
            assert "agentchat_create_channel" in me["refused"]["#nosuch"]
            assert "refused" not in await host.call("agentchat_connect"), (
                "the defaults are no wish of the model"
            )
            await bob.send("#general", "unread, and in another channel")
            text = await host.fail("agentchat_listen", channels=["#nosuch"], timeout=60)
            assert text.startswith("CHANNEL_NOT_FOUND")
            text = await host.fail("agentchat_claim", msg_id="msg_1", channel="#nosuch")
            assert "you are not in #nosuch" in text


async def test_a_key_file_that_cannot_be_used_leaves_the_agent_as_it_is(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        async with running_host(tmp_path / "a", hall.url, MOOTHALL_NAME="alice") as host:
            before = await host.call("agentchat_connect")
            (tmp_path / "other.json").write_text("{}")
            for wrong in ("missing.json", "other.json"):
                text = await host.fail("agentchat_connect", identity_path=str(tmp_path / wrong))
                assert "agentchat_connect with another" in text
                sent = await host.call("agentchat_send", target="#general", message="still here")
                assert sent["from"] == before["agent_id"]


async def test_an_agent_goes_back_from_a_hall_that_it_cannot_reach(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        async with running_host(tmp_path / "home", hall.url, MOOTHALL_NAME="alice") as host:
            me = await host.call("agentchat_connect")
            await host.fail("agentchat_connect", server_url="ws://127.0.0.1:1", name="bob")
            sent = await host.call("agentchat_send", target="#general", message="I am still here")
            assert sent["from"] == me["agent_id"]


async def test_a_query_that_a_keep_server_does_not_know(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--keep") as hall:
        place = {"KEEP_HOST": "127.0.0.1", "KEEP_PORT": str(hall.keep_port)}
        async with running_host(tmp_path / "a", hall.url, **place) as host:
            text = await host.fail("keep_discover", query="weather")
            assert "Use info, agents or stats." in json.loads(text)["error"]

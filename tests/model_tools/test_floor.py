"""Who has the floor: a claim is granted or not, and a lost one is not answered without `force`."""

from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from moothall import Agent
from moothall.client.floor import MAX_ROUNDS
from moothall.tools.chat import Claim
from moothall.tools.chat import claim as claim_tool
from moothall.tools.floor import MAX_LOST, Floor
from moothall.tools.listening import Listen, listen
from moothall.tools.options import Options
from moothall.tools.session import Session
from moothall.tools.table import Call
from moothall.worker.runner.hall_tools import Silent
from tests.support.mcp_host import Host, running_host
from tests.support.server import running_hall

pytestmark = pytest.mark.slow

ME = "@aaaaaaaa"


def lost(number: int = 1, holder: str = "@bbbbbbbb") -> dict[str, object]:
    return {"type": "YIELD", "channel": "#general", "msg_id": f"m{number}", "holder": holder}


def is_own(address: str) -> bool:
    return address == ME


def test_a_yield_names_the_holder() -> None:
    floor = Floor()
    floor.hear(lost(), is_own)
    assert floor.holder("#general", "m1") == "@bbbbbbbb"
    assert floor.holder("#other", "m1") is None
    floor.won("#general", "m1")
    assert floor.holder("#general", "m1") is None


def test_a_repeated_claim_of_ones_own_is_no_loss() -> None:
    floor = Floor()
    floor.hear(lost(), is_own)
    floor.hear(lost(holder=ME), is_own)
    assert floor.holder("#general", "m1") is None


def test_what_is_remembered_is_bounded() -> None:
    floor = Floor()
    for number in range(MAX_LOST + 1):
        floor.hear(lost(number), is_own)
    assert floor.holder("#general", "m0") is None
    assert floor.holder("#general", f"m{MAX_LOST}") == "@bbbbbbbb"
    floor.clear()
    assert floor.holder("#general", f"m{MAX_LOST}") is None


async def test_one_model_answers_and_the_other_is_told_to_wait(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--set", "rate_message=1000/1") as hall:
        async with (
            running_host(tmp_path / "a", hall.url) as alice,
            running_host(tmp_path / "b", hall.url) as bob,
            Agent("asker", url=hall.url, channels="general") as asker,
        ):
            await alice.call("agentchat_connect", name="alice")
            await bob.call("agentchat_connect", name="bob")
            question = await asker.send("#general", "Who knows?")
            first = await alice.call("agentchat_claim", msg_id=question, channel="#general")
            assert first["granted"] is True
            second = await bob.call("agentchat_claim", msg_id=question, channel="general")
            assert second["granted"] is False
            assert second["holder"] == first["agent_id"]
            event = await bob.event("YIELD")
            assert event["data"]["msg_id"] == question
            answer = {"target": "#general", "message": "I do", "in_reply_to": question}
            text = await bob.fail("agentchat_send", **answer)
            assert first["agent_id"] in text
            assert "Nothing was sent" in text
            assert (await alice.call("agentchat_send", **answer))["success"]
            assert (await bob.call("agentchat_send", **answer, force=True))["success"]


async def test_models_do_not_answer_what_is_answered_nor_each_others_answers(tmp_path: Path) -> None:
    """Models that claim and answer everything they hear would otherwise never stop."""
    with running_hall(tmp_path, "--set", "rate_message=1000/1") as hall:
        async with (
            running_host(tmp_path / "a", hall.url, MOOTHALL_NAME="alice") as alice,
            running_host(tmp_path / "b", hall.url, MOOTHALL_NAME="bob") as bob,
            Agent("asker", url=hall.url, channels="general") as asker,
        ):
            await alice.call("agentchat_connect")
            me = await bob.call("agentchat_connect")
            question = await asker.send("#general", "Who knows?")
            assert question is not None
            assert (await claimed(alice, question))["granted"]
            sent = await alice.call("agentchat_send", target="#general", message="I do", in_reply_to=question)
            reply = await claimed(bob, sent["msg_id"])
            assert (reply["granted"], "a reply to another agent" in reply["reason"]) == (False, True)
            late = await bob.call("agentchat_claim", msg_id=question, channel="#general")
            assert (late["granted"], late["reason"]) == (False, "Be silent: another agent has answered it.")
            asked = await asker.send("#general", f"And {me['agent_id']}?", in_reply_to=sent["msg_id"])
            assert asked is not None
            assert (await claimed(bob, asked))["granted"]


async def test_two_models_that_always_answer_come_to_an_end(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--set", "rate_message=1000/1") as hall:
        async with (
            running_host(tmp_path / "a", hall.url, MOOTHALL_NAME="alice") as alice,
            running_host(tmp_path / "b", hall.url, MOOTHALL_NAME="bob") as bob,
        ):
            await alice.call("agentchat_connect")
            await bob.call("agentchat_connect")
            sent = await alice.call("agentchat_send", target="#general", message="Hello")
            speaker, other, replies = bob, alice, 0
            while (claim := await claimed(speaker, sent["msg_id"]))["granted"] and replies < 2 * MAX_ROUNDS:
                answer = {"target": "#general", "message": "Thank you", "in_reply_to": sent["msg_id"]}
                sent = await speaker.call("agentchat_send", **answer)
                speaker, other, replies = other, speaker, replies + 1
            assert replies == MAX_ROUNDS
            assert "agents have replied to each other" in claim["reason"]


async def test_a_claim_that_crosses_the_answer_of_another_agent_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with running_hall(tmp_path, "--set", "rate_message=1000/1") as hall:
        session = Session(Options.from_environment({}, url=hall.url, name="late"))
        async with (
            Agent("asker", url=hall.url, channels="general") as asker,
            Agent("quick", url=hall.url, channels="general") as quick,
        ):
            agent = await session.agent()
            claim, release = agent.claim, AsyncMock(wraps=agent.release)

            async def crossing(msg_id: str, channel: str, started_at: float) -> bool:
                """The hall hears the answer first, and the claim then."""
                await quick.send(channel, "I do", in_reply_to=msg_id)
                return await claim(msg_id, channel, started_at)

            monkeypatch.setattr(agent, "claim", crossing)
            monkeypatch.setattr(agent, "release", release)
            question = await asker.send("#general", "Who knows?")
            call = Call(session, Silent(), "1")
            while not any(
                item.msg_id == question for item in (await listen(call, Listen(timeout=10))).messages
            ):
                pass
            told = await claim_tool(call, Claim(msg_id=str(question), channel="#general"))
            assert (told.granted, told.reason) == (False, "Be silent: another agent has answered it.")
            release.assert_awaited_once_with(question, "#general")
        await session.close()


async def claimed(model: Host, msg_id: str) -> dict[str, Any]:
    """What a model is told when it claims a message that it has heard."""
    await model.hear(lambda message: message.get("msg_id") == msg_id)
    return await model.call("agentchat_claim", msg_id=msg_id, channel="#general")


async def test_a_later_yield_ends_a_claim_that_was_granted(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--set", "rate_message=1000/1") as hall:
        async with (
            running_host(tmp_path / "a", hall.url) as alice,
            Agent("asker", url=hall.url, channels="general") as asker,
            Agent("early", url=hall.url, channels="general") as early,
        ):
            await alice.call("agentchat_connect", name="alice")
            question = await asker.send("#general", "Who knows?")
            assert question is not None
            mine = await alice.call("agentchat_claim", msg_id=question, channel="#general")
            assert mine["granted"] is True
            assert await early.claim(question, "#general", mine["started_at"] / 1000 - 1)
            await alice.event("YIELD")
            text = await alice.fail("agentchat_send", target="general", message="Me!", in_reply_to=question)
            assert early.address in text

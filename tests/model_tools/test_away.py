"""What a model is told of the time when it was not there: deals that others changed, and callbacks that fired."""

from pathlib import Path

import pytest

from moothall import Agent, Identity, PrivateKey
from tests.support.mcp_host import running_host
from tests.support.server import running_hall

pytestmark = pytest.mark.slow


async def test_a_deal_that_was_accepted_while_the_model_was_away(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        async with Agent(
            "bob", identity=Identity(PrivateKey(bytes(32))), url=hall.url, channels="general"
        ) as bob:
            async with running_host(tmp_path / "a", hall.url, MOOTHALL_NAME="alice") as host:
                await host.call("agentchat_connect")
                await bob.send("#general", "I am here")
                await host.hear(lambda message: message["content"] == "I am here")
                deal = await host.call("agentchat_propose", to=bob.address, task="A poem")
                other = await host.call("agentchat_propose", to=bob.address, task="A song")
            await bob.accept(deal["proposal_id"])
            await bob.reject(other["proposal_id"], "I cannot sing")
            async with running_host(tmp_path / "a", hall.url, MOOTHALL_NAME="alice") as host:
                told: dict[str, dict[str, object]] = {}
                while len(told) < 2:
                    for message in await host.listen(timeout=30):
                        if message.get("event") in ("ACCEPT", "REJECT"):
                            told[message["event"]] = message["data"]
                assert told["ACCEPT"]["proposal_id"] == deal["proposal_id"]
                assert told["REJECT"]["reason"] == "I cannot sing"
            async with running_host(tmp_path / "a", hall.url, MOOTHALL_NAME="alice") as host:
                again = await host.listen(timeout=0)
                assert not {message.get("event") for message in again} & {"ACCEPT", "REJECT"}


async def test_a_callback_that_the_model_set_comes_back_to_it(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        async with running_host(tmp_path / "a", hall.url, MOOTHALL_NAME="alice") as host:
            await host.call("agentchat_send", target="#general", message="Later! @@cb:1s@@look at the build")
            event = await host.event("CALLBACK")
            assert event["content"] == "look at the build"
            assert event["source"] == "self"

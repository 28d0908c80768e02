"""Receipts of delivery between two models: asked for, told, and given when the model has the message."""

from pathlib import Path

from tests.support.mcp_host import running_host
from tests.support.server import running_hall


async def test_a_sender_hears_when_the_other_model_has_the_message(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--set", "rate_message=1000/1") as hall:
        async with (
            running_host(tmp_path / "a", hall.url, MOOTHALL_NAME="alice") as alice,
            running_host(tmp_path / "b", hall.url, MOOTHALL_NAME="bob") as bob,
        ):
            me = await alice.call("agentchat_connect")
            other = await bob.call("agentchat_connect")
            sent = await alice.call(
                "agentchat_send", target=other["agent_id"], message="Please sum up", receipt=True
            )

            async def told(status: str) -> dict[str, object]:
                found = await alice.hear(
                    lambda message: message.get("event") == "RECEIPT" and message["data"]["status"] == status
                )
                data: dict[str, object] = found["data"]
                return data

            assert (await told("DELIVERED"))["msg_id"] == sent["msg_id"]
            request = await bob.hear(lambda message: message["content"] == "Please sum up")
            assert (await told("SEEN"))["to"] == other["agent_id"]
            answer = {"target": me["agent_id"], "message": "A sum", "in_reply_to": request["msg_id"]}
            await bob.call("agentchat_send", **answer, outcome="done")
            assert (await told("DONE"))["msg_id"] == sent["msg_id"]
            text = await bob.fail("agentchat_send", target=me["agent_id"], message="x", outcome="failed")
            assert "in_reply_to" in text

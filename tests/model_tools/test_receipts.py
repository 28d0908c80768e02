"""Receipts of delivery between two models: asked for, told, and given when the model has the message."""

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from moothall.tools.receipts import MOST_NAMED, REMEMBERED, ReceiptSums
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


def receipt(
    status: str, to: str = "@a", of: object = 3, msg_id: str = "m", **fields: object
) -> dict[str, Any]:
    return {"type": "RECEIPT", "msg_id": msg_id, "status": status, "to": to, "of": of, **fields}


@given(
    order=st.permutations([(f"@{number}", status) for number in range(5) for status in ("DELIVERED", "SEEN")])
)
def test_what_all_members_say_is_told_once(order: list[tuple[str, str]]) -> None:
    sums = ReceiptSums()
    told = [each for to, status in order * 2 for each in sums.summed(receipt(status, to, of=5))]
    assert sorted((each["status"], each["count"]) for each in told) == [("DELIVERED", 5), ("SEEN", 5)]
    assert all("to" not in each for each in told)


@given(order=st.permutations([("@a", "DELIVERED"), ("@b", "UNDELIVERED"), ("@c", "DELIVERED")]))
def test_a_member_that_did_not_get_it_is_named_and_the_others_are_counted(
    order: list[tuple[str, str]],
) -> None:
    sums = ReceiptSums()
    told = [each for to, status in order for each in sums.summed(receipt(status, to, reason="gone"))]
    assert receipt("UNDELIVERED", "@b", reason="gone") in told
    (count,) = [each for each in told if each["status"] == "DELIVERED"]
    assert (count["count"], count["of"]) == (2, 3)
    assert "reason" not in count


def test_what_one_recipient_says_is_told_as_it_is() -> None:
    sums = ReceiptSums()
    for frame in (
        receipt("DELIVERED", of=1),
        receipt("SEEN", of=1),
        receipt("CLAIMED"),
        receipt("DONE"),
        receipt("FAILED", reason="no time"),
        receipt("DELIVERED", "#room", of=90, count=80),
        receipt("DELIVERED", of=90),
        receipt("DELIVERED", of="many"),
    ):
        assert sums.summed(frame) == [frame]


def test_a_hall_that_names_more_recipients_than_there_are_fills_no_memory() -> None:
    sums = ReceiptSums()
    for number in range(MOST_NAMED):
        sums.summed(receipt("SEEN", f"@{number}", of=MOST_NAMED - 1))
    frame = receipt("SEEN", "@more", of=MOST_NAMED - 1)
    assert sums.summed(frame) == [frame]


def test_receipts_of_old_messages_are_forgotten() -> None:
    sums = ReceiptSums()
    assert sums.summed(receipt("DELIVERED", "@a", of=2, msg_id="old")) == []
    for number in range(REMEMBERED):
        sums.summed(receipt("DELIVERED", "@a", of=2, msg_id=f"{number}"))
    assert sums.summed(receipt("DELIVERED", "@b", of=2, msg_id="old")) == []

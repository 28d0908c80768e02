"""Which frames of a hall are stored, and that each is stored once."""

from pathlib import Path
from typing import Any

import pytest

from moothall.daemon.folder import Folder
from moothall.daemon.inbox import Inbox
from moothall.daemon.recorder import Recorder


def receipt(status: str, **fields: Any) -> dict[str, Any]:
    return {"type": "RECEIPT", "msg_id": "msg_1", "status": status, "to": "@bob", "of": 1, **fields}


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    folder = Folder(tmp_path / "inbox")
    folder.make()
    return Inbox(folder)


async def stored(inbox: Inbox, *frames: dict[str, Any]) -> list[dict[str, Any]]:
    recorder = Recorder(inbox)
    recorder.begin()
    for frame in frames:
        recorder.hear(frame)
    recorder.flush()
    return [dict(record.fields) for record in inbox.tail(100).records]


async def test_messages_are_stored_once(inbox: Inbox) -> None:
    message = {"type": "MSG", "msg_id": "msg_1", "content": "hello"}
    assert await stored(inbox, message, message, {"type": "TYPING"}) == [message]
    assert await stored(inbox, message) == [message]


async def test_receipts_do_not_crowd_out_the_messages(inbox: Inbox) -> None:
    """A message to a channel of 40 has 80 of these, and none is news: `delivered` is in outbox.sent.jsonl."""
    crowd = [
        receipt(status, to=f"@{number}", of=40) for number in range(40) for status in ("DELIVERED", "SEEN")
    ]
    assert await stored(inbox, receipt("DELIVERED"), receipt("DELIVERED", of=90, count=90), *crowd) == []


@pytest.mark.parametrize(
    "frame",
    [
        receipt("SEEN"),
        receipt("UNDELIVERED", of=40, reason="gone"),
        receipt("CLAIMED", of=40),
        receipt("DONE", of=40),
        receipt("FAILED", of=40),
    ],
    ids=lambda frame: frame["status"],
)
async def test_what_a_recipient_made_of_a_message_is_stored_once(inbox: Inbox, frame: dict[str, Any]) -> None:
    assert await stored(inbox, frame, frame) == [frame]
    assert await stored(inbox, frame) == [frame], "the hall repeats it after a reconnect"

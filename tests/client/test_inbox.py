import asyncio
from typing import Any

import pytest

from moothall import FloorLost, Message
from moothall.client.inbox import Inbox
from moothall.wire.agentchat.server import Chat


def heard(content: str) -> Message:
    fields: dict[str, Any] = {"ts": 1, "from_": "@bob", "from_name": "bob", "to": "#general", "msg_id": "1-a"}
    return Message(Chat(content=content, **fields), content.encode(), None)  # type: ignore[arg-type]  # nobody answers here


def make_inbox(lost: list[str], size: int = 3, most: int = 100) -> Inbox:
    async def start() -> None:
        pass

    return Inbox(lambda message: True, start, lambda message: lost.append(message.content), size, most)


async def test_a_full_inbox_gives_up_the_oldest_and_says_so() -> None:
    lost: list[str] = []
    inbox = make_inbox(lost)
    for number in range(5):
        inbox.put(heard(str(number)))
    assert lost == ["0", "1"]
    assert [(await anext(inbox)).content for _ in range(3)] == ["2", "3", "4"]


async def test_long_messages_fill_an_inbox_before_there_are_many() -> None:
    lost: list[str] = []
    inbox = make_inbox(lost, most=10)
    for content in ("12345", "abcde", "x", "longer than all of it", "y"):
        inbox.put(heard(content))
    assert lost == ["12345", "abcde", "x", "longer than all of it"]
    assert (await anext(inbox)).content == "y"
    inbox.put(heard("0123456789"))
    assert (await anext(inbox)).content == "0123456789"


async def test_an_inbox_wakes_its_reader_and_ends_after_the_rest() -> None:
    inbox = make_inbox([])
    waiting = asyncio.ensure_future(anext(inbox))
    await asyncio.sleep(0)
    inbox.put(heard("one"))
    inbox.put(heard("two"))
    inbox.end(None)
    assert (await waiting).content == "one"
    assert [message.content async for message in inbox] == ["two"]


async def test_an_inbox_ends_with_the_error_that_ended_the_agent() -> None:
    inbox = make_inbox([])
    inbox.end(FloorLost("as an example"))
    with pytest.raises(FloorLost):
        await anext(inbox)

"""Batches of signed messages: order, shares, and connections that are held."""

import asyncio
from typing import Any

import pytest

from moothall.gateways.batches import BESIDE_OTHERS, FULL_SPEED, Batches, Pace
from moothall.hall.checking import Arrival, Proof
from moothall.identity import PrivateKey
from tests.support.sockets import turn

KEY = PrivateKey(bytes(32))


class Message(Arrival, kw_only=True, eq=False):
    number: int


class FakeSource:
    def __init__(self, messages: int = 0, *, forged: int | None = None) -> None:
        self.listed = False
        self.held = 0
        self.closing = False
        self.checked: list[Message] = []
        self.inbox = [
            Message(self, _proof(number, number == forged), number=number) for number in range(messages)
        ]
        self.handled: list[tuple[int, bool]] = []
        self.fails_at: int | None = None

    @property
    def has_waiting(self) -> bool:
        return bool(self.inbox)

    def take(self, batch: list[Any], most: int) -> int:
        taken, self.inbox = self.inbox[:most], self.inbox[most:]
        batch += taken
        return len(taken)

    def handle(self, message: Message) -> None:
        self.handled.append((message.number, message.valid))
        if message.number == self.fails_at:
            raise ZeroDivisionError


def _proof(number: int, is_forged: bool) -> Proof:
    text = str(number).encode()
    return Proof(KEY.public.raw, text, bytes(64) if is_forged else KEY.sign_bytes(text))


async def until_handled(batches: Batches, *sources: FakeSource) -> None:
    while batches.is_at_work or any(source.inbox and not source.held for source in sources):
        await turn()


@pytest.fixture(params=[FULL_SPEED, BESIDE_OTHERS], ids=["full speed", "beside others"])
def pace(request: pytest.FixtureRequest) -> Pace:
    chosen: Pace = request.param
    return chosen


@pytest.mark.parametrize("helped", [True, False], ids=["with a thread", "alone"])
async def test_messages_are_checked_and_handled_in_order(pace: Pace, helped: bool) -> None:
    batches = Batches(asyncio.get_running_loop(), pace)
    if not helped:
        batches._helper = None
    one, other = FakeSource(50, forged=7), FakeSource(50)
    flushed: list[int] = []
    batches.after_each(lambda: flushed.append(len(one.handled)))
    batches.ready(one)
    batches.ready(other)
    await until_handled(batches, one, other)
    assert one.handled == [(number, number != 7) for number in range(50)]
    assert other.handled == [(number, True) for number in range(50)]
    assert flushed[-1] == 50
    batches.close()


async def test_a_connection_with_many_messages_leaves_room_for_others() -> None:
    batches = Batches(asyncio.get_running_loop(), BESIDE_OTHERS)
    flood, quiet = FakeSource(100), FakeSource(1)
    batches.ready(flood)
    batches.ready(quiet)
    while not quiet.handled:
        await turn()
    assert len(flood.handled) <= 2 * BESIDE_OTHERS.messages
    await until_handled(batches, flood)
    batches.close()


async def test_what_was_checked_while_a_connection_is_held_waits_for_it() -> None:
    batches = Batches(asyncio.get_running_loop(), FULL_SPEED)
    source = FakeSource(3)
    batches.ready(source)
    await turn()
    source.held = 1
    await until_handled(batches, source)
    waiting = [message.number for message in source.checked]
    assert [number for number, _ in source.handled] + waiting + [m.number for m in source.inbox] == [0, 1, 2]
    batches.close()


async def test_a_message_that_fails_does_not_stop_the_others() -> None:
    loop = asyncio.get_running_loop()
    failures: list[Any] = []
    loop.set_exception_handler(lambda _, context: failures.append(context))
    batches = Batches(loop, FULL_SPEED)
    source = FakeSource(20)
    source.fails_at = 3
    batches.ready(source)
    await until_handled(batches, source)
    assert [number for number, _ in source.handled] == list(range(20))
    assert len(failures) == 1
    batches.close()

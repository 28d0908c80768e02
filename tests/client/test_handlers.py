import asyncio
import functools
import logging
from typing import Any

import pytest

from moothall import Agent
from moothall.client import handlers as handlers_module
from moothall.client.handlers import MAX_BYTES, MAX_RUNNING, Filter, Handlers, Registered
from moothall.client.message import Message
from moothall.errors import FloorLost, FloorTaken
from moothall.wire.agentchat.server import Chat

ME = ("1a2b3c4d", "echo")


def heard(content: str = "hello", **changes: Any) -> Message:
    fields: dict[str, Any] = {"ts": 1, "from_": "@bob", "from_name": "bob", "to": "#general", "msg_id": "1-a"}
    return Message(Chat(content=content, **{**fields, **changes}), b"{}", None)  # type: ignore[arg-type]


IN_GENERAL = heard()
IN_OTHER = heard(to="#other")
DIRECT = heard(to="@1a2b3c4d")
MENTION = heard("hey @echo")
MENTION_IN_OTHER = heard("hey @echo", to="#other")
VERIFIED = heard(verified=True)
REPLAYED = heard(replay=True)
ALL = [IN_GENERAL, IN_OTHER, DIRECT, MENTION, MENTION_IN_OTHER, VERIFIED, REPLAYED]


@pytest.mark.parametrize(
    ("chosen", "wanted"),
    [
        (Filter(), [IN_GENERAL, IN_OTHER, DIRECT, MENTION, MENTION_IN_OTHER, VERIFIED]),
        (Filter(replay=True), ALL),
        (Filter(frozenset({"#general"})), [IN_GENERAL, MENTION, VERIFIED]),
        (Filter(frozenset({"#general"}), dms=True), [IN_GENERAL, DIRECT, MENTION, VERIFIED]),
        (Filter(frozenset({"#general"}), mentions=True), [MENTION]),
        (Filter(mentions=True), [MENTION, MENTION_IN_OTHER]),
        (Filter(dms=True), [DIRECT]),
        (Filter(dms=True, mentions=True), [DIRECT, MENTION, MENTION_IN_OTHER]),
        (Filter(verified=True), [VERIFIED]),
        (Filter(frozenset({"#other"}), verified=True), []),
    ],
)
def test_filters(chosen: Filter, wanted: list[Message]) -> None:
    assert [message for message in ALL if chosen.wants(message, ME)] == wanted


# -- mistakes that show where they are made ----------------------------------------------------------------


def test_a_handler_is_an_async_function() -> None:
    agent = Agent()

    def plain(message: Message) -> None:
        pass

    with pytest.raises(TypeError, match="async def plain"):
        agent.on_message("#general")(plain)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="async def plain"):
        agent.on_gap(plain)  # type: ignore[arg-type]


def test_a_handler_takes_one_argument() -> None:
    agent = Agent()

    async def forgot() -> None:
        pass

    with pytest.raises(TypeError, match="one argument"):
        agent.on_connect(forgot)  # type: ignore[arg-type]


async def test_methods_partials_and_callable_objects_are_handlers_too() -> None:
    called: list[tuple[str, Message]] = []

    class Bot:
        async def method(self, message: Message) -> None:
            called.append(("method", message))

        async def __call__(self, message: Message) -> None:
            called.append(("object", message))

    async def with_extra(extra: str, message: Message) -> None:
        called.append((extra, message))

    agent = Agent()
    agent.on_message()(Bot().method)
    agent.on_message()(Bot())
    agent.on_message()(functools.partial(with_extra, "partial"))
    assert agent._handlers.hear(IN_GENERAL, ME)
    await handlers_idle(agent._handlers)
    assert called == [("method", IN_GENERAL), ("object", IN_GENERAL), ("partial", IN_GENERAL)]


# -- running them ----------------------------------------------------------------------------------------


async def test_what_a_handler_raises_is_logged_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    handlers = Handlers()
    calls: list[str] = []

    async def broken(message: Message) -> None:
        calls.append(message.content)
        raise ZeroDivisionError

    handlers.for_messages.append(Registered(broken, Filter(), None))
    for content in ("one", "two"):
        assert handlers.hear(heard(content), ME)
    await handlers_idle(handlers)
    assert calls == ["one", "two"]
    failures = [record for record in caplog.records if record.name == "moothall.agent"]
    assert len(failures) == 2
    assert failures[0].exc_info is not None
    assert failures[0].exc_info[0] is ZeroDivisionError


@pytest.mark.parametrize("error", [FloorTaken("taken"), FloorLost("lost")])
async def test_leaving_the_floor_is_no_failure(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    handlers = Handlers()

    async def polite(message: Message) -> None:
        raise error

    handlers.for_messages.append(Registered(polite, Filter(), None))
    handlers.hear(IN_GENERAL, ME)
    await handlers_idle(handlers)
    assert [record for record in caplog.records if record.levelno >= logging.INFO] == []


async def test_handlers_run_side_by_side_and_are_cancelled_on_close() -> None:
    handlers = Handlers()
    both = asyncio.Event()
    running: list[str] = []
    cancelled: list[str] = []

    async def patient(message: Message) -> None:
        running.append(message.content)
        if len(running) == 2:
            both.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(message.content)
            raise

    handlers.for_messages.append(Registered(patient, Filter(), None))
    handlers.hear(heard("one"), ME)
    handlers.hear(heard("two"), ME)
    await both.wait()
    await handlers.close()
    assert sorted(cancelled) == ["one", "two"]


async def test_who_closes_from_inside_a_handler_is_not_cancelled_by_it() -> None:
    handlers = Handlers()
    closed = asyncio.Event()

    async def close(message: Message) -> None:
        await handlers.close()
        closed.set()

    handlers.for_messages.append(Registered(close, Filter(), None))
    handlers.hear(IN_GENERAL, ME)
    async with asyncio.timeout(5):
        await closed.wait()


async def test_a_flood_does_not_start_handlers_without_end() -> None:
    handlers = Handlers()
    started = 0

    async def slow(message: Message) -> None:
        nonlocal started
        started += 1
        await asyncio.Event().wait()

    handlers.for_messages.append(Registered(slow, Filter(), None))
    accepted = [handlers.hear(IN_GENERAL, ME) for _ in range(MAX_RUNNING + 5)]
    assert accepted == [True] * MAX_RUNNING + [False] * 5
    await asyncio.sleep(0)
    assert started == MAX_RUNNING
    await handlers.close()
    assert handlers.hear(IN_GENERAL, ME)
    await handlers.close()


async def test_long_messages_are_held_by_few_handlers_at_once() -> None:
    handlers = Handlers()

    async def slow(message: Message) -> None:
        await asyncio.Event().wait()

    handlers.for_messages.append(Registered(slow, Filter(), None))
    fields: dict[str, Any] = {"ts": 1, "from_": "@bob", "from_name": "bob", "to": "#general", "msg_id": "1-a"}
    payload = b"x" * (MAX_BYTES // 3 + 1)
    long = Message(Chat(content="long", **fields), payload, None)  # type: ignore[arg-type]  # nobody answers here
    assert [handlers.hear(long, ME) for _ in range(4)] == [True, True, False, False]
    await handlers.close()
    assert handlers.hear(long, ME)
    await handlers.close()


async def handlers_idle(handlers: Handlers) -> None:
    await asyncio.wait(handlers._tasks)


# -- more events than an agent can keep up with ----------------------------------------------------------------


class Slow:
    """A handler whose calls end when they are told to."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.end = asyncio.Event()

    async def __call__(self, what: Any) -> None:
        self.calls.append(what)
        await self.end.wait()


async def test_calls_of_event_handlers_are_bounded_and_the_rest_is_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handlers, slow = Handlers(), Slow()
    handlers.add("on_proposal", slow)
    for number in range(3 * MAX_RUNNING):
        handlers.tell("on_proposal", number)
    await asyncio.sleep(0)
    assert slow.calls == list(range(MAX_RUNNING))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "proposals() lists the offers" in caplog.text
    slow.end.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    handlers.tell("on_proposal", "again")
    await asyncio.sleep(0)
    assert slow.calls[-1] == "again"
    await handlers.close()


async def test_large_events_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers_module, "MAX_BYTES", 100)
    handlers, slow = Handlers(), Slow()
    handlers.add("on_proposal", slow)
    for number in range(10):
        handlers.tell("on_proposal", number, 40)
    await asyncio.sleep(0)
    assert slow.calls == [0, 1]
    slow.end.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    handlers.tell("on_proposal", "larger than all", 1000)
    await asyncio.sleep(0)
    assert slow.calls[-1] == "larger than all"
    await handlers.close()


async def test_messages_have_calls_of_their_own() -> None:
    """A flood of offers does not keep messages from an agent."""
    handlers, slow, reply = Handlers(), Slow(), Slow()
    handlers.add("on_proposal", slow)
    handlers.for_messages.append(Registered(reply, Filter(), None))
    for number in range(2 * MAX_RUNNING):
        handlers.tell("on_proposal", number)
    assert handlers.hear(IN_GENERAL, ME)
    await asyncio.sleep(0)
    assert reply.calls == [IN_GENERAL]
    await handlers.close()

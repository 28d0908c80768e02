"""Two calls at once never take each other's answer, with `ref` or without."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.client.incoming import decode
from moothall.client.requests import ByRef, OneAtATime, Replies, Request
from moothall.errors import ChannelNotFound, ConnectionLost, UnexpectedReply, UnknownRefusal
from moothall.wire.agentchat import client, server
from moothall.wire.agentchat.client import ClientMessage
from moothall.wire.agentchat.server import ServerMessage


class Line:
    """What was transmitted, and a way to answer."""

    def __init__(self) -> None:
        self.sent: list[ClientMessage] = []

    async def transmit(self, message: ClientMessage) -> None:
        self.sent.append(message)

    def types(self) -> list[str]:
        return [type(message).__name__ for message in self.sent]


def arrive(replies: Replies, **fields: Any) -> None:
    incoming = decode(json.dumps({"ts": 1, **fields}).encode())
    assert incoming is not None
    replies.offer(incoming)


def members(channel: str) -> Request:
    return Request(
        client.ListAgents(channel=channel),
        lambda body: isinstance(body, server.Agents) and body.channel == channel,
    )


def presence() -> Request:
    return Request(client.SetPresence(status="away"), lambda body: False, may_be_silent=True)


def ping() -> Request:
    return Request(client.Ping(), lambda body: isinstance(body, server.Pong))


async def begin(work: Coroutine[Any, Any, ServerMessage]) -> "asyncio.Task[ServerMessage]":
    task = asyncio.create_task(work)
    await turn_over()
    return task


async def turn_over() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def channel_of(reply: ServerMessage) -> str | None:
    assert isinstance(reply, server.Agents)
    return reply.channel


# -- with ref ------------------------------------------------------------------------------------------


async def test_replies_find_their_request_in_any_order() -> None:
    line = Line()
    replies = ByRef(line.transmit)
    tasks = [await begin(replies.ask(members("#general"))) for _ in range(3)]
    refs = [message.ref for message in line.sent]
    assert len(set(refs)) == 3
    for number, ref in reversed(list(enumerate(refs))):
        arrive(replies, type="AGENTS", channel=f"#{number}", list=[], ref=ref)
    assert [channel_of(await task) for task in tasks] == ["#0", "#1", "#2"]


async def test_an_error_concerns_only_its_request() -> None:
    line = Line()
    replies = ByRef(line.transmit)
    good = await begin(replies.ask(members("#a")))
    bad = await begin(replies.ask(members("#b")))
    arrive(replies, type="ERROR", code="CHANNEL_NOT_FOUND", message="no #b", ref=line.sent[1].ref)
    arrive(replies, type="ERROR", code="RATE_LIMITED", message="to nobody")
    arrive(replies, type="AGENTS", channel="#a", list=[], ref=line.sent[0].ref)
    assert channel_of(await good) == "#a"
    with pytest.raises(ChannelNotFound, match="no #b"):
        await bad


async def test_a_code_nobody_knows_is_kept() -> None:
    line = Line()
    replies = ByRef(line.transmit)
    task = await begin(replies.ask(members("#a")))
    arrive(replies, type="ERROR", code="SERVER_DECOMMISSIONED", message="moved", ref=line.sent[0].ref)
    with pytest.raises(UnknownRefusal, match="moved") as refused:
        await task
    assert refused.value.code == "SERVER_DECOMMISSIONED"


async def test_a_reply_that_cannot_be_read_is_an_error_not_a_silence() -> None:
    line = Line()
    replies = ByRef(line.transmit)
    task = await begin(replies.ask(members("#a")))
    arrive(replies, type="AGENTS", list="none", ref=line.sent[0].ref)
    with pytest.raises(UnexpectedReply):
        await task


async def test_who_gave_up_is_not_answered_and_nobody_else_is_instead() -> None:
    line = Line()
    replies = ByRef(line.transmit)
    gone = await begin(replies.ask(members("#a")))
    gone.cancel()
    await turn_over()
    task = await begin(replies.ask(members("#b")))
    arrive(replies, type="AGENTS", channel="#a", list=[], ref=line.sent[0].ref)
    assert not task.done()
    arrive(replies, type="AGENTS", channel="#b", list=[], ref=line.sent[1].ref)
    assert channel_of(await task) == "#b"


# -- one at a time -------------------------------------------------------------------------------------


async def test_the_second_request_waits_for_the_first() -> None:
    line = Line()
    replies = OneAtATime(line.transmit)
    first = await begin(replies.ask(members("#a")))
    second = await begin(replies.ask(members("#b")))
    assert line.types() == ["ListAgents"]
    arrive(replies, type="AGENTS", channel="#b", list=[])  # not what was asked
    assert not first.done()
    arrive(replies, type="AGENTS", channel="#a", list=[])
    assert channel_of(await first) == "#a"
    await turn_over()
    arrive(replies, type="AGENTS", channel="#b", list=[])
    assert channel_of(await second) == "#b"


async def test_an_error_is_the_answer_to_whoever_is_being_answered() -> None:
    line = Line()
    replies = OneAtATime(line.transmit)
    first = await begin(replies.ask(members("#a")))
    second = await begin(replies.ask(members("#b")))
    arrive(replies, type="ERROR", code="CHANNEL_NOT_FOUND", message="no #a")
    with pytest.raises(ChannelNotFound):
        await first
    await turn_over()
    arrive(replies, type="AGENTS", channel="#b", list=[])
    assert channel_of(await second) == "#b"


async def test_silent_success_is_known_by_the_pong() -> None:
    line = Line()
    replies = OneAtATime(line.transmit)
    task = await begin(replies.ask(presence()))
    assert line.types() == ["SetPresence", "Ping"]
    arrive(replies, type="MOTD_UPDATE", motd="something else")
    assert not task.done()
    arrive(replies, type="PONG")
    assert isinstance(await task, server.Pong)


async def test_an_error_before_the_pong_is_the_answer_and_the_pong_is_used_up() -> None:
    line = Line()
    replies = OneAtATime(line.transmit)
    task = await begin(replies.ask(presence()))
    following = await begin(replies.ask(ping()))
    arrive(replies, type="ERROR", code="CHANNEL_NOT_FOUND", message="no")
    arrive(replies, type="PONG")
    with pytest.raises(ChannelNotFound):
        await task
    await turn_over()
    assert not following.done()
    arrive(replies, type="PONG")
    assert isinstance(await following, server.Pong)


@pytest.mark.parametrize("abandoned", [members("#a"), presence(), ping()], ids=["asked", "silent", "ping"])
async def test_a_late_answer_is_not_taken_by_the_next_request(abandoned: Request) -> None:
    line = Line()
    replies = OneAtATime(line.transmit)
    gone = await begin(replies.ask(abandoned))
    gone.cancel()
    await turn_over()
    task = await begin(replies.ask(members("#b")))
    assert line.types()[-1] == "Ping"  # first it is waited until the line is quiet
    arrive(replies, type="ERROR", code="CHANNEL_NOT_FOUND", message="about #a")
    pings = line.types().count("Ping")
    for _ in range(pings):
        arrive(replies, type="PONG")
    await turn_over()
    assert not task.done()
    assert line.types()[-1] == "ListAgents"
    arrive(replies, type="AGENTS", channel="#b", list=[])
    assert channel_of(await task) == "#b"


# -- both ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ByRef, OneAtATime])
async def test_a_lost_connection_fails_everybody_with_an_error_of_their_own(
    kind: type[ByRef] | type[OneAtATime],
) -> None:
    line = Line()
    replies = kind(line.transmit)
    task = await begin(replies.ask(members("#a")))
    replies.fail(lambda: ConnectionLost("gone"))
    with pytest.raises(ConnectionLost):
        await task


@given(st.permutations(range(6)), st.sets(st.integers(0, 5)))
def test_whatever_the_order_and_whoever_gives_up_the_rest_get_their_own(
    order: list[int], gone: set[int]
) -> None:
    async def play() -> None:
        line = Line()
        replies = ByRef(line.transmit)
        tasks = [await begin(replies.ask(members("#general"))) for _ in range(6)]
        for number in gone:
            tasks[number].cancel()
        await turn_over()
        for number in order:
            arrive(replies, type="AGENTS", channel=f"#{number}", list=[], ref=line.sent[number].ref)
        for number in set(range(6)) - gone:
            assert channel_of(await tasks[number]) == f"#{number}"

    asyncio.run(play())

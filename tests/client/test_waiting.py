"""`agent.wait_for`: the next event of a kind."""

import asyncio
import gc
import warnings
from math import inf
from typing import Any

import pytest

from moothall import Agent, NotConnected, PrivateKey, ReplyTimeout, UsageError
from moothall.client.waiting import EVENTS
from moothall.errors import ConnectionLost, Kicked
from tests.client.conftest import OpenHall
from tests.client.door import Door
from tests.client.meeting import QUICKLY, Heard, listen, settled, soon
from tests.support.server import ADMIN_KEY

ALICE = PrivateKey(bytes(range(32)))
BOB = PrivateKey(bytes(range(1, 33)))


def test_every_decorator_is_an_event() -> None:
    decorators = {name.removeprefix("on_") for name in dir(Agent) if name.startswith("on_")}
    assert set(EVENTS) == decorators - {"event"}
    assert Agent.wait_for.__doc__ is not None
    for event in EVENTS:
        assert event in Agent.wait_for.__doc__


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("mesage", "perhaps you mean 'message'"),
        ("on_message", "perhaps you mean 'message'"),
        ("Message", "perhaps you mean 'message'"),
        ("joined", "perhaps you mean 'join'"),
        ("weather", "The events are arbiter_assigned, case, connect"),
        ("", "The events are"),
        ("FILE CHUNK", "types of the wire in capitals"),
    ],
)
async def test_an_event_that_does_not_exist(wrong: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        await Agent().wait_for(wrong)


async def test_a_check_is_a_plain_function() -> None:
    async def check(event: Any) -> bool:
        return True

    with pytest.raises(TypeError, match="cannot be an async function"):
        await Agent().wait_for("message", check)


async def test_the_first_event_that_passes_the_check(url: str) -> None:
    alice, bob = Agent("alice", channels="general"), Agent("bob", channels="general")
    heard = listen(alice)
    async with alice.connected(url), bob.connected(url):
        second = asyncio.create_task(alice.wait_for("message", lambda message: message.content == "two"))
        for content in ("one", "two", "three"):
            await bob.send("general", content)
        assert (await soon(second)).content == "two"
        await settled(alice)
        assert [message.content for message in heard.events] == [
            "one",
            "two",
            "three",
        ]  # handlers get them too


async def test_events_count_from_the_call_on(url: str) -> None:
    alice, bob = Agent("alice", channels="general"), Agent("bob", channels="general")
    async with alice.connected(url), bob.connected(url):
        waiting = alice.wait_for("message")
        await bob.send("general", "early")
        await settled(bob, alice)
        assert (await soon(waiting)).content == "early"


async def test_each_kind_of_event(url: str) -> None:
    alice, bob = Agent("alice", channels="general"), Agent("bob")
    connected = alice.wait_for("connect")
    async with alice.connected(url):
        assert (await soon(connected)).id == alice.address
        joined = alice.wait_for("join", lambda arrival: arrival.channel == "#general")
        async with bob.connected(url):
            await bob.join("general")
            assert (await soon(joined)).member.name == "bob"
            typing, nick, presence = (alice.wait_for(event) for event in ("typing", "nick", "presence"))
            frame = alice.wait_for("TYPING")
            anything = alice.wait_for("*")
            await bob.typing("general")
            assert (await soon(typing)).id == bob.address
            assert (await soon(frame))["from"] == bob.address
            assert (await soon(anything))["type"] == "TYPING"
            await bob.set_nick("bobby")
            assert (await soon(nick)).new == "bobby"
            await bob.set_presence("away")
            assert (await soon(presence)).presence == "away"
            left = alice.wait_for("leave")
        assert (await soon(left)).id == bob.address


async def test_deals(url: str) -> None:
    alice, bob = Agent("alice", identity=ALICE), Agent("bob", identity=BOB)
    async with alice.connected(url), bob.connected(url):
        offered = bob.wait_for("proposal")
        await alice.propose(bob.id, "paint the shed")
        proposal = await soon(offered)
        assert proposal.task == "paint the shed"
        changed = alice.wait_for("deal", lambda change: change.status == "accepted")
        await proposal.accept()
        assert (await soon(changed)).proposal.id == proposal.id


async def test_a_timeout_is_an_error_that_names_the_event(url: str) -> None:
    async with Agent().connected(url) as agent:
        with pytest.raises(ReplyTimeout, match=r"no 'message' event came within 0\.01 s"):
            await agent.wait_for("message", timeout=0.01)
        assert "on_message" not in agent._handlers.watches


async def test_what_the_check_raises_is_for_the_caller(url: str) -> None:
    def check(message: object) -> bool:
        raise TimeoutError("mine")

    alice, bob = Agent("alice", channels="general"), Agent("bob", channels="general")
    async with alice.connected(url), bob.connected(url):
        waiting = alice.wait_for("message", check)
        await bob.send("general", "hello")
        with pytest.raises(TimeoutError, match="mine"):
            await soon(waiting)
        assert alice.is_connected


async def test_a_wait_that_is_cancelled_leaves_nothing_behind(url: str) -> None:
    async with Agent().connected(url) as agent:
        waiting = asyncio.create_task(agent.wait_for("message", timeout=inf))
        await settled(agent)
        assert "on_message" in agent._handlers.watches
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert "on_message" not in agent._handlers.watches


async def test_a_wait_that_is_never_awaited_is_forgotten(url: str) -> None:
    async with Agent().connected(url) as agent:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it was never awaited
            agent.wait_for("message")  # type: ignore[unused-coroutine]
            gc.collect()
        assert "on_message" not in agent._handlers.watches


async def test_it_goes_on_through_a_reconnect(open_hall: OpenHall) -> None:
    async with open_hall() as app, Door(app.port.address[1]) as door:
        alice = Agent("alice", identity=ALICE, channels="general", backoff=QUICKLY)
        async with alice.connected(door.url), Agent("bob", channels="general").connected(app.url) as bob:
            waiting = alice.wait_for("message")
            lost, back = alice.wait_for("disconnect"), alice.wait_for("connect")
            door.drop()
            assert isinstance(await soon(lost), ConnectionLost)
            await soon(back)
            await bob.send("general", "still there?")
            assert (await soon(waiting)).content == "still there?"


async def test_it_ends_when_the_agent_leaves(url: str) -> None:
    agent = Agent()
    await agent.connect(url)
    waiting = agent.wait_for("message", timeout=inf)
    await agent.close()
    with pytest.raises(NotConnected, match="left the hall"):
        await soon(waiting)


async def test_it_ends_with_what_ended_the_stay(open_hall: OpenHall) -> None:
    async with open_hall(admin_key=ADMIN_KEY) as app:
        agent, operator = Agent("bob"), Agent("operator")
        endings: Heard[object] = Heard()
        agent.on_disconnect(endings)
        await agent.connect(app.url)
        async with operator.connected(app.url):
            message, end = agent.wait_for("message", timeout=inf), agent.wait_for("disconnect")
            await operator.admin(ADMIN_KEY).kick(agent.id)
            with pytest.raises(Kicked):
                await soon(message)
            assert isinstance(await soon(end), Kicked)
        await agent.close()
        assert len(endings.events) == 1

"""Every decorator works with and without parentheses."""

from typing import Any

import pytest

from moothall import Agent, Message
from moothall.client.handlers import Filter
from tests.client.meeting import Heard, settled

DECORATORS = [name for name in dir(Agent) if name.startswith("on_")]
OF_EVENTS = [name for name in DECORATORS if name not in ("on_message", "on_event")]


async def handler(event: Any) -> None:
    pass


def test_there_are_decorators() -> None:
    assert len(DECORATORS) > 12


@pytest.mark.parametrize("name", DECORATORS)
def test_with_and_without_parentheses(name: str) -> None:
    agent = Agent()
    decorator = getattr(agent, name)
    assert decorator(handler) is handler
    assert decorator()(handler) is handler
    if name == "on_message":
        everything = [registered.filter for registered in agent._handlers.for_messages]
        assert everything == [Filter(), Filter()]
    else:
        event = "*" if name == "on_event" else name
        assert agent._handlers._for_events == {event: [handler, handler]}


@pytest.mark.parametrize("name", DECORATORS)
@pytest.mark.parametrize("parentheses", [False, True])
def test_mistakes_show_where_they_are_made(name: str, parentheses: bool) -> None:
    def plain(event: Any) -> None:
        pass

    decorator = getattr(Agent(), name)
    with pytest.raises(TypeError, match=rf"@agent.{name} needs an async function: write `async def plain"):
        (decorator() if parentheses else decorator)(plain)


@pytest.mark.parametrize("name", OF_EVENTS)
def test_each_has_its_own_words(name: str) -> None:
    decorator = getattr(Agent, name)
    assert decorator.__name__ == name
    assert decorator.__doc__.startswith("The function gets")


async def test_without_parentheses_it_is_every_message_and_every_frame(url: str) -> None:
    alice, bob = Agent("alice", channels="general"), Agent("bob", channels="general")
    messages: Heard[Message] = Heard()
    frames: Heard[dict[str, Any]] = Heard()
    alice.on_message(messages)
    alice.on_event(frames)
    async with alice.connected(url), bob.connected(url):
        await bob.send("#general", "to all")
        await bob.send(alice.address, "to you")
        await settled(bob, alice)
        assert [message.content for message in messages.events] == ["to all", "to you"]
        assert {"AGENT_JOINED", "MSG", "PONG"} <= {frame["type"] for frame in frames.events}

"""What a wire that the hall does not know has to bring: a link that encodes, and a translation of what it says.

All rules of chat are the hall's: the telegraph below repeats none of them.
"""

import pytest

from moothall.errors import ChannelNotFound, InvalidMessage, RateLimited
from moothall.hall.gate import Gate
from moothall.hall.outside import Written
from moothall.hall.session import Agent
from moothall.settings.limits import Rate
from moothall.wire.agentchat.client import Msg
from moothall.wire.agentchat.server import Chat, ServerMessage
from moothall.wire.outgoing import Bundle, Outgoing
from tests.support.world import World, assert_refused, assert_sent


def telegram(message: ServerMessage) -> str | None:
    return f"{message.from_name} STOP {message.content.upper()} STOP" if isinstance(message, Chat) else None


class Telegraph:
    """A link of one agent, whose wire knows chat only."""

    unread = 0

    def __init__(self, world: World, name: str) -> None:
        self.gate = Gate(world.hall)
        self.received: list[str] = []
        session = self.gate.session(self, "192.0.2.9", "telegraph")
        self.agent = Agent(session, f"t-{name}", name, None, None)
        self.agent.via = "telegraph"
        self.gate.enter(self.agent, {}, make_way=lambda: self.close(1000, ""))
        self.gate.channels.find("#general").enter(self.agent)
        self.gate.arrived(self.agent)

    def put(self, outgoing: Outgoing | Bundle) -> None:
        if isinstance(outgoing, Outgoing) and (text := outgoing.encoded(telegram)) is not None:
            self.received.append(text)

    def send(self, to: str, text: str) -> None:
        self.gate.send(self.agent, Msg(to=to, content=text))

    def when_written(self, told: Written) -> None:
        told(True)

    def close(self, code: int, reason: str) -> None:
        self.gate.leave(self.agent)

    def pause(self) -> None: ...

    def resume(self) -> None: ...


def test_what_is_said_there_is_said_here() -> None:
    world = World()
    alice = world.agent("alice", join="#general")
    telegraph = Telegraph(world, "office")
    alice.read()
    telegraph.send("#general", "arriving monday")
    assert_sent(alice, "MSG", from_name="office", content="arriving monday", via="telegraph")
    world.advance(1)
    telegraph.send(alice.id, "only for you")
    assert_sent(alice, "MSG", to=alice.id, content="only for you", via="telegraph")


def test_what_is_said_here_is_encoded_once_for_all_of_them() -> None:
    world = World()
    alice = world.agent("alice", join="#general")
    first, second = Telegraph(world, "first"), Telegraph(world, "second")
    world.say(alice, "#general", "hello")
    assert first.received == ["alice STOP HELLO STOP"]
    assert first.received[0] is second.received[0]
    world.say(alice, first.agent.address, "psst")
    assert first.received[1:] == ["alice STOP PSST STOP"]
    assert len(second.received) == 1


def test_the_rules_of_chat_hold_there_too() -> None:
    world = World(rate_message=Rate(2, 10))
    alice = world.agent("alice", join="#general")
    telegraph = Telegraph(world, "office")
    alice.read()
    telegraph.send("#general", "my key is AKIAIOSFODNN7EXAMPLE")
    assert "AKIAIOSFODNN7EXAMPLE" not in assert_sent(alice, "MSG")["content"]
    with pytest.raises(InvalidMessage):
        telegraph.send("#general", "x" * 4097)
    with pytest.raises(ChannelNotFound):
        telegraph.send("#agents", "not a member")
    with pytest.raises(RateLimited):
        telegraph.send("#general", "the third within ten seconds")
    world.advance(10)
    telegraph.send("#general", "later")
    assert_sent(alice, "MSG", content="later")


def test_its_agents_come_and_go_like_others() -> None:
    world = World()
    seen: list[tuple[str, str]] = []
    world.hall.roster.on_arrival(lambda agent: seen.append(("came", agent.name)))
    world.hall.roster.on_departure(lambda agent: seen.append(("went", agent.name)))
    alice = world.agent("alice", join="#general")
    telegraph = Telegraph(world, "office")
    telegraph.close(1000, "")
    assert seen == [("came", "alice"), ("came", "office"), ("went", "office")]
    assert_sent(alice, "AGENT_LEFT", agent=telegraph.agent.address)


def test_files_for_a_wire_without_them_are_refused() -> None:
    world = World()
    alice = world.agent("alice")
    telegraph = Telegraph(world, "office")
    alice.read()
    world.send(alice, "FILE_CHUNK", to=telegraph.agent.address, content="x")
    assert_refused(alice, "INVALID_MSG", "on the telegraph wire, which carries no files")
    assert telegraph.received == []
    world.send(alice, "LIST_AGENTS", agents=[telegraph.agent.address])
    assert assert_sent(alice, "AGENTS")["list"][0]["via"] == "telegraph"

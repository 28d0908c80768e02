"""The same agent for scripts and notebooks."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from moothall import Agent, ChannelNotFound, ConnectionFailed, NotConnected, PrivateKey, SyncAgent
from moothall.client.background import SyncAdmin
from tests.support.server import ADMIN_KEY, running_hall

ALICE = PrivateKey(bytes(range(32)))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    environment = {"AGENTCHAT_ADMIN_KEY": ADMIN_KEY}
    with running_hall(tmp_path_factory.mktemp("hall"), "--no-limits", environment=environment) as hall:
        yield hall.url


def test_a_script(url: str) -> None:
    with SyncAgent("alice", identity=ALICE, url=url) as alice, SyncAgent("bob", url=url) as bob:
        assert alice.id == ALICE.public.agent_id()
        assert alice.address == f"@{alice.id}"
        assert (alice.name, alice.verified, alice.is_connected) == ("alice", True, True)
        assert (alice.server, alice.motd) == ("moothall", None)
        assert alice.identity is not None
        alice.create_channel("#script")
        assert len(bob.join("#script")) == 2
        assert bob.rooms == {"#script"}
        messages = alice.messages("#script", timeout=10)
        msg_id = bob.send("#script", "hello")
        message = next(messages)
        assert (message.id, message.content, message.sender_name) == (msg_id, "hello", "bob")
        answers = bob.messages("#script", timeout=10)
        message.reply("hello yourself")
        assert next(answers).in_reply_to == msg_id
        assert [line.content for line in bob.history("#script")] == ["hello", "hello yourself"]


def test_messages_end_after_some_quiet(url: str) -> None:
    with SyncAgent("alice", url=url) as alice:
        assert list(alice.messages("#general", timeout=0.05)) == []


def test_the_other_operations(url: str) -> None:
    with SyncAgent("alice", identity=ALICE, url=url) as alice, SyncAgent("bob", url=url) as bob:
        assert alice.ping() < 10
        assert alice.api_token().token
        assert any(channel.name == "#general" for channel in alice.channels())
        alice.join("#general")
        alice.typing("#general")
        alice.set_presence("away", "lunch")
        alice.set_nick("ally")
        assert any(member.presence == "away" for member in alice.members("#general"))
        assert alice.claim("1-a", "#general")
        assert bob.verify(alice.id) == ALICE.public
        alice.send_chunk(bob.address, "piece")
        alice.create_channel("#sync-private", invite_only=True)
        alice.invite("#sync-private", bob.id)
        bob.join("#sync-private")
        alice.leave("#general")
        with pytest.raises(ChannelNotFound):
            bob.join("#nowhere")
        admin = bob.admin(ADMIN_KEY)
        assert isinstance(admin, SyncAdmin)
        admin.set_motd("hello")
        admin.set_verified(alice.id, False)
        admin.ban("0123456789abcdef")
        admin.unban("0123456789abcdef")
        admin.kick(alice.id)


def test_outside_of_with_it_is_not_connected(url: str) -> None:
    agent = SyncAgent("alice")
    with pytest.raises(NotConnected):
        agent.ping()
    with pytest.raises(NotConnected):
        agent.messages()
    agent.connect(url)
    with pytest.raises(RuntimeError, match="already"):
        agent.connect(url)
    agent.close()
    agent.close()
    with pytest.raises(NotConnected):
        agent.send("#general", "hello")


def test_a_failed_start_leaves_no_thread_behind(unused_tcp_port: int) -> None:
    before = threading.active_count()
    with pytest.raises(ConnectionFailed):
        SyncAgent().connect(f"ws://127.0.0.1:{unused_tcp_port}")
    assert threading.active_count() == before


def test_both_agents_take_the_same_arguments(tmp_path: Path) -> None:
    import inspect

    theirs = inspect.signature(Agent.__init__).parameters
    ours = inspect.signature(SyncAgent.__init__).parameters
    assert list(theirs.values()) == list(ours.values())


def test_every_operation_is_there_without_await() -> None:
    import inspect

    lifecycle = {"run", "wait_closed", "connected"}
    for name, operation in inspect.getmembers(Agent, inspect.iscoroutinefunction):
        if not name.startswith("_") and name not in lifecycle:
            ours = inspect.signature(getattr(SyncAgent, name)).parameters
            assert list(ours) == list(inspect.signature(operation).parameters), name

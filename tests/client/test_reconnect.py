"""Staying through everything: lost connections, restarted halls, and the endings that are final."""

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from traceback import extract_tb, format_exception

import pytest

from moothall import (
    Agent,
    ChannelNotFound,
    ConnectionLost,
    Displaced,
    Gap,
    Kicked,
    Message,
    MoothallError,
    NotConnected,
    PrivateKey,
)
from moothall.client.events import Arrival, PresenceChange, Welcome
from moothall.client.pace import FramePace
from moothall.settings.limits import Rate
from tests.client.conftest import OpenHall
from tests.client.door import Door
from tests.client.meeting import AT_ONCE, QUICKLY, Heard, claimed, listen, settled, soon
from tests.support.agentchat import AgentChat
from tests.support.server import ADMIN_KEY, HallProcess, environment, running_hall

ALICE = PrivateKey(bytes(range(32)))


class Watch:
    """Everything that happens to an agent's connection."""

    def __init__(self, agent: Agent) -> None:
        self.connects: Heard[Welcome] = Heard()
        self.disconnects: Heard[MoothallError] = Heard()
        self.gaps: Heard[Gap] = Heard()
        agent.on_connect(self.connects)
        agent.on_disconnect(self.disconnects)
        agent.on_gap(self.gaps)


async def test_it_comes_back_with_everything_it_had(open_hall: OpenHall) -> None:
    alice = Agent("alice", identity=ALICE, channels=["#general"], backoff=QUICKLY)
    watch = Watch(alice)
    heard = listen(alice, "#general")
    async with (
        open_hall() as app,
        Door(app.port.address[1]) as door,
        alice.connected(door.url),
        Agent("bob", channels=["#general"]).connected(app.url) as bob,
    ):
        presences: Heard[PresenceChange] = Heard()
        bob.on_presence(presences)
        first = alice.id
        await alice.join("#agents")
        await alice.set_nick("ally")
        await alice.set_presence("busy", "thinking")
        await presences.next()
        await bob.send("#general", "before")
        await heard.next()
        await settled(alice)

        door.drop()
        assert isinstance(await watch.disconnects.next(), ConnectionLost)
        gap = await watch.gaps.next()
        assert gap.reason == "reconnected"
        assert gap.since <= gap.until
        assert gap.complete
        assert gap.missed == ()
        assert set(gap.channels) == {"#general", "#agents"}

        assert alice.id == first
        assert alice.rooms == {"#general", "#agents"}
        members = {member.id: member for member in await bob.members("#general")}
        member = members[alice.address]
        assert (member.name, member.presence, member.status_text) == ("ally", "busy", "thinking")
        await bob.send("#general", "after")
        assert (await heard.next()).content == "after"
        assert [welcome.id for welcome in watch.connects.events] == [alice.address] * 2


async def test_a_gap_shows_what_was_missed(open_hall: OpenHall) -> None:
    alice = Agent("alice", identity=ALICE, backoff=QUICKLY)
    watch = Watch(alice)
    live, all_of_it = listen(alice, "#general"), listen(alice, "#general", replay=True)
    async with (
        open_hall(buffer_size=4) as app,
        Door(app.port.address[1]) as door,
        alice.connected(door.url),
        Agent("bob", channels=["#general"]).connected(app.url) as bob,
    ):
        left: Heard[object] = Heard()
        bob.on_leave(left)
        await bob.send("#general", "one")
        await live.next()
        door.shut()
        await left.next()
        for content in ("two", "three"):
            await bob.send("#general", content)
        door.open()
        gap = await watch.gaps.next()
        assert [message.content for message in gap.missed] == ["two", "three"]
        assert gap.complete
        assert [message.content for message in live.events] == ["one"]
        await all_of_it.until(lambda message: message.content == "three")
        assert [message.content for message in all_of_it.events] == ["one", "two", "three"]

        door.shut()
        await left.next()
        for number in range(6):
            await bob.send("#general", str(number))
        door.open()
        gap = await watch.gaps.next()
        assert [message.content for message in gap.missed] == ["2", "3", "4", "5"]
        assert not gap.complete


async def test_an_answer_that_was_given_meanwhile_ends_its_own(open_hall: OpenHall) -> None:
    alice = Agent("alice", identity=ALICE, backoff=QUICKLY)
    started, stopped = asyncio.Event(), asyncio.Event()

    @alice.on_message("#general", floor=AT_ONCE)
    async def answer(message: Message) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with (
        open_hall() as app,
        Door(app.port.address[1]) as door,
        alice.connected(door.url),
        Agent("bob", channels=["#general"]).connected(app.url) as bob,
    ):
        left: Heard[object] = Heard()
        bob.on_leave(left)
        question = await bob.send("#general", "who knows?")
        await soon(started.wait())
        door.shut()
        await left.next()
        async with Agent("carol", channels=["#general"]).connected(app.url) as carol:
            await carol.send("#general", "I know", in_reply_to=question)
            assert not stopped.is_set()
            door.open()
            await soon(stopped.wait())


async def test_an_answer_that_waits_for_the_connection_is_not_sent_after_another_one(
    open_hall: OpenHall,
) -> None:
    alice = Agent("alice", identity=ALICE, backoff=QUICKLY)
    started, goes_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @alice.on_message("#general", floor=replace(AT_ONCE, settle=0))
    async def answer(message: Message) -> None:
        started.set()
        await goes_on.wait()
        try:
            await message.reply("so do I")
        finally:
            ended.set()

    async with (
        open_hall() as app,
        Door(app.port.address[1]) as door,
        alice.connected(door.url),
        Agent("bob").connected(app.url) as bob,
    ):
        heard = listen(bob, "#general")
        await bob.join("#general")
        left: Heard[object] = Heard()
        bob.on_leave(left)
        question = await bob.send("#general", "who knows?")
        await soon(started.wait())
        await claimed(alice)
        door.shut()
        await left.next()
        goes_on.set()
        async with Agent("carol", channels=["#general"]).connected(app.url) as carol:
            await carol.send("#general", "I know", in_reply_to=question)
            await carol.ping()
            assert not ended.is_set()
            door.open()
            await soon(ended.wait())
            await settled(alice, bob)
        assert [message.content for message in heard.events] == ["I know"]


async def test_what_the_agent_said_itself_is_not_missed(open_hall: OpenHall) -> None:
    """Without a key it comes back under another id, and still knows its own words."""
    alice = Agent("alice", channels=["#general"], backoff=QUICKLY)
    watch = Watch(alice)
    heard = listen(alice, "#general", replay=True)
    async with open_hall() as app, Door(app.port.address[1]) as door, alice.connected(door.url):
        first = alice.id
        await alice.send("#general", "my own words")
        door.drop()
        gap = await watch.gaps.next()
        assert alice.id != first
        assert gap.missed == ()
        assert gap.complete
        await settled(alice)
        assert heard.events == []


async def test_a_request_under_way_fails_and_one_made_meanwhile_waits(open_hall: OpenHall) -> None:
    alice = Agent("alice", channels=["#general"], backoff=QUICKLY)
    watch = Watch(alice)
    async with open_hall() as app, Door(app.port.address[1]) as door, alice.connected(door.url):
        under_way = asyncio.create_task(alice.ping())
        await asyncio.sleep(0)
        door.shut()
        with pytest.raises(ConnectionLost):
            await soon(under_way)
        await watch.disconnects.next()
        with pytest.raises(NotConnected, match=r"0\.05 s"):
            await alice.ping(timeout=0.05)
        waiting = asyncio.create_task(alice.send("#general", "when you are back"))
        await asyncio.sleep(0)
        door.open()
        assert await soon(waiting)


async def test_asking_for_history_while_reconnecting_does_not_keep_the_agent_away(
    open_hall: OpenHall,
) -> None:
    alice = Agent("alice", channels=["#general"], backoff=QUICKLY)
    watch = Watch(alice)
    async with open_hall() as app, Door(app.port.address[1]) as door, alice.connected(door.url):
        await alice.send("#general", "one")
        door.shut()
        await watch.disconnects.next()
        asked = [asyncio.create_task(alice.history("#general", timeout=60)) for _ in range(2)]
        await asyncio.sleep(0)
        door.open()
        await watch.gaps.next()
        for history in asked:
            assert [message.content for message in await soon(history)] == ["one"]


async def test_a_verification_under_way_fails_with_the_connection(open_hall: OpenHall) -> None:
    alice = Agent("alice", backoff=QUICKLY)
    async with (
        open_hall() as app,
        Door(app.port.address[1]) as door,
        alice.connected(door.url),
        await AgentChat.connect(app.url, "bob", ALICE) as bob,
    ):
        bob.key = None  # it keeps silent from here on
        verifying = asyncio.create_task(alice.verify(bob.agent_id))
        await bob.expect("VERIFY_REQUEST")
        await settled(alice)
        door.drop()
        with pytest.raises(ConnectionLost):
            await soon(verifying)


async def test_the_iterator_goes_on(open_hall: OpenHall) -> None:
    alice = Agent("alice", backoff=QUICKLY)
    watch = Watch(alice)
    async with (
        open_hall() as app,
        Door(app.port.address[1]) as door,
        alice.connected(door.url),
        Agent("bob", channels=["#general"]).connected(app.url) as bob,
    ):
        arrivals: Heard[Arrival] = Heard()
        bob.on_join(arrivals)
        messages = alice.messages("#general")
        first = asyncio.ensure_future(anext(messages))
        await arrivals.next()
        await bob.send("#general", "one")
        assert (await soon(first)).content == "one"
        door.drop()
        await watch.gaps.next()
        await bob.send("#general", "two")
        assert (await soon(anext(messages))).content == "two"


async def test_a_channel_that_is_gone_does_not_keep_the_agent_away(
    open_hall: OpenHall, caplog: pytest.LogCaptureFixture
) -> None:
    alice = Agent("alice", channels=["#general"], backoff=QUICKLY)
    watch = Watch(alice)
    async with open_hall() as app:
        port = app.port.address[1]
        await alice.connect(app.url)
        await alice.create_channel("#mine")
    await watch.disconnects.next()
    async with open_hall(port=port):
        gap = await watch.gaps.next()
        assert not gap.channels["#mine"].complete
        assert alice.rooms == {"#general"}
        with pytest.raises(ChannelNotFound):
            await alice.send("#mine", "anybody?")
        await alice.close()
    assert any("#mine" in record.getMessage() for record in caplog.records)


async def test_many_channels_are_entered_again_within_the_limits(
    open_hall: OpenHall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Coming back into 40 channels takes more frames than this hall takes at once."""
    monkeypatch.setattr("moothall.client.connection.FramePace", partial(FramePace, 25, 0.5))
    names = tuple(f"#room-{number}" for number in range(40))
    alice = Agent("alice", channels=names, backoff=QUICKLY)
    watch = Watch(alice)
    limits = {"no_limits": False, "rate_post_auth": Rate(30, 0.5), "default_channels": names}
    async with (
        open_hall(**limits) as app,
        Door(app.port.address[1]) as door,
        alice.connected(door.url),
    ):
        door.drop()
        gap = await watch.gaps.next()
        assert len(gap.channels) == 40
        assert gap.complete
        assert alice.rooms == set(names)


async def test_who_has_no_handler_for_gaps_reads_of_them_in_the_log(
    open_hall: OpenHall, caplog: pytest.LogCaptureFixture
) -> None:
    alice = Agent("alice", channels=["#general"], backoff=QUICKLY)
    connects: Heard[Welcome] = Heard()
    alice.on_connect(connects)
    async with (
        open_hall() as app,
        Door(app.port.address[1]) as door,
        alice.connected(door.url),
        Agent("bob", channels=["#general"]).connected(app.url) as bob,
    ):
        await connects.next()
        for _ in range(2):
            door.shut()
            await bob.send("#general", "is anybody there?")
            door.open()
            await connects.next()
    assert [record.message for record in caplog.records if "on_gap" in record.message] == [
        "messages may have been missed (reconnected): on_gap tells which"
    ]


async def test_handlers_can_speak_before_connecting_is_over(open_hall: OpenHall) -> None:
    """What was said before is replayed while the agent still joins its other channels."""
    async with open_hall() as app, Agent("bob", channels=["#general"]).connected(app.url) as bob:
        heard = listen(bob, "#general")
        await bob.send("#general", "before you came")
        alice = Agent("alice")

        @alice.on_message("#general", replay=True)
        async def answer(message: Message) -> None:
            await message.reply("better late than never")

        alice.on_message("#agents", "#discovery")(answer)
        async with alice.connected(app.url):
            assert (await heard.next()).content == "better late than never"


# -- endings ---------------------------------------------------------------------------------------------


async def test_a_takeover_that_has_to_wait_is_waited_for(open_hall: OpenHall) -> None:
    """The hall says how long it takes, which may be longer than the agent waits for other answers."""
    first, second = Agent("alice", identity=ALICE), Agent("alice", identity=ALICE, timeout=2.0)
    async with open_hall(takeover_delay=2.5) as app, first.connected(app.url), second.connected(app.url):
        with pytest.raises(Displaced):
            await soon(first.wait_closed())
        assert second.address == first.address
        await second.ping()


async def test_displaced_is_the_end_and_no_fight(open_hall: OpenHall) -> None:
    async with open_hall() as app:
        first = Agent("alice", identity=ALICE, backoff=QUICKLY)
        watch = Watch(first)
        messages = first.messages()
        await first.connect(app.url)
        async with Agent("alice", identity=ALICE).connected(app.url) as second:
            with pytest.raises(Displaced):
                await soon(first.wait_closed())
            with pytest.raises(Displaced):
                await soon(anext(messages))
            with pytest.raises(NotConnected) as refused:
                await first.ping()
            assert isinstance(refused.value.__cause__, Displaced)
            await first.close()
            assert isinstance(watch.disconnects.events[0], Displaced)
            assert len(watch.connects.events) == 1
            assert second.is_connected
            await second.ping()


async def test_banned_while_away_is_the_end(open_hall: OpenHall) -> None:
    alice = Agent("alice", identity=ALICE, backoff=QUICKLY)
    async with open_hall(admin_key="k") as app, Door(app.port.address[1]) as door:
        await alice.connect(door.url)
        async with Agent("op").connected(app.url) as operator:
            door.shut()
            await operator.admin("k").ban(alice.id)
            door.open()
        with pytest.raises(MoothallError, match="banned"):
            await soon(alice.wait_closed())


async def test_without_reconnect_a_lost_connection_is_the_end(open_hall: OpenHall) -> None:
    alice = Agent("alice", reconnect=False)
    async with open_hall() as app, Door(app.port.address[1]) as door:
        await alice.connect(door.url)
        door.drop()
        with pytest.raises(ConnectionLost):
            await soon(alice.wait_closed())
        with pytest.raises(NotConnected, match=r"not connected: the connection to .* was lost"):
            await alice.ping()


async def test_closing_while_reconnecting(unused_tcp_port: int, open_hall: OpenHall) -> None:
    alice = Agent("alice", backoff=QUICKLY)
    watch = Watch(alice)
    async with open_hall(port=unused_tcp_port) as app:
        await alice.connect(app.url)
    await watch.disconnects.next()
    await soon(alice.close())
    await soon(alice.wait_closed())
    assert not alice.is_connected


async def test_closing_from_a_handler(open_hall: OpenHall) -> None:
    async with open_hall() as app, Agent("bob", channels=["#general"]).connected(app.url) as bob:
        alice = Agent("alice")

        @alice.on_message("#general")
        async def leave(message: Message) -> None:
            await alice.close()

        await alice.connect(app.url)
        await bob.send("#general", "goodbye")
        await soon(alice.wait_closed())


# -- a real process, killed --------------------------------------------------------------------------------


def restart_on_the_same_port(hall: HallProcess) -> None:
    hall._flags = (*hall._flags, "--port", str(hall.port))
    hall.restart()


async def test_a_hall_that_is_killed_and_started_again(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--no-limits") as hall:
        alice = Agent("alice", identity=ALICE, channels=["#general"], backoff=QUICKLY)
        watch = Watch(alice)
        heard = listen(alice, "#general")
        async with alice.connected(hall.url):
            async with Agent("bob", channels=["#general"]).connected(hall.url) as bob:
                await bob.send("#general", "before")
                await heard.next()
            await asyncio.to_thread(hall.kill)
            assert isinstance(await watch.disconnects.next(), ConnectionLost)
            await asyncio.to_thread(restart_on_the_same_port, hall)
            gap = await watch.gaps.next()
            assert not gap.channels["#general"].complete  # the hall remembers nothing
            async with Agent("bob", channels=["#general"]).connected(hall.url) as bob:
                await bob.send("#general", "after")
                assert (await heard.next()).content == "after"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_run_ends_cleanly_on_a_signal(
    tmp_path: Path, open_hall: OpenHall, number: signal.Signals
) -> None:
    program = tmp_path / "bot.py"
    program.write_text(
        "import asyncio\n"
        "from moothall import Agent\n"
        "agent = Agent('bot', channels=['#general'])\n"
        "@agent.on_message()\n"
        "async def wait(message):\n"
        "    try:\n"
        "        await message.reply('waiting')\n"
        "        await asyncio.Event().wait()\n"
        "    finally:\n"
        "        print('tidied up', flush=True)\n"
        "agent.run()\n"
        "print('done', flush=True)\n"
    )
    async with open_hall() as app, Agent("observer").connected(app.url) as observer:
        arrivals: Heard[Arrival] = Heard()
        departures: Heard[object] = Heard()
        observer.on_join(arrivals)
        observer.on_leave(departures)
        heard = listen(observer, "#general")
        await observer.join("#general")
        bot = await asyncio.create_subprocess_exec(
            sys.executable,
            str(program),
            env={**os.environ, "AGENTCHAT_URL": app.url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        await arrivals.next()
        await observer.send("#general", "hello")
        assert (await heard.next()).content == "waiting"
        bot.send_signal(number)
        output, errors = await soon(bot.communicate())
        assert (output, bot.returncode) == (b"tidied up\ndone\n", 0)
        connected, left = errors.decode().splitlines()
        assert connected.startswith(f"connected to {app.url} as @")
        assert left == f"disconnected from {app.url}"
        await departures.next()


@pytest.mark.parametrize("logging_of_its_own", [False, True])
async def test_run_tells_of_connections_on_standard_error(
    tmp_path: Path, open_hall: OpenHall, logging_of_its_own: bool
) -> None:
    program = tmp_path / "bot.py"
    program.write_text(
        "import logging, sys\n"
        "from moothall import Agent, Backoff\n"
        + ("logging.basicConfig(level='INFO', format='own %(message)s')\n" if logging_of_its_own else "")
        + "Agent('bot', channels=['#general'], backoff=Backoff(0.01, 0.05)).run(sys.argv[1])\n"
    )
    async with (
        open_hall() as app,
        Door(app.port.address[1]) as door,
        Agent("observer", channels=["#general"]).connected(app.url) as observer,
    ):
        arrivals: Heard[Arrival] = Heard()
        observer.on_join(arrivals)
        bot = await asyncio.create_subprocess_exec(
            sys.executable, str(program), door.url, env=environment(), stderr=subprocess.PIPE
        )
        assert bot.stderr is not None
        lines = [(await soon(bot.stderr.readline())).decode()]
        await arrivals.next()
        door.drop()
        lines += [(await soon(bot.stderr.readline())).decode() for _ in range(2)]
        bot.send_signal(signal.SIGINT)
        _, rest = await soon(bot.communicate())
    own = "own " if logging_of_its_own else ""
    assert [line.startswith(f"{own}{how}") for line, how in zip(lines, STAGES, strict=True)] == [True] * 3
    assert rest.decode().endswith(f"{own}disconnected from {door.url}\n")


STAGES = ("connected to ws://", "disconnected: the connection to ws://", "reconnected to ws://")


async def test_run_inside_a_loop_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match="SyncAgent"):
        Agent().run()


def test_run_raises_what_ends_it(unused_tcp_port: int) -> None:
    with pytest.raises(MoothallError, match="moothall serve") as raised:
        Agent().run(f"ws://127.0.0.1:{unused_tcp_port}")
    assert_one_clean_traceback(raised.value)


async def test_run_raises_what_ends_a_stay(open_hall: OpenHall) -> None:
    async with open_hall(admin_key=ADMIN_KEY) as app:
        agent = Agent("bot", identity=PrivateKey(bytes(32)), reconnect=False)

        @agent.on_connect
        async def be_kicked(welcome: Welcome) -> None:
            await agent.admin(ADMIN_KEY).kick(agent.id)

        with pytest.raises(Kicked) as raised:
            await asyncio.to_thread(agent.run, app.url)
    assert_one_clean_traceback(raised.value)


def assert_one_clean_traceback(error: BaseException) -> None:
    """This test, `run`, and the error: nothing of what is inside."""
    shown = "".join(format_exception(error))
    assert shown.count("Traceback (most recent call last)") == 1
    assert "During handling" not in shown
    assert "direct cause" not in shown
    own = [frame for frame in extract_tb(error.__traceback__) if "/moothall/" in frame.filename]
    assert [frame.name for frame in own] == ["run", "run"]

"""`AsyncKeepClient`: answers, messages, and connections that come back."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.keep import AsyncKeepClient, Packet, aio, verify
from tests.keep.scripted import (
    ALICE,
    BEAT,
    PATIENCE,
    VECTORS,
    Call,
    Scripted,
    forged,
    from_bob,
    nothing,
    reply,
    scripted,
)
from tests.support.sockets import turn

BOBS_KEY = bytes.fromhex(VECTORS["keys"]["bob"]["public_key_hex"])


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted() as server:
        yield server


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back at once after a lost connection."""
    monkeypatch.setattr(aio, "FIRST_PAUSE", 0.001)


def client(server: Scripted, *, timeout: float = PATIENCE, reconnect: bool = True) -> AsyncKeepClient:
    return AsyncKeepClient("127.0.0.1", server.port, ALICE, timeout, "bot:alice", reconnect=reconnect)


async def next_packet(call: Call) -> Packet:
    return await asyncio.to_thread(call.next)


async def next_call(server: Scripted) -> Call:
    return await asyncio.to_thread(server.next_call)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not is_so():
            await turn()


async def test_the_server_answers(server: Scripted) -> None:
    async with client(server) as alice:
        answer = await alice.send("hello", fee=2)
        assert answer is not None
        assert answer.body == "done"
        packet = await next_packet(await next_call(server))
        assert verify(packet)
        assert (packet.src, packet.dst, packet.body, packet.fee) == ("bot:alice", "server", "hello", 2)
        assert await alice.send("hello", dst="bot:bob") is None


async def test_many_questions_at_once_get_their_own_answers() -> None:
    waiting: list[Packet] = []

    def backwards(packet: Packet) -> list[Packet]:
        waiting.append(packet)
        return [reply(each, each.body) for each in reversed(waiting)] if len(waiting) == 20 else []

    with scripted(backwards) as server:
        async with client(server) as alice:
            answers = await asyncio.gather(*(alice.send(str(number)) for number in range(20)))
    assert [answer.body for answer in answers if answer] == [str(number) for number in range(20)]


async def test_what_arrives_is_verified() -> None:
    with scripted(nothing) as server:
        async with client(server) as alice:
            error = Packet(typ=1, id="m-1", src="server", body="error:offline")
            (await next_call(server)).say(BEAT, forged("lies"), from_bob("truth", id="t", fee=7), error)
            messages = aiter(alice)
            first, second = await anext(messages), await anext(messages)
    assert (first.verified, first.public_key, first.error) == (True, BOBS_KEY, None)
    assert (first.src, first.dst, first.body, first.id) == ("bot:bob", "bot:alice", "truth", "t")
    assert (first.typ, first.fee, first.ttl, first.scar) == (0, 7, 60, b"")
    assert (second.verified, second.public_key, second.error, second.id) == (False, None, "offline", "m-1")


async def test_messages_end_with_the_connection(server: Scripted) -> None:
    async with client(server, reconnect=False) as alice:
        call = await next_call(server)
        call.say(from_bob("one"), from_bob("two"))
        call.hang_up()
        assert [message.body async for message in alice] == ["one", "two"]
        assert not alice.is_connected
        with pytest.raises(ConnectionError):
            await alice.send("hello")


async def test_messages_end_when_we_leave(server: Scripted) -> None:
    alice = client(server)
    await alice.connect()
    await alice.connect()

    async def bodies() -> list[str]:
        return [message.body async for message in alice]

    listening = asyncio.create_task(bodies())
    await asyncio.sleep(0)
    await alice.disconnect()
    await alice.disconnect()
    assert await listening == []
    await alice.connect()
    answer = await alice.send("again")
    assert answer is not None
    await alice.disconnect()


async def test_leaving_at_once(server: Scripted) -> None:
    async with client(server) as alice:
        pass
    assert not alice.is_connected


async def test_an_answer_goes_under_the_id_of_the_message(server: Scripted) -> None:
    async with client(server) as alice:
        call = await next_call(server)
        await alice.send("I am here too", src="bot:second")
        call.say(from_bob("q", id="q-1"), from_bob("q", dst="bot:second"), from_bob("q", dst="swarm:all"))
        messages = aiter(alice)
        for _ in range(3):
            await alice.reply(await anext(messages), "a")
        await next_packet(call)
        answers = [await next_packet(call) for _ in range(3)]
    assert [(answer.dst, answer.typ, answer.body) for answer in answers] == [("bot:bob", 1, "a")] * 3
    assert answers[0].id == "q-1"
    assert [answer.src for answer in answers] == ["bot:alice", "bot:second", "bot:alice"]


async def test_deliver_says_what_became_of_a_message() -> None:
    def answer(packet: Packet) -> list[Packet]:
        if packet.dst == "bot:bob":
            return [from_bob("later", dst=packet.src)] if packet.body == "answer" else []
        return [reply(packet, "done" if packet.dst == "server" else "error:offline")]

    with scripted(answer) as server:
        async with client(server) as alice:
            assert await alice.deliver("hi", "bot:bob") is None
            offline = await alice.deliver("hi", "bot:nobody")
            assert offline is not None
            assert offline.body == "error:offline"
            answered = await alice.deliver("answer", "bot:bob", wait=PATIENCE)
            assert answered is not None
            assert answered.body == "later"


async def test_silence_is_a_timeout() -> None:
    with scripted(nothing) as server:
        async with client(server, timeout=0.05) as alice:
            with pytest.raises(TimeoutError):
                await alice.send("hello")
            with pytest.raises(TimeoutError):
                await alice.deliver("hello", "bot:bob")
            call = await next_call(server)
            call.say(reply(await next_packet(call)), from_bob("news"))
            assert (await anext(aiter(alice))).body == "news"  # the late answer is none


async def test_discovery() -> None:
    with scripted(lambda packet: [reply(packet, '{"agents":["bot:alice"]}')]) as server:
        async with client(server) as alice:
            assert await alice.discover() == {"agents": ["bot:alice"]}
            assert await alice.discover_agents() == ["bot:alice"]


# connections that come back


async def test_a_lost_connection_comes_back_with_every_name(server: Scripted, soon: None) -> None:
    async with client(server) as alice:
        call = await next_call(server)
        await alice.send("one")
        await alice.send("two", src="bot:second", dst="bot:bob")
        await next_packet(call)
        await next_packet(call)
        call.hang_up()
        again = await next_call(server)
        hellos = [await next_packet(again), await next_packet(again)]
        assert [hello.src for hello in hellos] == ["bot:alice", "bot:second"]
        assert all(hello.dst == "server" and verify(hello) for hello in hellos)
        again.say(from_bob("welcome back"))
        assert (await anext(aiter(alice))).body == "welcome back"  # not the answers to the hellos
        assert alice.is_connected


async def test_whoever_waits_for_an_answer_hears_of_the_loss(soon: None) -> None:
    with scripted(nothing) as server:
        async with client(server) as alice:
            call = await next_call(server)
            question = asyncio.create_task(alice.send("hello"))
            message = asyncio.create_task(alice.deliver("hello", "bot:bob"))
            await next_packet(call)
            await next_packet(call)
            call.hang_up()
            for lost in (question, message):
                with pytest.raises(ConnectionError):
                    await lost


async def test_sending_waits_for_the_connection_to_come_back(server: Scripted, soon: None) -> None:
    async with client(server) as alice:
        (await next_call(server)).hang_up()
        await until(lambda: not alice.is_connected)
        answer = await alice.send("hello")
        assert answer is not None
        assert answer.body == "done"


async def test_whoever_waits_for_the_connection_hears_that_we_leave(server: Scripted) -> None:
    async with client(server) as alice:
        (await next_call(server)).hang_up()
        await until(lambda: not alice.is_connected)
        waiting = asyncio.create_task(alice.send("hello"))
        await asyncio.sleep(0)
        await alice.disconnect()
        with pytest.raises(ConnectionError):
            await waiting


async def test_it_tries_until_somebody_is_there(
    server: Scripted, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = 0
    really = asyncio.open_connection

    async def sometimes(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        nonlocal attempts
        attempts += 1
        if 1 < attempts < 5:
            raise ConnectionRefusedError
        return await really(host, port)

    monkeypatch.setattr(asyncio, "open_connection", sometimes)
    async with client(server):
        (await next_call(server)).hang_up()
        await next_call(server)
        assert attempts == 5


async def test_silence_of_a_connection_that_should_beat_is_a_loss(
    server: Scripted, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aio, "SILENCE", 0.02)
    async with client(server) as alice:
        await next_call(server)
        await alice.send("register me")
        await next_call(server)


async def test_a_name_that_is_refused_after_a_loss_is_told(
    server: Scripted, soon: None, caplog: pytest.LogCaptureFixture
) -> None:
    async with client(server) as alice:
        await alice.send("register me")
        call = await next_call(server)
        server.answer = lambda packet: [reply(packet, "error:revoked" if packet.body == "" else "done")]
        call.hang_up()
        await next_call(server)
        await alice.send("still there?")
    assert "error:revoked" in caplog.text


async def test_the_first_connection_is_the_callers_concern(server: Scripted) -> None:
    server.close()
    with pytest.raises(ConnectionRefusedError):
        await client(server).connect()
    with pytest.raises(ConnectionError):
        await client(server).send("hello")


async def test_nobody_on_any_address_of_a_name_is_connection_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(host: str, port: int) -> None:
        raise OSError("Multiple exceptions: [Errno 111] Connect call failed, [Errno 111] Connect call failed")

    monkeypatch.setattr(asyncio, "open_connection", refuse)
    with pytest.raises(ConnectionRefusedError):
        await AsyncKeepClient("localhost", 1).connect()


@pytest.mark.parametrize("nonsense", [b"\0\0\0\0", b"\0\0\0\4\xff\xff\xff\xff"])
async def test_nonsense_is_a_loss(server: Scripted, soon: None, nonsense: bytes) -> None:
    async with client(server):
        (await next_call(server)).say_bytes(nonsense)
        await next_call(server)


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=30))
def test_pauses_grow_and_are_never_the_same_for_all(draws: list[float]) -> None:
    numbers = iter(draws)
    found = list(islice(aio.pauses(lambda: next(numbers)), len(draws)))
    for place, pause in enumerate(found):
        span = min(aio.FIRST_PAUSE * 2**place, aio.LONGEST_PAUSE)
        assert span / 2 <= pause <= span


# room


async def test_a_server_is_left_to_wait_but_an_answer_never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aio, "MAX_NEWS", 3)
    with scripted() as server:
        async with client(server) as alice:
            call = await next_call(server)
            call.say(*(from_bob(str(number)) for number in range(20)))
            await until(lambda: len(alice._news) == 3)
            answer = await alice.send("are you there?")
            assert answer is not None
            heard = aiter(alice)
            assert [(await anext(heard)).body for _ in range(20)] == [str(number) for number in range(20)]


async def test_a_server_that_says_everything_but_the_answer_cannot_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aio, "MAX_NEWS", 3)
    monkeypatch.setattr(aio, "MOST_NEWS", 30)
    with scripted(nothing) as server:
        async with client(server) as alice:
            call = await next_call(server)
            question = asyncio.ensure_future(alice.send("are you there?"))
            await asyncio.sleep(0)
            call.say(*(from_bob(str(number)) for number in range(100)))
            await until(lambda: len(alice._news) == 30 and not alice._room.is_set())  # it reads no more
            question.cancel()
            heard = aiter(alice)
            assert [(await anext(heard)).body for _ in range(100)] == [str(number) for number in range(100)]

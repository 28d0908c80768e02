"""`KeepClient`: section 10 of the keep wire, and what section 15 asks of ours."""

import inspect
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from moothall.keep import KeepClient, Packet, verify
from moothall.keep.client import MAX_NEWS
from moothall.wire.keep.codec import encode
from moothall.wire.keep.frames import frame
from tests.keep.scripted import (
    ALICE,
    BEAT,
    PATIENCE,
    VECTORS,
    Scripted,
    forged,
    from_bob,
    nothing,
    reply,
    scripted,
)


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted() as server:
        yield server


def client(server: Scripted, timeout: float = PATIENCE) -> KeepClient:
    return KeepClient("127.0.0.1", server.port, ALICE, timeout, "bot:alice")


def heard(client: KeepClient, timeout: float = 0.05) -> list[str]:
    packets: list[Packet] = []
    client.listen(packets.append, timeout=timeout)
    return [packet.body for packet in packets]


# names and defaults


def test_names_and_defaults_are_those_of_the_published_sdk() -> None:
    def defaults(function: object) -> dict[str, object]:
        assert callable(function)
        parameters = inspect.signature(function).parameters.values()
        return {parameter.name: parameter.default for parameter in parameters if parameter.name != "self"}

    nothing = inspect.Parameter.empty
    assert defaults(KeepClient.__init__) == {
        "host": "localhost",
        "port": 9009,
        "private_key": None,
        "timeout": 10.0,
        "src": None,
    }
    assert defaults(KeepClient.send) == {
        "body": nothing,
        "src": None,
        "dst": "server",
        "typ": 0,
        "fee": 0,
        "ttl": 60,
        "msg_id": None,
        "scar": b"",
        "wait_reply": None,
    }
    assert defaults(KeepClient.listen) == {"callback": nothing, "timeout": None}
    assert defaults(KeepClient.discover) == {"query": "info"}
    assert defaults(KeepClient.cache_endpoint) == {"host": nothing, "port": nothing, "info": nothing}
    assert defaults(KeepClient.from_cache) == {"src": "bot:keep-client", "private_key": None, "timeout": 5.0}
    ensure = defaults(KeepClient.ensure_server)
    assert ensure.pop("docker_image", nothing) is not nothing
    assert ensure == {"host": "localhost", "port": 9009, "timeout": 30.0}
    plain = KeepClient()
    assert (plain.host, plain.port, plain.timeout, plain.src) == ("localhost", 9009, 10.0, "bot:keep-client")


def test_every_signed_packet_of_the_vectors_is_made_byte_for_byte(server: Scripted) -> None:
    for vector in VECTORS["packets"]:
        if vector["signer"] != "alice" or not vector["fields"].get("id"):
            continue
        fields = dict(vector["fields"])
        made = client(server)._packet(
            fields.get("body", ""),
            fields.get("src", ""),
            fields.get("dst", ""),
            typ=fields.get("typ", 0),
            fee=fields.get("fee", 0),
            ttl=fields.get("ttl", 0),
            msg_id=fields["id"],
            scar=bytes.fromhex(fields.get("scar", "")),
        )
        assert frame(encode(made)).hex() == vector["frame_hex"], vector["name"]


# one packet, one connection


def test_a_packet_for_the_server_is_answered(server: Scripted) -> None:
    answer = client(server).send("hello", scar=b"\0\1", fee=3)
    assert isinstance(answer, Packet)
    assert (answer.body, answer.src, answer.sig) == ("done", "server", b"")
    call = server.next_call()
    packet = call.next()
    assert verify(packet)
    assert (packet.src, packet.dst, packet.body, packet.ttl) == ("bot:alice", "server", "hello", 60)
    assert (packet.fee, packet.scar, packet.typ) == (3, b"\0\1", 0)
    assert packet.id == answer.id
    call.ended.get(timeout=PATIENCE)


def test_every_packet_has_an_id_of_its_own_unless_one_is_given(server: Scripted) -> None:
    sender = client(server)
    first, second = sender.send("a"), sender.send("b")
    assert first is not None
    assert second is not None
    assert first.id != second.id
    third = sender.send("c", msg_id="mine")
    assert third is not None
    assert third.id == "mine"


def test_without_a_connection_it_always_waits_and_an_agents_answer_is_returned() -> None:
    with scripted(lambda packet: [BEAT, from_bob("here", id="his own")]) as server:
        answer = client(server).send("anybody?", dst="bot:bob", wait_reply=False)
        assert answer is not None
        assert (answer.src, answer.body) == ("bot:bob", "here")


def test_a_message_that_nobody_answers_ends_in_a_timeout() -> None:
    with scripted(nothing) as server, pytest.raises(socket.timeout):
        client(server, timeout=0.1).send("hello", dst="bot:bob")


# the answer and nothing but the answer


def test_neither_a_heartbeat_nor_a_message_is_taken_for_the_answer() -> None:
    others = [BEAT, from_bob("hi"), Packet(typ=1, id="older", src="server", body="error:offline")]
    with scripted(lambda packet: [*others, reply(packet)]) as server, client(server) as alice:
        answer = alice.send("hello", wait_reply=True)
        assert answer is not None
        assert answer.body == "done"
        assert heard(alice) == ["hi", "error:offline"]


def test_a_signed_packet_is_never_the_servers_answer() -> None:
    with (
        scripted(lambda packet: [from_bob("done?", id=packet.id), reply(packet)]) as server,
        client(server) as alice,
    ):
        answer = alice.send("hello")
        assert answer is not None
        assert answer.body == "done"
        assert heard(alice) == ["done?"]


def test_an_agent_answers_under_the_id_or_by_its_name() -> None:
    def answer(packet: Packet) -> list[Packet]:
        stranger = from_bob("not me")
        return [stranger] if packet.dst == "bot:carol" else [from_bob("me", id="new")]

    with scripted(answer) as server, client(server, timeout=0.2) as alice:
        found = alice.send("who?", dst="bot:bob", wait_reply=True)
        assert found is not None
        assert found.body == "me"
        with pytest.raises(TimeoutError):
            alice.send("who?", dst="bot:carol", wait_reply=True)
        assert heard(alice) == ["not me"]
        someone = alice.send("who?", dst="nearest:weather", wait_reply=True)
        assert someone is not None
        assert someone.body == "me"


def test_a_forward_is_not_waited_for_and_its_error_comes_to_listen() -> None:
    def answer(packet: Packet) -> list[Packet]:
        return [reply(packet, "error:offline" if packet.dst == "bot:bob" else "done")]

    with scripted(answer) as server, client(server) as alice:
        assert alice.send("one", dst="bot:bob", msg_id="m-1") is None
        assert alice.send("two", dst="server", wait_reply=False) is None
        packets: list[Packet] = []
        alice.listen(packets.append, timeout=0.2)
        assert [packet.body for packet in packets] == ["error:offline", "done"]
        assert packets[0].id == "m-1"


def test_a_late_answer_surprises_nobody() -> None:
    with scripted(nothing) as server, client(server, timeout=0.05) as alice:
        call = server.next_call()
        with pytest.raises(TimeoutError):
            alice.send("hello")
        call.say(reply(call.next()), from_bob("news"))
        assert heard(alice) == ["news"]


def test_a_forged_packet_is_dropped() -> None:
    with scripted(nothing) as server, client(server) as alice:
        server.next_call().say(forged("lies"), from_bob("truth"))
        assert heard(alice) == ["truth"]


# deliver


def test_deliver_says_what_became_of_a_message() -> None:
    def answer(packet: Packet) -> list[Packet]:
        if packet.dst == "bot:bob":
            return [from_bob("later", dst=packet.src, id=packet.id)] if packet.body == "answer" else []
        return [reply(packet, "done" if packet.dst == "server" else "error:offline")]

    with scripted(answer) as server:
        alice = client(server)
        assert alice.deliver("hi", "bot:bob") is None
        offline = alice.deliver("hi", "bot:nobody")
        assert offline is not None
        assert offline.body == "error:offline"
        answered = alice.deliver("answer", "bot:bob", wait=PATIENCE)
        assert answered is not None
        assert answered.body == "later"
        with alice:
            assert alice.deliver("hi", "bot:bob", wait=0.01) is None
            assert heard(alice) == []


def test_deliver_is_not_sure_before_the_server_has_answered() -> None:
    with scripted(nothing) as server, pytest.raises(TimeoutError):
        client(server, timeout=0.05).deliver("hi", "bot:bob")


# listening


def test_listening_needs_a_connection() -> None:
    with pytest.raises(RuntimeError, match="connect"):
        KeepClient().listen(print)


def test_listening_ends_with_silence_or_with_the_connection(server: Scripted) -> None:
    with client(server, timeout=0.05) as alice:
        alice.listen(print)
        call = server.next_call()
        call.say(from_bob("last words"))
        call.hang_up()
        assert heard(alice, PATIENCE) == ["last words"]
        assert heard(alice, PATIENCE) == []


def test_a_heartbeat_is_no_message(server: Scripted) -> None:
    with client(server) as alice:
        call = server.next_call()
        call.say(BEAT, from_bob("hi"))
        assert heard(alice) == ["hi"]


def test_a_timeout_inside_a_frame_loses_nothing(server: Scripted) -> None:
    whole = frame(encode(from_bob("in two pieces")))
    with client(server) as alice:
        call = server.next_call()
        call.say_bytes(whole[:50])
        assert heard(alice) == []
        call.say_bytes(whole[50:])
        assert heard(alice) == ["in two pieces"]


def test_a_callback_may_ask_the_server_and_others_may_too(server: Scripted) -> None:
    with client(server) as alice, ThreadPoolExecutor(4) as pool:
        call = server.next_call()
        bodies: list[str] = []

        def ask(packet: Packet) -> None:
            answer = alice.send("and now?")
            assert answer is not None
            bodies.append(packet.body + answer.body)
            if len(bodies) == 3:
                call.hang_up()

        call.say(*(from_bob(str(number)) for number in range(2)))
        listening = pool.submit(alice.listen, ask, PATIENCE)
        answers = [pool.submit(alice.send, str(number), msg_id=f"id-{number}") for number in range(30)]
        for number, answer in enumerate(answers):
            found = answer.result(PATIENCE)
            assert found is not None
            assert found.id == f"id-{number}"
        call.say(from_bob("2"))
        listening.result(PATIENCE)
        assert bodies == ["0done", "1done", "2done"]


def test_disconnecting_wakes_whoever_listens(server: Scripted) -> None:
    alice = client(server)
    alice.connect()
    called = threading.Event()
    listening = threading.Thread(target=alice.listen, args=(lambda _: called.set(), PATIENCE))
    listening.start()
    server.next_call().say(from_bob("hi"))
    assert called.wait(PATIENCE)
    alice.disconnect()
    listening.join(PATIENCE / 2)
    assert not listening.is_alive()


def test_of_news_that_nobody_takes_the_oldest_go(server: Scripted) -> None:
    with client(server) as alice:
        call = server.next_call()
        call.say(*(Packet(typ=1, src="server", body=str(number)) for number in range(MAX_NEWS + 5)))
        alice.send("hello")
        assert heard(alice) == [str(number) for number in range(5, MAX_NEWS + 5)]


# the connection


def test_connecting_sends_nothing_and_twice_is_once(server: Scripted) -> None:
    alice = client(server)
    alice.connect()
    alice.connect()
    alice.send("first")
    assert server.next_call().next().body == "first"
    assert server.calls.empty()
    alice.disconnect()
    alice.disconnect()


def test_a_client_can_connect_again_after_the_server_went_away(server: Scripted) -> None:
    with client(server) as alice:
        server.next_call().hang_up()
        with pytest.raises(ConnectionError):
            alice.send("hello")
        alice.connect()
        answer = alice.send("back")
        assert answer is not None
        assert answer.body == "done"


def test_nobody_there_is_connection_refused(server: Scripted) -> None:
    server.close()
    with pytest.raises(ConnectionRefusedError):
        client(server).send("hello")
    with pytest.raises(ConnectionRefusedError):
        client(server).connect()


@pytest.mark.parametrize(
    "nonsense",
    [b"\0\0\0\0", b"\0\1\0\1", b"\xff\xff\xff\xff", b"\0\0\0\4\xff\xff\xff\xff"],
    ids=["no length", "too long", "far too long", "no packet"],
)
def test_what_is_no_frame_ends_the_connection(nonsense: bytes) -> None:
    with scripted(nothing) as server, client(server) as alice:
        server.next_call().say_bytes(frame(encode(from_bob("before"))) + nonsense)
        with pytest.raises(ConnectionError):
            alice.send("hello")
        assert heard(alice) == ["before"]


def test_a_server_that_hangs_up_instead_of_answering(server: Scripted) -> None:
    with scripted(nothing) as mute:
        alice = client(mute)
        threading.Thread(target=lambda: mute.next_call().hang_up()).start()
        with pytest.raises(ConnectionError):
            alice.send("hello")


def test_a_packet_that_is_too_large_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ValueError, match="more than a server takes"):
        KeepClient(port=1).send("x" * 65_536)
    with pytest.raises(ValueError, match="not between"):
        KeepClient(port=1).send("x", fee=-1)


def test_the_largest_packet_goes_through(server: Scripted) -> None:
    room = 65_536 - len(encode(client(server)._packet("", None, "server", msg_id="i"))) - 4
    answer = client(server).send("x" * room, msg_id="i")
    assert answer is not None
    assert len(encode(server.next_call().next())) == 65_536
    with pytest.raises(ValueError, match="1 more"):
        client(server).send("x" * (room + 1), msg_id="i")


# discovery


def test_discovery() -> None:
    def answer(packet: Packet) -> list[Packet]:
        known = {
            "discover:info": '{"agents_online":1,"uptime_sec":0,"version":"0.5.0"}',
            "discover:agents": '{"agents":["bot:alice"]}',
        }
        return [reply(packet, known.get(packet.dst, "error:unknown_discovery"))]

    with scripted(answer) as server:
        alice = client(server)
        assert alice.discover() == {"agents_online": 1, "uptime_sec": 0, "version": "0.5.0"}
        assert alice.discover_agents() == ["bot:alice"]
        with pytest.raises(json.JSONDecodeError):
            alice.discover("weather")
        with alice:
            assert alice.discover("agents") == {"agents": ["bot:alice"]}


def test_an_empty_src_stays_empty(server: Scripted) -> None:
    KeepClient("127.0.0.1", server.port, src="").send("who am I?")
    assert server.next_call().next().src == ""

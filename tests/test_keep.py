"""A real hall and real keep clients: every vector over the socket, and the examples of seed 004."""

import asyncio
import json
import socket
import ssl
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from moothall import Agent, __version__, keep
from moothall.identity import PrivateKey
from moothall.identity.signatures import verify
from moothall.wire.keep.codec import decode, encode, signing_bytes
from moothall.wire.keep.frames import frame
from moothall.wire.keep.packet import MAX_PACKET, Packet
from tests.gateways.test_tls import Papers, write_certificate, write_key
from tests.support.agentchat import AgentChat
from tests.support.deals import signed
from tests.support.keep import ALICE, BOB, CAROL, VECTORS, KeepSocket, keep_client
from tests.support.server import HallProcess, complaint, run_moothall, running_hall

CAROL_KEY = PrivateKey(b"c" * 32)
HEARTBEAT = bytes.fromhex(next(v["packet_hex"] for v in VECTORS["replies"] if v["name"] == "heartbeat"))


@pytest.fixture(scope="module")
def shared_hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    """For tests that leave nothing behind."""
    with running_hall(tmp_path_factory.mktemp("hall")) as hall:
        yield hall


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[HallProcess]:
    with running_hall(tmp_path) as hall:
        yield hall


@pytest.fixture
def alice(shared_hall: HallProcess) -> Iterator[KeepSocket]:
    with keep_client(shared_hall.keep_port) as client:
        yield client


@pytest.fixture
def bob(shared_hall: HallProcess) -> Iterator[KeepSocket]:
    with keep_client(shared_hall.keep_port, BOB, "bot:bob") as client:
        yield client


# -- vectors (keep wire 17) ----------------------------------------------------------------------------

ANSWERS = {
    "sdk defaults": "done",
    "dst empty": "done",
    "every field set": "done",
    "discover unknown": "error:unknown_discovery",
    "offline": "error:offline",
    "nearest is not implemented": "error:offline",
    "swarm is not implemented": "error:offline",
    "empty src": "done",
    "all fields default": "done",
    "largest integers": "done",
    "ttl zero": "done",
}


@pytest.mark.parametrize("vector", VECTORS["packets"], ids=lambda vector: vector["name"])
def test_every_packet_vector_is_answered_as_recorded(
    vector: dict[str, Any], shared_hall: HallProcess
) -> None:
    with (
        keep_client(shared_hall.keep_port) as client,
        keep_client(shared_hall.keep_port, BOB, "bot:bob") as bob,
    ):
        if vector["name"] in ("routed to bob", "reply from bob"):
            client.ask()
            bob.ask()
            sender, receiver = (client, bob) if vector["signer"] == "alice" else (bob, client)
            sender.send_bytes(bytes.fromhex(vector["frame_hex"]))
            assert receiver.receive_payload().hex() == vector["packet_hex"]
            sender.assert_nothing_waits()
            return
        client.send_bytes(bytes.fromhex(vector["frame_hex"]))
        reply = client.receive()
        assert (reply.typ, reply.src, reply.id) == (1, "server", vector["fields"].get("id", ""))
        assert reply == Packet(typ=1, id=reply.id, src="server", body=reply.body)
        if vector["name"] in ANSWERS:
            assert reply.body == ANSWERS[vector["name"]]
        else:
            recorded = next(v for v in VECTORS["replies"] if v["name"] == vector["name"])
            expected = json.loads(recorded["fields"]["body"])
            said = json.loads(reply.body)
            assert said.keys() == expected.keys()
            assert reply.body == json.dumps(said, separators=(",", ":"), sort_keys=True)


@pytest.mark.parametrize(
    "vector",
    [
        v
        for v in VECTORS["replies"]
        if v["name"] in ("done", "done without id", "offline", "unknown discovery")
    ],
    ids=lambda vector: vector["name"],
)
def test_replies_are_byte_for_byte_those_of_the_reference(vector: dict[str, Any], alice: KeepSocket) -> None:
    dst = {"offline": "bot:nobody", "unknown discovery": "discover:zzz"}.get(vector["name"], "server")
    alice.send(dst, id=vector["fields"].get("id", ""))
    assert alice.receive_payload().hex() == vector["packet_hex"]


def test_discovery_is_byte_for_byte_that_of_the_reference(hall: HallProcess) -> None:
    wanted = {v["name"]: v["fields"].get("body", "") for v in VECTORS["replies"]}
    with keep_client(hall.keep_port) as alice:
        assert alice.ask("discover:agents").body == wanted["discover agents"]
        for _ in range(5):
            alice.ask()
        alice.ask(scar=b"a memory")
        assert alice.ask("discover:stats").body == wanted["discover stats"]
        info = alice.ask("discover:info").body
        uptime = json.loads(info)["uptime_sec"]
        expected = wanted["discover info"].replace("0.5.0", __version__)
        assert info == expected.replace('"uptime_sec":0', f'"uptime_sec":{uptime}')
        alice.end()
        alice.assert_closed()
    odd = 'bot:<&>"\u2028é'
    with keep_client(hall.keep_port, src=odd) as alice:
        name = "discover agents with characters escaped by the reference"
        assert alice.ask("discover:agents").body == wanted[name]


@pytest.mark.parametrize("vector", VECTORS["negative"], ids=lambda vector: vector["name"])
def test_every_negative_vector_has_its_outcome(vector: dict[str, Any], alice: KeepSocket) -> None:
    alice.send_bytes(bytes.fromhex(vector["bytes_hex"]))
    if vector["expect"] == "close":
        alice.assert_closed()
    elif vector["expect"] == "silence":
        alice.assert_nothing_waits()
    else:
        assert alice.receive().body == vector["expect"]


# -- the table of destinations (seed 004, routing) -----------------------------------------------------


@pytest.mark.parametrize("dst", ["server", ""])
def test_the_server_answers_done(dst: str, alice: KeepSocket) -> None:
    assert alice.ask(dst, "your intent here").body == "done"


def test_discovery_tells_what_the_seed_says(hall: HallProcess) -> None:
    with keep_client(hall.keep_port) as alice:
        info = alice.discover("info")
        assert isinstance(info.pop("uptime_sec"), int)
        assert info == {"agents_online": 1, "version": __version__}
        assert alice.discover("agents") == {"agents": ["bot:alice"]}
        assert alice.discover("stats") == {"scar_exchanges": {}, "total_packets": 3}


def test_a_registered_agent_gets_the_original_packet_and_its_sender_nothing(
    alice: KeepSocket, bob: KeepSocket
) -> None:
    bob.ask(body="hello")
    sent = alice.send("bot:bob", "coordinate task", id="r-1", fee=7, ttl=60, scar=b"memory")
    assert bob.receive_payload() == encode(sent)
    alice.assert_nothing_waits()


def test_an_unknown_identity_is_offline(alice: KeepSocket) -> None:
    reply = alice.ask("bot:nobody", id="o-1")
    assert (reply.body, reply.id) == ("error:offline", "o-1")


@pytest.mark.parametrize(
    "dst", ["Server", "server ", "discover", "nearest:weather", "swarm:planner", "#none"]
)
def test_what_is_not_there_is_offline(dst: str, alice: KeepSocket) -> None:
    assert alice.ask(dst).body == "error:offline"


def test_unknown_fields_travel_behind_the_canonical_ones(alice: KeepSocket, bob: KeepSocket) -> None:
    bob.ask()
    packet = ALICE.packet(src="bot:alice", dst="bot:bob", body="hi")
    plain = encode(packet)
    alice.send_bytes((len(plain) + 4).to_bytes(4, "big") + b"\x5a\x02zz" + plain)
    assert bob.receive_payload() == plain + b"\x5a\x02zz"


# -- connections and identities (keep wire 1, 5) -------------------------------------------------------


def test_the_largest_packet_passes(alice: KeepSocket, bob: KeepSocket) -> None:
    bob.ask()
    empty = len(encode(ALICE.packet(src="bot:alice", dst="bot:bob", body="x" * 20_000)))
    body = "x" * (20_000 + MAX_PACKET - empty)
    assert len(encode(alice.send("bot:bob", body))) == MAX_PACKET
    assert bob.receive().body == body


def test_answers_come_in_the_order_of_the_questions(alice: KeepSocket) -> None:
    for number in range(300):
        alice.send(id=str(number))
    assert [alice.receive().id for _ in range(300)] == [str(number) for number in range(300)]


def test_who_says_no_more_still_gets_its_answers(alice: KeepSocket) -> None:
    for number in range(20):
        alice.send(id=str(number))
    alice.end()
    assert [alice.receive().id for _ in range(20)] == [str(number) for number in range(20)]
    alice.assert_closed()


def test_the_last_to_sign_has_the_identity(shared_hall: HallProcess, alice: KeepSocket) -> None:
    alice.ask()
    with keep_client(shared_hall.keep_port, BOB, "bot:alice") as other:
        assert other.ask().body == "done"
        alice.assert_closed()
        assert other.discover("agents")["agents"].count("bot:alice") == 1


def test_a_connection_has_all_identities_it_signed_with_and_frees_all(hall: HallProcess) -> None:
    with keep_client(hall.keep_port, BOB, "bot:bob") as bob:
        with keep_client(hall.keep_port) as alice:
            for name in ("bot:m1", "bot:m2", "human:m3"):
                alice.ask(src=name)
            assert bob.discover("agents") == {"agents": ["bot:bob", "bot:m1", "bot:m2", "human:m3"]}
            for name in ("bot:m1", "human:m3"):
                bob.send(name, "hi")
                assert alice.receive().dst == name
            alice.end()
            alice.assert_closed()
        assert bob.discover("agents") == {"agents": ["bot:bob"]}
        assert bob.ask("bot:m1").body == "error:offline"


def test_an_agent_may_write_to_itself(alice: KeepSocket) -> None:
    assert alice.ask("bot:alice", "note").body == "note"


def test_identities_of_agents_on_the_websocket_are_not_to_be_had(alice: KeepSocket) -> None:
    assert alice.ask(src="agent:abc").body == "error:reserved_identity"


def test_a_pinned_identity_belongs_to_its_first_key_also_after_a_restart(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--keep-pin") as hall:
        with keep_client(hall.keep_port) as alice:
            assert alice.ask().body == "done"
            with keep_client(hall.keep_port, BOB, "bot:alice") as thief:
                assert thief.ask(id="t").body == "error:pinned"
            assert alice.ask().body == "done"
        assert hall.stop() == 0
        hall.restart()
        with keep_client(hall.keep_port, BOB, "bot:alice") as thief:
            assert thief.ask(id="t").body == "error:pinned"
        with keep_client(hall.keep_port) as alice:
            assert alice.ask().body == "done"


async def test_no_stranger_takes_a_pinned_identity_with_what_the_hall_passed_on(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--keep-pin") as hall:
        async with await AgentChat.connect(hall.url, "carol", CAROL_KEY) as carol:
            await carol.join("#general")
            with keep_client(hall.keep_port, BOB, "bot:bob") as bob:
                assert bob.ask().body == "done"
                with keep_client(hall.keep_port) as alice:
                    assert alice.ask().body == "done"
                    alice.send("bot:bob", "to bob")
                    alice.send("#general", "to all")
                    packets = [bob.receive_payload(), b64decode((await carol.answer("MSG"))["packet"])]
                    for payload in packets:
                        with keep_client(hall.keep_port) as thief:
                            thief.send_bytes(frame(payload))
                            assert thief.receive().body == "error:register_first"
                    alice.assert_nothing_waits()
                await carol.answer("AGENT_LEFT")
                for payload in packets:
                    with keep_client(hall.keep_port) as thief:
                        thief.send_bytes(frame(payload))
                        assert thief.receive().body == "error:register_first"
                        assert bob.ask("bot:alice", "is it you?").body == "error:offline"


def test_the_same_packet_counts_once_in_the_replay_window(tmp_path: Path) -> None:
    with (
        running_hall(tmp_path, "--set", "keep_replay_window=60") as hall,
        keep_client(hall.keep_port) as alice,
    ):
        alice.send(id="once")
        alice.send(id="once")
        alice.send(id="twice")
        assert [alice.receive().id, alice.receive().id] == ["once", "twice"]


def test_heartbeats_come_to_those_who_registered_and_to_nobody_else(tmp_path: Path) -> None:
    with (
        running_hall(tmp_path, "--set", "keep_heartbeat=0.05") as hall,
        keep_client(hall.keep_port) as alice,
        keep_client(hall.keep_port, src="") as nobody,
    ):
        assert nobody.ask().body == "done"
        alice.ask()
        assert alice.receive_payload() == alice.receive_payload() == HEARTBEAT
        nobody.assert_nothing_waits()


def test_a_list_of_agents_that_does_not_fit_is_cut(hall: HallProcess) -> None:
    with keep_client(hall.keep_port) as alice:
        for number in range(200):
            alice.ask(src=f"bot:{number:03}{'x' * 400}")
        agents = alice.discover("agents")["agents"]
        assert agents == sorted(agents)
        assert 100 < len(agents) < 201


def test_scars_are_listed_by_size_and_hash(hall: HallProcess) -> None:
    with keep_client(hall.keep_port) as alice:
        alice.ask(scar=b"abc")
        digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        assert alice.discover("scars") == {"scars": {"bot:alice": [{"sha256": digest, "size": 3}]}}
        assert alice.discover("stats")["scar_exchanges"] == {"bot:alice": 1}


def test_the_port_speaks_no_http(alice: KeepSocket) -> None:
    alice.send_bytes(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    alice.assert_closed()


def test_a_swarm_may_cost_a_fee(tmp_path: Path) -> None:
    with (
        running_hall(tmp_path, "--set", "keep_swarm_fee=10") as hall,
        keep_client(hall.keep_port) as alice,
        keep_client(hall.keep_port, BOB, "bot:planner") as bob,
    ):
        bob.ask()
        assert alice.ask("swarm:planner", fee=9).body == "error:fee_too_low"
        alice.send("swarm:planner", "all hands", fee=10)
        assert bob.receive().body == "all hands"


def test_nearest_and_swarm_find_agents_by_name(hall: HallProcess) -> None:
    with (
        keep_client(hall.keep_port) as alice,
        keep_client(hall.keep_port, BOB, "bot:weather") as bob,
        keep_client(hall.keep_port, CAROL, "human:weather") as carol,
    ):
        alice.ask()
        bob.ask()
        carol.ask()
        alice.send("nearest:weather", "one of you")
        alice.send("swarm:weather", "both of you")
        alice.assert_nothing_waits()
        bob.end()
        carol.end()
        heard = [_everything(bob), _everything(carol)]
        assert sorted(heard) == [["both of you"], ["one of you", "both of you"]]


def _everything(client: KeepSocket) -> list[str]:
    bodies = []
    while True:
        try:
            bodies.append(client.receive().body)
        except ConnectionError:
            return bodies


# -- two wires, one hall -------------------------------------------------------------------------------


async def test_an_agent_of_each_kind_talk_to_each_other(hall: HallProcess) -> None:
    async with await AgentChat.connect(hall.url, "carol", CAROL_KEY) as carol:
        await carol.send(type="JOIN", channel="#keep")
        await carol.answer("JOINED")
        with keep_client(hall.keep_port) as alice:
            assert alice.discover("agents") == {"agents": [f"agent:{carol.agent_id[1:]}", "bot:alice"]}
            arrived = await carol.answer("AGENT_JOINED")
            assert (arrived["name"], arrived["verified"]) == ("alice", False)

            await carol.send(type="MSG", to=arrived["agent"], content="what is the weather?")
            question = await asyncio.to_thread(alice.receive)
            assert (question.src, question.body) == (f"agent:{carol.agent_id[1:]}", "what is the weather?")
            about = await asyncio.to_thread(alice.discover, "hall")
            assert question.pk.hex() == about["pk"]
            assert verify(question.pk, signing_bytes(question), question.sig)

            sent = alice.send(question.src, "rain", id=question.id)
            answer = await carol.answer("MSG")
            assert (answer["content"], answer["from"], answer["via"]) == ("rain", arrived["agent"], "keep")
            packet = decode(b64decode(answer["packet"]))
            assert packet == sent
            assert verify(packet.pk, signing_bytes(packet), packet.sig)

            alice.end()
            alice.assert_closed()
        assert (await carol.answer("AGENT_LEFT"))["agent"] == arrived["agent"]


async def test_nearest_is_the_best_rated_agent_that_offers_the_skill_on_whatever_wire(
    hall: HallProcess,
) -> None:
    """Skills and ratings are those of the market: a deal makes the second of two painters the nearer one."""
    keys = {"dora": PrivateKey(b"d" * 32), "emil": PrivateKey(b"e" * 32)}
    async with (
        await AgentChat.connect(hall.url, "dora", keys["dora"]) as dora,
        await AgentChat.connect(hall.url, "emil", keys["emil"]) as emil,
        await AgentChat.connect(hall.url, "carol", CAROL_KEY) as carol,
    ):
        for painter, key in ((dora, keys["dora"]), (emil, keys["emil"])):
            fields = signed(key, "REGISTER_SKILLS", skills=[{"capability": "Painting"}])
            await painter.send(type="REGISTER_SKILLS", **fields)
            await painter.answer("SKILLS_REGISTERED")
        offer = signed(CAROL_KEY, "PROPOSAL", to=emil.agent_id, task="paint")
        await carol.send(type="PROPOSAL", **offer)
        deal = (await emil.answer("PROPOSAL"))["id"]
        for step, status in (("ACCEPT", "accepted"), ("COMPLETE", "completed")):
            await emil.send(type=step, **signed(keys["emil"], step, proposal_id=deal))
            assert (await emil.answer(step))["status"] == status
        with keep_client(hall.keep_port) as alice:
            alice.send("nearest:painting", "for one")
            alice.send("nearest:paint", "for none", id="part")
            refused = await asyncio.to_thread(alice.receive)
            assert (refused.id, refused.body) == ("part", "error:offline"), "a skill is meant whole"
            assert (await emil.answer("MSG"))["content"] == "for one"
            await dora.settle()
            assert dora.pending("MSG") == []


async def test_the_sdk_tells_what_came_over_and_how_to_check_it(hall: HallProcess) -> None:
    async with Agent("carol").connected(hall.url) as carol:
        heard = asyncio.ensure_future(anext(aiter(carol.messages(dms=True))))
        with keep_client(hall.keep_port) as alice:
            sent = alice.send(f"agent:{carol.id}", "rain")
            message = await heard
    assert (message.via, message.content, message.verified) == ("keep", "rain", False)
    assert message.packet is not None
    assert decode(message.packet) == sent
    assert keep.verify(decode(message.packet))


async def test_an_ephemeral_client_gets_the_answer_of_an_agent_as_its_reply(hall: HallProcess) -> None:
    """What the reference's SDK returns from `send` is the next frame that arrives (keep wire 10)."""
    async with await AgentChat.connect(hall.url, "carol", CAROL_KEY) as carol:
        with keep_client(hall.keep_port) as alice:
            reply = asyncio.create_task(asyncio.to_thread(alice.ask, f"agent:{carol.agent_id[1:]}", "ping"))
            asked = await carol.answer("MSG")
            await carol.send(type="MSG", to=asked["from"], content="pong")
            assert (await reply).body == "pong"


async def test_metrics_tell_of_keep_and_never_of_bodies(hall: HallProcess) -> None:
    assert "moothall_channels 3.0" in (await hall.get("/metrics"))[2]
    with keep_client(hall.keep_port) as alice, keep_client(hall.keep_port, BOB, "bot:bob") as bob:
        bob.ask()
        alice.send("bot:bob", "a secret")
        assert bob.receive().body == "a secret"
        alice.send_bytes(bytes.fromhex(VECTORS["negative"][0]["bytes_hex"]))
        alice.assert_nothing_waits()
        _, _, text = await hall.get("/metrics")
        assert "moothall_channels 4.0" in text  # with #keep, which is hidden while nobody is in it
    assert 'moothall_connections{tier="anonymous",wire="keep"} 2.0' in text
    assert "moothall_keep_packets_total 3.0" in text
    assert "moothall_keep_forwarded_total 1.0" in text
    assert 'moothall_keep_dropped_total{reason="unsigned"} 1.0' in text
    assert hall.stop() == 0
    assert "a secret" not in hall.stderr.text


# -- the port ------------------------------------------------------------------------------------------


def test_a_hall_without_keep_opens_no_port_and_no_channel(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--no-keep") as hall:
        assert hall.keep_port == 0
        assert "keep" not in hall.stdout.text
        assert (hall.data_dir / "hall-key.pem").exists()  # CHALLENGE names it, and it signs receipts


def test_a_keep_port_that_is_taken_is_said_and_the_hall_does_not_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = complaint(run_moothall(tmp_path, "serve", "--port", "0", "--keep-port", str(port)))
    assert f"127.0.0.1:{port} for keep clients" in said
    assert "--no-keep" in said


@pytest.mark.parametrize(
    ("setting", "word"),
    [("keep_channel=keep", "#keep"), ("keep_tls=true", "--cert"), ("keep_heartbeat=0", "more than 0")],
)
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, setting: str, word: str) -> None:
    assert word in complaint(run_moothall(tmp_path, "serve", "--port", "0", "--set", setting))


def test_the_halls_key_stays_the_same_and_its_own(tmp_path: Path) -> None:
    keys = []
    for _ in range(2):
        with running_hall(tmp_path) as hall, keep_client(hall.keep_port) as alice:
            keys.append(alice.discover("hall")["pk"])
            assert (hall.data_dir / "hall.db").stat().st_mode & 0o777 == 0o600
    assert keys[0] == keys[1]


def test_keep_over_tls(tmp_path: Path) -> None:
    papers = Papers(tmp_path / "cert.pem", tmp_path / "key.pem")
    write_certificate(papers.cert, write_key(papers.key))
    flags = ("--cert", str(papers.cert), "--key", str(papers.key), "--set", "keep_tls=true")
    with running_hall(tmp_path, *flags) as hall:
        plain = socket.create_connection(("127.0.0.1", hall.keep_port), timeout=15)
        with papers.trusted().wrap_socket(plain, server_hostname="127.0.0.1") as secure:
            packet = ALICE.packet(src="bot:alice", dst="server", id="t")
            secure.sendall(frame(encode(packet)))
            size = int.from_bytes(secure.recv(4), "big")
            assert decode(secure.recv(size)).body == "done"


def test_over_tls_too_whoever_sends_and_closes_at_once_has_said_all(tmp_path: Path) -> None:
    """TLS knows no half close: the line is gone before the last packets are looked at (keep wire 1)."""
    papers = Papers(tmp_path / "cert.pem", tmp_path / "key.pem")
    write_certificate(papers.cert, write_key(papers.key))
    flags = ("--cert", str(papers.cert), "--key", str(papers.key), "--set", "keep_tls=true")

    def connected(port: int) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", port), timeout=15)
        return papers.trusted().wrap_socket(plain, server_hostname="127.0.0.1")

    with (
        running_hall(tmp_path, *flags) as hall,
        connected(hall.keep_port) as listener,
        listener.makefile("rb") as stream,
    ):
        listener.sendall(frame(encode(BOB.packet(src="bot:bob", dst="server", id="here"))))
        assert read_packet(stream).body == "done"
        with connected(hall.keep_port) as sender:
            packets = [ALICE.packet(src="bot:alice", dst="bot:bob", id=str(number)) for number in range(300)]
            sender.sendall(b"".join(frame(encode(packet)) for packet in packets))
            sender.unwrap()  # without it the kernel resets the line, because of tickets nobody reads
        assert [read_packet(stream).id for _ in packets] == [packet.id for packet in packets]


def read_packet(stream: BinaryIO) -> Packet:
    return decode(stream.read(int.from_bytes(stream.read(4), "big")))

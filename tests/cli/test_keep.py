import json
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from typer.testing import CliRunner, Result

from moothall.cli.main import app
from moothall.keep import Packet, key_from_file, verify
from tests.keep.scripted import PATIENCE, Scripted, from_bob, nothing, reply, scripted

INFO = '{"agents_online":1,"uptime_sec":0,"version":"0.5.0"}'


def as_a_server(packet: Packet) -> list[Packet]:
    if packet.dst == "bot:bob":
        return [from_bob("pong\x1b[2J", dst=packet.src)] if packet.body == "ping" else []
    known = {
        "server": "done",
        "discover:info": INFO,
        "discover:agents": '{"agents":["bot:bob","bot:\\u001b[2Jeve"]}',
        "discover:odd": "text",
        "discover:nothing": "error:unknown_discovery",
        "discover:deep": "[" * 60_000,
    }
    if packet.src.startswith("agent:"):
        return [reply(packet, "error:reserved_identity")]
    return [reply(packet, known.get(packet.dst, "error:offline"))]


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted(as_a_server) as server:
        yield server


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KEEP_HOST", "KEEP_PORT", "KEEP_SRC"):
        monkeypatch.delenv(name, raising=False)


def keep(server: Scripted, *arguments: str) -> Result:
    command, *rest = arguments
    address = ("--host", "127.0.0.1", "--port", str(server.port))
    result = CliRunner().invoke(app, ["keep", command, *address, *rest], prog_name="moothall")
    assert "Traceback" not in result.output
    return result


def printed(server: Scripted, *arguments: str) -> str:
    result = keep(server, *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def complaint(code: int, server: Scripted, *arguments: str) -> str:
    result = keep(server, *arguments)
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


# send


def test_the_answer_is_printed(server: Scripted) -> None:
    assert printed(server, "send", "server", "hello", "there") == "done\n"
    packet = server.next_call().next()
    assert verify(packet)
    assert (packet.body, packet.dst, packet.ttl) == ("hello there", "server", 60)
    assert packet.src.startswith("bot:cli-")


def test_an_agents_answer_cannot_steer_the_terminal(server: Scripted) -> None:
    assert printed(server, "send", "bot:bob", "ping", "--wait", str(PATIENCE)) == "pong[2J\n"


def test_sent_is_what_was_passed_on(server: Scripted) -> None:
    assert printed(server, "send", "bot:bob", "hello", "--wait", "0") == "sent\n"
    answer = json.loads(printed(server, "send", "bot:bob", "hello", "--wait", "0", "--json"))
    assert answer == {"dst": "bot:bob", "answer": None}


def test_the_answer_as_json(server: Scripted) -> None:
    found = json.loads(printed(server, "send", "bot:bob", "ping", "--wait", str(PATIENCE), "--json"))
    answer = found["answer"]
    assert (answer["src"], answer["body"], answer["verified"]) == ("bot:bob", "pong\x1b[2J", True)
    assert len(answer["pk"]) == 64


def test_all_fields_are_sent(server: Scripted, tmp_path: Path) -> None:
    (tmp_path / "scar").write_bytes(b"\0\xff")
    flags = ("--fee", "5", "--ttl", "7", "--scar-file", str(tmp_path / "scar"), "--src", "bot:me")
    key = ("--key", str(tmp_path / "me.pem"))
    key_from_file(tmp_path / "me.pem", create=True)
    for _ in range(2):
        assert keep(server, "send", "server", "x", *flags, *key).stderr == ""
    first, second = server.next_call().next(), server.next_call().next()
    assert (first.fee, first.ttl, first.scar, first.src) == (5, 7, b"\0\xff", "bot:me")
    assert first.pk == second.pk


def test_a_typo_makes_no_key(server: Scripted, tmp_path: Path) -> None:
    refused = complaint(2, server, "send", "server", "x", "--key", str(tmp_path / "typo.pem"))
    assert f"`moothall identity new {tmp_path}/typo.pem`" in refused
    assert list(tmp_path.iterdir()) == []


def test_nobody_of_that_name_is_exit_code_1(server: Scripted) -> None:
    assert "error:offline: bot:eve is not there" in complaint(1, server, "send", "bot:eve", "hello")


def test_nothing_listening_is_exit_code_3(server: Scripted) -> None:
    server.close()
    for arguments in (("send", "server", "x"), ("listen",), ("discover",), ("agents",)):
        words = complaint(3, server, *arguments)
        assert f"keep-server not running on 127.0.0.1:{server.port}; start one with `moothall serve`" in words


def test_silence_is_exit_code_5() -> None:
    with scripted(nothing) as mute:
        complaint(5, mute, "send", "server", "x", "--timeout", "0.1")
        complaint(5, mute, "send", "bot:bob", "x", "--timeout", "0.1")
        complaint(5, mute, "agents", "--timeout", "0.1")


def test_a_server_that_is_none() -> None:
    with scripted(nothing) as server:
        Thread(target=lambda: server.next_call().say_bytes(b"HTTP/1.1 400 Bad Request\r\n")).start()
        assert "no packet has" in complaint(3, server, "send", "server", "x")


@pytest.mark.parametrize(
    "arguments",
    [
        ("send", "server", "x" * 65_536),
        ("send", "server", "x", "--scar-file", "/nonexistent"),
        ("send", "server", "x", "--key", "/dev/null"),
        ("send", "server", "x", "--fee", "-1"),
        ("send", "server"),
    ],
)
def test_wrong_usage_is_exit_code_2(server: Scripted, arguments: tuple[str, ...]) -> None:
    complaint(2, server, *arguments)


# listen


def test_messages_are_printed_as_they_come(server: Scripted) -> None:
    def speak() -> None:
        call = server.next_call()
        registration = call.next()
        assert registration.src == "bot:me"
        call.say(from_bob("one\ntwo"), Packet(typ=1, src="server", body="error:offline"))

    Thread(target=speak).start()
    result = keep(server, "listen", "--src", "bot:me", "-m", "2")
    assert result.exit_code == 0
    assert result.stderr == "listening as bot:me\n"
    first, second, third = result.stdout.splitlines()
    assert first[8:] == " bot:bob✓: one"
    assert second == "         two"
    assert third[8:] == " server: error:offline"


def test_messages_as_json_lines(server: Scripted) -> None:
    Thread(target=lambda: server.next_call().say(from_bob("hi", scar=b"\1"))).start()
    result = keep(server, "listen", "--json", "-m", "1")
    message = json.loads(result.stdout)
    assert (message["src"], message["body"], message["verified"]) == ("bot:bob", "hi", True)
    assert (message["scar"], message["ttl"]) == ("01", 60)
    assert result.stderr.startswith("listening as bot:cli-")


def test_silence_ends_listening_with_exit_code_5(server: Scripted) -> None:
    result = keep(server, "listen", "--timeout", "0.05")
    assert result.exit_code == 5
    assert "nothing was said for 0.05 s" in result.stderr


# discover, agents


def test_what_the_server_tells(server: Scripted) -> None:
    assert json.loads(printed(server, "discover")) == json.loads(INFO)
    assert server.next_call().next().src == ""  # asking must not throw anybody out
    assert printed(server, "agents") == "bot:bob\nbot:[2Jeve\n"
    assert json.loads(printed(server, "agents", "--json")) == ["bot:bob", "bot:\x1b[2Jeve"]


def test_what_the_server_does_not_tell(server: Scripted) -> None:
    assert "tells nothing about nothing" in complaint(1, server, "discover", "nothing")
    assert "something else than JSON" in complaint(1, server, "discover", "odd")


def test_a_server_that_tells_nonsense(server: Scripted) -> None:
    assert "something else than JSON" in complaint(1, server, "discover", "deep")
    with scripted(lambda packet: [reply(packet, '{"agents":5}')]) as odd:
        assert "without a list" in complaint(1, odd, "agents")


def test_what_no_packet_can_carry_is_exit_code_2(server: Scripted) -> None:
    for arguments in (
        ("discover", "\udcff"),
        ("send", "server", "\udcff"),
        ("listen", "--src", "bot:\udcff"),
    ):
        assert "UTF-8" in complaint(2, server, *arguments)
    assert "more than a server takes" in complaint(2, server, "discover", "x" * 70_000)


def test_listening_under_a_name_that_is_refused_ends_at_once(server: Scripted) -> None:
    assert "reserved_identity: names that start" in complaint(1, server, "listen", "--src", "agent:0a1b2c3d")
    assert "--src" in complaint(2, server, "listen", "--src", "")


def test_the_server_comes_from_the_environment(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEP_HOST", "127.0.0.1")
    monkeypatch.setenv("KEEP_PORT", str(server.port))
    monkeypatch.setenv("KEEP_SRC", "bot:env")
    result = CliRunner().invoke(app, ["keep", "send", "server", "x"])
    assert result.stdout == "done\n"
    assert server.next_call().next().src == "bot:env"

"""`keep`: the import path of existing programs, with protobuf packets."""

import inspect
import pickle
import subprocess
import sys
from collections.abc import Iterator

import pytest

import keep
import keep.client
import moothall
from keep.client import MAX_PACKET_SIZE, KeepClient
from keep.keep_pb2 import DESCRIPTOR, Packet
from moothall import keep as sdk
from moothall.wire.keep import codec as wire
from tests.keep.scripted import PATIENCE, VECTORS, Scripted, from_bob, reply, scripted


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted() as server:
        yield server


def run(program: str) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_names_of_the_published_package() -> None:
    assert keep.KeepClient is keep.client.KeepClient is KeepClient
    assert keep.ensure_server is sdk.ensure_server
    assert keep.__version__ == moothall.__version__
    assert MAX_PACKET_SIZE == 65536
    for name in ("__init__", "send", "listen", "discover", "from_cache", "ensure_server"):
        theirs, ours = getattr(KeepClient, name), getattr(sdk.KeepClient, name)
        assert inspect.signature(theirs) == inspect.signature(ours)


def test_packets_are_protobuf_messages(server: Scripted) -> None:
    answer = KeepClient("127.0.0.1", server.port, timeout=PATIENCE).send("hello", dst="server")
    assert isinstance(answer, Packet)
    assert (answer.body, answer.src, answer.typ) == ("done", "server", 1)
    assert Packet.FromString(answer.SerializeToString()) == answer
    with KeepClient("127.0.0.1", server.port, timeout=PATIENCE) as client:
        server.next_call()
        call = server.next_call()
        call.say(from_bob("hi", unknown=b"\x5a\x02zz"))
        heard: list[Packet] = []
        client.listen(heard.append, timeout=0.05)
        (packet,) = heard
        copy = Packet()
        copy.CopyFrom(packet)
        assert copy.body == "hi"
        assert copy.SerializeToString().endswith(b"\x5a\x02zz")


def test_discovery_and_the_cache_are_there_too(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with scripted(lambda packet: [reply(packet, '{"version": "1", "agents": []}')]) as server:
        client = KeepClient("127.0.0.1", server.port, timeout=PATIENCE)
        assert client.discover_agents() == []
        KeepClient.cache_endpoint("127.0.0.1", server.port, client.discover("info"))
        again = KeepClient.from_cache(src="bot:my-agent", timeout=PATIENCE)
        assert isinstance(again, KeepClient)
        assert again.port == server.port


@pytest.mark.parametrize("vector", VECTORS["packets"], ids=lambda vector: vector["name"])
def test_protobuf_and_our_own_codec_agree(vector: dict[str, str]) -> None:
    content = bytes.fromhex(vector["packet_hex"])
    packet = Packet.FromString(content)
    assert packet.SerializeToString() == content
    ours = wire.decode(content)
    for field in Packet.DESCRIPTOR.fields:
        assert getattr(ours, field.name) == getattr(packet, field.name)
    packet.ClearField("sig")
    packet.ClearField("pk")
    assert packet.SerializeToString().hex() == vector["signing_bytes_hex"]


def test_the_schema_is_that_of_the_published_package() -> None:
    assert (DESCRIPTOR.name, DESCRIPTOR.package) == ("keep.proto", "")
    fields = [(field.number, field.name) for field in Packet.DESCRIPTOR.fields]
    names = ["sig", "pk", "typ", "id", "src", "dst", "body", "fee", "ttl", "scar"]
    assert fields == list(enumerate(names, 1))
    assert pickle.loads(pickle.dumps(Packet(body="x"))) == Packet(body="x")  # noqa: S301


def test_the_pool_that_everybody_shares_is_left_alone() -> None:
    """A program that brings its own `keep.proto` with a `Packet` must not fail because of us."""
    program = """
import keep.keep_pb2
from google.protobuf import descriptor_pb2, descriptor_pool
default = descriptor_pool.Default()
for look in (lambda: default.FindFileByName("keep.proto"), lambda: default.FindMessageTypeByName("Packet")):
    try:
        look()
    except KeyError:
        print("free")
schema = descriptor_pb2.FileDescriptorProto(name="keep.proto")
schema.message_type.add(name="Packet").field.add(name="other", number=1, type=9, label=1)
default.Add(schema)
print([field.name for field in default.FindMessageTypeByName("Packet").fields])
"""
    assert run(program) == "free\nfree\n['other']\n"


def test_nothing_but_the_standard_library_protobuf_and_cryptography_is_imported() -> None:
    """seed 004, code style."""
    program = """
import sys
before = set(sys.modules)
import keep, keep.client, keep.keep_pb2, moothall.keep
tops = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(tops - sys.stdlib_module_names))
print(*sorted(name for name in sys.modules if name.startswith("moothall.")))
"""
    packages, ours = run(program).splitlines()
    of_cryptography = {
        "cryptography",
        "cffi",
        "_cffi_backend",
        "_openssl",
    }  # its bindings have names of their own
    of_ours = {"keep", "moothall", "moothall__mypyc"}  # the last one is the compiled part of the wheel
    assert set(packages.split()) <= {"google"} | of_ours | of_cryptography
    for name in ours.split():
        assert name == "moothall.wire" or name.startswith(
            ("moothall.keep", "moothall.wire.keep", "moothall.errors", "moothall.compiled")
        )

"""TLS on the hall's port, with a certificate made for the occasion."""

import asyncio
import shlex
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from shutil import which
from typing import Any, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK, InvalidStatus
from websockets.typing import Origin

from moothall.app import App
from moothall.errors import SettingsError
from moothall.gateways import keep_connection, listening
from moothall.gateways import port as port_module
from moothall.gateways.connection import Connection
from moothall.gateways.listening import load_tls
from moothall.gateways.port import Patience, Port
from moothall.settings import Settings
from moothall.wire.websocket import GOING_AWAY, PROTOCOL_ERROR, encode_text
from tests.support.echo import Echo, running
from tests.support.sockets import PATIENCE, Peer, head, on_uvloop, turn, until_empty
from tests.support.world import LogBook


class Papers(NamedTuple):
    cert: Path
    key: Path

    def trusted(self) -> ssl.SSLContext:
        """What a client needs to believe them."""
        return ssl.create_default_context(cafile=self.cert)


def write_key(path: Path, encryption: KeySerializationEncryption | None = None) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())
    path.write_bytes(pem)
    return key


def write_certificate(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "moothall")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path.write_bytes(certificate.public_bytes(Encoding.PEM))


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    write_certificate(cert, write_key(key))
    return Papers(cert, key)


def url(port: Port) -> str:
    host, number = port.address
    return f"wss://{host}:{number}"


@asynccontextmanager
async def client_of(port: Port, papers: Papers) -> AsyncIterator[ClientConnection]:
    async with connect(url(port), ssl=papers.trusted()) as client:
        yield client


# -- conversations ---------------------------------------------------------------------------------


@on_uvloop
async def test_a_client_talks_over_tls(papers: Papers) -> None:
    async with running(cert=papers.cert, key=papers.key) as port:
        async with client_of(port, papers) as client:
            for message in ("hello", "κόσμε", b"\x00\xff", "x" * 1_000_000):
                await client.send(message)
                assert await client.recv() == message
            await client.close(1000)
            with pytest.raises(ConnectionClosedOK):
                await client.recv()
        await until_empty(port)


@on_uvloop
async def test_a_client_that_does_not_trust_the_certificate_does_not_talk(papers: Papers) -> None:
    async with running(cert=papers.cert, key=papers.key) as port:
        with pytest.raises(ssl.SSLCertVerificationError):
            await connect(url(port))
        await until_empty(port)


@on_uvloop
async def test_a_violation_is_told_over_tls(papers: Papers) -> None:
    async with running(cert=papers.cert, key=papers.key) as port, client_of(port, papers) as client:
        client.transport.write(b"\x8f\x80abcd" + b"late" * 1000)
        with pytest.raises(ConnectionClosedError) as closed:
            await client.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == PROTOCOL_ERROR


@on_uvloop
async def test_closing_the_port_is_told_over_tls(papers: Papers) -> None:
    async with running(cert=papers.cert, key=papers.key) as port, client_of(port, papers) as client:
        async with asyncio.timeout(PATIENCE):
            await port.close("Server shutting down")
        with pytest.raises(ConnectionClosedOK) as closed:
            await client.recv()
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (GOING_AWAY, "Server shutting down")


@on_uvloop
async def test_our_own_pages_have_https_origins(papers: Papers) -> None:
    async with running(cert=papers.cert, key=papers.key) as port:
        here = f"https://127.0.0.1:{port.address[1]}"
        async with connect(url(port), ssl=papers.trusted(), origin=Origin(here)):
            pass
        with pytest.raises(InvalidStatus, match="403"):
            await connect(url(port), ssl=papers.trusted(), origin=Origin("https://evil.example"))


class Lecture(Echo):
    def __init__(self) -> None:
        self.listeners: list[Connection] = []

    def connect(
        self, link: Connection, ip: str, user_agent: str, *, is_loopback: bool, host: str
    ) -> Connection:
        self.listeners.append(link)
        return link


@on_uvloop
async def test_a_reader_that_stops_is_closed_over_tls_too(papers: Papers) -> None:
    room = Lecture()
    async with running(
        room,
        cert=papers.cert,
        key=papers.key,
        outbox_limit=300_000,
        patience=Patience(sweep=0.001, linger=0.01),
    ) as port:
        # A stream whose buffer is full reads no more from its socket.
        reader, writer = await asyncio.open_connection(*port.address, ssl=papers.trusted(), limit=1024)
        writer.write(head())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        sent = encode_text(b"x" * 50_000)
        while not port.overflows:
            room.listeners[0].put_frame(sent)
            await turn()
        await until_empty(port)
        writer.transport.abort()


# -- those who never get that far ------------------------------------------------------------------


@on_uvloop
async def test_plain_http_on_a_tls_port_bothers_nobody(papers: Papers) -> None:
    async with running(cert=papers.cert, key=papers.key) as port, client_of(port, papers) as client:
        async with await Peer.connect(port) as plain:
            await plain.say(head())
            assert b"HTTP" not in await plain.read_to_end()
        await client.send("still here")
        assert await client.recv() == "still here"


@on_uvloop
async def test_a_tls_handshake_that_does_not_come_is_not_waited_for(
    papers: Papers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "TLS_TIMEOUT", 0.05)
    async with running(cert=papers.cert, key=papers.key) as port, await Peer.connect(port) as half_open:
        assert await half_open.read_to_end() == b""


@on_uvloop
async def test_half_a_handshake_on_each_of_many_connections_keeps_nobody_else_out(
    papers: Papers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loopback is exempt, so here it is taken for the address of somebody far away."""
    monkeypatch.setattr(port_module, "is_loopback", lambda ip: False)
    room = Echo()
    async with running(room, cert=papers.cert, key=papers.key, max_connections_per_ip=2) as port:
        callers = [await Peer.connect(port) for _ in range(2)]
        async with await Peer.connect(port) as refused:
            assert await refused.read_to_end() == b""
        callers.pop().close()
        async with asyncio.timeout(PATIENCE):
            while port.calling["127.0.0.1"] > 1:
                await turn()
        async with client_of(port, papers) as client:
            await client.send("let in")
            assert await client.recv() == "let in"
            assert port.calling["127.0.0.1"] == 1  # the room counts the other
        callers.pop().close()
        await until_empty(port)
        async with asyncio.timeout(PATIENCE):
            while list(port.calling):
                await turn()


async def test_half_a_handshake_counts_for_keep_clients_too(
    papers: Papers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the loop that programs of others may run a hall on."""
    monkeypatch.setattr(keep_connection, "is_loopback", lambda ip: False)
    chosen: dict[str, Any] = {"port": 0, "keep_port": 0, "keep_tls": True, "max_connections_per_ip": 1}
    settings = Settings(data_dir=tmp_path, cert=papers.cert, key=papers.key, **chosen)
    async with App(settings, LogBook()) as app, asyncio.timeout(PATIENCE):
        assert app.keep is not None
        _, half_open = await asyncio.open_connection(*app.keep.address)
        reader, refused = await asyncio.open_connection(*app.keep.address)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        assert app.hall.tally.security == {"ip_connection_limit": 1}
        half_open.close()
        while list(app.hall.door.connections):
            await turn()
        _, writer = await asyncio.open_connection(
            *app.keep.address, ssl=papers.trusted(), server_hostname="127.0.0.1"
        )
        while not app.keep.connections:
            await turn()
        writer.close()
        refused.close()
        while app.keep.connections or list(app.hall.door.connections):
            await turn()


# -- papers that are not in order ------------------------------------------------------------------


def test_without_papers_there_is_no_tls() -> None:
    assert load_tls(None, None) is None


@on_uvloop
async def test_papers_not_in_order_are_named_in_one_line(papers: Papers, tmp_path: Path) -> None:
    other, encrypted, empty = tmp_path / "other.pem", tmp_path / "encrypted.pem", tmp_path / "empty.pem"
    write_key(other)
    write_key(encrypted, BestAvailableEncryption(b"a secret"))
    empty.touch()
    faults = {
        other: "the key is not that of the certificate",
        encrypted: "not PEM, or encrypted",
        empty: "not PEM, or encrypted",
        papers.cert: "not PEM, or encrypted",
        tmp_path: "Is a directory",
    }
    for key, fault in faults.items():
        with pytest.raises(SettingsError) as refused:
            async with running(cert=papers.cert, key=key):
                pass
        assert str(refused.value) == f"TLS certificate {papers.cert} with key {key}: {fault}"


@pytest.mark.skipif(which("openssl") is None, reason="the command is run, with openssl")
@pytest.mark.parametrize("missing", ["certificate", "key"])
def test_a_missing_file_is_named_with_the_command_that_makes_it(
    papers: Papers, tmp_path: Path, missing: str
) -> None:
    cert, key = tmp_path / "my cert.pem", tmp_path / "key.pem"
    for path, paper in ((cert, papers.cert), (key, papers.key)):
        if (path is cert) != (missing == "certificate"):
            path.write_bytes(paper.read_bytes())
    with pytest.raises(SettingsError) as refused:
        load_tls(cert, key)
    named = cert if missing == "certificate" else key
    assert str(refused.value).startswith(f"there is no TLS {missing} {named}: ")
    command = str(refused.value).split("`")[1]
    subprocess.run(shlex.split(command), check=True, capture_output=True)
    assert load_tls(cert, key) is not None


@on_uvloop
async def test_a_port_in_use_is_named_in_one_line() -> None:
    async with running() as port:
        host, number = port.address
        with pytest.raises(SettingsError) as refused:
            async with running(port=number):
                pass
    reason = "Address already in use; choose another with --port"
    assert str(refused.value) == f"cannot listen on {host}:{number}: {reason}"


@on_uvloop
async def test_an_address_of_another_machine_is_named_in_one_line() -> None:
    with pytest.raises(
        SettingsError, match=r"cannot listen on 203\.0\.113\.9:0: .*; use an address of this machine"
    ):
        async with running(host="203.0.113.9"):
            pass

"""How a node and a real NATS prove to each other who they are; and that no secret gets into a text."""

import asyncio
import json
import os
from base64 import b32encode, urlsafe_b64encode
from binascii import crc_hqx
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from moothall.bus import buckets
from moothall.bus.access import Access, Server, parse_servers
from moothall.bus.nats_bus import NatsBus
from moothall.bus.nkeys import public_nkey, read_credentials, read_nkey
from moothall.errors import UsageError
from moothall.identity import PrivateKey
from tests.bus.buses import Inbox, Lines, put
from tests.support.nats_server import NatsServer
from tests.support.sockets import on_uvloop

SECRET: Final = "a secret; of the operator"


async def connects(url: str, access: Access | None = None) -> bool:
    """Raises UsageError if NATS and the node do not accept each other, and checks that no secret is in a text."""
    log = Lines()
    bus = NatsBus([url], "access", log, access)
    fault: UsageError | None = None
    try:
        await bus.open()
    except UsageError as error:
        fault = error
    is_up = bus.is_up
    await bus.close()
    told = (log.lines, access, bus._servers, fault, fault and (fault.__cause__, fault.__context__))
    assert SECRET not in repr(told)
    if fault is not None:
        raise fault
    return is_up


# -- URLs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("nats://127.0.0.1:1", Server("nats://127.0.0.1:1")),
        ("tls://nats.example", Server("tls://nats.example:4222", is_encrypted=True)),
        ("nats://[::1]:4222/", Server("nats://[::1]:4222")),
        ("nats://a:p%40ss@h", Server("nats://h:4222", "a", "p@ss")),
        ("nats://token@h", Server("nats://h:4222", "token")),
    ],
)
def test_urls_of_nats(text: str, server: Server) -> None:
    assert parse_servers([text]) == [server]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "127.0.0.1:4222",
        "http://h",
        "ws://h",
        "nats://",
        f"nats://a:{SECRET}@h:no",
        "nats://h/x",
        "nats://h?x",
    ],
)
def test_other_urls_are_refused_without_their_password(text: str) -> None:
    with pytest.raises(UsageError, match="nats://HOST:PORT") as caught:
        parse_servers([text])
    assert SECRET not in str(caught.value)


def test_no_url_is_refused() -> None:
    with pytest.raises(UsageError, match="the bus has no URL"):
        parse_servers([])


# -- passwords and tokens --------------------------------------------------------------------------


@on_uvloop
async def test_user_and_password(tmp_path: Path) -> None:
    with NatsServer(tmp_path, f'authorization {{ user: "hall", password: "{SECRET}" }}') as server:
        assert await connects(server.url, Access(user="hall", password=SECRET))
        quoted = SECRET.replace(";", "%3B").replace(" ", "%20")
        assert await connects(server.url.replace("//", f"//hall:{quoted}@"))
        for refused in (None, Access(user="hall", password="no"), Access(token=SECRET)):
            with pytest.raises(UsageError, match=f"^{server.url}: NATS refuses the credentials of this node"):
                await connects(server.url, refused)
        with pytest.raises(UsageError, match="refuses the credentials"):
            await connects(server.url.replace("//", f"//other:{quoted}@"))


@on_uvloop
async def test_a_token(tmp_path: Path) -> None:
    with NatsServer(tmp_path, 'authorization { token: "abc" }') as server:
        assert await connects(server.url, Access(token="abc"))
        assert await connects(server.url.replace("//", "//abc@"))
        with pytest.raises(UsageError, match="refuses the credentials"):
            await connects(server.url, Access(token="abd"))


# What a user of NATS needs for the bus of one hall.
PERMISSIONS: Final = """
    publish: ["moothall.access.>", "$KV.moothall_access_nodes.>", "$KV.moothall_access_ids.>",
              "$KV.moothall_access_homes.>", "$JS.API.>", "$JS.FC.>"]
    subscribe: ["moothall.access.>"]
"""


@on_uvloop
async def test_a_user_with_few_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "PREPARING_SECONDS", 1.0)
    monkeypatch.setattr(buckets, "PATIENCE_SECONDS", 1.0)

    def user(name: str, permissions: str) -> str:
        return f'{{ user: {name}, password: "{SECRET}", permissions: {{ {permissions} }} }}'

    deaf = PERMISSIONS.replace('subscribe: ["moothall.access.>"]', 'subscribe: ["moothall.access.inbox.>"]')
    helpless = PERMISSIONS.replace('"$JS.API.>",', "")
    users = ", ".join((user("hall", PERMISSIONS), user("deaf", deaf), user("helpless", helpless)))
    with NatsServer(tmp_path, f"authorization {{ users: [{users}] }}") as server:
        assert await connects(server.url, Access(user="hall", password=SECRET))
        bus = NatsBus([server.url], "access", Lines(), Access(user="hall", password=SECRET))
        await bus.open()
        told = Inbox()
        bus.registry.watch("ids", told, told)
        await told.count(1)
        assert await put(bus, "ids", "alice", b"1", 0) is not None
        assert (await told.count(2))[1].key == "alice"
        await bus.close()
        for name in ("deaf",) * 8 + ("helpless",):
            with pytest.raises(
                UsageError, match="NATS does not permit what the bus needs: permissions violation"
            ):
                await connects(server.url, Access(user=name, password=SECRET))


# -- keys of NATS ----------------------------------------------------------------------------------

OPERATOR, ACCOUNT, USER = 14 << 3, 0, 20 << 3


def seed_of(raw: bytes, kind: int = USER) -> str:
    """As `nk -gen user` writes it."""
    data = bytes((18 << 3 | kind >> 5, (kind & 31) << 3)) + raw
    return b32encode(data + crc_hqx(data, 0).to_bytes(2, "little")).decode().rstrip("=")


def public_of(key: PrivateKey, kind: int) -> str:
    data = bytes((kind,)) + key.public.raw
    return b32encode(data + crc_hqx(data, 0).to_bytes(2, "little")).decode().rstrip("=")


def jwt(issuer: PrivateKey, issuer_kind: int, subject: str, claims: dict[str, object]) -> str:
    def part(value: object) -> str:
        return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    body = {
        "jti": "1",
        "iat": 1_700_000_000,
        "iss": public_of(issuer, issuer_kind),
        "name": "hall",
        "sub": subject,
    }
    text = f"{part({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{part({**body, 'nats': {'version': 2, **claims}})}"
    return f"{text}.{urlsafe_b64encode(issuer.sign_bytes(text.encode())).decode().rstrip('=')}"


def test_a_known_seed_and_its_public_key(tmp_path: Path) -> None:
    """From the documentation of NATS."""
    path = tmp_path / "nkey"
    path.write_text("SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY\n")
    expected = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
    assert public_nkey(read_nkey(path).key.public) == expected


@on_uvloop
async def test_an_nkey(tmp_path: Path) -> None:
    raw = os.urandom(32)
    path = tmp_path / "nkey"
    path.write_text(seed_of(raw))
    nkey = public_nkey(PrivateKey(raw).public)
    with NatsServer(tmp_path, f"authorization {{ users: [{{ nkey: {nkey} }}] }}") as server:
        assert await connects(server.url, Access(nkey=path))
        path.write_text(seed_of(os.urandom(32)))
        with pytest.raises(UsageError, match="refuses the credentials"):
            await connects(server.url, Access(nkey=path))


@on_uvloop
async def test_a_credentials_file(tmp_path: Path) -> None:
    operator, account, user = (PrivateKey(os.urandom(32)) for _ in range(3))
    raw = os.urandom(32)
    user = PrivateKey(raw)
    no_limit = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
    limits = {
        **no_limit,
        "wildcards": True,
        "mem_storage": -1,
        "disk_storage": -1,
        "streams": -1,
        "consumer": -1,
    }
    account_name = public_of(account, ACCOUNT)
    operator_jwt = jwt(operator, OPERATOR, public_of(operator, OPERATOR), {"type": "operator"})
    account_jwt = jwt(operator, OPERATOR, account_name, {"type": "account", "limits": limits})
    system = PrivateKey(os.urandom(32))
    system_name = public_of(system, ACCOUNT)
    system_jwt = jwt(operator, OPERATOR, system_name, {"type": "account", "limits": no_limit})
    user_limits = {"type": "user", "subs": -1, "data": -1, "payload": -1}
    user_jwt = jwt(account, ACCOUNT, public_of(user, USER), user_limits)
    path = tmp_path / "user.creds"
    path.write_text(
        f"-----BEGIN NATS USER JWT-----\n{user_jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed_of(raw)}\n------END USER NKEY SEED------\n"
    )
    config = (
        f"operator: {operator_jwt}\nsystem_account: {system_name}\nresolver: MEMORY\n"
        f"resolver_preload: {{ {account_name}: {account_jwt}, {system_name}: {system_jwt} }}"
    )
    with NatsServer(tmp_path, config) as server:
        assert await connects(server.url, Access(credentials=path))
        with pytest.raises(UsageError, match="refuses the credentials"):
            await connects(server.url)


@pytest.mark.parametrize(
    "text", ["", "SU", "not a seed", seed_of(bytes(32), ACCOUNT), seed_of(bytes(32))[:-1] + "A", "é"]
)
def test_a_file_without_a_seed_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "nkey"
    path.write_text(text)
    with pytest.raises(UsageError, match=f"^{path} "):
        read_nkey(path)
    with pytest.raises(UsageError, match=f"^{path} "):
        read_credentials(path)
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_nkey(tmp_path / "none")


# -- TLS -------------------------------------------------------------------------------------------


class Papers(NamedTuple):
    certificate: Path
    key: Path

    def config(self, more: str = "") -> str:
        return f'tls {{ cert_file: "{self.certificate}", key_file: "{self.key}"\n{more} }}'


def make_papers(folder: Path, name: str) -> Papers:
    """A certificate for 127.0.0.1 that has signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    papers = Papers(folder / f"{name}.pem", folder / f"{name}.key")
    papers.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
    papers.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return papers


@on_uvloop
async def test_tls_with_an_authority_and_a_certificate_of_the_node(tmp_path: Path) -> None:
    own, node = make_papers(tmp_path, "nats"), make_papers(tmp_path, "node")
    with NatsServer(tmp_path, own.config(f'ca_file: "{node.certificate}", verify: true')) as server:
        accepted = Access(ca=own.certificate, certificate=node.certificate, key=node.key)
        assert await connects(server.url, accepted)
        assert await connects(server.url.replace("nats:", "tls:"), accepted)
        with pytest.raises(UsageError, match=r"not valid here: self.* set bus_ca to the authority"):
            await connects(server.url)
        with pytest.raises(UsageError, match="the certificate of NATS is not valid here"):
            await connects(server.url, Access(ca=node.certificate))


@on_uvloop
async def test_a_node_without_a_certificate_that_nats_asks_for(tmp_path: Path) -> None:
    own, node = make_papers(tmp_path, "nats"), make_papers(tmp_path, "node")
    with NatsServer(tmp_path, own.config(f'ca_file: "{node.certificate}", verify: true')) as server:
        bus = NatsBus([server.url], "access", Lines(), Access(ca=own.certificate))
        with pytest.raises(UsageError, match=f"{server.url}: "):
            await bus.open(within=1)


@on_uvloop
async def test_a_password_is_not_sent_to_a_server_without_tls() -> None:
    got = bytearray()

    async def pose(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.15.0","max_payload":1048576,"headers":true}\r\n')
        got.extend(await reader.read())
        writer.close()

    async with await asyncio.start_server(pose, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        with pytest.raises(UsageError, match="NATS has no TLS there; nothing was sent to it"):
            await connects(f"tls://127.0.0.1:{port}", Access(user="hall", password=SECRET))
    assert got == b""


def test_papers_that_are_none_are_refused(tmp_path: Path) -> None:
    papers = make_papers(tmp_path, "nats")
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        Access(ca=tmp_path / "none").tls()
    with pytest.raises(UsageError, match="not certificates and keys for TLS"):
        Access(certificate=papers.certificate).tls()

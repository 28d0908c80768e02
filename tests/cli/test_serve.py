"""`moothall serve` as its operator meets it: starting, asking over HTTP, reading logs, stopping, mistakes."""

import asyncio
import json
import os
import re
import resource
import socket
import ssl
import stat
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from os import urandom
from pathlib import Path
from signal import SIG_IGN, SIGHUP, SIGINT, SIGTERM, Signals, signal
from time import monotonic, sleep, time
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from prometheus_client.parser import text_string_to_metric_families
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from moothall import __version__
from moothall.compiled import build
from moothall.identity import PrivateKey
from moothall.p2p.multiaddr import Multiaddr
from tests.identity.vectors import ALICE
from tests.support.agentchat import AgentChat
from tests.support.server import (
    ADMIN_KEY,
    PROGRAM,
    HallProcess,
    complaint,
    environment,
    run_moothall,
    running_hall,
)

SECONDS_TO_STOP = 6.0  # for a hall whose peers do not answer; one whose peers do takes milliseconds


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    environment = {"MOOTHALL_ADMIN_KEY": ADMIN_KEY, "MOOTHALL_RATE_MESAGE": "0"}
    with running_hall(tmp_path_factory.mktemp("hall"), environment=environment) as running:
        yield running


def new_key() -> PrivateKey:
    return PrivateKey(urandom(32))


# -- starting ------------------------------------------------------------------------------------------


def test_version_and_help(tmp_path: Path) -> None:
    version = run_moothall(tmp_path, "--version")
    assert (version.returncode, version.stdout) == (0, f"moothall {__version__}\n")
    shown = run_moothall(tmp_path, "serve", "--help")
    assert shown.returncode == 0
    for flag in ("host", "port", "data-dir", "profile", "cert", "key", "config", "log-format", "set"):
        assert f"--{flag} " in shown.stdout


async def test_a_hall_says_where_it_is_and_what_to_try(hall: HallProcess) -> None:
    assert hall.stdout.wait_for(lambda line: "moothall send" in line)
    shown = hall.stdout.text
    assert shown.startswith(f"moothall listening on ws://127.0.0.1:{hall.port}\n")
    assert f"  mesh     ws://127.0.0.1:{hall.port}/mesh\n" in shown
    assert f"http://127.0.0.1:{hall.port}/health" in shown
    assert f"http://127.0.0.1:{hall.port}/metrics" in shown
    assert f"moothall send ws://127.0.0.1:{hall.port} '#general' hello" in shown
    start = await hall.logged("server_start")
    assert (start["port"], start["profile"], start["tls"]) == (hall.port, "seeds", False)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux tells the limits of another process")
def test_a_hall_takes_as_many_open_files_as_it_may_have(tmp_path: Path) -> None:
    """A connection is one, and a program begins with 1024 on most systems."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, hard - 1), hard))
    try:
        with running_hall(tmp_path) as hall:
            assert resource.prlimit(hall.process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_variable_that_is_no_setting_is_pointed_out(hall: HallProcess) -> None:
    assert (await hall.logged("unknown_setting"))["variable"] == "MOOTHALL_RATE_MESAGE"


async def test_what_is_dangerous_is_pointed_out(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--host", "0.0.0.0", "--no-limits") as hall:  # noqa: S104  # the danger
        assert (await hall.logged("listening_without_tls"))["host"] == "0.0.0.0"  # noqa: S104
        await hall.logged("limits_off")
        assert "public_url" in (await hall.logged("no_public_url"))["advice"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104  # what is tested
async def test_a_hall_on_all_addresses_prints_those_that_can_be_opened(tmp_path: Path, host: str) -> None:
    if host == "::" and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    with running_hall(tmp_path, "--host", host, "--mesh-port", "0") as hall:
        assert hall.stdout.wait_for(lambda line: "send" in line)
        shown = hall.stdout.text
        peers = next(line for line in shown.splitlines() if line.startswith("  peers    "))
        for place in map(Multiaddr.parse, peers.removeprefix("  peers    ").split(", ")):
            assert place.agent_id == hall.key.raw
            with socket.create_connection((place.host, place.port), SECONDS_TO_STOP):
                pass
        assert "//0.0.0.0" not in shown
        assert "/0.0.0.0/" not in shown
        assert "/ip6/::/" not in shown
        assert "[::]" not in shown
        network = next(line for line in shown.splitlines() if line.startswith("  network  "))
        assert network.endswith("every address of this machine")
        for url in re.findall(r"(?:ws|http|tcp)://[^ ,]+:[0-9]+", shown):
            target = urlsplit(url)
            assert target.port is not None
            with socket.create_connection((target.hostname, target.port), SECONDS_TO_STOP):
                pass
        loopback = "127.0.0.1" if host == "0.0.0.0" else "[::1]"  # noqa: S104
        assert shown.startswith(f"moothall listening on ws://{loopback}:{hall.port}\n")


def has_ipv6() -> bool:
    with suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


def test_a_hall_that_nobody_reads_says_everything_in_its_log(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        hall = subprocess.Popen(
            [PROGRAM, "serve", "--port", "0", "--no-keep", "--no-limits"],
            cwd=tmp_path,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert hall.stderr is not None
    said = [json.loads(hall.stderr.readline()) for _ in range(2)]
    hall.terminate()
    rest = hall.communicate(timeout=SECONDS_TO_STOP)[1]
    assert [line["event"] for line in said] == ["server_start", "limits_off"]
    assert [json.loads(line)["event"] for line in rest.splitlines()] == ["server_stop"]
    assert hall.returncode == 0


@pytest.mark.parametrize(("closed", "left"), [("0<&-", "stderr"), ("1>&-", "stderr"), ("2>&-", "stdout")])
def test_a_hall_does_without_a_standard_stream(tmp_path: Path, closed: str, left: str) -> None:
    command = f"exec {PROGRAM} serve --port 0 --no-keep {closed}"
    hall = subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    said = hall.stdout if left == "stdout" else hall.stderr
    assert said is not None
    assert said.readline()  # it is open
    hall.terminate()
    hall.communicate(timeout=SECONDS_TO_STOP)
    assert hall.returncode == 0


def test_a_hall_does_without_any_standard_stream(tmp_path: Path) -> None:
    command = f"exec {PROGRAM} serve --port 0 --no-keep 0<&- 1>&- 2>&-"
    hall = subprocess.Popen(["/bin/sh", "-c", command], cwd=tmp_path, env=environment())
    deadline = monotonic() + SECONDS_TO_STOP
    while not (tmp_path / ".agentchat" / "hall.db").exists() and monotonic() < deadline:
        sleep(0.01)  # it cannot say that it is open
    hall.terminate()
    assert hall.wait(SECONDS_TO_STOP) == 0


# -- mistakes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--nope",), ("--nope",)),
        (("--port", "many"), ("--port",)),
        (("--port", "70000"), ("port", "70000", "65535")),
        (("--set", "admin_key=hunter2"), ("admin_key", "MOOTHALL_ADMIN_KEY")),
        (("--cert", "cert.pem"), ("--cert", "--key")),
        (("--cert", "no.pem", "--key", "no.pem"), ("no.pem", "openssl req")),
        (("--host", "192.0.2.1"), ("cannot listen", "192.0.2.1", "address of this machine")),
        (("--host", "nowhere.invalid"), ("cannot listen", "nowhere.invalid", "no such host")),
        (("--host", "\udcff"), ("cannot listen", "\\udcff", "not the name of a host")),
        (("--data-dir", "file"), ("data directory file", "there is a file")),
        (("--data-dir", "file/data"), ("data directory file/data", "there is a file")),
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_line_and_exit_code_2(
    tmp_path: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    (tmp_path / "file").touch()
    said = complaint(run_moothall(tmp_path, "serve", "--port", "0", "--data-dir", "data", *arguments))
    assert [word for word in words if word not in said] == []
    assert "hunter2" not in said


def test_a_port_that_is_taken_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = complaint(run_moothall(tmp_path, "serve", "--port", str(port), "--data-dir", "data"))
    assert f"127.0.0.1:{port}" in said
    assert "in use" in said
    assert "--port" in said


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("port = ", "is not TOML"),
        ('admin_key = "x"', "MOOTHALL_ADMIN_KEY"),
    ],
)
def test_a_wrong_settings_file_is_one_line_and_exit_code_2(tmp_path: Path, settings: str, words: str) -> None:
    (tmp_path / "moothall.toml").write_text(settings)
    said = complaint(run_moothall(tmp_path, "serve", "--data-dir", "data"))
    assert "moothall.toml" in said
    assert words in said


def test_an_admin_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "admin.key"
    secret.write_text("hunter2\n")
    secret.chmod(0o644)
    environ = {"MOOTHALL_ADMIN_KEY_FILE": "admin.key"}
    said = complaint(run_moothall(tmp_path, "serve", "--data-dir", "data", environ=environ))
    assert "chmod 600 admin.key" in said
    assert "hunter2" not in said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_data_directory_that_is_closed_to_us_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o500)
    said = complaint(run_moothall(tmp_path, "serve", "--port", "0", "--data-dir", "data"))
    assert "data directory data" in said


# -- administration (agentchat wire 16) ----------------------------------------------------------------


@pytest.mark.parametrize("how", ["flag", "variable"])
async def test_log_messages_of_the_reference_is_taken_and_contents_are_not_logged(
    tmp_path: Path, how: str
) -> None:
    flags = ("--profile", "agentchat-0.36", *(("--log-messages",) if how == "flag" else ()))
    environment = {"LOG_MESSAGES": "true"} if how == "variable" else {}
    with running_hall(tmp_path, *flags, environment=environment) as hall:
        note = await hall.logged("log_messages_ignored")
        assert "never logged" in str(note["reason"])
        async with await AgentChat.connect(hall.url) as agent:
            await agent.say("#general", "between us")
            await agent.expect("MSG", content="between us")
        assert "between us" not in hall.stderr.text


async def test_an_admin_kicks_and_verifies_with_the_shared_key(hall: HallProcess) -> None:
    async with await AgentChat.open(hall.url) as admin, await AgentChat.connect(hall.url) as agent:
        result = await admin.ask(
            "ADMIN_RESULT", type="ADMIN_VERIFY", agent_id=agent.agent_id, verified=True, admin_key=ADMIN_KEY
        )
        assert (result["action"], result["success"], result["verified"]) == ("verify", True, True)
        assert (await agent.expect("ADMIN_RESULT"))["verified"] is True
        result = await admin.ask(
            "ADMIN_RESULT", type="ADMIN_KICK", agent_id=agent.agent_id, reason="noise", admin_key=ADMIN_KEY
        )
        assert (result["action"], result["agentId"]) == ("kick", agent.agent_id)
        assert (await agent.expect("KICKED"))["reason"] == "noise"
        assert await agent.closed() == (1000, "Kicked by admin")


async def test_a_wrong_admin_key_is_refused_and_logged(hall: HallProcess) -> None:
    async with await AgentChat.connect(hall.url) as agent:
        await agent.send(type="ADMIN_KICK", agent_id=agent.agent_id, admin_key="guess")
        assert (await agent.refusal())["code"] == "AUTH_REQUIRED"
        await agent.settle()
    refused = await hall.logged("admin_refused")
    assert refused["ip"] == "127.0.0.1"
    assert "guess" not in hall.stderr.text


# -- what operators ask over HTTP (agentchat wire 1.6) -------------------------------------------------


def test_a_hall_without_keep_has_a_key_too(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--no-keep") as hall:
        key = hall.key
        assert stat.S_IMODE((hall.data_dir / "hall.db").stat().st_mode) == 0o600
        hall.stop()
        hall.restart()
        assert hall.key == key


async def test_health_has_the_reference_shape(hall: HallProcess) -> None:
    async with await AgentChat.connect(hall.url, "alice", new_key()), await AgentChat.connect(hall.url):
        status, headers, body = await hall.get("/health")
        report: dict[str, Any] = json.loads(body)
    assert status == 200
    assert headers["Content-Type"] == "application/json"
    assert list(report) == [
        "status",
        "server",
        "version",
        "uptime_seconds",
        "started_at",
        "agents",
        "channels",
        "proposals",
        "timestamp",
        "hall_key",
        "build",
        "conversations",
    ]
    assert report["conversations"] == {"total": 0, "byState": {}}
    assert report["hall_key"] == hall.key.raw.hex()
    assert report["build"] == build()
    assert (report["status"], report["server"], report["version"]) == ("healthy", "moothall", __version__)
    assert type(report["uptime_seconds"]) is int
    assert report["agents"].keys() == {"connected", "with_identity"}
    assert report["agents"]["connected"] >= 2
    assert 1 <= report["agents"]["with_identity"] < report["agents"]["connected"]
    assert report["channels"].keys() == {"total", "public"}
    assert report["channels"]["total"] >= report["channels"]["public"] >= 3
    assert report["proposals"].keys() == {"total", "byStatus", "agents"}
    started, now = (datetime.fromisoformat(report[name]) for name in ("started_at", "timestamp"))
    assert timedelta(0) <= now - started < timedelta(seconds=report["uptime_seconds"] + 1)


async def test_connections_are_listed_for_the_admin_only(hall: HallProcess) -> None:
    async with await AgentChat.connect(hall.url, "alice", new_key()) as alice:
        for headers in ({}, {"X-Admin-Key": "guess"}, {"X-Admin-Key": ""}):
            status, _, body = await hall.get("/api/connections", headers)
            assert (status, json.loads(body)) == (401, {"error": "Unauthorized"})
        status, _, body = await hall.get("/api/connections", {"X-Admin-Key": ADMIN_KEY})
        report = json.loads(body)
        assert status == 200
        assert report["count"] == len(report["connections"])
        mine = next(entry for entry in report["connections"] if entry["agent_id"] == alice.agent_id[1:])
        assert mine["ip"] == "127.0.0.1"
        assert "websockets" in mine["user_agent"]
        assert type(mine["connected_at"]) is int
        assert 0 <= time() * 1000 - mine["connected_at"] < 3_600_000


async def test_a_client_that_sends_no_user_agent_is_listed_as_unknown(hall: HallProcess) -> None:
    async with connect(hall.url, user_agent_header=None, proxy=None) as socket:
        await socket.send(json.dumps({"type": "IDENTIFY", "name": "plain"}))
        agent_id = json.loads(await socket.recv())["agent_id"].removeprefix("@")
        _, _, body = await hall.get("/api/connections", {"X-Admin-Key": ADMIN_KEY})
        listed = {entry["agent_id"]: entry["user_agent"] for entry in json.loads(body)["connections"]}
        assert listed[agent_id] == "unknown"


async def test_a_wrong_key_can_be_tried_ten_times_a_minute_and_none_is_no_try(tmp_path: Path) -> None:
    with running_hall(tmp_path, environment={"MOOTHALL_ADMIN_KEY": ADMIN_KEY}) as hall:

        async def status_of(**headers: str) -> int:
            return (await hall.get("/api/connections", headers))[0]

        assert [await status_of() for _ in range(12)] == [401] * 12
        assert [await status_of(**{"X-Admin-Key": ADMIN_KEY}) for _ in range(12)] == [200] * 12
        assert [await status_of(**{"X-Admin-Key": "guess"}) for _ in range(11)] == [401] * 10 + [429]
        assert await status_of(**{"X-Admin-Key": ADMIN_KEY}) == 429
        for event in ("admin_operation", "admin_refused", "admin_rate_limited"):
            line = await hall.logged(event)
            assert (line["ip"], line["operation"]) == ("127.0.0.1", "/api/connections")


async def test_other_requests_get_plain_answers(hall: HallProcess) -> None:
    status, headers, body = await hall.get("/nothing")
    assert (status, headers["Content-Type"]) == (404, "text/plain; charset=utf-8")
    assert "WebSocket" in body
    status, headers, _ = await hall.get("/health", method="DELETE")
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    status, headers, body = await hall.get("/health", method="HEAD")
    assert (status, body) == (200, "")
    assert int(headers["Content-Length"]) > 0


async def test_metrics_tell_what_happens(hall: HallProcess) -> None:
    async with (
        await AgentChat.connect(hall.url, "alice", new_key()) as alice,
        await AgentChat.connect(hall.url) as bob,
        await AgentChat.open(hall.url) as stranger,
    ):
        await stranger.settle()
        before = await metrics(hall)
        await alice.create_channel("#counted")
        await bob.join("#counted")
        await alice.say("#counted", "one")
        await bob.say("#nowhere", "two")
        await bob.refusal()
        await alice.send_text("not json")
        await alice.settle()
        with pytest.raises(InvalidStatus, match="403"):
            await AgentChat.open(hall.url, origin="https://evil.example")
        after = await metrics(hall)

    def grew(name: str, **labels: str) -> float:
        return after[sample(name, **labels)] - before.get(sample(name, **labels), 0)

    assert after[sample("moothall_connections", wire="agentchat", tier="verified")] >= 1
    assert after[sample("moothall_connections", wire="agentchat", tier="anonymous")] >= 1
    assert after[sample("moothall_connections", wire="agentchat", tier="stranger")] >= 1
    assert grew("moothall_messages_received_total", type="MSG") == 2
    assert grew("moothall_messages_received_total", type="CREATE_CHANNEL") == 1
    assert grew("moothall_refusals_total", code="CHANNEL_NOT_FOUND") == 1
    assert grew("moothall_messages_malformed_total") == 1
    assert grew("moothall_security_events_total", event="foreign_origin_refused") == 1
    assert grew("moothall_frames_sent_total") == 6  # two JOINED, AGENT_JOINED, MSG, ERROR, PONG
    assert grew("moothall_fanout_members_count") == 3  # two AGENT_JOINED, MSG
    assert grew("moothall_fanout_members_sum") == 5
    assert (
        after[sample("moothall_fanout_members_bucket", le="+Inf")]
        == after[sample("moothall_fanout_members_count")]
    )
    assert after[sample("moothall_outbox_bytes")] >= 0
    assert after[sample("moothall_outbox_peak_bytes")] >= 0
    assert after[sample("moothall_outbox_overflows_total")] == 0
    assert 0 <= after[sample("moothall_loop_lag_seconds")] <= after[sample("moothall_loop_lag_max_seconds")]
    assert after[sample("moothall_process_resident_memory_bytes")] > 0


def sample(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


async def metrics(hall: HallProcess) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    status, headers, text = await hall.get("/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    families = text_string_to_metric_families(text)
    return {sample(line.name, **line.labels): line.value for family in families for line in family.samples}


# -- TLS -----------------------------------------------------------------------------------------------


async def test_a_tls_key_that_all_can_read_is_pointed_out(tmp_path: Path) -> None:
    cert, key = write_certificate(tmp_path)
    key.chmod(0o644)
    with running_hall(tmp_path, "--cert", str(cert), "--key", str(key)) as hall:
        assert (await hall.logged("tls_key_readable_by_all"))["file"] == str(key)


async def test_tls_on_the_same_port(tmp_path: Path) -> None:
    cert, key = write_certificate(tmp_path)
    with running_hall(tmp_path, "--cert", str(cert), "--key", str(key)) as hall:
        assert hall.url == f"wss://127.0.0.1:{hall.port}"
        trusting = ssl.create_default_context(cafile=cert)
        async with await AgentChat.connect(hall.url, "alice", ALICE, tls=trusting) as alice:
            assert alice.welcome["verified"] is True
            await alice.join("#general")
        assert hall.stop() == 0


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Self-signed, for 127.0.0.1."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hall.test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(private, SHA256())
    )
    cert, key = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(certificate.public_bytes(Encoding.PEM))
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return cert, key


# -- logs ----------------------------------------------------------------------------------------------


async def test_every_log_line_is_json_and_security_events_say_who(tmp_path: Path) -> None:
    environment = {"MOOTHALL_ADMIN_KEY": ADMIN_KEY}
    with running_hall(tmp_path, "--log-level", "debug", environment=environment) as hall:
        with pytest.raises(InvalidStatus):
            await AgentChat.open(hall.url, origin="https://evil.example")
        await hall.get("/api/connections", {"X-Admin-Key": "guess"})
        async with await AgentChat.open(hall.url, "thief") as thief:
            await thief.send(type="ADMIN_LIST", admin_key="guess")
            await thief.refusal()
            await thief.send(type="ADMIN_LIST", admin_key=ADMIN_KEY)
            await thief.refusal()
            await thief.send_text("{")
            await thief.send(type="IDENTIFY", name="thief", pubkey=ALICE.public.pem)
            await thief.prove(new_key(), await thief.answer("CHALLENGE"))
            await thief.refusal()
            for _ in range(11):
                await thief.send(type="PING")
            await thief.closed()
        async with (
            await AgentChat.connect(hall.url, "old", ALICE),
            await AgentChat.connect(hall.url, "new", ALICE),
        ):
            pass
        assert hall.stop() == 0
    assert {"event", "level", "ts"} <= set.intersection(*(set(line) for line in hall.log))
    for line in hall.log:
        assert datetime.fromisoformat(line["ts"]).tzinfo is not None
    who = {
        line["event"]: line.get("ip", line.get("new_ip")) for line in hall.log if line["level"] == "warning"
    }
    assert who == dict.fromkeys(
        (
            "foreign_origin_refused",
            "admin_refused",
            "admin_operation",
            "verification_failed",
            "rate_limit_exceeded",
            "session_displaced",
        ),
        "127.0.0.1",
    )
    assert [line["event"] for line in hall.log if line["level"] == "info"] == [
        "server_start",
        "malformed_message",
        "server_stop",
    ]
    flood = next(line for line in hall.log if line["event"] == "rate_limit_exceeded")
    assert flood["messages"] == 11


async def test_what_agents_say_is_written_nowhere(tmp_path: Path) -> None:
    """Not in logs, files, metrics; not even what was refused (agentchat wire 20, row 57)."""
    word = f"tulip{urandom(8).hex()}"
    environment = {"MOOTHALL_ADMIN_KEY": ADMIN_KEY}
    flags = ("--log-level", "debug", "--set", "rate_message=0", "--set", "flood_closes=true")
    with running_hall(tmp_path, *flags, environment=environment) as hall:
        async with (
            await AgentChat.connect(hall.url, "alice", ALICE) as alice,
            await AgentChat.connect(hall.url) as bob,
        ):
            await alice.join("#general")
            await bob.join("#general")
            await alice.say("#general", f"{word} in a channel")
            await alice.say(bob.agent_id, f"{word} in private")
            await alice.say("#general", f"password = '{word}' and {ADMIN_KEY} and sk-ant-{word}{word}")
            await alice.say("#nowhere", word)
            await alice.say("#general", word * 200)
            await alice.say("#general", f"later @@cb:60s@@{word}")
            await alice.send(type="FILE_CHUNK", to=bob.agent_id, content=word)
            await alice.send(type="SET_PRESENCE", status="busy", status_text=word)
            await alice.send(type=word)
            await alice.send(type="JOIN", channel=word)
            await alice.send(type="SET_NICK", nick=f"{word} with spaces")
            await alice.send(type="VERIFY_REQUEST", target="@nobody00", nonce=word)
            await alice.send(type="ADMIN_KICK", agent_id=word, admin_key=ADMIN_KEY)
            await alice.send(type="ADMIN_MOTD", motd="x", admin_key=f"{word}")
            await alice.send_text(f'{{"type": "MSG", "content": "{word}')
            await alice.send_text(f"\x00\xff{word}".encode("latin-1"))
            await alice.send(type="REGISTER_SKILLS", skills=[{"capability": 7, "note": word}], sig=word)
            await alice.settle()
            await bob.settle()
            heard = "".join(bob.texts)
            assert f"{word} in private" in heard
            assert ADMIN_KEY not in heard + "".join(alice.texts)
            for _ in range(60):
                await alice.send(type="PING", padding=word)
            await alice.closed()
        await hall.get(f"/{word}?{word}", {"X-Admin-Key": word, "User-Agent": word})
        await hall.get("/api/connections", {"X-Admin-Key": word, "Cookie": word})
        await send_garbage(hall.port, f"{word} nonsense\r\n\r\n".encode())
        answers = [(await hall.get(path))[2] for path in ("/health", "/metrics")]
        assert hall.stop() == 0
    written = [path.read_bytes().decode("latin-1") for path in hall.data_dir.iterdir()]
    for text in (hall.stdout.text, hall.stderr.text, *written, *answers):
        assert word not in text
        assert ADMIN_KEY not in text
    assert written  # the key of alice, so that this looked at something


async def send_garbage(port: int, garbage: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(garbage)
    async with asyncio.timeout(5):
        assert b" 400 " in await reader.readline()
    writer.close()
    await writer.wait_closed()


async def test_logs_for_people(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--log-format", "console") as hall:
        line = await asyncio.to_thread(hall.stderr.wait_for, lambda line: "server_start" in line)
    assert line is not None
    assert not line.startswith("{")
    assert "\x1b" not in line  # not a terminal: no colours


# -- stopping ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [SIGTERM, SIGINT, SIGHUP])
async def test_a_stop_says_goodbye_to_everybody(tmp_path: Path, number: Signals) -> None:
    with running_hall(tmp_path) as hall:
        async with (
            await AgentChat.connect(hall.url, "alice", ALICE) as alice,
            await AgentChat.connect(hall.url) as bob,
            await AgentChat.open(hall.url) as stranger,
        ):
            await stranger.settle()
            await alice.send(type="FILE_CHUNK", to=bob.agent_id, content="x" * 200_000)
            await alice.settle()
            hall.process.send_signal(number)
            for agent in (alice, bob, stranger):
                assert await agent.closed() == (1001, "Server shutting down")
            assert len(bob.pending("FILE_CHUNK")[0]["content"]) == 200_000
        assert hall.wait() == 0
    assert [line["event"] for line in hall.log][-1] == "server_stop"


async def test_a_hall_that_is_to_outlive_its_terminal_does(tmp_path: Path) -> None:
    """`nohup moothall serve`."""
    before = signal(SIGHUP, SIG_IGN)
    try:
        hall = HallProcess(tmp_path)
        hall.start()
    finally:
        signal(SIGHUP, before)
    try:
        hall.process.send_signal(SIGHUP)
        async with await AgentChat.connect(hall.url) as agent:
            await agent.settle()
        assert hall.stop() == 0
    finally:
        hall.kill()


@pytest.mark.slow
async def test_a_stop_does_not_wait_for_those_who_do_not_answer(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        async with await AgentChat.connect(hall.url) as agent:
            agent.socket.transport.pause_reading()
            reader, writer = await asyncio.open_connection("127.0.0.1", hall.port)
            writer.write(b"GET / HTTP/1.1\r\n")
            start = monotonic()
            assert await asyncio.to_thread(hall.stop) == 0
            assert monotonic() - start < SECONDS_TO_STOP
            async with asyncio.timeout(5):
                with suppress(ConnectionResetError):
                    assert await reader.read() == b""
            writer.close()
            agent.cut()

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from moothall.keep import KeepClient, Packet, cache
from tests.keep.scripted import PATIENCE, reply, scripted

INFO = {"agents_online": 2, "uptime_sec": 9, "version": "0.5.0"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def cached(home: Path) -> list[dict[str, Any]]:
    content = json.loads((home / ".keep" / "endpoints.json").read_text())
    assert list(content) == ["endpoints"]
    entries: list[dict[str, Any]] = content["endpoints"]
    return entries


def write(home: Path, content: str) -> None:
    (home / ".keep").mkdir(exist_ok=True)
    (home / ".keep" / "endpoints.json").write_text(content)


def info(packet: Packet) -> list[Packet]:
    return [reply(packet, json.dumps(INFO))]


def test_a_server_is_remembered_in_its_place(home: Path) -> None:
    before = datetime.now(UTC)
    KeepClient.cache_endpoint("localhost", 9009, {})
    KeepClient.cache_endpoint("localhost", 9010, INFO)
    KeepClient.cache_endpoint("localhost", 9009, INFO)
    first, second = cached(home)
    assert list(first) == ["host", "port", "version", "agents_online", "last_seen"]
    assert (first["host"], first["port"], second["port"]) == ("localhost", 9009, 9010)
    assert (first["version"], first["agents_online"]) == ("0.5.0", 2)
    assert before <= datetime.fromisoformat(first["last_seen"]) <= datetime.now(UTC)
    text = (home / ".keep" / "endpoints.json").read_text()
    assert text.startswith('{\n  "endpoints": [\n    {\n      "host": "localhost",')
    assert [entry.name for entry in (home / ".keep").iterdir()] == ["endpoints.json"]


def test_what_is_not_known_has_a_default(home: Path) -> None:
    KeepClient.cache_endpoint("localhost", 9009, {})
    (entry,) = cached(home)
    assert (entry["version"], entry["agents_online"]) == ("", 0)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", '{"endpoints": 5}', '{"other": []}', pytest.param("[" * 60_000, id="deep")],
)
def test_a_broken_file_is_empty_for_writers_and_an_error_for_readers(home: Path, content: str) -> None:
    write(home, content)
    with pytest.raises(ConnectionError):
        KeepClient.from_cache()
    KeepClient.cache_endpoint("localhost", 9009, INFO)
    assert len(cached(home)) == 1


def test_without_a_file_there_is_nothing_to_connect_to() -> None:
    with pytest.raises(ConnectionError):
        KeepClient.from_cache()


def test_the_first_that_answers_is_taken_and_refreshed(home: Path) -> None:
    with scripted(info) as server, scripted(lambda packet: [reply(packet, "no JSON")]) as other:
        entries = [
            "nonsense",
            {"host": "127.0.0.1", "port": 1},
            {"host": 5, "port": "x"},
            {"port": 99_999},
            {"host": "127.0.0.1", "port": other.port},
            {"host": "127.0.0.1", "port": server.port, "colour": "red"},
        ]
        write(home, json.dumps({"endpoints": entries}))
        client = KeepClient.from_cache(src="bot:me", timeout=PATIENCE)
        assert (client.host, client.port, client.src) == ("127.0.0.1", server.port, "bot:me")
        assert client.timeout == PATIENCE
        packet = server.next_call().next()
        assert (packet.src, packet.dst) == ("bot:me", "discover:info")
        assert cached(home)[-1]["version"] == "0.5.0"
        with pytest.raises(RuntimeError):
            client.listen(print)  # not connected for good


@pytest.mark.parametrize("told", ["[1]", pytest.param("[" * 60_000, id="deep")])
def test_a_server_that_tells_something_else_is_passed_over(home: Path, told: str) -> None:
    with scripted(lambda packet: [reply(packet, told)]) as server:
        write(home, json.dumps({"endpoints": [{"host": "127.0.0.1", "port": server.port}]}))
        with pytest.raises(ConnectionError):
            KeepClient.from_cache(timeout=PATIENCE)


def test_a_home_that_cannot_be_written_is_no_reason_not_to_connect(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    with scripted(info) as server:
        KeepClient.cache_endpoint("127.0.0.1", server.port, INFO)
        monkeypatch.setattr(cache, "remember", full)
        assert KeepClient.from_cache(timeout=PATIENCE).port == server.port


def test_an_entry_without_host_and_port_means_the_usual_ones(home: Path) -> None:
    write(home, '{"endpoints": [{}]}')
    KeepClient.cache_endpoint("localhost", 9009, INFO)
    assert len(cached(home)) == 1


def test_when_nobody_answers(home: Path) -> None:
    write(home, '{"endpoints": [{"host": "127.0.0.1", "port": 1}]}')
    with pytest.raises(ConnectionError, match="answers"):
        KeepClient.from_cache()


def test_a_reader_never_sees_half_a_file(home: Path) -> None:
    KeepClient.cache_endpoint("localhost", 9009, INFO)

    def update(number: int) -> int:
        KeepClient.cache_endpoint("localhost", 9009, {**INFO, "version": str(number) * 5000})
        return len(cached(home))

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(update, range(40))) == {1}

"""A hall with a bus: from its settings to `/health` and `/metrics`. Real processes, NATS and PostgreSQL."""

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from moothall.bus.access import Access
from moothall.bus.opening import access_of, build_bus, name_node
from moothall.errors import UsageError
from moothall.settings import Settings
from moothall.settings.bus import NODE_NAME
from tests.bus.buses import Lines
from tests.store.server import Server
from tests.support.nats_server import NatsServer, free_port
from tests.support.server import PATIENCE, HallProcess, complaint, run_moothall, running_hall

PASSWORD = "the-password-of-the-bus"


@pytest.fixture(scope="module")
def database() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


async def health(hall: HallProcess) -> dict[str, object]:
    _, _, body = await hall.get("/health")
    report: dict[str, object] = json.loads(body)
    return report


async def logged(hall: HallProcess, event: str, times: int) -> None:
    """Wait until the hall has logged this event so many times."""
    seen = count(1)
    await asyncio.to_thread(
        hall.stderr.wait_for, lambda line: json.loads(line)["event"] == event and next(seen) == times
    )


async def reported(hall: HallProcess, bus: str) -> dict[str, object]:
    """Wait until /health says this of the bus."""
    async with asyncio.timeout(2 * PATIENCE):
        while (facts := await health(hall))["bus"] != bus:  # noqa: ASYNC110  # another process
            await asyncio.sleep(0.05)
    return facts


async def metric(hall: HallProcess, name: str) -> float:
    _, _, body = await hall.get("/metrics")
    (value,) = re.findall(rf"^{name} (\S+)$", body, re.MULTILINE)
    return float(value)


async def test_a_hall_says_how_its_bus_is_and_goes_on_without_it(tmp_path: Path, database: Server) -> None:
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    password.chmod(0o600)
    environment = {
        "MOOTHALL_STORE": database.new_database(),
        "MOOTHALL_BUS_USER": "hall",
        "MOOTHALL_BUS_PASSWORD_FILE": str(password),
        "MOOTHALL_NODE_NAME": "one",
    }
    config = f'authorization {{ user: hall, password: "{PASSWORD}" }}'
    with (
        NatsServer(tmp_path / "nats", config) as nats,
        running_hall(tmp_path, "--bus", nats.url, environment=environment) as hall,
    ):
        usual = await health(hall)
        assert (usual["status"], usual["bus"]) == ("healthy", "up")
        assert (await hall.logged("node_on_bus"))["node"] == "one"
        assert await metric(hall, "moothall_bus_up") == 1
        nats.kill()
        await logged(hall, "bus_down", 1)
        down = await health(hall)
        assert (down["status"], down["bus"]) == ("healthy", "down")
        assert down.keys() == usual.keys()
        assert await metric(hall, "moothall_bus_up") == 0
        shown = run_moothall(tmp_path, "health", hall.url).stdout
        assert re.search(r"^bus +down; nodes of this hall: 1$", shown, re.MULTILINE)
        nats.start()
        await logged(hall, "bus_up", 2)
        healed = await reported(hall, "up")
        changing = ("uptime_seconds", "timestamp")
        assert {**healed, **dict.fromkeys(changing)} == {**usual, **dict.fromkeys(changing)}
        assert await metric(hall, "moothall_bus_connections_total") == 2
        assert hall.stop() == 0
        assert PASSWORD not in hall.stderr.text + hall.stdout.text


async def test_a_node_whose_name_another_one_took_says_that_it_is_cut_off(
    tmp_path: Path, database: Server
) -> None:
    environment = {"MOOTHALL_STORE": database.new_database(), "MOOTHALL_NODE_NAME": "one"}
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
    with (
        NatsServer(tmp_path / "nats") as nats,
        running_hall(tmp_path / "first", "--bus", nats.url, environment=environment) as first,
    ):
        assert await reported(first, "up")
        with running_hall(tmp_path / "second", "--bus", nats.url, environment=environment) as second:
            assert await reported(second, "up")
            assert (await reported(first, "down"))["status"] == "healthy"
            assert await metric(first, "moothall_bus_up") == 0
            assert "node_name" in str((await first.logged("node_name_taken"))["advice"])
        assert await reported(first, "up")


async def test_a_hall_without_a_bus_says_nothing_of_one(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        assert "bus" not in await health(hall)
        _, _, body = await hall.get("/metrics")
        assert "moothall_bus" not in body


def test_a_bus_that_refuses_the_hall_keeps_it_from_starting(tmp_path: Path, database: Server) -> None:
    with NatsServer(tmp_path / "nats", "authorization { token: right }") as nats:
        environment = {
            "MOOTHALL_STORE": database.new_database(),
            "MOOTHALL_BUS": nats.url.replace("//", f"//{PASSWORD}@"),
        }
        ended = run_moothall(tmp_path, "serve", "--port", "0", "--keep-port", "0", environ=environment)
        assert ended.returncode == 2
        last = ended.stderr.splitlines()[-1]
        assert last.startswith(f"error: {nats.url}: NATS refuses the credentials of this node; check ")
        assert PASSWORD not in ended.stderr + ended.stdout
        shown = run_moothall(tmp_path, "config", environ=environment).stdout
        assert f"nats://***@127.0.0.1:{nats.port}" in shown
        assert PASSWORD not in shown


def test_a_bus_with_a_store_in_a_file_is_refused(tmp_path: Path) -> None:
    told = complaint(run_moothall(tmp_path, "serve", "--bus", f"nats://127.0.0.1:{free_port()}"))
    assert "--store postgresql://" in told
    assert "--nodes" in told


def test_a_missing_extra_is_told_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith(("nats", "moothall.bus.nats_bus"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "nats", None)
    with pytest.raises(UsageError, match=r"pip install 'moothall\[cluster\]'"):
        build_bus(Settings(bus=("nats://one",)), "hall", "node", Lines())


def test_a_password_without_a_user_is_a_token() -> None:
    assert access_of(Settings(bus_password="secret")) == Access(token="secret")
    assert access_of(Settings(bus_user="hall", bus_password="secret")) == Access(
        user="hall", password="secret"
    )


def test_a_node_without_a_name_gets_one_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert name_node(Settings(node_name="one")) == "one"
    for host in ("hall.example.org", "", "x" * 200, "ü"):
        monkeypatch.setattr("socket.gethostname", lambda host=host: host)
        names = {name_node(Settings()) for _ in range(5)}
        assert len(names) == 5
        assert all(NODE_NAME.fullmatch(name) for name in names)

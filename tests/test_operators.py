"""The operator's guide is true: its commands run against a real hall, and its unit is one that systemd takes."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from moothall import Agent, NotAllowed, PrivateKey, SyncAgent
from moothall.settings import Settings
from moothall.settings.fields import described
from tests.store.server import Server, find_binaries
from tests.support.agentchat import AgentChat
from tests.support.server import ADMIN_KEY, PATIENCE, PROGRAM, HallProcess, environment, running_hall

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "docs" / "operators.md").read_text()
UNIT = ROOT / "contrib" / "moothall.service"

ALICE = PrivateKey(bytes(range(32)))
BOB = PrivateKey(bytes(range(1, 33)))


def commands(name: str) -> str:
    """The shell block of the guide that is marked with this name."""
    found = re.search(rf"^<!-- run: {name} -->\n```sh\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    assert found, name
    return found[1]


def shell(folder: Path, script: str, **variables: str) -> str:
    ours = environment(**variables)
    ours["PATH"] = os.pathsep.join((str(Path(PROGRAM).parent), *_postgres(), ours["PATH"]))
    result = subprocess.run(
        ["sh", "-euc", script],
        cwd=folder,
        env=ours,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def _postgres() -> tuple[str, ...]:
    return (str(find_binaries()),)


def deal(url: str) -> str:
    """A deal that is made and completed; its id."""
    with SyncAgent(identity=ALICE, url=url) as alice, SyncAgent(identity=BOB, url=url) as bob:
        proposal = alice.propose(bob.id, "paint the shed")
        bob.accept(proposal.id)
        alice.complete(proposal.id)
        return proposal.id


def deals(url: str) -> list[str]:
    with SyncAgent(identity=ALICE, url=url) as alice:
        return [proposal.id for proposal in alice.proposals(open_only=False)]


# -- backup and restore ------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="the sqlite3 program is not installed")
def test_a_backup_of_a_running_hall_is_restored(tmp_path: Path) -> None:
    hall = HallProcess(tmp_path, "--no-limits", environment={"MOOTHALL_ADMIN_KEY": ADMIN_KEY})
    hall.start()
    try:
        before = deal(hall.url)
        with SyncAgent("op", url=hall.url) as operator:
            operator.admin(ADMIN_KEY).ban("deadbeef", "spam")
        key = hall.key
        assert shell(tmp_path, commands("backup")) == "no problems found\n"
        after = deal(hall.url)
        assert set(deals(hall.url)) == {before, after}
        hall.kill()
        assert shell(tmp_path, commands("restore")) == "no problems found\n"
        hall.restart()
        assert deals(hall.url) == [before]
        assert hall.key == key
        with SyncAgent("op", url=hall.url) as operator:
            assert [ban.agent_id for ban in operator.admin(ADMIN_KEY).bans().newest] == ["@deadbeef"]
    finally:
        hall.kill()


@pytest.fixture
def postgres() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


def test_a_backup_of_postgresql_is_restored(tmp_path: Path, postgres: Server) -> None:
    stores = []
    for name in ("original", "restored"):
        postgres.execute(f"CREATE DATABASE {name}")
        stores.append(postgres.url("moothall").replace("/postgres?", f"/{name}?"))
    original, restored = stores
    with running_hall(tmp_path, "--no-limits", environment={"MOOTHALL_STORE": original}) as hall:
        made = deal(hall.url)
        shell(tmp_path, commands("postgres backup"), MOOTHALL_STORE=original)
    assert shell(tmp_path, commands("postgres restore"), MOOTHALL_STORE=restored) == "no problems found\n"
    with running_hall(tmp_path, "--no-limits", environment={"MOOTHALL_STORE": restored}) as hall:
        assert deals(hall.url) == [made]


# -- certificates, the proxy, the allow list ---------------------------------------------------------------


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl program is not installed")
def test_the_certificate_is_taken_by_the_hall_and_its_clients(tmp_path: Path) -> None:
    make = commands("certificate").split("moothall serve")[0]
    shell(tmp_path, make)
    assert (tmp_path / "hall.key").stat().st_mode & 0o777 == 0o600
    with running_hall(tmp_path, "--cert", "hall.pem", "--key", "hall.key") as hall:
        url = hall.url.replace("127.0.0.1", "localhost")
        assert url.startswith("wss://")
        shown = shell(tmp_path, f"moothall health {url}", SSL_CERT_FILE="hall.pem")
        assert "healthy" in shown


async def test_behind_the_proxy_of_the_guide(tmp_path: Path) -> None:
    """With its settings, and the header that its proxies set, the hall knows its name and the client's address."""
    settings = re.search(r"```toml\n# moothall.toml\n(host = \"127.0.0.1\"\n.*?)```", GUIDE, re.DOTALL)
    assert settings
    (tmp_path / "moothall.toml").write_text(settings[1])
    with running_hall(tmp_path, environment={"MOOTHALL_ADMIN_KEY": ADMIN_KEY}) as hall:
        headers = {"X-Forwarded-For": "198.51.100.9, 203.0.113.7"}  # the client wrote the first one
        async with await AgentChat.open(hall.url, key=ALICE, headers=headers) as client:
            await client.identify()
            (challenge,) = [message for message in client.received if message["type"] == "CHALLENGE"]
            assert challenge["hall_host"] == "hall.example.org"
            _, _, body = await hall.get("/api/connections", {"X-Admin-Key": ADMIN_KEY})
            assert [connection["ip"] for connection in json.loads(body)["connections"]] == ["203.0.113.7"]


async def test_the_allow_list(tmp_path: Path) -> None:
    settings = ("--set", "allowlist=true")
    with running_hall(tmp_path, *settings, environment={"MOOTHALL_ADMIN_KEY": ADMIN_KEY}) as hall:
        with pytest.raises(NotAllowed):
            await Agent(identity=BOB).connect(hall.url)
        shown = shell(tmp_path, commands("allow list"), MOOTHALL_ADMIN_KEY=ADMIN_KEY, AGENTCHAT_URL=hall.url)
        assert shown.splitlines()[-1].endswith("the reviewer")
        async with Agent(identity=tmp_path / "alice.json").connected(hall.url) as alice:
            assert alice.verified


# -- the unit ----------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/moothall/bin/moothall", "/bin/true"))
    checked = subprocess.run(
        ["systemd-analyze", "verify", str(unit)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_unit_starts_a_hall(tmp_path: Path) -> None:
    """The command of the unit, with what systemd would put into the environment."""
    unit = dict(line.split("=", 1) for line in UNIT.read_text().splitlines() if re.match(r"[A-Z]\w+=", line))
    program, *arguments = unit["ExecStart"].split()
    assert program == "/opt/moothall/bin/moothall"
    assert arguments == ["serve", "--data-dir", "${STATE_DIRECTORY}"]
    name, _, value = unit["Environment"].partition("=")
    assert (name, value) == ("MOOTHALL_CONFIG", "/etc/moothall/moothall.toml")
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (tmp_path / "state").symlink_to(private)  # as systemd has it with DynamicUser
    (tmp_path / "settings.toml").write_text('server_name = "from the file"\n')
    flags = ("--data-dir", str(tmp_path / "state"))
    with running_hall(tmp_path, *flags, environment={name: "settings.toml"}) as hall:
        with SyncAgent("guest", url=hall.url) as guest:
            assert guest.server == "from the file"
        assert (private / "hall.db").exists()


def test_the_unit_is_hardened() -> None:
    lines = UNIT.read_text().splitlines()
    for line in (
        "DynamicUser=yes",
        "StateDirectory=moothall",
        "StateDirectoryMode=0700",
        "ProtectSystem=strict",
        "ProtectHome=yes",
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=",
    ):
        assert line in lines


# -- what the guide says about settings ----------------------------------------------------------------------


def test_the_defaults_in_the_guide_are_those_of_the_hall() -> None:
    limits = GUIDE.partition("## Limits")[2]
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \|", limits, re.MULTILINE)
    assert len(rows) > 5
    defaults = Settings()
    for name, value in rows:
        assert str(getattr(defaults, name)) == value, name


def test_every_setting_in_the_guide_exists() -> None:
    names = {entry.name for entry in described()}
    tables = re.findall(r"^```toml\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    used = {name for table in tables for name in re.findall(r"^(\w+) =", table, re.MULTILINE)}
    assert used
    assert used <= names

"""`moothall admin`: what the operator of a hall does from afar."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moothall import Agent, Budget, Kicked, NotAllowed, PrivateKey
from moothall.cli._admin_calls import admin_key
from moothall.errors import Banned, SettingsError
from moothall.identity import Identity, keyfile
from tests.client.meeting import settled, soon
from tests.support.server import ADMIN_KEY, HallProcess, complaint, run_moothall, running_hall

pytestmark = pytest.mark.slow

ALICE = PrivateKey(bytes(range(32)))
BOB = PrivateKey(bytes(range(1, 33)))
ALICE_ID = f"@{ALICE.public.agent_id()}"
WITH_KEY = {"MOOTHALL_ADMIN_KEY": ADMIN_KEY}


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[HallProcess]:
    flags = ("--no-limits", "--set", "allowlist=true", "--set", "allowlist_strict=false")
    with running_hall(tmp_path, *flags, environment={"AGENTCHAT_ADMIN_KEY": ADMIN_KEY}) as hall:
        yield hall


def admin(
    hall: HallProcess, *arguments: str, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    chosen = WITH_KEY if environ is None else environ
    return run_moothall(hall.folder, "admin", *arguments, "--url", hall.url, environ=chosen)


def done(hall: HallProcess, *arguments: str) -> str:
    result = admin(hall, *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def facts(hall: HallProcess, *arguments: str) -> Any:
    return json.loads(done(hall, *arguments, "--json"))


def refused(hall: HallProcess, *arguments: str, environ: dict[str, str] | None = None) -> str:
    result = admin(hall, *arguments, environ=environ)
    assert (result.returncode, result.stdout) == (4, ""), result
    assert result.stderr.count("\n") == 1
    return result.stderr


# -- each command ----------------------------------------------------------------------------------------


async def test_kick(hall: HallProcess) -> None:
    async with Agent("alice", identity=ALICE).connected(hall.url) as alice:
        assert done(hall, "kick", ALICE_ID, "too", "loud") == f"kicked {ALICE_ID}\n"
        with pytest.raises(Kicked, match="too loud"):
            await soon(alice.wait_closed())
    assert "AGENT_NOT_FOUND" in refused(hall, "kick", ALICE_ID)


async def test_ban_bans_and_unban(hall: HallProcess) -> None:
    result = admin(hall, "bans")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "no agent is banned\n")
    async with Agent("alice", identity=ALICE).connected(hall.url) as alice:
        assert facts(hall, "ban", ALICE_ID, "spam") == {"action": "ban", "agent_id": ALICE_ID}
        with pytest.raises(Banned, match="spam"):
            await soon(alice.wait_closed())
    row = done(hall, "bans").split()
    assert (row[0], row[-1]) == (ALICE_ID, "spam")
    listed = facts(hall, "bans")
    assert (listed["total"], listed["bans"][0]["key"]) == (1, ALICE.public.pem)
    assert done(hall, "unban", ALICE_ID.removeprefix("@")) == f"{ALICE_ID} is no longer banned\n"
    assert "`moothall admin bans`" in refused(hall, "unban", ALICE_ID)
    async with Agent("alice", identity=ALICE).connected(hall.url) as alice:
        assert alice.is_connected


def test_approve_allowlist_and_revoke(hall: HallProcess) -> None:
    result = admin(hall, "allowlist")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "the allow list is empty\n")
    (hall.folder / "alice.pem").write_text(ALICE.public.pem)
    keyfile.save(Identity(BOB, name="bob"), hall.folder / "bob.json")
    assert done(hall, "approve", "alice.pem", "--note", "a friend") == f"approved {ALICE_ID}\n"
    assert facts(hall, "approve", "bob.json")["agent_id"] == f"@{BOB.public.agent_id()}"
    rows = done(hall, "allowlist").splitlines()
    assert [row.split()[0] for row in rows] == [ALICE_ID, f"@{BOB.public.agent_id()}"]
    assert rows[0].endswith("a friend")
    assert facts(hall, "allowlist")[0]["note"] == "a friend"
    assert done(hall, "revoke", ALICE_ID) == f"{ALICE_ID} is no longer approved\n"
    assert done(hall, "revoke", "bob.json") == "bob.json is no longer approved\n"
    assert "`moothall admin allowlist`" in refused(hall, "revoke", ALICE_ID)


async def test_grant(hall: HallProcess) -> None:
    async with Agent("plain").connected(hall.url) as agent:
        assert done(hall, "grant", agent.id) == f"{agent.address} is shown as verified\n"
        await settled(agent)
        assert agent.verified
        assert facts(hall, "grant", agent.id, "--remove")["verified"] is False
        await settled(agent)
        assert not agent.verified


async def test_budget(hall: HallProcess) -> None:
    async with Agent("alice", identity=ALICE).connected(hall.url) as alice:
        assert done(hall, "budget", "set", "alice", "5000") == f"{ALICE_ID} may spend 5,000 tokens a day\n"
        before = ("--url", hall.url, "--json")  # options of the list, and of the command that follows
        told = run_moothall(hall.folder, "admin", "budget", *before, "total", "7000", environ=WITH_KEY)
        assert json.loads(told.stdout)["tokens"] == 7000
        assert "--day is for the list" in complaint(
            admin(hall, "budget", "--day", "2026-01-01", "total", "1")
        )
        await alice.report_budget(Budget(9000, 4000))
        (own,) = facts(hall, "budget")["keys"]
        assert (own["agent_id"], own["spent"], own["cap"], own["name"]) == (ALICE_ID, 4000, 5000, "alice")
        assert done(hall, "budget").splitlines() == [
            f"{ALICE_ID}  alice  4,000  5,000  1,000",
            "total      -      4,000  7,000  3,000",
        ]
        (hall.folder / "alice.pem").write_text(ALICE.public.pem)
        cleared = {"action": "set_budget", "agent_id": ALICE_ID, "tokens": None}
        assert facts(hall, "budget", "clear", "alice.pem") == cleared
        assert "has no cap" in refused(hall, "budget", "clear", ALICE_ID)
        assert "give either an agent or --total" in complaint(admin(hall, "budget", "clear"))
        listed = run_moothall(hall.folder, "agents", "--url", hall.url).stdout
        assert listed.rstrip().endswith("4,000 of 9,000")
        _, _, metrics = await hall.get("/metrics")
        assert "\nmoothall_tokens_spent_today 4000.0\n" in metrics
        assert '\nmoothall_budget_reports_total{outcome="counted"} 1.0\n' in metrics


async def test_motd(hall: HallProcess) -> None:
    async with Agent("alice").connected(hall.url) as agent:
        assert done(hall, "motd", "back", "at", "noon") == "the message of the day is set\n"
        await settled(agent)
        assert str(agent.motd) == "back at noon"
        assert facts(hall, "motd", "--clear") == {"action": "motd", "motd": None, "kick": False}
        await settled(agent)
        assert agent.motd is None
        lost = agent.wait_for("disconnect")
        assert "every connection is closed" in done(hall, "motd", "maintenance", "--kick")
        assert "Server maintenance" in str(await soon(lost))


# -- the key ---------------------------------------------------------------------------------------------


def test_the_key_may_be_in_a_file(hall: HallProcess) -> None:
    file = hall.folder / "admin.key"
    file.write_text(f"{ADMIN_KEY}\n")
    file.chmod(0o600)
    for arguments, environ in (
        (("--admin-key-file", "admin.key"), {}),
        ((), {"MOOTHALL_ADMIN_KEY_FILE": "admin.key"}),
        ((), {"AGENTCHAT_ADMIN_KEY": ADMIN_KEY}),
        (("--admin-key-file", "admin.key"), {"MOOTHALL_ADMIN_KEY": "wrong"}),
    ):
        assert admin(hall, "bans", *arguments, environ=environ).returncode == 0
    file.chmod(0o644)
    assert "chmod 600" in complaint(admin(hall, "bans", "--admin-key-file", "admin.key"))


def test_no_key_is_a_mistake_that_says_what_to_do(hall: HallProcess) -> None:
    text = complaint(admin(hall, "kick", ALICE_ID, environ={}))
    assert "MOOTHALL_ADMIN_KEY" in text
    assert "--admin-key-file" in text


def test_a_wrong_key(hall: HallProcess) -> None:
    text = refused(hall, "kick", ALICE_ID, environ={"MOOTHALL_ADMIN_KEY": "wrong"})
    assert "does not take this admin key" in text
    assert "MOOTHALL_ADMIN_KEY" in text
    assert "--identity" not in text
    assert "wrong" not in text


def test_no_flag_takes_the_key(hall: HallProcess) -> None:
    help_text = run_moothall(hall.folder, "admin", "kick", "--help").stdout
    assert "--admin-key-file" in help_text
    assert "--admin-key " not in help_text
    assert "No such option" in complaint(admin(hall, "kick", ALICE_ID, "--admin-key", "x"))


def test_where_the_key_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("from-file\n")
    file.chmod(0o600)
    everything = {
        "MOOTHALL_ADMIN_KEY": "first",
        "AGENTCHAT_ADMIN_KEY": "second",
        "MOOTHALL_ADMIN_KEY_FILE": str(file),
    }
    assert admin_key(file, everything) == "from-file"
    assert admin_key(None, everything) == "first"
    assert admin_key(None, {**everything, "MOOTHALL_ADMIN_KEY": ""}) == "second"
    assert admin_key(None, {"MOOTHALL_ADMIN_KEY_FILE": str(file)}) == "from-file"
    with pytest.raises(SettingsError, match="cannot be read"):
        admin_key(tmp_path / "missing", everything)


def test_the_key_is_not_sent_in_the_clear(tmp_path: Path) -> None:
    text = complaint(run_moothall(tmp_path, "admin", "bans", "-u", "ws://192.0.2.1:6667", environ=WITH_KEY))
    assert "without TLS" in text
    assert "--no-tls" in text


# -- mistakes --------------------------------------------------------------------------------------------


async def test_an_operator_comes_in_where_only_approved_keys_do(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--set", "allowlist=true", environment=WITH_KEY) as hall:
        with pytest.raises(NotAllowed):
            await Agent(identity=ALICE).connect(hall.url)
        (hall.folder / "alice.pem").write_text(ALICE.public.pem)
        done(hall, "approve", "alice.pem")
        async with Agent(identity=ALICE).connected(hall.url) as alice:
            assert alice.is_connected


def test_a_hall_without_an_allow_list_or_a_key(tmp_path: Path) -> None:
    with running_hall(tmp_path, environment=WITH_KEY) as hall:
        assert "The allow list is off; the operator turns it on with `allowlist`" in refused(
            hall, "allowlist"
        )
    with running_hall(tmp_path) as hall:
        assert "no admin key; the operator sets one with `admin_key`" in refused(hall, "bans")


def test_mistakes_in_arguments(tmp_path: Path) -> None:
    def wrong(*arguments: str) -> str:
        return complaint(run_moothall(tmp_path, "admin", *arguments, environ=WITH_KEY))

    assert "not an agent's id" in wrong("kick", "bob the builder")
    assert "either the message of the day or --clear" in wrong("motd")
    assert "either the message of the day or --clear" in wrong("motd", "x", "--clear")
    assert "No such file" in wrong("approve", "nowhere.pem")
    (tmp_path / "junk.pem").write_text("junk")
    assert "does not hold a public key" in wrong("approve", "junk.pem")

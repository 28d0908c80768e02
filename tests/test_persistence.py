"""What must survive: bans, approvals and the keys behind ids, through stops, kill -9 and damaged files."""

import json
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import UsageError
from moothall.hall.access import decode_allowlist, decode_bans
from moothall.hall.revocation import decode_notices
from moothall.identity import PrivateKey
from moothall.store.access_files import WRITTEN_FILE
from moothall.store.files import DataDirectory, replace
from moothall.store.former import KEYS_FILE
from moothall.store.hall_key import PUBLIC_FILE
from moothall.store.journal import JOURNAL_FILE
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.support.agentchat import AgentChat, Message, Refused
from tests.support.server import ADMIN_KEY, PLACE, HallProcess, complaint, run_moothall, running_hall
from tests.support.world import TWIN_ID, TWINS

ALICE_ID = ALICE.public.agent_id()
BOB_ID = BOB.public.agent_id()


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[HallProcess]:
    """A hall with an allow list that lets others in too, so that bans and approvals can be told apart."""
    flags = ("--set", "allowlist=true", "--set", "allowlist_strict=false", "--set", "verified_means=grant")
    hall = HallProcess(tmp_path, *flags, environment={"MOOTHALL_ADMIN_KEY": ADMIN_KEY})
    hall.start()
    yield hall
    hall.kill()


async def administer(hall: HallProcess, operation: str, **fields: str) -> Message:
    """An admin operation, acknowledged."""
    async with await AgentChat.open(hall.url) as admin:
        return await admin.ask("ADMIN_RESULT", type=operation, admin_key=ADMIN_KEY, **fields)


# -- acknowledged means on disk ------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_ban_survives_kill_9(hall: HallProcess) -> None:
    async with await AgentChat.connect(hall.url, "bob", BOB) as bob:
        result = await administer(hall, "ADMIN_BAN", agent_id=bob.agent_id, reason="spam")
        assert (result["action"], result["success"], result["agentId"]) == ("ban", True, f"@{BOB_ID}")
        assert (await bob.expect("BANNED"))["reason"] == "spam"
        assert await bob.closed() == (1000, "Banned by admin")
    hall.kill()
    hall.restart()
    async with await AgentChat.open(hall.url, "bob", BOB) as bob:
        with pytest.raises(Refused, match="BANNED: spam"):
            await bob.identify()
        assert await bob.closed() == (1000, "Banned")
    await administer(hall, "ADMIN_UNBAN", agent_id=BOB_ID)
    hall.kill()
    hall.restart()
    async with await AgentChat.connect(hall.url, "bob", BOB):
        pass


async def test_an_approval_survives_kill_9(hall: HallProcess) -> None:
    result = await administer(hall, "ADMIN_APPROVE", pubkey=ALICE.public.pem, note="founder")
    assert (result["action"], result["success"], result["agentId"]) == ("approve", True, f"@{ALICE_ID}")
    hall.kill()
    hall.restart()
    async with (
        await AgentChat.connect(hall.url, "alice", ALICE) as alice,
        await AgentChat.connect(hall.url, "bob", BOB) as bob,
    ):
        assert alice.welcome["verified"] is True
        assert bob.welcome["verified"] is False
    listed = await administer(hall, "ADMIN_LIST")
    assert (listed["enabled"], listed["strict"]) == (True, False)
    (entry,) = listed["entries"]
    assert (entry["agentId"], entry["note"]) == (f"@{ALICE_ID}", "founder")


async def test_what_workers_spent_and_their_caps_survive_kill_9(hall: HallProcess) -> None:
    async with await AgentChat.open(hall.url) as admin:
        await admin.ask("ADMIN_RESULT", type="ADMIN_SET_BUDGET", admin_key=ADMIN_KEY, tokens=100)
    async with await AgentChat.connect(hall.url, key=ALICE) as alice:
        for spent in (20, 100):
            report = {"limit": 1000, "spent": spent, "session": "s"}
            await alice.ask("ACK", type="SET_PRESENCE", budget=report, ref="r")
        hall.kill()
    hall.restart()
    async with await AgentChat.connect(hall.url, key=ALICE) as alice:
        await alice.ask("ACK", type="SET_PRESENCE", budget=report, ref="r")  # what is sent again adds nothing
        await alice.send(type="SET_PRESENCE", budget={**report, "spent": 101}, ref="r")
        assert "101 of 100 tokens" in (await alice.refusal())["message"]


async def test_a_list_that_cannot_be_saved_is_not_acknowledged(hall: HallProcess) -> None:
    (hall.data_dir / "hall.db").rename(hall.data_dir / "elsewhere.db")
    with pytest.raises(Refused, match="INTERNAL_ERROR"):
        await administer(hall, "ADMIN_BAN", agent_id=BOB_ID)
    await hall.logged("durable_command_failed")


async def test_what_could_not_be_taken_out_of_a_list_on_disk_is_when_it_is_ordered_again(
    hall: HallProcess,
) -> None:
    """Otherwise the next start brings back the approval that the operator withdrew."""
    await administer(hall, "ADMIN_BAN", agent_id=BOB_ID)
    await administer(hall, "ADMIN_APPROVE", pubkey=ALICE.public.pem)
    orders = {"bans": ("ADMIN_UNBAN", BOB_ID), "allowlist": ("ADMIN_REVOKE", ALICE_ID)}
    database, elsewhere = hall.data_dir / "hall.db", hall.data_dir / "elsewhere.db"
    for operation, agent_id in orders.values():
        database.rename(elsewhere)
        for _ in range(2):
            with pytest.raises(Refused, match="INTERNAL_ERROR"):
                await administer(hall, operation, agent_id=agent_id)
        elsewhere.rename(database)
        assert (await administer(hall, operation, agent_id=agent_id))["success"]
        with pytest.raises(Refused, match="AGENT_NOT_FOUND"):
            await administer(hall, operation, agent_id=agent_id)
    hall.stop()
    for name in orders:
        assert json.loads((hall.data_dir / f"{name}.json").read_bytes()) == []


async def test_a_message_of_the_day_survives_kill_9_and_an_empty_one_brings_back_the_setting(
    tmp_path: Path,
) -> None:
    hall = HallProcess(tmp_path, "--set", "motd=be kind", environment={"MOOTHALL_ADMIN_KEY": ADMIN_KEY})
    hall.start()
    try:
        await administer(hall, "ADMIN_MOTD", motd="tea at five \ud800")
        hall.kill()
        hall.restart()
        async with await AgentChat.connect(hall.url, "alice", ALICE) as alice:
            assert alice.welcome["motd"] == "tea at five \ud800"
        await hall.logged("motd_not_shown")
        await administer(hall, "ADMIN_MOTD", motd="")
        hall.kill()
        hall.restart()
        async with await AgentChat.connect(hall.url, "alice", ALICE) as alice:
            assert alice.welcome["motd"] == "be kind"
    finally:
        hall.kill()


# -- lists that are edited by hand ---------------------------------------------------------------------


async def test_what_an_operator_edits_while_the_hall_is_down_counts_at_the_next_start(
    hall: HallProcess,
) -> None:
    await administer(hall, "ADMIN_BAN", agent_id=BOB_ID, reason="spam")
    await administer(hall, "ADMIN_APPROVE", pubkey=ALICE.public.pem)
    hall.stop()
    bans, approved = hall.data_dir / "bans.json", hall.data_dir / "allowlist.json"
    assert [ban["agentId"] for ban in json.loads(bans.read_bytes())] == [BOB_ID]
    bans.write_text(json.dumps([{"agentId": CAROL.public.fingerprint, "reason": "by hand"}]))
    approved.write_text(json.dumps([{"pubkey": BOB.public.pem}]))
    hall.restart()
    imported = [line for line in hall.log if line["event"] == "access_list_imported"]
    assert {(line["file"], line["entered"], line["struck"]) for line in imported} == {
        ("bans.json", 1, 1),
        ("allowlist.json", 1, 1),
    }
    async with await AgentChat.connect(hall.url, "bob", BOB) as bob:
        assert bob.welcome["verified"] is True
    async with await AgentChat.connect(hall.url, "alice", ALICE) as alice:
        assert alice.welcome["verified"] is False
    with pytest.raises(Refused, match="BANNED: by hand"):
        await AgentChat.connect(hall.url, "carol", CAROL)
    hall.kill()
    hall.restart()
    assert not any(line["event"] == "access_list_imported" for line in hall.log)
    with pytest.raises(Refused, match="BANNED: by hand"):
        await AgentChat.connect(hall.url, "carol", CAROL)


async def test_a_list_that_is_missing_is_made_anew_and_lifts_no_ban(hall: HallProcess) -> None:
    await administer(hall, "ADMIN_BAN", agent_id=BOB_ID)
    hall.stop()
    (hall.data_dir / "bans.json").unlink()
    hall.restart()
    with pytest.raises(Refused, match="BANNED"):
        await AgentChat.connect(hall.url, "bob", BOB)
    hall.stop()
    assert [ban["agentId"] for ban in json.loads((hall.data_dir / "bans.json").read_bytes())] == [BOB_ID]


async def test_a_new_store_takes_the_lists_that_the_former_one_left(hall: HallProcess) -> None:
    await administer(hall, "ADMIN_BAN", agent_id=BOB_ID)
    hall.stop()
    (hall.data_dir / "hall.db").unlink()
    hall.restart()
    with pytest.raises(Refused, match="BANNED"):
        await AgentChat.connect(hall.url, "bob", BOB)


async def test_a_data_directory_is_one_halls(hall: HallProcess) -> None:
    """Two would each write their own list over the other's, and lift its bans with the next restart."""
    second = run_moothall(hall.folder, "serve", *PLACE, "--data-dir", "data")
    assert second.returncode == 2
    assert "another hall" in second.stderr
    assert "--data-dir" in second.stderr
    hall.kill()
    hall.restart()


async def test_an_id_stays_with_its_first_key(hall: HallProcess) -> None:
    """Through kill -9, from the moment that WELCOME arrives."""
    async with await AgentChat.connect(hall.url, "first", TWINS[0]) as first:
        assert first.agent_id == f"@{TWIN_ID}"
        hall.kill()
    hall.restart()
    async with await AgentChat.open(hall.url, "second", TWINS[1]) as second:
        with pytest.raises(Refused, match=f"NOT_ALLOWED: The id {TWIN_ID}"):
            await second.identify()
        await second.settle()
    assert (await hall.logged("id_collision"))["ip"] == "127.0.0.1"
    async with await AgentChat.connect(hall.url, "first", TWINS[0]) as first:
        assert first.agent_id == f"@{TWIN_ID}"


async def test_the_keys_that_a_former_version_knew_are_taken_over(tmp_path: Path) -> None:
    book = tmp_path / "data" / KEYS_FILE
    book.parent.mkdir()
    # Two keys with one id take 2**32 tries to find; writing down that the id was another's takes none.
    book.write_text(f"{ALICE_ID} {BOB.public.raw.hex()}\n")
    with running_hall(tmp_path) as hall:
        with pytest.raises(Refused, match="NOT_ALLOWED"):
            await AgentChat.connect(hall.url, "alice", ALICE)
        async with await AgentChat.connect(hall.url, "bob", BOB):
            pass
    assert not book.exists()
    assert book.with_name(f"{KEYS_FILE}.before-import").exists()


async def test_new_keys_of_one_address_are_limited(tmp_path: Path) -> None:
    """Loopback has a hundred times as many; behind a proxy that is trusted, each client has its own."""
    flags = ("--set", "new_keys_per_hour=1", "--set", "trusted_proxies=127.0.0.1")
    with running_hall(tmp_path, *flags) as hall:

        async def come(name: str, key: PrivateKey, ip: str) -> None:
            headers = {"X-Forwarded-For": ip}
            async with await AgentChat.open(hall.url, name, key, headers=headers) as agent:
                await agent.identify()

        await come("alice", ALICE, "192.0.2.1")
        with pytest.raises(Refused, match="RATE_LIMITED: Too many new keys"):
            await come("bob", BOB, "192.0.2.1")
        await come("alice", ALICE, "192.0.2.1")
        await come("bob", BOB, "192.0.2.2")
        await come("bob", BOB, "192.0.2.1")
        for key in (CAROL, *TWINS[:1]):
            async with await AgentChat.connect(hall.url, "local", key):
                pass


async def test_files_are_for_the_operator_only(hall: HallProcess) -> None:
    await administer(hall, "ADMIN_BAN", agent_id=BOB_ID)
    await administer(hall, "ADMIN_APPROVE", pubkey=ALICE.public.pem)
    async with await AgentChat.connect(hall.url, "alice", ALICE):
        pass
    assert hall.stop() == 0
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in hall.data_dir.iterdir()}
    assert set(files.values()) == {0o600}
    assert files.keys() == {
        "bans.json",
        "allowlist.json",
        "hall.db",
        WRITTEN_FILE,
        JOURNAL_FILE,
        PUBLIC_FILE,
        "ratings.json",
        "receipts.jsonl",
    }
    assert stat.S_IMODE(hall.data_dir.stat().st_mode) == 0o700


# -- what the reference left behind (agentchat wire 16, 17.3) ------------------------------------------


async def test_the_lists_of_the_reference_are_taken_over(tmp_path: Path) -> None:
    bans = [{"agentId": BOB.public.fingerprint, "reason": "spam", "bannedAt": "2026-01-02T03:04:05.678Z"}]
    approvals = [
        {
            "pubkey": ALICE.public.pem,
            "agentId": ALICE.public.fingerprint,
            "approvedAt": "2026-01-02T03:04:05.678Z",
            "approvedBy": "admin",
            "note": "",
        }
    ]
    (tmp_path / "bans.json").write_text(json.dumps(bans, indent=2))
    (tmp_path / "allowlist.json").write_text(json.dumps(approvals, indent=2))
    environment = {"ALLOWLIST_ENABLED": "true", "AGENTCHAT_ADMIN_KEY": ADMIN_KEY}
    hall = HallProcess(tmp_path, "--profile", "agentchat-0.36", environment=environment)
    hall.start()
    try:
        async with await AgentChat.connect(hall.url, "alice", ALICE) as alice:
            assert alice.welcome["verified"] is True
        with pytest.raises(Refused, match="BANNED"):
            await AgentChat.connect(hall.url, "bob", BOB)
        await administer(hall, "ADMIN_BAN", agent_id=CAROL.public.fingerprint)
        hall.stop()
    finally:
        hall.kill()
    assert json.loads((tmp_path / "bans.json").read_text()) == bans
    ours = json.loads((hall.data_dir / "bans.json").read_text())
    assert [ban["agentId"] for ban in ours] == [BOB.public.fingerprint, CAROL.public.fingerprint]


# -- damage --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("bans.json", b""),
        ("allowlist.json", b'[{"pubkey": "'),
        ("bans.json", b"\xff\xfe"),
        ("bans.json", b"{}"),
        ("allowlist.json", b"[null]"),
        ("bans.json", b'[{"agentId": 7}]'),
        ("allowlist.json", b'[{"pubkey": "x", "\\ud800": 1}]'),
        ("bans.json", b'[{"agentId": "x", "\\ud800": 1}]'),
        ("revoked.json", b'[{"pubkey": "x", "\\ud800": 1}]'),
        ("revoked.json", b"\0"),
        ("allowlist.json", b"[" * 100_000),
    ],
    ids=[
        "empty",
        "torn",
        "not UTF-8",
        "not a list",
        "null",
        "wrong type",
        "half a character, approved",
        "half a character, banned",
        "half a character, revoked",
        "NUL",
        "nested",
    ],
)
def test_a_damaged_list_is_one_line_and_exit_code_2(tmp_path: Path, name: str, content: bytes) -> None:
    """A hall that opened with half a ban list would let the banned in."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / name).write_bytes(content)
    result = run_moothall(tmp_path, "serve", "--port", "0", "--data-dir", "data")
    told = complaint(result)
    assert told.startswith(f"data/{name}: ")
    assert told.endswith("; repair it, or restore it from a backup")


@pytest.mark.parametrize("what", ["a directory", "a pipe", "a link to nowhere"])
@pytest.mark.parametrize("name", ["allowlist.json", "bans.json", "revoked.json", "ratings.json"])
def test_what_is_no_file_is_one_line_and_exit_code_2(tmp_path: Path, name: str, what: str) -> None:
    """A hall that took it for a missing file would start without the list."""
    (tmp_path / "data").mkdir(mode=0o700)
    place = tmp_path / "data" / name
    match what:
        case "a directory":
            place.mkdir()
        case "a pipe":
            os.mkfifo(place)
        case _:
            place.symlink_to(tmp_path / "unmounted" / name)
    result = run_moothall(tmp_path, "serve", "--port", "0", "--data-dir", "data")
    told = complaint(result)
    assert told.startswith(f"data/{name}: ")
    assert told.endswith("; repair it, or restore it from a backup")


def test_a_damaged_database_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "hall.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    result = run_moothall(tmp_path, "serve", "--port", "0", "--data-dir", "data")
    told = complaint(result)
    assert told.startswith("data/hall.db: ")
    assert told.endswith("; restore it from a backup, or move it away to begin anew")


ANY_TEXT = st.sampled_from(["pubkey", "agentId", "reason", ALICE.public.pem]) | st.text(
    st.characters(codec=None)
)
ODD_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.parametrize("decode", [decode_allowlist, decode_bans, decode_notices])
@given(content=st.binary() | st.lists(ODD_JSON).map(json.dumps).map(str.encode))
def test_no_content_of_a_list_raises_anything_else(decode: Callable[[bytes], object], content: bytes) -> None:
    with suppress(UsageError):
        decode(content)


# -- other users of the machine ------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o720, 0o702, 0o1777, 0o2775])
def test_a_data_directory_that_others_can_write_to_is_refused_with_the_remedy(
    tmp_path: Path, mode: int
) -> None:
    place = tmp_path / "the data"
    place.mkdir()
    place.chmod(mode)
    told = complaint(run_moothall(tmp_path, "serve", "--port", "0", "--data-dir", "the data"))
    remedy = told.partition("run: ")[2]
    assert remedy == "chmod go-w 'the data'"
    subprocess.run(["/bin/sh", "-c", remedy], cwd=tmp_path, check=True)
    DataDirectory(place)


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755])
def test_one_that_others_can_read_is_not(tmp_path: Path, mode: int) -> None:
    place = tmp_path / "data"
    place.mkdir()
    place.chmod(mode)
    DataDirectory(place)


@pytest.mark.parametrize("write", ["write", "replace"])
def test_a_file_in_the_making_follows_no_link(tmp_path: Path, write: str) -> None:
    directory = DataDirectory(tmp_path / "data")
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (directory.path / ".bans.json.new").symlink_to(victim)
    if write == "write":
        directory.write("bans.json", b"[]")
    else:
        replace(directory.path / "bans.json", [b"[]"])
    assert victim.read_bytes() == b"precious"
    assert directory.read("bans.json") == b"[]"
    assert not (directory.path / "bans.json").is_symlink()
    assert [path.name for path in directory.path.iterdir()] == ["bans.json"]
    assert (directory.path / "bans.json").stat().st_mode & 0o777 == 0o600


class Heeded:
    def __init__(self) -> None:
        self.warnings: list[tuple[str, object]] = []

    def info(self, event: str, **facts: object) -> None:
        pass

    def warning(self, event: str, **facts: object) -> None:
        self.warnings.append((event, facts["file"]))


@pytest.mark.parametrize("how", ["writable by others", "a link", "a pipe", "of another user"])
def test_a_list_of_the_folder_above_that_others_may_have_made_is_ignored(tmp_path: Path, how: str) -> None:
    log = Heeded()
    directory = DataDirectory(tmp_path / "data", log)
    above = tmp_path / "bans.json"
    above.write_bytes(b'[{"agentId": "x"}]')
    adopted = directory.read_list("bans.json", decode_bans)
    assert adopted is not None
    assert len(adopted) == 1
    match how:
        case "writable by others":
            above.chmod(0o666)
        case "a link":
            above.rename(tmp_path / "elsewhere.json")
            above.symlink_to(tmp_path / "elsewhere.json")
        case "a pipe":
            above.unlink()
            os.mkfifo(above)
        case _:
            directory._owner += 1  # as if the data directory were another user's: only root could make it so
    assert directory.read_list("bans.json", decode_bans) is None
    assert log.warnings == [("foreign_list_ignored", str(above))]


def test_an_approval_that_is_no_key_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "allowlist.json").write_text('[{"pubkey": "no key"}]')
    result = run_moothall(tmp_path, "serve", "--port", "0", "--data-dir", "data")
    assert complaint(result).startswith("allowlist.json: ")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path / "data")
    directory.write("bans.json", b"[]")
    (tmp_path / "data" / "allowlist.json").mkdir()
    with pytest.raises(IsADirectoryError):
        directory.write("allowlist.json", b"[]")
    assert directory.read("bans.json") == b"[]"
    with pytest.raises(UsageError, match=r"allowlist\.json"):
        directory.read("allowlist.json")
    assert sorted(path.name for path in directory.path.iterdir()) == ["allowlist.json", "bans.json"]

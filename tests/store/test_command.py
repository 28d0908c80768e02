"""`moothall store upgrade|check|export|key`."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from moothall.cli.store import app
from moothall.hall.common import BANS
from moothall.identity import Identity, save
from moothall.identity.seals import key_id
from moothall.store.schema import VERSION
from tests.store.support import ALICE, Place, full_deal, propose, register, run
from tests.store.test_migrations import NEXT, release
from tests.support.server import PLACE, complaint, run_moothall, running_hall

pytestmark = pytest.mark.slow


def invoke(place: Place, *arguments: str) -> Any:
    where = ["--store", place.url] if place.url else ["--data-dir", str(place.directory.path)]
    return CliRunner().invoke(app, [*arguments, *where])


async def used(place: Place) -> None:
    async with place.opened() as store:
        await full_deal(store, "prop_1")
        await run(store, register(ALICE, {"capability": "review"}))


async def test_check_of_a_store_in_order_says_so(place: Place) -> None:
    await used(place)
    result = invoke(place, "check")
    assert result.output == "no problems found\n"
    assert result.exit_code == 0


async def test_check_while_a_hall_is_running(place: Place) -> None:
    async with place.opened() as store:
        await full_deal(store, "prop_1")
        assert invoke(place, "check").exit_code == 0
        await run(store, propose("prop_2"))


async def test_check_prints_each_problem_and_exits_with_1(place: Place) -> None:
    await used(place)
    with place.connected() as connection:
        connection.execute("UPDATE proposals SET is_open = 1")
        connection.execute("UPDATE standings SET transactions = 7")
    result = invoke(place, "check")
    assert len(result.output.splitlines()) == 3
    assert result.exit_code == 1


async def test_upgrade_of_a_current_store_changes_nothing(place: Place) -> None:
    await used(place)
    result = invoke(place, "upgrade")
    assert f"version {VERSION} already" in result.output
    assert result.exit_code == 0


async def test_upgrade_takes_an_older_store_further(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    await used(place)
    release(monkeypatch, NEXT)
    monkeypatch.setattr("moothall.cli.store.VERSION", len(NEXT))
    assert invoke(place, "upgrade").output == f"upgraded the store from version {VERSION} to {VERSION + 1}\n"
    assert place.select("SELECT DISTINCT note FROM meta") == [("kept",)]
    assert invoke(place, "check").exit_code == 0


@pytest.mark.parametrize("command", ["check", "export", "upgrade"])
def test_where_there_is_no_store_nothing_is_made(place: Place, command: str) -> None:
    result = invoke(place, command)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert "there is no store" in result.stderr
    assert not (place.directory.path / "hall.db").exists()


async def test_export_writes_everything_one_object_per_line(place: Place, tmp_path: Path) -> None:
    await used(place)
    target = tmp_path / "export.jsonl"
    assert invoke(place, "export", "--output", str(target)).exit_code == 0
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    by_table: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        by_table.setdefault(line.pop("table"), []).append(line)
    assert by_table.keys() == {
        "meta",
        "keys",
        "proposals",
        "standings",
        "registrations",
        "offers",
        "postings",
        "audit",
        "receipts",
        "rating_history",
        "hooks",
    }
    (deal,) = by_table["proposals"]
    assert deal["record"]["task"] == "Review it"
    assert deal["proposer"] == ALICE.public.raw.hex()
    assert [row["operation"] for row in by_table["audit"]] == [
        "propose",
        "accept",
        "complete",
        "register_skills",
    ]
    assert sum(row["amount"] for row in by_table["postings"]) == 0
    assert by_table["receipts"][0]["body"]["type"] == "COMPLETE"


async def test_export_to_standard_output(place: Place) -> None:
    await used(place)
    result = invoke(place, "export")
    assert all(json.loads(line)["table"] for line in result.stdout_bytes.splitlines())
    assert result.exit_code == 0


async def test_export_to_nowhere_is_one_line(place: Place) -> None:
    await used(place)
    result = invoke(place, "export", "--output", "/nowhere/export.jsonl")
    assert result.exit_code == 2
    assert result.stderr == "error: /nowhere/export.jsonl: No such file or directory\n"


# -- the hall's key ------------------------------------------------------------------------------------


def shown(folder: Path, *arguments: str) -> dict[str, str]:
    result = run_moothall(folder, "store", "key", "--data-dir", "data", *arguments)
    assert result.returncode == 0, result.stderr
    first, second, third = result.stdout.splitlines()
    assert (first[:8], second[:8], third[:8]) == ("key     ", "key id  ", "kept    ")
    return {"key": first[8:], "id": second[8:], "kept": third[8:]}


def secret_file(folder: Path, name: str, secret: str) -> str:
    path = folder / name
    path.write_text(secret)
    path.chmod(0o600)
    return name


def test_the_key_is_shown_replaced_and_encrypted(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        first = hall.key
        hall.stop()
    assert shown(tmp_path) == {"key": first.raw.hex(), "id": key_id(first), "kept": "plain"}
    secret_file(tmp_path, "one.txt", "the first secret, long enough")
    secret_file(tmp_path, "two.txt", "the second secret, long enough")
    assert shown(tmp_path, "--secret-file", "one.txt")["kept"] == "encrypted"
    for name, said in (("two.txt", "does not hold the secret"), (None, "is encrypted")):
        named = () if name is None else ("--set", f"store_secret_file={name}")
        refused = run_moothall(tmp_path, "serve", *PLACE, "--data-dir", "data", *named)
        assert said in complaint(refused)
    settings = tmp_path / "moothall.toml"
    settings.write_text('store_secret_file = "one.txt"')
    with running_hall(tmp_path) as hall:
        assert hall.key == first
        hall.stop()
    assert shown(tmp_path, "--secret-file", "two.txt")["key"] == first.raw.hex()
    settings.write_text('store_secret_file = "two.txt"')
    second = shown(tmp_path, "--new")
    assert second["kept"] == "encrypted"
    with running_hall(tmp_path) as hall:
        assert hall.key.raw.hex() == second["key"] != first.raw.hex()
        hall.stop()
    save(Identity(ALICE), tmp_path / "backup.json")
    assert shown(tmp_path, "--take", "backup.json")["key"] == ALICE.public.raw.hex()


def test_what_makes_no_sense_about_a_key_is_one_line(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        hall.stop()
    secret_file(tmp_path, "short.txt", "too short")
    for arguments, said in (
        (("--new", "--take", "x.json"), "choose one"),
        (("--take", "x.json"), "x.json"),
        (("--secret-file", "short.txt"), "at least 16 characters"),
        (("--secret-file", "none.txt"), "none.txt"),
    ):
        result = run_moothall(tmp_path, "store", "key", "--data-dir", "data", *arguments)
        assert said in complaint(result)


def test_an_export_does_not_hold_the_private_key(tmp_path: Path) -> None:
    with running_hall(tmp_path) as hall:
        hall.stop()
    exported = run_moothall(tmp_path, "store", "export", "--data-dir", "data")
    assert exported.returncode == 0
    assert '"created_by"' in exported.stdout
    assert "PRIVATE KEY" not in exported.stdout


async def test_an_export_holds_what_halls_have_in_common(place: Place) -> None:
    async with place.opened() as store:
        await run(store, lambda books: books.enlist(BANS, b"\1", b'{"agentId": "x"}'))
        await run(store, lambda books: books.pin([("y", b"\2")]))
    lines = [json.loads(line) for line in invoke(place, "export").stdout_bytes.splitlines()]
    assert {"table": "common", "list": "bans", "name": "01", "record": {"agentId": "x"}} in lines
    assert {"table": "pins", "identity": "y", "key": "02"} in lines

"""A hall that takes its file along to PostgreSQL: `moothall store move`."""

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from moothall.cli.store import app
from moothall.errors import UsageError
from moothall.store import moving
from moothall.store.checks import problems
from moothall.store.export import exported
from moothall.store.files import DataDirectory
from moothall.store.hall_key import stored_key
from moothall.store.journal import KeyJournal
from moothall.store.opening import read_hall_key
from tests.store.support import ALICE, BOB, Log, Place, full_deal, propose, register, run

pytestmark = pytest.mark.slow


def move(file: Place, database: Place) -> Any:
    where = ["--data-dir", str(file.directory.path), "--store", database.url]
    return CliRunner().invoke(app, ["move", *where])


def refused(file: Place, database: Place) -> str:
    result = move(file, database)
    assert result.exit_code == 2
    return str(result.stderr)


async def used(file: Place) -> None:
    async with file.opened() as store:
        read_hall_key(file.directory, "", "", lambda size: b"k" * size, Log())
        for number in range(3):
            await full_deal(store, f"prop_{number}")
        await run(store, register(ALICE, {"capability": "review"}))
        await run(store, propose("prop_open"))


def rows(place: Place) -> list[bytes]:
    with place.connected() as connection:
        return sorted(exported(connection))


async def test_all_of_it_is_there_and_the_hall_goes_on(
    sqlite: Place, postgres: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "BATCH", 2)
    await used(sqlite)
    result = move(sqlite, postgres)
    assert result.exit_code == 0, result.output
    assert re.fullmatch(r"copied \d+ rows; start the hall with this store.*\n", result.output)
    assert rows(postgres) == rows(sqlite)
    assert len(rows(postgres)) > 20
    with sqlite.connected() as file, postgres.connected() as database:
        assert stored_key(database) == stored_key(file) is not None
    async with postgres.opened() as store:
        await full_deal(store, "prop_later")  # its numbers follow those of the file
        await run(store, register(BOB, {"capability": "paint"}))
    with postgres.connected() as connection:
        assert list(problems(connection)) == []
        with pytest.raises(connection.errors, match="append-only"):
            connection.execute("DELETE FROM audit")


async def test_a_database_that_has_a_hall_is_refused(sqlite: Place, postgres: Place, tmp_path: Path) -> None:
    await used(sqlite)
    other = Place(DataDirectory(tmp_path / "other"), postgres.url, Log())
    async with other.opened() as store:
        await full_deal(store, "prop_other")
    before = rows(other)
    assert "has a store of a hall already" in refused(sqlite, postgres)
    assert rows(other) == before


async def test_it_is_for_a_hall_that_was_stopped(sqlite: Place, postgres: Place) -> None:
    await used(sqlite)
    running = DataDirectory(sqlite.directory.path)
    running.claim()
    assert "stop it first" in refused(sqlite, postgres)
    running.release()
    assert move(sqlite, postgres).exit_code == 0


async def test_keys_that_are_only_in_the_journal_come_along(sqlite: Place, postgres: Place) -> None:
    """A hall that was killed leaves them there, and one that was stopped leaves copies of what its file has."""
    await used(sqlite)
    journal = KeyJournal(sqlite.directory)
    journal.write("0a1b2c3d", bytes(32))
    journal.close()
    assert move(sqlite, postgres).exit_code == 0
    with postgres.connected() as connection:
        found = connection.execute("SELECT key FROM bindings WHERE id = ?", ("0a1b2c3d",)).fetchone()
    assert found is not None
    assert bytes(found[0]) == bytes(32)


async def test_a_move_that_fails_leaves_an_empty_database(
    sqlite: Place, postgres: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await used(sqlite)

    def failing(*_: object) -> int:
        raise UsageError("the disk is full")

    monkeypatch.setattr(moving, "_last_number", failing)
    assert "the disk is full" in refused(sqlite, postgres)
    monkeypatch.undo()
    assert move(sqlite, postgres).exit_code == 0


def test_without_a_database_it_asks_for_one(sqlite: Place) -> None:
    result = CliRunner().invoke(app, ["move", "--data-dir", str(sqlite.directory.path)])
    assert result.exit_code == 2
    assert "where to? add --store" in result.stderr


async def test_a_hall_does_not_begin_anew_beside_its_file(
    sqlite: Place, postgres: Place, tmp_path: Path
) -> None:
    await used(sqlite)
    forgetful = Place(sqlite.directory, postgres.url, Log())
    with pytest.raises(UsageError, match="`moothall store move` copies them"):
        async with forgetful.opened():
            pass
    assert move(sqlite, postgres).exit_code == 0
    async with forgetful.opened() as store:
        await full_deal(store, "prop_later")

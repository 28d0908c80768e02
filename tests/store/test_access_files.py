"""`allowlist.json` and `bans.json` beside the store: what is written, and which edits count."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from moothall.hall.access import Approval, Ban, encode_entry
from moothall.hall.common import ALLOWLIST, BANS
from moothall.store import access_files, files
from moothall.store.access_files import WRITTEN_FILE, AccessMirror
from moothall.store.common import alter
from moothall.store.dialect import Connection
from tests.store.support import ALICE, Place


@pytest.fixture
def store(place: Place) -> Iterator[Connection]:
    with place.books():
        pass
    with place.connected() as connection:
        yield connection


def ban(place: Place, *ids: str) -> None:
    with place.books() as books:
        for agent_id in ids:
            entry = Ban(agent_id=agent_id)
            books.enlist(BANS, entry.name, encode_entry(entry))


def lift(place: Place, agent_id: str) -> None:
    with place.books() as books:
        books.strike(BANS, [Ban(agent_id=agent_id).name])


def stored(place: Place) -> list[str]:
    with place.books() as books:
        return [json.loads(record)["agentId"] for record in books.listed(BANS)]


def path(place: Place, name: str = "bans.json") -> Path:
    return place.directory.path / name


def shown(place: Place) -> list[str]:
    return [entry["agentId"] for entry in json.loads(path(place).read_bytes())]


def edit(place: Place, *ids: str) -> None:
    path(place).write_text(json.dumps([{"agentId": agent_id} for agent_id in ids]))


def test_the_files_show_what_the_store_has(place: Place, store: Connection) -> None:
    mirror = AccessMirror(place.directory.path)
    mirror.follow(store)
    assert not path(place).exists()
    ban(place, "x", "y")
    mirror.follow(store)
    assert shown(place) == ["x", "y"]
    assert not path(place, "allowlist.json").exists()
    with place.books() as books:
        approval = Approval(pubkey=ALICE.public.pem)
        books.enlist(ALLOWLIST, approval.name, encode_entry(approval))
    mirror.follow(store)
    assert json.loads(path(place, "allowlist.json").read_bytes())[0]["pubkey"] == ALICE.public.pem
    for name in ("bans.json", "allowlist.json", WRITTEN_FILE):
        assert path(place, name).stat().st_mode & 0o777 == 0o600


def test_what_has_not_changed_is_not_written(place: Place, store: Connection) -> None:
    ban(place, "x")
    mirror = AccessMirror(place.directory.path)
    mirror.follow(store)
    file = path(place).stat().st_ino
    mirror.follow(store)
    AccessMirror(place.directory.path).follow(store)
    assert path(place).stat().st_ino == file


def test_edits_count_and_the_rest_is_the_stores(place: Place) -> None:
    """Others may have changed the lists meanwhile: on PostgreSQL, another hall."""
    ban(place, "kept", "lifted", "changed")
    with place.books():
        pass  # the files are written when a store is opened
    ban(place, "elsewhere")
    path(place).write_text(
        json.dumps(
            [
                {"agentId": "kept", "bannedBy": "admin"},
                {"agentId": "changed", "reason": "by hand"},
                {"agentId": "added"},
            ]
        )
    )
    with place.books() as books:
        records = [json.loads(record) for record in books.listed(BANS)]
    assert {record["agentId"]: record.get("reason") for record in records} == {
        "kept": None,
        "changed": "by hand",
        "elsewhere": None,
        "added": None,
    }
    assert place.log.facts("access_list_imported") == {"file": "bans.json", "entered": 2, "struck": 1}
    assert sorted(shown(place)) == ["added", "changed", "elsewhere", "kept"]


def test_a_file_that_is_only_laid_out_anew_changes_nothing(place: Place) -> None:
    ban(place, "x", "y")
    with place.books():
        pass
    edit(place, "y", "x")
    content = json.loads(path(place).read_bytes())
    assert stored(place) == ["x", "y"]
    assert content != json.loads(path(place).read_bytes())  # written anew
    assert not any(event == "access_list_imported" for event, _ in place.log.events)


def test_an_older_file_that_nobody_edited_does_not_count(place: Place) -> None:
    """The hall was killed before it could write what it had committed."""
    ban(place, "x")
    with place.books():
        pass
    lift(place, "x")
    assert shown(place) == ["x"]
    assert stored(place) == []
    assert shown(place) == []


@pytest.mark.parametrize("writes", range(4))
def test_a_hall_that_is_killed_between_two_writes_takes_none_for_an_edit(
    place: Place, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ban(place, "old")
    with place.books():
        pass
    ban(place, "new")
    done = 0

    class Killed(Exception):
        pass

    def write(target: Path, content: bytes) -> None:
        nonlocal done
        if done == writes:
            raise Killed
        done += 1
        files.write(target, content)

    monkeypatch.setattr(access_files, "write", write)
    with place.connected() as connection:
        try:
            AccessMirror(place.directory.path).follow(connection)
        except Killed:
            assert writes < 3
    monkeypatch.setattr(access_files, "write", files.write)
    with place.connected() as connection:
        alter(connection, BANS, (), [Ban(agent_id="new").name, Ban(agent_id="old").name])
    assert stored(place) == []
    assert shown(place) == []


def test_without_the_copy_entries_are_added_and_none_is_taken_out(place: Place) -> None:
    ban(place, "x")
    with place.books():
        pass
    path(place, WRITTEN_FILE).write_bytes(b"\xff")
    edit(place, "y")
    assert stored(place) == ["x", "y"]

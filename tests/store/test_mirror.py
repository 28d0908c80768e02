"""`ratings.json` and `receipts.jsonl` beside the database: in the reference's format, never half written."""

import asyncio
import json
import threading
from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.store import mirror as module
from moothall.store.dialect import Connection
from moothall.store.files import DataDirectory
from moothall.store.mirror import Mirror, ReceiptsFile
from moothall.store.opening import connect as connect_to
from moothall.store.rows import Draft
from tests.store.support import ALICE, BOB, Log, Place, accept, complete, full_deal, propose, run


def lines(place: Place) -> list[str]:
    found = (place.directory.path / "receipts.jsonl").read_text().splitlines()
    return [json.loads(line)["proposal_id"] for line in found]


async def test_the_files_say_what_the_database_says_when_the_hall_is_closed(place: Place) -> None:
    async with place.opened() as store:
        for number in range(3):
            await full_deal(store, f"prop_{number}")
        standing = await run(store, lambda books: books.standing(ALICE.public.raw))
    text = (place.directory.path / "ratings.json").read_text()
    ratings = json.loads(text)
    assert ratings.keys() == {f"@{agent.public.fingerprint}" for agent in (ALICE, BOB)}
    assert ratings[f"@{ALICE.public.fingerprint}"] == {
        "rating": standing.rating,
        "transactions": 3,
        "updated": "2026-01-02T03:04:05.678Z",
    }
    assert text == json.dumps(ratings, indent=2)  # as the reference indents it (agentchat wire 12.7)
    assert lines(place) == ["prop_0", "prop_1", "prop_2"]
    for name in ("ratings.json", "receipts.jsonl"):
        assert (place.directory.path / name).stat().st_mode & 0o777 == 0o600


async def test_a_skill_has_its_own_rating(place: Place) -> None:
    async with place.opened() as store:
        await run(store, propose("prop_1", capability="review"))
        await run(store, accept("prop_1"))
        await run(store, complete("prop_1"))
    ratings = json.loads((place.directory.path / "ratings.json").read_text())
    skills = ratings[f"@{BOB.public.fingerprint}"]["skills"]
    assert skills["review"] == {"rating": 1208, "transactions": 1, "updated": "2026-01-02T03:04:05.678Z"}


async def test_a_store_without_agents_has_an_empty_object(place: Place) -> None:
    async with place.opened():
        pass
    assert (place.directory.path / "ratings.json").read_text() == "{}"
    assert (place.directory.path / "receipts.jsonl").read_text() == ""


async def test_files_that_do_not_fit_the_database_are_made_anew(place: Place) -> None:
    async with place.opened() as store:
        await full_deal(store, "prop_1")
    before = (place.directory.path / "receipts.jsonl").read_bytes()
    (place.directory.path / "ratings.json").write_text('{"@torn')
    (place.directory.path / "receipts.jsonl").write_bytes(before + b'{"proposal_id": "prop_')
    async with place.opened():
        pass
    assert (place.directory.path / "receipts.jsonl").read_bytes() == before
    assert len(json.loads((place.directory.path / "ratings.json").read_text())) == 2


async def test_receipts_are_added_and_not_written_again(place: Place) -> None:
    """There may be a million. The first look compares the sizes."""
    path = place.directory.path / "receipts.jsonl"
    async with place.opened() as store:
        await full_deal(store, "prop_1")
        await full_deal(store, "prop_2")
    file = path.stat().st_ino
    async with place.opened() as store:
        await full_deal(store, "prop_3")
    assert path.stat().st_ino == file
    receipts = ReceiptsFile(path)
    with place.connected() as connection:
        receipts.follow(connection)
    async with place.opened() as store:
        await full_deal(store, "prop_4")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    with place.connected() as connection:
        receipts.follow(connection)
        receipts.follow(connection)
    assert lines(place) == ["prop_1", "prop_2", "prop_3", "prop_4"]


async def test_a_receipt_that_is_committed_after_a_later_number_is_not_forgotten(postgres: Place) -> None:
    """Two halls draw their numbers in one order and commit in the other."""
    insert = "INSERT INTO receipts (proposal_id, proposer, recipient, at, body) VALUES (?, 'a', 'b', 0, ?)"
    path = postgres.directory.path / "receipts.jsonl"
    with postgres.books():
        pass
    receipts = ReceiptsFile(path)
    with postgres.connected() as early, postgres.connected() as late, postgres.connected() as reader:
        receipts.follow(reader)
        early.execute("BEGIN")
        early.execute(insert, ("prop_1", b'{"proposal_id": "prop_1"}'))
        late.execute(insert, ("prop_2", b'{"proposal_id": "prop_2"}'))
        receipts.follow(reader)
        assert lines(postgres) == ["prop_2"]
        early.execute("COMMIT")
        receipts.follow(reader)
    assert lines(postgres) == ["prop_2", "prop_1"]


async def test_what_another_hall_changed_is_in_the_files_soon(
    postgres: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(module, "LEAST_INTERVAL", 0.05)
    follow, written = ReceiptsFile.follow, threading.Event()

    def noted(receipts: ReceiptsFile, connection: Connection) -> None:
        follow(receipts, connection)
        if receipts._path.parent == postgres.directory.path and receipts._written:
            written.set()

    monkeypatch.setattr(ReceiptsFile, "follow", noted)
    elsewhere = Place(DataDirectory(tmp_path / "elsewhere"), postgres.url, Log())
    async with postgres.opened():
        async with elsewhere.opened() as other:
            await full_deal(other, "prop_1")
        assert await asyncio.to_thread(written.wait, 60)
        assert lines(postgres) == ["prop_1"]


async def test_snapshots_keep_their_distance(sqlite: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often deals end, the files are written once per interval, and once more at the end."""
    monkeypatch.setattr(module, "LEAST_INTERVAL", 3600.0)
    with sqlite.books():
        pass
    written: list[int] = []
    first = threading.Event()

    def connect() -> Connection:
        written.append(1)
        first.set()
        return connect_to(sqlite.directory.path, "")

    mirror = Mirror(sqlite.directory.path, connect, Log())
    assert first.wait(60)
    changed = Draft()
    changed.has_receipts = True
    for _ in range(100):
        mirror.notice(changed)
    assert len(written) == 1
    mirror.close()
    assert len(written) == 2


async def test_what_could_not_be_written_is_written_later(
    sqlite: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without waiting for the next deal."""
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    with sqlite.books():
        pass
    attempts = 0
    recovered = threading.Event()

    def connect() -> Connection:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise UsageError("the server is away")
        recovered.set()
        return connect_to(sqlite.directory.path, "")

    mirror = Mirror(sqlite.directory.path, connect, Log())
    assert recovered.wait(10)
    mirror.close()


@pytest.mark.parametrize(
    "left", [None, b'{"proposal_id": "prop_1"}\n{"propo'], ids=["moved away", "half a line"]
)
def test_receipts_that_are_not_as_they_were_left_are_made_anew(sqlite: Place, left: bytes | None) -> None:
    """Private as before: what agents dealt about is nobody else's business."""
    insert = "INSERT INTO receipts (proposal_id, proposer, recipient, at, body) VALUES (?, '', '', 0, ?)"
    with sqlite.books():
        pass
    path = sqlite.directory.path / "receipts.jsonl"
    receipts = ReceiptsFile(path)
    with sqlite.connected() as connection:
        connection.execute(insert, ("prop_1", b'{"proposal_id": "prop_1"}'))
        receipts.follow(connection)
        if left is None:
            path.unlink()
        else:
            path.write_bytes(left)
        connection.execute(insert, ("prop_2", b'{"proposal_id": "prop_2"}'))
        receipts.follow(connection)
        connection.execute(insert, ("prop_3", b'{"proposal_id": "prop_3"}'))
        receipts.follow(connection)
    assert lines(sqlite) == ["prop_1", "prop_2", "prop_3"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_mirror_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    log = Log()
    with Place(DataDirectory(tmp_path), "", log).books():
        pass
    (tmp_path / "ratings.json").mkdir()
    Mirror(tmp_path, lambda: connect_to(tmp_path, ""), log).close()
    assert "directory" in str(log.facts("mirror_failed")["error"])

    def unreachable() -> Connection:
        raise UsageError("the server is away")

    log.events.clear()
    Mirror(tmp_path, unreachable, log).close()
    assert log.facts("mirror_failed") == {"error": "the server is away"}

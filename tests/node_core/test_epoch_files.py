"""Files of the epoch log: the reference's format, and what is repaired."""

from pathlib import Path

import pytest

from moothall.node.epoch_files import EpochFiles
from moothall.node.units import done
from moothall.store.files import KEPT, DataDirectory
from moothall.store.opening import open_node_store
from moothall.store.sqlite import SqliteStore
from moothall.wire.mesh.envelope import decode
from moothall.wire.mesh.epochs import EPOCH_SECONDS, log_name
from moothall.wire.mesh.frames import frame
from tests.node_core.test_listeners import Log
from tests.support.mesh import VECTORS

EPOCH = VECTORS["behavior_batch"]["fields"]["epoch_number"]
RAW = [bytes.fromhex(vector["envelope_cbor_hex"]) for vector in VECTORS["envelopes"]]
WHOLE = b"".join(map(frame, RAW))


async def log_it(store: SqliteStore, raw: bytes, epoch: int) -> None:
    at = epoch * EPOCH_SECONDS * 1000
    await done(store, lambda books: books.log(decode(raw), raw, at, belongs=False))


async def written(folder: Path, raws: list[bytes], log: Log | None = None, epoch: int = EPOCH) -> None:
    directory = DataDirectory(folder)
    store = open_node_store(directory)
    files = EpochFiles(store, directory, log or Log())
    try:
        await files.open()
        for raw in raws:
            await log_it(store, raw, epoch)
            files.changed()
        await files.close()
    finally:
        store.close()


async def test_the_file_has_the_name_and_the_bytes_of_the_reference(tmp_path: Path) -> None:
    await written(tmp_path, RAW)
    path = tmp_path / VECTORS["epoch_log"]["file_name"]
    assert path.name == log_name(EPOCH)
    assert path.read_bytes() == WHOLE
    assert path.read_bytes().hex().startswith(VECTORS["epoch_log"]["first_two_entries_hex"])
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("length", [0, 1, 4, 100, len(WHOLE) - 1, len(WHOLE)])
async def test_a_file_that_was_cut_off_is_completed(tmp_path: Path, length: int) -> None:
    await written(tmp_path, RAW)
    path = tmp_path / log_name(EPOCH)
    path.write_bytes(WHOLE[:length])
    await written(tmp_path, [])
    assert path.read_bytes() == WHOLE


@pytest.mark.parametrize("content", [b"something else", WHOLE + b"more", WHOLE[:50] + b"x" + WHOLE[51:]])
async def test_a_file_that_says_something_else_is_set_aside(tmp_path: Path, content: bytes) -> None:
    await written(tmp_path, RAW)
    path = tmp_path / log_name(EPOCH)
    path.write_bytes(content)
    log = Log()
    await written(tmp_path, [], log)
    assert path.read_bytes() == WHOLE
    assert (tmp_path / f"{path.name}{KEPT}").read_bytes() == content
    assert log.events == ["epoch_file_replaced"]


async def test_the_last_two_files_are_completed(tmp_path: Path) -> None:
    await written(tmp_path, RAW[:5])
    await written(tmp_path, RAW[5:], epoch=EPOCH + 1)
    for epoch in (EPOCH, EPOCH + 1):
        (tmp_path / log_name(epoch)).unlink()
    await written(tmp_path, [])
    assert (tmp_path / log_name(EPOCH)).read_bytes() == b"".join(map(frame, RAW[:5]))
    assert (tmp_path / log_name(EPOCH + 1)).read_bytes() == b"".join(map(frame, RAW[5:]))


async def test_a_disk_that_fails_is_tried_again(tmp_path: Path) -> None:
    log = Log()
    path = tmp_path / log_name(EPOCH)
    path.mkdir(parents=True)
    await written(tmp_path, RAW, log)
    assert set(log.events) == {"epoch_file_not_written"}
    path.rmdir()
    await written(tmp_path, [])
    assert path.read_bytes() == WHOLE

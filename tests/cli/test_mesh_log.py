"""`moothall mesh log|prove|verify`: what an operator writes out, and what others can check."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from moothall.cli.mesh import app
from moothall.identity import PrivateKey
from moothall.market.epoch_ends import EpochEnds
from moothall.market.epoch_log import epoch_at
from moothall.store.files import DataDirectory
from moothall.store.hall_key import replace_key
from moothall.wire.mesh import merkle
from moothall.wire.mesh.epochs import EPOCH_SECONDS, log_name
from moothall.wire.mesh.frames import frames
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import MsgType
from tests.identity.vectors import ALICE, BOB
from tests.store.support import Place
from tests.support.envelopes import CONVERSATION, sent
from tests.support.seals import HALL, SEAL
from tests.support.units import PlaceStore
from tests.support.world import World

LOG = [
    sent(ALICE, MsgType.PROPOSE, b"{}", to=BOB, conversation_id=CONVERSATION, nonce=nonce)
    for nonce in range(1, 8)
]
RAWS = [raw for _, raw in LOG]
EPOCH = epoch_at(World().now_ms)


class Kept:
    """A store with an epoch of seven envelopes."""

    def __init__(self, folder: Path) -> None:
        self.place = Place(DataDirectory(folder), "")
        self.world = World()
        with self.place.books() as books:
            for envelope, raw in LOG:
                books.log(envelope, raw, self.world.now_ms)
        self.have_key(HALL)

    def have_key(self, key: PrivateKey, secret: str = "") -> None:
        with self.place.connected() as connection:
            replace_key(connection, key, secret, lambda size: bytes(size))

    def end_epoch(self) -> None:
        self.world.advance(2 * EPOCH_SECONDS)
        EpochEnds(PlaceStore(self.place), SEAL).open(self.world.hall)

    def run(self, *arguments: str, code: int = 0) -> Any:
        result = CliRunner().invoke(app, [*arguments, "--data-dir", str(self.place.directory.path)])
        assert result.exit_code == code, result.output
        return result


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "data")


def verify(proof: Path, *arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["verify", str(proof), *arguments])
    assert result.exit_code == code, result.output
    return result


def test_the_epochs_are_listed(kept: Kept) -> None:
    (row,) = json.loads(kept.run("log", "--json").output)
    assert (row["epoch"], row["envelopes"], row["root"]) == (EPOCH, 7, None)
    kept.end_epoch()
    (row,) = json.loads(kept.run("log", "--json").output)
    assert row["root"] == merkle.root(list(map(merkle.leaf, RAWS))).hex()
    assert row["root"] in kept.run("log").output


def test_an_epoch_is_written_as_the_reference_does(kept: Kept, tmp_path: Path) -> None:
    kept.run("log", str(EPOCH), "-o", str(tmp_path))
    assert list(frames((tmp_path / log_name(EPOCH)).read_bytes())) == RAWS
    kept.run("log", str(EPOCH), "-o", str(tmp_path / "day.cbor"))
    assert list(frames((tmp_path / "day.cbor").read_bytes())) == RAWS
    assert list(frames(kept.run("log", str(EPOCH)).stdout_bytes)) == RAWS
    kept.run("log", str(EPOCH), "-o", f"{tmp_path}/logs/")  # a folder that is not there yet
    assert list(frames((tmp_path / "logs" / log_name(EPOCH)).read_bytes())) == RAWS
    empty = kept.run("log", str(EPOCH + 1))
    assert (empty.stdout_bytes, "has no envelopes" in empty.stderr) == (b"", True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("log", str(10**9)), "there is no epoch"),
        (("log", str(EPOCH), "-o", "/proc/none/file"), "No such file"),
        (("prove", "abc"), "64 hex digits"),
        (("prove", "0" * 64), "has no envelope"),
    ],
)
def test_mistakes_are_told(kept: Kept, arguments: tuple[str, ...], words: str) -> None:
    assert words in kept.run(*arguments, code=2).stderr


def test_a_proof_of_an_epoch_that_has_ended(kept: Kept, tmp_path: Path) -> None:
    kept.end_epoch()
    target = tmp_path / "proof.json"
    for raw in RAWS:
        kept.run("prove", keccak256(raw).hex()[:12], "-o", str(target))
        result = verify(target, "--hall", HALL.public.raw.hex())
        assert result.output.startswith(f"{keccak256(raw).hex()}  holds")
    assert json.loads(target.read_text())["epoch"]["closed"] is True
    told = json.loads(verify(target, "--hall", HALL.public.raw.hex(), "--json").output)
    assert told["holds"]
    assert told["hall"] == HALL.public.raw.hex()
    everything = verify(target, "--hall", HALL.public.raw.hex(), "-v").output
    assert ALICE.public.raw.hex() in everything
    assert "On its word alone rest" in everything


def test_a_proof_of_today(kept: Kept, tmp_path: Path) -> None:
    target = tmp_path / "proof.json"
    target.write_text(kept.run("prove", keccak256(RAWS[3]).hex()).output)
    record = json.loads(target.read_text())["epoch"]
    assert (record["closed"], record["envelopes"]) == (False, 7)
    assert "had not ended" in verify(target, "--hall", HALL.public.raw.hex(), "-v").output


def test_today_needs_the_secret_of_the_halls_key(kept: Kept) -> None:
    kept.have_key(HALL, "a secret of the store")
    assert "store_secret_file" in kept.run("prove", keccak256(RAWS[3]).hex(), code=2).stderr


def test_another_hall_and_a_changed_proof_do_not_hold(kept: Kept, tmp_path: Path) -> None:
    target = tmp_path / "proof.json"
    kept.end_epoch()
    kept.run("prove", keccak256(RAWS[3]).hex(), "-o", str(target))
    assert "not proven" in verify(target, "--hall", ALICE.public.raw.hex(), code=1).output
    target.write_text(json.dumps({**json.loads(target.read_text()), "index": 2}))
    assert "does not hold" in verify(target, "--hall", HALL.public.raw.hex(), code=1).output
    target.write_text("[1")
    assert verify(target, code=1).output.startswith("?  does not hold")


def test_a_log_that_was_changed_after_its_end_proves_nothing(kept: Kept) -> None:
    kept.end_epoch()
    with kept.place.connected() as connection:
        connection.execute(
            "INSERT INTO mesh_log (epoch, hash, leaf, sender, msg_type, at, envelope) VALUES (?, ?, ?, ?, 1, 1, ?)",
            (EPOCH, b"hash", b"leaf", bytes(32), b"envelope"),
        )
    assert "not the one that the hall signed" in kept.run("prove", keccak256(RAWS[3]).hex(), code=2).stderr

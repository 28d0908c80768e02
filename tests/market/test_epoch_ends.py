"""The ends of epochs with a made-up clock, on a real store: what the hall signs, and when."""

import json
from pathlib import Path

import pytest

from moothall.market import epoch_ends
from moothall.market.behaviour import Risk
from moothall.market.epoch_ends import GRACE_MS, RETRY_SECONDS, EpochEnds, read_record
from moothall.market.epoch_log import ClosedEpoch, epoch_at
from moothall.market.epoch_proof import proof_of, verify_proof
from moothall.store.files import DataDirectory
from moothall.wire.mesh import merkle
from moothall.wire.mesh.epochs import EPOCH_SECONDS
from moothall.wire.mesh.msg_types import MsgType
from tests.identity.vectors import ALICE
from tests.store.support import Place
from tests.support.envelopes import sent
from tests.support.seals import HALL_ID, SEAL
from tests.support.units import PlaceStore
from tests.support.world import World

GRACE = GRACE_MS / 1000


class Day:
    """A hall whose log has an epoch to end."""

    def __init__(self, folder: Path) -> None:
        self.place = Place(DataDirectory(folder), "")
        self.store = PlaceStore(self.place)
        self.world = World()
        self.epoch = epoch_at(self.world.now_ms)
        self.ends = EpochEnds(self.store, SEAL)
        self.log: list[bytes] = []

    def say(self, count: int = 1) -> None:
        with self.place.books() as books:
            for _ in range(count):
                envelope, raw = sent(ALICE, MsgType.DISCOVER, b"{}", nonce=len(self.log) + 1)
                books.log(envelope, raw, self.world.now_ms)
                self.log.append(raw)

    def open(self) -> None:
        self.ends.open(self.world.hall)

    def rest(self) -> float:
        """Seconds until the epoch of the start has ended."""
        return (self.epoch + 1) * EPOCH_SECONDS - self.world.clock.time()

    def closed(self, epoch: int | None = None) -> ClosedEpoch | None:
        with self.place.books() as books:
            return books.closed_epoch(self.epoch if epoch is None else epoch)


@pytest.fixture
def day(tmp_path: Path) -> Day:
    return Day(tmp_path / "data")


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_an_epoch_ends_after_midnight(day: Day, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_ends, "LEAVES_AT_ONCE", at_once)
    monkeypatch.setattr(epoch_ends, "ACTS_AT_ONCE", at_once)
    day.open()
    day.say(6)
    day.world.advance(day.rest() + GRACE - 1)
    assert day.closed() is None
    day.world.advance(1)
    closed = day.closed()
    assert closed is not None
    leaves = list(map(merkle.leaf, day.log))
    assert (closed.envelopes, closed.root) == (6, merkle.root(leaves))
    record = read_record(closed)
    proof = proof_of(day.log[4], 4, merkle.prove(leaves, 4), record.sealed)
    assert verify_proof(json.dumps(proof).encode(), [HALL_ID]).problems == []
    assert record.risk.agents == 1
    assert day.ends.latest == record.risk
    assert day.world.log.find("mesh_epoch_closed")[0]["envelopes"] == 6


def test_epochs_end_one_after_the_other(day: Day) -> None:
    day.open()
    day.say()
    day.world.advance(EPOCH_SECONDS)
    day.say()
    day.world.advance(3 * EPOCH_SECONDS)
    day.say()
    assert day.place.select("SELECT epoch, envelopes FROM mesh_epochs ORDER BY epoch") == [
        (day.epoch, 1),
        (day.epoch + 1, 1),
    ]


def test_what_was_over_while_the_hall_was_closed_ends_at_its_start(day: Day) -> None:
    day.say()
    day.world.advance(5 * EPOCH_SECONDS)
    day.say()
    day.open()
    assert day.closed() is not None
    assert day.closed(day.epoch + 5) is None


def test_the_risk_of_the_last_epoch_survives_a_restart(day: Day) -> None:
    day.open()
    day.say(10)
    day.world.advance(EPOCH_SECONDS + GRACE)
    again = EpochEnds(day.store, SEAL)
    again.open(day.world.hall)
    assert again.latest == day.ends.latest
    assert again.latest is not None
    assert again.latest.flagged == 1  # ten messages in one second


def test_a_store_that_fails_is_tried_again(day: Day) -> None:
    day.open()
    day.say()
    day.store.down = True
    day.world.advance(day.rest() + GRACE)
    assert day.world.log.find("mesh_epoch_failed")
    day.store.down = False
    day.world.advance(RETRY_SECONDS)
    assert day.closed() is not None


def test_another_hall_was_faster(day: Day) -> None:
    day.say()
    day.world.advance(EPOCH_SECONDS + GRACE)
    other = EpochEnds(day.store, SEAL)
    other.open(day.world.hall)
    day.open()
    assert day.ends.latest == other.latest
    assert day.place.select("SELECT count(*) FROM mesh_epochs") == [(1,)]


def test_envelopes_that_come_while_it_is_read_are_in_the_root(
    day: Day, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit that was late logs in the epoch that is being read. The last unit of the end takes it too."""
    day.say(3)
    late = sent(ALICE, MsgType.DISCOVER, b"late")
    at = day.world.now_ms
    day.world.advance(EPOCH_SECONDS + GRACE)
    end = EpochEnds._end

    def end_later(self: EpochEnds, *args: object) -> None:
        with day.place.books() as books:
            books.log(*late, at)
        end(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(EpochEnds, "_end", end_later)
    day.open()
    closed = day.closed()
    assert closed is not None
    assert closed.root == merkle.root([merkle.leaf(raw) for raw in (*day.log, late[1])])


def test_a_number_that_was_given_out_before_makes_it_read_again(
    day: Day, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL a transaction can commit after another that has higher numbers."""
    day.say(3)
    with day.place.connected() as connection:
        connection.execute(
            "INSERT INTO mesh_log (number, epoch, hash, leaf, sender, msg_type, at, envelope)"
            " VALUES (?, ?, ?, ?, ?, 1, 1, ?)",
            (100, day.epoch, b"hash", b"leaf", bytes(32), b"envelope"),
        )
    day.world.advance(EPOCH_SECONDS + GRACE)
    end = EpochEnds._end
    times: list[int] = []

    def end_later(self: EpochEnds, *args: object) -> None:
        if not times:
            with day.place.connected() as connection:
                connection.execute(
                    "INSERT INTO mesh_log (number, epoch, hash, leaf, sender, msg_type, at, envelope)"
                    " VALUES (?, ?, ?, ?, ?, 1, 1, ?)",
                    (50, day.epoch, b"other", b"other leaf", bytes(32), b"envelope"),
                )
        times.append(1)
        end(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(EpochEnds, "_end", end_later)
    day.open()
    closed = day.closed()
    assert closed is not None
    leaves = [*map(merkle.leaf, day.log), b"other leaf", b"leaf"]
    assert closed.root == merkle.root(leaves)
    assert len(times) == 2


def test_a_hall_that_closes_ends_nothing(day: Day) -> None:
    day.say()
    day.world.advance(EPOCH_SECONDS + GRACE)
    day.world.hall.durable.take_no_more(lambda: None)
    assert day.world.hall.is_closing
    day.open()
    assert day.closed() is None


def test_there_is_nothing_to_end_without_envelopes(day: Day) -> None:
    day.open()
    day.world.advance(3 * EPOCH_SECONDS)
    assert day.place.select("SELECT count(*) FROM mesh_epochs") == [(0,)]
    assert day.ends.latest is None
    assert Risk(epoch=1).systemic == 0

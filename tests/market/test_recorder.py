"""The log of topic messages: shared units, a second late at most, bounded, and within quotas."""

from pathlib import Path

import pytest

from moothall.hall.mesh.market import Payer
from moothall.market.epoch_log import ROW
from moothall.market.quotas import DAY, Disk
from moothall.market.recorder import (
    MAX_BYTES_TOGETHER,
    MAX_TOGETHER,
    MAX_WAITING_BYTES,
    PAUSE_SECONDS,
    Recorder,
)
from moothall.market.rules import Quotas
from moothall.store.files import DataDirectory
from moothall.wire.mesh.msg_types import MsgType
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.store.support import Place
from tests.support.envelopes import sent
from tests.support.units import PlaceStore
from tests.support.world import World


class Room:
    def __init__(self, folder: Path) -> None:
        self.place = Place(DataDirectory(folder), "")
        self.store = PlaceStore(self.place)
        self.world = World()
        self.recorder = Recorder(self.store, Disk(Quotas()))

    def say(
        self, payload: bytes = b"{}", *, by: object = ALICE, nonce: int = 1, ip: str = "203.0.113.1"
    ) -> int:
        envelope, raw = sent(by, MsgType.DISCOVER, payload, nonce=nonce)  # type: ignore[arg-type]
        self.recorder.record(self.world.hall, envelope, raw, Payer(ip, is_loopback=False))
        return len(raw)

    def logged(self) -> int:
        ((count,),) = self.place.select("SELECT count(*) FROM mesh_log")
        return int(count)


@pytest.fixture
def room(tmp_path: Path) -> Room:
    room = Room(tmp_path / "data")
    with room.place.books():
        return room


def test_a_message_is_logged_after_a_second(room: Room) -> None:
    room.say(nonce=1)
    room.say(nonce=2)
    room.world.advance(PAUSE_SECONDS / 2)
    assert room.logged() == 0
    room.world.advance(PAUSE_SECONDS / 2)
    assert room.logged() == 2
    room.say(nonce=3)
    room.world.advance(PAUSE_SECONDS)
    assert room.logged() == 3


def test_many_messages_do_not_wait(room: Room) -> None:
    for nonce in range(1, MAX_TOGETHER + 2):
        room.say(nonce=nonce)
    assert room.logged() == MAX_TOGETHER
    room.recorder.flush(room.world.hall)  # as before the store is closed
    assert room.logged() == MAX_TOGETHER + 1
    room.recorder.flush(room.world.hall)


def test_long_messages_do_not_wait(room: Room) -> None:
    nonce = size = 0
    while size < MAX_BYTES_TOGETHER:
        assert room.logged() == 0
        nonce += 1
        size += room.say(bytes(60_000), nonce=nonce)
    assert room.logged() == nonce < MAX_TOGETHER


def test_what_a_slow_store_cannot_take_is_skipped(room: Room) -> None:
    room.store.held = []
    size = room.say(bytes(60_000))
    most = MAX_WAITING_BYTES // size
    for nonce in range(2, most + 10):
        room.say(bytes(60_000), nonce=nonce)
    assert room.recorder.skipped == 9
    room.store.let_go()
    room.say(nonce=most + 10)
    room.world.advance(PAUSE_SECONDS)
    assert (room.logged(), room.recorder.skipped) == (most + 1, 9)


def test_a_store_that_fails_loses_only_what_it_was_given(room: Room) -> None:
    room.store.down = True
    room.say()
    room.world.advance(PAUSE_SECONDS)
    assert room.recorder.skipped == 1
    assert room.world.log.find("mesh_log_failed")[0]["envelopes"] == 1
    room.store.down = False
    room.say(nonce=2)
    room.world.advance(PAUSE_SECONDS)
    assert room.logged() == 1


def test_a_key_over_its_quota_is_not_logged_until_the_next_day(room: Room) -> None:
    room.recorder = Recorder(room.store, Disk(Quotas(disk_per_key=1)))
    room.say(nonce=1)
    room.say(nonce=2)
    room.say(by=BOB)
    room.world.advance(PAUSE_SECONDS)
    assert (room.logged(), room.recorder.skipped) == (2, 1)
    room.world.advance(DAY / 1000)
    room.say(nonce=3)
    room.world.advance(PAUSE_SECONDS)
    assert room.logged() == 3


def test_a_key_pays_for_all_of_a_unit_at_once(room: Room) -> None:
    room.recorder = Recorder(room.store, Disk(Quotas(disk_per_key=10 * ROW)))
    size = sum(room.say(nonce=nonce) + ROW for nonce in (1, 2, 3))
    room.say(by=BOB)
    room.world.advance(PAUSE_SECONDS)
    day = room.world.hall.timestamp() // DAY
    with room.place.books() as books:
        assert books.disk_used(ALICE.public.raw.hex(), day) == size
        assert 0 < books.disk_used(BOB.public.raw.hex(), day) < size


def test_a_key_has_one_quota_at_two_addresses(room: Room) -> None:
    room.recorder = Recorder(room.store, Disk(Quotas(disk_per_key=2 * ROW)))
    room.say(nonce=1)
    room.say(nonce=2, ip="203.0.113.2")
    room.say(nonce=3, ip="203.0.113.3")
    room.world.advance(PAUSE_SECONDS)
    assert (room.logged(), room.recorder.skipped) == (2, 1)


def test_a_message_that_is_logged_already_is_not_added_again(room: Room) -> None:
    room.say(nonce=1)
    room.say(nonce=2)
    room.say(nonce=1)
    room.world.advance(PAUSE_SECONDS)
    assert room.logged() == 2


def test_the_row_around_a_short_envelope_counts_too(room: Room) -> None:
    room.recorder = Recorder(room.store, Disk(Quotas(disk_per_key=4 * ROW)))
    for nonce in range(1, 9):
        room.say(nonce=nonce)
    room.world.advance(PAUSE_SECONDS)
    assert 2 <= room.logged() <= 4


def test_new_keys_do_not_help_an_address_over_its_quota(room: Room) -> None:
    room.recorder = Recorder(room.store, Disk(Quotas(disk_per_address=1)))
    room.say(nonce=1)
    room.world.advance(PAUSE_SECONDS)
    room.say(by=BOB)
    room.say(by=CAROL, ip="203.0.113.2")
    room.world.advance(PAUSE_SECONDS)
    assert (room.logged(), room.recorder.skipped) == (2, 1)


def test_what_the_hall_itself_says_has_no_quota(room: Room) -> None:
    room.recorder = Recorder(room.store, Disk(Quotas(disk_per_key=1)), hall_key=ALICE.public.raw)
    for nonce in (1, 2, 3):
        room.say(nonce=nonce)
    room.world.advance(PAUSE_SECONDS)
    assert (room.logged(), room.recorder.skipped) == (3, 0)


def test_a_log_that_is_off_keeps_nothing(room: Room) -> None:
    room.recorder = Recorder(room.store, Disk(Quotas()), is_on=False)
    room.say()
    room.world.advance(PAUSE_SECONDS)
    assert (room.logged(), room.recorder.skipped) == (0, 0)

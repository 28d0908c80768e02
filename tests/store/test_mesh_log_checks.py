"""`store check` of the mesh's log: what was changed behind the hall's back is found."""

import pytest

from moothall.market.epoch_ends import EpochEnds
from moothall.market.epoch_log import epoch_at
from moothall.store.dialect import Connection
from moothall.wire.mesh.epochs import EPOCH_SECONDS
from moothall.wire.mesh.msg_types import MsgType
from tests.store.support import ALICE, BOB, Place
from tests.support.envelopes import CONVERSATION, sent
from tests.support.seals import SEAL
from tests.support.units import PlaceStore
from tests.support.world import World

EPOCH = epoch_at(World().now_ms)


@pytest.fixture
def used(place: Place) -> Place:
    """Two epochs; the first has ended."""
    world = World()
    for days in (0, 1):
        with place.books() as books:
            for nonce in (1, 2, 3):
                envelope, raw = sent(
                    ALICE,
                    MsgType.PROPOSE,
                    b"{}",
                    to=BOB,
                    conversation_id=CONVERSATION,
                    nonce=10 * days + nonce,
                )
                books.log(envelope, raw, world.now_ms)
            bounty = sent(BOB, MsgType.BOUNTY, conversation_id=CONVERSATION, nonce=days + 1)
            books.log(*bounty, world.now_ms, belongs=False)
        if not days:
            world.advance(EPOCH_SECONDS)
            EpochEnds(PlaceStore(place), SEAL).open(world.hall)
    return place


def test_a_log_in_order(used: Place) -> None:
    assert used.select("SELECT count(*) FROM mesh_epochs") == [(1,)]
    assert used.problems() == []


def lift(connection: Connection, table: str) -> None:
    """Take away what makes the table append-only, as an operator with the database could."""
    if connection.dialect.locks_rows:
        connection.execute(f"DROP TRIGGER {table}_append_only ON {table}")
    else:
        for verb in ("update", "delete"):
            connection.execute(f"DROP TRIGGER {table}_no_{verb}")


CHANGES = {
    "an envelope": ("mesh_log", "UPDATE mesh_log SET envelope = sender WHERE number = 1", "not an envelope"),
    "a column": ("mesh_log", "UPDATE mesh_log SET sender = leaf WHERE number = 6", "columns of number 6"),
    "a conversation": (
        "mesh_log",
        "UPDATE mesh_log SET conversation_id = NULL WHERE number = 6",
        "columns of number 6",
    ),
    "one less": ("mesh_log", "DELETE FROM mesh_log WHERE number = 2", f"epoch {EPOCH} ended with 4"),
    "one moved": ("mesh_log", f"UPDATE mesh_log SET epoch = {EPOCH} WHERE number = 8", "now has 5"),  # noqa: S608
    "all gone": ("mesh_log", f"DELETE FROM mesh_log WHERE epoch = {EPOCH}", "they are not there"),  # noqa: S608
    "the root": ("mesh_epochs", "UPDATE mesh_epochs SET envelopes = 3", "the columns of epoch"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_is_found(used: Place, change: str) -> None:
    table, statement, words = CHANGES[change]
    with used.connected() as connection:
        lift(connection, table)
        connection.execute(statement)
    assert any(words in problem for problem in used.problems())


def test_a_record_that_no_hall_signed_is_found(used: Place) -> None:
    with used.connected() as connection:
        lift(connection, "mesh_epochs")
        for record in (b"{}", b'{"sealed": {}, "risk": {"epoch": 1}}'):
            connection.execute("UPDATE mesh_epochs SET record = ?", (record,))
            assert any("not what a hall signed" in problem for problem in used.problems())

"""The log of the mesh: in the unit that the envelope caused, in order, and nothing more once an epoch has ended."""

import asyncio
from functools import partial

import pytest

from moothall.market.epoch_log import ROW, ClosedEpoch, epoch_at
from moothall.store import reading_mesh_log as reading
from moothall.store.books import StoreBooks
from moothall.store.dialect import Connection
from moothall.wire.mesh import merkle
from moothall.wire.mesh.envelope import Envelope
from moothall.wire.mesh.epochs import EPOCH_SECONDS
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import MsgType
from tests.store.support import ALICE, BOB, NOW_MS, Place, run
from tests.support.envelopes import CONVERSATION, sent

EPOCH = epoch_at(NOW_MS)
DAY = EPOCH_SECONDS * 1000


def log(place: Place, *nonces: int, at: int = NOW_MS) -> list[bytes]:
    raws = []
    with place.books() as books:
        for nonce in nonces:
            envelope, raw = sent(
                ALICE, MsgType.PROPOSE, b"{}", to=BOB, conversation_id=CONVERSATION, nonce=nonce
            )
            books.log(envelope, raw, at)
            raws.append(raw)
    return raws


def close(place: Place, epoch: int, envelopes: int = 0) -> None:
    with place.books() as books:
        books.hold_log()
        books.close_epoch(ClosedEpoch(epoch, envelopes, bytes(32), b"{}"))


def test_an_envelope_is_found_by_its_conversation_hash_and_epoch(place: Place) -> None:
    first, second = log(place, 1, 2)
    rows = place.select(
        "SELECT epoch, hash, leaf, sender, msg_type, conversation_id, at, envelope FROM mesh_log"
    )
    alice = ALICE.public.raw
    assert rows == [
        (EPOCH, keccak256(raw), merkle.leaf(raw), alice, MsgType.PROPOSE, CONVERSATION, NOW_MS, raw)
        for raw in (first, second)
    ]
    with place.books() as books:
        page = books.logged(CONVERSATION)
        assert [each.envelope for each in page.items] == [first, second]
        after = books.logged(CONVERSATION, after=page.items[0].number)
        assert [each.envelope for each in after.items] == [second]
        assert books.logged(bytes(15) + b"\1").items == []
        assert [books.logged_envelope(keccak256(raw)) for raw in (first, second)] == [first, second]
        assert books.logged_envelope(bytes(32)) is None
        assert [leaf.hash for leaf in books.leaves(EPOCH)] == [merkle.leaf(first), merkle.leaf(second)]
        assert books.count_logged(EPOCH) == 2


def test_a_long_history_is_read_in_parts(place: Place) -> None:
    first, second = log(place, 1, 2)
    with place.books() as books:
        page = books.logged(CONVERSATION, most=len(first))
        assert page.truncated
        assert [each.envelope for each in page.items] == [first]
        (rest,) = books.logged(CONVERSATION, after=page.items[0].number, limit=1).items
        assert rest.envelope == second


def test_an_envelope_without_a_conversation_is_logged_too(place: Place) -> None:
    with place.books() as books:
        books.log(*sent(ALICE, MsgType.DISCOVER, b"{}"), NOW_MS)
    assert place.select("SELECT conversation_id FROM mesh_log") == [(None,)]


def test_an_envelope_is_logged_once(place: Place) -> None:
    log(place, 1, 1)
    log(place, 1)
    assert place.select("SELECT count(*) FROM mesh_log") == [(1,)]


async def test_a_refused_unit_leaves_nothing_in_the_log(place: Place) -> None:
    def refused(books: object) -> None:
        books.log(*sent(ALICE, MsgType.DISCOVER, b"{}"), NOW_MS)  # type: ignore[attr-defined]
        raise LookupError

    async with place.opened() as store:
        with pytest.raises(LookupError):
            await run(store, refused)
    assert place.select("SELECT count(*) FROM mesh_log") == [(0,)]


def test_its_bytes_are_charged(place: Place) -> None:
    envelope, raw = sent(ALICE, MsgType.DISCOVER, b"{}")
    with place.books() as books:
        books.log(envelope, raw, NOW_MS)
        assert books.spend_disk("alice", 1) == len(raw) + ROW


def test_the_log_cannot_be_changed(place: Place) -> None:
    log(place, 1)
    with place.connected() as connection:
        for change in ("UPDATE mesh_log SET at = 0", "DELETE FROM mesh_log"):
            refused(connection, change)


def refused(connection: Connection, change: str) -> None:
    with pytest.raises(connection.errors, match="append-only"):
        connection.execute(change)


def test_an_epoch_that_has_ended_gets_no_more(place: Place) -> None:
    log(place, 1)
    with place.books() as books:
        assert books.first_open_epoch() == EPOCH
        assert books.closed_epoch(EPOCH) is None
    close(place, EPOCH, 1)
    log(place, 2)
    log(place, 3, at=NOW_MS + DAY)
    log(place, 4, at=NOW_MS - DAY)
    assert place.select("SELECT epoch FROM mesh_log ORDER BY number") == [(EPOCH,), *[(EPOCH + 1,)] * 3]
    with place.books() as books:
        assert books.first_open_epoch() == EPOCH + 1
        assert books.closed_epoch(EPOCH) == ClosedEpoch(EPOCH, 1, bytes(32), b"{}")


async def test_an_epoch_that_ends_in_the_same_commit_gets_no_more(sqlite: Place) -> None:
    """The store remembers the last one, and other units of the batch ask it."""
    async with sqlite.opened() as store:
        await run(store, lambda books: books.log(*sent(ALICE, MsgType.DISCOVER, b"1"), NOW_MS))
        await run(store, lambda books: books.close_epoch(ClosedEpoch(EPOCH, 1, bytes(32), b"{}")))
        await run(store, lambda books: books.log(*sent(ALICE, MsgType.DISCOVER, b"2"), NOW_MS))
        close(sqlite, EPOCH + 1)  # another process
        await run(store, lambda books: books.log(*sent(ALICE, MsgType.DISCOVER, b"3"), NOW_MS))
    assert sqlite.select("SELECT epoch FROM mesh_log ORDER BY number") == [
        (EPOCH,),
        (EPOCH + 1,),
        (EPOCH + 2,),
    ]


def test_the_end_of_an_epoch_waits_for_those_that_append(postgres: Place) -> None:
    log(postgres, 1)
    with postgres.connected() as appending, postgres.connected() as ending:
        appending.execute("BEGIN")
        appending.execute(
            "INSERT INTO mesh_log (epoch, hash, leaf, sender, msg_type, at, envelope) VALUES (?, ?, ?, ?, 1, 1, ?)",
            (EPOCH, b"hash", b"leaf", b"sender", b"envelope"),
        )
        ending.execute("BEGIN")
        ending.execute("SET LOCAL lock_timeout = '50ms'")
        with pytest.raises(ending.errors, match="lock timeout"):
            ending.execute("LOCK TABLE mesh_log IN SHARE ROW EXCLUSIVE MODE")


async def test_envelopes_that_are_logged_while_an_epoch_ends_are_in_its_root_or_in_the_next(
    place: Place,
) -> None:
    """Several threads append, and one ends the epoch in the middle of that."""

    def end(books: StoreBooks) -> None:
        books.hold_log()
        tree = merkle.Tree()
        for leaf in books.leaves(EPOCH, limit=1000):
            tree.add(leaf.hash)
        books.close_epoch(ClosedEpoch(EPOCH, tree.size, tree.root(), b"{}"))

    envelopes = [sent(ALICE, MsgType.DISCOVER, b"{}", nonce=nonce) for nonce in range(1, 201)]
    async with place.opened() as store:
        units = [run(store, partial(_log, *each)) for each in envelopes]
        await asyncio.gather(*units[:100], run(store, end), *units[100:])
    with place.connected() as connection:
        closed = reading.closed_epoch(connection, EPOCH)
        assert closed is not None
        tree = reading.tree(connection, EPOCH)
        assert (closed.envelopes, closed.root) == (tree.size, tree.root())
        assert tree.size + reading.tree(connection, EPOCH + 1).size == len(envelopes)


def _log(envelope: Envelope, raw: bytes, books: StoreBooks) -> None:
    books.log(envelope, raw, NOW_MS)

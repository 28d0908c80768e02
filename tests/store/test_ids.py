"""Ids and their first keys in the database, on both engines (see `hall.keyring`)."""

import asyncio
from collections.abc import Callable

import pytest

from moothall.hall.bindings import Holding, IdClaim, settle
from moothall.hall.revocation import record
from moothall.market.audit import audit_row
from moothall.market.records import AuditRow, Standing
from moothall.store import migrations, schema
from moothall.store.books import StoreBooks
from moothall.store.opening import revoked_keys
from moothall.store.units import StoreFailed
from tests.store.support import ALICE, BOB, CAROL, DAVE, NOW_MS, Place, run
from tests.support.world import TWIN_ID, TWINS

KEYS = [bytes([number]) * 32 for number in range(200)]
CAPACITY = 1000


def claim(agent_id: str, key: bytes, *, may_bind: bool = True) -> IdClaim:
    return IdClaim(agent_id, key, 7, may_bind)


def binding(agent_id: str, key: bytes) -> Callable[[StoreBooks], list[Holding]]:
    return lambda books: settle(books, [claim(agent_id, key)], CAPACITY)


def audit() -> AuditRow:
    return audit_row("test", "prop_1", NOW_MS)


def test_what_was_bound_is_found_and_nothing_else(place: Place) -> None:
    with place.books() as books:
        books.bind("aaaaaaaa", KEYS[1], 7)
        assert books.owners(["aaaaaaaa", "bbbbbbbb"]) == {"aaaaaaaa": KEYS[1]}
    with place.books() as books:
        assert books.owners(["bbbbbbbb", "aaaaaaaa"]) == {"aaaaaaaa": KEYS[1]}
        assert books.owners([]) == {}
        assert books.bound_ids() == 1
    assert place.select("SELECT id, at FROM bindings") == [("aaaaaaaa", 7)]


def test_many_at_once(place: Place) -> None:
    claims = [claim(f"{number:08x}", key) for number, key in enumerate(KEYS)]
    with place.books() as books:
        assert settle(books, claims, CAPACITY) == [Holding(key, is_new=True) for key in KEYS]
    with place.books() as books:
        assert settle(books, claims, CAPACITY) == [Holding(key) for key in KEYS]
        assert books.bound_ids() == len(KEYS)


def test_a_full_store_binds_no_more(place: Place) -> None:
    with place.books() as books:
        found = settle(books, [claim(f"{n:08x}", KEYS[n]) for n in range(3)], 2)
        assert found == [Holding(KEYS[0], is_new=True), Holding(KEYS[1], is_new=True), Holding(None)]
    with place.books() as books:
        found = settle(books, [claim("00000003", KEYS[3]), claim("00000000", KEYS[0])], 2)
        assert found == [Holding(None), Holding(KEYS[0])]


async def test_of_many_halls_that_claim_one_id_at_once_one_wins(place: Place) -> None:
    """On PostgreSQL the units run on several connections, and collide."""
    async with place.opened() as store:
        found = await asyncio.gather(*(run(store, binding(TWIN_ID, key)) for key in KEYS[:20]))
    owners = {holding.owner for (holding,) in found}
    assert len(owners) == 1
    assert sum(holding.is_new for (holding,) in found) == 1
    assert place.select("SELECT key FROM bindings") == [(owners.pop(),)]


async def test_a_claim_that_fails_leaves_nothing_behind(place: Place) -> None:
    def work(books: object) -> None:
        raise RuntimeError("a bug")

    async with place.opened() as store:
        bound = run(store, binding("aaaaaaaa", KEYS[0]))
        failing = run(store, work)
        results = await asyncio.gather(bound, failing, return_exceptions=True)
    assert results[0] == [Holding(KEYS[0], is_new=True)]
    assert isinstance(results[1], RuntimeError | StoreFailed)
    assert len(place.select("SELECT id FROM bindings")) == 1


def test_an_id_leads_to_the_key_that_it_is_bound_to(place: Place) -> None:
    """Not to one with the same eight digits, whichever has a row first."""
    first, second = (twin.public.raw for twin in TWINS)
    with place.books() as books:
        books.save(Standing(key=first), audit())
        assert books.find_key(TWIN_ID) == first
        books.bind(TWIN_ID, second, 0)
    with place.books() as books:
        assert books.find_key(TWIN_ID) == second  # it need not have a row
        books.save(Standing(key=second), audit())
        assert books.find_key(TWIN_ID) == second


def test_keys_that_had_rows_before_there_were_bindings_are_bound(
    sqlite: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("moothall.store.migrations.MIGRATIONS", schema.MIGRATIONS[:4])
        patch.setattr("moothall.store.migrations.VERSION", 4)
        with sqlite.connected() as connection:
            connection.execute("BEGIN")
            migrations.upgrade(connection, 0)
            for key in (TWINS[1], ALICE, TWINS[0], BOB):
                connection.execute(
                    "INSERT INTO keys (key, fingerprint, short) VALUES (?, ?, ?)",
                    (key.public.raw, key.public.fingerprint, key.public.agent_id()),
                )
            connection.execute("COMMIT")
    with sqlite.books() as books:
        ids = [key.public.agent_id() for key in (ALICE, BOB, CAROL, TWINS[0])]
        assert books.owners(ids) == {
            ids[0]: ALICE.public.raw,
            ids[1]: BOB.public.raw,
            TWIN_ID: TWINS[1].public.raw,
        }


# -- revoked keys --------------------------------------------------------------------------------------


def test_what_was_revoked_is_found_in_its_order(place: Place) -> None:
    with place.books() as books:
        assert not books.is_revoked(KEYS[0])
        books.revoke(KEYS[0], b"first", 7)
        assert books.is_revoked(KEYS[0])
    with place.books() as books:
        books.revoke(KEYS[1], b"second", 8)
    with place.books() as books:
        assert books.revocations() == 2
        numbered = books.revoked_since(-100)
        assert [key for _, key in numbered] == KEYS[:2]
        assert books.revoked_since(numbered[0][0]) == numbered[1:]
    assert revoked_keys(place.directory, place.url) == numbered
    assert place.select("SELECT at, notice FROM revocations ORDER BY number") == [
        (7, b"first"),
        (8, b"second"),
    ]


def test_a_key_is_known_by_its_id_or_by_a_row(place: Place) -> None:
    with place.books() as books:
        books.bind(ALICE.public.agent_id(), ALICE.public.raw, 0)
        books.bind(BOB.public.fingerprint, BOB.public.raw, 0)
        books.save(Standing(key=CAROL.public.raw), audit())
    with place.books() as books:
        assert all(books.is_known(key.public.raw) for key in (ALICE, BOB, CAROL))
        assert not books.is_known(DAVE.public.raw)
        books.bind(TWIN_ID, TWINS[0].public.raw, 0)
        assert not books.is_known(TWINS[1].public.raw)


async def test_a_notice_that_two_halls_get_at_once_is_one_row(place: Place) -> None:
    def work(books: StoreBooks) -> bool:
        return record(books, KEYS[0], {"reason": "stolen"}, is_seen=True, capacity=CAPACITY, now=7)

    async with place.opened() as store:
        taken = await asyncio.gather(*(run(store, work) for _ in range(20)))
    assert sorted(taken) == [False] * 19 + [True]
    assert len(place.select("SELECT key FROM revocations")) == 1

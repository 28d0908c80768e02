"""`moothall store check` finds what does not fit: each kind of damage is done, and must be named."""

from collections.abc import Callable

import pytest

from moothall.store.dialect import Connection
from tests.store.support import ALICE, BOB, Place, accept, dispute, full_deal, propose, reject, run

Damage = Callable[[Connection], object]


def unguarded(connection: Connection, table: str) -> None:
    """Whoever can change the schema can change what is append-only; then the check must find it."""
    if connection.dialect.locks_rows:
        connection.execute(f"DROP TRIGGER {table}_append_only ON {table}")
    else:
        for verb in ("update", "delete"):
            connection.execute(f"DROP TRIGGER {table}_no_{verb}")


def changed(table: str, statement: str) -> Damage:
    def damage(connection: Connection) -> None:
        unguarded(connection, table)
        connection.execute(statement)

    return damage


def executed(statement: str) -> Damage:
    return lambda connection: connection.execute(statement)


def edited(table: str, where: str, old: bytes, new: bytes) -> Damage:
    """The record itself, behind the columns' back."""

    def damage(connection: Connection) -> None:
        rows = connection.execute(f"SELECT record FROM {table} WHERE {where}").fetchall()  # noqa: S608
        for (record,) in rows:
            assert old in record
            connection.execute(f"UPDATE {table} SET record = ? WHERE {where}", (record.replace(old, new),))  # noqa: S608

    return damage


ALICE_ROW = f"key IN (SELECT key FROM keys WHERE fingerprint = '{ALICE.public.fingerprint}')"  # noqa: S608

DAMAGES: dict[str, tuple[Damage, str]] = {
    "an amount": (
        changed(
            "postings", "UPDATE postings SET amount = amount + 1 WHERE deal = 'prop_1' AND account = 'mint'"
        ),
        "ledger: complete of prop_1 sums to 1, not to zero",
    ),
    "credits out of nothing": (
        executed("INSERT INTO postings VALUES ('credits', 'prop_1', 'lock', 'agent:a', 5, 0)"),
        "ledger: lock of prop_1 sums to 5, not to zero (book credits)",
    ),
    "points moved to the other book": (
        changed("postings", "UPDATE postings SET book = 'credits' WHERE deal = 'prop_open'"),
        "escrow:prop_open is empty, and an open deal staked 30",
    ),
    "an entry gone": (
        changed("postings", "DELETE FROM postings WHERE deal = 'prop_open'"),
        "escrow:prop_open is empty, and an open deal staked 30",
    ),
    "an escrow left over": (
        executed("UPDATE proposals SET status = 'rejected', is_open = 0 WHERE id = 'prop_open'"),
        "deal prop_open: the columns do not say what the record says",
    ),
    "a deal undone": (
        edited("proposals", "id = 'prop_open'", b'"status":"accepted"', b'"status":"pending"'),
        "escrow:prop_open holds 30, and open deals staked 0",
    ),
    "a rating given": (
        edited("standings", ALICE_ROW, b'"rating":', b'"rating":9'),
        "the columns do not say what the record says",
    ),
    "a stake forgotten": (
        edited("standings", ALICE_ROW, b'"escrowed":30', b'"escrowed":0'),
        "0 is put aside, and open deals staked 30",
    ),
    "a standing gone": (
        executed(f"DELETE FROM standings WHERE {ALICE_ROW}"),  # noqa: S608
        "the audit trail knows a standing that is not there",
    ),
    "a decision gone": (
        changed("audit", "DELETE FROM audit WHERE deal = 'prop_1' AND operation = 'accept'"),
        "deal prop_1 is completed, and the audit trail does not tell how",
    ),
    "a decision in between gone": (
        changed("audit", "DELETE FROM audit WHERE deal = 'prop_1' AND operation = 'complete'"),
        "the rows before it left",
    ),
    "a receipt gone": (
        changed("receipts", "DELETE FROM receipts"),
        "deal prop_1 is completed and has no receipt",
    ),
    "a receipt too early": (
        executed(
            "INSERT INTO receipts (proposal_id, proposer, recipient, at, body)"
            " SELECT 'prop_open', 'a', 'b', 0, record FROM proposals WHERE id = 'prop_open'"
        ),
        "deal prop_open is accepted and has a receipt",
    ),
    "a point of history": (
        changed("rating_history", "UPDATE rating_history SET rating = 9999"),
        "the rating's history ends at 9999",
    ),
}


async def a_few_deals(place: Place) -> None:
    async with place.opened() as store:
        await full_deal(store, "prop_1")
        await run(store, propose("prop_2"))
        await run(store, reject("prop_2"))
        await run(store, propose("prop_3", elo_stake=10))
        await run(store, accept("prop_3"))
        await run(store, dispute("prop_3"))
        await run(store, propose("prop_open", elo_stake=30))
        await run(store, accept("prop_open"))


async def test_a_store_that_was_only_used_has_no_problems(place: Place) -> None:
    await a_few_deals(place)
    assert place.problems() == []


@pytest.mark.parametrize("name", DAMAGES)
async def test_damage_is_named(place: Place, name: str) -> None:
    damage, complaint = DAMAGES[name]
    await a_few_deals(place)
    with place.connected() as connection:
        damage(connection)
    assert any(complaint in problem for problem in place.problems()), place.problems()


async def test_the_ledger_and_the_audit_trail_both_know_a_rating(place: Place) -> None:
    """A rating that is changed in all the places where it is shown."""
    await a_few_deals(place)
    rating = place.select(f"SELECT rating FROM standings WHERE {ALICE_ROW}")[0][0]  # noqa: S608
    with place.connected() as connection:
        edited("standings", ALICE_ROW, b'"rating":%d' % rating, b'"rating":2000')(connection)
        connection.execute(f"UPDATE standings SET rating = 2000 WHERE {ALICE_ROW}")  # noqa: S608
    found = place.problems()
    assert any(f"the rating is 2000, and the ledger says {rating}" in problem for problem in found)
    assert any("rating 2000 after 2 deals, and the audit trail says" in problem for problem in found)


async def test_a_row_that_nothing_stands_behind_is_found(sqlite: Place) -> None:
    await a_few_deals(sqlite)
    with sqlite.connected() as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("DELETE FROM keys WHERE fingerprint = ?", (BOB.public.fingerprint,))
    assert any("speaks of something that keys does not have" in problem for problem in sqlite.problems())


async def test_a_damaged_file_is_found(sqlite: Place) -> None:
    await a_few_deals(sqlite)
    with sqlite.connected() as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_master WHERE name = 'proposals_status'")
    assert any("the file is damaged" in problem for problem in sqlite.problems())

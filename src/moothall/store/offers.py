"""The directory of skills, in SQL: one row per skill that an agent offers.

A search reads columns of a bounded number of rows, in the order of an index, and bodies only of what it returns.
Names that are, or begin with, what is looked for are found by their index however many others there are. Names that
hold it further inside are looked for among the LOOKED_AT best rated offers; that is all of them in any hall but a
very large one. `rating` is the agent's when it registered: a deal does not have to rewrite anything here.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from moothall.market.records import Offer, Registration, Standing
from moothall.market.skills import Filters
from moothall.store.dialect import Connection, Value
from moothall.store.rows import Draft, as_double

LOOKED_AT: Final = 10_000  # rows of an index for one search: two to four milliseconds, in the engine
AFTER_ALL: Final = "\U0010ffff"  # a name that begins with a text comes before the text and this
REGISTRATIONS_AT_ONCE: Final = 500
BODIES_AT_ONCE: Final = 100

_registration: Final = msgspec.json.Decoder(Registration).decode
_skill: Final = msgspec.json.Decoder(dict[str, Any]).decode

# All that a search looks at is in the index. The rows that match are taken as they come, and it stops at enough.
_COLUMNS: Final = "key, position, capability, name, rate, currency, registered_at"
BY_NAME: Final = (
    f"SELECT {_COLUMNS} FROM offers WHERE capability >= ? AND capability < ?"  # noqa: S608
    " ORDER BY capability, rating DESC, registered_at DESC LIMIT ?"
)
BY_RATING: Final = f"SELECT {_COLUMNS} FROM offers ORDER BY rating DESC, registered_at DESC LIMIT ?"  # noqa: S608
EXACTLY: Final = (
    "SELECT DISTINCT key FROM (SELECT key FROM offers WHERE capability = ?"
    " ORDER BY rating DESC, registered_at DESC LIMIT ?) AS looked"
)
_MATCHING: Final = "SELECT key, position, name, registered_at FROM ({looked}) AS looked{where} LIMIT ?"
_BODIES: Final = (
    "SELECT key, position, body FROM (VALUES {marks}) AS wanted"
    " JOIN offers ON offers.key = wanted.column1 AND offers.position = wanted.column2"
)


def search(connection: Connection, filters: Filters, most: int) -> list[Offer]:
    found: dict[tuple[bytes, int], Offer] = {}
    for looked, where, values in _questions(connection, filters):
        conditions = [*where, *(condition for condition, _ in _filtered(filters))]
        sql = _MATCHING.format(
            looked=looked, where=f" WHERE {' AND '.join(conditions)}" if conditions else ""
        )
        parameters = [*values, *(value for _, value in _filtered(filters)), most]
        for row in connection.execute(sql, parameters).fetchall():
            found.setdefault((row[0], row[1]), Offer(*row))
        if len(found) >= most:
            break
    return list(found.values())[:most]


def _questions(connection: Connection, filters: Filters) -> Iterator[tuple[str, list[str], list[Value]]]:
    """Which rows to look at, a condition on them, and the values of both."""
    text = filters.capability
    if not text:
        yield BY_RATING, [], [LOOKED_AT]
        return
    yield BY_NAME, [], [text, text + AFTER_ALL, LOOKED_AT]
    yield BY_RATING, [f"{connection.dialect.position}(capability, ?) > 0"], [LOOKED_AT, text]


def _filtered(filters: Filters) -> Iterator[tuple[str, Value]]:
    """A skill that names no rate, or no currency, is not held to it."""
    if filters.max_rate is not None:
        yield "(rate IS NULL OR rate <= ?)", as_double(filters.max_rate)
    if filters.currency:
        yield "(currency IS NULL OR currency = ?)", filters.currency


def offering(connection: Connection, capability: str, most: int) -> list[bytes]:
    return [row[0] for row in connection.execute(EXACTLY, (capability, most)).fetchall()]


def bodies(connection: Connection, offers: Sequence[Offer]) -> list[tuple[Offer, dict[str, Any]]]:
    """Without those that were withdrawn in this moment, which happens where several halls share a database."""
    found: dict[tuple[bytes, int], bytes] = {}
    for start in range(0, len(offers), BODIES_AT_ONCE):
        some = offers[start : start + BODIES_AT_ONCE]
        sql = _BODIES.format(marks=", ".join("(?, ?)" for _ in some))
        values: list[Value] = [value for offer in some for value in (offer.key, offer.position)]
        found.update(
            ((key, position), body) for key, position, body in connection.execute(sql, values).fetchall()
        )
    known = [(offer, found.get((offer.key, offer.position))) for offer in offers]
    return [(offer, _skill(body)) for offer, body in known if body is not None]


def fill_offers(connection: Connection) -> None:
    """From the registrations of a store that had no such table."""
    last = b""
    while rows := connection.execute(
        "SELECT registrations.key, registrations.record, standings.rating FROM registrations"
        " LEFT JOIN standings ON standings.key = registrations.key"
        " WHERE registrations.key > ? ORDER BY registrations.key LIMIT ?",
        (last, REGISTRATIONS_AT_ONCE),
    ).fetchall():
        draft = Draft()
        for _, record, rating in rows:
            registration = _registration(record)
            newcomer = Standing(key=registration.key)
            draft.put_offers(registration, newcomer.rating if rating is None else rating)
        draft.write(connection)
        last = rows[-1][0]

"""Everything in the store but the hall's private key, one JSON object per line: `moothall store export`."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from moothall.store.dialect import Connection
from moothall.store.tables import TABLES

# JSON already; other columns of bytes are keys and signatures, and come out in hex.
_JSON: Final = frozenset(("record", "data", "body", "standing", "registration"))
_MORE: Final = {"imported": ("fingerprint", "standing", "registration", "bound_to")}
# Tables that units of work write to directly.
_OTHERS: Final = {
    "meta": ("name", "value"),
    "common": ("list", "name", "record"),
    "pins": ("identity", "key"),
    "spending": ("day", "key", "tokens"),
    "spending_days": ("day", "tokens"),
    "spending_reports": ("key", "session", "spent"),
}

_encode: Final = msgspec.json.Encoder().encode


def exported(connection: Connection) -> Iterator[bytes]:
    """One JSON object per row, all of one snapshot, with `table` first."""
    connection.execute(connection.dialect.snapshot)
    try:
        for name, columns in _OTHERS.items():
            yield from _lines(connection, name, columns)
        for table in TABLES:
            yield from _lines(connection, table.name, _MORE.get(table.name, table.columns))
    finally:
        connection.execute("ROLLBACK")


def _lines(connection: Connection, table: str, columns: tuple[str, ...]) -> Iterator[bytes]:
    for row in connection.stream(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {_order(table)}"):  # noqa: S608
        fields = {column: _readable(column, value) for column, value in zip(columns, row, strict=True)}
        yield _encode({"table": table, **fields}) + b"\n"


def _order(table: str) -> str:
    numbered = {"keys", "audit", "receipts", "rating_history", "mesh_log"}
    return "number" if table in numbered else "1, 2"


def _readable(column: str, value: Any) -> Any:
    if isinstance(value, bytes):
        return msgspec.Raw(value) if column in _JSON else value.hex()
    return value

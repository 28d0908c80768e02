"""The tables that drafts are written to: their columns, and what happens to a row that is there already."""

from typing import Final, NamedTuple


class Table(NamedTuple):
    name: str
    columns: tuple[str, ...]
    conflict: str = ""
    # For rows whose indexed columns stay as they are: SQLite writes the index of each column that a statement sets,
    # whether its value changes or not.
    unlisted: str = ""


def _newer(table: str, key: str, *columns: str) -> str:
    """Replace the row if its version is still the one that was read; the count of changed rows tells."""
    changes = ", ".join(f"{column} = excluded.{column}" for column in (*columns, "version", "record"))
    return f" ON CONFLICT ({key}) DO UPDATE SET {changes} WHERE {table}.version < excluded.version"


# In the order of writing, where there is one. Audit numbers follow the order of the changes on PostgreSQL too:
# a unit that drew its number before another one committed the same row fails, and draws again.
TABLES: Final = (
    Table("keys", ("key", "fingerprint", "short"), " ON CONFLICT (key) DO NOTHING"),
    Table("bindings", ("id", "key", "at"), " ON CONFLICT (id) DO NOTHING"),
    Table("revocations", ("key", "at", "notice"), " ON CONFLICT (key) DO NOTHING"),
    Table(
        "proposals",
        (
            "id",
            "proposer",
            "recipient",
            "status",
            "is_open",
            "frozen",
            "expires",
            "created_at",
            "version",
            "record",
        ),
        _newer("proposals", "id", "status", "is_open", "frozen", "expires"),
        _newer("proposals", "id", "status"),
    ),
    Table(
        "disputes",
        (
            "id",
            "proposal_id",
            "disputant",
            "phase",
            "is_open",
            "deadline",
            "filed_at",
            "version",
            "listed",
            "record",
        ),
        _newer("disputes", "id", "phase", "is_open", "deadline", "listed"),
    ),
    Table(
        "conversations",
        (
            "id",
            "requester",
            "provider",
            "proposer",
            "created_at",
            "notary",
            "is_open",
            "deadline",
            "completed_at",
            "state",
            "version",
            "record",
        ),
        _newer("conversations", "id", "notary", "is_open", "deadline", "completed_at", "state"),
        _newer("conversations", "id", "state"),
    ),
    Table(
        "case_parts",
        ("dispute_id", "key", "role", "live", "filed_at"),
        " ON CONFLICT (dispute_id, key) DO UPDATE SET live = excluded.live",
    ),
    Table("case_files", ("dispute_id", "body")),
    Table(
        "standings",
        ("key", "rating", "transactions", "version", "record"),
        _newer("standings", "key", "rating", "transactions"),
        _newer("standings", "key"),
    ),
    Table(
        "registrations",
        ("key", "registered_at", "record"),
        " ON CONFLICT (key) DO UPDATE SET registered_at = excluded.registered_at, record = excluded.record",
    ),
    Table(
        "offers",
        (
            "key",
            "position",
            "capability",
            "name",
            "rate",
            "currency",
            "rating",
            "registered_at",
            "body",
        ),
        " ON CONFLICT (key, position) DO UPDATE SET capability = excluded.capability, name = excluded.name,"
        " rate = excluded.rate, currency = excluded.currency, rating = excluded.rating,"
        " registered_at = excluded.registered_at, body = excluded.body",
    ),
    # Added to, not replaced: several halls may count for one key.
    Table(
        "disk_usage",
        ("account", "day", "bytes"),
        " ON CONFLICT (account) DO UPDATE SET day = excluded.day, bytes = excluded.bytes"
        " + CASE WHEN disk_usage.day = excluded.day THEN disk_usage.bytes ELSE 0 END",
    ),
    Table(
        "imported",
        ("fingerprint", "bound_to"),
        " ON CONFLICT (fingerprint) DO UPDATE SET bound_to = excluded.bound_to",
    ),
    Table(
        "escrows",
        ("conversation_id", "is_open", "version", "record"),
        _newer("escrows", "conversation_id", "is_open"),
    ),
    # Added to, not replaced: several halls may pay one agent. What would be overdrawn stays as it is.
    Table(
        "balances",
        ("account", "amount"),
        " ON CONFLICT (account) DO UPDATE SET amount = balances.amount + excluded.amount"
        " WHERE balances.amount + excluded.amount >= 0 OR balances.account = 'external'",
    ),
    # An envelope is logged once, also if two halls were sent it.
    Table(
        "mesh_log",
        ("epoch", "hash", "leaf", "sender", "msg_type", "conversation_id", "at", "envelope"),
        " ON CONFLICT (hash) DO NOTHING",
    ),
    Table("mesh_epochs", ("epoch", "envelopes", "root", "record")),
    Table("postings", ("book", "deal", "operation", "account", "amount", "at")),
    Table("authorisations", ("deal", "operation", "envelope", "sender", "nonce")),
    Table("audit", ("at", "operation", "deal", "actor", "data")),
    Table("receipts", ("proposal_id", "proposer", "recipient", "at", "body")),
    Table("rating_history", ("key", "at", "rating", "why")),
    Table("hooks", ("id", "listener", "name", "deal", "at", "body", "attempts", "next_attempt")),
)

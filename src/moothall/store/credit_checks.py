"""Whether the ledger sums to zero, and credits hold together: a part of `checks`, and `moothall ledger check`.

The journal is the truth. Balances, escrows and the envelopes that authorised entries are compared with it. Sums are
made by the database, so a journal of any length can be checked.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from moothall.market.credits import EXTERNAL, Escrow, deal_name
from moothall.store.dialect import Connection

_escrow: Final = msgspec.json.Decoder(Escrow).decode

_UNBALANCED: Final = (
    "SELECT book, deal, operation, sum(amount) FROM postings"
    " GROUP BY book, deal, operation HAVING sum(amount) <> 0"
)
_OUT_OF_STEP: Final = (
    "SELECT account, sum(held), sum(posted) FROM ("
    "SELECT account, amount AS held, 0 AS posted FROM balances"
    " UNION ALL SELECT account, 0 AS held, amount AS posted FROM postings WHERE book = 'credits'"
    ") AS both_sides GROUP BY account HAVING sum(held) <> sum(posted) ORDER BY account"
)
_OVERDRAWN: Final = (
    f"SELECT account, amount FROM balances WHERE amount < 0 AND account <> '{EXTERNAL}' ORDER BY account"  # noqa: S608
)
_SETTLED_TWICE: Final = (
    "SELECT deal, count(DISTINCT operation) FROM postings"
    " WHERE book = 'credits' AND operation IN ('approve', 'claim', 'cancel')"
    " GROUP BY deal HAVING count(DISTINCT operation) > 1 ORDER BY deal"
)
_UNAUTHORISED: Final = (
    "SELECT DISTINCT postings.deal, postings.operation FROM postings LEFT JOIN authorisations"
    " ON authorisations.deal = postings.deal AND authorisations.operation = postings.operation"
    " WHERE book = 'credits' AND postings.deal LIKE 'mesh:%' AND authorisations.deal IS NULL"
)
_UNPOSTED: Final = (
    "SELECT deal, operation FROM authorisations WHERE NOT EXISTS (SELECT 1 FROM postings"
    " WHERE book = 'credits' AND deal = authorisations.deal AND operation = authorisations.operation)"
)


def sum_problems(connection: Connection) -> Iterator[str]:
    """Of both books."""
    for book, deal, operation, total in connection.execute(_UNBALANCED).fetchall():
        yield f"ledger: {operation} of {deal} sums to {total}, not to zero (book {book})"


def credit_problems(connection: Connection) -> Iterator[str]:
    for account, held, posted in connection.stream(_OUT_OF_STEP):
        yield f"credits: {account} holds {held}, and the journal says {posted}"
    for account, amount in connection.stream(_OVERDRAWN):
        yield f"credits: {account} is below zero ({amount})"
    for deal, times in connection.stream(_SETTLED_TWICE):
        yield f"credits: {deal} was settled {times} times"
    for deal, operation in connection.stream(_UNAUTHORISED):
        yield f"credits: no envelope authorised {operation} of {deal}"
    for deal, operation in connection.stream(_UNPOSTED):
        yield f"credits: an envelope authorised {operation} of {deal}, and the journal does not have it"
    yield from _escrow_problems(connection)


def _escrow_problems(connection: Connection) -> Iterator[str]:
    """Accounts that are zero are not read: there is one for each escrow that was ever settled."""
    accounts = "SELECT account, amount FROM balances WHERE account LIKE 'escrow:%' AND amount <> 0"
    held: dict[str, int] = dict(connection.stream(accounts))
    for conversation_id, is_open, record in connection.stream(
        "SELECT conversation_id, is_open, record FROM escrows ORDER BY conversation_id"
    ):
        escrow = _escrow(record)
        deal = deal_name(conversation_id)
        if (escrow.conversation_id, int(escrow.settled is None)) != (conversation_id, is_open):
            yield f"credits: {deal}: the columns do not say what the record says"
        holds, expected = held.pop(escrow.account, 0), 0 if escrow.settled else escrow.total
        if holds != expected:
            yield f"credits: the escrow of {deal} holds {holds}, and should hold {expected}"
    for account, amount in held.items():
        yield f"credits: {account} holds {amount}, and there is no escrow of it"

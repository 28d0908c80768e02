"""Whether a store holds together: what `moothall store check` looks at.

The same facts are written in several places on purpose. A deal says what was staked, the standing of each party
how much of its rating is staked, the ledger where every point of rating came from and went, the audit trail what
each decision changed. Here they are compared.
"""

from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

import msgspec

from moothall.market import escrow, ledger
from moothall.market.credits import conversation_named
from moothall.market.records import AuditRow, Curbs, Proposal, Registration, Standing
from moothall.market.replay import replay
from moothall.store.case_checks import case_problems
from moothall.store.conversation_checks import conversation_problems
from moothall.store.credit_checks import credit_problems, sum_problems
from moothall.store.dialect import Connection, Row
from moothall.store.mesh_log_checks import log_problems
from moothall.store.rows import OPEN, offer_row
from moothall.store.spending import spending_problems

_proposal: Final = msgspec.json.Decoder(Proposal).decode
_standing: Final = msgspec.json.Decoder(Standing).decode
_registration: Final = msgspec.json.Decoder(Registration).decode


PROPOSED: Final = "propose"
FILED: Final = "dispute_intent"

# What the audit trail must know about a deal in each status, besides that it was proposed.
_STORY: Final = {
    "accepted": ("accept",),
    "rejected": ("reject",),
    "completed": ("accept", "complete"),
    "disputed": ("accept",),
    "expired": ("expire",),
}


def problems(connection: Connection) -> Iterator[str]:
    """One sentence each, of one moment of the store, which may be in use."""
    if not connection.dialect.locks_rows:
        yield from _engine_problems(connection)
    connection.execute(connection.dialect.snapshot)
    try:
        yield from sum_problems(connection)
        yield from credit_problems(connection)
        yield from conversation_problems(connection)
        deals: list[Proposal] = []
        yield from _deal_problems(connection, deals)
        standings: dict[bytes, Standing] = {}
        yield from _standing_problems(connection, standings)
        yield from _escrow_problems(connection, deals, standings)
        yield from case_problems(connection, deals)
        yield from _replay_problems(connection, standings)
        yield from _story_problems(connection)
        yield from _history_problems(connection, standings)
        yield from _receipt_problems(connection)
        yield from _offer_problems(connection)
        yield from log_problems(connection)
        yield from spending_problems(connection)
    finally:
        connection.execute("ROLLBACK")


def _engine_problems(connection: Connection) -> Iterator[str]:
    """PostgreSQL checks its foreign keys itself, and its pages with its own tools."""
    for (finding,) in connection.execute("PRAGMA integrity_check").fetchall():
        if finding != "ok":
            yield f"the file is damaged: {finding}"
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check").fetchall():
        yield f"{table}: row {row} speaks of something that {parent} does not have"


def _deal_problems(connection: Connection, deals: list[Proposal]) -> Iterator[str]:
    """Fills `deals` with the open ones."""
    columns = "id, proposer, recipient, status, is_open, frozen, expires, created_at"
    for row in connection.stream(f"SELECT {columns}, record FROM proposals ORDER BY id"):  # noqa: S608
        deal = _proposal(row[-1])
        parties = (deal.proposer, deal.recipient)
        if conversation_named(deal.id) is not None and parties == (row[2], row[1]):
            parties = (row[1], row[2])  # its second case is about an offer of the other party
        said = (
            deal.id,
            *parties,
            deal.status,
            int(deal.status in OPEN),
            int(deal.frozen_by is not None),
            deal.expires,
            deal.created_at,
        )
        if said != tuple(row[:-1]):
            yield f"deal {row[0]}: the columns do not say what the record says"
        if deal.status in OPEN:
            deals.append(deal)


def _standing_problems(connection: Connection, standings: dict[bytes, Standing]) -> Iterator[str]:
    """Fills `standings`."""
    for key, rating, transactions, record in connection.stream(
        "SELECT key, rating, transactions, record FROM standings ORDER BY key"
    ):
        standing = _standing(record)
        standings[key] = standing
        if (standing.key, standing.rating, standing.transactions) != (key, rating, transactions):
            yield f"agent {_shown(key)}: the columns do not say what the record says"


def _escrow_problems(
    connection: Connection, deals: list[Proposal], standings: dict[bytes, Standing]
) -> Iterator[str]:
    ratings = f"SELECT account, sum(amount) FROM postings WHERE book = '{ledger.ELO}' GROUP BY account"  # noqa: S608
    balances: dict[str, int] = {account: int(total) for account, total in connection.stream(ratings)}
    staked: Counter[bytes] = Counter()
    escrows: dict[str, int] = {}
    for deal in deals:
        if escrow.is_open(deal):
            staked[deal.proposer] += deal.proposer_stake
            staked[deal.recipient] += deal.acceptor_stake
            escrows[ledger.escrow_account(deal.id)] = escrow.total(deal)
    for account, balance in balances.items():
        if account.startswith(ledger.escrow_account("")) and balance != escrows.get(account, 0):
            yield f"{account} holds {balance}, and open deals staked {escrows.get(account, 0)}"
    for account in escrows.keys() - balances.keys():
        yield f"{account} is empty, and an open deal staked {escrows[account]}"
    for key in (+staked).keys() - standings.keys():
        yield f"agent {_shown(key)} staked {staked[key]} and has no standing"
    for key, standing in standings.items():
        if standing.escrowed != staked[key]:
            yield f"agent {_shown(key)}: {standing.escrowed} is put aside, and open deals staked {staked[key]}"
        worth = balances.get(ledger.agent_account(key), 0) + staked[key]
        if standing.rating != worth:
            yield f"agent {_shown(key)}: the rating is {standing.rating}, and the ledger says {worth}"


def _replay_problems(connection: Connection, standings: dict[bytes, Standing]) -> Iterator[str]:
    audit = connection.stream("SELECT at, operation, deal, actor, data FROM audit ORDER BY number")
    replayed = replay(_audit_row(row) for row in audit)
    yield from (f"audit: {problem}" for problem in replayed.problems)
    for key, again in replayed.standings.items():
        standing = standings.get(key)
        if standing is None:
            yield f"agent {_shown(key)}: the audit trail knows a standing that is not there"
        elif _facts(standing) != _facts(again):
            yield (
                f"agent {_shown(key)}: rating {standing.rating} after {standing.transactions} deals,"
                f" and the audit trail says {again.rating} after {again.transactions}"
            )


def _story_problems(connection: Connection) -> Iterator[str]:
    """The trail says nothing about a decision that was taken out of it, but the deal does. The copy of a
    conversation of the mesh begins when a case about it is filed."""
    needed = dict.fromkeys(
        (PROPOSED, FILED, *(operation for story in _STORY.values() for operation in story))
    )
    columns = [f"max(CASE WHEN operation = '{each}' THEN 1 ELSE 0 END) AS did_{each}" for each in needed]
    gaps = [f"coalesce(did_{PROPOSED}, 0) = 0"] + [
        f"(status = '{status}' AND did_{operation} = 0)"
        for status, story in _STORY.items()
        for operation in story
    ]
    incomplete = (
        f"SELECT id, status FROM proposals LEFT JOIN (SELECT deal, {', '.join(columns)} FROM audit"  # noqa: S608
        f" GROUP BY deal) AS told ON told.deal = proposals.id WHERE CASE WHEN id LIKE 'mesh:%'"
        f" THEN coalesce(did_{FILED}, 0) = 0 ELSE {' OR '.join(gaps)} END ORDER BY id"
    )
    for deal, status in connection.stream(incomplete):
        yield f"deal {deal} is {status}, and the audit trail does not tell how"


def _history_problems(connection: Connection, standings: dict[bytes, Standing]) -> Iterator[str]:
    latest = (
        "SELECT key, rating FROM rating_history"
        " WHERE number IN (SELECT max(number) FROM rating_history GROUP BY key)"
    )
    for key, rating in connection.stream(latest):
        standing = standings.get(key)
        if standing is None or standing.rating != rating:
            yield f"agent {_shown(key)}: the rating's history ends at {rating}, which is not the rating"


def _offer_problems(connection: Connection) -> Iterator[str]:
    """What searches look at is what the agents registered."""
    expected: set[tuple[bytes, int, bytes]] = set()
    for (record,) in connection.stream("SELECT record FROM registrations"):
        registration = _registration(record)
        for position, (skill, at) in enumerate(registration.listed()):
            # Its rating is that of the moment when it registered, which nothing else tells.
            row = offer_row(registration.key, position, skill, at, 0)
            expected.add((registration.key, position, _digest(row)))
    columns = "key, position, capability, name, rate, currency, 0, registered_at, body"
    for found in connection.stream(f"SELECT {columns} FROM offers"):  # noqa: S608
        entry = (found[0], found[1], _digest(found))
        if entry not in expected:
            yield f"agent {_shown(found[0])}: offer {found[1]} is not the one that it registered"
        expected.discard(entry)
    for key, position, _ in sorted(expected):
        yield f"agent {_shown(key)}: offer {position} is registered, and searches do not find it"


def _digest(row: Row) -> bytes:
    return sha256(repr(tuple(row)).encode()).digest()


def _receipt_problems(connection: Connection) -> Iterator[str]:
    missing = (
        "SELECT id FROM proposals WHERE status = 'completed'"
        " AND NOT EXISTS (SELECT 1 FROM receipts WHERE proposal_id = proposals.id)"
    )
    for (deal,) in connection.stream(missing):
        yield f"deal {deal} is completed and has no receipt"
    early = (
        "SELECT id, status FROM proposals JOIN receipts ON proposal_id = proposals.id"
        " WHERE status <> 'completed'"
    )
    for deal, status in connection.stream(early):
        yield f"deal {deal} is {status} and has a receipt"


def _audit_row(row: Row) -> AuditRow:
    at, operation, deal, actor, data = row
    return AuditRow(at=at, operation=operation, deal=deal, actor=actor, data=data)


def _facts(standing: Standing) -> tuple[int, int, int, Curbs]:
    return standing.rating, standing.transactions, standing.escrowed, standing.curbs


def _shown(key: bytes) -> str:
    return key.hex()[:16]

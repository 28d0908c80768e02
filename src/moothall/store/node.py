"""What a node of the mesh keeps, in SQL (see `market.node_books`)."""

from typing import Final

from moothall.market.books import MAX_READ, what_fits
from moothall.market.node_books import (
    MAX_FAILURES,
    Arrived,
    Failure,
    HostedAgent,
    Letter,
    LogRow,
    TaskRow,
)
from moothall.store.work import SqlWork
from moothall.wire.mesh.msg_types import MsgType

_NONCE: Final = "node_nonce"
_ARRIVED: Final = (
    "SELECT node_inbox.number, length(envelope) FROM node_inbox JOIN mesh_log ON mesh_log.hash = node_inbox.hash"
    " WHERE recipient = ? AND node_inbox.number > ? ORDER BY node_inbox.number LIMIT ?"
)
_ARRIVED_ROWS: Final = (
    "SELECT node_inbox.number, node_inbox.at, note, envelope"
    " FROM node_inbox JOIN mesh_log ON mesh_log.hash = node_inbox.hash"
    " WHERE recipient = ? AND node_inbox.number > ? AND node_inbox.number <= ? ORDER BY node_inbox.number"
)
_PUT_LETTER: Final = (
    "INSERT INTO node_outbox (sender, recipient, msg_type, conversation_id, is_logged, at, payload)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING number"
)
_LETTERS: Final = (
    "SELECT number, sender, recipient, msg_type, conversation_id, is_logged, at, payload FROM node_outbox"
    " WHERE number > ? ORDER BY number LIMIT ?"
)
_PUT_FAILURE: Final = (
    "INSERT INTO node_failures (sender, recipient, msg_type, conversation_id, nonce, reason, at, payload)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING number"
)
_FAILURES: Final = (
    "SELECT number, sender, recipient, msg_type, conversation_id, nonce, reason, at FROM node_failures"
    " WHERE number > ? ORDER BY number LIMIT ?"
)
_SAME: Final = (
    "DELETE FROM node_failures WHERE conversation_id = ? AND sender = ? AND recipient = ? AND msg_type = ?"
    " AND payload = ?"
)
_LOG: Final = "SELECT number, length(envelope) FROM mesh_log WHERE {where}number > ? ORDER BY number LIMIT ?"
_LOG_ROWS: Final = (
    "SELECT number, epoch, at, envelope, notary FROM mesh_log"  # noqa: S608  # numbers
    f" LEFT JOIN conversations ON msg_type = {MsgType.ACCEPT:d} AND conversations.id = conversation_id"
    " WHERE {where}number > ? AND number <= ? ORDER BY number"
)
_TASK: Final = "SELECT number, at, shared, fields FROM node_tasks"


class NodeSql(SqlWork):
    """What `SqlBooks` is made of besides the other parts."""

    def reserved_nonce(self) -> int:
        rows = self._query("SELECT value FROM meta WHERE name = ?", _NONCE)
        return int(rows[0][0]) if rows else 0

    def reserve_nonces(self, up_to: int) -> None:
        self._change(
            "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            _NONCE,
            str(up_to),
        )

    # -- what came ---------------------------------------------------------------------------------

    def put_arrived(self, recipient: bytes, envelope_hash: bytes, at: int, note: str | None) -> int:
        self._begin_own()
        ((number,),) = self._query(
            "INSERT INTO node_inbox (recipient, at, hash, note) VALUES (?, ?, ?, ?) RETURNING number",
            recipient,
            at,
            envelope_hash,
            note,
        )
        return int(number)

    def arrived(self, recipient: bytes, after: int, limit: int, most: int = MAX_READ) -> list[Arrived]:
        rows = self._query(_ARRIVED, recipient, after, limit)
        fitting, _ = what_fits(rows, lambda row: int(row[1]), most)
        if not fitting:
            return []
        return [Arrived(*row) for row in self._query(_ARRIVED_ROWS, recipient, after, fitting[-1][0])]

    def newest_arrived(self) -> int:
        ((newest,),) = self._query("SELECT coalesce(max(number), 0) FROM node_inbox")
        return int(newest)

    def forget_arrived(self, before: int) -> None:
        self._change("DELETE FROM node_inbox WHERE at < ?", before)

    # -- what leaves -------------------------------------------------------------------------------

    def put_letter(self, letter: Letter) -> int:
        self._begin_own()
        ((number,),) = self._query(
            _PUT_LETTER,
            letter.sender,
            letter.recipient,
            letter.msg_type,
            letter.conversation_id,
            int(letter.is_logged),
            letter.at,
            letter.payload,
        )
        return int(number)

    def undelivered(self, after: int, limit: int) -> list[Letter]:
        return [
            Letter(number, sender, recipient, msg_type, conversation, bool(is_logged), at, payload)
            for number, sender, recipient, msg_type, conversation, is_logged, at, payload in self._query(
                _LETTERS, after, limit
            )
        ]

    def remove_letter(self, number: int) -> bool:
        return bool(self._change("DELETE FROM node_outbox WHERE number = ?", number))

    def put_failure(self, letter: Letter, nonce: int, reason: str, at: int) -> int:
        self._begin_own()
        ((number,),) = self._query(
            _PUT_FAILURE,
            letter.sender,
            letter.recipient,
            letter.msg_type,
            letter.conversation_id,
            str(nonce),
            reason,
            at,
            letter.payload,
        )
        self._change(
            "DELETE FROM node_failures WHERE number NOT IN"
            " (SELECT number FROM node_failures ORDER BY number DESC LIMIT ?)",
            MAX_FAILURES,
        )
        return int(number)

    def failures(self, after: int, limit: int) -> list[Failure]:
        return [
            Failure(number, sender, recipient, msg_type, conversation, int(nonce), reason, at)
            for number, sender, recipient, msg_type, conversation, nonce, reason, at in self._query(
                _FAILURES, after, limit
            )
        ]

    def take_failure(self, letter: Letter) -> bool:
        return bool(
            self._change(
                _SAME,
                letter.conversation_id,
                letter.sender,
                letter.recipient,
                letter.msg_type,
                letter.payload,
            )
        )

    # -- the log -----------------------------------------------------------------------------------

    def log_after(
        self, number: int, limit: int, *, epoch: int | None = None, most: int = MAX_READ
    ) -> list[LogRow]:
        where = "" if epoch is None else f"epoch = {epoch:d} AND "
        rows = self._query(_LOG.format(where=where), number, limit)
        fitting, _ = what_fits(rows, lambda row: int(row[1]), most)
        if not fitting:
            return []
        return [LogRow(*row) for row in self._query(_LOG_ROWS.format(where=where), number, fitting[-1][0])]

    def logged_epochs(self, limit: int) -> list[int]:
        found: list[int] = []
        last = 2**62
        for _ in range(limit):  # each is one step of the index
            ((epoch,),) = self._query("SELECT max(epoch) FROM mesh_log WHERE epoch < ?", last)
            if epoch is None:
                break
            last = int(epoch)
            found.append(last)
        return found

    # -- hosted agents, and tasks ------------------------------------------------------------------

    def hosted(self) -> list[HostedAgent]:
        rows = self._query("SELECT agent, token, secret, ends_at FROM node_hosted ORDER BY ends_at, agent")
        return [HostedAgent(*row) for row in rows]

    def put_hosted(self, agent: HostedAgent) -> None:
        self._change(
            "INSERT INTO node_hosted (agent, token, secret, ends_at) VALUES (?, ?, ?, ?)",
            agent.agent,
            agent.token,
            agent.secret,
            agent.ends_at,
        )

    def expire_hosted(self, now: int) -> None:
        self._change("DELETE FROM node_hosted WHERE ends_at <= ?", now)

    def put_task(self, at: int, fields: bytes) -> int:
        self._begin_own()
        ((number,),) = self._query(
            "INSERT INTO node_tasks (at, shared, fields) VALUES (?, 0, ?) RETURNING number", at, fields
        )
        return int(number)

    def tasks(self, before: int, limit: int, most: int = MAX_READ) -> list[TaskRow]:
        rows = self._query(f"{_TASK} WHERE number < ? ORDER BY number DESC LIMIT ?", before, limit)
        fitting, _ = what_fits(rows, lambda row: len(row[3]), most)
        return [TaskRow(number, at, bool(shared), fields) for number, at, shared, fields in fitting]

    def share_task(self, number: int, *, shared: bool) -> TaskRow | None:
        if not self._change("UPDATE node_tasks SET shared = ? WHERE number = ?", int(shared), number):
            return None
        ((_, at, is_shared, fields),) = self._query(f"{_TASK} WHERE number = ?", number)
        return TaskRow(number, at, bool(is_shared), fields)

    def remove_task(self, number: int) -> bool:
        return bool(self._change("DELETE FROM node_tasks WHERE number = ?", number))

    def count_tasks(self) -> int:
        ((count,),) = self._query("SELECT count(*) FROM node_tasks")
        return int(count)

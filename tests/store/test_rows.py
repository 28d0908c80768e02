"""How rows are written: in few statements, and found again through an index."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.store import memory as memory_module
from moothall.store.books import SqlBooks
from moothall.store.memory import MAX_REMEMBERED, Memory
from moothall.store.opening import connect, prepare
from moothall.store.rows import LONGEST_RUN, Draft, Fields, Stored, _runs
from moothall.store.sqlite import SqliteConnection
from tests.store.support import ALICE, LISTENER, LISTENING, NOW_MS, Place, accept, complete, propose
from tests.store.test_books import everything_asked

LENGTHS = {1, 2, 4, 8, 16, 32, 64}

SCANS = {
    "SCAN registrations": "every row is wanted",
    "SCAN proposals USING COVERING INDEX proposals_status": "every row is counted, in the index",
    "SCAN standings USING INDEX standings_best": "ends at the limit",
    "SCAN receipts": "from the last backwards, ends at the limit",
    "SCAN imported": "once per start",
}
SUBQUERIES = re.compile(r"SCAN (CONSTANT|(proposer|recipient)_(0|1|receipts)\b)")


@given(st.integers(0, 1000))
def test_rows_go_out_in_runs_of_few_lengths(count: int) -> None:
    """So that the statements stay prepared; and all rows, in their order."""
    rows: list[Fields] = [(number,) for number in range(count)]
    runs = list(_runs(rows))
    assert [row for run in runs for row in run] == rows
    assert {len(run) for run in runs} <= LENGTHS
    assert len(runs) <= count // LONGEST_RUN + len(LENGTHS)


def test_no_question_reads_a_whole_table(sqlite: Place) -> None:
    """Neither do the lookups within a command."""
    connection = connect(sqlite.directory.path, "", create=True)
    assert isinstance(connection, SqliteConnection)
    prepare(connection, sqlite.directory, sqlite.log)
    asked: set[str] = set()
    connection.set_trace_callback(lambda statement: asked.add(statement))
    connection.execute("BEGIN")
    books = SqlBooks(connection, Memory(), Draft(), subscriptions=LISTENING, careful=True)
    for command in (propose("prop_1", elo_stake=5, expires=60), accept("prop_1"), complete("prop_1")):
        command(books)
    everything_asked(books, NOW_MS)
    books.find_key(ALICE.public.agent_id())
    assert books.claim_events(LISTENER, NOW_MS, NOW_MS + 1, 10)
    books.next_event(LISTENER)
    books.waiting_events([LISTENER])
    books.keep()
    connection.execute("COMMIT")
    connection.set_trace_callback(None)
    questions = [statement for statement in asked if statement.startswith("SELECT")]
    assert len(questions) > 20
    scans: set[str] = set()
    for question in questions:
        plan = [row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {question}").fetchall()]
        scans |= {step for step in plan if step.startswith("SCAN") and not SUBQUERIES.match(step)}
    connection.close()
    assert scans <= SCANS.keys()


def test_memory_forgets_the_older_half_when_it_is_full() -> None:
    memory = Memory()
    committed = Draft()
    for number in range(MAX_REMEMBERED + 1):
        committed.keys.add(number.to_bytes(32))
        committed.standings[number.to_bytes(32)] = Stored(1, None)  # type: ignore[arg-type]
    memory.absorb(committed)
    assert MAX_REMEMBERED // 2 <= len(memory.standings) <= MAX_REMEMBERED
    assert MAX_REMEMBERED.to_bytes(32) in memory.standings
    assert (0).to_bytes(32) not in memory.standings
    assert len(memory.keys) == MAX_REMEMBERED + 1


def test_the_keys_that_have_their_row_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "MAX_KEYS", 10)
    memory = Memory()
    for number in range(100):
        draft = Draft()
        draft.put_key(number.to_bytes(32))
        memory.absorb(draft)
    assert 5 <= len(memory.keys) <= 10
    assert (99).to_bytes(32) in memory.keys

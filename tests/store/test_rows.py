"""How rows are written: in few statements, and found again through an index."""

import re
from collections.abc import Callable, Sequence
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.market import credit_books
from moothall.market.ledger import agent_account
from moothall.market.skills import Filters
from moothall.store.books import SqlBooks
from moothall.store.dialect import Connection, Cursor, Row, Statement, Value
from moothall.store.opening import prepare
from moothall.store.row_cache import MAX_KEYS, MAX_REMEMBERED, RowCache
from moothall.store.rows import LONGEST_RUN, Draft, Fields, _runs
from moothall.store.stored import Stored
from moothall.store.transaction import Transaction
from tests.store.support import (
    ALICE,
    BOB,
    LISTENER,
    LISTENING,
    NOW_MS,
    Place,
    accept,
    complete,
    propose,
    register,
)
from tests.store.test_books import everything_asked

LENGTHS = {1, 2, 4, 8, 16, 32, 64}

SCANS = {
    "SCAN offers USING COVERING INDEX offers_best": "from the best on, ends at the limit",
    "SCAN proposals USING COVERING INDEX proposals_status": "every row is counted, in the index",
    "SCAN disputes USING COVERING INDEX disputes_phase": "every row is counted, in the index",
    "SCAN standings USING COVERING INDEX standings_best": "ends at the limit",
    "SCAN imported": "once per start",
    "SCAN case_parts USING INDEX case_parts_live": "once per start, and open cases only",
}
SUBQUERIES = re.compile(
    r"SCAN (CONSTANT|looked|own|wanted|proposed|accepted|others|\d+(-ROW VALUES| CONSTANT ROWS)"
    r"|(proposer|recipient)_(0|1|receipts)\b)"
)


@given(st.integers(0, 1000))
def test_rows_go_out_in_runs_of_few_lengths(count: int) -> None:
    """So that the statements stay prepared; and all rows, in their order."""
    rows: list[Fields] = [(number,) for number in range(count)]
    runs = list(_runs(rows))
    assert [row for run in runs for row in run] == rows
    assert {len(run) for run in runs} <= LENGTHS
    assert len(runs) <= count // LONGEST_RUN + len(LENGTHS)


class Questions:
    """A connection that remembers what it was asked."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.dialect = connection.dialect
        self.errors = connection.errors
        self.stream = connection.stream
        self.execute_all = connection.execute_all
        self.close = connection.close
        self.asked: dict[str, Sequence[Value]] = {}

    def execute(self, sql: str, parameters: Sequence[Value] = (), /) -> Cursor:
        if sql.startswith("SELECT"):
            self.asked[sql] = parameters
        return self._connection.execute(sql, parameters)


def ask_everything(place: Place, connection: Connection) -> Questions:
    """Every question that an agent, the clock or the start of a hall can cause, and the lookups of commands."""
    prepare(connection, place.directory, place.log)
    questions = Questions(connection)
    transaction = Transaction(questions, RowCache(), LISTENING, careful=True)
    transaction.begin()
    books = transaction.unit()
    for command in (propose("prop_1", elo_stake=5, expires=60), accept("prop_1"), complete("prop_1")):
        command(books)
    register(ALICE, {"capability": "code review", "rate": 5})(books)
    everything_asked(books, NOW_MS)
    alice, bob = ALICE.public.raw, BOB.public.raw
    books.find_key(ALICE.public.agent_id())
    books.proposals_of(alice, open_only=True, before=books.proposal("prop_1"))
    books.receipts(alice, before="prop_1")
    books.open_offers(alice, bob, 0, 100)
    books.disk_used("x", 1)
    for filters in (
        Filters(),
        Filters(capability="review"),
        Filters(capability="review", max_rate=9, currency="x"),
    ):
        assert len(books.offered(books.offers(filters, 10) * 3)) == 3
    assert books.offering("code review", 10) == [alice]
    assert credit_books.deposit(books, alice, 5, "r", now=NOW_MS) == books.journal()[0].entry
    assert len(books.journal(agent_account(alice))) == 1
    books.escrow(bytes(16))
    books.case("disp_1", hold=False)
    books.filings("prop_1")
    books.part("disp_none", alice)
    books.cases_of(alice)
    books.cases_of(alice, open_only=True)
    books.due_cases(NOW_MS)
    books.next_case_deadline()
    books.seats()
    books.panels([alice])
    books.qualified([alice], 1, 1)
    books.experience([alice])
    books.cases_by_phase()
    assert books.claim_events(LISTENER, NOW_MS, NOW_MS + 1, 10)
    books.next_event(LISTENER)
    books.waiting_events([LISTENER])
    books.keep()
    transaction.write()
    transaction.commit()
    assert len(questions.asked) > 40
    return questions


def test_no_question_reads_a_whole_table(sqlite: Place) -> None:
    with sqlite.connected() as connection:
        scans: set[str] = set()
        for question, values in ask_everything(sqlite, connection).asked.items():
            plan = connection.execute(f"EXPLAIN QUERY PLAN {question}", values).fetchall()
            steps = [row[-1] for row in plan]
            scans |= {step for step in steps if step.startswith("SCAN") and not SUBQUERIES.match(step)}
    assert scans == SCANS.keys()


def test_every_question_has_an_index_on_postgres_too(postgres: Place) -> None:
    """It prefers to read a small table whole, and says so only when it has no other way."""
    with postgres.connected() as connection:
        questions = ask_everything(postgres, connection)
        connection.execute("SET enable_seqscan = off")
        whole: set[str] = set()
        for question, values in questions.asked.items():
            plan = connection.execute(f"EXPLAIN {question}", values).fetchall()
            whole |= {table for row in plan for table in re.findall(r"Seq Scan on (\w+)", row[0])}
    # Once per start: whom the reference server knew.
    assert whole <= {"imported"}


def test_a_list_reads_the_records_that_it_returns_and_no_others(place: Place) -> None:
    with place.connected() as connection:
        prepare(connection, place.directory, place.log)
        questions = Records(connection)
        transaction = Transaction(questions, RowCache())
        transaction.begin()
        books = transaction.unit()
        for number in range(30):
            propose(f"prop_{number:02}", terms="x" * 10_000, now=NOW_MS + number)(books)
        books.keep()
        books = transaction.unit()
        page = books.proposals_of(ALICE.public.raw, limit=1000, most=60_000)
        assert [deal.id for deal in page.items] == [f"prop_{number}" for number in range(29, 24, -1)]
        assert page.truncated
        assert questions.read == 5
        questions.read = 0
        assert books.proposals_of(ALICE.public.raw, limit=1, most=100).items[0].id == "prop_29"
        assert questions.read == 1


class Records(Questions):
    """Counts the records that were read."""

    read = 0

    def execute(self, sql: str, parameters: Sequence[Value] = (), /) -> Cursor:
        cursor = super().execute(sql, parameters)
        if not re.match(r"SELECT .*\b(record|body)\b(?! *\)).* FROM", sql.replace("length(record)", "")):
            return cursor
        rows = cursor.fetchall()
        self.read += len(rows)
        return Rows(rows)


class Rows:
    rowcount = -1

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows

    def fetchone(self) -> Row | None:
        return self._rows[0] if self._rows else None

    def fetchall(self) -> list[Row]:
        return self._rows


def statements_of(place: Place, *commands: Callable[[SqlBooks], object]) -> list[str]:
    """How one commit writes what these commands leave behind."""
    with place.connected() as connection:
        prepare(connection, place.directory, place.log)
        written = Writings(connection)
        transaction = Transaction(written, RowCache(), LISTENING)
        transaction.begin()
        for command in commands:
            books = transaction.unit()
            command(books)
            books.keep()
        transaction.write()
        transaction.commit()
    return written.statements


class Writings(Questions):
    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.statements: list[str] = []
        self.execute_all = self._write

    def _write(self, statements: Sequence[Statement]) -> list[int]:
        self.statements += [sql for sql, _ in statements]
        return self._connection.execute_all(statements)


def test_an_index_is_written_only_when_its_columns_change(sqlite: Place) -> None:
    """ACCEPT leaves a deal open and ratings as they are, so that it moves in no list."""

    def changed(*commands: Callable[[SqlBooks], object]) -> set[str]:
        written = " ".join(statements_of(sqlite, *commands))
        return {column for column in ("is_open", "rating") if f" {column} = excluded" in written}

    assert changed(propose("prop_1", elo_stake=5)) == {"is_open"}
    assert changed(accept("prop_1")) == set()
    assert changed(complete("prop_1")) == {"is_open", "rating"}
    assert sqlite.problems() == []


@pytest.mark.parametrize(
    "batches",
    [(3,), (1, 2), (2, 1), (1, 1, 1)],
    ids=lambda batches: "+".join(map(str, batches)),
)
def test_columns_say_what_records_say_however_steps_share_commits(
    place: Place, batches: Sequence[int]
) -> None:
    for deal in ("prop_1", "prop_2"):
        steps = iter((propose(deal, elo_stake=5, expires=60), accept(deal), complete(deal)))
        for length in batches:
            statements_of(place, *islice(steps, length))
    assert place.problems() == []
    assert place.select("SELECT status, is_open FROM proposals") == [("completed", 0)] * 2
    assert place.select("SELECT rating, transactions FROM standings") == [(1216, 2)] * 2


def test_memory_forgets_the_older_half_when_it_is_full() -> None:
    cache = RowCache()
    committed = Draft()
    for number in range(MAX_REMEMBERED + 1):
        committed.keys.add(number.to_bytes(32))
        committed.standings[number.to_bytes(32)] = Stored(1, None)  # type: ignore[arg-type]
    cache.absorb(committed)
    assert MAX_REMEMBERED // 2 <= len(cache.standings) <= MAX_REMEMBERED
    assert MAX_REMEMBERED.to_bytes(32) in cache.standings
    assert (0).to_bytes(32) not in cache.standings
    assert len(cache.keys) == MAX_REMEMBERED + 1


def test_the_keys_that_have_their_row_are_bounded_too() -> None:
    cache = RowCache()
    for number in range(MAX_KEYS + 100):
        draft = Draft()
        draft.put_key(number.to_bytes(32))
        cache.absorb(draft)
    assert MAX_KEYS // 2 <= len(cache.keys) <= MAX_KEYS
    assert (MAX_KEYS + 99).to_bytes(32) in cache.keys

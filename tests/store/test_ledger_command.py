"""`moothall ledger deposit|withdraw|balance|journal|check`."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from moothall.cli import ledger
from moothall.cli.ledger import app
from moothall.identity import Identity, save
from tests.store.support import ALICE, BOB, Place, propose, run
from tests.store.test_credits import TALK, approve, converse, credit_problems, lock
from tests.support.server import run_moothall, running_hall

KEY = ALICE.public.raw.hex()


def invoke(place: Place, *arguments: str) -> Any:
    where = ["--store", place.url] if place.url else ["--data-dir", str(place.directory.path)]
    return CliRunner().invoke(app, [*arguments, *where])


def told(place: Place, *arguments: str) -> Any:
    result = invoke(place, *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.output)


@pytest.fixture
def made(place: Place) -> Place:
    with place.books():
        pass
    return place


def test_credits_are_issued_and_taken_back(made: Place) -> None:
    first = invoke(made, "deposit", KEY, "20", "--reference", "invoice 17")
    assert first.output == "deposited 20, reference invoice 17; the balance is 20\n"
    assert "withdrew 2.5" in invoke(made, "withdraw", KEY, "2.5").output
    assert invoke(made, "balance", KEY).output == "17.5\n"
    assert invoke(made, "balance").output.split() == [
        *("agents", "17.5"),
        *("escrows", "0"),
        *("treasury", "0"),
        *("issued", "17.5"),
    ]
    assert invoke(made, "check").output == "no problems found\n"
    assert credit_problems(made) == []


def test_a_reference_counts_once(made: Place) -> None:
    asked = ("deposit", KEY, "0.000001", "--reference", "r")
    first, second = told(made, *asked), told(made, *asked)
    assert not first.pop("repeated")
    assert second.pop("repeated")
    assert first == second
    assert first.pop("at") > 0
    expected = {"operation": "deposit", "amount": 1, "reference": "r", "balance": 1}
    assert first == {"agent_id": KEY, **expected}
    assert "was used before" in invoke(made, *asked).output
    other = invoke(made, "deposit", KEY, "2", "--reference", "r")
    assert other.exit_code == 1
    assert "Another deposit has the reference 'r'" in other.stderr


def test_without_a_reference_each_one_counts(made: Place) -> None:
    told(made, "deposit", KEY, "1")
    assert told(made, "deposit", KEY, "1")["balance"] == 2_000_000


def test_no_more_is_taken_than_there_is(made: Place) -> None:
    told(made, "deposit", KEY, "1")
    result = invoke(made, "withdraw", KEY, "1.000001")
    assert result.exit_code == 1
    assert result.stderr == "error: 1.000001 credits cannot be withdrawn: the balance is 1\n"
    assert told(made, "balance", KEY) == {"agent_id": KEY, "balance": 1_000_000}


@pytest.mark.parametrize("amount", ["0", "-1", "1.0000001", "1e3", "99999999999999", "x"])
def test_an_amount_that_is_none_is_refused(made: Place, amount: str) -> None:
    result = (
        invoke(made, "deposit", KEY, "--", amount) if amount == "-1" else invoke(made, "deposit", KEY, amount)
    )
    assert result.exit_code in (1, 2)
    assert result.stderr.startswith("error: ")
    assert told(made, "journal") == []


async def test_an_agent_is_named_in_several_ways(place: Place, tmp_path: Path) -> None:
    async with place.opened() as store:
        await run(store, propose("prop_1"))
    save(Identity(ALICE), tmp_path / "alice.json")
    (tmp_path / "alice.pem").write_text(ALICE.public.pem)
    names = (
        KEY.upper(),
        f"@{ALICE.public.agent_id()}",
        ALICE.public.fingerprint,
        str(tmp_path / "alice.json"),
        str(tmp_path / "alice.pem"),
    )
    for number, name in enumerate(names, 1):
        assert told(place, "deposit", name, "1")["balance"] == number * 1_000_000
    unknown = invoke(place, "balance", "@00000000")
    assert unknown.exit_code == 2
    assert "the store does not know @00000000" in unknown.stderr


def test_the_journal_lists_postings_and_envelopes(made: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "PAGE", 1)
    converse(made)
    told(made, "deposit", KEY, "1", "--reference", "r")
    with made.books() as books:
        now = told_at = books.journal()[0].entry.at
        lock(1000, TALK, now + 1)(books)
    with made.books() as books:
        approve(books)
    found = {(each["deal"], each["operation"]): each for each in told(made, "journal")}
    talk = f"mesh:{TALK.hex()}"
    assert found.keys() == {("reference:r", "deposit"), (talk, "lock"), (talk, "approve")}
    assert found["reference:r", "deposit"] == {
        "at": told_at,
        "deal": "reference:r",
        "operation": "deposit",
        "postings": [
            {"account": f"agent:{KEY}", "amount": 1_000_000},
            {"account": "external", "amount": -1_000_000},
        ],
    }
    authority = {"envelope": (b"\1" * 32).hex(), "sender": KEY, "nonce": 2**64 - 1}
    assert found[talk, "lock"]["authority"] == authority
    assert len(told(made, "journal", "--limit", "2")) == 2
    rows = [line.split() for line in invoke(made, "journal", KEY).output.splitlines()]
    own = f"@{ALICE.public.agent_id()}"
    assert {(row[1], row[3], row[4]) for row in rows} == {("deposit", own, "1"), ("lock", own, "-0.0011")}
    assert "escrow" in invoke(made, "journal").output
    assert invoke(made, "journal", BOB.public.raw.hex()).output.split()[1] == "approve"


def test_check_prints_each_problem_and_exits_with_1(made: Place) -> None:
    told(made, "deposit", KEY, "1")
    with made.connected() as connection:
        connection.execute("UPDATE balances SET amount = amount + 1 WHERE account <> 'external'")
    result = invoke(made, "check")
    assert result.output == f"credits: agent:{KEY} holds 1000001, and the journal says 1000000\n"
    assert result.exit_code == 1


@pytest.mark.parametrize("arguments", [("deposit", KEY, "1"), ("balance",), ("journal",), ("check",)])
def test_where_there_is_no_store_nothing_is_made(place: Place, arguments: tuple[str, ...]) -> None:
    result = invoke(place, *arguments)
    assert result.exit_code == 2
    assert "there is no store" in result.stderr
    assert not (place.directory.path / "hall.db").exists()


async def test_deposits_while_a_hall_is_running(place: Place) -> None:
    async with place.opened() as store:
        told(place, "deposit", KEY, "1")
        assert await run(store, lambda books: books.balance(f"agent:{KEY}")) == 1_000_000
        await run(store, propose("prop_1"))
        assert told(place, "withdraw", KEY, "1")["balance"] == 0


def test_the_command_of_a_running_hall(tmp_path: Path) -> None:
    with running_hall(tmp_path):
        done = run_moothall(tmp_path, "ledger", "deposit", KEY, "3", "--data-dir", "data")
        assert done.stdout.startswith("deposited 3"), done.stderr
        assert run_moothall(tmp_path, "ledger", "balance", KEY, "--data-dir", "data").stdout == "3\n"

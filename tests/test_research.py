"""What docs/research.md tells researchers to do works, and what is shared afterwards names no agent."""

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moothall import EvidenceItem, SyncAgent
from moothall.cli._listen_events import event_types
from tests.support.server import PATIENCE, HallProcess, environment, run_moothall, running_hall

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "research.md").read_text()
QUERIES = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
SECRETS = (
    "Paint the town hall",
    "for John Smith",
    "north-wing",
    "call 555-0100",
    "jane@",
    "only-for-us",
    "teal",
)


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    """With deals that ended in all ways, a case, and skills."""
    folder = tmp_path_factory.mktemp("hall")
    with running_hall(folder, "--no-limits") as running:
        deal(running, folder)
        yield running


def deal(hall: HallProcess, folder: Path) -> None:
    with (
        SyncAgent("alice", identity=folder / "alice.json", create=True, url=hall.url) as alice,
        SyncAgent("bob", identity=folder / "bob.json", create=True, url=hall.url) as bob,
    ):
        bob.register_skills([{"capability": "painting", "status": "call 555-0100", "kind": "teal"}])
        terms = {"task": "north-wing", "status": "only-for-us", "rating": 7}
        done, failed, refused = (
            alice.propose(bob.address, "Paint the town hall", terms=terms, amount="for John Smith", stake=5)
            for _ in range(3)
        )
        bob.accept(done.id, stake=5)
        alice.complete(done.id, "jane@")
        bob.accept(failed.id)
        alice.dispute(failed.id, "call 555-0100")
        bob.reject(refused.id, "only-for-us")
        judged = alice.propose(bob.address, "Paint the town hall")
        bob.accept(judged.id)
        alice.file_dispute(judged.id, "north-wing", reveal=False)


def anonymised(lines: str, **variables: str) -> list[dict[str, Any]]:
    result = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "anonymise.py")],
        env=environment(**variables),
        input=lines,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def exported(hall: HallProcess) -> str:
    result = run_moothall(hall.folder, "store", "export", "--data-dir", "data")
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_can_be_asked_while_the_hall_runs(query: str, hall: HallProcess) -> None:
    connection = sqlite3.connect(f"file:{hall.data_dir}/hall.db?mode=ro", uri=True)
    try:
        assert connection.execute(query).fetchall()
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM proposals")
    finally:
        connection.close()


def test_there_are_queries() -> None:
    assert len(QUERIES) >= 4


def test_every_table_of_the_export_is_described(hall: HallProcess) -> None:
    connection = sqlite3.connect(f"file:{hall.data_dir}/hall.db?mode=ro", uri=True)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    inside = {"meta", "migrations", "imported", "disk_usage", "hooks", "sqlite_sequence"}
    inside |= {"common_versions", "hall_key", "halls", "present", "letters"}
    assert [name for name in sorted(tables - inside) if f"`{name}`" not in PAGE] == []


def test_receipts_are_exported_and_verified(hall: HallProcess) -> None:
    where = ("-u", hall.url, "-i", "alice.json")
    assert run_moothall(hall.folder, "receipts", "export", *where, "-o", "receipts.jsonl").returncode == 0
    assert run_moothall(hall.folder, "receipts", "verify", "receipts.jsonl").returncode == 0


def test_nothing_that_was_written_or_that_identifies_is_shared(exported: str) -> None:
    assert all(secret in exported for secret in SECRETS)
    rows = [json.loads(line) for line in exported.splitlines()]
    keys = [row for row in rows if row["table"] == "keys"]
    assert len(keys) == 2
    shared = json.dumps(anonymised(exported))
    for found in (*SECRETS, "painting", "alice", "bob"):
        assert found not in shared, found
    for row in keys:
        assert not any(row[spelling] in shared for spelling in ("key", "fingerprint", "short"))
    assert not [row["id"] for row in rows if row["table"] == "proposals" and row["id"] in shared]


def test_an_agent_has_one_pseudonym_in_all_tables(exported: str) -> None:
    rows = anonymised(exported)
    (first, second) = [row for row in rows if row["table"] == "keys"]
    assert first["key"] == first["fingerprint"] == first["short"] != second["key"]
    agents = {first["key"], second["key"]}
    (receipt,) = [row for row in rows if row["table"] == "receipts"]
    assert {receipt["proposer"], receipt["recipient"], *receipt["body"]["rating_changes"]} - {
        "_escrow"
    } == agents
    assert {step["key"] for step in receipt["body"]["operations"]} == agents
    deals = [row for row in rows if row["table"] == "proposals"]
    assert {deal["status"] for deal in deals} >= {"completed", "disputed", "rejected"}
    assert all({deal["proposer"], deal["recipient"]} == agents for deal in deals)


def test_pseudonyms_of_two_runs_differ_unless_the_key_is_given(exported: str) -> None:
    assert anonymised(exported) != anonymised(exported)
    assert anonymised(exported, PSEUDONYM_KEY="k") == anonymised(exported, PSEUDONYM_KEY="k")


def test_what_agents_put_into_evidence_is_not_shared() -> None:
    item = EvidenceItem("commit", "north-wing").fields() | {"status": "only-for-us", "record": {"type": "x"}}
    message = {"type": "EVIDENCE", "items": [item], "statement": "call 555-0100", "sig": "kL0"}
    (row,) = anonymised(json.dumps({"table": "audit", "data": {"message": message}}) + "\n")
    assert row == {"table": "audit", "data": {"message": {"type": "EVIDENCE", "statement": 13}}}


def test_a_message_keeps_who_when_and_how_long() -> None:
    line = {
        "type": "MSG",
        "from": "@1a2b3c4d",
        "from_name": "alice",
        "to": "#general",
        "content": "hello",
        "ts": 5,
    }
    (row,) = anonymised(json.dumps(line) + "\n")
    assert row | {"from": "", "to": ""} == {"type": "MSG", "from": "", "to": "", "content": 5, "ts": 5}


def test_events_keep_who_and_when_and_lose_names_and_texts() -> None:
    wire = (ROOT / "docs" / "wire-from-hall.md").read_text()
    examples = [json.loads(line) for line in re.findall(r'^\{"type".*\}$', wire, re.MULTILINE)]
    events = [example for example in examples if example["type"] in event_types()]
    assert {event["type"] for event in events} == set(event_types())
    rows = anonymised("".join(json.dumps(event) + "\n" for event in events))
    assert [(row["type"], row["ts"]) for row in rows] == [(event["type"], event["ts"]) for event in events]
    assert all(len(row) > 2 for row in rows)
    shared = json.dumps(rows)
    for secret in (
        "@",
        "#general",
        "alice",
        "reviewing",
        "grey",
        "Paint",
        "4f2a9c1",
        "too busy",
        "kL0",
        "1a2b3c4d",
    ):
        assert secret not in shared, secret

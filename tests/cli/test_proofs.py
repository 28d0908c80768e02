"""Whose word counts, as users name it; and what they are told."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moothall.cli._proofs import expected_halls
from moothall.errors import UsageError
from moothall.identity import Identity, PrivateKey, save
from moothall.known_halls import KnownHalls
from tests.cli.test_deals import complaint, moothall
from tests.identity.vectors import ALICE, BOB
from tests.market.support import Market
from tests.support.seals import HALL, HALL_ID, SEAL


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def receipt(tmp_path: Path, **fields: Any) -> dict[str, Any]:
    market = Market()
    market.propose(ALICE, BOB, **fields)
    market.accept(BOB)
    market.complete(BOB)
    body: dict[str, Any] = msgspec.json.decode(market.books.kept_receipts[0].body)
    (tmp_path / "receipt.json").write_text(json.dumps(body, indent=2))
    return body


def test_a_hall_is_named_by_a_file_or_a_text(tmp_path: Path) -> None:
    (tmp_path / "hall.pem").write_text(HALL.public.pem)
    save(Identity(HALL), tmp_path / "hall-key.json")
    for word in ("hall.pem", str(tmp_path / "hall-key.json"), HALL_ID, SEAL.hall_key):
        assert expected_halls([word]) == {HALL_ID: "named with --hall"}
    assert len(expected_halls([HALL_ID, "0" * 32])) == 2


def test_without_a_name_the_halls_count_that_the_user_has_met() -> None:
    assert expected_halls(None) == {}
    KnownHalls().pin("hall.example.org:443", SEAL.hall_key)
    assert expected_halls(None) == {HALL_ID: "met at hall.example.org:443"}
    assert expected_halls(["0" * 32]).keys() == {"0" * 32}


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"nonsense", b"\xff", HALL.to_pem().encode()])
def test_a_file_without_a_public_key_is_a_usage_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "hall.pem").write_bytes(content)
    with pytest.raises(UsageError, match=r"--hall hall\.pem: ") as refused:
        expected_halls(["hall.pem"])
    assert "MC4" not in str(refused.value)  # what a private key begins with


async def test_what_is_too_short_is_a_usage_error() -> None:
    said = await complaint(2, "receipts", "verify", "-", "--hall", HALL.public.fingerprint)
    assert "32 hex digits" in said


async def test_without_the_hall_the_result_is_not_proven(tmp_path: Path) -> None:
    receipt(tmp_path, task="paint|5")
    result = await moothall("receipts", "verify", "receipt.json")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[:2] == [
        "prop_1  not proven",
        f"  MISSING   `hall_key`: you neither named nor know the hall {SEAL.hall_key}.",
    ]
    assert lines[2].startswith(
        f"  hall      {SEAL.hall_key} signed all of it (unknown to you; if you trust it,"
    )
    assert lines[2].endswith("; 3 fact(s) rest on its word alone: -v lists them.")
    assert len(lines) == 3
    everything = (await moothall("receipts", "verify", "receipt.json", "-v")).stdout.splitlines()
    for fact in (
        "Where the fields of the PROPOSAL begin and end: one of them holds `|`",
        "That this PROPOSAL is the one that was accepted under this id",
        "Times, ratings, terms and capability",
    ):
        assert sum(line.startswith(f"            {fact}") for line in everything) == 1
    named = await moothall("receipts", "verify", "receipt.json", "--hall", HALL_ID)
    assert (named.exit_code, named.stdout.splitlines()[0]) == (0, "prop_1  holds")
    assert f"{SEAL.hall_key} signed all of it (named with --hall);" in named.stdout
    KnownHalls().pin("localhost:6667", SEAL.hall_key)
    met = await moothall("receipts", "verify", "receipt.json")
    assert met.exit_code == 0
    assert f"{SEAL.hall_key} signed all of it (met at localhost:6667);" in met.stdout
    another = ("--hall", PrivateKey(bytes(32)).public.raw.hex())
    assert (await moothall("receipts", "verify", "receipt.json", *another)).exit_code == 1


async def test_a_receipt_without_a_hall_signature_is_not_proven(tmp_path: Path) -> None:
    body = receipt(tmp_path)
    for member in ("hall_key", "hall_sig", "created_at"):
        del body[member]
    (tmp_path / "old.json").write_text(json.dumps(body))
    result = await moothall("receipts", "verify", "old.json", "--hall", HALL_ID)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[:2] == [
        "prop_1  not proven",
        "  MISSING   `hall_sig`: there is no hall signature.",
    ]


async def test_everything_that_was_checked(tmp_path: Path) -> None:
    receipt(tmp_path)
    result = await moothall("receipts", "verify", "receipt.json", "--hall", HALL_ID, "-v")
    lines = result.stdout.splitlines()
    assert sum(line.startswith("  signed    @") for line in lines) == 3
    assert sum(line.startswith("  fits      ") for line in lines) == 12


async def test_a_member_twice_is_refused_in_a_list_too(tmp_path: Path) -> None:
    text = json.dumps([receipt(tmp_path)]).replace('"status"', '"status": "disputed", "status"', 1)
    (tmp_path / "list.json").write_text(text)
    assert "two members" in await complaint(2, "receipts", "verify", "list.json", "--hall", HALL_ID)


async def test_a_forger_cannot_write_the_result_into_a_line(tmp_path: Path) -> None:
    body = receipt(tmp_path)
    body["proposal_id"] = f"prop_1  holds{' ' * 500}"
    body["from"] = f"@1{' ' * 500}prop_2  holds"
    body["operations"][0]["sig"] = "-"
    (tmp_path / "forged.json").write_text(json.dumps(body))
    for flags in ((), ("-v",)):
        result = await moothall("receipts", "verify", "forged.json", "--hall", HALL_ID, *flags)
        assert result.exit_code == 1
        first, *lines = result.stdout.splitlines()
        assert first == "?  does not hold"
        labels = ("  WRONG     `", "  MISSING   `", "  signed    ", "  fits      ", "  hall      ", " " * 12)
        assert all(line.startswith(labels) for line in lines)
        assert max(map(len, lines)) < 420
        assert not any("   prop_2" in line for line in lines)


async def test_a_long_sentence_is_cut(tmp_path: Path) -> None:
    body = receipt(tmp_path)
    body["from"] = "x" * 100_000
    body["operations"][0]["sig"] = "-"
    (tmp_path / "forged.json").write_text(json.dumps(body))
    result = await moothall("receipts", "verify", "forged.json", "--hall", HALL_ID)
    assert result.exit_code == 1
    assert max(map(len, result.stdout.splitlines())) < 420


@pytest.mark.parametrize("name", [HALL_ID, HALL.public.raw.hex()], ids=["key id", "hex"])
def test_a_file_does_not_stand_for_a_key_that_it_is_named_after(name: str, tmp_path: Path) -> None:
    """A forger hands over records together with such a file, which holds a key of its own."""
    (tmp_path / name).write_text(ALICE.public.pem)
    assert list(expected_halls([name])) == [HALL_ID]

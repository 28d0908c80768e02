"""What commands read from files: whatever is in there, a mistake is one line and never a traceback."""

import io
import sys
from pathlib import Path

import pytest

from moothall.cli import _reading, skills
from moothall.cli._reading import read_content, read_json, read_objects, read_public_key
from moothall.errors import UsageError
from moothall.identity import Identity, keyfile
from tests.identity.vectors import ALICE
from tests.support.server import run_moothall


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.json"


@pytest.mark.parametrize("content", [b"", b"{", b"[NaN]", b"[-Infinity]", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_called_so(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(UsageError, match=r"file\.json is not JSON"):
        read_json(str(file))


@pytest.mark.parametrize("content", [b"{}", b'"text"', b"[1]", b'[{}, "x"]', b"null"])
def test_what_is_no_list_of_objects_is_told_what_one_looks_like(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(UsageError, match=r"not a list of items like \[\{\}\]"):
        read_objects(str(file), "items", "[{}]")


def test_a_file_that_cannot_be_read(file: Path, tmp_path: Path) -> None:
    for word, reason in (
        (str(file), "No such file"),
        (str(tmp_path), "Is a directory"),
        ("~nobody-has-this-name/file.json", "no such home directory"),
    ):
        with pytest.raises(UsageError, match=reason):
            read_content(word)


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'[{"a": 1}]')))
    assert read_objects("-", "items", "[{}]") == [{"a": 1}]


def test_skills_are_read_like_everything_else(file: Path) -> None:
    file.write_bytes(b"[" * 100_000)
    with pytest.raises(UsageError, match="not JSON"):
        skills.register([str(file)])


def test_a_file_that_is_too_large_is_not_parsed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_reading, "MAX_JSON", 10)
    file.write_bytes(b"[" + b" " * 8 + b"]")
    assert read_json(str(file)) == []
    file.write_bytes(b"x" * 11)
    with pytest.raises(UsageError, match="more than 10 bytes"):
        read_json(str(file))


def test_a_public_key_in_many_wrappings(tmp_path: Path) -> None:
    keyfile.save(Identity(ALICE, name="alice"), tmp_path / "key.json")
    (tmp_path / "key.pem").write_text(ALICE.public.pem)
    (tmp_path / "shown.txt").write_text(run_moothall(tmp_path, "identity", "show", "key.json").stdout)
    for name in ("key.json", "key.pem", "shown.txt"):
        assert read_public_key(str(tmp_path / name)) == ALICE.public
    (tmp_path / "private.pem").write_text(ALICE.to_pem())
    for content in ("[]", "{}", '{"publicKey": 5}', "5"):
        (tmp_path / "wrong").write_text(content)
        with pytest.raises(UsageError, match="does not hold a public key"):
            read_public_key(str(tmp_path / "wrong"))
    with pytest.raises(UsageError, match="does not hold a public key"):
        read_public_key(str(tmp_path / "private.pem"))

"""Keys of the API, and the secret that a node makes."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import UsageError
from moothall.node_api.auth import TOKEN_FILE, Keys, Level, api_place, bearer, master_secret
from moothall.wire.authority import Authority

HERE = Authority("127.0.0.1", 9090)
SECRET = "a-master-secret"


@pytest.mark.parametrize(
    ("key", "levels"),
    [
        (SECRET, {Level.MASTER, Level.READ, Level.OPEN}),
        ("reader-1", {Level.READ, Level.OPEN}),
        ("reader-2", {Level.READ, Level.OPEN}),
        ("another", {Level.OPEN}),
        ("", {Level.OPEN}),
        (None, {Level.OPEN}),
        ("\udcff", {Level.OPEN}),
    ],
)
def test_the_levels(key: str | None, levels: set[Level]) -> None:
    keys = Keys(SECRET, ["reader-1", "reader-2"])
    assert {level for level in Level if keys.admits(key, level)} == levels


@given(st.text(max_size=20), st.text(min_size=1, max_size=20))
def test_only_the_key_itself_is_admitted(tried: str, key: str) -> None:
    assert Keys(key).admits(tried, Level.READ) == (tried == key)


@pytest.mark.parametrize(
    ("header", "key"),
    [("Bearer abc", "abc"), ("bearer abc", None), ("abc", None), ("", None), ("Bearer ", "")],
)
def test_the_header(header: str, key: str | None) -> None:
    assert bearer({"authorization": header}) == key


def test_a_secret_that_was_given_is_used(tmp_path: Path) -> None:
    assert master_secret(SECRET, Authority("0.0.0.0", 1), tmp_path) == (SECRET, None)  # noqa: S104
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("secret", ["short", "with\nline breaks", "not ASCII: äöü"])
def test_a_secret_that_cannot_be_used(secret: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ZX01_API_SECRET"):
        master_secret(secret, HERE, tmp_path)


def test_a_node_makes_a_secret_and_keeps_it(tmp_path: Path) -> None:
    token, path = master_secret(None, HERE, tmp_path)
    assert path == tmp_path / TOKEN_FILE
    assert path.read_text() == token
    assert len(token) == 32
    assert token.isascii()
    assert token.isalnum()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert master_secret("", HERE, tmp_path) == (token, path)


@pytest.mark.parametrize("damage", ["mode", "content", "bytes"])
def test_a_token_that_others_may_know_is_replaced(damage: str, tmp_path: Path) -> None:
    token, path = master_secret(None, HERE, tmp_path)
    assert path is not None
    if damage == "mode":
        path.chmod(0o644)
    else:
        path.write_bytes(b"abc" if damage == "content" else b"\xff" * 32)
    other, _ = master_secret(None, HERE, tmp_path)
    assert other != token
    assert path.read_text() == other
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--log-dir"):
        master_secret(None, HERE, tmp_path / "missing")


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "node.example"])  # noqa: S104
def test_other_machines_need_a_secret(host: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ZX01_API_SECRET"):
        master_secret(None, Authority(host, 9090), tmp_path)


def test_the_place_of_the_api() -> None:
    assert api_place("127.0.0.1:9090") == HERE
    assert api_place("[::1]:0") == Authority("::1", 0)
    for text in ("127.0.0.1", "9090", ":9090", "127.0.0.1:x", "127.0.0.1:99999", "http://127.0.0.1:1"):
        with pytest.raises(UsageError, match="--api-addr"):
            api_place(text)

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from moothall.errors import KeyFileError, KeyFileMissing
from moothall.identity import Identity, PrivateKey, save
from moothall.keep import key_from_file


def pem(key: Ed25519PrivateKey | X25519PrivateKey, password: bytes = b"") -> bytes:
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def secret(path: Path, content: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(content)
    return path


def test_a_key_is_made_once_and_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "folder" / "alice.pem"
    key = key_from_file(path, create=True)
    assert caplog.messages == [f"made a new key: {path}"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert key_from_file(str(path)).private_bytes_raw() == key.private_bytes_raw()
    assert [entry.name for entry in path.parent.iterdir()] == ["alice.pem"]


def test_no_key_is_made_unless_asked_for(tmp_path: Path) -> None:
    with pytest.raises(KeyFileMissing, match="moothall identity new"):
        key_from_file(tmp_path / "alice.pem")
    assert list(tmp_path.iterdir()) == []


def test_those_who_start_together_have_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(
            pool.map(lambda _: key_from_file(tmp_path / "k", create=True).private_bytes_raw(), range(16))
        )
    assert len(keys) == 1


def test_an_identity_is_the_same_agent_on_this_wire(tmp_path: Path) -> None:
    identity = Identity(key=PrivateKey(bytes(range(32))))
    save(identity, tmp_path / "identity.json")
    found = key_from_file(tmp_path / "identity.json")
    assert found.private_bytes_raw() == bytes(range(32))
    assert found.public_key().public_bytes_raw() == identity.public.raw


def test_a_file_that_is_no_key_is_not_to_be_closed_to_others(tmp_path: Path) -> None:
    path = tmp_path / "passwd"
    path.write_text("root:x:0:0:root:/root:/bin/bash\n")
    path.chmod(0o644)
    with pytest.raises(KeyFileError, match="holds no private key") as refused:
        key_from_file(path)
    assert "chmod" not in str(refused.value)


def test_a_key_that_others_can_reach_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "my key"
    key_from_file(path, create=True)
    path.chmod(0o640)
    with pytest.raises(KeyFileError, match=f"chmod 600 '{path}'"):
        key_from_file(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nonsense",
        b"{}",
        b'{"privateKey": 5}',
        b"{" * 100_000,
        pem(X25519PrivateKey.generate()),
        pem(Ed25519PrivateKey.generate(), b"password"),
    ],
    ids=["empty", "text", "no identity", "number", "deep", "another kind", "encrypted"],
)
def test_what_is_no_key(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(KeyFileError, match="holds no Ed25519 private key"):
        key_from_file(secret(tmp_path / "key", content))


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="Is a directory"):
        key_from_file(tmp_path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(KeyFileError, match="regular file"):
        key_from_file(tmp_path / "pipe")
    with pytest.raises(KeyFileError, match="Not a directory"):
        key_from_file(secret(tmp_path / "file", b"") / "key", create=True)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(KeyFileError, match="No such file"):
        key_from_file(tmp_path / "link")


def test_an_error_does_not_show_the_key(tmp_path: Path) -> None:
    path = secret(tmp_path / "key", pem(Ed25519PrivateKey.generate()).replace(b"-----END", b"----END"))
    code = f"from moothall.keep import key_from_file; key_from_file({str(path)!r})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "KeyFileError" in result.stderr
    assert "MC4CAQAw" not in result.stderr

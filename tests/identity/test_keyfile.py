import json
import os
import pickle
import stat
import traceback
from base64 import b64encode
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from moothall.errors import InvalidCertificate, KeyFileError
from moothall.identity import (
    Identity,
    PrivateKey,
    load,
    load_or_create,
    rotate,
    save,
    save_rotated,
    verify_chain,
)
from moothall.identity.keyfile import MAX_FILE_BYTES, read_object
from tests.identity.vectors import ALICE, BOB, CAROL, NOW_MS, SEEDS

CREATED = "2026-01-02T03:04:05.678Z"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "alice.json"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def write(path: Path, content: object, permission: int = 0o600) -> None:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(permission)


def fields(key: PrivateKey = ALICE, **others: object) -> dict[str, Any]:
    return {"publicKey": key.public.pem, "privateKey": key.to_pem()} | others


def complaint(path: Path) -> str:
    """What loading says; whatever it is, it is one line, names the file and gives nothing away."""
    with pytest.raises(KeyFileError) as caught:
        load(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert_secret("".join(traceback.format_exception(caught.value)))
    return message


def assert_secret(shown: str) -> None:
    seed = SEEDS["alice"]
    for spelling in (seed.hex(), b64encode(seed).decode(), ALICE.to_pem().splitlines()[1]):
        assert spelling not in shown


# the format


def test_the_file_is_the_references(path: Path) -> None:
    save(Identity(ALICE, name="alice", created=CREATED), path)
    assert path.read_text() == json.dumps(
        {
            "publicKey": ALICE.public.pem,
            "privateKey": ALICE.to_pem(),
            "agentId": ALICE.public.fingerprint,
            "name": "alice",
            "created": CREATED,
        },
        indent=2,
    ) + "\n"  # fmt: skip


def test_what_is_not_known_is_not_written(path: Path) -> None:
    save(Identity(ALICE), path)
    assert list(json.loads(path.read_text())) == ["publicKey", "privateKey", "agentId"]


def test_an_identity_is_loaded_as_it_was_saved(path: Path) -> None:
    identity = Identity(ALICE, "alice", CREATED, other={"colour": "gr\xfcn \ud83d"}).rotated(
        BOB, now_ms=NOW_MS
    )
    save(identity, path)
    assert load(path) == identity


def test_the_short_names_of_the_keys_are_read_too(path: Path) -> None:
    write(path, {"pubkey": ALICE.public.pem, "privkey": ALICE.to_pem(), "name": None})
    assert load(path) == Identity(ALICE)


def test_other_spellings_of_the_keys_are_read_too(path: Path) -> None:
    write(path, {"publicKey": ALICE.public.pem.strip(), "privateKey": ALICE.to_pem().replace("\n", "\r\n")})
    assert load(path).public.fingerprint == ALICE.public.fingerprint


def test_fields_of_other_programs_cannot_replace_the_key(path: Path) -> None:
    save(Identity(ALICE, other={"privateKey": BOB.to_pem()}), path)
    assert load(path).key == ALICE


def test_rotations_that_do_not_hold_do_not_lock_the_agent_out(path: Path) -> None:
    write(path, fields(rotations=[{"old_pubkey": "?"}]))
    identity = load(path)
    assert identity.key == ALICE
    with pytest.raises(InvalidCertificate, match="rotation 1 of 1"):
        identity.rotated(BOB, now_ms=NOW_MS)


# permissions


def test_only_the_owner_can_read_the_file_whatever_the_umask(path: Path) -> None:
    for number, mask in enumerate((0o000, 0o022, 0o277)):
        before = os.umask(mask)
        try:
            saved = path.with_name(f"{number}.json")
            save(Identity(ALICE), saved)
        finally:
            os.umask(before)
        assert mode(saved) == 0o600


@pytest.mark.parametrize("permission", [0o640, 0o604, 0o660, 0o601, 0o620, 0o644])
def test_a_file_that_others_can_reach_is_refused(path: Path, permission: int) -> None:
    write(path, fields(), permission)
    assert f"chmod 600 {path}" in complaint(path)


@pytest.mark.parametrize("content", ["root:x:0:0:root:/root:/bin/bash\n", {}, ""])
def test_a_file_that_is_no_key_is_not_to_be_closed_to_others(path: Path, content: object) -> None:
    write(path, content, 0o644)
    said = complaint(path)
    assert "is not the file of an identity" in said
    assert "chmod" not in said


def test_the_remedy_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    path = tmp_path / "my key.json"
    write(path, fields(), 0o644)
    assert f"chmod 600 '{path}'" in complaint(path)


@pytest.mark.parametrize("permission", [0o600, 0o400])
def test_a_file_closed_to_others_is_read(path: Path, permission: int) -> None:
    write(path, fields(), permission)
    assert load(path).key == ALICE


def test_directories_are_made_for_the_owner_only(tmp_path: Path) -> None:
    save(Identity(ALICE), tmp_path / "one" / "two" / "alice.json")
    assert mode(tmp_path / "one") == mode(tmp_path / "one" / "two") == 0o700


@pytest.mark.parametrize("below", ["alice.json", "identities/alice.json"])
def test_git_ignores_the_agentchat_directory(tmp_path: Path, below: str) -> None:
    home = tmp_path / ".agentchat"
    save(Identity(ALICE), home / below)
    assert (home / ".gitignore").read_text() == "*\n"


def test_a_gitignore_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    home = tmp_path / ".agentchat"
    home.mkdir()
    (home / ".gitignore").write_text("*.db\n")
    save(Identity(ALICE), home / "identity.json")
    assert (home / ".gitignore").read_text() == "*.db\n"


def test_no_gitignore_appears_elsewhere(path: Path) -> None:
    save(Identity(ALICE), path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


# writing


def test_a_file_that_exists_is_left_alone(path: Path) -> None:
    save(Identity(ALICE), path)
    with pytest.raises(KeyFileError, match="exists already"):
        save(Identity(BOB), path)
    assert load(path).key == ALICE
    assert len(list(path.parent.iterdir())) == 1


def test_a_file_is_replaced_when_asked_for(path: Path) -> None:
    write(path, "old", 0o644)
    save(Identity(BOB), path, overwrite=True)
    assert load(path).key == BOB
    assert len(list(path.parent.iterdir())) == 1


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("dangling", [False, True])
def test_a_key_is_not_written_through_a_symbolic_link(path: Path, overwrite: bool, dangling: bool) -> None:
    target = path.with_name("target")
    if not dangling:
        target.write_text("precious")
    path.symlink_to(target)
    with pytest.raises(KeyFileError, match="symbolic link"):
        save(Identity(ALICE), path, overwrite=overwrite)
    assert path.is_symlink()
    assert dangling or target.read_text() == "precious"
    assert target.exists() != dangling


def test_a_link_that_appears_at_the_last_moment_is_not_followed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = path.with_name("target")
    path.symlink_to(target)
    monkeypatch.setattr(Path, "is_symlink", lambda _: False)
    with pytest.raises(KeyFileError, match="exists already"):
        save(Identity(ALICE), path)
    assert not target.exists()


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    save(Identity(ALICE), path)

    def disk_full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path if step == "replace" else os, step, disk_full)
    with pytest.raises(KeyFileError, match="No space left on device"):
        save(Identity(BOB), path, overwrite=True)
    assert load(path).key == ALICE
    assert list(path.parent.iterdir()) == [path]


def test_the_content_is_on_disk_before_the_name_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def record_fsync(descriptor: int) -> None:
        steps.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "content")
        fsync(descriptor)

    def record_replace(self: Path, target: Path) -> Path:
        steps.append("name")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(Path, "replace", record_replace)
    save(Identity(ALICE), path, overwrite=True)
    assert steps == ["content", "name", "directory"]


def test_a_directory_that_cannot_be_made_is_explained(path: Path) -> None:
    path.write_text("a file where a directory should be")
    with pytest.raises(KeyFileError, match="Not a directory"):
        save(Identity(ALICE), path / "below" / "alice.json")


# reading what is not an identity


def test_a_missing_file_is_explained(path: Path) -> None:
    assert "moothall identity new" in complaint(path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '"text"',
        "\ufffd",
        "[" * 100_000,
        json.dumps(fields())[:-1],
    ],
)
def test_a_file_that_is_no_json_object_is_explained(path: Path, content: str) -> None:
    write(path, content)
    assert "not a JSON object" in complaint(path)


def test_the_text_of_the_file_does_not_travel_with_the_error(path: Path) -> None:
    write(path, json.dumps(fields())[:-1])
    with pytest.raises(KeyFileError) as caught:
        load(path)
    assert caught.value.__context__ is None  # a JSONDecodeError carries the whole document


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, "privateKey is missing"),
        ({"privateKey": 7}, "privateKey is missing"),
        ({"privateKey": "x"}, "not a private key"),
        ({"privateKey": ALICE.to_pem()}, "publicKey is missing"),
        (fields() | {"publicKey": "x"}, "not a public key"),
        (fields() | {"publicKey": ALICE.to_pem()}, "this is a private key"),
        (fields() | {"publicKey": BOB.public.pem}, "publicKey does not belong to privateKey"),
        (fields(name="a b"), "name is not"),
        (fields(name="a\n"), "name is not"),
        (fields(name="\x1b[2J"), "name is not"),
        (fields(name=7), "name is not a text"),
        (fields(created=7), "created is not a text"),
        (fields(rotations={}), "rotations is not a list"),
    ],
)
def test_a_wrong_field_is_named(path: Path, content: dict[str, Any], words: str) -> None:
    write(path, content)
    assert words in complaint(path)


def test_a_directory_a_pipe_and_a_huge_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    assert "Is a directory" in complaint(tmp_path / "directory")
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert "not a regular file" in complaint(tmp_path / "pipe")
    write(tmp_path / "huge", " " * (MAX_FILE_BYTES + 1))
    assert "larger" in complaint(tmp_path / "huge")


def test_what_is_not_secret_may_be_open_to_all(path: Path) -> None:
    write(path, {"type": "REVOCATION"}, 0o644)
    assert read_object(path, secret=False) == {"type": "REVOCATION"}


# creating on first use


def test_the_first_start_creates_and_the_second_loads(path: Path) -> None:
    assert load_or_create(path, lambda: Identity(ALICE)).key == ALICE
    assert load_or_create(path, lambda: Identity(BOB)).key == ALICE


def test_of_two_that_start_together_both_have_the_key_of_the_first(path: Path) -> None:
    def make_too_late() -> Identity:
        save(Identity(ALICE), path)
        return Identity(BOB)

    assert load_or_create(path, make_too_late).key == ALICE


def test_a_broken_file_is_not_taken_for_a_missing_one(path: Path) -> None:
    write(path, "{")
    with pytest.raises(KeyFileError, match="not a JSON object"):
        load_or_create(path, lambda: Identity(BOB))
    assert path.read_text() == "{"


# rotation


def test_a_rotation_replaces_the_key_and_keeps_the_old_one(path: Path) -> None:
    save(Identity(ALICE, name="alice", created=CREATED, other={"colour": "green"}), path)
    rotated, retired = save_rotated(load(path), path, BOB, now_ms=NOW_MS)
    assert load(path) == rotated
    assert rotated.rotations == (rotate(ALICE, BOB.public, now_ms=NOW_MS),)
    assert (rotated.key, rotated.name, rotated.created) == (BOB, "alice", CREATED)
    assert rotated.other == {"colour": "green"}
    assert retired == path.with_name(f"alice.json.{ALICE.public.fingerprint}.old")
    assert load(retired).key == ALICE
    assert mode(path) == mode(retired) == 0o600


def test_rotations_add_up_to_a_chain(path: Path) -> None:
    save(Identity(ALICE), path)
    for number, key in enumerate((BOB, CAROL)):
        save_rotated(load(path), path, key, now_ms=NOW_MS + number)
    assert verify_chain(load(path).rotations, CAROL.public) == ALICE.public


def test_an_interrupted_rotation_loses_nothing_and_can_be_repeated(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(Identity(ALICE), path)

    def power_cut(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr(Path, "replace", power_cut)
        with pytest.raises(KeyboardInterrupt):
            save_rotated(load(path), path, BOB, now_ms=NOW_MS)
    assert load(path) == Identity(ALICE)
    save_rotated(load(path), path, CAROL, now_ms=NOW_MS)
    assert load(path).key == CAROL
    assert len(list(path.parent.iterdir())) == 2


def test_a_foreign_file_in_the_place_of_the_old_key_is_not_overwritten(path: Path) -> None:
    save(Identity(ALICE), path)
    retired = path.with_name(f"{path.name}.{ALICE.public.fingerprint}.old")
    save(Identity(CAROL), retired)
    with pytest.raises(KeyFileError, match="another key"):
        save_rotated(load(path), path, BOB, now_ms=NOW_MS)
    assert (load(path).key, load(retired).key) == (ALICE, CAROL)


# secrecy


def test_an_identity_shows_no_key() -> None:
    identity = Identity(ALICE, name="alice")
    for shown in (repr(identity), str(identity), f"{identity}", repr(asdict(identity))):
        assert ALICE.public.fingerprint in shown
        assert_secret(shown)
    with pytest.raises(TypeError, match="key file"):
        pickle.dumps(identity)

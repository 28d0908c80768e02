import json
import stat
from base64 import b64encode
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from moothall.cli.identity import app
from moothall.identity import PrivateKey, load, rotate, save, verify_chain, verify_revocation
from moothall.identity.keyfile import Identity
from moothall.known_halls import PATH_VARIABLE, KnownHalls
from tests.support.server import run_moothall, running_hall

ALICE = PrivateKey(bytes(range(32)))
BOB = PrivateKey(bytes(range(32, 64)))
NOW_MS = 1_767_323_045_678


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "identity.json"


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert "PRIVATE KEY" not in result.output
    assert "Traceback" not in result.output
    return result


def succeed(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def fail(code: int, *arguments: object) -> str:
    """The one line on stderr."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def assert_secret(shown: str, path: Path) -> None:
    body = json.loads(path.read_text())["privateKey"].splitlines()[1]
    assert body not in shown


# new


def test_new_makes_a_key_that_only_the_owner_can_read(path: Path) -> None:
    output = succeed("new", "--file", path, "--name", "alice")
    identity = load(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert identity.name == "alice"
    assert identity.created is not None
    assert identity.created.endswith("Z")
    assert f"@{identity.public.agent_id()}\n" in output
    assert identity.public.fingerprint in output
    assert_secret(output, path)


def test_new_makes_another_key_each_time(tmp_path: Path) -> None:
    succeed("new", "--file", tmp_path / "a")
    succeed("new", "--file", tmp_path / "b")
    assert load(tmp_path / "a").key != load(tmp_path / "b").key


def test_the_default_file_is_in_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    succeed("new")
    identity = load(tmp_path / ".agentchat" / "identity.json")
    assert (tmp_path / ".agentchat" / ".gitignore").read_text() == "*\n"
    assert identity.public.fingerprint in succeed("show")


def test_new_takes_the_file_as_its_argument(path: Path) -> None:
    assert f"made {path}\n" in succeed("new", path)
    assert load(path).public.fingerprint in succeed("show", path)
    assert load(path).public.fingerprint in succeed("show", "-i", path)
    key = load(path).key
    assert "exists already" in fail(2, "new", path)
    assert load(path).key == key
    assert "name one" in fail(2, "show", path, "--file", "other.json")


def test_new_replaces_a_file_only_by_force(path: Path) -> None:
    save(Identity(ALICE), path)
    assert "--force" in fail(2, "new", "--file", path)
    assert load(path).key == ALICE
    succeed("new", "--file", path, "--force")
    assert load(path).key != ALICE


@pytest.mark.parametrize("name", ["", "a b", "x" * 33, "caf\xe9", "a\n"])
def test_new_refuses_a_name_that_no_hall_takes(path: Path, name: str) -> None:
    assert "--name" in fail(2, "new", "--file", path, "--name", name)
    assert not path.exists()


# show


def test_show_prints_both_ids_and_the_public_key(path: Path) -> None:
    save(Identity(ALICE, name="alice", created="2026"), path)
    output = succeed("show", "--file", path)
    assert f"@{ALICE.public.agent_id()}\n" in output
    assert ALICE.public.fingerprint in output
    assert ALICE.public.raw.hex() in output
    assert ALICE.public.pem in output
    assert "alice" in output
    assert_secret(output, path)


def test_show_json_is_for_programs(path: Path) -> None:
    save(Identity(ALICE, name="alice").rotated(BOB, now_ms=NOW_MS), path)
    assert json.loads(succeed("show", "--file", path, "--json")) == {
        "file": str(path),
        "name": "alice",
        "agent_id": BOB.public.agent_id(),
        "fingerprint": BOB.public.fingerprint,
        "mesh_id": BOB.public.raw.hex(),
        "public_key": BOB.public.pem,
        "created": None,
        "rotations": 1,
    }


def test_show_does_not_let_a_file_steer_the_terminal(path: Path) -> None:
    save(Identity(ALICE, created="\x1b[2J"), path)
    assert "\x1b" not in succeed("show", "--file", path)


@pytest.mark.parametrize("command", ["show", "rotate", "revoke"])
def test_a_missing_or_open_file_is_explained_in_one_line(path: Path, command: str) -> None:
    assert "moothall identity new" in fail(2, command, "--file", path)
    save(Identity(ALICE), path)
    path.chmod(0o644)
    assert f"chmod 600 {path}" in fail(2, command, "--file", path)


# rotate


def test_rotate_keeps_the_old_key_and_vouches_for_the_new_one(path: Path) -> None:
    save(Identity(ALICE, name="alice"), path)
    output = succeed("rotate", "--file", path)
    rotated = load(path)
    retired = path.with_name(f"{path.name}.{ALICE.public.fingerprint}.old")
    assert rotated.key != ALICE
    assert verify_chain(rotated.rotations, rotated.public) == ALICE.public
    assert load(retired).key == ALICE
    assert str(retired) in output
    assert rotated.public.agent_id() in output
    assert_secret(output, path)
    assert_secret(output, retired)


def test_rotate_does_not_build_on_a_chain_that_does_not_hold(path: Path) -> None:
    save(Identity(ALICE, rotations=({},)), path)
    assert "rotation 1 of 1: old_pubkey is missing" in fail(1, "rotate", "--file", path)
    assert load(path).key == ALICE


# revoke


def test_revoke_prints_a_notice_that_holds(path: Path) -> None:
    save(Identity(ALICE).rotated(BOB, now_ms=NOW_MS), path)
    notice = json.loads(succeed("revoke", "--file", path, "--reason", "laptop lost"))
    assert verify_revocation(notice) == BOB.public
    assert notice["reason"] == "laptop lost"
    assert notice["original_agent_id"] == ALICE.public.fingerprint


def test_revoke_without_a_reason_says_revoked(path: Path) -> None:
    save(Identity(ALICE), path)
    for arguments in ([], ["--reason", ""]):
        assert json.loads(succeed("revoke", "--file", path, *arguments))["reason"] == "revoked"


@pytest.mark.parametrize("reason", ['gestohlen: "\xfc\u2028"', "bytes \udcff"])
def test_revoke_writes_any_reason_to_a_new_file(path: Path, reason: str) -> None:
    save(Identity(ALICE), path)
    out = path.with_name("notice.json")
    succeed("revoke", "--file", path, "--reason", reason, "--out", out)
    assert json.loads(out.read_bytes())["reason"] == reason
    assert "revoked" in succeed("verify", out)
    assert str(out) in fail(2, "revoke", "--file", path, "--out", out)


def test_rotations_that_do_not_hold_do_not_prevent_a_revocation(path: Path) -> None:
    save(Identity(ALICE, rotations=({},)), path)
    result = run("revoke", "--file", path)
    assert result.exit_code == 0
    assert "leaves the rotations out" in result.stderr
    notice = json.loads(result.stdout)
    assert verify_revocation(notice) == ALICE.public
    assert "rotations" not in notice


# verify


def rotated_fields(**changed: object) -> dict[str, Any]:
    record = dict(rotate(ALICE, BOB.public, now_ms=NOW_MS)) | changed
    return {"publicKey": BOB.public.pem, "rotations": [record]}


def test_verify_follows_the_rotations_of_an_identity(path: Path) -> None:
    save(Identity(ALICE).rotated(BOB, now_ms=NOW_MS), path)
    output = succeed("verify", path)
    assert ALICE.public.fingerprint in output
    assert BOB.public.fingerprint in output


def test_verify_reads_an_identity_without_its_private_key(path: Path) -> None:
    path.write_text(json.dumps(rotated_fields()))
    path.chmod(0o644)
    assert succeed("verify", path).startswith("holds: ")


def test_verify_says_which_link_does_not_hold(path: Path) -> None:
    path.write_text(json.dumps(rotated_fields(timestamp="2020-01-01T00:00:00.000Z")))
    assert "rotation 1 of 1: the signature" in fail(1, "verify", path)


def test_verify_refuses_a_private_key_that_others_can_reach(path: Path) -> None:
    save(Identity(ALICE), path)
    path.chmod(0o604)
    assert "chmod 600" in fail(2, "verify", path)


def test_verify_refuses_a_notice_that_was_changed(path: Path) -> None:
    save(Identity(ALICE), path)
    notice = json.loads(succeed("revoke", "--file", path))
    out = path.with_name("notice.json")
    out.write_text(json.dumps(notice | {"reason": "retired"}))
    assert "signature" in fail(1, "verify", out)


def test_verify_does_not_let_a_notice_steer_the_terminal(path: Path) -> None:
    save(Identity(ALICE), path)
    out = path.with_name("notice.json")
    succeed("revoke", "--file", path, "--reason", "\x1b[2J\x1b]0;x\x07", "--out", out)
    assert "\x1b" not in succeed("verify", out)


@pytest.mark.parametrize("content", ["{}", "[]", "", '{"type": "OTHER"}'])
def test_verify_refuses_what_is_neither(path: Path, content: str) -> None:
    path.write_text(content)
    assert str(path) in fail(2, "verify", path)


def test_verify_without_such_a_file(path: Path) -> None:
    assert "No such file" in fail(2, "verify", path)


# the command line


def test_without_a_command_the_help_is_shown() -> None:
    output = run().output
    for command in ("new", "show", "rotate", "revoke", "verify"):
        assert command in output


def test_an_unknown_option_is_a_usage_error() -> None:
    assert run("show", "--colour").exit_code == 2


def test_no_command_prints_the_seed(path: Path) -> None:
    save(Identity(ALICE), path)
    seed = bytes(range(32))
    for command in (["show"], ["show", "--json"], ["revoke"], ["rotate"]):
        shown = run(command[0], "--file", path, *command[1:]).output
        assert seed.hex() not in shown
        assert b64encode(seed).decode() not in shown


# -- the halls that one has met ------------------------------------------------------------------------

HALL = "ab" * 32


def test_pins_are_listed_made_and_removed() -> None:
    none = run("pins")
    assert (none.exit_code, none.stdout, none.stderr) == (0, "", "you have met no hall yet\n")
    assert succeed("pin", "wss://Hall.example.org", HALL.upper()) == "pinned hall.example.org:443\n"
    assert succeed("pins") == f"{HALL}  hall.example.org:443  by you\n"
    listed = json.loads(succeed("pins", "--json"))
    assert listed["hall.example.org:443"]["key"] == HALL
    assert succeed("unpin", "https://hall.example.org/") == "unpinned hall.example.org:443\n"
    assert json.loads(succeed("pins", "--json")) == {}


def test_what_an_error_names_can_be_unpinned_as_it_is() -> None:
    for place in ("localhost:7000", "hall.example.org:443"):
        KnownHalls().pin(place, HALL)
        assert succeed("unpin", place) == f"unpinned {place}\n"


def test_a_pin_that_is_not_there_and_a_key_that_is_none() -> None:
    assert "moothall identity pins" in fail(2, "unpin", "wss://hall.example.org")
    assert "64 hex digits" in fail(2, "pin", "wss://hall.example.org", "abc")
    assert "address of a hall" in fail(2, "unpin", "ws://")


def test_a_damaged_file_and_one_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "halls.json").write_text("[")
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path / "halls.json"))
    for command in (("pins",), ("unpin", "ws://h"), ("pin", "ws://h", HALL)):
        assert "known halls" in fail(2, *command)
    monkeypatch.setenv(PATH_VARIABLE, "/proc/halls.json")
    assert "/proc/halls.json" in fail(2, "pin", "ws://h", HALL)


async def test_a_hall_that_was_replaced_is_met_again_after_unpin(tmp_path: Path) -> None:
    """The whole way: refused in one line that names the command, the command, and in again.

    The operator is another user, with other pins.
    """
    send = ("send", "general", "hello", "-i", "me.json", "--url")
    save(Identity(ALICE), tmp_path / "me.json")
    with running_hall(tmp_path) as hall:
        port = str(hall.port)
        assert run_moothall(tmp_path, *send, hall.url).returncode == 0
        hall.stop()
    assert run_moothall(tmp_path, "store", "key", "--new", "--data-dir", "data").returncode == 0
    operator = {PATH_VARIABLE: "operator.json"}
    with running_hall(tmp_path, "--port", port, environment=operator) as hall:
        refused = run_moothall(tmp_path, *send, hall.url)
        assert refused.returncode == 3
        assert refused.stderr.count("\n") == 1
        assert f"`moothall identity unpin localhost:{port}`" in refused.stderr
        assert run_moothall(tmp_path, "identity", "unpin", f"localhost:{port}").returncode == 0
        assert run_moothall(tmp_path, *send, hall.url).returncode == 0


async def test_agents_of_the_user_who_runs_a_new_hall_meet_it_without_a_word(tmp_path: Path) -> None:
    """A developer deletes the data directory and starts again: the agents on that machine come back."""
    send = ("send", "general", "hello", "-i", "me.json", "--url")
    save(Identity(ALICE), tmp_path / "me.json")
    with running_hall(tmp_path) as hall:
        port = str(hall.port)
        assert run_moothall(tmp_path, *send, hall.url).returncode == 0
        hall.stop()
    rmtree(hall.data_dir)
    with running_hall(tmp_path, "--port", port) as hall:
        replaced = await hall.logged("pin_replaced")
        assert replaced["port"] == int(port)
        assert run_moothall(tmp_path, *send, hall.url).returncode == 0
        assert KnownHalls().read()[f"localhost:{port}"].key == hall.key.raw.hex()

"""Which hall and which key file: the user's word, and what a model may choose."""

from pathlib import Path

import pytest

from moothall.errors import SettingsError, UsageError
from moothall.identity import Identity, PrivateKey
from moothall.tools.options import Options, may_create


def test_the_defaults_are_those_of_the_specification(tmp_path: Path) -> None:
    options = Options.from_environment({}, folder=tmp_path)
    assert options.url == "ws://127.0.0.1:6667"
    assert options.channels == ("#general", "#discovery", "#bounties")
    assert (options.settle, options.idle) == (1.5, 300.0)
    assert options.chosen_key(None, None) is None
    assert not options.is_public


def test_the_environment_is_heard(tmp_path: Path) -> None:
    environ = {"AGENTCHAT_SETTLE_MS": "20", "AGENTCHAT_IDLE_TIMEOUT_MS": "0", "AGENTCHAT_ADMIN_KEY": "secret"}
    options = Options.from_environment(environ, folder=tmp_path)
    assert (options.settle, options.idle, options.admin_key) == (0.02, 0.0, "secret")
    assert "secret" not in repr(options)


@pytest.mark.parametrize("value", ["soon", "-1", "1.5", "1e9"])
def test_a_time_is_a_number_of_milliseconds(tmp_path: Path, value: str) -> None:
    with pytest.raises(SettingsError, match="AGENTCHAT_SETTLE_MS"):
        Options.from_environment({"AGENTCHAT_SETTLE_MS": value}, folder=tmp_path)


@pytest.mark.parametrize("url", ["ws://127.0.0.1:7000", "localhost:7000", "ws://[::1]:7000"])
def test_a_model_may_choose_a_hall_on_this_machine(url: str) -> None:
    assert Options().chosen_url(url)


def test_a_model_may_choose_another_machine_only_if_the_user_says_so() -> None:
    far = "wss://hall.example.org"
    with pytest.raises(UsageError, match="AGENTCHAT_PUBLIC"):
        Options().chosen_url(far)
    assert Options(is_public=True).chosen_url(far).startswith("wss://hall.example.org")
    theirs = Options.from_environment({}, url=far)
    assert theirs.chosen_url(far) == theirs.chosen_url(None) == theirs.url


def test_a_name_has_a_key_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    place = tmp_path / ".agentchat" / "identities"
    assert Options().chosen_key(None, "alice") == place / "alice.json"
    assert Options(name="bob").chosen_key(None, None) == place / "bob.json"
    users = Options(identity=tmp_path / "mine.json")
    assert users.chosen_key(None, "alice") == tmp_path / "mine.json"
    with pytest.raises(UsageError):
        Options().chosen_key(None, "../evil")


def test_a_key_that_is_in_no_file_is_the_only_one() -> None:
    sealed = Identity(PrivateKey(bytes(32)), "alice")
    options = Options(identity=sealed)
    assert options.chosen_key(None, "bob") is sealed
    with pytest.raises(UsageError, match="Leave `identity_path` out"):
        options.chosen_key("other.json", None)


def test_a_model_makes_key_files_in_the_users_own_folder_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert may_create(tmp_path / ".agentchat" / "identities" / "a.json")
    assert not may_create(tmp_path / "a.json")
    assert not may_create(tmp_path / ".agentchat" / ".." / "a.json")

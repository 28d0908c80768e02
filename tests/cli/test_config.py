"""`moothall config`: every setting, its value, and where it came from."""

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from moothall.cli.main import app
from moothall.settings import PROFILES, Settings
from tests.support.server import environment, run_moothall

Shown = dict[str, dict[str, Any]]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Neither the developer's moothall.toml nor the developer's variables."""
    monkeypatch.chdir(tmp_path)
    for variable in list(os.environ):
        if variable.startswith(("MOOTHALL_", "AGENTCHAT_", "ALLOWLIST_", "CAPTCHA_")):
            monkeypatch.delenv(variable)
    return tmp_path


def config(*arguments: str, **variables: str) -> Result:
    return CliRunner().invoke(app, ["config", *arguments], env=environment(**variables))


def shown(*arguments: str, **variables: str) -> Shown:
    result = config("--json", *arguments, **variables)
    assert result.exit_code == 0, result.output
    table: Shown = json.loads(result.stdout)
    return table


def test_the_real_command_lists_every_setting(tmp_path: Path) -> None:
    result = run_moothall(tmp_path, "config")
    assert result.returncode == 0
    assert result.stderr == ""
    listed = [line.split()[0] for line in result.stdout.splitlines() if not line.startswith(" ")]
    assert listed == [field.name for field in fields(Settings)]


def test_json_gives_value_origin_and_meaning() -> None:
    table = shown()
    assert list(table) == [field.name for field in fields(Settings)]
    assert all(entry.keys() == {"value", "from", "help"} for entry in table.values())
    assert {entry["from"] for entry in table.values()} == {"default"}
    assert table["port"]["value"] == 6667
    assert table["public_url"]["value"] == ""
    assert table["cert"]["value"] is None
    assert table["host"]["value"] == "127.0.0.1"
    assert table["rate_post_auth"]["value"] == "60/10"
    assert table["default_channels"]["value"] == ["#general", "#agents", "#discovery"]
    assert table["echo"]["value"] is False


def test_numbers_are_numbers_in_json() -> None:
    table = shown("--set", "idle_timeout=1.5")
    for field in fields(Settings):
        value = getattr(Settings(), field.name)
        if isinstance(value, bool | int | float) and field.name != "idle_timeout":
            assert (type(table[field.name]["value"]), table[field.name]["value"]) == (type(value), value)
    assert table["idle_timeout"]["value"] == 1.5


def test_one_setting() -> None:
    assert config("port").stdout.splitlines()[0] == "port  6667  (default)"
    assert list(shown("max-frame", "port")) == ["port", "max_frame"]
    refused = config("prot")
    assert (refused.exit_code, "did you mean port?" in refused.stderr) == (2, True)


def test_what_was_changed() -> None:
    unchanged = config("--changed")
    assert (unchanged.exit_code, unchanged.stdout) == (0, "")
    assert "default" in unchanged.stderr
    assert list(shown("--changed", MOOTHALL_PORT="7000", MOOTHALL_MOTD="hi")) == ["port", "motd"]
    assert list(shown("--changed", "--profile", "agentchat-0.36")) == [
        field.name
        for field in fields(Settings)
        if field.name in PROFILES["agentchat-0.36"] or field.name == "profile"
    ]


def test_the_first_to_speak_wins(elsewhere: Path) -> None:
    (elsewhere / "moothall.toml").write_text(
        'server_name = "file"\nbuffer-size = 7\nmotd = "file"\nidle_timeout = 60\nrate_message = "0"\n'
    )
    table = shown(
        "--set",
        "server_name=flag",
        "--profile",
        "agentchat-0.36",
        MOOTHALL_SERVER_NAME="variable",
        MOOTHALL_BUFFER_SIZE="9",
        AGENTCHAT_RESPOND_TTL_MS="1500",
    )
    assert table["server_name"]["value"] == "flag"
    assert table["server_name"]["from"] == "flag"
    assert (table["buffer_size"]["value"], table["buffer_size"]["from"]) == (9, "MOOTHALL_BUFFER_SIZE")
    assert (table["motd"]["value"], table["motd"]["from"]) == ("file", "moothall.toml")
    assert (table["idle_timeout"]["value"], table["idle_timeout"]["from"]) == (60.0, "moothall.toml")
    assert (table["floor_ttl"]["value"], table["floor_ttl"]["from"]) == (1.5, "AGENTCHAT_RESPOND_TTL_MS")
    assert (table["id_length"]["value"], table["id_length"]["from"]) == (16, "profile agentchat-0.36")
    assert table["port"]["from"] == "default"


@pytest.mark.parametrize("way", ["flag", "variable", "file"])
def test_a_profile_sets_what_nobody_else_did(elsewhere: Path, way: str) -> None:
    if way == "file":
        (elsewhere / "moothall.toml").write_text('profile = "agentchat-0.36"\n')
    flags = ("--profile", "agentchat-0.36") if way == "flag" else ()
    variables = {"MOOTHALL_PROFILE": "agentchat-0.36"} if way == "variable" else {}
    table = shown(*flags, **variables)
    origin = {"flag": "flag", "variable": "MOOTHALL_PROFILE", "file": "moothall.toml"}[way]
    assert (table["profile"]["value"], table["profile"]["from"]) == ("agentchat-0.36", origin)
    by_profile = {name for name, entry in table.items() if entry["from"] == "profile agentchat-0.36"}
    assert by_profile == set(PROFILES["agentchat-0.36"])


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_a_secret_is_shown_as_set(arguments: tuple[str, ...]) -> None:
    result = config(*arguments, MOOTHALL_ADMIN_KEY="hunter2", ALLOWLIST_ADMIN_KEY="hunter3")
    assert result.exit_code == 0
    assert "hunter" not in result.output
    table = shown(MOOTHALL_ADMIN_KEY="hunter2", ALLOWLIST_ADMIN_KEY="hunter3")
    assert (table["admin_key"]["value"], table["admin_key"]["from"]) == ("(set)", "MOOTHALL_ADMIN_KEY")
    assert (table["access_key"]["value"], table["access_key"]["from"]) == ("(set)", "ALLOWLIST_ADMIN_KEY")
    assert shown()["admin_key"]["value"] == ""


def test_a_secret_in_a_file_of_its_own(elsewhere: Path) -> None:
    secret = elsewhere / "admin.key"
    secret.write_text("hunter2\n")
    secret.chmod(0o600)
    table = shown("--set", "admin_key_file=admin.key")
    assert (table["admin_key"]["value"], table["admin_key"]["from"]) == ("(set)", "admin.key")


def test_a_settings_file_of_another_name(elsewhere: Path) -> None:
    (elsewhere / "town.toml").write_text('server_name = "town"\n')
    for table in (shown("--config", "town.toml"), shown(MOOTHALL_CONFIG="town.toml")):
        assert (table["server_name"]["value"], table["server_name"]["from"]) == ("town", "town.toml")


def test_a_variable_that_is_no_setting_is_pointed_out() -> None:
    result = config(MOOTHALL_PROT="1")
    assert result.exit_code == 0
    assert "MOOTHALL_PROT" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "prot=1"), "did you mean port?"),
        (("--set", "port"), "is not NAME=VALUE"),
        (("--set", "port=-1"), "port from flag"),
        (("--set", "rate_message=often"), "rate_message from flag: 'often' is not COUNT/SECONDS"),
        (("--profile", "nope"), "'nope' is not one of seeds, agentchat-0.36"),
        (("--config", "nope.toml"), "nope.toml does not exist"),
        (("--set", "default_channels=general"), "is not a channel"),
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments: tuple[str, ...], words: str) -> None:
    result = config(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("prot = 1", "did you mean port?"),
        ('port = "x"', "port from moothall.toml: 'x' is not a number"),
        ("port = true", "port from moothall.toml: True has the wrong type"),
        ("[port]\nx = 1", "port from moothall.toml"),
        ("allowed_origins = [1]", "must be a list of texts"),
        ('access_key = "hunter2"', "MOOTHALL_ACCESS_KEY"),
    ],
)
def test_a_mistake_in_the_settings_file_names_the_file(elsewhere: Path, settings: str, words: str) -> None:
    (elsewhere / "moothall.toml").write_text(settings)
    result = config()
    assert result.exit_code == 2
    assert "moothall.toml" in result.stderr
    assert words in result.stderr
    assert "hunter2" not in result.stderr

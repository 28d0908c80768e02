"""What becomes of a host's file, and how that is shown."""

import json
import tomllib

import pytest

from moothall.errors import UsageError
from moothall.hosts.install import LONGEST_LINE, by_hand, difference, installed
from moothall.hosts.table import HOSTS, SERVER

ENTRY = {"command": "moothall", "args": ["mcp"], "env": {"MOOTHALL_NAME": "ada"}}


@pytest.mark.parametrize("name", HOSTS)
def test_what_is_added_by_hand_is_what_is_installed(name: str) -> None:
    host = HOSTS[name]
    read = tomllib.loads if host.form == "toml" else json.loads
    assert (
        read(by_hand(host, ENTRY)) == read(installed(host, "", ENTRY, "file")) == {host.key: {SERVER: ENTRY}}
    )


@pytest.mark.parametrize("name", HOSTS)
def test_a_broken_file_is_named(name: str) -> None:
    with pytest.raises(UsageError, match=r"^settings is not valid (JSON|TOML) .* nothing was changed"):
        installed(HOSTS[name], "{[", ENTRY, "settings")


def test_settings_of_other_servers_are_not_shown() -> None:
    other = {"mcpServers": {"other": {"command": "x", "env": {"KEY": "secret"}, "args": ["-v"]}}}
    before = json.dumps(other, indent=2)
    shown = difference(before, installed(HOSTS["cursor"], before, ENTRY, "file"), "file")
    assert '+    "moothall": {' in shown
    assert "secret" not in shown


def test_long_lines_are_cut() -> None:
    shown = difference("a" * 1000, "b" * 1000, "file").splitlines()
    assert max(map(len, shown)) == LONGEST_LINE + 1


def test_no_change_shows_nothing() -> None:
    assert difference("same", "same", "file") == ""

"""The reference's flags, as commands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.cli._daemon_flags import translate

COMMANDS = ("start", "stop", "status", "list", "inbox", "send", "logs")


@pytest.mark.parametrize(
    ("flags", "command"),
    [
        ("-s", "status"),
        ("-n bob -s", "status -n bob"),
        ("--status", "status"),
        ("-l", "list"),
        ("--list", "list"),
        ("--stop", "stop"),
        ("--stop -n bob", "stop -n bob"),
        ("--stop-all", "stop --all"),
        ("wss://hall.example.org -b -n bob", "start wss://hall.example.org -n bob"),
        ("-b -c general,dev -i bob.json", "start -c general,dev -i bob.json"),
        ("--background", "start"),
        ("-n bob", "start --foreground -n bob"),
        ("localhost:6667", "start --foreground localhost:6667"),
        ("-b --max-reconnect-time 5", "start --max-reconnect-time 5"),
        ("", ""),
        ("--help", "--help"),
        ("strat -s", "status strat"),
        ("strat", "strat"),
    ],
)
def test_flags_stand_for_commands(flags: str, command: str) -> None:
    assert translate(flags.split(), COMMANDS) == command.split()


@given(st.sampled_from(COMMANDS), st.lists(st.sampled_from(["-s", "-b", "--stop", "-n", "x", "-l"])))
def test_a_command_that_is_named_stays(command: str, rest: list[str]) -> None:
    assert translate([command, *rest], COMMANDS) == [command, *rest]

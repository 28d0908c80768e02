"""What agents, nicks and channels may be called (seed 001, identity and channels; agentchat wire 3.3)."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.wire.agentchat.names import (
    MAX_ADDRESS,
    RESERVED_NICKS,
    AgentAddress,
    ChannelName,
    Name,
    Nick,
    bare_id,
    is_channel_name,
    is_like_server,
    is_reserved_nick,
)
from tests.identity.vectors import VECTORS

NAMES = VECTORS["names"]


def fits(text: str, rule: object) -> bool:
    try:
        msgspec.convert(text, rule)
    except msgspec.ValidationError:
        return False
    return True


@pytest.mark.parametrize(("text", "valid"), NAMES["agent_name"])
def test_agent_names_as_in_the_vectors(text: str, valid: bool) -> None:
    assert fits(text, Name) is valid


@pytest.mark.parametrize(("text", "valid"), NAMES["nick"])
def test_nicks_as_in_the_vectors(text: str, valid: bool) -> None:
    assert fits(text, Nick) is valid


@pytest.mark.parametrize(("text", "valid"), NAMES["channel"])
def test_channels_as_in_the_vectors(text: str, valid: bool) -> None:
    assert fits(text, ChannelName) is valid
    assert is_channel_name(text) is valid


def test_the_reserved_nicks_are_those_of_the_vectors() -> None:
    assert frozenset(NAMES["reserved_nicks_case_insensitive"]) == RESERVED_NICKS


@pytest.mark.parametrize("nick", NAMES["reserved_nicks_case_insensitive"])
def test_reserved_nicks_are_reserved_in_any_case(nick: str) -> None:
    for spelled in (nick, nick.upper(), nick.capitalize()):
        assert is_reserved_nick(spelled)
    assert not is_reserved_nick(f"{nick}s2")


LIKE_SERVER = (
    "server",
    "Server",
    "SERVER",
    "sErVeR",
    "5erver",
    "s3rv3r",
    "_Server_",
    "-server",
    "ser-ver",
    "S_E_R_V_E_R",
)


@pytest.mark.parametrize("name", LIKE_SERVER)
def test_server_is_recognised_however_it_is_spelled(name: str) -> None:
    assert is_like_server(name)
    assert is_reserved_nick(name)


@pytest.mark.parametrize(
    "name", ["servers", "server2", "observer", "serve", "servo", "mcp-server", "", "_", "sever"]
)
def test_other_names_are_not_taken_for_server(name: str) -> None:
    assert not is_like_server(name)


# Full-width, Cyrillic, Greek and Armenian letters, combining marks, zero-width and soft-hyphen characters.
@pytest.mark.parametrize(
    "name",
    [
        "\uff33\uff45\uff52\uff56\uff45\uff52",
        "S\u0435rver",
        "\u0405erver",
        "Ser\u03bder",
        "Serv\u0565r",
        "Se\u0301rver",
        "Ser\u200bver",
        "\ufeffServer",
        "Ser\u00adver",
        "Server\u2060",
        "\U0001d412erver",
        "Server ",
    ],
)
def test_other_alphabets_and_invisible_characters_are_in_no_name(name: str) -> None:
    assert not fits(name, Name)
    assert not fits(name, Nick)


@given(st.text(st.sampled_from("aZ09_-#@ \n\u0663é"), max_size=40))
def test_the_rules_are_those_of_the_seed(text: str) -> None:
    assert fits(text, Name) is (re.fullmatch(r"[a-zA-Z0-9_-]{1,32}", text) is not None)
    assert fits(text, Nick) is (re.fullmatch(r"[a-zA-Z0-9_-]{1,24}", text) is not None)
    assert is_channel_name(text) is (re.fullmatch(r"#[a-zA-Z0-9_-]{1,31}", text) is not None)
    assert fits(text, ChannelName) is is_channel_name(text)


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("@a", True),
        ("@" + "x" * (MAX_ADDRESS - 1), True),
        ("@" + "x" * MAX_ADDRESS, False),
        ("@", False),
        ("a", False),
        ("", False),
        ("#a", False),
        (" @a", False),
    ],
)
def test_an_address_is_an_at_and_something_short(text: str, valid: bool) -> None:
    assert fits(text, AgentAddress) is valid


def test_a_bare_id_has_lost_one_at() -> None:
    assert bare_id("@abc") == bare_id("abc") == "abc"
    assert bare_id("@@abc") == "@abc"

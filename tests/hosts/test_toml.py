"""A TOML text gets a table, and keeps all of its lines."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hosts.jsonc import BrokenText, Unsafe, merged
from moothall.hosts.toml import put, shown

PATH = ("mcp_servers", "moothall")
ENTRY = {"command": "moothall", "args": ["mcp"], "env": {"MOOTHALL_NAME": "ada"}}
WANTED = {"mcp_servers": {"moothall": ENTRY}}

lines = st.sampled_from(
    [
        "# a note",
        "",
        'model = "o"  # mine',
        "[profiles.work]",
        '[mcp_servers.docs]\ncommand = "docs"\nargs = [\n  "a",  # why\n]',
        "[mcp_servers.docs.env]\nKEY = 'x'",
        '[mcp_servers."moothall"]\ncommand = "old"\ncwd = "/"',
        "[mcp_servers.moothall.env]\nOTHER = '1'",
        '[[steps]]\ntext = """\n[mcp_servers.moothall]\ncommand = "a trap"\n"""',
        '["mcp_servers".other]',
    ]
)


@given(st.lists(lines, unique=True, max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_everything_else_stays_as_it_was_written(parts: list[str], newline: str, ended: bool) -> None:
    text = "\n".join(parts).replace("\n", newline) + (newline if ended else "")
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(BrokenText):
            put(text, PATH, ENTRY)
        return
    try:
        changed = put(text, PATH, ENTRY)
    except Unsafe:
        assert "trap" in text
        return
    assert tomllib.loads(changed) == merged(before, WANTED)
    assert put(changed, PATH, ENTRY) == changed
    left = [line for line in text.splitlines() if line and line != 'command = "old"']
    rest = iter(changed.splitlines())
    assert all(line in rest for line in left)
    if newline == "\r\n" and "\r\n" in text:
        assert "\n" not in changed.replace("\r\n", "")


@given(st.dictionaries(st.text(min_size=1), st.one_of(st.text(), st.lists(st.text())), max_size=4))
def test_any_text_can_be_a_value(table: dict[str, object]) -> None:
    assert tomllib.loads(shown(("a", "b c"), table)) == {"a": {"b c": table}}


def test_a_new_table_comes_last() -> None:
    assert put('model = "o"', PATH, ENTRY) == (
        'model = "o"\n\n[mcp_servers.moothall]\ncommand = "moothall"\nargs = ["mcp"]\n\n'
        '[mcp_servers.moothall.env]\nMOOTHALL_NAME = "ada"\n'
    )


@pytest.mark.parametrize(
    "text",
    [
        "mcp_servers = {}",
        'mcp_servers.moothall.command = "old"',
        '[mcp_servers]\nmoothall = { command = "old" }',
        '[mcp_servers.moothall]\ncommand = "old" # mine',
        '[mcp_servers.moothall]\nargs = [\n"old",\n]',
        'mcp_servers = "text"',
    ],
)
def test_what_cannot_be_changed_line_by_line(text: str) -> None:
    with pytest.raises(Unsafe):
        put(text, PATH, ENTRY)


def test_a_broken_text_is_refused() -> None:
    with pytest.raises(BrokenText, match="line 1"):
        put("model = ?\n", PATH, ENTRY)

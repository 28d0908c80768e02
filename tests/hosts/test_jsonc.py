"""A JSON text is changed in some members, and in no other character."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hosts.jsonc import MAX_DEPTH, BrokenText, Unsafe, merged, parse, put

ENTRY = {"servers": {"moothall": {"command": "moothall", "args": ["mcp"], "env": {"MOOTHALL_NAME": "ada"}}}}

keys = st.one_of(
    st.sampled_from(["servers", "moothall", "command", "args", "env", "other"]), st.text(max_size=5)
)
plain = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8))
values = st.recursive(
    plain, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3))
)
# What the entry merges with: objects where it has objects.
entries = st.fixed_dictionaries(
    {}, optional={"command": plain, "cwd": plain, "env": st.dictionaries(keys, plain)}
)
files = st.builds(
    lambda rest, servers, own: {**rest, **({"servers": {**servers, **own}} if servers is not None else {})},
    st.dictionaries(keys.filter(lambda key: key != "servers"), values, max_size=4),
    st.one_of(st.none(), st.dictionaries(keys.filter(lambda key: key != "moothall"), values, max_size=3)),
    st.one_of(st.just({}), st.builds(lambda entry: {"moothall": entry}, entries)),
)
gaps = st.sampled_from(
    ["", " ", "\n", "\n  ", "\n\t", "// a, {note}\n", "/* } */", " /*\n * two lines\n */ "]
)


@st.composite
def texts(draw: Callable[..., Any]) -> tuple[str, Any]:
    """A file as people write it, and its value: comments and trailing commas anywhere, or tidy."""
    value = draw(files)
    if draw(st.booleans()):
        indent = draw(st.sampled_from([None, 2, 4, "\t"]))
        return json.dumps(value, indent=indent, ensure_ascii=draw(st.booleans())), value

    def gap() -> str:
        return str(draw(gaps))

    def spelt(value: Any) -> str:
        if isinstance(value, dict):
            parts = [f"{gap()}{json.dumps(key)}{gap()}:{gap()}{spelt(inner)}" for key, inner in value.items()]
            brackets = "{}"
        elif isinstance(value, list):
            parts = [gap() + spelt(inner) for inner in value]
            brackets = "[]"
        else:
            return json.dumps(value)
        comma = f"{gap()}," if parts and draw(st.booleans()) else ""
        return f"{brackets[0]}{f'{gap()},'.join(parts)}{comma}{gap()}{brackets[1]}"

    text = draw(st.sampled_from(["", "\ufeff"])) + gap() + spelt(value) + gap()
    return (text.replace("\n", "\r\n") if draw(st.booleans()) else text), value


def is_within(old: str, new: str) -> bool:
    """True if the characters of `old` are in `new`, in their order."""
    rest = iter(new)
    return all(character in rest for character in old)


@given(texts())
def test_everything_else_stays_as_it_was_written(written: tuple[str, Any]) -> None:
    text, value = written
    root, comments = parse(text)
    assert root is not None
    assert root.value == value
    own = value.get("servers", {}).get("moothall", {})
    try:
        changed = put(text, ENTRY)
    except Unsafe:
        assert comments
        return
    after, kept = parse(changed)
    assert after is not None
    assert after.value == merged(value, ENTRY)
    assert kept == comments
    if not {"command", "args", "env"} & own.keys():
        assert is_within(text, changed)
    assert put(changed, ENTRY) == changed


@given(files)
def test_plain_json_stays_plain_json(value: Any) -> None:
    changed = put(json.dumps(value, indent=2), ENTRY)
    assert json.loads(changed) == merged(value, ENTRY)


@given(st.text(alphabet='{}[]",:/*\\n 1ae', max_size=30))
def test_no_text_is_too_odd(text: str) -> None:
    try:
        changed = put(text, ENTRY)
    except (BrokenText, Unsafe):
        return
    root, _ = parse(changed)
    assert root is not None
    assert root.value["servers"]["moothall"]["command"] == "moothall"


def test_the_layout_of_the_file_is_kept() -> None:
    text = '{\n    // mine\n    "theme": "dark", // and nothing else\n    "servers": {\n    },\n}\n'
    assert put(text, {"servers": {"moothall": {"command": "x", "args": []}}}) == (
        '{\n    // mine\n    "theme": "dark", // and nothing else\n    "servers": {\n'
        '        "moothall": {\n            "command": "x",\n            "args": []\n        }\n    },\n}\n'
    )


def test_a_comment_behind_the_last_member_stays_beside_it() -> None:
    assert put('{\n  "a": 1 // one\n}', {"b": 2}) == '{\n  "a": 1, // one\n  "b": 2\n}'
    assert put('{\n  "a": 1, // one\n}', {"b": 2}) == '{\n  "a": 1, // one\n  "b": 2,\n}'
    assert put('{"a": 1}', {"b": 2}) == '{"a": 1,\n  "b": 2\n}'


def test_windows_lines_stay() -> None:
    changed = put('{\r\n  "a": 1\r\n}\r\n', ENTRY)
    assert "\n" not in changed.replace("\r\n", "")


@pytest.mark.parametrize("text", ["", "\n", "\ufeff", "// only a note\n"])
def test_a_file_without_a_value_gets_one(text: str) -> None:
    changed = put(text, ENTRY)
    root, _ = parse(changed)
    assert root is not None
    assert root.value == ENTRY
    assert changed.startswith(text.rstrip())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"a": 1', "line 1"),
        ('{\n"a" 1}', "line 2: a colon"),
        ('{"a": 1 "b": 2}', "a comma"),
        ("{'a': 1}", "no JSON value"),
        ("{1: 2}", "not a string"),
        ('{"a": NaN}', "no JSON value"),
        ('{"a": [1 2]}', "a comma"),
        ("{} {}", "after the end"),
        ("{ /* }", "does not end"),
        ('{"a":' * 200 + "1" + "}" * 200, f"more than {MAX_DEPTH} levels"),
        ('{"a":' + "[" * 100_000, f"more than {MAX_DEPTH} levels"),
    ],
)
def test_a_broken_text_is_refused_with_its_line(text: str, complaint: str) -> None:
    with pytest.raises(BrokenText, match=complaint):
        put(text, ENTRY)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "not an object"),
        ('{"servers": []}', "'servers' is not an object"),
        ('{"servers": {}, "servers": {}}', "twice"),
        ('{"servers": {"moothall": {"args": [/* why */ "x"]}}}', "comment"),
    ],
)
def test_what_cannot_be_changed_without_a_loss(text: str, complaint: str) -> None:
    with pytest.raises(Unsafe, match=complaint):
        put(text, ENTRY)

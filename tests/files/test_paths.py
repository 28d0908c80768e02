"""Which names may become files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.files.paths import Names, fault


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "no name"),
        ("..", "leads out"),
        ("../a", "leads out"),
        ("a/../../b", "leads out"),
        ("a/..", "leads out"),
        ("/etc/passwd", "absolute"),
        ("//host/share", "absolute"),
        ("C:/Windows", "drive letter"),
        ("c:file", "drive letter"),
        ("a\\b", "backslash"),
        ("..\\a", "backslash"),
        ("./a", "empty part"),
        ("a//b", "empty part"),
        ("a/", "empty part"),
        ("a/.", "empty part"),
        ("CON", "device"),
        ("a/nul.txt", "device"),
        ("aux", "device"),
        ("Com1.log", "device"),
        ("lpt9", "device"),
        ("com¹", "device"),
        ("con .txt", "device"),
        ("CONIN$", "device"),
        ("a. /b", "dot or a space"),
        ("a.", "dot or a space"),
        ("a ", "dot or a space"),
        (".moothall-0123", "reserved"),
        (".MOOTHALL-0123/a", "reserved"),
        ("a\0b", "NUL"),
        ("a\nb", "control"),
        ("a\rb", "control"),
        ("\x1b[2J", "control"),
        ("a\x85b", "control"),
        ("a\u2028b", "control"),
        ("\u202egpj.exe", "direction"),
        ("a\u2066b", "direction"),
        ("a\u200fb", "direction"),
        ("a\ud800", "not Unicode"),
        ("x" * 10_000, "1024 bytes"),
        ("é" * 600, "1024 bytes"),
        ("x" * 256, "255 bytes"),
        ("é" * 128, "255 bytes"),
        ("a/" * 40 + "b", "32 parts"),
    ],
)
def test_names_that_are_refused(path: str, reason: str) -> None:
    assert reason in (fault(path) or "")


@pytest.mark.parametrize(
    "path",
    [
        "a",
        "a/b/c.txt",
        ".hidden",
        "a..b",
        "...a",
        "console",
        "com",
        "COM10",
        "nul_",
        "naïve 😀.txt",
        "x" * 255,
        "10:30",
    ],
)
def test_names_that_are_taken(path: str) -> None:
    assert fault(path) is None


@given(st.text())
def test_any_text_has_an_answer(path: str) -> None:
    if fault(path) is None:
        assert ".." not in path.split("/")
        assert not path.startswith("/")
        assert "\0" not in path


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a", "a"),
        ("a", "A"),
        ("straße", "STRASSE"),
        ("é", "e\u0301"),
        ("a/b", "a/B"),
        ("a/b", "A/c"),
        ("a", "a/b"),
        ("a/b", "a"),
        ("a/b/c", "a/B"),
        ("A", "a/b"),
    ],
)
def test_names_that_clash(first: str, second: str) -> None:
    names = Names()
    assert names.clash(first) is None
    assert names.clash(second) is not None
    assert names.clash("other/b") is None


def test_a_name_that_clashed_uses_nothing() -> None:
    names = Names()
    assert names.clash("a") is None
    assert names.clash("a/b") is not None
    assert names.clash("c/d") is None
    assert names.clash("c/e") is None

"""Whose pages may connect: none, our own, and those the operator lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.wire.origins import is_known_host, is_loopback, may_connect


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.8.9.10", "::1", "::1%lo", "::ffff:127.0.0.1", "localhost", "hall.localhost"]
)
def test_loopback(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "0.0.0.0", "::", "128.0.0.1", "localhost.evil.example", "notlocalhost", "unknown", ""],  # noqa: S104
)
def test_not_loopback(address: str) -> None:
    assert not is_loopback(address)


@pytest.mark.parametrize(
    ("origin", "host", "secure"),
    [
        ("http://hall.example:6667", "hall.example:6667", False),
        ("http://HALL.example:6667", "hall.EXAMPLE:6667", False),
        ("http://hall.example", "hall.example", False),
        ("http://hall.example", "hall.example:80", False),
        ("https://hall.example", "hall.example", True),
        ("https://hall.example:443", "hall.example", True),
        ("http://192.168.1.5:6667", "192.168.1.5:6667", False),
        ("http://[2001:db8::1]:6667", "[2001:db8::1]:6667", False),
    ],
)
def test_a_page_of_this_very_host_may_connect(origin: str, host: str, secure: bool) -> None:
    assert may_connect(origin, host, secure=secure, on_loopback=False, allowed=())


@pytest.mark.parametrize(
    "origin",
    ["http://localhost:6667", "http://127.0.0.1:6667", "http://[::1]:6667", "http://hall.localhost:6667"],
)
def test_a_page_of_loopback_may_connect_to_a_hall_on_loopback(origin: str) -> None:
    host = origin.removeprefix("http://")
    assert may_connect(origin, host, secure=False, on_loopback=True, allowed=())


def test_a_name_that_points_to_loopback_may_not() -> None:
    """DNS rebinding: the page's own name resolves to 127.0.0.1, so its Origin and its Host agree."""
    origin, host = "http://evil.example:6667", "evil.example:6667"
    assert not may_connect(origin, host, secure=False, on_loopback=True, allowed=())
    assert may_connect(origin, host, secure=False, on_loopback=True, allowed=(origin,))


FOREIGN = [
    "null",
    "",
    "http://evil.example",
    "http://hall.example",  # another port
    "http://hall.example:6668",
    "http://hall.example.evil.example:6667",
    "http://evil.example:6667",
    "https://hall.example",
    "file://hall.example:6667",
    "chrome-extension://hall.example:6667",
    "hall.example:6667",
    "//hall.example:6667",
    "http://",
    "http://hall.example:port",
    "http://hall.example:66670",
    "http://[hall.example:6667",
    "http://hall.example:6667, http://evil.example",
    "http://evil.example, http://hall.example:6667",
]


@pytest.mark.parametrize("origin", FOREIGN)
@pytest.mark.parametrize("on_loopback", [False, True])
def test_a_foreign_page_may_not(origin: str, on_loopback: bool) -> None:
    assert not may_connect(origin, "hall.example:6667", secure=False, on_loopback=on_loopback, allowed=())


@pytest.mark.parametrize("origin", FOREIGN)
def test_unless_the_operator_lists_it(origin: str) -> None:
    for allowed in ((origin,), ("*",)):
        assert may_connect(origin, "hall.example:6667", secure=False, on_loopback=True, allowed=allowed)


def test_a_list_is_of_whole_origins() -> None:
    for allowed in ("http://evil.example.friend.example", "evil.example", "http://evil"):
        assert not may_connect(
            "http://evil.example", "hall.example", secure=False, on_loopback=False, allowed=(allowed,)
        )


@given(st.text(), st.booleans())
def test_a_program_sends_no_origin_and_may_connect(host: str, on_loopback: bool) -> None:
    assert may_connect(None, host, secure=False, on_loopback=on_loopback, allowed=())


names = st.from_regex(r"[a-z0-9-]{1,9}(\.[a-z0-9-]{1,9}){0,3}", fullmatch=True)


@given(names | st.sampled_from(("127.0.0.1", "localhost", "a.localhost")), st.integers(1, 65535))
def test_on_loopback_our_own_page_has_a_loopback_name(name: str, port: int) -> None:
    origin, host = f"http://{name}:{port}", f"{name}:{port}"
    assert may_connect(origin, host, secure=False, on_loopback=False, allowed=())
    assert may_connect(origin, host, secure=False, on_loopback=True, allowed=()) == is_loopback(name)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:6667",
        "127.0.0.1",
        "127.0.0.1:6667",
        "127.9.9.9:1",
        "[::1]",
        "[::1]:6667",
        "a.localhost",
    ],
)
def test_loopback_names_are_known_hosts_with_any_port(host: str) -> None:
    assert is_known_host(host, ())


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:6667",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example@127.0.0.1",
        "127.0.0.1@evil.example",
        "127.0.0.1/evil",
        "localhost evil",
        "::1",
        "[::1",
        "[::2]:6667",
        "10.0.0.1",
        "0.0.0.0",  # noqa: S104
        "[::1]evil",
        "localhost:x",
        ":6667",
        "",
    ],
)
def test_other_names_are_not(host: str) -> None:
    assert not is_known_host(host, ("hall.example",))


def test_operators_may_list_hosts_with_a_port_or_for_any() -> None:
    allowed = ("hall.example", "other.example:81")
    assert is_known_host("Hall.example:6667", allowed)
    assert is_known_host("other.example:81", allowed)
    assert not is_known_host("other.example:82", allowed)
    assert is_known_host("any.example", ("*",))


def test_a_request_without_a_host_names_no_foreign_one() -> None:
    assert is_known_host(None, ())


@given(st.text())
def test_no_host_breaks_the_check(host: str) -> None:
    assert is_known_host(host, ()) in (True, False)

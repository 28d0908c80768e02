"""Host and port in one spelling."""

import pytest

from moothall.errors import UsageError
from moothall.wire.authority import Authority, authority_of, hall_url, host_header, parse_authority


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("ws://hall.example.org", "hall.example.org", 80),
        ("wss://hall.example.org", "hall.example.org", 443),
        ("https://HALL.Example.ORG./chat?x=1", "hall.example.org", 443),
        ("ws://user:secret@hall.example.org:6667/", "hall.example.org", 6667),
        ("ws://127.0.0.1:6667", "127.0.0.1", 6667),
        ("ws://[::1]:6667", "::1", 6667),
        ("ws://[0:0:0::0001]:6667", "::1", 6667),
        ("ws://[::ffff:127.0.0.1]:6667", "127.0.0.1", 6667),
        ("wss://[2001:DB8::1]", "2001:db8::1", 443),
        ("wss://bücher.example", "xn--bcher-kva.example", 443),
    ],
)
def test_of_a_url(url: str, host: str, port: int) -> None:
    assert authority_of(url) == Authority(host, port)


@pytest.mark.parametrize(
    "url", ["", "hall", "hall:80", "ftp://hall", "ws://", "ws://h:99999", "ws://[::1", "ws://:80"]
)
def test_what_has_none(url: str) -> None:
    assert authority_of(url) is None


@pytest.mark.parametrize(
    ("text", "secure", "same_as"),
    [
        ("hall.example.org", False, "ws://hall.example.org"),
        ("Hall.Example.org:443", True, "wss://hall.example.org"),
        ("hall.example.org:80", False, "ws://hall.example.org"),
        ("[::1]:6667", False, "ws://[0::1]:6667"),
    ],
)
def test_of_a_host_header(text: str, secure: bool, same_as: str) -> None:
    assert parse_authority(text, secure=secure) == authority_of(same_as)


@pytest.mark.parametrize(
    "text", ["", "hall/path", "user@hall", "hall?x", "hall#x", "a b", "hall\\x", "hall:x", "[::1"]
)
def test_a_header_that_is_none(text: str) -> None:
    assert parse_authority(text, secure=False) is None


@pytest.mark.parametrize(
    ("url", "header"),
    [
        ("wss://Hall.example.org", "hall.example.org"),
        ("wss://hall.example.org:443/", "hall.example.org"),
        ("ws://hall.example.org:443", "hall.example.org:443"),
        ("https://hall.example.org:8443", "hall.example.org:8443"),
        ("ws://[::1]", "[::1]"),
        ("ws://[::1]:6667", "[::1]:6667"),
    ],
)
def test_the_header_that_a_client_sends(url: str, header: str) -> None:
    assert host_header(url) == header


def test_there_is_no_header_for_what_is_no_url() -> None:
    with pytest.raises(ValueError, match="hall"):
        host_header("hall")


@pytest.mark.parametrize(
    ("url", "is_local"), [("ws://localhost:1", True), ("ws://[::1]:1", True), ("ws://h:1", False)]
)
def test_loopback(url: str, is_local: bool) -> None:
    found = authority_of(url)
    assert found is not None
    assert found.is_local is is_local


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("localhost", "ws://localhost:6667"),
        ("127.0.0.1:7000", "ws://127.0.0.1:7000"),
        ("[::1]", "ws://[::1]:6667"),
        ("[::1]:7000", "ws://[::1]:7000"),
        ("ws://hall.example.org", "ws://hall.example.org"),
        ("wss://hall.example.org/path", "wss://hall.example.org/path"),
        ("http://hall.example.org:6667", "ws://hall.example.org:6667"),
        ("HTTPS://hall.example.org", "wss://hall.example.org"),
    ],
)
def test_the_spellings_of_a_hall(text: str, url: str) -> None:
    assert hall_url(text) == url
    assert hall_url(url) == url


@pytest.mark.parametrize(
    "text",
    ["", "ftp://hall", "ws://", "host:port", "ws://h:0", "ws://[::1", "two words", "ws://hall\n", "h:1#room"],
)
def test_what_is_not_the_address_of_a_hall(text: str) -> None:
    with pytest.raises(UsageError, match=r"not the address of a hall.*ws://127.0.0.1:6667"):
        hall_url(text)

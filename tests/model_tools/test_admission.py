"""Which HTTP requests reach the MCP server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import UsageError
from moothall.tools.admission import LEAST_TOKEN, Admission, listening_place

TOKEN = "0123456789abcdef"


def status(admission: Admission, arrived_at: str = "127.0.0.1", **headers: str) -> int | None:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    denial = admission.denial(pairs, arrived_at)
    return None if denial is None else denial.status


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8765", "localhost:8765", "[::1]:8765", "LOCALHOST", "mcp.localhost"]
)
def test_loopback_names_are_known_on_loopback(host: str) -> None:
    assert status(Admission(), host=host) is None
    assert status(Admission(), host=host, origin=f"http://{host.lower()}") is None


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "", "a b", "@"]
)
def test_a_page_whose_name_points_here_is_refused(host: str) -> None:
    assert status(Admission(), host=host, origin=f"http://{host}") == 421
    assert status(Admission(TOKEN), host=host, authorization=f"Bearer {TOKEN}") == 421


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "https://localhost.evil.example", "null", "file://", "http://127.0.0.1:1"],
)
def test_pages_of_other_origins_are_refused(origin: str) -> None:
    assert status(Admission(), host="127.0.0.1:8765", origin=origin) == 403


def test_hosts_that_the_user_allows() -> None:
    behind_proxy = Admission(hosts=frozenset(("mcp.example.org",)))
    assert status(behind_proxy, host="mcp.example.org") is None
    assert status(behind_proxy, host="mcp.example.org", origin="https://mcp.example.org") is None
    assert status(behind_proxy, host="mcp.example.org", origin="https://evil.example") == 403
    assert status(behind_proxy, host="other.example.org") == 421


def test_other_machines_use_the_address() -> None:
    wide = Admission(TOKEN)
    proof = f"Bearer {TOKEN}"
    assert status(wide, "192.0.2.1", host="192.0.2.1:8765", authorization=proof) is None
    assert status(wide, "192.0.2.1", host="evil.example:8765", authorization=proof) == 421
    assert status(wide, "192.0.2.1", host="192.0.2.2:8765", authorization=proof) == 421


@given(st.text())
def test_only_the_token_opens(given_token: str) -> None:
    for header in (f"Bearer {given_token}", given_token):
        expected = None if header == f"Bearer {TOKEN}" else 401
        headers = [(b"host", b"localhost"), (b"authorization", header.encode(errors="replace"))]
        denial = Admission(TOKEN).denial(headers, "127.0.0.1")
        assert (denial and denial.status) == expected
    assert status(Admission(TOKEN), host="localhost", authorization=f"bearer {TOKEN}") is None
    assert status(Admission(TOKEN), host="localhost") == 401


@pytest.mark.parametrize("name", ["host", "origin", "authorization"])
def test_two_headers_of_one_name_are_refused(name: str) -> None:
    twice = [(name.encode(), b"localhost")] * 2
    denial = Admission().denial(twice, "127.0.0.1")
    assert denial is not None
    assert denial.status == 400


def test_the_token_is_not_shown() -> None:
    assert TOKEN not in repr(Admission(TOKEN))


@pytest.mark.parametrize("text", ["127.0.0.1:8765", "localhost:0", "[::1]:8765"])
def test_loopback_needs_no_token(text: str) -> None:
    assert str(listening_place(text, None)) == text


@pytest.mark.parametrize("text", ["0.0.0.0:8765", "[::]:8765", "192.0.2.1:8765", "mcp.example.org:80"])
def test_a_place_that_others_reach_needs_one(text: str) -> None:
    with pytest.raises(UsageError, match="MOOTHALL_MCP_TOKEN"):
        listening_place(text, None)
    assert str(listening_place(text, TOKEN)) == text


@pytest.mark.parametrize(
    "text", ["", "8765", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999", "::1", "/"]
)
def test_what_is_not_an_address_and_a_port(text: str) -> None:
    with pytest.raises(UsageError, match=r"127\.0\.0\.1:8765"):
        listening_place(text, None)


@pytest.mark.parametrize("token", ["short", "x" * (LEAST_TOKEN - 1), "ä" * LEAST_TOKEN, "a\n" * LEAST_TOKEN])
def test_a_token_that_can_be_guessed_or_not_be_sent(token: str) -> None:
    with pytest.raises(UsageError, match="at least 16"):
        listening_place("127.0.0.1:8765", token)

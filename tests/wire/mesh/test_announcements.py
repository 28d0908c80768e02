"""ADVERTISE, DISCOVER, BEACON and BOUNTY: what counts of what strangers write."""

import json
from typing import Any

import pytest

from moothall.wire.mesh.announcements import Advertise, Beacon, Bounty, Discover, Geo
from moothall.wire.mesh.faults import PayloadParseError

AGENT = bytes(range(32))


def advertised(**members: Any) -> Advertise:
    return Advertise.decode(json.dumps(members).encode())


def test_capabilities_that_are_no_names_do_not_count() -> None:
    found = advertised(capabilities=["ok", "", "x" * 64, "x" * 65, "with space", "naïve", "a-b_C9", "tab\n"])
    assert found.capabilities == ("ok", "x" * 64, "a-b_C9")


def test_thirty_two_capabilities_count() -> None:
    found = advertised(capabilities=[f"c{number}" for number in range(40)])
    assert found.capabilities == tuple(f"c{number}" for number in range(32))


@pytest.mark.parametrize("capabilities", [("with space",), ("",), ("x",) * 33, ("newline\n",)])
def test_capabilities_that_would_not_count_are_not_written(capabilities: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="32 capabilities"):
        Advertise(capabilities=capabilities).encode()


def test_a_downpayment_is_at_most_half() -> None:
    assert advertised(downpayment_bps=9000).downpayment_bps == 5000
    assert advertised().downpayment_bps is None


def test_members_of_applications_are_kept() -> None:
    found = advertised(services=["a"], extra=1, capabilities=["x"])
    assert found.extra == {"services": ["a"], "extra": 1}
    assert Advertise.decode(found.encode()) == found


def test_members_of_applications_do_not_replace_known_ones() -> None:
    with pytest.raises(ValueError, match="known one"):
        Advertise(extra={"geo": "here"}).encode()


LOOP: dict[str, Any] = {}
LOOP["loop"] = LOOP


@pytest.mark.parametrize("extra", [{"o": object()}, {"t": "\ud800"}, LOOP], ids=["object", "text", "loop"])
def test_what_json_cannot_hold_is_not_written(extra: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"JSON|surrogates"):
        Advertise(extra=extra).encode()


def test_a_city_may_be_left_out() -> None:
    assert Advertise(geo=Geo("NG")).encode() == b'{"capabilities":[],"geo":{"country":"NG"}}'


@pytest.mark.parametrize(
    "members",
    [
        {"capabilities": "translation"},
        {"capabilities": [1]},
        {"geo": {"country": "N"}},
        {"geo": {"country": "N1"}},
        {"geo": {"country": "NG\n"}},
        {"geo": {"country": "Atlantis!"}},
        {"geo": {}},
        {"price_range_usd": [1]},
        {"price_range_usd": [1, "2"]},
        {"downpayment_bps": -1},
    ],
)
def test_known_members_have_their_type(members: dict[str, Any]) -> None:
    with pytest.raises(PayloadParseError):
        advertised(**members)


@pytest.mark.parametrize("kind", [Advertise, Discover, Bounty])
@pytest.mark.parametrize("payload", [b"", b"[]", b"null", b"{", b'{"query": 1}{}', b'{"\xff": 1}'])
def test_what_is_no_object_does_not_parse(kind: type[Advertise | Discover | Bounty], payload: bytes) -> None:
    with pytest.raises(PayloadParseError):
        kind.decode(payload)


def test_a_query_is_a_text() -> None:
    with pytest.raises(PayloadParseError):
        Discover.decode(b'{"query": 7}')


def test_a_name_is_printable_and_has_64_bytes() -> None:
    raw = "tab\there é \x7f\x1b[31m".encode()
    assert Beacon.decode(AGENT * 2 + raw).name == "tabhere  [31m"
    assert Beacon.decode(AGENT * 2 + b"x" * 100).name == "x" * 64
    assert Beacon.decode(AGENT * 2).name == ""


@pytest.mark.parametrize("payload", [b"", AGENT, AGENT * 2, AGENT + bytes(32)])
def test_a_beacon_has_one_id_twice(payload: bytes) -> None:
    if payload == AGENT * 2:
        assert Beacon.decode(payload) == Beacon(AGENT)
        payload = payload[:-1]
    with pytest.raises(PayloadParseError):
        Beacon.decode(payload)


BOUNTY: dict[str, Any] = {
    "required_capability": "translation",
    "max_budget_usd": 5,
    "deadline_secs": 3600,
    "task_summary": "pages",
    "conversation_id": "a0" * 16,
}


@pytest.mark.parametrize(
    "change",
    [
        {"required_capability": ""},
        {"max_budget_usd": 0},
        {"max_budget_usd": -1},
        {"deadline_secs": -1},
        {"conversation_id": "a0"},
        {"conversation_id": "A0" * 16},
        {"conversation_id": "a0" * 16 + "\n"},
        {"task_summary": None},
    ],
)
def test_a_bounty_has_its_members(change: dict[str, Any]) -> None:
    assert Bounty.decode(json.dumps(BOUNTY).encode()).max_budget_usd == 5.0
    with pytest.raises(PayloadParseError):
        Bounty.decode(json.dumps(BOUNTY | change).encode())


def test_of_a_summary_200_characters_count() -> None:
    found = Bounty.decode(json.dumps(BOUNTY | {"task_summary": "é" * 300}).encode())
    assert found.task_summary == "é" * 200

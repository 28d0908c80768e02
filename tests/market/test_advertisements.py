"""ADVERTISE and DISCOVER on the directory that REGISTER_SKILLS and SEARCH_SKILLS have (mesh wire 5)."""

import json
from typing import Any

import pytest
from msgspec import structs

from moothall.errors import InvalidMessage
from moothall.identity import PrivateKey
from moothall.market import advertisements
from moothall.market.advertisements import MAX_AGENTS, MAX_ANSWER, discover, read_advertise, result
from moothall.market.records import Standing
from moothall.market.skills import MAX_SIZE
from moothall.wire.mesh.envelope import Envelope, decode, encode, seal
from moothall.wire.mesh.faults import PayloadParseError
from moothall.wire.mesh.msg_types import MsgType
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.market.support import Market, MemoryBooks

NOW = 1_800_000_000_000


@pytest.fixture
def market() -> Market:
    return Market()


def envelope(payload: Any, agent: PrivateKey = ALICE, at: int = NOW) -> Envelope:
    return seal(
        MsgType.ADVERTISE,
        payload if isinstance(payload, bytes) else json.dumps(payload).encode(),
        sender=agent.public.raw,
        sign=agent.sign_bytes,
        nonce=at,
        now=at * 1000,
    )


def advertise(
    books: MemoryBooks, payload: Any, agent: PrivateKey = ALICE, at: int = NOW, name: str = "alice"
) -> bool:
    sent = envelope(payload, agent, at)
    offer = read_advertise(sent, encode(sent), name, at)
    return advertisements.advertise(books, agent.public.raw, offer, agent_id="a")


def discovered(books: MemoryBooks, query: str) -> list[dict[str, Any]]:
    online = {ALICE.public.raw}
    return [result(each, online=online, name_of=lambda key: key.hex()[:8]) for each in discover(books, query)]


def test_a_search_finds_what_was_advertised(market: Market) -> None:
    advertise(market.books, {"capabilities": ["translation", "ocr"], "price_range_usd": [1.5, 9]})
    [skill] = market.search(capability="translation")
    assert skill["capability"] == "translation"
    assert skill["via"] == "mesh"
    assert (skill["rate"], skill["currency"], skill["price_range_usd"]) == (1.5, "USD", [1.5, 9.0])
    assert market.books.offering("ocr", 10) == [ALICE.public.raw]


def test_a_discover_finds_what_was_registered_and_what_was_advertised(market: Market) -> None:
    market.register(BOB, {"capability": "Code Review", "rate": 5})
    advertise(market.books, {"capabilities": ["code-review"], "geo": {"country": "DE"}, "services": ["x"]})
    market.books.stands[BOB.public.raw] = Standing(key=BOB.public.raw, rating=1300, transactions=4)
    assert discovered(market.books, "CODE") == [
        {
            "agent_id": BOB.public.raw.hex(),
            "name": BOB.public.raw.hex()[:8],
            "capabilities": ["Code Review"],
            "rating": 1300,
            "transactions": 4,
            "online": False,
        },
        {
            "agent_id": ALICE.public.raw.hex(),
            "name": "alice",
            "capabilities": ["code-review"],
            "rating": 1200,
            "transactions": 0,
            "online": True,
            "geo": {"country": "DE"},
            "services": ["x"],
        },
    ]


def test_neither_source_erases_the_other(market: Market) -> None:
    advertise(market.books, {"capabilities": ["ocr"]})
    market.register(ALICE, {"capability": "review"})
    assert discovered(market.books, "ocr")[0]["capabilities"] == ["review", "ocr"]
    advertise(market.books, {"capabilities": ["music"]}, at=NOW + 1)
    assert discovered(market.books, "music")[0]["capabilities"] == ["review", "music"]
    assert discovered(market.books, "ocr") == []
    market.register(ALICE, {"capability": "painting"})
    assert discovered(market.books, "music")[0]["capabilities"] == ["painting", "music"]


def test_a_capability_of_both_sources_is_listed_once(market: Market) -> None:
    market.register(ALICE, {"capability": "OCR", "description": "of receipts"})
    advertise(market.books, {"capabilities": ["ocr", "ocr"]})
    [skill] = market.search(capability="ocr")
    assert skill["description"] == "of receipts"
    assert discovered(market.books, "ocr")[0]["capabilities"] == ["OCR"]


def test_an_older_envelope_does_not_replace_a_newer_one(market: Market) -> None:
    assert advertise(market.books, {"capabilities": ["new"]}, at=NOW)
    assert not advertise(market.books, {"capabilities": ["old"]}, at=NOW - 1)
    assert not advertise(market.books, {"capabilities": ["old"]}, at=NOW)
    assert discovered(market.books, "old") == []


def test_the_envelope_is_kept_as_the_signature(market: Market) -> None:
    advertise(market.books, {"capabilities": ["ocr"]})
    kept = market.books.registration(ALICE.public.raw)
    assert kept is not None
    assert kept.advertised is not None
    assert decode(kept.advertised.envelope) == envelope({"capabilities": ["ocr"]})
    [row] = market.books.audit
    assert (row.operation, row.actor) == ("advertise", ALICE.public.raw)


@pytest.mark.parametrize(
    "payload",
    [
        {"capabilities": ["ocr"], "services": "x" * MAX_SIZE},
        {"capabilities": ["ocr"], "services": [[]] * 10_001},
        {"capabilities": ["ocr"], "services": "a\0b"},
    ],
)
def test_what_is_too_much_is_refused(payload: Any) -> None:
    sent = envelope(payload)
    with pytest.raises(InvalidMessage):
        read_advertise(sent, encode(sent), "alice", NOW)


@pytest.mark.parametrize("payload", [b"", b"[]", b"{", b'{"capabilities": 7}'])
def test_what_does_not_parse_is_not_taken(payload: bytes) -> None:
    sent = envelope(payload)
    with pytest.raises(PayloadParseError):
        read_advertise(sent, encode(sent), "alice", NOW)


@pytest.mark.parametrize("query", ["", "x" * 257, "\0"])
def test_a_discover_asks_for_a_capability(query: str) -> None:
    with pytest.raises(InvalidMessage):
        discover(MemoryBooks(), query)


def test_an_agent_does_not_rate_itself(market: Market) -> None:
    said = {"rating": 9999, "online": False, "agent_id": "me", "name": "best"}
    advertise(market.books, {"capabilities": ["ocr"], **said})
    [found] = discovered(market.books, "ocr")
    assert (found["rating"], found["online"], found["agent_id"], found["name"]) == (
        1200,
        True,
        ALICE.public.raw.hex(),
        "alice",
    )


def test_an_answer_is_bounded(market: Market) -> None:
    advertise(market.books, {"capabilities": ["ocr"], "services": "x" * (MAX_SIZE - 100)}, CAROL)
    registration = market.books.registration(CAROL.public.raw)
    assert registration is not None
    for number in range(MAX_AGENTS):
        key = number.to_bytes(32, "big")
        market.books.save(structs.replace(registration, key=key), market.books.audit[0])
    found = discovered(market.books, "ocr")
    assert 1 < len(found) < MAX_AGENTS
    assert len(json.dumps(found)) < MAX_ANSWER

"""New keys of the mesh: which ones count towards the limit of their address."""

import pytest

from moothall.errors import RateLimited
from moothall.hall.access import NewKeys
from moothall.market import newcomers
from moothall.market.newcomers import Newcomers

HERE, THERE = "203.0.113.1", "203.0.113.2"


class Keys:
    def __init__(self, *known: bytes) -> None:
        self.known = set(known)

    def is_known(self, key: bytes) -> bool:
        return key in self.known


class Market:
    """Keeps what keys do, as the desk of the mesh does."""

    def __init__(self, most: int, *known: bytes) -> None:
        self.keys = Keys(*known)
        self.newcomers = Newcomers(NewKeys(most, 1))

    def act(self, key: bytes, ip: str = HERE, *, fails: bool = False) -> None:
        entry = self.newcomers.enter(key, ip, 0.0)
        if entry is None:
            return
        try:
            is_new = self.newcomers.is_new(self.keys, entry)
        except RateLimited:
            self.newcomers.failed(entry)
            raise
        if fails:
            self.newcomers.failed(entry)
        else:
            self.newcomers.came(entry, is_new=is_new)


def test_an_address_brings_a_bounded_number_of_new_keys() -> None:
    market = Market(2)
    market.act(b"a")
    market.act(b"b")
    market.act(b"a")
    with pytest.raises(RateLimited, match="new keys"):
        market.act(b"c")
    market.act(b"c", THERE)
    market.act(b"c")


def test_a_key_that_the_store_knows_does_not_count() -> None:
    market = Market(1, b"a", b"b")
    for key in (b"a", b"b", b"c", b"a"):
        market.act(key)
    with pytest.raises(RateLimited):
        market.act(b"d")
    market.act(b"b")


def test_what_is_refused_does_not_count() -> None:
    market = Market(1)
    for _ in range(5):
        market.act(b"a", fails=True)
    market.act(b"b")


def test_one_key_counts_once_however_much_it_has_under_way() -> None:
    market = Market(2)
    first, second = (market.newcomers.enter(b"a", HERE, 0.0) for _ in range(2))
    assert first is not None
    assert second is not None
    market.newcomers.came(first, is_new=True)
    market.newcomers.came(second, is_new=True)
    market.act(b"b")


def test_so_many_keys_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newcomers, "MAX_REMEMBERED", 1)
    market = Market(3)
    market.act(b"a")
    market.act(b"b")
    assert market.newcomers.enter(b"b", HERE, 0.0) is None
    assert market.newcomers.enter(b"a", HERE, 0.0) is not None


def test_an_address_of_peers_may_bring_more_keys() -> None:
    found = Newcomers(NewKeys(2, 1))
    entries = [found.enter(bytes((number,)) * 32, THERE, 0.0, 3) for number in range(10)]
    assert [entry.is_admitted for entry in entries if entry is not None] == [True] * 6 + [False] * 4

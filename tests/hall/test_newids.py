"""New ids of a hall that has its store to itself: no waiting, and nothing is lost."""

from collections.abc import Callable, Iterable
from typing import Any

from moothall.hall import newids
from moothall.hall.bindings import Holding, IdClaim
from moothall.hall.keyring import Keyring
from moothall.hall.newids import NewIds
from tests.court.books import MemoryBooks
from tests.identity.vectors import ALICE
from tests.support.world import (
    TWIN_ID,
    TWINS,
    HeldStore,
    LogBook,
    World,
    assert_open,
    assert_refused,
    assert_sent,
)

KEYS = [bytes([number]) * 32 for number in range(6)]


def claim(agent_id: str, key: bytes = KEYS[0], *, may_bind: bool = True) -> IdClaim:
    return IdClaim(agent_id, key, 7, may_bind)


class MemoryJournal:
    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}
        self.full = False

    def write(self, agent_id: str, key: bytes) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        self.entries[agent_id] = key

    def keep_only(self, entries: Iterable[tuple[str, bytes]]) -> None:
        self.entries = dict(entries)


class House:
    """A hall's keys, with its store, its journal and its time in the test's hand."""

    def __init__(self, books: MemoryBooks | None = None, capacity: int = 100) -> None:
        self.books = books or MemoryBooks()
        self.store = HeldStore(self.books)
        self.journal = MemoryJournal()
        self.log = LogBook()
        self.planned: list[tuple[float, Callable[[], None]]] = []
        self.new_ids = NewIds(
            self.store, capacity, list(self.books.bound), self.journal, self._later, self.log
        )
        self.ring = Keyring(self.store, capacity, self.new_ids)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self.planned.append((seconds, action))

    def pass_time(self) -> None:
        for _, action in [self.planned.pop(0)]:
            action()

    def ask(self, asked: IdClaim) -> Holding | BaseException | None:
        """The answer, if it comes at once."""
        heard: list[Any] = []
        self.ring.claim(asked, heard.append, heard.append)
        return heard[0] if heard else None


def test_a_new_id_is_bound_at_once_and_in_the_journal() -> None:
    house = House()
    assert house.ask(claim("aaaaaaaa")) == Holding(KEYS[0], is_new=True)
    assert house.journal.entries == {"aaaaaaaa": KEYS[0]}
    assert house.books.bound == {}
    assert house.ask(claim("aaaaaaaa", KEYS[1])) == Holding(KEYS[0])


def test_the_store_gets_what_collected_and_the_journal_is_cleared() -> None:
    house = House()
    for number in range(5):
        house.ask(claim(f"0000000{number}", KEYS[number]))
    assert house.store.waiting == []
    house.pass_time()
    house.ask(claim("0000000a", KEYS[5]))
    house.store.do_next()
    assert house.books.bound == {f"0000000{number}": KEYS[number] for number in range(5)}
    assert house.journal.entries == {"0000000a": KEYS[5]}
    house.pass_time()
    house.store.do_next()
    assert house.books.bound["0000000a"] == KEYS[5]
    assert (house.journal.entries, house.planned, house.store.waiting) == ({}, [], [])


def test_an_id_that_the_store_has_is_asked_for() -> None:
    books = MemoryBooks()
    books.bound["aaaaaaaa"] = KEYS[1]
    house = House(books)
    heard: list[Holding] = []
    house.ring.claim(claim("aaaaaaaa"), heard.append, lambda error: None)
    assert heard == []
    house.store.do_next()
    assert heard == [Holding(KEYS[1])]
    assert house.journal.entries == {}


def test_an_id_that_is_not_in_the_cache_any_more_keeps_its_key(monkeypatch: Any) -> None:
    monkeypatch.setattr("moothall.hall.keyring.MAX_CACHED", 1)
    house = House()
    for name in ("aaaaaaaa", "bbbbbbbb"):
        house.ask(claim(name))
    assert len(house.ring) == 1
    assert house.ask(claim("aaaaaaaa", KEYS[1])) == Holding(KEYS[0])  # not in the store either
    house.pass_time()
    house.store.do_next()
    house.ask(claim("cccccccc"))
    assert house.ask(claim("bbbbbbbb", KEYS[1])) is None
    assert len(house.store.waiting) == 1


def test_who_only_looks_for_a_new_id_is_answered_at_once() -> None:
    house = House()
    assert house.ask(claim("aaaaaaaa", may_bind=False)) == Holding(None)
    assert house.journal.entries == {}


def test_if_the_journal_cannot_be_written_the_store_is_asked() -> None:
    house = House()
    house.journal.full = True
    heard: list[Holding] = []
    house.ring.claim(claim("aaaaaaaa"), heard.append, lambda error: None)
    assert heard == []
    assert len(house.log.find("key_journal_not_written")) == 1
    house.store.do_next()
    assert heard == [Holding(KEYS[0], is_new=True)]
    assert (house.books.bound, house.journal.entries) == ({"aaaaaaaa": KEYS[0]}, {})


def test_a_store_that_fails_is_tried_again_and_nothing_is_lost() -> None:
    house = House()
    house.ask(claim("aaaaaaaa"))

    def unreachable(*arguments: object) -> None:
        raise OSError("gone")

    bind, house.books.bind = house.books.bind, unreachable  # type: ignore[method-assign, assignment]
    house.pass_time()
    house.store.do_next()
    assert len(house.log.find("keys_not_saved")) == 1
    assert house.journal.entries == {"aaaaaaaa": KEYS[0]}
    house.books.bind = bind  # type: ignore[method-assign]
    assert house.planned[0][0] == newids.RETRY_SECONDS
    house.pass_time()
    house.store.do_next()
    assert house.books.bound == {"aaaaaaaa": KEYS[0]}
    assert house.journal.entries == {}


def test_a_full_store_is_asked_and_refuses(monkeypatch: Any) -> None:
    house = House(capacity=2)
    for name in ("aaaaaaaa", "bbbbbbbb"):
        house.ask(claim(name))
    assert house.ask(claim("cccccccc")) is None
    house.pass_time()
    monkeypatch.setattr(newids, "MAX_UNSAVED", 0)
    fresh = House()
    assert fresh.ask(claim("aaaaaaaa")) is None  # the store is behind, and is asked first


def test_what_is_left_is_handed_over_at_the_end() -> None:
    house = House()
    house.ask(claim("aaaaaaaa"))
    house.new_ids.close()
    house.store.do_next()
    assert house.books.bound == {"aaaaaaaa": KEYS[0]}
    assert house.journal.entries == {"aaaaaaaa": KEYS[0]}  # for the next start, which clears it
    house.pass_time()
    assert house.store.waiting == []


def test_what_is_on_its_way_at_the_end_is_not_handed_over_twice() -> None:
    house = House()
    house.ask(claim("aaaaaaaa"))
    house.pass_time()
    house.new_ids.close()
    assert len(house.store.waiting) == 1


def test_in_a_hall_nobody_waits_and_a_twin_is_refused() -> None:
    house = House()
    world = World(books=house.books)
    world.hall.keyring = house.ring
    assert world.agent("alice", key=ALICE).id == f"@{ALICE.public.agent_id()}"
    first = world.agent("first", key=TWINS[0])
    second = world.connect()
    world.identify(second, "second", key=TWINS[1])
    assert_refused(second, "NOT_ALLOWED", TWIN_ID)
    assert_open(first)
    house.journal.full = True
    third = world.connect()
    world.identify(third, "third", key=TWINS[0])
    assert_sent(third, "WELCOME")

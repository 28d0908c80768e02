"""Halls that share a PostgreSQL, and nodes that share a file: who is connected where, letters, and signals."""

import asyncio

import pytest

from moothall.hall.common import BANS
from moothall.hall.elsewhere import EXPIRY_SECONDS, Connected
from moothall.hall.other_halls import LETTER_SECONDS, NEWS, Letter, named
from moothall.market.records import AuditRow
from moothall.store.opening import connect, open_store, prepare
from moothall.store.signals import Signals
from tests.store.server import Server
from tests.store.support import ALICE, BOB, CAROL, PATIENCE, Place, run

KEYS = [key.public.raw for key in (ALICE, BOB, CAROL)]


@pytest.fixture
def shared(place: Place) -> Place:
    with place.connected() as connection:
        prepare(connection, place.directory, place.log)
    return place


@pytest.fixture
def database(postgres: Place) -> Place:
    with postgres.connected() as connection:
        prepare(connection, postgres.directory, postgres.log)
    return postgres


def test_a_hall_sees_the_agents_of_the_others(shared: Place) -> None:
    with shared.books(hall="a") as books:
        news = books.pulse({KEYS[0]: Connected("online"), KEYS[1]: Connected("away")})
        assert (news.is_known, news.others) == (False, 0)
        assert books.elsewhere() == []
    with shared.books(hall="b") as books:
        assert books.pulse({KEYS[2]: Connected("online")}).others == 1
        assert sorted(books.elsewhere()) == sorted([(KEYS[0], "online"), (KEYS[1], "away")])
    with shared.books(hall="a") as books:
        news = books.pulse({KEYS[0]: None, KEYS[1]: Connected("busy")})
        assert (news.is_known, news.others) == (True, 1)
    with shared.books(hall="b") as books:
        assert books.elsewhere() == [(KEYS[1], "busy")]


def test_a_hall_knows_which_of_its_agents_are_connected_to_others_too(shared: Place) -> None:
    with shared.books(hall="a") as books:
        books.pulse({KEYS[0]: Connected("online"), KEYS[1]: Connected("online")})
    with shared.books(hall="b") as books:
        books.pulse({KEYS[1]: Connected("away"), KEYS[2]: Connected("online")})
    with shared.books(hall="a") as books:
        assert books.also_elsewhere(KEYS[:2]) == {KEYS[1]}
        assert books.also_elsewhere(KEYS[:1]) == set()


def test_a_hall_knows_which_agents_are_on_the_mesh_of_others(shared: Place) -> None:
    with shared.books(hall="a") as books:
        books.pulse({KEYS[0]: Connected("mesh", on_mesh=True), KEYS[1]: Connected("online", on_mesh=True)})
        books.pulse({KEYS[2]: Connected("online")})
        assert books.on_mesh_elsewhere(KEYS) == set()
    with shared.books(hall="b") as books:
        assert books.on_mesh_elsewhere(KEYS) == set(KEYS[:2])
        assert books.on_mesh_elsewhere(KEYS[2:]) == set()
    with shared.books(hall="a") as books:
        books.pulse({KEYS[1]: Connected("online"), KEYS[0]: None})
    with shared.books(hall="b") as books:
        assert books.on_mesh_elsewhere(KEYS) == set()


def test_a_pulse_tells_of_changes_at_other_halls(shared: Place) -> None:
    with shared.books(hall="a") as books:
        assert books.pulse({}, 3).changes == 0
    with shared.books(hall="b") as books:
        assert books.pulse({}).changes == 3
    with shared.books(hall="a") as books:
        assert books.pulse({}, 4).changes == 0
    with shared.books(hall="b") as books:
        assert books.pulse({}).changes == 4


def test_a_hall_alone_asks_nothing(place: Place) -> None:
    with place.books() as books:
        assert books.elsewhere() == []


def test_a_hall_that_is_silent_leaves_no_ghosts(shared: Place) -> None:
    with shared.books(hall="dead") as books:
        books.pulse({KEYS[0]: Connected("online")})
    with shared.connected() as connection:
        connection.execute("UPDATE halls SET seen_at = seen_at - ?", (round(EXPIRY_SECONDS * 1000) + 1,))
    with shared.books(hall="alive") as books:
        assert books.elsewhere() == []  # before anything was tidied up
        assert books.pulse({}).others == 0
    assert shared.select("SELECT id FROM halls") == [("alive",)]
    assert shared.select("SELECT key FROM present") == []
    with shared.books(hall="dead") as books:
        assert not books.pulse({}).is_known  # it has to say everything again


def test_a_hall_that_leaves_takes_its_agents_along(shared: Place) -> None:
    for hall in ("a", "b"):
        with shared.books(hall=hall) as books:
            books.pulse({KEYS[0]: Connected("online")})
    with shared.books(hall="a") as books:
        books.leave()
    assert shared.select("SELECT id FROM halls") == [("b",)]
    assert shared.select("SELECT hall FROM present") == [("b",)]


def test_many_agents_at_once(shared: Place) -> None:
    crowd = {number.to_bytes(32, "big"): Connected("online") for number in range(5000)}
    with shared.books(hall="a") as books:
        books.pulse(crowd)
    with shared.books(hall="b") as books:
        assert dict(books.elsewhere()) == dict.fromkeys(crowd, "online")
    with shared.books(hall="a") as books:
        books.pulse(dict.fromkeys(crowd))
    with shared.books(hall="b") as books:
        assert books.elsewhere() == []


def test_a_pulse_tells_what_has_changed(shared: Place) -> None:
    with shared.books(hall="a") as books:
        before = books.pulse({})
        books.enlist(BANS, b"x", b'{"agentId": "x"}')
        books.revoke(KEYS[0], b"{}", 0)
        books.pin([("x", KEYS[0])])
        books.post([KEYS[1]], b"hello")
    with shared.books(hall="b") as books:
        after = books.pulse({})
    assert dict(before.lists) == {}
    assert dict(after.lists) == {BANS: 1}
    assert (before.revoked, before.pinned, before.letters) == (0, 0, 0)
    assert (after.revoked, after.pinned, after.letters) == (1, 1, 1)


def test_a_pulse_tells_of_decisions(shared: Place) -> None:
    with shared.books(hall="a") as books:
        assert books.pulse({}).decisions == 0
    with shared.books(hall="a") as books:
        books.save(AuditRow(at=0, operation="expire", deal="prop_1", actor=None, data=b"{}"))
    with shared.books(hall="b") as books:
        assert books.pulse({}).decisions > 0


def test_letters_are_for_other_halls_and_read_if_they_are_wanted(shared: Place) -> None:
    with shared.books(hall="a") as books:
        books.post(KEYS[:2], b"one")
        books.post(KEYS[2:], b"two")
        books.post(KEYS[1:2], b"three")
        assert books.letters(0, (), set(KEYS)) == []
    with shared.books(hall="b") as books:
        assert books.letters(0, (), {KEYS[1]}) == [Letter(1, b"one"), Letter(2, None), Letter(3, b"three")]
        assert books.letters(1, (3,), {KEYS[1]}) == [Letter(2, None)]


def test_letters_are_kept_for_a_while(shared: Place) -> None:
    with shared.books(hall="a") as books:
        books.post(KEYS, b"one")
    with shared.connected() as connection:
        connection.execute("UPDATE letters SET at = at - ?", (round(LETTER_SECONDS * 1000) + 1,))
    with shared.books(hall="a") as books:
        books.post(KEYS, b"two")
        books.pulse({})
    assert shared.select("SELECT body FROM letters") == [(b"two",)]


def test_the_key_behind_an_id_is_found_as_soon_as_it_is_bound(place: Place) -> None:
    """Its agent may be connected to another hall, and have dealt with nobody yet."""
    with place.books() as books:
        books.bind(ALICE.public.agent_id(), KEYS[0], 0)
        assert books.find_key(ALICE.public.agent_id()) == KEYS[0]


# -- signals -------------------------------------------------------------------------------------------


class Ear:
    def __init__(self, place: Place, hall: str) -> None:
        self.heard: asyncio.Queue[str] = asyncio.Queue()
        self.signals = Signals(place.url, hall, self.heard.put_nowait)

    async def next(self) -> str:
        async with asyncio.timeout(PATIENCE):
            return await self.heard.get()


async def test_changes_are_signalled_to_the_others_when_they_are_committed(database: Place) -> None:
    ear, own = Ear(database, "b"), Ear(database, "a")
    assert await ear.next() == await own.next() == ""  # it listens now
    store = open_store(database.directory, database.url, database.log, hall="a")
    try:
        await run(store, lambda books: books.enlist(BANS, b"x", b'{"agentId": "x"}'))
        assert await ear.next() == NEWS
        await run(store, lambda books: books.revoke(KEYS[0], b"{}", 0))
        assert await ear.next() == NEWS
        await run(store, lambda books: books.pin([("x", KEYS[0])]))
        assert await ear.next() == NEWS

        def fail(books: object) -> None:
            books.post(KEYS[:1], b"never")  # type: ignore[attr-defined]
            raise OSError("not kept")

        with pytest.raises(OSError, match="not kept"):
            await run(store, fail)
        await run(store, lambda books: books.post(KEYS[:2], b"hello"))
        signal = await ear.next()
        assert signal.split(" ")[::2] == ["letter", named(KEYS[:2])]
        assert own.heard.empty()
    finally:
        store.close()
        ear.signals.close()
        own.signals.close()


async def test_other_stores_in_the_same_database_are_not_heard(database: Place, server: Server) -> None:
    other = Place(database.directory, server.new_database())
    with other.connected() as connection:
        prepare(connection, other.directory, other.log)
    ear = Ear(database, "b")
    assert await ear.next() == ""
    with other.books(hall="x") as books:
        books.signal("for others")
    with database.books(hall="a") as books:
        books.signal("for us")
    assert await ear.next() == "for us"
    ear.signals.close()


async def test_a_lost_connection_is_made_again_and_said(database: Place, server: Server) -> None:
    ear = Ear(database, "b")
    assert await ear.next() == ""
    server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
    assert await ear.next() == ""
    with database.books(hall="a") as books:
        books.signal(NEWS)
    assert await ear.next() == NEWS
    ear.signals.close()


async def test_it_ends_while_the_server_is_away(database: Place) -> None:
    ear = Ear(Place(database.directory, "postgresql://nobody@/nothing?host=/nonexistent"), "b")
    ear.signals.close()
    assert ear.heard.empty()
    connect(database.directory.path, database.url).close()

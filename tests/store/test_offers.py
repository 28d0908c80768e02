"""The directory of skills: what a search finds, and what it looks at."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moothall.market.audit import audit_row
from moothall.market.books import Books
from moothall.market.records import Registration, Revoked, Standing
from moothall.market.skills import Filters
from moothall.store import migrations, offers, schema
from moothall.store.rows import Draft
from tests.market.support import MemoryBooks
from tests.store.support import ALICE, BOB, CAROL, DAVE, NOW_MS, Place, offered
from tests.store.test_books import Writer

pytestmark = pytest.mark.slow

AGENTS = (ALICE, BOB, CAROL, DAVE)
KEYS = [agent.public.raw for agent in AGENTS]

names = st.sampled_from(["review", "Code Review", "REVIEWER", "100%", "a_b", "aXb", "ä", "Ärger", "x" * 256])
texts = st.sampled_from(
    ["", "review", "view", "rev", "%", "_", "ä", "x", "nothing", "code review", "\U0010ffff"]
)
rates = st.sampled_from([None, 0, 5, 5.5, -1, 10**400, True, "5", [5]])
currencies = st.sampled_from([None, "EUR", "eur", 7])
skills = st.builds(
    lambda name, rate, currency: {
        "capability": name,
        **({} if rate is None else {"rate": rate}),
        **({} if currency is None else {"currency": currency}),
    },
    names,
    rates,
    currencies,
)
filters = st.builds(
    Filters,
    capability=texts,
    max_rate=st.sampled_from([None, 0, 5, 5.2, 10**400]),
    currency=st.sampled_from(["", "eur"]),
)


def registration(key: bytes, *offers: dict[str, Any], at: int = NOW_MS) -> Registration:
    return Registration(key=key, agent_id="a", skills=list(offers), registered_at=at, sig="-")


def save(*changes: Any) -> Callable[[Books], None]:
    return lambda books: books.save(*changes, audit_row("test", "d", NOW_MS))


steps = st.one_of(
    st.builds(
        lambda key, skills: save(registration(key, *skills)),
        st.sampled_from(KEYS),
        st.lists(skills, min_size=1, max_size=4),
    ),
    st.builds(lambda key: save(Revoked(key)), st.sampled_from(KEYS)),
)


def found(books: Books, wanted: Filters) -> list[tuple[bytes, int, str]]:
    return sorted(
        (offer.key, offer.position, repr(skill)) for offer, skill in books.offered(books.offers(wanted, 100))
    )


def offering(books: Books, capability: str) -> list[bytes]:
    return books.offering(capability, 100)


def assert_same_directory(place: Place, story: st.DataObject) -> None:
    memory = MemoryBooks()
    transaction = Writer(place)
    for batch in story.draw(st.lists(st.lists(steps, min_size=1, max_size=4), max_size=4)):
        transaction.begin()
        for step in batch:
            transaction.run(step)
            step(memory)
            if story.draw(st.booleans()):
                wanted = story.draw(filters)
                assert transaction.run(partial(found, wanted=wanted)) == found(memory, wanted)
        transaction.commit()
        wanted = story.draw(filters)
        exactly = story.draw(names).lower()
        transaction.begin()
        assert transaction.run(partial(found, wanted=wanted)) == found(memory, wanted)
        assert sorted(transaction.run(partial(offering, capability=exactly))) == sorted(
            memory.offering(exactly, 100)
        )
        transaction.commit()
    assert place.problems() == []


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(story=st.data())
def test_sqlite_finds_what_books_in_memory_find(
    tmp_path_factory: pytest.TempPathFactory, sqlite: Place, story: st.DataObject
) -> None:
    sqlite.directory.path = tmp_path_factory.mktemp("hall")
    assert_same_directory(sqlite, story)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(story=st.data())
def test_postgres_finds_what_books_in_memory_find(server: Any, postgres: Place, story: st.DataObject) -> None:
    postgres.url = server.new_database()
    assert_same_directory(postgres, story)


def test_names_that_begin_with_it_are_found_among_any_number_of_others(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name inside which it stands is looked for among the best rated offers."""
    monkeypatch.setattr(offers, "LOOKED_AT", 3)
    with place.books() as books:
        books.save(Standing(key=BOB.public.raw, rating=1300), audit_row("test", "d", NOW_MS))
        save(registration(ALICE.public.raw, {"capability": "code review"}, {"capability": "reviewer"}))(books)
        save(registration(BOB.public.raw, *({"capability": f"junk {n}"} for n in range(3))))(books)
    with place.books() as books:
        assert [skill["capability"] for _, skill in offered(books, capability="review")] == ["reviewer"]
        assert [skill["capability"] for _, skill in offered(books, capability="code")] == ["code review"]
        assert len(offered(books, capability="unk")) == 3


def test_the_best_rated_come_first_where_not_all_fit(place: Place) -> None:
    with place.books() as books:
        for rating, agent in ((1100, ALICE), (1500, BOB), (1300, CAROL)):
            books.save(Standing(key=agent.public.raw, rating=rating), audit_row("test", "d", NOW_MS))
            save(registration(agent.public.raw, {"capability": "review"}))(books)
    with place.books() as books:
        assert [offer.key for offer in books.offers(Filters(capability="view"), 2)] == [
            BOB.public.raw,
            CAROL.public.raw,
        ]
        assert books.offering("review", 1) == [BOB.public.raw]


def test_what_no_database_takes_is_not_found(place: Place) -> None:
    with place.books() as books:
        assert books.offering("\0", 10) == books.offering("\ud800", 10) == []


def test_a_store_of_an_earlier_version_can_be_searched_after_its_upgrade(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which had the registrations, and searched them all."""
    monkeypatch.setattr(offers, "REGISTRATIONS_AT_ONCE", 3)
    earlier = schema.MIGRATIONS[:4]
    with place.connected() as connection:
        connection.execute(connection.dialect.begin)
        with monkeypatch.context() as patch:
            patch.setattr(migrations, "MIGRATIONS", earlier)
            patch.setattr(migrations, "VERSION", len(earlier))
            migrations.upgrade(connection, NOW_MS)
        for number, agent in enumerate(AGENTS):
            draft = Draft()
            draft.put_key(agent.public.raw)
            draft.put_registration(registration(agent.public.raw, {"capability": f"skill {number}"}), 1200)
            draft.rows["offers"].clear()
            draft.kept_offers.clear()
            draft.write(connection)
        assert migrations.upgrade(connection, NOW_MS) == len(earlier)
        connection.execute("COMMIT")
    with place.books() as books:
        assert len(offered(books)) == 4
        assert books.offering("skill 2", 10) == [CAROL.public.raw]
    assert place.problems() == []

"""Inboxes of the mesh in the store: cursors, bounds, and what is said of envelopes that made way."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moothall.hall.mesh.inbox import Page
from moothall.hall.mesh.stored_inbox import MAX_AGE
from moothall.identity import PrivateKey
from moothall.store import mesh_inbox
from moothall.store.books import SqlBooks
from moothall.wire.mesh.envelope import decode
from moothall.wire.mesh.msg_types import MsgType
from tests.store.support import ALICE, BOB, CAROL, NOW_MS, Place, run
from tests.support.envelopes import sent

A, B = ALICE.public.raw, BOB.public.raw
MOST = 1_000_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh_inbox, "MAX_ENVELOPES", 4)
    monkeypatch.setattr(mesh_inbox, "MAX_BYTES", 20)


def put(books: SqlBooks, *envelopes: bytes, to: bytes = A, at: int = NOW_MS) -> None:
    for envelope in envelopes:
        books.put_envelope(to, envelope, at)


def contents(page: Page) -> list[bytes]:
    return [envelope for _, envelope in page.envelopes]


def read(books: SqlBooks, after: int | None = None, limit: int = 10, of: bytes = A) -> Page:
    return books.inbox(of, after, limit, MOST)


def test_an_agent_reads_what_is_its_own_and_confirms_it_with_the_next_question(place: Place) -> None:
    with place.books() as books:
        put(books, b"one", b"two")
        put(books, b"other", to=B)
        put(books, b"three")
    with place.books() as books:
        first = read(books, limit=2)
        assert contents(first) == [b"one", b"two"]
        assert first.more
    with place.books() as books:
        assert contents(read(books)) == [b"one", b"two", b"three"]  # nothing was confirmed
        second = read(books, first.envelopes[-1][0])
        assert contents(second) == [b"three"]
        assert not second.more
    with place.books() as books:
        assert contents(read(books)) == [b"three"]
        assert read(books, second.envelopes[-1][0]) == Page((), more=False, lost=0)
        assert contents(read(books, of=B)) == [b"other"]


def test_a_cursor_is_never_given_out_again(place: Place) -> None:
    with place.books() as books:
        put(books, b"one")
        last = books.newest_envelope(A)
        read(books, last)
        assert books.newest_envelope(A) == 0
    with place.books() as books:
        put(books, b"two")
        assert books.newest_envelope(A) > last
        assert contents(read(books, last)) == [b"two"]


def test_a_cursor_of_another_store_removes_nothing(place: Place) -> None:
    with place.books() as books:
        put(books, b"one")
        assert contents(read(books, books.newest_envelope(A) + 1)) == [b"one"]
        assert contents(read(books)) == [b"one"]


def test_the_oldest_make_way_and_are_counted(place: Place) -> None:
    with place.books() as books:
        put(books, b"1", b"2", b"3", b"4", b"5", b"6")
    with place.books() as books:
        page = read(books)
        assert contents(page) == [b"3", b"4", b"5", b"6"]
        assert page.lost == 2
        put(books, b"x" * 19)  # and one byte remains
        page = read(books)
        assert contents(page) == [b"6", b"x" * 19]
        assert page.lost == 5
        assert read(books, page.envelopes[-1][0]).lost == 0


def test_a_flood_of_one_sender_pushes_out_its_own_envelopes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mesh_inbox, "MAX_BYTES", 10_000)
    nonces = iter(range(1, 100))

    def proposed(sender: PrivateKey) -> bytes:
        return sent(sender, MsgType.PROPOSE, to=ALICE, nonce=next(nonces))[1]

    wanted = proposed(CAROL)
    with place.books() as books:
        put(books, proposed(BOB), wanted, *(proposed(BOB) for _ in range(20)))
        first = read(books, limit=2)
        assert [decode(each).sender for each in contents(first)] == [CAROL.public.raw, B]
        assert first.lost == 18  # one of them before the wanted envelope
        rest = read(books, first.envelopes[-1][0])
        assert (len(rest.envelopes), rest.lost) == (2, 0)


def test_offers_of_many_strangers_do_not_push_out_what_belongs_to_a_deal(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mesh_inbox, "MAX_BYTES", 10_000)
    wanted = sent(CAROL, MsgType.DELIVER, to=ALICE)[1]
    strangers = [PrivateKey(bytes([number]) * 32) for number in range(1, 9)]
    with place.books() as books:
        put(books, wanted, *(sent(key, MsgType.PROPOSE, to=ALICE)[1] for key in strangers))
        page = read(books)
    assert (contents(page)[0], len(page.envelopes), page.lost) == (wanted, 4, 5)


def test_one_answer_has_so_many_bytes_and_at_least_one_envelope(place: Place) -> None:
    with place.books() as books:
        put(books, b"12345", b"12345", b"12345")
        page = books.inbox(A, None, 10, 11)
        assert (len(page.envelopes), page.more) == (2, True)
        page = books.inbox(A, None, 10, 1)
        assert (len(page.envelopes), page.more) == (1, True)


def test_old_envelopes_go_and_then_what_tells_of_them(place: Place) -> None:
    with place.books() as books:
        put(books, b"old")
        put(books, b"new", at=NOW_MS + 10)
        assert books.tidy_inboxes(NOW_MS - MAX_AGE, MOST) == NOW_MS
        assert books.tidy_inboxes(NOW_MS + 5, MOST) == NOW_MS + 10
        page = read(books)
        assert (contents(page), page.lost) == ([b"new"], 1)
        # What is left tells of those that were lost, and stays as long again.
        assert books.tidy_inboxes(NOW_MS + 5 + MAX_AGE, MOST) == NOW_MS + 10 + MAX_AGE
        assert read(books) == Page((), more=False, lost=2)
        assert books.tidy_inboxes(NOW_MS + 20 + MAX_AGE, MOST) is None
        assert read(books) == Page((), more=False, lost=0)
    assert place.select("SELECT * FROM mesh_inbox") == []


def test_the_fullest_make_way_for_others(place: Place) -> None:
    with place.books() as books:
        put(books, b"12345", b"12345", b"12345", b"12345")
        put(books, b"123", to=B)
        books.tidy_inboxes(0, 15)
        assert (len(read(books).envelopes), read(books).lost) == (2, 2)
        assert contents(read(books, of=B)) == [b"123"]
        assert books.tidy_inboxes(0, 2) == 0  # there is more to remove
        assert books.tidy_inboxes(0, 2)
        assert (read(books).lost, contents(read(books, of=B))) == (4, [])


steps = st.one_of(
    st.builds(lambda to, size: ("put", to, size), st.sampled_from([A, B]), st.integers(1, 12)),
    st.builds(lambda of, limit: ("read", of, limit), st.sampled_from([A, B]), st.integers(1, 3)),
    st.builds(lambda of: ("confirm", of, 10), st.sampled_from([A, B])),
)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(steps, max_size=25))
def test_every_envelope_is_read_once_or_counted_as_lost(
    sqlite: Place, story: list[tuple[str, bytes, int]]
) -> None:
    put_so_far = {A: 0, B: 0}
    had = {A: 0, B: 0}  # read and confirmed, or reported as lost and confirmed
    with sqlite.books() as books:
        for of in (A, B):
            books.inbox(of, books.newest_envelope(of), 100, MOST)
        for what, who, number in story:
            if what == "put":
                put(books, put_so_far[who].to_bytes(1, "big") * number, to=who)
                put_so_far[who] += 1
                continue
            page = read(books, limit=number, of=who)
            lost = page.lost
            numbers = [envelope[0] for envelope in contents(page)]
            assert numbers == sorted(set(numbers))
            if numbers:  # all up to the last one were read or lost
                assert numbers[-1] + 1 == had[who] + lost + len(numbers)
            if not page.more:
                assert had[who] + lost + len(page.envelopes) == put_so_far[who]
            if what == "confirm" and page.envelopes:
                read(books, page.envelopes[-1][0], of=who)
                had[who] += lost + len(page.envelopes)
        for of in (A, B):
            books.inbox(of, books.newest_envelope(of), 100, MOST)


async def test_what_was_kept_outlives_a_restart(place: Place) -> None:
    async with place.opened() as store:
        await run(store, lambda books: books.put_envelope(A, b"one", NOW_MS))
    async with place.opened() as store:
        assert contents(await run(store, lambda books: books.inbox(A, None, 10, MOST))) == [b"one"]


def test_what_was_delivered_is_taken_out_and_what_was_lost_before_it_still_counts(place: Place) -> None:
    with place.books() as books:
        one, two = books.put_envelope(A, b"one", NOW_MS), books.put_envelope(A, b"two", NOW_MS)
        books.take_out(B, one)
        books.take_out(A, two)
        assert contents(read(books)) == [b"one"]
        books.take_out(A, two)
        first, *_ = [books.put_envelope(A, b"%d" % number, NOW_MS) for number in range(4)]
        page = read(books)
        assert (contents(page), page.lost) == ([b"0", b"1", b"2", b"3"], 1)
        books.take_out(A, first)
        page = read(books)
        assert (contents(page), page.lost) == ([b"1", b"2", b"3"], 1)

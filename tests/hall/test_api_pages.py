"""Pages of lists, and whose records a list shows."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import InvalidMessage
from moothall.hall.api_pages import (
    Page,
    Place,
    RecordList,
    RecordQuery,
    Whose,
    list_records,
    page_by,
    read_place,
)
from moothall.hall.api_routes import Paged, Stored, Viewer

PARTY = b"p" * 32
ids = st.text("0123456789abcdef", min_size=1, max_size=8)


def itself(text: str) -> str:
    return text


def address(text: str) -> str:
    return f"@{text}"


class Texts(RecordList):
    items: list[str]


@given(st.sets(ids), st.integers(1, 5), st.sampled_from([None, address]))
def test_the_pages_together_are_the_list(
    entries: set[str], limit: int, cursor: Callable[[str], str] | None
) -> None:
    seen: list[str] = []
    after: str | None = None
    for _ in range(len(entries) + 1):
        page, after = page_by(itself, entries, Paged(limit=limit, after=after), cursor)
        assert len(page) <= limit
        seen += page
        if after is None:
            break
    assert after is None
    assert seen == sorted(entries)


@given(st.integers(0, 10**16 - 1), st.text("!#-~", min_size=1, max_size=256))
def test_a_place_is_read_from_what_was_written(at: int, record: str) -> None:
    assert read_place(str(Place(at, record))) == (at, record)


@pytest.mark.parametrize("after", ["", "1", "-a", "a-1", "1-", "1-a b", "1-\u00e9", "9" * 17 + "-a"])
def test_what_is_no_place_is_refused(after: str) -> None:
    with pytest.raises(InvalidMessage, match="`after` must be the `next`"):
        read_place(after)


@pytest.mark.parametrize(
    ("key", "asked", "is_public", "whose", "party"),
    [
        (None, None, False, "mine", None),
        (None, "mine", True, "mine", None),
        (None, "all", False, "all", None),
        (PARTY, "all", False, "all", None),
        (PARTY, None, False, "mine", PARTY),
        (PARTY, "mine", True, "mine", PARTY),
        (None, None, True, "all", "all"),
        (PARTY, None, True, "all", "all"),
    ],
)
def test_records_of_others_are_shown_only_if_the_operator_says_so(
    key: bytes | None, asked: Whose | None, is_public: bool, whose: Whose, party: Any
) -> None:
    """`party` is the one whose records are read, or "all"; None: nothing is read."""
    read: list[Any] = []

    def record(books: str, party: bytes | None, after: Place | None) -> Page[int]:
        read.append((books, "all" if party is None else party, after))
        return Page([7], Place(3, "x"))

    found = list_records(
        Texts,
        Viewer(key),
        RecordQuery(whose=asked, after="5-y"),
        counts={"open": 2},
        is_public=is_public,
        read=record,
        show=str,
    )
    if party is None:
        assert found == Texts(whose=whose, counts={"open": 2}, items=[], next=None)
        return
    assert isinstance(found, Stored)
    assert found.work("books") == Texts(whose=whose, counts={"open": 2}, items=["7"], next="3-x")
    assert read == [("books", party, Place(5, "y"))]

"""Pages of lists in the HTTP API: where one ends and the next begins, and whose records a list shows.

Records of deals, cases and conversations are for their parties. Others see how many there are, unless the operator
shows the records to all (`public_deals`, `public_cases`).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from heapq import nsmallest
from typing import Annotated, Any, Final, Generic, Literal, NamedTuple, TypeVar

from msgspec import Meta

from moothall.errors import InvalidMessage
from moothall.hall.api_routes import Listing, Paged, Stored, Viewer
from moothall.wire.agentchat.names import bare_id

MAX_LIST: Final = 256 * 1024  # bytes of the records behind one list

Entry = TypeVar("Entry")

_is_place: Final = re.compile(r"([0-9]{1,16})-([!-~]{1,256})").fullmatch


# -- lists in memory, by key -------------------------------------------------------------------------


def page_by(
    key: Callable[[Entry], str],
    entries: Iterable[Entry],
    query: Paged,
    cursor: Callable[[Entry], str] | None = None,
) -> tuple[list[Entry], str | None]:
    """The entries after the query's cursor, in the order of their keys, and the cursor of the next page.

    The cursor is the key, unless another one is given: the address of an agent stands for its id.
    """
    after = bare_id(query.after or "")
    later = (entry for entry in entries if key(entry) > after)
    return cut(nsmallest(query.limit + 1, later, key=key), query.limit, cursor or key)


def cut(
    found: list[Entry], limit: int, cursor: Callable[[Entry], str | None]
) -> tuple[list[Entry], str | None]:
    """A page of what was found, and the cursor of the next one. None if there is no entry beyond `limit`."""
    page = found[:limit]
    return page, cursor(page[-1]) if len(found) > len(page) else None


# -- lists of records, by time -----------------------------------------------------------------------


class Place(NamedTuple):
    """A record of a list by time, newest first: the next page begins after it."""

    at: int
    id: str

    def __str__(self) -> str:
        return f"{self.at}-{self.id}"


class Page(NamedTuple, Generic[Entry]):
    """Newest first. `next` is where the list goes on; None at its end. A page may be short and have a `next`: a
    unit of work looks at a bounded number of rows."""

    items: list[Entry]
    next: Place | None


def read_place(after: str | None) -> Place | None:
    """Raises InvalidMessage if it is no cursor of a list by time."""
    if after is None:
        return None
    found = _is_place(after)
    if found is None:
        raise InvalidMessage("`after` must be the `next` of an answer from this route")
    return Place(int(found[1]), found[2])


Whose = Literal["mine", "all"]
WhoseParameter = Annotated[
    Whose,
    Meta(
        description="Those of the viewer, or all. By default all where the operator shows them, else `mine`."
    ),
]


class RecordQuery(Paged, frozen=True, kw_only=True):
    whose: WhoseParameter | None = None


class RecordList(Listing):
    """`counts` are of all records of the hall. `whose` says which of them `items` are."""

    whose: Whose
    counts: dict[str, int]


Records = TypeVar("Records", bound=RecordList)


def list_records(
    answer: Callable[..., Records],
    viewer: Viewer,
    query: RecordQuery,
    *,
    counts: Mapping[str, int],
    is_public: bool,
    read: Callable[[Any, bytes | None, Place | None], Page[Entry]],
    show: Callable[[Entry], Any],
) -> Records | Stored:
    """The counts, and the records that the viewer may see.

    `read` is a part of a unit of work: the records of a party, or without one of all, after a place.
    """
    after, counted = read_place(query.after), dict(counts)
    whose: Whose = query.whose or ("all" if is_public else "mine")
    party = viewer.key if whose == "mine" else None
    if party is None and not (whose == "all" and is_public):
        return answer(whose=whose, counts=counted, items=[], next=None)

    def work(books: Any) -> Records:
        page = read(books, party, after)
        return answer(
            whose=whose,
            counts=counted,
            items=[show(each) for each in page.items],
            next=None if page.next is None else str(page.next),
        )

    return Stored(work)

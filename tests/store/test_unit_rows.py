"""What a unit of work knows without asking the database, and what its changes are built on."""

import pytest

from moothall.market.ledger import opening
from moothall.market.records import Proposal, RatingPoint, Standing
from moothall.store.row_cache import RowCache
from moothall.store.rows import Draft
from moothall.store.stored import Stored
from moothall.store.unit_rows import UnitRows
from tests.store.support import ALICE, BOB, NOW_MS

SHELVES: list[tuple[str, str, str | bytes]] = [
    ("proposal", "proposals", "prop_1"),
    ("standing", "standings", ALICE.public.raw),
    ("case", "disputes", "disp_1"),
    ("conversation", "conversations", bytes(16)),
    ("escrow", "escrows", bytes(16)),
]


def deal() -> Proposal:
    return Proposal(
        id="prop_1",
        proposer=ALICE.public.raw,
        recipient=BOB.public.raw,
        from_="@alice",
        to="@bob",
        task="review",
        created_at=NOW_MS,
        updated_at=NOW_MS,
        sig="s",
    )


@pytest.mark.parametrize(("kind", "shelf", "name"), SHELVES)
def test_own_changes_come_first_and_committed_rows_last(kind: str, shelf: str, name: str | bytes) -> None:
    draft, before, cache = Draft(), Draft(), RowCache()
    find = getattr(UnitRows(draft, before, cache), kind)
    assert find(name) is None
    for version, place in enumerate((cache, before, draft)):
        stored = Stored(version, f"the {kind}")
        getattr(place, shelf)[name] = stored
        assert find(name) is stored
    assert find(name * 2) is None


def test_a_change_follows_the_version_that_the_unit_knows() -> None:
    draft, before, cache = Draft(), Draft(), RowCache()
    rows = UnitRows(draft, before, cache)
    key = ALICE.public.raw
    cache.standings[key] = Stored(6, Standing(key=key))
    before.standings[key] = Stored(7, Standing(key=key, rating=1210))
    before.proposals["prop_1"] = Stored(2, deal())
    rows.put_standing(Standing(key=key, rating=1220))
    rows.put_proposal(deal())
    assert draft.standings[key] == Stored(8, Standing(key=key, rating=1220))
    assert draft.proposals["prop_1"].version == 3
    rows.put_standing(Standing(key=key, rating=1230))
    assert draft.standings[key].version == 9


def test_a_key_gets_its_row_once() -> None:
    draft, before, cache = Draft(), Draft(), RowCache()
    rows = UnitRows(draft, before, cache)
    rows.put_proposal(deal())
    rows.put_point(RatingPoint(key=ALICE.public.raw, at=NOW_MS, rating=1200, why="why"))
    assert draft.keys == {ALICE.public.raw, BOB.public.raw}

    known = Draft()
    before.keys.add(ALICE.public.raw)
    cache.keys[BOB.public.raw] = None
    UnitRows(known, before, cache).put_proposal(deal())
    assert not known.keys
    assert list(known.proposals) == ["prop_1"]


def test_an_entry_is_known_in_the_unit_and_after_it() -> None:
    first, other = opening(ALICE.public.raw, 1200, NOW_MS), opening(BOB.public.raw, 1200, NOW_MS)
    draft, before, cache = Draft(), Draft(), RowCache()
    rows = UnitRows(draft, before, cache)
    draft.put_entry(first)
    assert rows.has_entry(first)
    assert not rows.has_entry(other)
    before.absorb(draft)
    later = UnitRows(Draft(), before, cache)
    assert later.has_entry(first)
    assert not later.has_entry(other)

"""Files of former versions: brought in once, then kept under another name."""

import json
from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.identity.certificates import revoke
from moothall.store.former import KEYS_FILE, PINS_FILE, REVOKED_FILE
from tests.store.support import ALICE, BOB, CAROL, NOW_MS, Place


def lines(*entries: tuple[str, bytes]) -> bytes:
    return "".join(f"{agent_id} {key.hex()}\n" for agent_id, key in entries).encode()


def names(place: Place) -> set[str]:
    return {path.name for path in place.directory.path.iterdir() if not path.name.startswith("hall.db")}


ALICE_LINE = (ALICE.public.agent_id(), ALICE.public.raw)
BOB_LINE = (BOB.public.agent_id(), BOB.public.raw)


def test_known_keys_are_bound_and_the_file_is_set_aside(place: Place) -> None:
    place.directory.write(KEYS_FILE, lines(ALICE_LINE, BOB_LINE))
    with place.books() as books:
        assert books.owners([ALICE_LINE[0], BOB_LINE[0]]) == dict([ALICE_LINE, BOB_LINE])
    assert names(place) == {f"{KEYS_FILE}.before-import"}
    assert place.directory.read(f"{KEYS_FILE}.before-import") == lines(ALICE_LINE, BOB_LINE)
    assert place.log.facts("known_keys_imported") == {"bound": 2, "known_already": 0}


def test_what_the_store_knows_already_stays(place: Place) -> None:
    """Of two halls that shared a database, each had a file of its own."""
    with place.books() as books:
        books.bind(ALICE_LINE[0], CAROL.public.raw, 0)
    place.directory.write(KEYS_FILE, lines(ALICE_LINE, BOB_LINE))
    with place.books() as books:
        assert books.owners([ALICE_LINE[0], BOB_LINE[0]]) == {
            ALICE_LINE[0]: CAROL.public.raw,
            BOB_LINE[0]: BOB.public.raw,
        }
    assert place.log.facts("known_keys_imported") == {"bound": 1, "known_already": 1}


def test_of_two_lines_the_last_held_and_damaged_ones_are_passed_over(place: Place) -> None:
    junk = b"\n\xff\xfe\nid zz\nid 00\n \n"
    content = junk + lines((ALICE_LINE[0], BOB.public.raw), ALICE_LINE) + b"00000003 0303"
    place.directory.write(KEYS_FILE, content)
    with place.books() as books:
        assert books.owners([ALICE_LINE[0], "00000003", "id"]) == dict([ALICE_LINE])


def test_a_file_that_comes_later_is_brought_in_too_and_the_first_is_kept(place: Place) -> None:
    for line in (ALICE_LINE, BOB_LINE):
        place.directory.write(KEYS_FILE, lines(line))
        with place.books() as books:
            assert books.owners([line[0]]) == dict([line])
    assert names(place) == {f"{KEYS_FILE}.before-import", f"{KEYS_FILE}.before-import.2"}


def test_a_large_file(place: Place) -> None:
    entries = [(f"{number:08x}", number.to_bytes(32, "big")) for number in range(3000)]
    place.directory.write(KEYS_FILE, lines(*entries))
    with place.books() as books:
        assert books.bound_ids() == 3000
        assert books.owners(["00000bb7"]) == {"00000bb7": (2999).to_bytes(32, "big")}


def test_a_hall_killed_before_the_file_was_set_aside_reads_it_again(place: Place) -> None:
    place.directory.write(KEYS_FILE, lines(ALICE_LINE))
    with place.books():
        pass
    kept: Path = place.directory.path / f"{KEYS_FILE}.before-import"
    kept.rename(place.directory.path / KEYS_FILE)
    with place.books() as books:
        assert books.bound_ids() == 1


def test_without_a_file_nothing_happens(place: Place) -> None:
    with place.books() as books:
        assert books.bound_ids() == 0
    assert names(place) == set()
    assert place.log.events == []


# -- revoked keys --------------------------------------------------------------------------------------


def test_revoked_keys_are_brought_in_and_the_file_is_set_aside(place: Place) -> None:
    notices = [revoke(key, now_ms=NOW_MS) for key in (ALICE, BOB)]
    place.directory.write(REVOKED_FILE, json.dumps(notices).encode())
    with place.books() as books:
        assert books.is_revoked(ALICE.public.raw)
        assert books.is_revoked(BOB.public.raw)
        assert not books.is_revoked(CAROL.public.raw)
    assert names(place) == {f"{REVOKED_FILE}.before-import"}
    assert place.log.facts("revoked_keys_imported") == {"notices": 2}


def test_a_list_that_cannot_be_read_is_one_line_and_changes_nothing(place: Place) -> None:
    place.directory.write(REVOKED_FILE, b"[{}]")
    place.directory.write(KEYS_FILE, lines(ALICE_LINE))
    with (
        pytest.raises(UsageError, match=r"revoked\.json: not a list of revocation notices") as raised,
        place.books(),
    ):
        pass
    assert "\n" not in str(raised.value)
    assert names(place) == {REVOKED_FILE, KEYS_FILE}


# -- keep pins -----------------------------------------------------------------------------------------


def pins(place: Place) -> dict[str, bytes]:
    return dict(place.select("SELECT identity, key FROM pins ORDER BY number"))


def test_pins_are_brought_in_and_the_file_is_set_aside(place: Place) -> None:
    junk = b"\n\xff\xfe\nid zz\nid 00\n \n"
    content = (
        junk + lines(("aa", BOB.public.raw), ("bb", BOB.public.raw), ("aa", ALICE.public.raw)) + b"cc 0303"
    )
    place.directory.write(PINS_FILE, content)
    with place.books():
        pass
    assert pins(place) == {"aa": ALICE.public.raw, "bb": BOB.public.raw}  # the last line of an identity held
    assert names(place) == {f"{PINS_FILE}.before-import"}
    assert place.log.facts("pins_imported") == {"pinned": 2, "known_already": 0}


def test_a_pin_of_the_store_stays(place: Place) -> None:
    with place.books() as books:
        assert books.pin([("aa", CAROL.public.raw)]) == {"aa": CAROL.public.raw}
    place.directory.write(PINS_FILE, lines(("aa", ALICE.public.raw)))
    with place.books():
        pass
    assert pins(place) == {"aa": CAROL.public.raw}


def test_the_pins_of_a_hall_one_folder_up_are_not_ours(place: Place) -> None:
    (place.directory.path.parent / PINS_FILE).write_bytes(lines(("aa", ALICE.public.raw)))
    with place.books():
        pass
    assert pins(place) == {}

"""Files of former versions: brought in once, then kept under another name."""

from pathlib import Path

from moothall.store.former import KEYS_FILE
from tests.store.support import ALICE, BOB, CAROL, Place


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

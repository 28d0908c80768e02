"""What all halls on one store have in common, on both engines."""

import os
from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.hall.common import BANS, MOTD
from moothall.identity import Identity, PrivateKey, load, save
from moothall.identity.lockbox import is_locked, public_of
from moothall.store.dialect import Connection
from moothall.store.files import DataDirectory
from moothall.store.hall_key import FORMER_FILE, PUBLIC_FILE, hall_key, replace_key, stored_key
from moothall.store.opening import connect, prepare
from tests.store.support import ALICE, BOB, Log, Place

SECRET = "a secret of sixteen letters"
BAN = b'{"agentId":"0123456789abcdef"}'


def test_entries_keep_their_order_and_are_replaced_by_name(place: Place) -> None:
    with place.books() as books:
        for name in (b"b", b"a", b"\0\xff"):
            books.enlist(MOTD, name, b"first " + name)
        books.enlist(MOTD, b"b", b"second b")
        books.enlist(BANS, b"", BAN)
        assert books.listed(MOTD) == [b"second b", b"first a", b"first \0\xff"]
    with place.books() as books:
        books.strike(MOTD, [b"a", b"never there"])
        assert books.listed(MOTD) == [b"second b", b"first \0\xff"]
        assert books.listed(BANS) == [BAN]
    assert place.select("SELECT list, version FROM common_versions ORDER BY list") == [
        ("bans", 1),
        ("motd", 5),
    ]


def test_the_first_pin_of_an_identity_holds(place: Place) -> None:
    with place.books() as books:
        assert books.pin([("x", b"1"), ("y", b"1")]) == {"x": b"1", "y": b"1"}
    with place.books() as books:
        assert books.pin([("y", b"2"), ("z", b"2")]) == {"y": b"1", "z": b"2"}
        found = books.pinned_since(0)
        assert [(identity, key) for _, identity, key in found] == [("x", b"1"), ("y", b"1"), ("z", b"2")]
        assert books.pinned_since(found[1][0]) == found[2:]


# -- the hall's key ------------------------------------------------------------------------------------


def key_of(place: Place, secret: str = "", directory: DataDirectory | None = None) -> PrivateKey:
    directory = directory or place.directory
    with place.connected() as connection:
        prepare(connection, directory, place.log)
        return hall_key(connection, directory, secret, os.urandom, place.log)


def record_of(place: Place) -> bytes:
    with place.connected() as connection:
        record = stored_key(connection)
    assert record is not None
    return record


def test_it_is_made_once(place: Place) -> None:
    key = key_of(place)
    assert key_of(place) == key
    assert (place.directory.path / PUBLIC_FILE).read_text() == key.public.pem
    assert b"PRIVATE KEY" in record_of(place)


def test_its_public_half_is_written_only_if_it_differs(place: Place) -> None:
    """Node processes on one data directory open at the same moment, and would replace each other's new file."""
    file = place.directory.path / PUBLIC_FILE
    key = key_of(place)
    before = file.stat().st_ino
    assert key_of(place) == key
    assert file.stat().st_ino == before
    file.write_text("another key")
    key_of(place)
    assert file.read_text() == key.public.pem


def test_two_halls_on_one_database_have_the_same(postgres: Place, tmp_path: Path) -> None:
    key = key_of(postgres)
    assert key_of(postgres, directory=DataDirectory(tmp_path / "other")) == key


def test_that_of_a_former_version_is_imported_and_set_aside(place: Place) -> None:
    save(Identity(ALICE), place.directory.path / FORMER_FILE)
    assert key_of(place) == ALICE
    assert load(place.directory.path / f"{FORMER_FILE}.before-import").key == ALICE
    assert not (place.directory.path / FORMER_FILE).exists()
    assert key_of(place) == ALICE


def test_the_store_wins_and_says_so(place: Place) -> None:
    key = key_of(place)
    save(Identity(ALICE), place.directory.path / FORMER_FILE)
    assert key_of(place) == key
    assert "identity unpin" in str(place.log.facts("hall_key_differs")["advice"])
    assert load(place.directory.path / f"{FORMER_FILE}.before-import").key == ALICE


def test_with_a_secret_the_store_never_sees_it_plain(place: Place) -> None:
    key = key_of(place, SECRET)
    assert is_locked(record_of(place))
    assert b"PRIVATE KEY" not in record_of(place)
    assert public_of(record_of(place)) == key.public
    assert key_of(place, SECRET) == key


def test_a_plain_one_is_encrypted_when_a_secret_is_set(place: Place) -> None:
    key = key_of(place)
    assert key_of(place, SECRET) == key
    assert is_locked(record_of(place))
    place.log.facts("hall_key_encrypted")


@pytest.mark.parametrize(
    ("secret", "said"), [("", "is encrypted"), (SECRET + "x", "does not hold the secret")]
)
def test_without_the_secret_it_stays_closed(place: Place, secret: str, said: str) -> None:
    key_of(place, SECRET)
    before = record_of(place)
    with pytest.raises(UsageError, match=said) as raised:
        key_of(place, secret)
    assert "store_secret_file" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert record_of(place) == before


def test_it_can_be_replaced(place: Place) -> None:
    key_of(place)
    with place.connected() as connection:
        replace_key(connection, BOB, SECRET, os.urandom)
    assert key_of(place, SECRET) == BOB


def test_the_first_of_two_that_start_together_wins(postgres: Place, tmp_path: Path) -> None:
    """The second waits for the first to commit, and then has its key."""
    directory = DataDirectory(tmp_path / "other")
    with postgres.connected() as connection:
        prepare(connection, postgres.directory, postgres.log)

    class Slow:
        """A connection that meets another hall between its look and its INSERT."""

        def __init__(self, inner: Connection) -> None:
            self._inner = inner
            self.dialect = inner.dialect
            self.other: PrivateKey | None = None

        def execute(self, sql: str, parameters: tuple[bytes, ...] = (), /) -> object:
            if sql.startswith("INSERT"):
                self.other = key_of(postgres, directory=directory)
            return self._inner.execute(sql, parameters)

    inner = connect(postgres.directory.path, postgres.url)
    slow = Slow(inner)
    key = hall_key(slow, postgres.directory, "", os.urandom, Log())  # type: ignore[arg-type]
    inner.close()
    assert key == slow.other

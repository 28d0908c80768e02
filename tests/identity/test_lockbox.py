"""A private key in a store that others may read."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moothall.errors import MoothallError, UsageError
from moothall.identity.lockbox import NONCE_BYTES, SALT_BYTES, is_locked, locked, opened, plain, public_of
from tests.identity.vectors import ALICE, BOB

SECRET = "correct horse battery staple"
SALT, NONCE = b"s" * SALT_BYTES, b"n" * NONCE_BYTES
RECORD = locked(ALICE, SECRET, salt=SALT, nonce=NONCE)
SECRETS = st.text(min_size=1, max_size=40)


def changed(record: bytes, **fields: object) -> bytes:
    return msgspec.json.encode({**msgspec.json.decode(record), **fields})


@settings(max_examples=10)
@given(SECRETS)
def test_the_same_secret_opens_it(secret: str) -> None:
    record = locked(ALICE, secret, salt=SALT, nonce=NONCE)
    assert is_locked(record)
    assert opened(record, secret) == ALICE


def test_a_plain_one_needs_no_secret() -> None:
    assert not is_locked(plain(ALICE))
    assert opened(plain(ALICE), "") == opened(plain(ALICE), SECRET) == ALICE


def test_the_record_names_the_public_key_and_never_the_private_one() -> None:
    assert public_of(RECORD) == public_of(plain(ALICE)) == ALICE.public
    text = RECORD.decode()
    assert "PRIVATE" not in text
    assert ALICE.to_pem().splitlines()[1] not in text


@pytest.mark.parametrize("secret", ["x", SECRET + " ", SECRET[:-1], SECRET.upper()])
def test_another_secret_is_one_line(secret: str) -> None:
    with pytest.raises(UsageError, match="store_secret_file") as raised:
        opened(RECORD, secret)
    assert "\n" not in str(raised.value)
    assert secret not in str(raised.value).split()


@pytest.mark.parametrize("field", ["salt", "nonce", "box", "public"])
def test_a_changed_record_does_not_open(field: str) -> None:
    value = str(msgspec.json.decode(RECORD)[field])
    for other in (f"{int(value[0], 16) ^ 1:x}{value[1:]}", value[2:], "zz"):
        with pytest.raises(MoothallError):
            opened(changed(RECORD, **{field: other}), SECRET)


def test_a_box_is_good_for_its_own_key_only() -> None:
    """Whoever can write to the database cannot have the hall take one key for another."""
    with pytest.raises(UsageError):
        opened(changed(RECORD, public=BOB.public.raw.hex()), SECRET)
    with pytest.raises(UsageError, match="does not fit"):
        opened(changed(plain(ALICE), public=BOB.public.raw.hex()), "")


@pytest.mark.parametrize("record", [b"", b"{}", b"[]", b"\xff", b'{"version": 1}'])
def test_what_is_no_record_is_one_line(record: bytes) -> None:
    with pytest.raises(MoothallError, match="cannot be read"):
        opened(record, SECRET)


def test_a_later_format_asks_for_a_later_program() -> None:
    with pytest.raises(UsageError, match="upgrade moothall"):
        opened(changed(RECORD, version=2), SECRET)


def test_salt_and_nonce_decide_what_is_written() -> None:
    assert locked(ALICE, SECRET, salt=SALT, nonce=NONCE) == RECORD
    assert locked(ALICE, SECRET, salt=b"t" * SALT_BYTES, nonce=NONCE) != RECORD

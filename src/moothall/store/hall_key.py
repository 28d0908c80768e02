"""The hall's own key in the store: one for all halls that use it, made on the first start.

`hall-key.json` of former versions is imported once and set aside. `hall-key.pem` is the public key, for `--hall`
of the commands that verify receipts and cases."""

from typing import Final

from moothall.hall.outside import Entropy, Log
from moothall.identity import Identity, PrivateKey, load
from moothall.identity.lockbox import NONCE_BYTES, SALT_BYTES, is_locked, locked, opened, plain
from moothall.identity.seals import key_id
from moothall.store.dialect import Connection
from moothall.store.files import DataDirectory

FORMER_FILE: Final = "hall-key.json"
PUBLIC_FILE: Final = "hall-key.pem"

_READ: Final = "SELECT record FROM hall_key WHERE number = 1"
_KEEP: Final = "INSERT INTO hall_key (number, record) VALUES (1, ?) ON CONFLICT (number) DO NOTHING"
_REPLACE: Final = "UPDATE hall_key SET record = ? WHERE number = 1"


def hall_key(
    connection: Connection, directory: DataDirectory, secret: str, entropy: Entropy, log: Log
) -> PrivateKey:
    """The key of the store. The first hall that asks brings its own, or makes one. With a secret, a key that was
    kept plain is encrypted now."""
    former = _former(directory)
    connection.execute(connection.dialect.begin)
    record = _record(connection)
    if record is None:
        key = PrivateKey(entropy(32)) if former is None else former.key
        connection.execute(_KEEP, (_written(key, secret, entropy),))
        record = _record(connection)  # another hall may have been faster
        assert record is not None  # noqa: S101
    key = opened(record, secret)
    if secret and not is_locked(record):
        connection.execute(_REPLACE, (_written(key, secret, entropy),))
        log.info("hall_key_encrypted")
    connection.execute("COMMIT")
    pem = key.public.pem.encode()
    if directory.read(PUBLIC_FILE) != pem:  # several nodes of one hall may open at the same moment
        directory.write(PUBLIC_FILE, pem)
    if former is not None:
        _set_aside(directory, former, key, log)
    return key


def replace_key(connection: Connection, key: PrivateKey, secret: str, entropy: Entropy) -> None:
    """From the next start on, halls on this store have this key. The caller holds the transaction."""
    if not connection.execute(_REPLACE, (_written(key, secret, entropy),)).rowcount:
        connection.execute(_KEEP, (_written(key, secret, entropy),))


def stored_key(connection: Connection) -> bytes | None:
    """Its record (see `identity.lockbox`)."""
    return _record(connection)


def _record(connection: Connection) -> bytes | None:
    row = connection.execute(_READ).fetchone()
    return None if row is None else row[0]


def _written(key: PrivateKey, secret: str, entropy: Entropy) -> bytes:
    if not secret:
        return plain(key)
    return locked(key, secret, salt=entropy(SALT_BYTES), nonce=entropy(NONCE_BYTES))


def _former(directory: DataDirectory) -> Identity | None:
    path = directory.path / FORMER_FILE
    return load(path) if path.exists() or path.is_symlink() else None


def _set_aside(directory: DataDirectory, former: Identity, key: PrivateKey, log: Log) -> None:
    kept = directory.set_aside(FORMER_FILE)
    if former.key == key:
        log.info(
            "hall_key_imported", kept=kept, advice="it holds the private key: keep it as a backup, elsewhere"
        )
    else:
        log.warning(
            "hall_key_differs",
            now=key_id(key.public),
            former=key_id(former.public),
            kept=kept,
            advice="the store has a key already, and halls on one store share it; agents that know this hall by"
            " the former key run `moothall identity unpin URL`",
        )

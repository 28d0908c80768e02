"""The identity file: one agent's key, its name and the rotations behind it (agentchat wire 3.5).

The file is written beside its place, flushed to disk and then put there in one step, so it is never seen
half-written, never wider than 0600, and a crash leaves either the old file or the new one. No error names
anything that the file holds.
"""

import json
import os
import re
import shlex
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from io import FileIO
from pathlib import Path
from typing import Final

from moothall.errors import InvalidCertificate, InvalidKey, KeyFileError, KeyFileMissing
from moothall.identity.certificates import rotate, rotation_records, verify_chain
from moothall.identity.keys import PrivateKey, PublicKey
from moothall.identity.signatures import SEED_BYTES
from moothall.wire.agentchat.names import NAME_PATTERN

DEFAULT_PATH: Final = Path("~/.agentchat/identity.json")
AGENT_NAME: Final = re.compile(NAME_PATTERN)
MAX_FILE_BYTES: Final = 1 << 20  # a rotation takes about 500

_OWNER_ONLY: Final = 0o600
_OWNER_ONLY_DIRECTORY: Final = 0o700
_OTHERS: Final = 0o077
_HOME: Final = ".agentchat"
_KNOWN_FIELDS: Final = frozenset(
    {"publicKey", "privateKey", "pubkey", "privkey", "agentId", "name", "created", "rotations"}
)


@dataclass(frozen=True, slots=True)
class Identity:
    """What an identity file says. `other` is what other programs put there, kept when we rewrite it.

    The rotations are not verified on loading: a broken record must not keep an agent from its own key.
    """

    key: PrivateKey
    name: str | None = None
    created: str | None = None
    rotations: tuple[object, ...] = field(default=(), repr=False)
    other: Mapping[str, object] = field(default_factory=dict, repr=False)

    @property
    def public(self) -> PublicKey:
        """The public half of its key."""
        return self.key.public

    def rotated(self, new: PrivateKey, *, now_ms: int) -> "Identity":
        """Return the same identity under the key `new`, vouched for by the old one at `now_ms`, in milliseconds.

        Raises InvalidCertificate when the chain so far does not hold.
        """
        verify_chain(self.rotations, self.public)
        record = rotate(self.key, new.public, now_ms=now_ms)
        return replace(self, key=new, rotations=(*self.rotations, record))


def require(path: Path) -> None:
    """Raises KeyFileMissing when there is no key file at this path."""
    with _explained(path):
        if not path.exists():
            raise KeyFileMissing(
                f"there is no key file {path}: check the path, or make a key with"
                f" `moothall identity new {shlex.quote(str(path))}`"
            )


def load(path: Path) -> Identity:
    """Read a key file. Raises KeyFileMissing when there is none, KeyFileError when it cannot be used."""
    require(path)
    return _parse(read_object(path, secret=True), path)


def parse(content: bytes, path: Path) -> Identity:
    """The identity in the content of a key file. `path` is for errors. Raises KeyFileError."""
    return _parse(_object(content, path), path)


def load_seed(path: Path) -> PrivateKey | None:
    """The key in a file of 32 bytes, as nodes of the mesh keep theirs (mesh wire 1). None for any other file.

    Raises KeyFileError if other users can reach it.
    """
    with _explained(path), suppress(FileNotFoundError), FileIO(path, opener=_open_without_waiting) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size != SEED_BYTES:
            return None
        if status.st_mode & _OTHERS:
            remedy = f"chmod 600 {shlex.quote(str(path))}"
            raise KeyFileError(f"{path} holds a private key that other users can reach: {remedy}")
        return PrivateKey(file.readall())
    return None


def save(identity: Identity, path: Path, *, overwrite: bool = False) -> None:
    """A file that exists already is left alone unless `overwrite` is given."""
    try:
        _write(identity, path, overwrite=overwrite)
    except FileExistsError:
        raise KeyFileError(
            f"{path} exists already: choose another path, or replace it with --force"
        ) from None


def load_or_create(path: Path, make: Callable[[], Identity]) -> Identity:
    """Agents that start together on one path all end up with the key of the first (agentchat wire 3.5)."""
    if not os.path.lexists(path):
        with suppress(FileExistsError):
            _write(make(), path, overwrite=False)
    return load(path)


def save_rotated(identity: Identity, path: Path, new: PrivateKey, *, now_ms: int) -> tuple[Identity, Path]:
    """Put the new key in place of the old one, which is first set aside in a file of its own."""
    rotated = identity.rotated(new, now_ms=now_ms)
    retired = path.with_name(f"{path.name}.{identity.public.fingerprint}.old")
    # It is there already when an earlier rotation was interrupted; then it must hold this very key.
    if load_or_create(retired, lambda: identity).key != identity.key:
        raise KeyFileError(f"{retired} holds another key: move it away and rotate again")
    save(rotated, path, overwrite=True)
    return rotated, retired


def read_object(path: Path, *, secret: bool) -> Mapping[str, object]:
    """The JSON object in a file. Only the owner may be able to read a `secret` file."""
    with _explained(path):
        content = _read(path, secret=secret)
    return _object(content, path)


def _object(content: bytes, path: Path) -> Mapping[str, object]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        # The exception holds the whole text, so it must not be the context of the one raised below.
        found = None
    if not isinstance(found, dict):
        raise KeyFileError(f"{path} is not a JSON object: restore it from a backup or make a new one")
    return found


def _read(path: Path, *, secret: bool) -> bytes:
    with FileIO(path, opener=_open_without_waiting) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise KeyFileError(f"{path} is not a regular file")
        if status.st_size > MAX_FILE_BYTES:
            raise KeyFileError(f"{path} is larger than {MAX_FILE_BYTES} bytes: not an identity or a notice")
        content = file.readall()
    if secret and status.st_mode & _OTHERS:
        if b"PRIVATE KEY" not in content:  # a file of the system, perhaps, that others have to read
            raise KeyFileError(
                f"{path} is not the file of an identity: name another, or make one with `moothall identity new`"
            )
        remedy = f"chmod 600 {shlex.quote(str(path))}"
        raise KeyFileError(f"{path} holds a private key that other users can reach: {remedy}")
    return content


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a named pipe in this place must not hang the program


def _parse(fields: Mapping[str, object], path: Path) -> Identity:
    try:
        return Identity(
            key=_private_key(fields),
            name=_name(fields),
            created=_optional_text(fields, "created"),
            rotations=tuple(rotation_records(fields)),
            other={name: value for name, value in fields.items() if name not in _KNOWN_FIELDS},
        )
    except (InvalidKey, InvalidCertificate) as error:
        raise KeyFileError(f"{path}: {error}; restore the file from a backup or make a new one") from None


def _private_key(fields: Mapping[str, object]) -> PrivateKey:
    key = PrivateKey.from_pem(_pem(fields, "privateKey", "privkey"))
    if public_key(fields) != key.public:
        raise InvalidKey("publicKey does not belong to privateKey")
    return key


def public_key(fields: Mapping[str, object]) -> PublicKey:
    """The public key that an identity file names."""
    return PublicKey.from_pem(_pem(fields, "publicKey", "pubkey"))


def _pem(fields: Mapping[str, object], name: str, alias: str) -> str:
    value = fields.get(name, fields.get(alias))
    if not isinstance(value, str):
        raise InvalidKey(f"{name} is missing")
    return value


def _name(fields: Mapping[str, object]) -> str | None:
    name = _optional_text(fields, "name")
    if name is not None and not AGENT_NAME.match(name):
        raise InvalidKey("name is not 1 to 32 letters, digits, _ or -")
    return name


def _optional_text(fields: Mapping[str, object], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidKey(f"{name} is not a text")
    return value or None


def _write(identity: Identity, path: Path, *, overwrite: bool) -> None:
    with _explained(path):
        if path.is_symlink():
            raise KeyFileError(f"{path} is a symbolic link: name the file that it points to")
        _make_directories(path.parent)
        _ignore_in_git(path)
        put_file(file_bytes(_fields(identity)), path, overwrite=overwrite)


def _fields(identity: Identity) -> dict[str, object]:
    fields: dict[str, object] = {
        "publicKey": identity.public.pem,
        "privateKey": identity.key.to_pem(),
        "agentId": identity.public.fingerprint,
    }
    if identity.name is not None:
        fields["name"] = identity.name
    if identity.created is not None:
        fields["created"] = identity.created
    if identity.rotations:
        fields["rotations"] = list(identity.rotations)
    return fields | dict(identity.other) | fields  # ours win, and come first


def file_bytes(value: object) -> bytes:
    """JSON with two-space indentation; what UTF-8 cannot hold comes out as a JSON escape."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode(errors="backslashreplace")


def _make_directories(directory: Path) -> None:
    # Path.mkdir(parents=True) would apply the mode to the last directory only.
    for missing in reversed([directory, *directory.parents]):
        if not missing.exists():
            missing.mkdir(mode=_OWNER_ONLY_DIRECTORY, exist_ok=True)


def _ignore_in_git(path: Path) -> None:
    home = next((parent for parent in path.absolute().parents if parent.name == _HOME), None)
    if home is not None:
        with suppress(FileExistsError), (home / ".gitignore").open("x") as file:
            file.write("*\n")


def put_file(content: bytes, path: Path, *, overwrite: bool, mode: int = _OWNER_ONLY) -> None:
    """Write a file whole or not at all, for its owner alone unless `mode` says otherwise. With `overwrite` a link
    in its place is replaced, and not followed. Raises OSError."""
    # mkstemp creates with O_EXCL, O_NOFOLLOW and 0600.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    waiting = Path(name)
    try:
        _fill(descriptor, content, mode)
        if overwrite:
            waiting.replace(path)
        else:
            path.hardlink_to(waiting)  # unlike a rename, refuses a path that exists, even as a dangling link
    finally:
        waiting.unlink(missing_ok=True)
    _sync_directory(path.parent)


def _fill(descriptor: int, content: bytes, mode: int) -> None:
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)  # a strict umask may have taken the owner's own bits away
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """An OSError as one line; that a file is in the way is for the caller to explain."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror or error}") from None

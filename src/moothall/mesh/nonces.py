"""The nonces of one key, which never go back: not after a crash, and not when the clock does (mesh wire 3.2).

A nonce is the time in microseconds, or more than the last one. A file beside the key has a number that no nonce of
the key is above. It is on disk before a nonce up to it is used, and one write reserves the nonces of a second.

Several programs may use one key. Each reserves for itself, above what the others have. The program whose nonces are
the lower ones may be refused by a receiver that has seen higher ones: then it calls `overtake`.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from moothall.errors import UsageError
from moothall.user_file import UserFile
from moothall.wire.mesh.cbor import UINT64_MAX
from moothall.wire.mesh.envelope import MICROSECONDS

RESERVED: Final = MICROSECONDS  # nonces, and as many microseconds


class Nonces:
    """`path` is where the number is kept; None keeps it in memory, for a key that is not kept either. `clock` is
    Unix microseconds."""

    def __init__(self, path: Path | None, clock: Callable[[], int]) -> None:
        self._file = None if path is None else UserFile(path, "", "a file of nonces", path)
        self._clock = clock
        self._last = 0
        self._reserved = 0
        self._turn = asyncio.Lock()

    async def next(self) -> int:
        """Raises UsageError if the file cannot be read or written."""
        async with self._turn:
            nonce = max(self._last + 1, self._clock())
            if nonce > self._reserved:
                nonce = await asyncio.to_thread(self._reserve, self._file, nonce) if self._file else nonce
            if nonce > UINT64_MAX:
                raise UsageError("the nonces of this key are used up: make a new key")
            self._last = nonce
            return nonce

    def overtake(self) -> None:
        """Go on above everything that any program has reserved for this key."""
        self._reserved = 0

    def _reserve(self, file: UserFile, wanted: int) -> int:
        try:
            with file.locked():
                first = max(wanted, _read(file) + 1)
                file.write(b"%d\n" % (first + RESERVED))
        except OSError as error:
            raise UsageError(
                f"{file.path}: {error.strerror or error}; nonces of a key must be kept"
            ) from None
        self._reserved = first + RESERVED
        return first


def _read(file: UserFile) -> int:
    content = file.read()
    if content is None:
        return 0
    digits = content.strip()
    if not digits.isdigit() or len(digits) > len(str(UINT64_MAX)):
        raise file.damaged()
    return int(digits)

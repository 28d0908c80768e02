"""The secret of a dispute, from the commitment until it is revealed: a file beside the key, closed to others.

It is on disk before the hall hears of the dispute, so that `moothall court reveal` finds it whatever happens in
between. Without it a dispute cannot go on, and its party cannot file a second one about the same deal.
"""

import os
import re
import secrets
from pathlib import Path
from typing import Final

from moothall.errors import UsageError

NONCE_BYTES: Final = 16
_OWNER_ONLY: Final = 0o600
_NONCE: Final = re.compile(r"[0-9a-f]{32}")
_PROPOSAL: Final = re.compile(r"[A-Za-z0-9_:-]{1,128}")  # it becomes a part of the file's name


class NonceFile:
    def __init__(self, identity: Path, proposal_id: str) -> None:
        if _PROPOSAL.fullmatch(proposal_id) is None:
            raise UsageError(f"{proposal_id!r} is not the id of a deal; `moothall proposals` shows them")
        home = identity.expanduser()
        self.path: Final = home.with_name(f"{home.name}.{proposal_id.replace(':', '-')}.nonce")

    def read(self) -> str | None:
        try:
            found = self.path.read_text(encoding="ascii", errors="replace").strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UsageError(f"{self.path}: {error.strerror}") from None
        # Half a nonce was never sent: the whole one is on disk before the hall hears of it.
        return found if _NONCE.fullmatch(found) else None

    def make(self) -> str:
        nonce = secrets.token_hex(NONCE_BYTES)
        waiting = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            self._write(nonce, waiting)
            waiting.replace(self.path)
        except OSError as error:
            raise UsageError(f"{self.path}: {error.strerror}") from None
        finally:
            waiting.unlink(missing_ok=True)
        return nonce

    def _write(self, nonce: str, place: Path) -> None:
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _OWNER_ONLY)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{nonce}\n")
            file.flush()
            os.fsync(descriptor)

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)

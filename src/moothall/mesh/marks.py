"""What an agent of the mesh has seen of its conversations, also after it was restarted.

Beside a key file is the time up to which the agent has all messages to it, and which of the latest it got. What the
hall's log has after that, and is not among them, was missed.
"""

import json
from pathlib import Path
from typing import Any, Final

from moothall.client.logs import log
from moothall.errors import UsageError
from moothall.mesh.records import Seen
from moothall.user_file import UserFile
from moothall.wire.mesh.envelope import MICROSECONDS, Envelope
from moothall.wire.mesh.msg_types import BILATERAL, MsgType

MAX_KEPT: Final = 1000  # envelopes whose nonces are in the file
# The clocks of a sender and of this agent differ from that of the hall, each by half a minute at most. What this
# agent was told of within this time is known one by one.
MARGIN: Final = 5 * 60 * MICROSECONDS


def is_mail(envelope: Envelope) -> bool:
    """True for messages of conversations, without bids: those are for all notaries."""
    return envelope.msg_type in BILATERAL or envelope.msg_type is MsgType.FEEDBACK


class Marks:
    """`path` is where they are kept; None keeps them in memory, for a key that is not in a file."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else UserFile(path, "", "a file of marks", path)
        self._seen = Seen()
        self._is_new = False  # there is something to save
        self.since: int | None = None  # microseconds: all up to then is seen. None: nothing is known
        self._first = 0  # what is older was never for this program

    def load(self) -> None:
        """A file that cannot be read counts as none: the agent begins with what comes from now on."""
        if self._file is None or self.since is not None:
            return
        try:
            content = self._file.read()
            if content is not None:
                self._read(json.loads(content))
        except (UsageError, ValueError, KeyError, TypeError) as error:
            log.warning("what this agent has seen cannot be read: %s", error)

    def save(self) -> None:
        """Without a wait for the disk: after a crash of the machine, the agent may be told something again."""
        if self._file is None or self.since is None or not self._is_new:
            return
        latest = [(sender.hex(), nonce) for sender, nonce in self._seen.latest(MAX_KEPT)]
        try:
            self._file.write(json.dumps({"since": self.since, "seen": latest}).encode())
        except OSError as error:
            log.warning("what this agent has seen cannot be kept: %s", error)
        self._is_new = False

    def begin(self, now: int) -> None:
        """The agent connects for the first time. What was sent before is in its inbox, or is not told."""
        self._first = now
        self.reached(now)

    def reached(self, now: int) -> None:
        """All that was sent up to this time is here."""
        if self.since is None or now > self.since:
            self.since = now
            self._is_new = True

    def is_new(self, envelope: Envelope) -> bool:
        """True the first time."""
        self._is_new = True
        return self._seen.is_new(envelope)

    def concerns(self, timestamp: int) -> bool:
        """True if an envelope of this time, or a change at this time, may have been missed."""
        return self.since is not None and timestamp >= max(self._first, self.since - MARGIN)

    def _read(self, content: dict[str, Any]) -> None:
        since = int(content["since"])
        for sender, nonce in content["seen"]:
            self._seen.add(bytes.fromhex(sender), int(nonce))
        self.since = since

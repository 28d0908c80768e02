"""How much strangers may add to the epoch log in a day. A log is kept for ever, and topics are open to all."""

from collections import Counter
from typing import Final

TOTAL: Final = 1024 * 1024 * 1024  # bytes of messages to topics, of all senders
SHARE: Final = 64 * 1024 * 1024  # of one sender
MAX_SENDERS: Final = 20_000  # that are counted; a BEACON every 30 s is a megabyte a day


class DiskBudget:
    """Begins anew with each epoch, and with each start of the node."""

    def __init__(self, total: int = TOTAL, share: int = SHARE) -> None:
        self._most = total
        self._share = share
        self._epoch = -1
        self._total = 0
        self._senders: Counter[bytes] = Counter()

    def admits(self, sender: bytes, size: int, epoch: int) -> bool:
        """Counts the bytes if there is room for them."""
        if epoch != self._epoch:
            self._epoch, self._total = epoch, 0
            self._senders.clear()
        is_new = sender not in self._senders
        if self._total + size > self._most or self._senders[sender] + size > self._share:
            return False
        if is_new and len(self._senders) >= MAX_SENDERS:
            return False
        self._total += size
        self._senders[sender] += size
        return True

"""Which configured peers to dial, and when: soon at first, and then less and less often."""

from collections.abc import Callable

from moothall.network.rules import Rules
from moothall.p2p.multiaddr import Multiaddr


class Kept:
    """One address that there should be a connection to."""

    def __init__(self, address: Multiaddr) -> None:
        self.address = address
        self.agent_id = address.agent_id  # as the address says it, or as it was found there
        self.is_dialling = False
        self.attempts = 0
        self.due = 0
        self.error = ""  # of the last attempt


class Redial:
    """`spread` draws a number from 0 to 1: nodes that lost the same peer do not all come back at once."""

    def __init__(self, rules: Rules, spread: Callable[[], float]) -> None:
        self._rules = rules
        self._spread = spread
        self._kept: dict[Multiaddr, Kept] = {}

    def keep(self, address: Multiaddr) -> None:
        self._kept.setdefault(address, Kept(address))

    def kept(self) -> list[Kept]:
        return list(self._kept.values())

    def due(self, now: int, since: Callable[[bytes], int | None]) -> list[Kept]:
        """What to dial now. `since` says when the connection to a peer was opened, None if there is none."""
        found = []
        for kept in self._kept.values():
            opened_at = since(kept.agent_id) if kept.agent_id is not None else None
            if opened_at is not None:
                if now - opened_at >= self._rules.settled:
                    kept.attempts = 0
            elif not kept.is_dialling and kept.due <= now:
                wait = min(self._rules.redial << min(kept.attempts, 16), self._rules.redial_most)
                kept.due = now + int(wait * (0.75 + self._spread() / 2))
                kept.attempts += 1
                found.append(kept)
        return found

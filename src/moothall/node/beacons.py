"""BEACONs of the agent of a node, and of those that it hosts (mesh wire 7). As in the reference, none is logged."""

from collections.abc import Callable
from typing import Final

from moothall.errors import NodeRefused
from moothall.network.outbox import Outbox
from moothall.node.signers import Signers
from moothall.wire.mesh.announcements import Beacon, default_name
from moothall.wire.mesh.envelope import encode
from moothall.wire.mesh.msg_types import BROADCAST_TOPIC, MsgType

LEAST: Final = 1000  # ms between two BEACONs of the own agent, when many peers come


class Beacons:
    """`now` is milliseconds that never go back."""

    def __init__(
        self, outbox: Outbox, signers: Signers, own: bytes, name: str, *, now: Callable[[], int]
    ) -> None:
        self._outbox = outbox
        self._signers = signers
        self._own = own
        self._name = name
        self._now = now
        self._sent_at: int | None = None
        self._is_wanted = False

    def wanted(self) -> None:
        """A peer has come that does not know our agent."""
        self._is_wanted = True
        self.tick()

    def tick(self) -> None:
        """Due every second."""
        is_soon = self._sent_at is not None and self._now() - self._sent_at < LEAST
        if self._is_wanted and not is_soon:
            self.send_own()

    def send_own(self) -> None:
        self._is_wanted = False
        self._sent_at = self._now()
        self.send(self._own)

    def send(self, agent: bytes) -> None:
        name = self._name if agent == self._own else default_name(agent)

        def make() -> bytes | None:
            if agent not in self._signers:
                return None
            try:
                return encode(self._signers.seal(agent, MsgType.BEACON, Beacon(agent, name).encode()))
            except NodeRefused:  # the disk is behind, and the next one is soon
                return None

        self._outbox.publish(BROADCAST_TOPIC, agent, make, is_beacon=True)

"""What the room of the mesh and the network of peers ask of each other (mesh wire 6).

The hall is one peer of that network, with its own key. A peer passes on envelopes of many agents. The room treats
it as a source of envelopes without a key of its own: a `Relay`. What comes from the network is never published
there again by the room: gossipsub has passed it on. A bilateral envelope to an agent that is not here may be
carried on to another peer. The replay window ends loops.
"""

from collections.abc import Callable
from typing import Protocol

from moothall.wire.mesh.envelope import Envelope

Delivered = Callable[[bool], None]  # True: the peer of the recipient has acknowledged the envelope
Settle = Callable[[bool], None]


def ignore(is_taken: bool) -> None:
    """What became of an envelope from a topic: no peer waits to hear of it."""


class Network(Protocol):
    """The network, as the room sees it. All calls return at once."""

    def publish(self, topic: str, raw: bytes) -> None:
        """Bring an envelope of an agent of this hall, or of the hall itself, to a topic with this full name."""

    def reaches(self, envelope: Envelope) -> bool:
        """True if a peer is known for the recipient of this envelope."""

    def carry(self, envelope: Envelope, raw: bytes, done: Delivered, *, source: bytes | None = None) -> None:
        """Bring a bilateral envelope to the peer of its recipient. Ends with one call of `done`.

        `source` is the peer that it came from, which does not get it back.
        """

    def heard(self, envelope: Envelope, peer: bytes) -> None:
        """The room has taken an envelope that came from this peer: its sender can be reached there.

        Call it after signature, time and nonce were checked, or a peer could make itself the way to any agent.
        """

    def watch(self, topic: str) -> None:
        """Agents of this hall hear this named topic from now on. `topic` is the full name."""

    def unwatch(self, topic: str) -> None:
        """No agent of this hall hears it any more."""

    def present(self, key: bytes, *, is_here: bool) -> None:
        """An agent has come to the room of this hall, or has left. Other halls are told."""


class Relay(Protocol):
    """One peer, as a source of envelopes. The room makes it with `connect_peer`."""

    def receive(self, raw: bytes, topic: str | None, settle: Settle = ignore) -> bool:
        """An envelope from a topic, or from a bilateral stream (None). Its signature is checked later, with others.

        False: it was dropped, because too much of this peer waits. Otherwise `settle` is called once, with True
        when the envelope is safe, handed on, or refused for good, and with False when that failed.
        """

    def end(self) -> None:
        """The connection to the peer has ended. What it had sent is still handled."""

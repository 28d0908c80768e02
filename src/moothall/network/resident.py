"""What a host tells the program that lives on it: a hall, or a node."""

from typing import Protocol

from moothall.hall.mesh.network import Settle
from moothall.p2p.identify import Identification
from moothall.p2p.pubsub import Message


class Resident(Protocol):
    """All calls come from the event loop, one at a time, and must return soon. Peers have the name of their key.

    What is passed on from here to a node of the reference needs care: an amount beyond 64 bits stops that program.
    """

    def connected(self, peer: bytes) -> None:
        """There is a connection, perhaps in the place of an older one: the peer may have been restarted.

        It is told our topics, and its own come with `joined`: none that it was in before counts any more. A peer of
        the reference needs a BEACON now. All of this comes once more when the peer had two connections and one of
        them has ended: such a peer forgets us then.
        """

    def identified(self, peer: bytes, told: Identification) -> None: ...

    def disconnected(self, peer: bytes, reason: str) -> None:
        """There is no connection any more. The peer is in no topic."""

    def joined(self, peer: bytes, topic: str) -> None:
        """What is published in a topic reaches this peer now."""

    def left(self, peer: bytes, topic: str) -> None: ...

    def admits(self, relay: bytes, message: Message) -> bool:
        """False drops a message before its signature is checked, which is most of its price."""

    def message(self, relay: bytes, message: Message) -> None:
        """A new message in one of our topics. Its author's node signed it, and it was passed on."""

    def envelope(self, peer: bytes, envelope: bytes, settle: Settle) -> None:
        """Bytes from a bilateral stream, which are not checked.

        Call `settle` once. True sends ACK: the envelope is safe, or it was refused and will be again. False tells
        the peer that it was not taken now. Without a call, that is what it learns after the time limit of streams.
        """

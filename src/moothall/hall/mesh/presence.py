"""What the room of the mesh asks of the hall: who may come in, who is here, and what is said to channels.

A named topic X of the mesh and the public channel #X are one room. The room of the mesh knows this protocol, and
`bridge` implements it.
"""

from collections.abc import Callable
from typing import Protocol

from moothall.errors import Refusal
from moothall.wire.mesh.broadcast import Broadcast


class Caller(Protocol):
    """One connection of the mesh, as the hall sees it. All calls return at once and are harmless after its end."""

    @property
    def ip(self) -> str: ...

    def put_frame(self, frame: bytes) -> bool:
        """Queue a finished binary frame, which other connections may share. False: it cannot be sent."""

    def close(self, code: int, reason: str) -> None:
        """Send what is queued, then close. `Presence.depart` follows."""


Refuse = Callable[[Refusal], None]


class Publish(Protocol):
    def __call__(self, envelope: bytes | None, /, *, is_chat: bool) -> None:
        """Bring these bytes to the subscribers of the topic, but not to the sender.

        None: there is nothing to bring. `is_chat`: it was said in a channel, so it is not for the log.
        """


class Presence(Protocol):
    """The caller of these methods has charged for them, and has verified the envelopes that they come from.

    A connection has one key.
    """

    def admit(self, key: bytes) -> None:
        """Raise Refusal if an agent with this key may not come in: banned, revoked, or not approved.

        It is cheap: ask for every envelope, because a key can be banned at any time.
        """

    def arrive(self, caller: Caller, key: bytes, name: str, *, proven: bool) -> None:
        """The agent of this key is here: it sent a BEACON. Repeat it for each BEACON, and when the key is proven.

        A connection that proved the key comes before others of the key: its names count.
        """

    def depart(self, caller: Caller) -> None:
        """The connection has ended. It need not have arrived."""

    def subscribe(self, caller: Caller, topic: str) -> None:
        """The connection gets what is said on this named topic. It need not have arrived."""

    def unsubscribe(self, caller: Caller, topic: str) -> None: ...

    def audience(self, topic: str) -> int:
        """Connections that the hall may tell of a BROADCAST on this topic, besides those that subscribed to it."""

    def broadcast(
        self,
        caller: Caller,
        message: Broadcast,
        raw: bytes,
        publish: Publish,
        refuse: Refuse,
    ) -> None:
        """A BROADCAST. It is said in the channel of its topic, if there is one, and handed to `publish`.

        Ends with one call of `publish` or `refuse`, mostly at once, unless the connection ends before. What is
        published may differ from `raw`: where a secret was taken out of a text, the hall signs what is left.
        """

    def on_channels(self, said: Callable[[str, bytes], None], occupied: Callable[[str, bool], None]) -> None:
        """Call `said` with the topic and the envelope of each line that the hall signs for a topic: once, however
        many subscribe to it. Call `occupied` with the topic of a public channel and True when it gets its first
        member, and with False when its last one has left."""

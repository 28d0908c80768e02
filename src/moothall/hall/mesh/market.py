"""What the mesh room asks of the market: conversations, the directory, what the hall keeps of envelopes.

The room has checked an envelope before it comes here: its signature, its nonce and time, its route. The market
decides what it does and keeps that. Each call ends with one of two callbacks, on the event loop: `done` after the
commit, or `failed` with the error. Then the room routes the envelope, or tells its sender why not.
"""

from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple, Protocol

from msgspec import Struct

from moothall.hall.access import holder_of
from moothall.hall.mesh.frames import Answer, Notice, Offline, Question
from moothall.wire.mesh.envelope import Envelope

PEER_FACTOR: Final = 10  # times the new keys of an address: a hall has many agents

Failed = Callable[[BaseException], None]


class Settled(Protocol):
    def __call__(self, *, is_here: bool, is_proven: bool, stored: bool) -> None:
        """What became of an envelope of another hall: a connection has it; one that proved the key has it; it is in
        the inbox."""


# With the recipient, the envelope, whether the inbox in the store has it, and a callback.
Carried = Callable[[bytes, bytes, bool, Settled], None]


class Payer(NamedTuple):
    """Where an envelope came from: what is kept of it counts towards the disk quota of this address.

    A peer brings what agents of many other addresses send, and on topics what any node has published.
    So both have shares of their own. Or a stranger could use up those of an honest peer, and keep the agents behind
    it from dealing with agents here.
    """

    ip: str
    is_loopback: bool
    way: Literal["", "peer", "topics"] = ""  # of a connection, of a stream of a peer, of topics

    @property
    def address(self) -> str:
        """What quotas count. All of loopback is one address."""
        return f"{holder_of(self.ip)} ({self.way})" if self.way and not self.is_loopback else self.ip

    @property
    def factor(self) -> int:
        """How many times as many new keys it may bring."""
        return PEER_FACTOR if self.way else 1


class Mail(Struct, frozen=True):
    """An envelope of the hall itself, to an agent."""

    recipient: bytes
    envelope: bytes
    stored: bool = False
    carried: bool = False


class Told(Struct, frozen=True):
    """What became of an envelope. It may have brought others with it: those of the hall, and notices."""

    state: str | None = None  # of its conversation; None for NOTARIZE_BID
    notices: tuple[tuple[bytes, Notice], ...] = ()  # to these keys, besides the envelope
    mail: tuple[Mail, ...] = ()  # to the notary that was assigned
    stored: bool = False  # the envelope is in the recipient's inbox
    # The recipient is on the mesh of another hall of this store, which brings it the envelope.
    carried: bool = False


class Dealings(Protocol):
    def take(
        self,
        envelope: Envelope,
        raw: bytes,
        payer: Payer,
        done: Callable[[Told], None],
        failed: Failed,
        *,
        is_away: bool,
        is_proven: bool,
        abroad: bytes | None = None,
    ) -> None:
        """A bilateral envelope, FEEDBACK or NOTARIZE_BID. Those of one conversation are decided one after another.

        `is_away`: no connection to this hall has proven the recipient's key. With an inbox in the store, the
        envelope is put there in the same transaction. `is_proven`: the connection that it came by has proven the
        sender's key. The credits of a key that was proven here before do not move without that. `abroad` is the key
        that the network of peers reaches: the sender of an envelope that came from there, or the recipient of one
        that goes there. Fails with OutOfOrder, whose `state` is the conversation's, or with a Refusal.
        """

    def is_known(self, key: bytes, done: Callable[[bool], None], failed: Failed) -> None:
        """Has this key been proven to this hall, or is it on the mesh of another hall of this store?

        A hall that was restarted remembers those that have credits.
        """

    def advertise(
        self,
        envelope: Envelope,
        raw: bytes,
        payer: Payer,
        name: str,
        done: Callable[[], None],
        failed: Failed,
    ) -> None:
        """An ADVERTISE: it replaces what the sender advertised before. `name` is that of its BEACON."""

    def discover(self, query: str, done: Callable[[list[dict[str, Any]]], None], failed: Failed) -> None:
        """Who has this capability, the best first."""

    def record(self, envelope: Envelope, raw: bytes, payer: Payer) -> None:
        """Keep an envelope that changes nothing in the log: DISCOVER, BOUNTY, BROADCAST that is not chat. Not
        BEACON."""

    def ask(
        self,
        key: bytes,
        question: Question,
        payer: Payer,
        done: Callable[[Answer], None],
        failed: Failed,
    ) -> None:
        """Answer an agent that has proven this key. The signature of an order is checked. Fails with a Refusal or
        OutOfOrder."""

    def proved(self, key: bytes) -> None:
        """A connection has proven this key."""

    def present(self, key: bytes, *, is_here: bool) -> None:
        """An agent has proven its key to this hall, or its last connection that had is gone."""

    def on_change(self, told: Callable[[tuple[bytes, ...], Notice | Offline], None]) -> None:
        """Call `told` with the keys of the parties when a conversation changes without an envelope of theirs, and
        with the sender of an envelope that did not find its recipient at another hall."""

    def on_carried(self, told: Carried) -> None:
        """Call `told` with each envelope that another hall of this store has taken for an agent of this one."""

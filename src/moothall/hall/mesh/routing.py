"""How envelopes get to connections of the mesh: to the subscribers of a topic, or to the agent with a key.

An envelope travels on as the bytes that came, in one frame that all receivers share. A bilateral one is brought to
the connections of its recipient. If none of them has proven the key, it waits in the inbox too. An envelope that
was replayed from elsewhere is enough to look like an agent, and must not be enough to take its mail away.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from moothall.hall.mesh import replies
from moothall.hall.mesh.frames import Notice, Offline
from moothall.hall.mesh.guest import Guest
from moothall.hall.mesh.inbox import Inboxes
from moothall.hall.mesh.market import Dealings, Mail, Settled, Told
from moothall.hall.mesh.source import Source
from moothall.wire.mesh.envelope import Envelope, decode
from moothall.wire.outgoing import Bundle
from moothall.wire.websocket import BINARY, encode_frame

if TYPE_CHECKING:
    from moothall.hall.mesh.room import MeshRoom


class Routing:
    def __init__(self, room: "MeshRoom", inboxes: Inboxes | None, dealings: Dealings) -> None:
        self.relayed = 0  # frames put into outboxes
        self._room = room
        self._inboxes = inboxes
        self._dealings = dealings
        dealings.on_change(self._changed)
        dealings.on_carried(self._carried)

    def publish(self, raw: bytes, listeners: Iterable[Guest], sender: bytes) -> None:
        """Bring an envelope to all of them but the connections of its sender."""
        bundle = Bundle((), frame=encode_frame(BINARY, raw))
        for guest in listeners:
            if guest.key != sender:
                guest.link.put(bundle)
                self.relayed += 1

    def deliver(
        self, source: Source[Any], envelope: Envelope, raw: bytes, told: Told, *, is_abroad: bool = False
    ) -> None:
        """Bring a bilateral envelope, which the market has taken, to its recipient. Tell its sender if that one is
        away. `is_abroad`: a peer of the network reaches the recipient."""
        recipient = envelope.recipient
        is_here = self._bring(recipient, raw)

        def kept(stored: bool) -> None:  # a callback of the inbox
            if not is_here and not told.carried:
                source.tell(replies.offline(envelope, stored=stored))

        if told.stored or told.carried:
            kept(told.stored)
        elif is_abroad and not self._room.connections.is_proven(recipient):
            self._send_abroad(envelope, raw, kept)
        else:
            self._keep(recipient, raw, kept)
        self.tell_all(told.notices)
        if not source.receives:  # it is told what it has caused itself
            for key, notice in told.notices:
                if key == source.key:
                    source.tell(notice)
        for mail in told.mail:
            self._bring_mail(mail)

    def _send_abroad(self, envelope: Envelope, raw: bytes, failed: Callable[[bool], None]) -> None:
        """By a peer of the network. If that fails, it is kept for a recipient that has proven its key here before:
        others do not come here to read it."""

        def known(is_known: bool) -> None:
            if is_known:
                self._keep(envelope.recipient, raw, failed)
            else:
                failed(False)

        def carried(delivered: bool) -> None:
            if not delivered:
                self._dealings.is_known(
                    envelope.recipient, known, lambda error: self._not_kept(error, failed)
                )

        self._room.border.carry(envelope, raw, carried)

    def _bring_mail(self, mail: Mail) -> None:
        """An envelope of the hall itself. It is in the inbox too, because a peer that brings it may fail."""
        is_here = self._bring(mail.recipient, mail.envelope)
        border = self._room.border
        if border.network is not None and not is_here and not mail.carried:
            envelope = decode(mail.envelope)
            if border.reaches(envelope):
                border.carry(envelope, mail.envelope, lambda delivered: None)
        if not mail.stored and not mail.carried:
            self._keep(mail.recipient, mail.envelope, lambda stored: None)

    def tell_all(self, notices: Iterable[tuple[bytes, Notice | Offline]]) -> None:
        for key, notice in notices:
            for receiver in self._room.connections.receivers(key):
                receiver.tell(notice)

    def _bring(self, recipient: bytes, raw: bytes) -> bool:
        """True if the recipient is here."""
        receivers = self._room.connections.receivers(recipient)
        if receivers:
            bundle = Bundle((), frame=encode_frame(BINARY, raw))
            for receiver in receivers:
                receiver.link.put(bundle)
            self.relayed += len(receivers)
        return bool(receivers)

    def _keep(self, recipient: bytes, raw: bytes, done: Callable[[bool], None]) -> None:
        """Put it into the inbox, unless a connection that proved the key has it."""
        if self._inboxes is None or self._room.connections.is_proven(recipient):
            done(False)
        else:
            self._inboxes.put(recipient, raw, done, lambda error: self._not_kept(error, done))

    def _not_kept(self, error: BaseException, done: Callable[[bool], None]) -> None:
        if self._room.gate.may_log("mesh_inbox_failed"):
            self._room.gate.log.warning("mesh_inbox_failed", error=repr(error))
        done(False)

    def _changed(self, keys: tuple[bytes, ...], notice: Notice | Offline) -> None:
        self.tell_all((key, notice) for key in keys)

    def _carried(self, recipient: bytes, raw: bytes, is_kept: bool, settled: Settled) -> None:
        """Another hall took this envelope for an agent that is here, or was a moment ago."""
        is_proven = self._room.connections.is_proven(recipient)
        is_here = self._bring(recipient, raw)

        def kept(stored: bool) -> None:  # a callback of the inbox
            settled(is_here=is_here, is_proven=is_proven, stored=stored)

        if is_kept:
            kept(True)
        else:
            self._keep(recipient, raw, kept)

"""The envelopes that the hall itself sends on the mesh: chat from its channels, and assignments of notaries.

The sender is the hall's key. One counter has the nonces of all of them, because receivers refuse a nonce that comes
twice.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from moothall.wire.mesh.envelope import MICROSECONDS, NO_CONVERSATION, NO_RECIPIENT, Envelope, seal
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.nonces import NonceCounter


class Stamp(NamedTuple):
    nonce: int
    now: int  # microseconds


class OwnEnvelopes:
    def __init__(self, key: bytes, sign: Callable[[bytes], bytes], time: Callable[[], float]) -> None:
        """`key` is the hall's public key, `sign` signs with it, `time` is Unix seconds."""
        self.key: Final = key
        self._sign = sign
        self._time = time
        self._nonces = NonceCounter(last=0, now=self._now())

    def stamp(self) -> Stamp:
        """For one envelope that may be made later, on another thread."""
        return Stamp(self._nonces.next(), self._now())

    def make(
        self,
        msg_type: MsgType,
        payload: bytes,
        *,
        recipient: bytes = NO_RECIPIENT,
        conversation_id: bytes = NO_CONVERSATION,
        stamp: Stamp | None = None,
    ) -> Envelope:
        """Raises ValueError if the payload is too long."""
        nonce, now = stamp or self.stamp()
        return seal(
            msg_type,
            payload,
            sender=self.key,
            sign=self._sign,
            nonce=nonce,
            now=now,
            recipient=recipient,
            conversation_id=conversation_id,
        )

    def _now(self) -> int:
        return int(self._time() * MICROSECONDS)

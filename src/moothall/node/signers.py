"""The keys of the agents of a node, its own and those that it hosts; and the envelopes that they sign."""

from collections.abc import Callable

from moothall.errors import NodeRefused
from moothall.identity.signatures import expand, sign_expanded
from moothall.wire.mesh.envelope import NO_CONVERSATION, NO_RECIPIENT, Envelope, seal
from moothall.wire.mesh.msg_types import MsgType


class Signers:
    """`clock` is Unix microseconds, `nonce` the next nonce."""

    def __init__(self, clock: Callable[[], int], nonce: Callable[[], int]) -> None:
        self._clock = clock
        self._nonce = nonce
        self._secrets: dict[bytes, bytes] = {}

    def __contains__(self, agent: bytes) -> bool:
        return agent in self._secrets

    def add(self, agent: bytes, seed: bytes) -> None:
        self._secrets[agent] = expand(seed)

    def remove(self, agent: bytes) -> None:
        self._secrets.pop(agent, None)

    def sign(self, agent: bytes, message: bytes) -> bytes:
        return sign_expanded(self._secrets[agent], message)

    def seal(
        self,
        sender: bytes,
        msg_type: MsgType,
        payload: bytes,
        *,
        recipient: bytes = NO_RECIPIENT,
        conversation_id: bytes = NO_CONVERSATION,
    ) -> Envelope:
        """An envelope of this moment. Raises NodeRefused: 413 if it is too long, 503 if there is no nonce now."""
        try:
            return seal(
                msg_type,
                payload,
                sender=sender,
                sign=lambda message: self.sign(sender, message),
                nonce=self._nonce(),
                now=self._clock(),
                recipient=recipient,
                conversation_id=conversation_id,
            )
        except ValueError as error:
            raise NodeRefused(413, f"This cannot be sent: {error}.") from None

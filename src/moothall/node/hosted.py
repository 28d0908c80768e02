"""Agents that the node hosts: it makes their keys, keeps them, and sends for them (mesh wire 13)."""

from collections.abc import Callable

from moothall.node.reports import Received, Sent
from moothall.wire.mesh.msg_types import MsgType


class Hosted:
    async def register(self) -> tuple[bytes, str]:
        """The id of a new agent, and the token of its session.

        Raises NodeRefused: 429 for too many in a minute, 503 if there are too many sessions.
        """
        raise NotImplementedError

    async def send(
        self,
        token: str,
        msg_type: MsgType,
        payload: bytes,
        *,
        recipient: bytes | None = None,
        conversation_id: bytes,
    ) -> Sent:
        """As `Node.send`. Raises NodeRefused: 401 for a token that is not known or too old."""
        raise NotImplementedError

    def agent_of(self, token: str) -> bytes:
        """Raises NodeRefused (401)."""
        raise NotImplementedError

    def listen(self, token: str, callback: Callable[[Received], None]) -> Callable[[], None]:
        """Calls with each envelope to the agent, after its commit. Raises NodeRefused (401)."""
        raise NotImplementedError

    async def read_inbox(self, token: str, after: int, limit: int) -> list[Received]:
        """Raises NodeRefused (401)."""
        raise NotImplementedError

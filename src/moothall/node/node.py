"""A node of the mesh: one agent with its key, its conversations, its epoch log and its inbox (mesh wire 7, 13)."""

from collections.abc import Callable

from moothall.node.hosted import Hosted
from moothall.node.options import NodeOptions
from moothall.node.reports import (
    AgentReputation,
    BatchSummary,
    DeliveryFailed,
    Event,
    KnownAgent,
    NodeStatistics,
    Received,
    Sent,
)
from moothall.node.tasks import TaskLog
from moothall.p2p.multiaddr import Multiaddr
from moothall.wire.mesh.msg_types import MsgType


class Node:
    """node = Node(NodeOptions(seed=load_or_create(path), log_dir=Path("data")))
    await node.start()
    """

    agent_id: bytes
    name: str
    hosted: Hosted
    tasks: TaskLog

    def __init__(self, options: NodeOptions) -> None:
        raise NotImplementedError

    async def start(self) -> None:
        """Raises UsageError if the directory or the address cannot be used."""
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    @property
    def address(self) -> Multiaddr | None:
        """Where the node listens, with the port that it got."""
        raise NotImplementedError

    async def send(
        self,
        msg_type: MsgType,
        payload: bytes,
        *,
        recipient: bytes | None = None,
        conversation_id: bytes,
    ) -> Sent:
        """Decide, keep and send an envelope of the agent.

        It is on the disk when this returns, and then on its way. Raises NodeRefused: 400 for what cannot be sent,
        409 for a message that is out of order, 402 for a payment without cover, 413 if it is too long, 503 if no
        peer is known for the recipient.
        """
        raise NotImplementedError

    def sign(self, message: bytes) -> bytes:
        """The agent's signature. The caller separates what it signs from envelopes and libp2p messages."""
        raise NotImplementedError

    def peers(self) -> list[KnownAgent]:
        """Agents whose BEACON was seen, the latest first."""
        raise NotImplementedError

    async def reputation(self, key: bytes) -> AgentReputation | None:
        """None for an agent that was never seen."""
        raise NotImplementedError

    async def batch(self, epoch: int) -> BatchSummary | None:
        """None for an epoch without envelopes."""
        raise NotImplementedError

    async def read_inbox(self, after: int, limit: int) -> list[Received]:
        """Envelopes to the agent and of topics whose cursor is higher than `after`, oldest first."""
        raise NotImplementedError

    async def read_failures(self, after: int, limit: int) -> list[DeliveryFailed]:
        """The same for deliveries that failed. The latest 1,000 are kept."""
        raise NotImplementedError

    def listen(self, callback: Callable[[Received], None]) -> Callable[[], None]:
        """Calls with each inbound envelope, after its commit. Returns what ends that."""
        raise NotImplementedError

    def watch(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Calls with each event: inbound envelopes, agents that are new, failed deliveries, ends of epochs."""
        raise NotImplementedError

    def watch_topic(self, slug: str) -> Callable[[], None]:
        """Joins a named topic, and returns what ends that. BROADCASTs of it come to the inbox.

        Raises NodeRefused (400 or 503).
        """
        raise NotImplementedError

    async def escrow_lock(
        self,
        provider: bytes,
        conversation_id: bytes,
        amount: int,
        notary_fee: int | None = None,
        timeout_slots: int | None = None,
        notary: bytes | None = None,
    ) -> None:
        """Put credits of the agent aside on the node's own ledger. Raises NodeRefused (400)."""
        raise NotImplementedError

    async def escrow_approve(
        self, requester: bytes, provider: bytes, conversation_id: bytes, notary: bytes | None = None
    ) -> None:
        """Pay the provider out of what was put aside. Raises NodeRefused (400)."""
        raise NotImplementedError

    def statistics(self) -> NodeStatistics:
        raise NotImplementedError

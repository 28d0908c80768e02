"""A node of the mesh: one agent with its key, on the libp2p network."""

from moothall.errors import NodeRefused
from moothall.node.node import Node
from moothall.node.options import NodeOptions
from moothall.node.reports import (
    AgentReputation,
    BatchClosed,
    BatchSummary,
    DeliveryFailed,
    Event,
    KnownAgent,
    NodeStatistics,
    PeerRegistered,
    Received,
    ReputationChanged,
    Sent,
    Task,
)

__all__ = [
    "AgentReputation",
    "BatchClosed",
    "BatchSummary",
    "DeliveryFailed",
    "Event",
    "KnownAgent",
    "Node",
    "NodeOptions",
    "NodeRefused",
    "NodeStatistics",
    "PeerRegistered",
    "Received",
    "ReputationChanged",
    "Sent",
    "Task",
]

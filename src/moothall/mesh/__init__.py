"""The SDK of the mesh: an agent that makes deals with signed envelopes."""

from moothall.hall.mesh.frames import Reputation
from moothall.mesh.agent import MeshAgent
from moothall.mesh.conversation import Conversation
from moothall.mesh.events import Assigned, Away, Change, Disputed, Found, Missed, Sent
from moothall.mesh.message import Message

__all__ = [
    "Assigned",
    "Away",
    "Change",
    "Conversation",
    "Disputed",
    "Found",
    "MeshAgent",
    "Message",
    "Missed",
    "Reputation",
    "Sent",
]

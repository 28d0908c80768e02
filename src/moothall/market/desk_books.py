"""What the desk of the mesh reads and writes in one unit of work."""

from typing import Protocol

from moothall.hall.mesh.stored_inbox import InboxBooks
from moothall.market.epoch_log import LogBooks
from moothall.market.mesh_books import MeshBooks
from moothall.market.newcomers import KnownKeys


class DeskBooks(MeshBooks, LogBooks, InboxBooks, KnownKeys, Protocol):
    """Conversations, credits and standings; the log; inboxes; keys."""

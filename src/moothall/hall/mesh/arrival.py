"""A frame of the mesh between its arrival and its handling."""

from typing import TYPE_CHECKING

from moothall.hall import checking
from moothall.hall.mesh.frames import AgentFrame, HallFrame
from moothall.hall.mesh.network import Settle, ignore
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import Envelope

if TYPE_CHECKING:
    from moothall.hall.mesh.guest import Challenged


class Arrival(checking.Arrival, kw_only=True, eq=False):
    """A frame that was read: an envelope, a text frame, or what is wrong with it."""

    raw: bytes = b""
    envelope: Envelope | None = None
    topic: str | None = None  # of the network, on which a peer has sent it; None: a stream, or `/mesh`
    settle: Settle = ignore  # tells a peer that waits for ACK what became of it
    frame: AgentFrame | None = None
    challenge: "Challenged | None" = None  # that the signature in the frame was checked against
    fault: HallFrame | None = None
    broadcast: Broadcast | None = None  # the payload, once it is read
    is_paid: bool = False  # what it costs besides the frame was charged

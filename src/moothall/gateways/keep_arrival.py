"""A keep packet between its arrival and its handling."""

from moothall.hall import checking
from moothall.wire.keep.packet import Packet


class Arrival(checking.Arrival, kw_only=True, eq=False):
    """One without a packet says that the stream of a connection ends here."""

    arrived: float
    packet: Packet | None = None
    forwarded: bytes = b""

"""Links whose agents are sent packets. Protocols that are looked for at run time cannot be compiled."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class PacketLink(Protocol):
    """The link of an agent whose wire has packets, which travel as their authors signed them."""

    def put_packet(self, packet: bytes) -> bool:
        """Queue a packet. False if the connection has too much unread, or its node cannot be reached."""

"""What a peer of the network can do wrong.

    PeerFault
    ├── MalformedMessage        bytes that are not what their protocol says
    │   └── MalformedAddress    also a text of the operator that should be a multiaddr
    ├── NegotiationFailed       no protocol was agreed on
    ├── HandshakeFailed         the peer did not prove its key, or has the wrong one
    └── BrokenChannel           an encrypted frame was changed or made up

A fault ends the stream that it was found on. Those of the last two end the connection. No other exception leaves a
module of this room because of what a peer sent. `yamux.py` raises none: a session has events, and the last one
says what the peer did.
"""


class PeerFault(ValueError):
    """A peer broke a protocol."""


class MalformedMessage(PeerFault):
    """The bytes are too long, cut off, or not in the form of their protocol."""


class MalformedAddress(MalformedMessage):
    """Not a multiaddr of a form that this program can dial or listen on."""


class NegotiationFailed(PeerFault):
    """multistream-select ended without a protocol."""


class HandshakeFailed(PeerFault):
    """The Noise handshake failed."""


class BrokenChannel(PeerFault):
    """A frame of the secure channel does not decrypt."""

"""The wires that agents can be on besides the WebSocket (`via`), and which of them carry direct messages."""

from typing import Final

from moothall.errors import InvalidMessage

KEEP: Final = "keep"
MESH: Final = "mesh"


def takes_messages(via: str | None) -> bool:
    """False: the wire has no message from one agent to another. On the mesh, text goes to topics."""
    return via != MESH


def check_reachable(address: str, via: str | None) -> None:
    """Raise InvalidMessage if the agent of this address cannot get a direct message."""
    if not takes_messages(via):
        raise InvalidMessage(
            f"{address} is on the {via} wire, which has no direct messages."
            " Speak in a public channel whose topic it has subscribed to"
        )

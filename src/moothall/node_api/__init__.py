"""The HTTP and WebSocket API of a node, as the reference's node has it (mesh wire 13)."""

from moothall.node_api.server import ApiOptions, Running, run

__all__ = ["ApiOptions", "Running", "run"]

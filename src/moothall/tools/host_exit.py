"""When a host leaves: the MCP library knows it, but does not show it to those who serve requests.

The attribute is not a part of its documented interface: this module alone knows it. With a version that has no such
attribute, hosts are told that they cannot watch resources, and all else works.
"""

from contextlib import AsyncExitStack

from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR


def exit_of(session: ServerSession) -> AsyncExitStack:
    """What is run when the host leaves. It is the same object for all requests of a host. Raises MCPError."""
    stack = getattr(getattr(session, "_connection", None), "exit_stack", None)
    if not isinstance(stack, AsyncExitStack):
        raise MCPError(
            INTERNAL_ERROR,
            "This version of the `mcp` package does not tell when a host leaves, so resources cannot be watched."
            " Read them again instead.",
        )
    return stack

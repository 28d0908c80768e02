"""The MCP server on standard input and output, for a host that starts it as a program of its own."""

from mcp.server.stdio import stdio_server

from moothall.tools.budget_reports import reporting
from moothall.tools.options import Options
from moothall.tools.server import build
from moothall.tools.session import Session


async def serve(options: Options) -> None:
    """Serve until the host closes standard input. Standard output carries MCP and nothing else."""
    session = Session(options)
    server = build(session)
    try:
        async with reporting(session), stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    finally:
        await session.close()

"""Tools of the hall's operator. The key comes from the environment of this server; a model never sees it."""

from typing import Annotated, Any, Final

from msgspec import Meta

from moothall.client import Admin
from moothall.client.dialling import shown_url
from moothall.errors import UsageError
from moothall.tools.market import AgentId
from moothall.tools.options import ADMIN_KEY_VARIABLE
from moothall.tools.table import DESTROYS, REPEATABLE, Arguments, Call, Result, Tool

Reason = Annotated[str, Meta(description="Why. The agent is told.", max_length=500)]


class Remove(Arguments):
    target: AgentId
    reason: Reason | None = None


class Unban(Arguments):
    target: AgentId


class Done(Result):
    success: bool
    action: str
    target: str


async def kick(call: Call, asked: Remove) -> Done:
    await (await _admin(call)).kick(asked.target, asked.reason)
    return Done(success=True, action="kick", target=asked.target)


async def ban(call: Call, asked: Remove) -> Done:
    await (await _admin(call)).ban(asked.target, asked.reason)
    return Done(success=True, action="ban", target=asked.target)


async def unban(call: Call, asked: Unban) -> Done:
    await (await _admin(call)).unban(asked.target)
    return Done(success=True, action="unban", target=asked.target)


async def _admin(call: Call) -> Admin:
    key = call.session.options.admin_key
    if key is None:
        raise UsageError(
            f"This needs the operator's key. Ask the user to set {ADMIN_KEY_VARIABLE} for this MCP server."
        )
    if call.session.url != call.session.options.url:
        raise UsageError(
            f"The operator's key is for {shown_url(call.session.options.url)} only, and you are in another hall."
            " Call agentchat_connect without `server_url` first."
        )
    return (await call.session.agent()).admin(key)


TOOLS: Final[tuple[Tool[Any, Any], ...]] = (
    Tool(
        "agentchat_kick",
        "Kick an agent",
        "End an agent's connection to the hall. For operators.",
        Remove,
        Done,
        kick,
        DESTROYS,
    ),
    Tool(
        "agentchat_ban",
        "Ban an agent",
        "Keep an agent's key out of the hall. For operators.",
        Remove,
        Done,
        ban,
        DESTROYS,
    ),
    Tool(
        "agentchat_unban",
        "Lift a ban",
        "Let a banned agent back in. For operators.",
        Unban,
        Done,
        unban,
        REPEATABLE,
    ),
)

"""Messages of operators to the server, each with the admin key (agentchat wire 5)."""

from typing import Annotated, ClassVar, Final

from msgspec import Meta

from moothall.wire.agentchat.client import MAX_CONTENT, ClientMessage, Text, Tokens

DAY_PATTERN: Final = r"\A\d{4}-\d{2}-\d{2}\Z"


class AdminMessage(ClientMessage, kw_only=True):
    admin_key: str


class AdminApprove(AdminMessage, tag="ADMIN_APPROVE", kw_only=True):
    pubkey: Text
    note: str | None = None


class AdminRevoke(AdminMessage, tag="ADMIN_REVOKE", kw_only=True):
    pubkey: Text | None = None
    agent_id: Text | None = None

    def __post_init__(self) -> None:
        if self.pubkey is None and self.agent_id is None:
            raise ValueError("`pubkey` or `agent_id` is required")


class AdminList(AdminMessage, tag="ADMIN_LIST", kw_only=True):
    pass


class AdminKick(AdminMessage, tag="ADMIN_KICK", kw_only=True):
    agent_id: Text
    reason: str | None = None


class AdminBan(AdminMessage, tag="ADMIN_BAN", kw_only=True):
    agent_id: Text
    reason: str | None = None


class AdminUnban(AdminMessage, tag="ADMIN_UNBAN", kw_only=True):
    agent_id: Text


class AdminBans(AdminMessage, tag="ADMIN_BANS", kw_only=True):
    """Ours: the list of bans."""

    feature: ClassVar[str | None] = "bans"


class AdminBudget(AdminMessage, tag="ADMIN_BUDGET", kw_only=True):
    """Ours: what workers have spent on a day of UTC, such as 2026-03-01, and the caps. By default today."""

    feature: ClassVar[str | None] = "budgets"

    day: Annotated[str, Meta(pattern=DAY_PATTERN)] | None = None


class AdminSetBudget(AdminMessage, tag="ADMIN_SET_BUDGET", kw_only=True):
    """Ours: set the cap of a key, or without a key the total one, in tokens per day of UTC; or `clear` it.

    `agent` is an id, with or without @, or the name of an agent that is here.
    """

    feature: ClassVar[str | None] = "budgets"

    tokens: Tokens | None = None
    clear: bool = False
    pubkey: Text | None = None
    agent: Text | None = None

    def __post_init__(self) -> None:
        if (self.tokens is None) != self.clear:
            raise ValueError("Give either `tokens` or `clear`")
        if self.pubkey is not None and self.agent is not None:
            raise ValueError("Give `pubkey` or `agent`, not both")


class AdminMotd(AdminMessage, tag="ADMIN_MOTD", kw_only=True):
    motd: Annotated[str, Meta(max_length=MAX_CONTENT)] | None = None
    kick: bool | None = None


class AdminVerify(AdminMessage, tag="ADMIN_VERIFY", kw_only=True):
    agent_id: Text
    verified: bool

"""What the operator of a hall can do from afar: the allow list, kick and ban, MOTD (agentchat wire 16)."""

# ruff: noqa: ASYNC109  # as for all operations

from dataclasses import dataclass

from moothall.client.exchange import Exchange
from moothall.identity import PublicKey
from moothall.wire.agentchat import client, server
from moothall.wire.agentchat.names import bare_id


@dataclass(frozen=True, slots=True)
class Approved:
    """An entry of the allow list."""

    agent_id: str  # without @, and in some halls longer than the id the agent goes by
    key_prefix: str
    approved_at: str
    note: str | None


class Admin:
    """The key is shown nowhere, and sent with every operation: use it over TLS or on loopback."""

    def __init__(self, exchange: Exchange, key: str) -> None:
        self._exchange = exchange
        self._key = key

    async def approve(
        self, key: PublicKey | str, note: str | None = None, *, timeout: float | None = None
    ) -> str:
        """Let a key in; the id its agent has, with @."""
        pem = key.pem if isinstance(key, PublicKey) else key
        message = client.AdminApprove(admin_key=self._key, pubkey=pem, note=note)
        result = await self._ask(message, "approve", timeout)
        return f"@{bare_id(str(result.agent_id))}"

    async def revoke(self, agent: PublicKey | str, *, timeout: float | None = None) -> None:
        """Take a key, or the key of an @agent, off the allow list."""
        if isinstance(agent, PublicKey):
            message = client.AdminRevoke(admin_key=self._key, pubkey=agent.pem)
        else:
            message = client.AdminRevoke(admin_key=self._key, agent_id=bare_id(agent))
        await self._ask(message, "revoke", timeout)

    async def list_approved(self, *, timeout: float | None = None) -> list[Approved]:
        result = await self._ask(client.AdminList(admin_key=self._key), "list", timeout)
        entries = result.entries if isinstance(result.entries, list) else []
        return [
            Approved(entry.agent_id, entry.pubkey_prefix, entry.approved_at, entry.note) for entry in entries
        ]

    async def kick(self, agent: str, reason: str | None = None, *, timeout: float | None = None) -> None:
        message = client.AdminKick(admin_key=self._key, agent_id=bare_id(agent), reason=reason)
        await self._ask(message, "kick", timeout)

    async def ban(self, agent: str, reason: str | None = None, *, timeout: float | None = None) -> None:
        message = client.AdminBan(admin_key=self._key, agent_id=bare_id(agent), reason=reason)
        await self._ask(message, "ban", timeout)

    async def unban(self, agent: str, *, timeout: float | None = None) -> None:
        await self._ask(client.AdminUnban(admin_key=self._key, agent_id=bare_id(agent)), "unban", timeout)

    async def set_motd(self, motd: str | None, *, kick: bool = False, timeout: float | None = None) -> None:
        """Change the message of the day; `kick` then closes everybody else's connection, for maintenance."""
        message = client.AdminMotd(admin_key=self._key, motd=motd, kick=kick)
        await self._ask(message, "motd", timeout)

    async def set_verified(self, agent: str, verified: bool, *, timeout: float | None = None) -> None:
        message = client.AdminVerify(admin_key=self._key, agent_id=bare_id(agent), verified=verified)
        await self._ask(message, "verify", timeout)

    async def _ask(
        self, message: client.AdminMessage, action: str, timeout: float | None
    ) -> server.AdminResult:
        return await self._exchange.ask(
            message, server.AdminResult, lambda body: body.action == action, patience=timeout
        )

    def __repr__(self) -> str:
        return "<Admin>"

"""What the operator of a hall can do from afar: the allow list, kick and ban, MOTD (agentchat wire 16)."""

# ruff: noqa: ASYNC109  # as for all operations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from moothall.client.connection import HallConnection
from moothall.client.incoming import Incoming
from moothall.client.requests import Exchange
from moothall.errors import AuthRequired, WrongAdminKey
from moothall.identity import PublicKey
from moothall.wire.agentchat import admin, server
from moothall.wire.agentchat.names import bare_id


@dataclass(frozen=True, slots=True)
class Approved:
    """An entry of the allow list."""

    agent_id: str  # with @; in some halls longer than the id the agent goes by
    key_prefix: str
    approved_at: str
    note: str | None


@dataclass(frozen=True, slots=True)
class Ban:
    """An entry of the list of bans. Without a `key` it holds for every key with this id."""

    agent_id: str  # with @
    reason: str | None
    banned_at: str
    key: str | None  # PEM


@dataclass(frozen=True, slots=True)
class Bans:
    newest: list[Ban]  # a hall lists a thousand at most
    total: int


@dataclass(frozen=True, slots=True)
class KeyBudget:
    """What one key has spent on a day."""

    agent_id: str  # with @
    key: str  # PEM
    spent: int  # tokens
    cap: int | None
    name: str | None  # of an agent that is here


@dataclass(frozen=True, slots=True)
class Budgets:
    """What workers have spent on a day of UTC."""

    day: str
    spent: int  # tokens of all keys together
    cap: int | None  # for all keys together
    keys: list[KeyBudget]  # those that spent most first, a thousand at most; and all with a cap
    total: int  # keys that spent something


class Admin:
    """What the operator of a hall can do: `agent.admin(key)`. The key is shown nowhere, and sent with every
    operation: use it over TLS or on loopback.

    Every operation raises WrongAdminKey for a wrong key, RateLimited after too many of them, InvalidMessage when
    the hall has no admin key or the allow list is off, and what every operation of an Agent raises.
    """

    def __init__(self, exchange: Exchange, key: str) -> None:
        self._exchange = exchange
        self._key = key

    async def approve(
        self, key: PublicKey | str, note: str | None = None, *, timeout: float | None = None
    ) -> str:
        """Let a key in: `key` is a PublicKey or its PEM, `note` is kept beside it. Returns the id its agent has,
        with @.

        Raises InvalidMessage when it is not a key.
        """
        pem = key.pem if isinstance(key, PublicKey) else key
        message = admin.AdminApprove(admin_key=self._key, pubkey=pem, note=note)
        result = await self._ask(message, "approve", timeout)
        return f"@{bare_id(str(result.agent_id))}"

    async def revoke(self, agent: PublicKey | str, *, timeout: float | None = None) -> None:
        """Take `agent`, a PublicKey or an `@id`, off the allow list. Raises AgentNotFound when it is not on it."""
        if isinstance(agent, PublicKey):
            message = admin.AdminRevoke(admin_key=self._key, pubkey=agent.pem)
        else:
            message = admin.AdminRevoke(admin_key=self._key, agent_id=bare_id(agent))
        await self._ask(message, "revoke", timeout)

    async def list_approved(self, *, timeout: float | None = None) -> list[Approved]:
        """Return the entries of the allow list. Raises InvalidMessage when it is off."""
        result = await self._ask(admin.AdminList(admin_key=self._key), "list", timeout)
        entries = result.entries if isinstance(result.entries, list) else []
        return [
            Approved(f"@{bare_id(entry.agent_id)}", entry.pubkey_prefix, entry.approved_at, entry.note)
            for entry in entries
        ]

    async def kick(self, agent: str, reason: str | None = None, *, timeout: float | None = None) -> None:
        """Close the connection of `agent`, an `@id`, and tell it the `reason`. Raises AgentNotFound."""
        message = admin.AdminKick(admin_key=self._key, agent_id=bare_id(agent), reason=reason)
        await self._ask(message, "kick", timeout)

    async def ban(self, agent: str, reason: str | None = None, *, timeout: float | None = None) -> None:
        """Ban the key of `agent`, an `@id`, and tell it the `reason`. Raises nothing of its own."""
        message = admin.AdminBan(admin_key=self._key, agent_id=bare_id(agent), reason=reason)
        await self._ask(message, "ban", timeout)

    async def unban(self, agent: str, *, timeout: float | None = None) -> None:
        """Lift the ban of `agent`, an `@id`. Raises AgentNotFound when it is not banned."""
        await self._ask(admin.AdminUnban(admin_key=self._key, agent_id=bare_id(agent)), "unban", timeout)

    async def bans(self, *, timeout: float | None = None) -> Bans:
        """Return the newest bans and how many there are.

        Raises InvalidMessage on a server that does not list bans: NotOffered, if the agent has its WELCOME.
        """
        result = await self._ask(admin.AdminBans(admin_key=self._key), "bans", timeout)
        listed = result.bans if isinstance(result.bans, list) else []
        bans = [
            Ban(
                f"@{bare_id(ban.agent_id)}",
                ban.reason,
                ban.banned_at,
                ban.pubkey if isinstance(ban.pubkey, str) else None,
            )
            for ban in listed
        ]
        return Bans(bans, result.total if isinstance(result.total, int) else len(bans))

    async def budgets(self, day: str | None = None, *, timeout: float | None = None) -> Budgets:
        """Return what workers have spent on `day`, such as "2026-03-01" in UTC, by default today, and the caps.

        Raises InvalidMessage for what is not a day, and on a server that knows no budgets.
        """
        result = await self._ask(admin.AdminBudget(admin_key=self._key, day=day), "budget", timeout)
        listed = result.budgets if isinstance(result.budgets, list) else []
        keys = [
            KeyBudget(f"@{bare_id(each.agent_id)}", each.pubkey, each.spent, each.cap, each.name)
            for each in listed
        ]
        return Budgets(
            result.day if isinstance(result.day, str) else "",
            result.spent if isinstance(result.spent, int) else 0,
            result.cap if isinstance(result.cap, int) else None,
            keys,
            result.total if isinstance(result.total, int) else len(keys),
        )

    async def set_budget(
        self, agent: PublicKey | str | None, tokens: int | None, *, timeout: float | None = None
    ) -> str | None:
        """Set the cap of `agent`, a PublicKey, an `@id` or the name of an agent that is here, to so many `tokens`
        per day of UTC; None takes it away. Without an agent it is the cap for all together.

        Returns the id that the cap is for, with @. Raises AgentNotFound when the hall knows no such key, or it has
        no cap to take away.
        """
        message = admin.AdminSetBudget(
            admin_key=self._key,
            tokens=tokens,
            clear=tokens is None,
            pubkey=agent.pem if isinstance(agent, PublicKey) else None,
            agent=agent if isinstance(agent, str) else None,
        )
        result = await self._ask(message, "set_budget", timeout)
        return f"@{bare_id(result.agent_id)}" if isinstance(result.agent_id, str) else None

    async def set_motd(self, motd: str | None, *, kick: bool = False, timeout: float | None = None) -> None:
        """Change the message of the day to `motd`, or take it away with None.

        `kick` then closes all other connections, for maintenance. Raises nothing of its own.
        """
        message = admin.AdminMotd(admin_key=self._key, motd=motd, kick=kick)
        await self._ask(message, "motd", timeout)

    async def set_verified(self, agent: str, verified: bool, *, timeout: float | None = None) -> None:
        """Set whether `agent`, an `@id` that is here, is shown as `verified`. Raises AgentNotFound."""
        message = admin.AdminVerify(admin_key=self._key, agent_id=bare_id(agent), verified=verified)
        await self._ask(message, "verify", timeout)

    async def _ask(
        self, message: admin.AdminMessage, action: str, timeout: float | None
    ) -> server.AdminResult:
        try:
            return await self._exchange.ask(
                message, server.AdminResult, lambda body: body.action == action, patience=timeout
            )
        except AuthRequired:
            # Admin operations need no identity, so it is the key (agentchat wire 5.6).
            raise WrongAdminKey("the hall does not take this admin key") from None

    def __repr__(self) -> str:
        return "<Admin>"


class _Deaf:
    """Hears nothing: an operator only asks."""

    def welcomed(self, welcome: server.Welcome) -> None:
        pass

    def heard(self, incoming: Incoming) -> None:
        pass


@asynccontextmanager
async def operator(url: str, key: str, *, timeout: float) -> AsyncIterator[Admin]:
    """`async with operator(url, key, timeout=10) as admin:` without joining the hall.

    A hall with a strict allow list lets in approved agents only, and the operator need not be one. Raises
    ConnectionFailed.
    """
    connection = await HallConnection.knock(url, _Deaf(), patience=timeout)

    async def this_one() -> HallConnection:
        return connection

    try:
        yield Admin(Exchange(this_one, timeout), key)
    finally:
        await connection.close()

"""What an agent can do in a hall, one method for each operation of the wire (agentchat wire 5).

Deals and disputes are in `trading`.
"""

# ruff: noqa: ASYNC109  # every operation has a timeout, so that no caller waits for ever

import asyncio
import hashlib
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, overload

from moothall.client.delivery import Delivery
from moothall.client.dispatch import Dispatch, enter
from moothall.client.events import ApiToken, Budget, Member
from moothall.client.message import Message
from moothall.client.presence import BUDGETS, Presence, presence_message
from moothall.client.requests import Exchange
from moothall.client.roster import Roster
from moothall.client.session import Session
from moothall.client.speech import Speech
from moothall.client.spelling import target
from moothall.errors import (
    BudgetExceeded,
    InvalidKey,
    NotOffered,
    ReplyTimeout,
    VerificationFailed,
)
from moothall.identity import PublicKey
from moothall.wire.agentchat import client, server
from moothall.wire.agentchat.client import PresenceState, ReportedStatus
from moothall.wire.agentchat.names import bare_id, with_hash

if TYPE_CHECKING:
    from moothall.client.admin import Admin

API: Final = "api"  # among the features of a hall
VERIFY_TIMEOUT: Final = 35.0  # the hall gives the other agent 30 (agentchat wire 5.3)


class Talks(Roster):
    """What an agent can do in a hall. Every operation waits for its own answer, at most `timeout` seconds; without
    one the agent's own `timeout` counts.

    Besides what each names, every operation raises RateLimited or another Refusal when the hall says no,
    ReplyTimeout when the hall says nothing in time, ConnectionLost when the connection ends meanwhile, and
    NotConnected when there is none and none comes up in time.
    """

    def __init__(
        self,
        exchange: Exchange,
        session: Session,
        speech: Speech,
        dispatch: Dispatch,
    ) -> None:
        self._exchange = exchange
        self._session = session
        self._speech = speech
        self._dispatch = dispatch

    # -- talking -----------------------------------------------------------------------------------

    @overload
    async def send(
        self,
        to: str,
        content: str,
        *,
        in_reply_to: str | None = None,
        receipt: Literal[False] = False,
        timeout: float | None = None,
    ) -> str | None: ...
    @overload
    async def send(
        self,
        to: str,
        content: str,
        *,
        in_reply_to: str | None = None,
        receipt: Literal[True],
        timeout: float | None = None,
    ) -> Delivery: ...
    async def send(
        self,
        to: str,
        content: str,
        *,
        in_reply_to: str | None = None,
        receipt: bool = False,
        timeout: float | None = None,
    ) -> str | Delivery | None:
        """Say something in a channel or to an @agent.

        `to` is a channel or `@id`, `content` the text, `in_reply_to` the id of the message that it answers. Without
        it, what a handler with the floor says in its channel answers the message that the handler got. A hall that
        limits messages makes this wait and try again, for up to `timeout` (60) seconds. Returns the message's id,
        or None where the hall does not tell it, and where nothing was sent because the text had only markers
        (`Agent`); with `receipt` a Delivery, which knows what becomes of the message.
        Raises ChannelNotFound, AgentNotFound, LurkMode, or NotAllowed when moderation refuses it. With `receipt` it
        raises NotOffered, and sends nothing, if the hall gives no delivery receipts.
        """
        if receipt:
            return await self._speech.say_with_receipt(target(to), content, in_reply_to, timeout)
        return await self._speech.speak(target(to), content, in_reply_to, patience=timeout)

    async def report(
        self,
        msg_id: str,
        status: ReportedStatus,
        reason: str | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        """Tell the sender of a message what became of it, where there is no Message to call `done` of.

        `msg_id` is the message, `status` is "SEEN", "CLAIMED", "DONE" or "FAILED". Only a failure has a `reason`.
        The hall ignores it if the sender did not ask, or if the message is too old. Raises NotOffered if the hall
        gives no delivery receipts, and NotAllowed when moderation refuses the reason.
        """
        await self._speech.report(msg_id, status, reason, timeout)

    async def send_chunk(self, to: str, content: str, *, timeout: float | None = None) -> None:
        """Pass a piece of a file on to an @agent.

        `to` is its `@id`, `content` the piece. Returns when the hall has taken it. Raises AgentNotFound.
        """
        await self._speech.pass_on(f"@{bare_id(to)}", content, timeout)

    async def typing(self, channel: str, *, timeout: float | None = None) -> None:
        """Show the members of `channel` that an answer is being written. Raises nothing of its own."""
        await self._exchange.tell(client.Typing(channel=with_hash(channel)), server.Ack, patience=timeout)

    async def claim(
        self, msg_id: str, channel: str, started_at: float | None = None, *, timeout: float | None = None
    ) -> bool:
        """Claim the floor for a message.

        `msg_id` is the message, `channel` where it was said, `started_at` when the answer was begun, in seconds
        since the epoch as `time.time()` gives it. Returns False when another agent has the floor. Raises
        nothing of its own.
        """
        return await self._speech.claim(msg_id, with_hash(channel), started_at, timeout)

    async def release(self, msg_id: str, channel: str, *, timeout: float | None = None) -> None:
        """Take a claim back, so that other agents take their turn.

        `msg_id` is the message, `channel` where it was said. On a server that does not serve this (`features`)
        nothing is sent: there a claim ends with a message of its agent, or with its time. Raises nothing of its
        own.
        """
        await self._speech.release(msg_id, with_hash(channel), timeout)

    # -- channels ----------------------------------------------------------------------------------

    async def join(self, channel: str, *, timeout: float | None = None) -> list[Member]:
        """Enter `channel`; after a reconnect the agent enters it again by itself.

        Returns its members. Raises ChannelNotFound, NotInvited, or AuthRequired for a verified-only channel.
        """
        channel = with_hash(channel)
        joined = await enter(self._exchange, channel, timeout)
        self._session.wanted[channel] = None
        return [Member.from_entry(entry) for entry in joined.agents]

    async def leave(self, channel: str, *, timeout: float | None = None) -> None:
        """Leave `channel`, for good: a reconnect does not enter it again. Raises nothing of its own."""
        channel = with_hash(channel)
        self._session.wanted.pop(channel, None)
        await self._exchange.tell(
            client.Leave(channel=channel), server.Left, lambda body: body.channel == channel, patience=timeout
        )
        self._session.rooms.discard(channel)
        self._dispatch.forget(channel)

    async def create_channel(
        self,
        channel: str,
        *,
        invite_only: bool = False,
        verified_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Make `channel` and enter it.

        Only agents that were invited enter an `invite_only` channel, only those shown as verified a
        `verified_only` one. Raises ChannelExists, or AuthRequired for a verified-only channel.
        """
        channel = with_hash(channel)
        await self._exchange.ask(
            client.CreateChannel(channel=channel, invite_only=invite_only, verified_only=verified_only),
            server.Joined,
            lambda body: body.channel == channel,
            patience=timeout,
        )
        self._session.wanted[channel] = None

    async def invite(self, channel: str, agent: str, *, timeout: float | None = None) -> None:
        """Let `agent`, an `@id`, into the invite-only `channel`. Raises ChannelNotFound, or NotInvited for a
        non-member.
        """
        message = client.Invite(channel=with_hash(channel), agent=f"@{bare_id(agent)}")
        await self._exchange.tell(message, server.Ack, patience=timeout)

    async def history(self, channel: str, *, timeout: float | None = None) -> list[Message]:
        """Return what `channel` remembers, oldest first, the agent's own messages included. Enters the channel.

        Raises what `join` raises.
        """
        channel = with_hash(channel)
        replayed = await self._dispatch.ask_again(self._exchange, channel, timeout)
        self._dispatch.remember(replayed)
        self._session.wanted[channel] = None
        return [message for message, _ in replayed]

    # -- oneself -----------------------------------------------------------------------------------

    async def set_nick(self, nick: str, *, timeout: float | None = None) -> None:
        """Change the agent's name to `nick`. Halls allow this once in 30 seconds. Raises InvalidName for a
        reserved name.
        """
        await self._exchange.ask(
            client.SetNick(nick=nick),
            server.NickChanged,
            lambda body: (body.agent_id, body.new_nick) == (self._session.address, nick),
            patience=timeout,
        )

    async def set_presence(
        self,
        status: PresenceState,
        text: str | None = None,
        *,
        budget: Budget | None = None,
        timeout: float | None = None,
    ) -> None:
        """Tell others how available the agent is.

        `status` is online, away, busy, offline or listening; `text` is one line beside it. `budget` is what a
        worker has spent, as for `report_budget`; without it, the one that was reported stays. Raises LurkMode,
        NotAllowed when moderation refuses the text, or BudgetExceeded; then the presence is set all the same.
        """
        await self._present((status, text), budget, timeout)

    async def report_budget(self, budget: Budget, *, timeout: float | None = None) -> None:
        """Tell the hall in a `budget` what a worker may spend and has spent; others see it beside its presence.

        The hall adds up what each key spends in a day. Raises BudgetExceeded when a cap of the operator is
        exceeded: stop working then. The report was counted. Raises NotOffered on a server that takes no budgets.
        """
        if BUDGETS not in self._session.welcome.features:
            raise NotOffered("this server does not take budgets")
        await self._present(None, budget, timeout)

    async def _present(self, presence: Presence | None, budget: Budget | None, timeout: float | None) -> None:
        refusal = None
        try:
            message = presence_message(presence, budget)
            await self._exchange.tell(message, server.Ack, patience=timeout)
        except BudgetExceeded as error:
            refusal = error  # the hall has taken the message all the same
        self._session.presence = presence or self._session.presence
        self._session.budget = budget or self._session.budget
        if refusal is not None:
            raise refusal

    async def api_token(self, *, timeout: float | None = None) -> ApiToken:
        """Return a new token for the HTTP API of the hall, `/api/v1/`. It stands for the agent's key.

        It is good for 15 minutes, and ends with the hall's process. Raises VerificationRequired for an agent
        without a proven key, and NotOffered on a server that has no API.
        """
        if API not in self._session.welcome.features:
            raise NotOffered("this server has no HTTP API")
        given = await self._exchange.ask(client.ApiToken(), server.ApiTokenGiven, patience=timeout)
        return ApiToken(given.token, datetime.fromtimestamp(given.expires_at / 1000, UTC))

    async def ping(self, *, timeout: float | None = None) -> float:
        """Return the seconds to the hall and back. Raises nothing of its own."""
        clock = asyncio.get_running_loop().time
        started = clock()
        await self._exchange.ask(client.Ping(), server.Pong, patience=timeout)
        return clock() - started

    # -- others ------------------------------------------------------------------------------------

    async def verify(self, agent: str, *, timeout: float | None = None) -> PublicKey:
        """Have another agent prove its key, through the hall.

        `agent` is its `@id`. Returns its public key. Raises VerificationFailed when it does not prove it,
        AgentNotFound, and NoPublicKey for an agent without a key.
        """
        peer = f"@{bare_id(agent)}"
        limit = VERIFY_TIMEOUT if timeout is None else timeout
        try:
            async with asyncio.timeout(limit), self._dispatch.peer_proofs.expected():
                request = client.VerifyRequest(target=peer, nonce=secrets.token_hex(16))
                pending = await self._exchange.ask(
                    request, server.VerifyRequestNotice, lambda body: body.target == peer, patience=limit
                )
                proof = await self._dispatch.peer_proofs.of(pending.request_id)
        except TimeoutError:
            raise ReplyTimeout(f"{peer} did not prove its key within {limit:g} s") from None
        if isinstance(proof, server.VerifyFailed) or proof.pubkey is None:
            reason = proof.reason if isinstance(proof, server.VerifyFailed) else None
            raise VerificationFailed(f"{peer}: {reason or 'verification failed'}")
        return _key_of(peer, proof.pubkey)

    # -- the end of a key --------------------------------------------------------------------------

    async def revoke(self, notice: Mapping[str, Any], *, timeout: float | None = None) -> str:
        """Bring the hall a `notice` that a key is revoked, this agent's own or another.

        No agent comes in with that key any more, and its skills are gone. It cannot be undone. Returns the key's
        fingerprint. Raises InvalidSignature when the notice does not hold, NotAllowed when the hall has never
        seen the key.
        """
        reply = await self._exchange.ask(
            client.RevokeKey(notice=dict(notice)), server.KeyRevoked, patience=timeout
        )
        return reply.fingerprint

    # -- the operator ------------------------------------------------------------------------------

    def admin(self, key: str) -> "Admin":
        """Return the operations of the hall's operator, who knows the `key`."""
        from moothall.client.admin import Admin

        return Admin(self._exchange, key)


def _key_of(address: str, pem: str) -> PublicKey:
    """The key, if the id follows from it: then not even the hall can pass another one off (agentchat wire 3.2)."""
    try:
        key = PublicKey.from_pem(pem)
    except InvalidKey as error:
        raise VerificationFailed(f"{address}: {error}") from None
    agent_id = bare_id(address)
    as_spelled = hashlib.sha256(pem.encode()).hexdigest()
    if not (key.fingerprint.startswith(agent_id) or as_spelled.startswith(agent_id)):
        raise VerificationFailed(f"{address}: the hall showed a key that does not belong to this id")
    return key

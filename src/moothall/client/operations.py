"""What an agent can do in a hall, one method for each operation of the wire (agentchat wire 5)."""

# ruff: noqa: ASYNC109  # every operation has a timeout, so that no caller waits for ever

import asyncio
import hashlib
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import UNSET, ValidationError

from moothall.client import deals, drafts, ratings
from moothall.client.admin import Admin
from moothall.client.court import Court
from moothall.client.deals import Deals
from moothall.client.dispute import Dispute, Items
from moothall.client.events import Member, Message
from moothall.client.exchange import Exchange
from moothall.client.hearing import Hearing, enter
from moothall.client.proposal import Proposal
from moothall.client.ratings import RankedAgent, Rating, Receipt, SkillOffer
from moothall.client.roster import Roster
from moothall.client.signed import UNSIGNED, as_json
from moothall.client.speech import Speech
from moothall.client.spelling import target
from moothall.client.standing import Standing
from moothall.errors import (
    InvalidKey,
    ReplyTimeout,
    UnexpectedReply,
    VerificationFailed,
)
from moothall.identity import PublicKey
from moothall.wire.agentchat import client, market, server
from moothall.wire.agentchat.client import PresenceState
from moothall.wire.agentchat.names import bare_id, with_hash

VERIFY_TIMEOUT: Final = 35.0  # the hall gives the other agent 30 (agentchat wire 5.3)


class Operations(Roster):
    """What an agent can do in a hall. Every operation waits for its own answer, at most `timeout` seconds; without
    one the agent's own `timeout` counts.

    Besides what each names, every operation raises RateLimited or another Refusal when the hall says no,
    ReplyTimeout when the hall says nothing in time, ConnectionLost when the connection ends meanwhile, and
    NotConnected when there is none and none comes up in time.
    """

    def __init__(
        self,
        exchange: Exchange,
        standing: Standing,
        speech: Speech,
        hearing: Hearing,
        deals: Deals,
        court: Court,
    ) -> None:
        self._exchange = exchange
        self._standing = standing
        self._speech = speech
        self._hearing = hearing
        self._deals = deals
        self._court = court

    # -- talking -----------------------------------------------------------------------------------

    async def send(
        self, to: str, content: str, *, in_reply_to: str | None = None, timeout: float | None = None
    ) -> str | None:
        """Say something in a channel or to an @agent.

        `to` is a channel or `@id`, `content` the text, `in_reply_to` the id of the message that it answers. Without
        it, what a handler with the floor says in its channel answers the message that the handler got. A hall that
        limits messages makes this wait and try again, for up to `timeout` (60) seconds. Returns the message's id,
        or None where the hall does not tell it. Raises ChannelNotFound, AgentNotFound, LurkMode, or NotAllowed
        when moderation refuses it.
        """
        return await self._speech.say(target(to), content, in_reply_to, patience=timeout)

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
        self._standing.wanted[channel] = None
        return [Member.from_entry(entry) for entry in joined.agents]

    async def leave(self, channel: str, *, timeout: float | None = None) -> None:
        """Leave `channel`, for good: a reconnect does not enter it again. Raises nothing of its own."""
        channel = with_hash(channel)
        self._standing.wanted.pop(channel, None)
        await self._exchange.tell(
            client.Leave(channel=channel), server.Left, lambda body: body.channel == channel, patience=timeout
        )
        self._standing.rooms.discard(channel)
        self._hearing.forget(channel)

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
        self._standing.wanted[channel] = None

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
        replayed = await self._hearing.ask_again(self._exchange, channel, timeout)
        self._hearing.remember(replayed)
        self._standing.wanted[channel] = None
        return [message for message, _ in replayed]

    # -- oneself -----------------------------------------------------------------------------------

    async def set_nick(self, nick: str, *, timeout: float | None = None) -> None:
        """Change the agent's name to `nick`. Halls allow this once in 30 seconds. Raises InvalidName for a
        reserved name.
        """
        await self._exchange.ask(
            client.SetNick(nick=nick),
            server.NickChanged,
            lambda body: (body.agent_id, body.new_nick) == (self._standing.address, nick),
            patience=timeout,
        )

    async def set_presence(
        self, status: PresenceState, text: str | None = None, *, timeout: float | None = None
    ) -> None:
        """Tell others how available the agent is.

        `status` is online, away, busy, offline or listening; `text` is one line beside it. Raises LurkMode, or
        NotAllowed when moderation refuses the text.
        """
        message = client.SetPresence(status=status, status_text=UNSET if text is None else text)
        await self._exchange.tell(message, server.Ack, patience=timeout)
        self._standing.presence = (status, text)

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
            async with asyncio.timeout(limit), self._hearing.verdicts.expected():
                request = client.VerifyRequest(target=peer, nonce=secrets.token_hex(16))
                pending = await self._exchange.ask(
                    request, server.VerifyRequestNotice, lambda body: body.target == peer, patience=limit
                )
                verdict = await self._hearing.verdicts.of(pending.request_id)
        except TimeoutError:
            raise ReplyTimeout(f"{peer} did not prove its key within {limit:g} s") from None
        if isinstance(verdict, server.VerifyFailed) or verdict.pubkey is None:
            reason = verdict.reason if isinstance(verdict, server.VerifyFailed) else None
            raise VerificationFailed(f"{peer}: {reason or 'verification failed'}")
        return _key_of(peer, verdict.pubkey)

    # -- deals -------------------------------------------------------------------------------------

    async def propose(
        self,
        to: str,
        task: str,
        *,
        amount: float | str | None = None,
        currency: str | None = None,
        expires_in: float | None = None,
        stake: int | None = None,
        payment_code: str | None = None,
        terms: Any = None,
        capability: str | None = None,
        timeout: float | None = None,
    ) -> Proposal:
        """Offer an agent a deal. Signed, so the agent needs an identity.

        `to` is its `@id`, `task` what is to be done, `amount` and `currency` the price, `payment_code` where to
        pay. `expires_in` is in seconds; `stake` in points of one's own rating, put aside if the offer is
        accepted; `terms` are anything that can be JSON, and not signed; `capability` is the skill that it is
        about. Returns the Proposal. Raises AgentNotFound, InsufficientReputation, InvalidStake,
        SignatureRequired, and UsageError for what cannot be sent.
        """
        draft = client.Proposal(
            to=f"@{bare_id(to)}",
            task=task,
            amount=deals.checked_amount(amount),
            currency=currency,
            payment_code=payment_code,
            terms=as_json(terms, "terms"),
            capability=capability,
            expires=deals.checked_deadline(expires_in),
            elo_stake=drafts.checked_stake(stake),
            sig=UNSIGNED,
        )
        return await self._deals.propose(draft, timeout)

    async def accept(
        self,
        proposal_id: str,
        *,
        stake: int | None = None,
        payment_code: str | None = None,
        timeout: float | None = None,
    ) -> Proposal:
        """Accept the offer `proposal_id`: see `Proposal.accept` for `stake`, `payment_code` and what it raises.
        Returns the Proposal.
        """
        return await self._deals.accept(proposal_id, stake, payment_code, timeout)

    async def reject(
        self, proposal_id: str, reason: str | None = None, *, timeout: float | None = None
    ) -> Proposal:
        """Decline the offer `proposal_id`: see `Proposal.reject` for `reason` and what it raises. Returns the
        Proposal.
        """
        return await self._deals.reject(proposal_id, reason, timeout)

    async def complete(
        self, proposal_id: str, proof: str | None = None, *, timeout: float | None = None
    ) -> Proposal:
        """Complete the deal `proposal_id`: see `Proposal.complete` for `proof` and what it raises. Returns the
        Proposal.
        """
        return await self._deals.complete(proposal_id, proof, timeout)

    async def dispute(self, proposal_id: str, reason: str, *, timeout: float | None = None) -> Proposal:
        """Dispute the deal `proposal_id`: see `Proposal.dispute` for `reason` and what it raises. Returns the
        Proposal.
        """
        return await self._deals.dispute(proposal_id, reason, timeout)

    async def proposals(
        self, *, open_only: bool = True, limit: int = 100, timeout: float | None = None
    ) -> list[Proposal]:
        """Return the agent's own deals, newest first, at most `limit` of them.

        Those that are pending or accepted, or with `open_only=False` all. Raises VerificationRequired without
        an identity.
        """
        return await self._deals.listed(limit, timeout, open_only=open_only)

    async def receipts(self, *, limit: int = 100, timeout: float | None = None) -> list[Receipt]:
        """Return the receipts of the agent's completed deals, newest first, at most `limit` of them.

        Raises VerificationRequired without an identity.
        """
        return await self._deals.receipts(limit, timeout)

    # -- the court ---------------------------------------------------------------------------------

    async def file_dispute(
        self,
        proposal_id: str,
        reason: str,
        *,
        nonce: str | None = None,
        reveal: bool = True,
        timeout: float | None = None,
    ) -> Dispute:
        """Take the deal `proposal_id` to court: see `Proposal.file_dispute` for `reason`, `nonce` and what it
        raises.

        `reveal=False` stops after the commitment. `dispute.reveal()` goes on, or `reveal_dispute` with what
        `dispute.nonce` was, before the hall's deadline. Returns the Dispute.
        """
        return await self._court.file(proposal_id, reason, nonce, timeout, reveal=reveal)

    async def reveal_dispute(self, proposal_id: str, nonce: str, *, timeout: float | None = None) -> Dispute:
        """Show the `nonce` that the dispute about `proposal_id` was filed with: the panel is drawn.

        Returns the Dispute. Raises DisputeNotFound, DisputeNotParty, DisputeCommitmentMismatch,
        DisputeInvalidPhase, or DisputeDeadlinePassed.
        """
        return await self._court.reveal(proposal_id, nonce, timeout)

    async def submit_evidence(
        self, dispute_id: str, items: Items, statement: str = "", *, timeout: float | None = None
    ) -> None:
        """Show evidence without waiting for the evidence period: see `Dispute.submit` for `items`, `statement` and
        what it raises. `dispute_id` is the case.
        """
        await self._court.submit(dispute_id, items, statement, timeout)

    async def accept_case(self, dispute_id: str, *, timeout: float | None = None) -> None:
        """Be an arbiter of the case `dispute_id`, which the agent was drawn for.

        Raises DisputeNotFound, DisputeNotArbiter, DisputeInvalidPhase, or DisputeDeadlinePassed.
        """
        await self._court.accept(dispute_id, timeout)

    async def decline_case(
        self, dispute_id: str, reason: str | None = None, *, timeout: float | None = None
    ) -> None:
        """Let another arbiter be drawn for the case `dispute_id`; `reason` is for the file.

        Raises what `accept_case` raises.
        """
        await self._court.decline(dispute_id, reason, timeout)

    async def vote(
        self, dispute_id: str, verdict: str, reasoning: str = "", *, timeout: float | None = None
    ) -> None:
        """Vote as an arbiter that accepted the case `dispute_id`.

        `verdict` is "disputant", "respondent", or "mutual" for the fault of both; `reasoning` is for all to
        read. Raises what `accept_case` raises, and UsageError for another verdict.
        """
        await self._court.vote(dispute_id, verdict, reasoning, timeout)

    async def disputes(
        self, *, open_only: bool = True, limit: int = 100, timeout: float | None = None
    ) -> list[Dispute]:
        """Return the cases the agent has a part in, as a party or an arbiter, newest first, at most `limit` of
        them.

        Those that are not over, or with `open_only=False` all. Raises VerificationRequired without an identity.
        """
        return await self._court.listed(limit, timeout, open_only=open_only)

    async def case_file(self, case_id: str, *, timeout: float | None = None) -> dict[str, Any]:
        """Return the whole file of a case the agent has a part in.

        `case_id` is the id of the dispute or of its deal. Raises DisputeNotFound, or DisputeNotParty.
        """
        return await self._court.case_file(case_id, timeout)

    # -- skills and ratings ------------------------------------------------------------------------

    async def register_skills(
        self,
        skills: str | Mapping[str, Any] | Iterable[Mapping[str, Any] | str],
        *,
        timeout: float | None = None,
    ) -> int:
        """Offer these `skills`, and no others any more. Signed, so the agent needs an identity.

        A skill is a dict with `capability` and perhaps `description`, `rate`, `currency` and others; a text is
        a skill that has only a name. One skill needs no list. Returns how many they are. Raises
        SignatureRequired.
        """
        draft = client.RegisterSkills(skills=deals.skill_list(skills), sig=UNSIGNED)
        return await self._deals.register(draft, timeout)

    async def search_skills(
        self,
        capability: str | None = None,
        *,
        max_rate: float | None = None,
        currency: str | None = None,
        limit: int | None = None,
        timeout: float | None = None,
    ) -> list[SkillOffer]:
        """Return the offers of a skill, the best rated first, at most `limit` of them.

        `capability` is a part of its name, `max_rate` and `currency` what it may cost. A skill that names no
        rate, or no currency, is found whatever is asked for. Raises UnexpectedReply when the hall's answer
        makes no sense.
        """
        wanted = {"capability": capability, "max_rate": max_rate, "currency": currency, "limit": limit}
        query = as_json({name: value for name, value in wanted.items() if value is not None}, "the query")
        query_id = secrets.token_hex(8)
        reply = await self._exchange.ask(
            client.SearchSkills(query=query, query_id=query_id),
            market.SearchResults,
            lambda body: body.query_id == query_id,
            patience=timeout,
        )
        try:
            return [ratings.skill_offer(result) for result in reply.results]
        except ValidationError as error:
            raise UnexpectedReply(f"the hall found a skill that makes no sense: {error}") from None

    async def rating(
        self, agent: str | None = None, *, history: int = 20, timeout: float | None = None
    ) -> Rating:
        """Return how `agent` stands, by default oneself, and its latest `history` steps. Raises AgentNotFound."""
        address = None if agent is None else f"@{bare_id(agent)}"
        reply = await self._exchange.ask(
            client.GetRating(agent=address, limit=history), market.Ratings, patience=timeout
        )
        return ratings.rating(reply)

    async def leaderboard(self, limit: int = 10, *, timeout: float | None = None) -> list[RankedAgent]:
        """Return the `limit` best rated agents. Raises nothing of its own."""
        reply = await self._exchange.ask(
            client.GetLeaderboard(limit=limit), market.Leaderboard, patience=timeout
        )
        return ratings.ranking(reply)

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

    def admin(self, key: str) -> Admin:
        """Return the operations of the hall's operator, who knows the `key`."""
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

"""What comes from the hall, and where it goes: handlers, iterators, turns, and requests for history."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final
from weakref import WeakSet

from moothall.client import events
from moothall.client.board import Change
from moothall.client.court import Court
from moothall.client.deals import Deals
from moothall.client.delivery import Deliveries
from moothall.client.events import (
    Departure,
    FloorChange,
    Gap,
    Member,
    MissedIn,
    NickChange,
    PresenceChange,
    Typing,
)
from moothall.client.handlers import Handlers
from moothall.client.inbox import Inbox
from moothall.client.incoming import Incoming, Yield
from moothall.client.logs import log
from moothall.client.memory import Key, Memory, Replayed, key_of
from moothall.client.message import Message
from moothall.client.ratings import moment
from moothall.client.requests import Exchange, Request
from moothall.client.session import Session
from moothall.client.speech import Speech
from moothall.client.transfers import Transfers
from moothall.errors import ConnectionLost, MoothallError
from moothall.identity import PrivateKey
from moothall.wire.agentchat import client, server
from moothall.wire.agentchat.signing import is_peer_nonce

EVERYTHING: Final = "*"  # on_event("*")
AS_OBJECTS: Final = 10  # times as many bytes as JSON

MAX_PROOFS: Final = 16  # under way at once; more requests are not answered

PeerProof = server.VerifySuccess | server.VerifyFailed


class PeerProofs:
    """Outcomes of VERIFY_REQUEST, which come some time after its reply."""

    def __init__(self) -> None:
        self._expected = 0
        self._outcomes: dict[str, asyncio.Future[PeerProof]] = {}

    @asynccontextmanager
    async def expected(self) -> AsyncIterator[None]:
        """Keep what arrives meanwhile, even if it comes before it is known what to wait for."""
        self._expected += 1
        try:
            yield
        finally:
            self._expected -= 1
            if not self._expected:
                self._outcomes.clear()

    async def of(self, request_id: str) -> PeerProof:
        return await self._outcome(request_id)

    def arrived(self, proof: PeerProof) -> None:
        if self._expected and not (outcome := self._outcome(proof.request_id)).done():
            outcome.set_result(proof)

    def fail(self, error: Callable[[], Exception]) -> None:
        for outcome in self._outcomes.values():
            if not outcome.done():
                outcome.set_exception(error())
                outcome.exception()  # retrieved: its caller may have given up

    def _outcome(self, request_id: str) -> "asyncio.Future[PeerProof]":
        outcome = self._outcomes.get(request_id)
        if outcome is None:
            outcome = self._outcomes[request_id] = asyncio.get_running_loop().create_future()
        return outcome


class _Asker:
    """A request for the replay of a channel."""

    def __init__(self) -> None:
        self.collected: dict[Key, Replayed] = {}

    def collect(self, key: Key, replayed: Replayed) -> None:
        """If two ask at once, each gets every message once, in the order in which it came last."""
        self.collected.pop(key, None)
        self.collected[key] = replayed


class Dispatch:
    """Hears every frame of a connection, in order."""

    def __init__(self, session: Session, memory: Memory, handlers: Handlers, key: PrivateKey | None) -> None:
        self._session = session
        self._memory = memory
        self._handlers = handlers
        self._key = key
        self._proofs = 0
        self._asking: dict[str, set[_Asker]] = {}  # by channel
        self._inboxes: WeakSet[Inbox] = WeakSet()
        self._last_nick: NickChange | None = None
        self._missed: list[Message] = []
        self._warned = False
        self.peer_proofs = PeerProofs()
        self._listeners: dict[type, Callable[[Any], None]] = {
            Yield: self._hear_yield,
            server.AdminResult: self._hear_admin,
            server.AgentJoined: self._hear_arrival,
            server.AgentLeft: self._hear_departure,
            server.FloorClaimed: self._hear_claim,
            server.FloorReleased: self._hear_release,
            server.Gap: self._hear_gap,
            server.Joined: self._hear_joined,
            server.Left: self._hear_left,
            server.MotdUpdate: self._hear_motd,
            server.NickChanged: self._hear_nick,
            server.PresenceChanged: self._hear_presence,
            server.RespondingNotice: self._hear_responding,
            server.TypingNotice: self._hear_typing,
            server.VerifyFailed: self._hear_failure,
            server.VerifyRequestNotice: self._hear_request,
            server.VerifySuccess: self._hear_success,
        }

    def attach(
        self,
        speech: Speech,
        exchange: Exchange,
        deliveries: Deliveries,
        deals: Deals,
        court: Court,
        transfers: Transfers,
    ) -> None:
        """Connect the parts that take replies, receipts, deals, disputes and files."""
        self._speech = speech
        speech.turns.changed = self._tell_floor
        self._exchange = exchange
        self._deliveries = deliveries
        self._deals = deals
        self._court = court
        self._transfers = transfers
        self._listeners.update(deliveries.listeners)
        self._listeners.update(deals.listeners)
        self._listeners.update(transfers.listeners)
        self._listeners.update(court.listeners)

    def begin(self) -> None:
        """A new stay in a hall."""
        self._warned = False

    def subscribe(self, inbox: Inbox) -> None:
        self._inboxes.add(inbox)

    def lost(self, error: MoothallError) -> None:
        """The connection is gone, and with it what was still to come."""
        self._speech.turns.lost_sight()
        self.peer_proofs.fail(lambda: ConnectionLost(str(error)))

    def end(self, error: BaseException | None) -> None:
        self._speech.turns.lost_sight()
        self.peer_proofs.fail(lambda: ConnectionLost("the agent left the hall"))
        self._deliveries.end(error)
        self._deals.end(error)
        self._court.end(error)
        self._transfers.end(error)
        for inbox in list(self._inboxes):
            inbox.end(error)

    # -- asking a channel to repeat itself ---------------------------------------------------------

    async def ask_again(
        self, exchange: Exchange, channel: str, patience: float | None = None
    ) -> list[Replayed]:
        """Join, perhaps for the second time, and collect the history; it comes before JOINED or after it."""
        asker = _Asker()
        askers = self._asking.setdefault(channel, set())
        askers.add(asker)
        try:
            await enter(exchange, channel, patience)
            await exchange.ask(client.Ping(), server.Pong, patience=patience)
        finally:
            askers.remove(asker)
            if not askers:
                del self._asking[channel]
        return list(asker.collected.values())

    def forget(self, channel: str) -> None:
        """The agent left it: when it comes back, what it finds there is news."""
        self._memory.forget(channel)

    def remember(self, replayed: Iterable[Replayed]) -> None:
        """Mark replayed messages as heard: the request for history has returned them."""
        for message, _ in replayed:
            self._memory.hear(message.to, key_of(message), message.ts_ms)

    # -- what arrives ------------------------------------------------------------------------------

    def welcomed(self, welcome: server.Welcome) -> None:
        self._session.welcomed(welcome)
        self._deals.welcomed()
        self._court.welcomed()
        self._transfers.welcomed()

    def heard(self, incoming: Incoming) -> None:
        body = incoming.body
        if isinstance(body, server.Chat):
            self._hear_message(body, incoming.payload)
        elif (hear := self._listeners.get(type(body))) is not None:
            hear(body)
        for wanted in (incoming.type, EVERYTHING):
            if self._handlers.listens_for(wanted):
                self._handlers.tell(wanted, incoming.raw, AS_OBJECTS * len(incoming.payload))

    def _hear_message(self, chat: server.Chat, payload: bytes) -> None:
        message = Message(chat, payload, self._speech)
        is_own = self._session.is_own(message.sender)
        is_news = True
        if (channel := message.channel) is not None:
            key = key_of(message)
            turns = self._speech.turns
            if is_own and message.id is not None:
                turns.wrote(message.id)
            elif message.is_replay and message.in_reply_to is not None:
                turns.heard_of_answer(channel, message.in_reply_to, message.sender)
            if message.is_replay and channel in self._asking:
                is_news = not is_own and not self._memory.knows(channel, key)
                for asker in self._asking[channel]:
                    asker.collect(key, Replayed(message, is_news))
                return
            is_news = self._memory.hear(channel, key, message.ts_ms)
            if is_news and not is_own and not message.is_replay:
                turns.heard(message.asked)
        elif message.is_from_server:
            self._court.hinted()
        elif not is_own and self._transfers.hear(message):
            return
        if is_news and not is_own:
            if message.wants_receipt and message.id is not None:
                self._deliveries.asked(message.id)
            self.pass_on(message)

    def pass_on(self, message: Message) -> None:
        """Pass it on to the handlers and iterators that want it."""
        if message.is_from_server and not message.is_replay:
            self._handlers.tell("on_server_message", message, AS_OBJECTS * len(message.content))
        names = self._session.names()
        if not self._handlers.hear(message, names):
            self.miss(message)
        for inbox in tuple(self._inboxes):
            if inbox.wants(message):
                inbox.put(message)

    # -- everything else, one method for each kind -------------------------------------------------

    def _hear_joined(self, body: server.Joined) -> None:
        self._session.rooms.add(body.channel)
        members = (Member.from_entry(entry) for entry in body.agents)
        self._speech.turns.members.fill(body.channel, ((member.id, member.name) for member in members))

    def _hear_left(self, body: server.Left) -> None:
        self._session.rooms.discard(body.channel)
        self._speech.turns.members.forget(body.channel)

    def _hear_arrival(self, body: server.AgentJoined) -> None:
        self._speech.turns.members.enter(body.channel, body.agent, body.name)
        if self._handlers.listens_for("on_join"):
            self._handlers.tell("on_join", events.arrival(body))

    def _hear_departure(self, body: server.AgentLeft) -> None:
        self._speech.turns.heard_departure(body.channel, body.agent)
        self._speech.turns.members.leave(body.channel, body.agent)
        if self._handlers.listens_for("on_leave"):
            self._handlers.tell("on_leave", Departure(body.channel, body.agent, body.name))

    def _hear_presence(self, body: server.PresenceChanged) -> None:
        budget = events.budget(body.budget)
        change = PresenceChange(body.agent_id, body.name, body.presence, body.status_text, budget)
        self._handlers.tell("on_presence", change)

    def _hear_nick(self, body: server.NickChanged) -> None:
        self._session.renamed(body)
        self._speech.turns.members.rename(body.agent_id, body.new_nick)
        change = NickChange(body.agent_id, body.old_nick, body.new_nick)
        # A hall says it once for every channel that one shares (agentchat wire 5.1).
        if change != self._last_nick:
            self._last_nick = change
            self._handlers.tell("on_nick", change)

    def _hear_typing(self, body: server.TypingNotice) -> None:
        self._handlers.tell("on_typing", Typing(body.channel, body.from_, body.from_name))

    def _hear_responding(self, body: server.RespondingNotice) -> None:
        self._speech.turns.heard_claim(body.channel, body.msg_id, body.from_, body.started_at)

    def _hear_claim(self, body: server.FloorClaimed) -> None:
        turns = self._speech.turns
        turns.heard_claim(body.channel, body.msg_id, body.holder, body.started_at, granted=True)

    def _hear_release(self, body: server.FloorReleased) -> None:
        is_expired = body.reason == "expired"
        self._speech.turns.heard_release(body.channel, body.msg_id, body.from_, is_expired=is_expired)

    def _hear_yield(self, body: Yield) -> None:
        started_at = body.holder_started_at or 0
        self._speech.turns.heard_yield(body.channel, body.msg_id, body.speaker, started_at)

    def _tell_floor(self, change: Change) -> None:
        if self._handlers.listens_for("on_floor"):
            channel, msg_id = change.key
            address = f"@{change.holder}"
            name = self._speech.turns.members.name(channel, address)
            self._handlers.tell("on_floor", FloorChange(channel, msg_id, address, name, change.state))

    def _hear_motd(self, body: server.MotdUpdate) -> None:
        self._session.motd = body.motd

    def _hear_admin(self, body: server.AdminResult) -> None:
        self._session.judged(body)

    def _hear_success(self, body: server.VerifySuccess) -> None:
        if body.agent is not None:  # else it is about a proof of one's own
            self.peer_proofs.arrived(body)

    def _hear_failure(self, body: server.VerifyFailed) -> None:
        if body.target is not None:
            self.peer_proofs.arrived(body)

    # -- too much to hear --------------------------------------------------------------------------

    def miss(self, message: Message) -> None:
        """A message found no room. All that are lost in one go are reported as one gap."""
        if not self._missed:
            asyncio.get_running_loop().call_soon(self._report_missed)
        self._missed.append(message)

    def _report_missed(self) -> None:
        missed, self._missed = self._missed, []
        by_place: dict[str, list[Message]] = {}
        for message in missed:
            by_place.setdefault(message.reply_to, []).append(message)
        channels = {place: MissedIn(tuple(lost), complete=True) for place, lost in by_place.items()}
        self.report(Gap(missed[0].ts, missed[-1].ts, "slow consumer", channels))

    def _hear_gap(self, body: server.Gap) -> None:
        """The hall says that messages of a channel are missing."""
        if body.channel is not None:
            at = moment(body.ts)
            self.report(Gap(at, at, "hall", {body.channel: MissedIn((), complete=False)}))

    def report(self, gap: Gap) -> None:
        """Tell `on_gap`. Without a handler, log the first gap that lost messages."""
        if self._handlers.listens_for("on_gap"):
            self._handlers.tell("on_gap", gap)
        elif not self._warned and (gap.missed or not gap.complete):
            self._warned = True
            log.warning("messages may have been missed (%s): on_gap tells which", gap.reason)

    # -- proving one's key -------------------------------------------------------------------------

    def _hear_request(self, request: server.VerifyRequestNotice) -> None:
        if request.nonce is None or self._key is None:
            return
        if not is_peer_nonce(request.nonce):
            log.warning(
                "refused to sign a nonce of %s: it is not 32 lower-case hex digits, so the signature could be"
                " used as something else",
                request.from_,
            )
        elif self._proofs < MAX_PROOFS:
            self._proofs += 1
            proof = self._send_proof(self._key, request.request_id, request.nonce)
            self._handlers.start(proof).add_done_callback(self._proved)

    async def _send_proof(self, key: PrivateKey, request_id: str, nonce: str) -> None:
        response = client.VerifyResponse(request_id=request_id, nonce=nonce, sig=key.sign(nonce))
        try:
            await self._exchange.request(Request(response, lambda body: _is_outcome(body, request_id)))
        except MoothallError as error:
            log.info("the proof for another agent came to nothing: %s", error)

    def _proved(self, _: "asyncio.Task[object]") -> None:
        self._proofs -= 1


def _is_outcome(body: server.ServerMessage, request_id: str) -> bool:
    return isinstance(body, server.VerifySuccess | server.VerifyFailed) and body.request_id == request_id


async def enter(exchange: Exchange, channel: str, patience: float | None = None) -> server.Joined:
    return await exchange.ask(
        client.Join(channel=channel),
        server.Joined,
        lambda body: body.channel == channel,
        patience=patience,
    )

"""A small hall that speaks the mesh, for what a real one does not do: it lies, repeats itself, and is silent."""

from base64 import b64encode
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from msgspec import UnsetType, structs
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from moothall.errors import OutOfOrder
from moothall.hall.mesh import frames
from moothall.identity import PrivateKey, verify
from moothall.market.conversation_rules import decide
from moothall.market.conversations import Conversation
from moothall.market.mesh import step_of
from moothall.wire.agentchat.signing import bound_nonce
from moothall.wire.mesh.announcements import Discover
from moothall.wire.mesh.envelope import NO_RECIPIENT, Envelope, decode
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.validation import prove

HALL_KEY = PrivateKey(bytes([7]) * 32)

Refuse = Callable[[Envelope], tuple[str, str] | None]


class SmallHall:
    """`async with SmallHall() as hall`: agents connect to `hall.url`."""

    def __init__(self, key: PrivateKey = HALL_KEY) -> None:
        self.key = key
        self.challenge_key = key.public.raw.hex()
        self.floor = 0
        self.change_shown: Callable[[frames.ConversationShown], frames.ConversationShown] = lambda shown: (
            shown
        )
        self.host = ""  # that it says it has; without one, what the agent dialled
        self.taken: list[Envelope] = []
        self.asked: list[frames.Frame] = []
        self.conversations: dict[bytes, Conversation] = {}
        self.log: dict[bytes, list[bytes]] = {}
        self.inbox: dict[bytes, dict[int, bytes]] = {}
        self.lost = 0
        self.reputation: frames.Reputation | None = None  # of every agent
        self.escrow: frames.EscrowSummary | None = None  # of every conversation
        self.results: list[dict[str, object]] = []
        self.refuse: Refuse = lambda _: None
        self.is_silent = False
        self.lines: dict[bytes, set[ServerConnection]] = {}
        self._cursor = 0
        self._server: Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await serve(self._serve, "127.0.0.1", 0, subprotocols=[frames.SUBPROTOCOL])  # type: ignore[list-item]
        port = next(iter(self._server.sockets)).getsockname()[1]
        self.url = f"ws://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    def drop(self, agent: bytes) -> None:
        for line in self.lines.get(agent, set()):
            line.transport.abort()

    async def push(self, agent: bytes, content: bytes | frames.Frame) -> None:
        """Bring an envelope or a notice to an agent."""
        is_envelope = isinstance(content, bytes)
        data = content if isinstance(content, bytes) else frames.encode_frame(content)
        for line in list(self.lines.get(agent, set())):
            await line.send(data, text=not is_envelope)

    def keep(self, agent: bytes, raw: bytes) -> None:
        self._cursor += 1
        self.inbox.setdefault(agent, {})[self._cursor] = raw

    async def _serve(self, line: ServerConnection) -> None:
        agent = b""
        try:
            agent = await self._meet(line)
            self.lines.setdefault(agent, set()).add(line)
            async for content in line:
                if isinstance(content, bytes):
                    await self._take(line, agent, content)
                else:
                    answer = self._answer(agent, frames.decode_agent_frame(content))
                    await line.send(frames.encode_frame(answer), text=True)
        except ConnectionClosed:
            pass
        finally:
            self.lines.get(agent, set()).discard(line)

    async def _meet(self, line: ServerConnection) -> bytes:
        first = frames.decode_agent_frame(await line.recv())
        assert isinstance(first, frames.Prove)
        assert first.agent_id is not None
        assert first.acks
        random, host = "ab" * 16, self.host or line.request.headers["Host"] if line.request else ""
        nonce = bound_nonce(self.challenge_key, random, host)
        challenge = frames.Challenge(challenge=nonce, hall=self.challenge_key, random=random, host=host)
        await line.send(frames.encode_frame(challenge), text=True)
        second = frames.decode_agent_frame(await line.recv())
        assert isinstance(second, frames.Prove)
        assert second.signature is not None
        text = frames.proof_text(nonce, self.challenge_key, first.agent_id)
        agent = bytes.fromhex(first.agent_id)
        assert verify(agent, text, bytes.fromhex(second.signature))
        proven = frames.Proven(agent_id=first.agent_id, cursor=self._cursor, floor=self.floor)
        await line.send(frames.encode_frame(proven), text=True)
        return agent

    async def _take(self, line: ServerConnection, agent: bytes, raw: bytes) -> None:
        envelope = decode(raw)
        prove(envelope, verify)
        assert envelope.sender == agent
        self.taken.append(envelope)
        if self.is_silent and envelope.msg_type is not MsgType.BEACON:
            return
        told: dict[str, Any] = {"msg_type": envelope.msg_type.name, "nonce": envelope.nonce}
        named = envelope.conversation_id.hex()
        if (refused := self.refuse(envelope)) is not None:
            fault, reason = refused
            await line.send(
                frames.encode_frame(frames.Refused(fault=fault, reason=reason, **told)), text=True
            )
            return
        state: str | None = None
        if envelope.recipient != NO_RECIPIENT or envelope.msg_type is MsgType.FEEDBACK:
            step = step_of(envelope)
            known = self.conversations.get(step.conversation_id)
            try:
                after = decide(known, step)
            except OutOfOrder as error:
                at = "IDLE" if known is None else known.state
                wrong = frames.NotInOrder(conversation_id=named, state=at, reason=str(error), **told)
                await line.send(frames.encode_frame(wrong), text=True)
                return
            state = after.state
            self.conversations[step.conversation_id] = after
            self.log.setdefault(step.conversation_id, []).append(raw)
        await self._route(line, envelope, raw)
        accepted = frames.Accepted(conversation_id=named, state=state, **told)
        await line.send(frames.encode_frame(accepted), text=True)
        if envelope.msg_type is MsgType.DISCOVER:
            query = Discover.decode(envelope.payload).query
            await line.send(
                frames.encode_frame(frames.DiscoverResults(query=query, results=self.results)), text=True
            )

    async def _route(self, line: ServerConnection, envelope: Envelope, raw: bytes) -> None:
        if envelope.recipient == NO_RECIPIENT:
            others = [each for lines in self.lines.values() for each in lines if each is not line]
        else:
            others = list(self.lines.get(envelope.recipient, set()))
            if not others:
                self.keep(envelope.recipient, raw)
                away = frames.Offline(
                    recipient=envelope.recipient.hex(),
                    msg_type=envelope.msg_type.name,
                    nonce=envelope.nonce,
                    conversation_id=envelope.conversation_id.hex(),
                    stored=True,
                )
                await line.send(frames.encode_frame(away), text=True)
        for other in others:
            await other.send(raw)

    def _answer(self, agent: bytes, question: frames.AgentFrame) -> frames.Frame:
        self.asked.append(question)
        ref = question.ref
        if isinstance(question, frames.ReadInbox):
            kept = self.inbox.setdefault(agent, {})
            for cursor in [each for each in kept if question.after is not None and each <= question.after]:
                del kept[cursor]
            page = tuple(
                frames.Kept(cursor=cursor, envelope=b64encode(raw).decode())
                for cursor, raw in list(kept.items())[: question.limit]
            )
            lost, self.lost = self.lost, 0
            last = page[-1].cursor if page else (question.after or 0)
            return frames.Inbox(ref=ref, envelopes=page, cursor=last, more=False, lost=lost)
        if isinstance(question, frames.ShowConversation):
            return self._shown(bytes.fromhex(question.conversation_id), ref)
        if isinstance(question, frames.Subscribe | frames.Unsubscribe):
            return frames.Subscribed(ref=ref, topics=(question.topic,))
        if isinstance(question, frames.AskBalance):
            return frames.Balance(ref=ref, agent_id=agent.hex(), balance=5_000_000)
        if isinstance(question, frames.Cancel):
            text = question.text(self.key.public.raw.hex())
            assert verify(agent, text, bytes.fromhex(question.signature))
            return frames.Cancelled(ref=ref, conversation_id=question.conversation_id, state="CLOSED")
        if isinstance(question, frames.Consent):
            return frames.Consented(ref=ref, conversation_id=question.conversation_id, state="DELIVERED")
        if isinstance(question, frames.ListConversations):
            return self._listed(agent, question)
        if isinstance(question, frames.AskReputation) and self.reputation is not None:
            return structs.replace(self.reputation, ref=ref, agent_id=question.agent_id or agent.hex())
        return frames.Error(ref=ref, code="UNKNOWN_TYPE", message="The hall does not know this question")

    def _listed(self, agent: bytes, question: frames.ListConversations) -> frames.Frame:
        """The latest first; `before` counts those that are still to come."""
        own = [each for each in self.conversations.values() if agent in each.participants]
        rest = len(own) if question.before is None else int(question.before, 16)
        start = max(0, rest - question.limit)
        page = [_summary(each) for each in reversed(own[start:rest])]
        return frames.Conversations(
            ref=question.ref,
            conversations=tuple(each for each in page if not question.open_only or each.state != "CLOSED"),
            before=f"{start:032x}" if start else None,
        )

    def _shown(self, named: bytes, ref: str | UnsetType) -> frames.Frame:
        facts = self.conversations.get(named)
        if facts is None:
            return frames.Error(ref=ref, code="AGENT_NOT_FOUND", message="There is no such conversation")
        summary = _summary(facts)
        history = tuple(_logged(raw) for raw in self.log.get(named, []))
        shown = frames.ConversationShown(
            ref=ref,
            conversation=summary,
            offered_by=facts.offered_by.hex(),
            verdict=facts.verdict,
            escrow=self.escrow,
            history=history,
        )
        return self.change_shown(shown)


def _summary(facts: Conversation) -> frames.ConversationSummary:
    return frames.ConversationSummary(
        conversation_id=facts.id.hex(),
        state=facts.state,
        requester=facts.requester.hex(),
        provider=facts.provider.hex(),
        amount=facts.amount,
        notary=None if facts.notary is None else facts.notary.hex(),
        elsewhere=facts.elsewhere,
        updated_at=facts.updated_at,
    )


def _logged(raw: bytes) -> frames.Logged:
    envelope = decode(raw)
    return frames.Logged(
        msg_type=envelope.msg_type.name,
        sender=envelope.sender.hex(),
        timestamp=envelope.timestamp,
        hash=keccak256(raw).hex(),
        envelope=b64encode(raw).decode(),
    )

"""A made-up world with mesh agents in it: see `tests.support.world`.

town = Town()
alice, bob = town.present("alice"), town.present("bob")
alice.send(MsgType.PROPOSE, b"", to=bob)
assert bob.envelopes()[-1].sender == alice.id
"""

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from moothall.errors import Refusal
from moothall.hall.checking import Arrival, Checks, Source
from moothall.hall.gate import Gate
from moothall.hall.mesh.frames import Answer, Notice, Offline, Question, proof_text
from moothall.hall.mesh.inbox import Inboxes, MemoryInboxes
from moothall.hall.mesh.market import Carried, Payer, Told
from moothall.hall.mesh.own_envelopes import OwnEnvelopes
from moothall.hall.mesh.presence import Caller, Presence, Publish, Refuse
from moothall.hall.mesh.room import MeshRoom
from moothall.hall.outside import Written
from moothall.identity import PrivateKey
from moothall.identity.signatures import verify
from moothall.wire.mesh.announcements import Beacon
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import (
    MICROSECONDS,
    NO_CONVERSATION,
    NO_RECIPIENT,
    Envelope,
    decode,
    encode,
    seal,
)
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.outgoing import Bundle, Outgoing
from tests.support.world import HALL_KEY, World

CONVERSATION = bytes(range(16))
BATCH = 8  # messages of one connection that are checked at a time


class MeshLink:
    """Takes frames as a WebSocket would. After its end it takes nothing."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []  # as they were given: the same object for all receivers
        self.closed: tuple[int, str] | None = None
        self.paused = False
        self.unread = 0

    def put(self, outgoing: Outgoing | Bundle) -> None:
        if self.closed is None:
            assert outgoing.frame is not None
            self.frames.append(outgoing.frame)

    def when_written(self, told: Written) -> None:
        told(self.closed is None)

    def close(self, code: int, reason: str) -> None:
        if self.closed is None:
            self.closed = (code, reason)

    def pause(self) -> None:
        assert not self.paused
        self.paused = True

    def resume(self) -> None:
        self.paused = False


def payload_of(frame: bytes) -> tuple[bool, bytes]:
    """Whether it is text, and what is in it (RFC 6455, 5.2)."""
    assert frame[0] in (0x81, 0x82)
    start = {126: 4, 127: 10}.get(frame[1], 2)
    return frame[0] == 0x81, frame[start:]


class PromptChecks:
    """Checks and handles at once what is ready, a few messages of each connection at a time."""

    def __init__(self) -> None:
        self._ready: list[Source] = []
        self.is_at_work = False
        self.is_stopped = False
        self.verified = 0

    def ready(self, source: Source) -> None:
        if not source.listed:
            source.listed = True
            self._ready.append(source)
        if not self.is_stopped:
            self.run()

    def run(self) -> None:
        if self.is_at_work:
            return
        self.is_at_work = True
        while self._ready:
            source = self._ready.pop(0)
            source.listed = False
            if source.held or source.closing:
                continue
            batch: list[Arrival] = []
            source.take(batch, BATCH)
            for arrival in batch:
                if arrival.proof is not None:
                    self.verified += 1
                    arrival.valid = verify(arrival.proof.key, arrival.proof.message, arrival.proof.signature)
            for arrival in batch:
                if source.checked or source.held:
                    source.checked.append(arrival)
                else:
                    source.handle(arrival)
            if source.has_waiting and not source.held:
                source.listed = True
                self._ready.append(source)
        self.is_at_work = False


class MemoryDealings:
    """A market that takes everything, unless a test says otherwise."""

    def __init__(self) -> None:
        self.taken: list[tuple[Envelope, bool]] = []  # with `is_away`
        self.proven: list[Envelope] = []  # of those taken
        self.provers: list[bytes] = []
        self.abroad: list[tuple[Envelope, bytes]] = []  # of those taken, with the key that peers reach
        self.advertised: list[tuple[Envelope, str]] = []
        self.recorded: list[Envelope] = []
        self.here: set[bytes] = set()
        self.payers: list[Payer] = []
        self.told = Told(state="NEGOTIATING")
        self.answer: Answer | None = None
        self.asked: list[tuple[bytes, Question]] = []
        self.found: list[dict[str, Any]] = []
        self.queries: list[str] = []
        self.error: BaseException | None = None
        self.waiting: list[Callable[[], None]] | None = None  # a list: the disk takes its time
        self.changed: Callable[[tuple[bytes, ...], Notice | Offline], None]
        self.carried: Carried

    def proved(self, key: bytes) -> None:
        self.provers.append(key)

    def is_known(self, key: bytes, done: Any, failed: Any) -> None:
        self._end(done, failed, key in self.provers)

    def take(
        self,
        envelope: Envelope,
        raw: bytes,
        payer: Payer,
        done: Any,
        failed: Any,
        *,
        is_away: bool,
        is_proven: bool,
        abroad: bytes | None = None,
    ) -> None:
        assert encode(envelope) == raw
        if abroad is not None:
            self.abroad.append((envelope, abroad))
        self.taken.append((envelope, is_away))
        if is_proven:
            self.proven.append(envelope)
        self.payers.append(payer)
        self._end(done, failed, self.told)

    def advertise(
        self, envelope: Envelope, raw: bytes, payer: Payer, name: str, done: Any, failed: Any
    ) -> None:
        self.advertised.append((envelope, name))
        self._end(done, failed)

    def discover(self, query: str, done: Any, failed: Any) -> None:
        self.queries.append(query)
        self._end(done, failed, self.found)

    def record(self, envelope: Envelope, raw: bytes, payer: Payer) -> None:
        assert encode(envelope) == raw
        self.recorded.append(envelope)

    def present(self, key: bytes, *, is_here: bool) -> None:
        if is_here:
            self.here.add(key)
        else:
            self.here.remove(key)

    def ask(self, key: bytes, question: Question, payer: Payer, done: Any, failed: Any) -> None:
        self.asked.append((key, question))
        self._end(done, failed, self.answer)

    def on_change(self, told: Callable[[tuple[bytes, ...], Notice | Offline], None]) -> None:
        self.changed = told

    def on_carried(self, told: Carried) -> None:
        self.carried = told

    def _end(self, done: Any, failed: Any, *result: Any) -> None:
        error = self.error

        def end() -> None:
            if error is not None:
                failed(error)
            else:
                done(*result)

        if self.waiting is None:
            end()
        else:
            self.waiting.append(end)


class MemoryPresence:
    """Knows who is here, and says no channel's lines."""

    def __init__(self) -> None:
        self.present: dict[Caller, tuple[bytes, str, bool]] = {}
        self.subscribed: set[tuple[Caller, str]] = set()
        self.banned: dict[bytes, Refusal] = {}
        self.chat_topics: set[str] = set()
        self.refusal: Refusal | None = None

    def admit(self, key: bytes) -> None:
        if key in self.banned:
            raise self.banned[key]

    def arrive(self, caller: Caller, key: bytes, name: str, *, proven: bool) -> None:
        self.present[caller] = (key, name, proven)

    def depart(self, caller: Caller) -> None:
        self.present.pop(caller, None)
        self.subscribed = {entry for entry in self.subscribed if entry[0] is not caller}

    def subscribe(self, caller: Caller, topic: str) -> None:
        self.subscribed.add((caller, topic))

    def unsubscribe(self, caller: Caller, topic: str) -> None:
        self.subscribed.discard((caller, topic))

    def audience(self, topic: str) -> int:
        return 1 if topic in self.chat_topics else 0

    def on_channels(self, said: Callable[[str, bytes], None], occupied: Callable[[str, bool], None]) -> None:
        self.said, self.occupied = said, occupied

    def broadcast(
        self,
        caller: Caller,
        message: Broadcast,
        raw: bytes,
        publish: Publish,
        refuse: Refuse,
    ) -> None:
        if self.refusal is not None:
            refuse(self.refusal)
        else:
            publish(raw, is_chat=message.topic in self.chat_topics)


def key_of(name: str) -> PrivateKey:
    return PrivateKey(sha256(name.encode()).digest())


class Signer:
    """A key, and the envelopes that it signs."""

    def __init__(self, town: "Town", name: str, key: PrivateKey | None = None) -> None:
        self._town = town
        self.name = name
        self.key = key or key_of(name)
        self.id = self.key.public.raw

    def seal(
        self,
        msg_type: MsgType,
        payload: bytes = b"",
        *,
        to: "Signer | bytes" = NO_RECIPIENT,
        conversation: bytes = NO_CONVERSATION,
    ) -> Envelope:
        nonce = self._town.nonce()
        return seal(
            msg_type,
            payload,
            sender=self.id,
            sign=self.key.sign_bytes,
            nonce=nonce,
            now=nonce,
            recipient=to if isinstance(to, bytes) else to.id,
            conversation_id=conversation,
        )


class Agent(Signer):
    """A mesh agent with one connection."""

    def __init__(self, town: "Town", name: str, ip: str, *, key: PrivateKey | None = None) -> None:
        super().__init__(town, name, key)
        self.link = MeshLink()
        guest = town.room.connect(self.link, ip)
        assert guest is not None
        self.guest = guest
        self._read = 0

    def send(self, msg_type: MsgType, payload: bytes = b"", **fields: Any) -> Envelope:
        envelope = self.seal(msg_type, payload, **fields)
        self.post(encode(envelope))
        return envelope

    def post(self, raw: bytes) -> None:
        self._town.room.receive_binary(self.guest, raw)

    def beacon(self, name: str | None = None) -> Envelope:
        return self.send(MsgType.BEACON, Beacon(self.id, self.name if name is None else name).encode())

    def propose(self, to: "Agent | bytes", conversation: bytes = CONVERSATION) -> Envelope:
        return self.send(MsgType.PROPOSE, bytes(16), to=to, conversation=conversation)

    def ask(self, **frame: Any) -> dict[str, Any]:
        """The one answer to a text frame."""
        self.tell(**frame)
        (answer,) = self.texts()
        return answer

    def tell(self, **frame: Any) -> None:
        self._town.room.receive(self.guest, json.dumps(frame).encode())

    def prove(self, *, acks: bool = False, receives: bool = True) -> dict[str, Any]:
        challenge = self.ask(type="prove", agent_id=self.id.hex(), acks=acks, receives=receives)
        text = proof_text(challenge["challenge"], challenge["hall"], self.id.hex())
        return self.ask(type="prove", signature=self.key.sign_bytes(text).hex())

    def leave(self) -> None:
        self.link.closed = (1000, "")
        self._town.room.disconnect(self.guest)

    def _new(self) -> list[tuple[bool, bytes]]:
        frames, self.link.frames = self.link.frames, []
        return [payload_of(frame) for frame in frames]

    def texts(self) -> list[dict[str, Any]]:
        """Text frames since the last look. Envelopes between them are dropped."""
        return [json.loads(payload) for is_text, payload in self._new() if is_text]

    def envelopes(self) -> list[Envelope]:
        """The same for envelopes."""
        return [decode(payload) for is_text, payload in self._new() if not is_text]

    def types(self) -> list[str]:
        """What arrived since the last look: the types of envelopes, and of text frames."""
        return [
            json.loads(payload)["type"] if is_text else decode(payload).msg_type.name
            for is_text, payload in self._new()
        ]


class Town(World):
    def __init__(self, *, inbox: bool = True, checks: Checks | None = None, **settings: Any) -> None:
        """`checks` are prompt ones, unless they are given."""
        super().__init__(**settings)
        self.dealings = MemoryDealings()
        self.presence = MemoryPresence()
        self.checks = PromptChecks()
        self.inboxes: Inboxes | None = MemoryInboxes(self.clock) if inbox else None
        self._nonce = 0
        own = OwnEnvelopes(HALL_KEY.public.raw, HALL_KEY.sign_bytes, self.clock.time)
        self.room = MeshRoom(
            Gate(self.hall),
            self.hall.door,
            checks or self.checks,
            self.dealings,
            self._presence(own),
            own,
            self.inboxes,
            lambda size: sha256(str(self.nonce()).encode()).digest()[:size],
        )

    def _presence(self, own: OwnEnvelopes) -> Presence:
        return self.presence

    def nonce(self) -> int:
        """A number that is later than the start, and never comes twice."""
        self._nonce = max(self._nonce + 1, int(self.clock.time() * MICROSECONDS) + 1)
        return self._nonce

    def connect_agent(self, name: str, ip: str = "192.0.2.7", *, key: PrivateKey | None = None) -> Agent:
        """A connection that has sent nothing."""
        return Agent(self, name, ip, key=key)

    def present(self, name: str, ip: str = "192.0.2.7", *, proven: bool = False) -> Agent:
        """An agent that sent its BEACON. All others have read it."""
        agent = self.connect_agent(name, ip)
        agent.beacon()
        if proven:
            agent.prove()
        return agent

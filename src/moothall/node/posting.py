"""Messages that agents of the node send: decided and kept first, then delivered (mesh wire 3.2, 6.3).

A letter is in the store until a peer has acknowledged it. After a crash it is sent again, with a new nonce: it may
arrive twice, and is never lost. A letter that failed twice is given up, and the program is told. Sending the same
message again continues the delivery. It is not a new step of its conversation.

A receiver of the reference takes only nonces that rise. So an envelope that waited while a later one left is made
anew, and so is one that waited too long. What is made anew is logged too.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeVar

from moothall.errors import NodeRefused
from moothall.hall.outside import Log, Store
from moothall.market.node_books import Letter
from moothall.network.outbox import CLOSING, MAX_UNHEARD, Outbox
from moothall.network.routes import Routes
from moothall.node.desk import Books, Desk, Posted, Taken
from moothall.node.reports import DeliveryFailed, Sent
from moothall.node.signers import Signers
from moothall.node.units import Done, Failed, awaited
from moothall.store.units import StoreFailed
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import (
    AGENT_ID_BYTES,
    CONVERSATION_ID_BYTES,
    MICROSECONDS,
    NO_RECIPIENT,
    Envelope,
    encode,
)
from moothall.wire.mesh.faults import PayloadParseError
from moothall.wire.mesh.msg_types import BILATERAL, NAMED_TOPIC, TOPICS, MsgType
from moothall.wire.mesh.validation import topic_of

MAX_PENDING: Final = 10_000  # letters without an ACK
FRESH: Final = 20 * MICROSECONDS  # an older envelope is made anew: receivers refuse it after 30 seconds
STRANDED: Final = 60_000  # ms for which a letter of the time before the start waits for a peer
TOPIC_AGE: Final = 10 * 60 * 1000  # ms after which a message to a topic is no news any more

NO_PEER: Final = "No peer is known for the recipient."
UNHEARD: Final = "No peer is in the topic."

Result = TypeVar("Result")


class _Marks:
    """The highest nonces of one sender that have left, while letters of it wait."""

    __slots__ = ("lanes", "pending", "published")

    def __init__(self) -> None:
        self.pending = 0
        self.published = 0
        self.lanes: dict[bytes, int] = {}  # by peer


class Posting:
    """`clock` is Unix microseconds, `now` milliseconds that never go back."""

    def __init__(
        self,
        store: Store[Books],
        desk: Desk,
        signers: Signers,
        routes: Routes,
        outbox: Outbox,
        *,
        own: bytes,
        clock: Callable[[], int],
        now: Callable[[], int],
        log: Log,
        kept: Callable[[Envelope, Taken, int], None],
        failed: Callable[[DeliveryFailed], None],
    ) -> None:
        """`own` is the agent of the node: it hears what hosted agents say to topics. `kept` hears of each message
        after its commit, with the time in ms; `failed` of each that was given up."""
        self._own = own
        self._store = store
        self._desk = desk
        self._signers = signers
        self._routes = routes
        self._outbox = outbox
        self._clock = clock
        self._now = now
        self._log = log
        self._kept = kept
        self._failed = failed
        self._marks: dict[bytes, _Marks] = {}
        self._topical: OrderedDict[int, Letter] = OrderedDict()  # that have not left yet
        self._stranded: dict[int, Letter] = {}
        self._stranded_until = 0
        self._pending = 0
        self.sent = 0
        self.given_up = 0

    @property
    def pending(self) -> int:
        """Letters that no peer has acknowledged."""
        return self._pending + len(self._topical) + len(self._stranded)

    # -- what agents ask -------------------------------------------------------------------------------

    async def send(
        self,
        sender: bytes,
        msg_type: MsgType,
        payload: bytes,
        recipient: bytes | None,
        conversation_id: bytes,
    ) -> Sent:
        """Waits for the commit. If the caller is cancelled, the message leaves all the same. Raises NodeRefused."""
        envelope = self._sealed(sender, msg_type, payload, recipient, conversation_id)
        return await awaited(lambda done, refused: self._send(envelope, done, refused))

    def _send(self, envelope: Envelope, done: Done[Sent], refused: Failed) -> None:
        raw = encode(envelope)
        here = self._here(envelope)
        at = self._clock() // 1000

        def work(books: Books) -> Posted:
            return self._desk.send(books, envelope, raw, at, here)

        def committed(posted: Posted) -> None:
            self.sent += 1
            self._kept(envelope, posted.taken, at)
            for letter in posted.letters:  # of two, one is the assignment of a notary
                self._deliver(letter, envelope if letter.is_logged else None)
            done(Sent(envelope.nonce, envelope.payload_hash))

        self._store.submit(work, committed, refused)

    def _here(self, envelope: Envelope) -> tuple[bytes, ...]:
        """Agents of this node that get an envelope of another one."""
        if envelope.recipient == NO_RECIPIENT:
            return () if envelope.sender == self._own else (self._own,)
        return (envelope.recipient,) if envelope.recipient in self._signers else ()

    def _sealed(
        self,
        sender: bytes,
        msg_type: MsgType,
        payload: bytes,
        recipient: bytes | None,
        conversation_id: bytes,
    ) -> Envelope:
        if msg_type is MsgType.BEACON:
            raise NodeRefused(400, "The node sends BEACONs by itself.")
        if len(conversation_id) != CONVERSATION_ID_BYTES:
            raise NodeRefused(400, f"A conversation id has {CONVERSATION_ID_BYTES} bytes.")
        if self.pending >= MAX_PENDING:
            raise NodeRefused(503, "Too many messages wait for their peers. Try again later.")
        to = NO_RECIPIENT
        if msg_type in BILATERAL:
            to = self._reachable(sender, recipient, conversation_id)
        envelope = self._signers.seal(
            sender, msg_type, payload, recipient=to, conversation_id=conversation_id
        )
        try:
            topic_of(envelope)
        except PayloadParseError as error:
            raise NodeRefused(400, f"The payload of this {msg_type.name} cannot be read: {error}.") from None
        return envelope

    def _reachable(self, sender: bytes, recipient: bytes | None, conversation_id: bytes) -> bytes:
        if recipient is None or len(recipient) != AGENT_ID_BYTES or recipient in (NO_RECIPIENT, sender):
            raise NodeRefused(400, "This type of message needs a recipient: the id of another agent.")
        if recipient not in self._signers and self._routes.find(recipient, conversation_id) is None:
            raise NodeRefused(
                503,
                f"no known peer_id for agent {recipient.hex()}: it is not connected, and no peer has passed on its"
                " BEACON. Wait for it, or connect to its node with --bootstrap.",
            )
        return recipient

    # -- letters of the time before the start ----------------------------------------------------------

    def revive(self, letters: list[Letter]) -> None:
        """They are sent when a peer is known for them."""
        self._stranded.update((letter.number, letter) for letter in letters)
        self._stranded_until = self._now() + STRANDED

    def tick(self) -> None:
        """Due every second."""
        if not self._stranded:
            return
        is_over = self._now() >= self._stranded_until
        for letter in list(self._stranded.values()):
            is_topical = letter.recipient == NO_RECIPIENT
            if letter.sender not in self._signers:
                self._stranded.pop(letter.number)
                self._give_up(letter, 0, "The session of the sender has ended.")
            elif is_topical and self._clock() // 1000 - letter.at > TOPIC_AGE:
                self._stranded.pop(letter.number)
                self._give_up(letter, 0, UNHEARD)
            elif is_topical or self._is_reachable(letter):
                self._stranded.pop(letter.number)
                self._deliver(letter, None)
            elif is_over:
                self._stranded.pop(letter.number)
                self._give_up(letter, 0, NO_PEER)

    def _is_reachable(self, letter: Letter) -> bool:
        return self._routes.find(letter.recipient, letter.conversation_id) is not None

    # -- how letters leave -----------------------------------------------------------------------------

    def _deliver(self, letter: Letter, envelope: Envelope | None) -> None:
        """`envelope` is what was decided and logged; None: make one when it leaves."""
        if letter.recipient == NO_RECIPIENT:
            self._publish(letter, envelope)
            return
        if letter.recipient in self._signers:
            self._bring(letter)
            return
        peer = self._routes.find(letter.recipient, letter.conversation_id)
        if peer is None:
            self._give_up(letter, 0 if envelope is None else envelope.nonce, NO_PEER)
            return
        marks = self._marks.setdefault(letter.sender, _Marks())
        marks.pending += 1
        self._pending += 1
        left = envelope
        nonce = 0 if envelope is None else envelope.nonce

        def make() -> bytes | None:
            nonlocal left, nonce
            ready, left = left, None
            made = self._current(letter, ready, max(marks.published, marks.lanes.get(peer, 0)))
            if made is None:
                return None
            nonce = marks.lanes[peer] = made.nonce
            return encode(made)

        def ended(reason: str | None) -> None:
            self._pending -= 1
            marks.pending -= 1
            if not marks.pending and self._marks.get(letter.sender) is marks:
                del self._marks[letter.sender]
            if reason is None:
                self._remove(letter)
            elif reason != CLOSING:  # then it is sent after the next start
                self._give_up(letter, nonce, reason)

        self._outbox.post(peer, letter.sender, make, ended)

    def _bring(self, letter: Letter) -> None:
        """The assignment of a notary that this node hosts. It is logged like others that arrive."""
        envelope = self._current(letter, None, 0)
        if envelope is None:
            return  # it is tried again after the next start
        raw, at = encode(envelope), self._clock() // 1000

        def work(books: Books) -> Taken | None:
            books.remove_letter(letter.number)
            return self._desk.receive(books, envelope, raw, at, (letter.recipient,))

        def committed(taken: Taken | None) -> None:
            if taken is not None:
                self._kept(envelope, taken, at)

        self._submit(work, committed)

    def _publish(self, letter: Letter, envelope: Envelope | None) -> None:
        self._topical[letter.number] = letter
        left = envelope

        def make() -> bytes | None:
            nonlocal left
            ready, left = left, None
            if letter.number not in self._topical:
                return None
            marks = self._marks.get(letter.sender)
            made = self._current(letter, ready, 0 if marks is None else marks.published)
            if made is None:
                return None
            del self._topical[letter.number]
            if marks is not None:
                marks.published = made.nonce
            self._remove(letter)
            return encode(made)

        topic = _topic_of(letter)
        self._outbox.publish(topic, letter.sender, make)
        while len(self._topical) > MAX_UNHEARD:
            _, oldest = self._topical.popitem(last=False)
            self._give_up(oldest, 0, UNHEARD)

    def _current(self, letter: Letter, envelope: Envelope | None, mark: int) -> Envelope | None:
        """The envelope, or another one with the same content and a new nonce. None: none can be made now."""
        if envelope is not None and envelope.nonce > mark and self._clock() - envelope.timestamp < FRESH:
            return envelope
        if letter.sender not in self._signers:
            return None
        try:
            made = self._signers.seal(
                letter.sender,
                MsgType(letter.msg_type),
                letter.payload,
                recipient=letter.recipient,
                conversation_id=letter.conversation_id,
            )
        except NodeRefused:
            return None
        if letter.is_logged:
            self._log_again(made)
        return made

    def _log_again(self, envelope: Envelope) -> None:
        raw, at = encode(envelope), self._clock() // 1000

        def work(books: Books) -> Taken:
            books.log(envelope, raw, at, belongs=envelope.msg_type in BILATERAL)
            return Taken((), None)

        self._submit(work, lambda taken: self._kept(envelope, taken, at))

    # -- what the store keeps of them ------------------------------------------------------------------

    def _remove(self, letter: Letter) -> None:
        self._submit(lambda books: books.remove_letter(letter.number), lambda _: None)

    def _give_up(self, letter: Letter, nonce: int, reason: str) -> None:
        at = self._clock() // 1000

        def work(books: Books) -> int:
            books.remove_letter(letter.number)
            return books.put_failure(letter, nonce, reason, at)

        def committed(number: int) -> None:
            self.given_up += 1
            self._failed(
                DeliveryFailed(
                    number,
                    letter.sender,
                    letter.recipient,
                    MsgType(letter.msg_type),
                    letter.conversation_id,
                    nonce,
                    reason,
                    at,
                )
            )

        self._submit(work, committed)

    def _submit(self, work: Callable[[Books], Result], done: Callable[[Result], None]) -> None:
        def failed(error: BaseException) -> None:
            self._log.warning("node_letter_not_saved", error=repr(error))

        try:
            self._store.submit(work, done, failed)
        except StoreFailed as error:  # it is closed: the letter is sent again after the next start
            failed(error)


def _topic_of(letter: Letter) -> str:
    """Its payload was read before it was taken."""
    if letter.msg_type == MsgType.BROADCAST:
        return NAMED_TOPIC + Broadcast.decode(letter.payload).topic
    return TOPICS[MsgType(letter.msg_type)]

"""Conversations as this agent knows them: from what it sent and got, and from what the hall answers.

The rules are those of the hall (`market/conversations.py`), so most of what the hall would refuse is refused
here, before it is signed. The hall knows more: another program may use the same key, and the hall itself acts at
deadlines. A record that something does not fit to is stale, and is read from the hall before it is used again.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

from msgspec import structs

from moothall.errors import OutOfOrder
from moothall.hall.mesh.frames import ConversationShown
from moothall.market.conversation_rules import decide
from moothall.market.conversations import Conversation, State, Step
from moothall.market.mesh import step_of
from moothall.mesh.message import Message
from moothall.wire.mesh.cbor import UINT32_MAX
from moothall.wire.mesh.envelope import Envelope
from moothall.wire.mesh.faults import PayloadParseError
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.notaries import NotarizeAssign

MAX_HISTORY: Final = 256  # messages of one conversation that are remembered
MAX_RECORDS: Final = 10_000
MAX_BYTES: Final = 32 * 1024 * 1024  # of all messages that are remembered
_RECORD_BYTES: Final = 1000  # that a record takes besides its messages


class Record:
    """What is known of one conversation. `facts` is None before its PROPOSE, and while nothing is known."""

    def __init__(self, conversation_id: bytes) -> None:
        self.id: Final = conversation_id
        self.facts: Conversation | None = None
        self.shown: ConversationShown | None = None  # without its history: what the hall answered last
        self.is_stale = False
        self.history: deque[Message] = deque(maxlen=MAX_HISTORY)
        self.size = _RECORD_BYTES

    def check(self, step: Step) -> Conversation:
        """The conversation after this step. Raises OutOfOrder."""
        return decide(self.facts, step)

    def took(self, step: Step, state: str | None) -> None:
        """The hall took a step of this agent, and says that the conversation is in this state for it now."""
        if self.fits(step) and self.facts is not None and state is not None:
            self.is_stale = self.facts.state_of(step.sender) != state

    def fits(self, step: Step) -> bool:
        """Apply a step that the hall took. False if it does not fit: then the record is stale."""
        try:
            self.facts = decide(self.facts, step)
        except OutOfOrder:
            self.is_stale = True
            return False
        return True

    def assigned(self, notary: bytes) -> None:
        """The hall has assigned this notary."""
        if self.facts is not None:
            self.facts = structs.replace(self.facts, notary=notary)

    def changed(self, state: str) -> None:
        """The hall has changed the state without an envelope."""
        if self.facts is not None:
            self.facts = structs.replace(self.facts, state=cast("State", state))

    def adopt(self, shown: ConversationShown, envelopes: Sequence[Envelope], hall: bytes) -> None:
        """What the hall answers. `envelopes` are those of its history whose signatures hold."""
        summary = shown.conversation
        replayed = None if shown.more else _replay(envelopes, hall)
        notary = None if summary.notary is None else bytes.fromhex(summary.notary)
        fields = {
            "requester": bytes.fromhex(summary.requester),
            "provider": bytes.fromhex(summary.provider),
            "state": cast("State", summary.state),
            "amount": summary.amount,
            "offered_by": bytes.fromhex(shown.offered_by),
            "notary": notary,
            "verdict": shown.verdict,
            "case": shown.case,
            "elsewhere": summary.elsewhere,
        }
        if replayed is not None:
            self.facts = structs.replace(replayed, **fields)
        else:
            # How many rounds there were is not known, so the hall alone counts them.
            self.facts = Conversation(id=self.id, max_rounds=UINT32_MAX, **fields)  # type: ignore[arg-type]
        self.shown = structs.replace(shown, history=())
        self.is_stale = False

    def remember(self, message: Message) -> None:
        """Add a message to the history, unless it is there."""
        if any(_same(message.envelope, each.envelope) for each in self.history):
            return
        if len(self.history) == MAX_HISTORY:
            self.size -= self.history[0].size
        self.history.append(message)
        self.size += message.size

    def remember_all(self, messages: Sequence[Message]) -> None:
        """Replace the history by that of the hall. What the hall does not have, or has not logged yet, is put among
        it by the time."""
        merged = list(messages)
        for known in self.history:
            if not any(_same(known.envelope, each.envelope) for each in merged):
                merged.insert(_place(known.envelope, merged), known)
        self.history.clear()
        self.size = _RECORD_BYTES
        for message in merged:
            self.remember(message)


def _same(one: Envelope, other: Envelope) -> bool:
    return one.nonce == other.nonce and one.sender == other.sender and one.msg_type is other.msg_type


def _place(envelope: Envelope, messages: Sequence[Message]) -> int:
    """Before the first one that is later."""
    later = (place for place, each in enumerate(messages) if each.envelope.timestamp > envelope.timestamp)
    return next(later, len(messages))


def _replay(envelopes: Sequence[Envelope], hall: bytes) -> Conversation | None:
    """The conversation after these envelopes. Those that do not fit are left out: the hall's summary counts."""
    facts: Conversation | None = None
    for envelope in envelopes:
        try:
            if envelope.msg_type is MsgType.NOTARIZE_ASSIGN and envelope.sender == hall and facts is not None:
                facts = structs.replace(facts, notary=NotarizeAssign.decode(envelope.payload).notary)
            else:
                facts = decide(facts, step_of(envelope))
        except (OutOfOrder, PayloadParseError):
            continue
    return facts


class Records:
    """The conversations that are remembered, bounded: the ones that were not used for the longest time make way.

    A conversation that made way is read from the hall when it is used again.
    """

    def __init__(self, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES) -> None:
        self._records: OrderedDict[bytes, Record] = OrderedDict()
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(list(self._records.values()))

    def find(self, conversation_id: bytes) -> Record | None:
        """The record of this conversation, if there is one."""
        record = self._records.get(conversation_id)
        if record is not None:
            self._records.move_to_end(conversation_id)
        return record

    def of(self, conversation_id: bytes, make: Callable[[bytes], Record] = Record) -> Record:
        """The record of this conversation. It is made if there is none."""
        record = self.find(conversation_id)
        if record is None:
            record = self._records[conversation_id] = make(conversation_id)
            self._bytes += record.size
            self._make_way(record)
        return record

    def remember(self, record: Record, *messages: Message, anew: bool = False) -> None:
        """Add messages to the history of a record. With `anew`, they replace it."""
        before = record.size
        if anew:
            record.remember_all(messages)
        else:
            for message in messages:
                record.remember(message)
        if self._records.get(record.id) is record:
            self._bytes += record.size - before
            self._make_way(record)

    def _make_way(self, stays: Record) -> None:
        while len(self._records) > self._max_records or self._bytes > self._max_bytes:
            oldest = next(iter(self._records.values()))
            if oldest is stays:
                return
            del self._records[oldest.id]
            self._bytes -= oldest.size


class Seen:
    """The envelopes that this agent got lately. What comes twice is dropped."""

    def __init__(self, most: int = MAX_RECORDS) -> None:
        self._keys: OrderedDict[tuple[bytes, int, bool], None] = OrderedDict()
        self._most = most

    def is_new(self, envelope: Envelope) -> bool:
        """True the first time. BEACONs have nonces of their own."""
        return self.add(envelope.sender, envelope.nonce, is_beacon=envelope.msg_type is MsgType.BEACON)

    def add(self, sender: bytes, nonce: int, *, is_beacon: bool = False) -> bool:
        """True the first time."""
        key = (sender, nonce, is_beacon)
        if key in self._keys:
            return False
        self._keys[key] = None
        if len(self._keys) > self._most:
            self._keys.popitem(last=False)
        return True

    def latest(self, most: int) -> list[tuple[bytes, int]]:
        """Senders and nonces, the latest last."""
        return [(sender, nonce) for sender, nonce, _ in list(self._keys)[-most:]]

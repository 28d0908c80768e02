"""Where agents of the mesh and the market meet: one unit of work per envelope (mesh wire 8 to 11).

The room of the mesh has checked an envelope before it comes here. A unit of work does what follows from it
(`mesh_units`): all of it is on the disk, or nothing is. Then the room routes it. Envelopes of one conversation are
decided in the order of arrival.

Nothing here decides. Deadlines of conversations are in the store, and survive a restart.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from moothall.errors import RateLimited
from moothall.hall.access import NewKeys
from moothall.hall.counts import Counts
from moothall.hall.deadlines import AT_ONCE, Deadlines
from moothall.hall.elsewhere import NOWHERE, Elsewhere, PostBooks
from moothall.hall.mesh import replies
from moothall.hall.mesh.frames import (
    Answer,
    Cancel,
    Cancelled,
    Consent,
    Consented,
    ConversationChanged,
    Notice,
    Offline,
    Question,
    decode_hall_frame,
    encode_frame,
)
from moothall.hall.mesh.market import Carried, Failed, Payer, Told
from moothall.hall.mesh.own_envelopes import OwnEnvelopes
from moothall.hall.mesh.stored_inbox import StoredInboxes
from moothall.hall.outside import Store
from moothall.hall.services import Services
from moothall.identity import PublicKey
from moothall.market import advertisements, conversing, mesh_answers, mesh_notices, mesh_orders
from moothall.market.advertisements import Discovered, read_advertise
from moothall.market.conversations import Conversation
from moothall.market.conversing import Dealt, MeshRules
from moothall.market.desk import Online
from moothall.market.desk_books import DeskBooks
from moothall.market.lanes import Lanes
from moothall.market.ledger import agent_account
from moothall.market.mesh import conversation_id_of
from moothall.market.mesh_notices import Cause
from moothall.market.mesh_units import EnvelopeUnits
from moothall.market.newcomers import Newcomers
from moothall.market.quotas import Disk
from moothall.market.recorder import Recorder
from moothall.wire.mesh.announcements import default_name
from moothall.wire.mesh.envelope import NO_CONVERSATION, Envelope, decode
from moothall.wire.mesh.faults import PayloadParseError
from moothall.wire.mesh.msg_types import MsgType

# Keys that are remembered as those of agents of this hall. The store remembers those that have credits.
MAX_PROVEN: Final = 10_000

Result = TypeVar("Result")
Change = Callable[[tuple[bytes, ...], Notice | Offline], None]


class MeshDesk:
    """Implements `hall.mesh.market.Dealings`."""

    def __init__(
        self,
        store: Store[DeskBooks],
        hall: Services,
        rules: MeshRules,
        disk: Disk,
        own: OwnEnvelopes,
        elsewhere: Elsewhere = NOWHERE,
        *,
        new_keys: NewKeys,
        logs: bool = True,
        inboxes: StoredInboxes | None = None,
    ) -> None:
        """`disk` counts what each key and address adds to the store, and `new_keys` the keys of an address. `own`
        makes envelopes that assign notaries. Agents of other halls are told `elsewhere`. `logs` is the setting
        `mesh_log`. `inboxes` are those in the store, if it has any."""
        self._store = store
        self._hall = hall
        self._disk = disk
        self._newcomers = Newcomers(new_keys)
        self._own = own
        self._elsewhere = elsewhere
        self._inboxes = inboxes
        self._here: set[bytes] = set()  # keys that are proven to this hall
        self._units = EnvelopeUnits(
            rules, own, elsewhere, self._here, logs=logs, stores_inboxes=inboxes is not None
        )
        self._proven: dict[bytes, None] = {}  # keys that were proven to this hall, the latest last
        self._lanes = Lanes()
        self.recorder: Final = Recorder(store, disk, hall_key=own.key, is_on=logs)
        self._changed: list[Change] = []
        self._carried: list[Carried] = []
        self._counts: Counts[DeskBooks, dict[str, int]] = Counts(
            store, lambda books: books.conversations_by_state(), {}
        )
        self._deadlines: Deadlines[DeskBooks, tuple[Dealt, ConversationChanged]] = Deadlines(
            store,
            find=_due,
            lapse=self._lapse,
            tell=lambda _, decided: self._decided(decided[0].conversation, decided[1]),
        )

    @property
    def counts(self) -> dict[str, int]:
        """Conversations by state, as of a moment ago."""
        return self._counts.latest

    @property
    def waiting(self) -> int:
        """Envelopes that the store has not answered yet."""
        return len(self._lanes)

    def open(self) -> None:
        """Begin with what is due: deadlines that passed while the hall was closed are acted upon now."""
        self._elsewhere.on_mesh(self._take_carried, self._take_frame)
        self._deadlines.act(self._hall)
        self._counts.count(self._hall)

    def close(self) -> None:
        """Hand over what is not logged yet. The store must still be open."""
        self.recorder.flush(self._hall)

    def on_change(self, told: Change) -> None:
        self._changed.append(told)

    def on_carried(self, told: Carried) -> None:
        self._carried.append(told)

    # -- other halls on the same store -------------------------------------------------------------

    def proved(self, key: bytes) -> None:
        self._proven.pop(key, None)
        self._proven[key] = None
        if len(self._proven) > MAX_PROVEN:
            del self._proven[next(iter(self._proven))]

        def failed(error: BaseException) -> None:
            """The next proof, or the next deal with credits, will do it."""
            self._hall.log.warning("credits_not_guarded", error=repr(error))

        self._store.submit(lambda books: books.guard(agent_account(key)), lambda _: None, failed)

    def is_known(self, key: bytes, done: Callable[[bool], None], failed: Failed) -> None:
        if key in self._proven:
            done(True)
            return

        def look(books: DeskBooks) -> bool:
            return books.is_guarded(agent_account(key)) or self._elsewhere.is_on_mesh(books, key)

        self._store.submit(look, done, failed)

    def present(self, key: bytes, *, is_here: bool) -> None:
        if is_here:
            self._here.add(key)
        else:
            self._here.discard(key)
        self._elsewhere.present(key, is_here=is_here)

    def _take_carried(self, recipient: bytes, raw: bytes, kept: int) -> None:
        """Another hall took this envelope. `kept` is its number in the inbox in the store."""

        def settled(*, is_here: bool, is_proven: bool, stored: bool) -> None:
            if is_proven and kept and self._inboxes is not None:
                self._inboxes.delivered(recipient, kept)
            elif not is_here:
                self._tell_sender(raw, stored=stored)

        for told in self._carried:
            told(recipient, raw, bool(kept), settled)

    def _tell_sender(self, raw: bytes, *, stored: bool) -> None:
        """The recipient left this hall before the hall of the sender knew of it."""
        envelope = decode(raw)

        def failed(error: BaseException) -> None:
            self._hall.log.warning("mesh_sender_not_told", error=repr(error))

        frame = encode_frame(replies.offline(envelope, stored=stored))
        self._store.submit(
            lambda books: self._elsewhere.notify(books, (envelope.sender,), frame), lambda _: None, failed
        )

    def _take_frame(self, recipient: bytes, frame: bytes) -> None:
        notice = decode_hall_frame(frame)
        if isinstance(notice, Notice | Offline):
            for told in self._changed:
                told((recipient,), notice)

    def plan(self, hall: Services, deadline: int) -> None:
        """There is a conversation with this deadline; another hall may have made it."""
        self._deadlines.plan(hall, deadline)

    def recount(self, hall: Services) -> None:
        """Conversations have changed, here or at another hall."""
        self._counts.changed(hall)

    # -- envelopes ---------------------------------------------------------------------------------

    def take(
        self,
        envelope: Envelope,
        raw: bytes,
        payer: Payer,
        done: Callable[[Told], None],
        failed: Failed,
        *,
        is_away: bool,
        is_proven: bool,
        abroad: bytes | None = None,
    ) -> None:
        now = self._hall.timestamp()
        stamp = self._own.stamp() if envelope.msg_type is MsgType.ACCEPT else None

        def work(books: DeskBooks) -> tuple[Told, Conversation | None]:
            return self._units.take(
                books, envelope, raw, now, stamp, is_away=is_away, is_proven=is_proven, abroad=abroad
            )

        def decided(answer: tuple[Told, Conversation | None]) -> None:
            told, conversation = answer
            if conversation is not None:
                self._mind(conversation)
            if self._inboxes is not None and (told.stored or any(mail.stored for mail in told.mail)):
                self._inboxes.changed()
            done(told)

        self._metered(envelope.sender, payer, _lane_of(envelope), work, decided, failed)

    def advertise(
        self,
        envelope: Envelope,
        raw: bytes,
        payer: Payer,
        name: str,
        done: Callable[[], None],
        failed: Failed,
    ) -> None:
        now, key = self._hall.timestamp(), envelope.sender
        agent_id = PublicKey(key).agent_id(self._hall.settings.id_length)

        def work(books: DeskBooks) -> None:
            try:
                offer = read_advertise(envelope, raw, name, now)
            except PayloadParseError:
                pass  # it is passed on and logged all the same (mesh wire 4)
            else:
                advertisements.advertise(books, key, offer, agent_id=agent_id)
            self._units.log(books, envelope, raw, now, belongs=False)

        self._metered(key, payer, key, work, lambda _: done(), failed)

    def record(self, envelope: Envelope, raw: bytes, payer: Payer) -> None:
        self.recorder.record(self._hall, envelope, raw, payer)

    def _metered(
        self,
        key: bytes,
        payer: Payer,
        lane: bytes,
        work: Callable[[DeskBooks], Result],
        done: Callable[[Result], None],
        failed: Failed,
    ) -> None:
        """One unit after those of the same lane. What it writes is charged to the key and to the address."""
        disk = self._disk
        try:
            bill = disk.open_bill(key, payer.address, self._hall.timestamp(), is_loopback=payer.is_loopback)
        except RateLimited as refusal:
            failed(refusal)
            return
        entry = self._newcomers.enter(key, payer.address, self._hall.now(), payer.factor)

        def unit(books: DeskBooks) -> tuple[Result, int, bool]:
            is_new = entry is not None and self._newcomers.is_new(books, entry)
            return *disk.metered(books, bill, work), is_new

        def kept(answer: tuple[Result, int, bool]) -> None:
            result, size, is_new = answer
            disk.pay(bill, size)
            if entry is not None:
                self._newcomers.came(entry, is_new=is_new)
            done(result)

        def undone(error: BaseException) -> None:
            if entry is not None:
                self._newcomers.failed(entry)
            failed(error)

        self._lanes.submit(lane, self._store, unit, kept, undone)

    # -- questions ---------------------------------------------------------------------------------

    def discover(self, query: str, done: Callable[[list[dict[str, Any]]], None], failed: Failed) -> None:
        online = Online(self._hall)

        def found(agents: list[Discovered]) -> None:
            done([advertisements.result(each, online=online, name_of=self._name_of) for each in agents])

        self._store.submit(lambda books: advertisements.discover(books, query), found, failed)

    def _name_of(self, key: bytes) -> str:
        agent = self._hall.roster.holder(key)
        return default_name(key) if agent is None else agent.name

    def ask(
        self,
        key: bytes,
        question: Question,
        payer: Payer,
        done: Callable[[Answer], None],
        failed: Failed,
    ) -> None:
        if isinstance(question, Cancel | Consent):
            self._order(key, question, payer, done, failed)
            return
        now = self._hall.timestamp()
        self._store.submit(lambda books: mesh_answers.answer(books, key, question, now), done, failed)

    def _order(
        self,
        key: bytes,
        order: Cancel | Consent,
        payer: Payer,
        done: Callable[[Answer], None],
        failed: Failed,
    ) -> None:
        """The room has checked its signature and its time."""
        now = self._hall.timestamp()
        conversation_id = bytes.fromhex(order.conversation_id)
        text = order.text(self._own.key.hex())

        def work(books: DeskBooks) -> tuple[Dealt, ConversationChanged | None]:
            dealt = mesh_orders.carry_out(books, key, order, text, now)
            notice = self._change(books, dealt.conversation, "cancel") if dealt.changed else None
            return dealt, notice

        def decided(answer: tuple[Dealt, ConversationChanged | None]) -> None:
            self._decided(answer[0].conversation, answer[1])
            kind = Cancelled if isinstance(order, Cancel) else Consented
            done(kind(conversation_id=order.conversation_id, state=answer[0].conversation.state))

        self._metered(key, payer, conversation_id, work, decided, failed)

    # -- the court ---------------------------------------------------------------------------------

    def notify_of_court(self, books: PostBooks, conversation: Conversation) -> None:
        """A court case about this conversation was filed, or ends: in its unit of work."""
        self._change(books, conversation, "court")

    def court_changed(self, conversation: Conversation) -> None:
        """The same, after the commit."""
        self._decided(conversation, mesh_notices.of_change(conversation, "court"))

    # -- deadlines ---------------------------------------------------------------------------------

    def _lapse(self, books: DeskBooks, due: str, now: int) -> tuple[Dealt, ConversationChanged] | None:
        """What became of the conversation, and what is told of it."""
        conversation_id = bytes.fromhex(due)
        before = books.conversation(conversation_id)
        dealt = conversing.lapse(books, conversation_id, now=now)
        if dealt is None or before is None:
            return None
        cause: Cause = "review" if before.review_at == before.deadline else "timeout"
        return dealt, self._change(books, dealt.conversation, cause)

    def _change(self, books: PostBooks, conversation: Conversation, cause: Cause) -> ConversationChanged:
        """What the participants are told. Those of other halls are told by the commit."""
        notice = mesh_notices.of_change(conversation, cause)
        self._elsewhere.notify(books, conversation.participants, encode_frame(notice))
        return notice

    def _decided(self, conversation: Conversation, notice: ConversationChanged | None) -> None:
        """A change without an envelope is committed."""
        self._mind(conversation)
        if notice is not None:
            for told in self._changed:
                told(conversation.participants, notice)

    def _mind(self, conversation: Conversation) -> None:
        if conversation.deadline is not None:
            self._deadlines.plan(self._hall, conversation.deadline)
        self._elsewhere.changed()
        self._counts.changed(self._hall)


# -- in a unit of work -----------------------------------------------------------------------------------


def _due(books: DeskBooks, now: int) -> tuple[list[str], int | None]:
    due = [conversation_id.hex() for conversation_id in books.due_conversations(now, AT_ONCE)]
    return due, books.next_conversation_deadline()


def _lane_of(envelope: Envelope) -> bytes:
    """Its conversation, or its sender if it belongs to none."""
    conversation_id = conversation_id_of(envelope)
    return envelope.sender if conversation_id == NO_CONVERSATION else conversation_id

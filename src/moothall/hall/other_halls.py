"""The other halls on the same PostgreSQL, or the other node processes on the same file, and their agents.

A hall writes down who is connected to it, and tells the other halls what concerns their agents, in the
transaction in which it was decided. The store signals a change at once. Every `PULSE_SECONDS` a hall also looks
by itself, so that a lost signal costs a second and no more; the same look says that the hall is alive. Agents of
a hall that has not been heard of for `elsewhere.EXPIRY_SECONDS` count as gone."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from moothall.hall import admin, revocation
from moothall.hall.agenda import Appointment
from moothall.hall.common import ListName
from moothall.hall.common_clock import CommonClock
from moothall.hall.elsewhere import ON_THE_MESH, Addressed, Carried, Connected, PostBooks
from moothall.hall.hall import Hall
from moothall.hall.keep.pinning import PinSaver
from moothall.hall.outside import Store
from moothall.hall.revocation import RevocationBooks
from moothall.hall.roster import LocalRoster, Present
from moothall.hall.services import Services
from moothall.wire.agentchat.codec import encode, forwarded

PULSE_SECONDS: Final = 1.0
PRESENCE_SECONDS: Final = 0.25  # arrivals and departures of this time are written together
LETTER_SECONDS: Final = 60.0  # for which letters are kept: no hall that is alive is behind by more
MAX_LEFT: Final = 10_000  # agents of the mesh that left within that time, and are still written to
# Another hall may commit a lower number a moment after a higher one was read here.
OVERLAP: Final = 100
MAX_NAMED: Final = 100  # recipients that a signal names, in 64 hex digits each; PostgreSQL takes 8,000 bytes

NEWS: Final = "news"  # a signal: look now
LETTER: Final = "letter"  # a signal: there is a letter, its number, and to whom; `*` is too many to name


class Letter(NamedTuple):
    number: int
    body: bytes | None  # None: it is for none of the agents here


class News(NamedTuple):
    """What the store knew at a pulse. Numbers are the highest of their kind."""

    is_known: bool  # False: this hall was forgotten, or is new
    others: int  # halls besides this one
    lists: Mapping[ListName, int]  # the versions of the lists that all halls have in common
    revoked: int
    pinned: int
    letters: int
    decisions: int  # about deals and cases
    changes: int = 0  # of conversations of the mesh, that other halls count
    time: float | None = None  # of the database, in seconds since the epoch


class Desk(Protocol):
    """What is told of the deals, or the cases, of other halls."""

    def plan(self, hall: Services, deadline: int) -> None:
        """There is something with this deadline."""

    def recount(self, hall: Services) -> None:
        """Something has changed."""


class HallBooks(PostBooks, Protocol):
    """One unit of work."""

    def pulse(self, presences: Mapping[bytes, Connected | None], changes: int = 0) -> News:
        """This hall is alive, and has changed conversations of the mesh so often. The presence of these keys has
        changed here; None is gone."""

    def next_deadline(self) -> int | None:
        """Of deals, in milliseconds since the epoch."""

    def next_case_deadline(self) -> int | None: ...

    def next_conversation_deadline(self) -> int | None:
        """Of conversations on the mesh."""

    def leave(self) -> None:
        """This hall closes, and all of its agents are gone."""

    def letters(self, after: int, but: Container[int], wanted: Container[bytes]) -> list[Letter]:
        """Of other halls, with a higher number, in their order; without those in `but`. Only those to keys that are
        `wanted` are read."""


_NULL: Final = msgspec.Raw(b"null")


class _Enclosed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message of agentchat, or an envelope or a text frame of the mesh."""

    to: list[bytes]
    message: msgspec.Raw = _NULL
    envelope: bytes | None = None
    kept: int = 0  # the number of the envelope in the inbox in the store
    frame: bytes | None = None


_encode_letter: Final = msgspec.json.Encoder().encode
_decode_letter: Final = msgspec.json.Decoder(list[_Enclosed]).decode


class OtherHalls:
    """Halls that share a store with this one."""

    def __init__(self, store: Store[Any], clock: CommonClock | None = None) -> None:
        """`clock` is that of the hall, which follows the database's."""
        self._store: Store[HallBooks] = store
        self._clock = clock
        self._revocations: Store[RevocationBooks] = store
        self._hall: Hall | None = None  # None: not open yet, or closed
        self._is_alone = False  # until the store says so
        self._pins: PinSaver | None = None
        self._desks: Sequence[Desk] = ()
        self._opened: Callable[[], None] | None = None
        self._versions: dict[ListName, int] = {}
        self._presences: dict[bytes, Connected | None] = {}  # that changed here since the last pulse
        self._mesh: set[bytes] = set()  # keys of agents of the mesh that are here
        # Those that left, and when, the latest last. Other halls learn of it a moment later, and may have posted
        # envelopes to them until then: this hall keeps these, and says so.
        self._left: dict[bytes, float] = {}
        self._mesh_calls: tuple[Carried, Callable[[bytes, bytes], None]] | None = None
        self._next_pulse: Appointment | None = None
        self._is_pulsing = False
        self._pulses_again = False
        self._decisions = (0, 0)  # as the last pulse had it
        self._changes = 0  # of conversations, here
        self._letters = _Numbers()
        self._is_reading = False
        self._reads_again = False

    # -- on a thread of the store ------------------------------------------------------------------

    def tell(self, books: PostBooks, messages: Iterable[Addressed]) -> None:
        hall = self._hall
        if hall is None or not self._may_be_elsewhere(hall):
            return
        told = list(messages)
        here = {key for to, _ in told for key in to if hall.roster.is_here(key)}
        if here:
            here.difference_update(books.also_elsewhere(here))
        enclosed: list[_Enclosed] = []
        for to, message in told:
            others = [key for key in dict.fromkeys(to) if key not in here]
            if others:
                enclosed.append(_Enclosed(others, msgspec.Raw(encode(message))))
        if enclosed:
            books.post({key for each in enclosed for key in each.to}, _encode_letter(enclosed))

    def is_on_mesh(self, books: PostBooks, key: bytes) -> bool:
        hall = self._hall
        return hall is not None and self._may_be_elsewhere(hall) and key in books.on_mesh_elsewhere((key,))

    def carry(self, books: PostBooks, to: bytes, envelope: bytes, kept: int = 0) -> bool:
        if not self.is_on_mesh(books, to):
            return False
        books.post((to,), _encode_letter([_Enclosed([to], envelope=envelope, kept=kept)]))
        return True

    def notify(self, books: PostBooks, to: Sequence[bytes], frame: bytes) -> None:
        hall = self._hall
        if hall is None or not self._may_be_elsewhere(hall):
            return
        if there := books.on_mesh_elsewhere(to):
            books.post(there, _encode_letter([_Enclosed(list(there), frame=frame)]))

    def _may_be_elsewhere(self, hall: Hall) -> bool:
        """False if there is no other hall. A node that has just come may not be in the store yet."""
        return not self._is_alone or _has_nodes(hall)

    # -- on the event loop -------------------------------------------------------------------------

    def present(self, key: bytes, *, is_here: bool) -> None:
        hall, was_here = self._hall, key in self._mesh
        self._left.pop(key, None)
        if is_here:
            self._mesh.add(key)
        else:
            self._mesh.discard(key)
            if hall is not None:
                self._leave(key, hall.now())
        if hall is not None:
            agent = hall.roster.by_key[key] if hall.roster.is_here(key) else None
            self._change(key, None if agent is None else agent.presence)
            if is_here and not was_here and self._may_be_elsewhere(hall):
                # Its first envelope may be answered at another hall at once. An answer to an agent whose place the
                # store does not know stays in the inbox, where a connected agent does not look.
                self._pulse()

    def _leave(self, key: bytes, now: float) -> None:
        self._left[key] = now
        while self._left:
            first, at = next(iter(self._left.items()))
            if at > now - LETTER_SECONDS and len(self._left) <= MAX_LEFT:
                return
            del self._left[first]

    def changed(self) -> None:
        self._changes += 1

    def on_mesh(self, carried: Carried, told: Callable[[bytes, bytes], None]) -> None:
        self._mesh_calls = (carried, told)

    def open(
        self,
        hall: Hall,
        pins: PinSaver | None,
        desks: Sequence[Desk],
        versions: Mapping[ListName, int],
        opened: Callable[[], None],
    ) -> None:
        """Join the others. `desks` are those of deals, of cases and, if it is served, of the mesh. `versions` are
        those of the lists that the hall was opened with. `opened` is called when the store knows this hall."""
        self._hall = hall
        self._pins = pins
        self._desks = desks
        self._versions = dict(versions)
        self._opened = opened
        hall.delivery.has_letters = True
        hall.roster.on_arrival(self._note)
        hall.roster.on_presence(self._note)
        hall.roster.on_departure(self._forget)
        self._pulse()

    def close(self) -> None:
        """Leave the others. The store must still be open."""
        if self._hall is not None:
            log, self._hall = self._hall.log, None

            def failed(error: BaseException) -> None:
                log.warning("other_halls_not_reached", error=repr(error))

            self._store.submit(lambda books: books.leave(), lambda _: None, failed)

    def hear(self, signal: str) -> None:
        """A signal of another hall: NEWS, or LETTER with its number and recipients. "": signals may have been
        lost."""
        hall = self._hall
        if hall is None:
            return
        kind, _, rest = signal.partition(" ")
        number, _, recipients = rest.partition(" ")
        if kind == LETTER and number.isdecimal() and not self._concerns(hall, recipients):
            self._letters.add(int(number))
            return
        if kind != NEWS:
            self._read_letters()
        if kind != LETTER:
            self._pulse()

    def _concerns(self, hall: Hall, recipients: str) -> bool:
        """True also for what is not a list of keys, as a later version may send it: the store tells."""
        here = _Here(_Proven(hall.roster), self._mesh, self._left)
        try:
            return any(bytes.fromhex(key) in here for key in recipients.split(","))
        except ValueError:
            return True

    def _tell_here(self, hall: Hall, body: bytes) -> None:
        for enclosed in _decode_letter(body):
            if enclosed.message != _NULL:
                hall.delivery.forward(enclosed.to, forwarded(bytes(enclosed.message)))
                if hall.cluster is not None:
                    hall.cluster.remote.look_at_backlogs(enclosed.to)
            elif self._mesh_calls is not None:
                carried, told = self._mesh_calls
                for key in enclosed.to:
                    if (key in self._mesh or key in self._left) and enclosed.envelope is not None:
                        carried(key, enclosed.envelope, enclosed.kept)
                    elif key in self._mesh and enclosed.frame is not None:
                        told(key, enclosed.frame)

    def _note(self, agent: Present) -> None:
        if agent.key is not None:
            self._change(agent.key.raw, agent.presence)

    def _forget(self, agent: Present) -> None:
        if agent.key is not None:
            self._change(agent.key.raw, None)

    def _change(self, key: bytes, presence: str | None) -> None:
        """`presence` is that of agentchat; None if the key is not there."""
        if self._hall is not None:
            self._presences[key] = self._connected(key, presence)
            if not self._is_pulsing:
                self._plan(self._hall, PRESENCE_SECONDS)

    def _connected(self, key: bytes, presence: str | None) -> Connected | None:
        on_mesh = key in self._mesh
        if presence is None:
            return Connected(ON_THE_MESH, on_mesh=True) if on_mesh else None
        return Connected(presence, on_mesh)

    def _plan(self, hall: Hall, seconds: float) -> None:
        due, planned = hall.now() + seconds, self._next_pulse
        if planned is not None and not planned.cancelled:
            if planned.due <= due:
                return
            hall.agenda.cancel(planned)
        self._next_pulse = hall.agenda.at(due, self._pulse)

    def _pulse(self) -> None:
        hall = self._hall
        if hall is None:
            return
        if self._is_pulsing:
            self._pulses_again = True
            return
        self._is_pulsing = True
        self._pulses_again = False
        presences, self._presences = self._presences, {}
        changes = self._changes
        asked_at = hall.clock.time()

        def work(books: HallBooks) -> tuple[News, Sequence[int | None]]:
            news = books.pulse(presences, changes)
            deadlines = books.next_deadline(), books.next_case_deadline(), books.next_conversation_deadline()
            return news, deadlines

        def heard(answer: tuple[News, Sequence[int | None]]) -> None:
            self._is_pulsing = False
            if self._hall is not None:
                news, deadlines = answer
                if self._clock is not None and news.time is not None:
                    self._clock.compare(asked_at, news.time)
                for desk, deadline in zip(self._desks, deadlines, strict=False):
                    if deadline is not None:
                        desk.plan(hall, deadline)
                self._act(hall, news)
                self._plan(hall, self._pause())

        def failed(error: BaseException) -> None:
            self._is_pulsing = False
            self._presences = presences | self._presences
            hall.log.warning("other_halls_not_reached", error=repr(error))
            self._plan(hall, PULSE_SECONDS)

        self._store.submit(work, heard, failed)

    def _pause(self) -> float:
        if self._pulses_again:
            return 0.0
        return PRESENCE_SECONDS if self._presences else PULSE_SECONDS

    def _act(self, hall: Hall, news: News) -> None:
        self._is_alone = not news.others
        if not news.is_known:
            changed, self._presences = self._presences, {}
            for key in self._mesh:
                self._presences[key] = self._connected(key, None)
            for key, agent in hall.roster.by_key.items():
                if not agent.session.is_remote:
                    self._presences[key] = self._connected(key, agent.presence)
            self._presences.update(changed)
        for of, version in news.lists.items():
            if version != self._versions.get(of):
                hall.copies.read_again(of, partial(self._replace, hall, version))
        if news.revoked > hall.revoked.last_number:
            revocation.read_again(hall, self._revocations)
        if self._pins is not None and news.pinned > self._pins.last_number:
            self._pins.read_again()
        if (news.decisions, news.changes) != self._decisions:
            self._decisions = news.decisions, news.changes
            for desk in self._desks:
                desk.recount(hall)
        if self._opened is not None:
            self._letters.add(news.letters)  # those from before are not for agents of this hall
            opened, self._opened = self._opened, None
            opened()
        elif news.letters > self._letters.last:
            self._read_letters()

    def _replace(self, hall: Hall, version: int, of: ListName, records: list[bytes]) -> None:
        self._versions[of] = version
        admin.replace_copy(hall, of, records)

    def _read_letters(self) -> None:
        """One reading at a time, so that letters are told in the order of their numbers."""
        hall = self._hall
        if hall is None or self._opened is not None:
            return
        if self._is_reading:
            self._reads_again = True
            return
        self._is_reading = True
        self._reads_again = False
        after, known = self._letters.last - OVERLAP, self._letters.latest()
        wanted = _Here(_Proven(hall.roster), self._mesh, self._left)

        def read(letters: list[Letter]) -> None:
            self._is_reading = False
            for letter in letters:
                self._letters.add(letter.number)
                if letter.body is not None:
                    self._tell_here(hall, letter.body)
            if self._reads_again:
                self._read_letters()

        def failed(error: BaseException) -> None:
            """The next pulse tries again."""
            self._is_reading = False
            hall.log.warning("letters_not_read", error=repr(error))

        self._store.submit(lambda books: books.letters(after, known, wanted), read, failed)


def _has_nodes(hall: Hall) -> bool:
    """True if the bus knows other nodes. The store may not have heard of them yet."""
    return hall.cluster is not None and bool(hall.cluster.nodes.live)


class _Proven:
    """The keys that agents of this node have proven."""

    def __init__(self, roster: LocalRoster) -> None:
        self._roster = roster

    def __contains__(self, key: object) -> bool:
        return isinstance(key, bytes) and self._roster.is_here(key)


class _Here:
    """The keys of the agents of this hall, and of some that left. Threads of the store ask it too."""

    def __init__(self, *keys: Container[bytes]) -> None:
        self._keys = keys

    def __contains__(self, key: object) -> bool:
        return any(key in some for some in self._keys)


class _Numbers:
    """Which of the latest letters were read, or need not be."""

    def __init__(self) -> None:
        self.last = 0
        self._latest: set[int] = set()

    def add(self, number: int) -> None:
        self._latest.add(number)
        self.last = max(self.last, number)
        if len(self._latest) > 2 * OVERLAP:
            self._latest = {each for each in self._latest if each > self.last - OVERLAP}

    def latest(self) -> frozenset[int]:
        return frozenset(self._latest)


def named(keys: Iterable[bytes]) -> str:
    """Recipients, as a signal names them."""
    listed = [key.hex() for key in keys]
    return "*" if len(listed) > MAX_NAMED else ",".join(listed)

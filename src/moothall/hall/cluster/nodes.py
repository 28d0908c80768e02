"""Which nodes the hall has, and which of their lives is over. The registry decides, and all nodes follow it.

A node renews its entry in the registry every `RENEWAL_SECONDS`, if the entry is as the node left it. A node that
sees no renewal of another for `SILENCE_SECONDS` sets that entry to dead, if it has not changed meanwhile. So one of
the two changes succeeds, and all nodes see the same one. A node that was given up learns it when its renewal fails,
or from the entry. It takes a new life, with a higher number, and joins again. A registry may also lose all entries
at once. A node that finds no entry goes on with its life, as if it had begun again.

A renewal gives a lease of `LEASE_SECONDS`, counted from when the renewal was sent. The lease ends before another
node can give this one up. A node without a lease sends nothing, so a life that is over is silent.

Nodes never compare their clocks: each measures the silence of others with its own.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from moothall.hall.agenda import Agenda, Appointment
from moothall.hall.cluster.bus import Bus, Entry, Failed, Stop
from moothall.hall.outside import Clock, Log

RENEWAL_SECONDS: Final = 1.0
SILENCE_SECONDS: Final = 3.5  # without a renewal, after which a node is given up
LEASE_SECONDS: Final = 3.25  # less than that: clocks do not run equally fast
RETRY_SECONDS: Final = 0.5
NAME_ADVICE: Final = (
    "another process has this node_name, and this one is cut off; give each node a name of its own"
)


class Node(NamedTuple):
    """One life of a node."""

    name: str
    life: int
    url: str = ""  # where its agents connect, if the operator says it


class _Record(msgspec.Struct, omit_defaults=True):
    """The value of a node's entry."""

    life: int
    is_alive: bool = True
    url: str = ""


class _Known:
    """The entry of a name, as the registry told it last."""

    __slots__ = ("is_alive", "node", "renewed_at", "revision")

    def __init__(self, node: Node, revision: int, renewed_at: float, *, is_alive: bool) -> None:
        self.node = node
        self.revision = revision
        self.renewed_at = renewed_at
        self.is_alive = is_alive


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_Record).decode


class Nodes:
    """The live nodes besides this one, and the life of this one."""

    def __init__(self, bus: Bus, name: str, agenda: Agenda, clock: Clock, log: Log, url: str = "") -> None:
        self._bus = bus
        self._registry = bus.registry
        self.name = name
        self.url = url
        self._agenda = agenda
        self._clock = clock
        self._log = log
        self.live: Final[dict[str, Node]] = {}  # the others, by name
        self.life = 0  # the last one of this node
        self.is_in = False  # this life has begun, and is not over as far as this node knows
        self._tried = 0  # the life that was written last, whatever came of it
        self._over = 0  # the last life of this node that others have seen the end of
        self._revision = 0  # of its own entry
        self._lease_ends = 0.0
        self._known: dict[str, _Known] = {}
        self._is_asking = False  # the registry owes an answer about the own entry
        self._next_pulse: Appointment | None = None
        self._next_look: Appointment | None = None
        self._stop: Stop | None = None
        self.is_told = False  # the registry has told of all nodes that there were
        self._told_all: list[Callable[[], None]] = []
        self._joined: list[Callable[[Node], None]] = []
        self._gone: list[Callable[[Node], None]] = []
        self._begun: list[Callable[[int], None]] = []
        self._ended: list[Callable[[int], None]] = []
        self._renewed: list[Callable[[], None]] = []
        self._pulses: list[Callable[[], None]] = []

    # -- what is known -----------------------------------------------------------------------------

    def is_alive(self, name: str, life: int) -> bool:
        """True if this is the life of another node that goes on."""
        node = self.live.get(name)
        return node is not None and node.life == life

    def may_begin(self, name: str, life: int) -> bool:
        """True if this is a life of another node that the registry may yet tell of."""
        known = self._known.get(name)
        return name != self.name and (known is None or known.node.life < life)

    def ask(self, name: str, life: int, done: Callable[[bool], None], failed: Failed) -> None:
        """Ask the registry whether this life of a node goes on."""

        def answered(entry: Entry | None) -> None:
            record = _read(entry)
            done(record is not None and record.is_alive and record.life == life)

        self._registry.get("nodes", name, answered, failed)

    @property
    def has_lease(self) -> bool:
        """True while no other node can have given this one up."""
        return self.is_in and self._clock.monotonic() < self._lease_ends

    def on_joined(self, told: Callable[[Node], None]) -> None:
        """Call `told` when another node has begun a life. One that there is already counts as well."""
        self._joined.append(told)

    def on_gone(self, told: Callable[[Node], None]) -> None:
        """Call `told` when the life of another node is over."""
        self._gone.append(told)

    def on_begun(self, told: Callable[[int], None]) -> None:
        """Call `told` when this node has a new life."""
        self._begun.append(told)

    def on_ended(self, told: Callable[[int], None]) -> None:
        """Call `told` when this node was given up. A new life begins later."""
        self._ended.append(told)

    def on_renewed(self, told: Callable[[], None]) -> None:
        """Call `told` after each renewal, which is about once in `RENEWAL_SECONDS` while the bus is up."""
        self._renewed.append(told)

    def on_told(self, told: Callable[[], None]) -> None:
        """Call `told` when the registry has told of all nodes that there are."""
        self._told_all.append(told)

    def on_pulse(self, told: Callable[[], None]) -> None:
        """Call `told` every `RENEWAL_SECONDS`, also while the bus is down."""
        self._pulses.append(told)

    # -- the way in and out ------------------------------------------------------------------------

    def open(self) -> None:
        """Join the others, and go on to renew."""
        self._bus.on_change(self._bus_changed)
        self._stop = self._registry.watch("nodes", self._told, self._told_of_all)
        self._pulse()

    def _told_of_all(self) -> None:
        self.is_told = True
        for told in self._told_all:
            told()

    def close(self, done: Callable[[], None] = lambda: None) -> None:
        """Leave the others: they see at once that this life is over. `done` is called when they can see it."""
        if self._stop is None:
            done()
            return
        self._stop()
        self._stop = None
        for appointment in (self._next_pulse, self._next_look):
            if appointment is not None:
                self._agenda.cancel(appointment)
        if self.is_in:
            self.is_in = False
            own = Node(self.name, self.life, self.url)
            self._put_dead(own, self._revision, lambda revision: done(), lambda error: done())
        else:
            done()

    def _put_dead(
        self, node: Node, revision: int, done: Callable[[int | None], None], failed: Failed
    ) -> None:
        record = _Record(node.life, is_alive=False, url=node.url)
        self._registry.put("nodes", node.name, _encode(record), revision, done, failed)

    # -- the own life ------------------------------------------------------------------------------

    def _pulse(self) -> None:
        self._next_pulse = self._agenda.at(self._clock.monotonic() + RENEWAL_SECONDS, self._pulse)
        self._renew()
        for told in self._pulses:
            told()

    def _renew(self) -> None:
        if self._is_asking or self._stop is None or not self._bus.is_up:
            return
        if self.is_in:
            self._put(self.life, self._revision)
        elif not self._has_rival():
            self._ask_own(self._begin)

    def _has_rival(self) -> bool:
        """True while another process lives under the name of this node."""
        known = self._known.get(self.name)
        return known is not None and known.is_alive and self.life != 0 and known.node.life > self._tried

    def _begin(self, entry: Entry | None) -> None:
        """An entry of an earlier process of this name is replaced, and its life is over with that."""
        if self._go_on(entry):
            return
        record = _read(entry)
        if record is not None or self._tried <= self._over:
            last = record.life if record is not None else 0
            self._tried = max(int(self._clock.time() * 1000), last + 1, self._tried + 1)
        self._put(self._tried, entry.revision if entry is not None else 0)

    def _go_on(self, entry: Entry | None) -> bool:
        """Renew an entry that this node has written without knowing it, because the answer was lost."""
        record = _read(entry)
        if entry is None or record is None or not record.is_alive or record.life != self._tried:
            return False
        self._put(self._tried, entry.revision)
        return True

    def _put(self, life: int, revision: int) -> None:
        sent = self._clock.monotonic()

        def done(new_revision: int | None) -> None:
            self._is_asking = False
            if self._stop is None:
                return
            if new_revision is not None:
                self._confirm(life, new_revision, sent)
            else:
                self._ask_own(self._compare)

        self._is_asking = True
        self._registry.put(
            "nodes", self.name, _encode(_Record(life, url=self.url)), revision, done, self._failed
        )

    def _ask_own(self, then: Callable[[Entry | None], None]) -> None:
        def done(entry: Entry | None) -> None:
            self._is_asking = False
            if self._stop is not None:
                then(entry)

        self._is_asking = True
        self._registry.get("nodes", self.name, done, self._failed)

    def _failed(self, error: BaseException) -> None:
        """The bus is down. The next pulse tries again."""
        self._is_asking = False

    def _compare(self, entry: Entry | None) -> None:
        """The entry is not as this node left it."""
        if not self._go_on(entry):
            self._end(is_over=_read(entry) is not None)
            self._renew()

    def _confirm(self, life: int, revision: int, sent: float) -> None:
        if life <= self._over:
            return  # the entry told meanwhile that this life is over
        self._revision = revision
        self._lease_ends = max(self._lease_ends, sent + LEASE_SECONDS)
        if not self.is_in:
            self.life = life
            self.is_in = True
            self._log.info("node_joined", node=self.name, life=life)
            for told in self._begun:
                told(life)
        for renewed in self._renewed:
            renewed()

    def _end(self, *, is_over: bool) -> None:
        if is_over:
            self._over = self.life
        if not self.is_in:
            return
        self.is_in = False
        self._lease_ends = 0.0
        self._log.warning("node_given_up", node=self.name, life=self.life)
        for told in self._ended:
            told(self.life)

    # -- the others --------------------------------------------------------------------------------

    def _told(self, entry: Entry) -> None:
        if self._stop is None:
            return
        known = self._known.get(entry.key)
        if known is not None and entry.revision <= known.revision:
            return
        record = _read(entry)
        if record is None:
            self._forget(entry.key)
            return
        node = Node(entry.key, record.life, record.url)
        self._known[entry.key] = _Known(
            node, entry.revision, self._clock.monotonic(), is_alive=record.is_alive
        )
        if entry.key == self.name:
            self._see_own(node, is_alive=record.is_alive)
        else:
            self._see(node, is_alive=record.is_alive)
        self._plan_look()

    def _see_own(self, node: Node, *, is_alive: bool) -> None:
        if not self.is_in or node.life < self.life:
            return
        if is_alive and node.life == self.life:
            return
        if is_alive:
            self._log.warning("node_name_taken", node=self.name, advice=NAME_ADVICE)
        self._end(is_over=True)
        self._renew()

    def _see(self, node: Node, *, is_alive: bool) -> None:
        old = self.live.get(node.name)
        if old is not None and (old.life != node.life or not is_alive):
            self._lose(old)
        if is_alive and node.name not in self.live:
            self.live[node.name] = node
            for told in self._joined:
                told(node)

    def _lose(self, node: Node) -> None:
        del self.live[node.name]
        for told in self._gone:
            told(node)

    def _forget(self, name: str) -> None:
        """The entry is deleted: the life that it told of is over."""
        self._known.pop(name, None)
        if name == self.name:
            self._end(is_over=False)
            self._renew()
        elif name in self.live:
            self._lose(self.live[name])

    # -- silence -----------------------------------------------------------------------------------

    def _plan_look(self) -> None:
        """One appointment for the node that was silent longest. Renewals only make it later."""
        if self._next_look is not None and not self._next_look.cancelled:
            return
        watched = [known.renewed_at for known in self._known.values() if self._is_watched(known)]
        if watched and self._stop is not None:
            self._next_look = self._agenda.at(min(watched) + SILENCE_SECONDS, self._look)

    def _is_watched(self, known: _Known) -> bool:
        return known.is_alive and (known.node.name != self.name or self._has_rival())

    def _look(self) -> None:
        self._next_look = None
        now = self._clock.monotonic()
        for known in list(self._known.values()):
            if self._is_watched(known) and known.renewed_at + SILENCE_SECONDS <= now:
                known.renewed_at = now - SILENCE_SECONDS + RETRY_SECONDS
                if self._bus.is_up:
                    self._give_up(known)
        self._plan_look()

    def _give_up(self, known: _Known) -> None:
        def done(revision: int | None) -> None:
            if revision is None and self._stop is not None:
                # It was changed, and the watch has not told: ask.
                self._registry.get("nodes", known.node.name, answered, _ignore)

        def answered(entry: Entry | None) -> None:
            if entry is not None:
                self._told(entry)
            elif self._known.get(known.node.name) is known:
                self._forget(known.node.name)

        self._log.warning("node_silent", node=known.node.name, life=known.node.life)
        self._put_dead(known.node, known.revision, done, _ignore)

    def _bus_changed(self, is_up: bool) -> None:
        """What was not seen while the bus was down is not held against the others."""
        if is_up:
            for known in self._known.values():
                known.renewed_at = self._clock.monotonic()
                known.revision = 0  # the registry may have been made anew
            if self._stop is not None:
                self._renew()


def _read(entry: Entry | None) -> _Record | None:
    if entry is None or not entry.value:
        return None
    try:
        return _decode(entry.value)
    except msgspec.DecodeError:
        return None


def _ignore(result: object) -> None:
    """The watch tells what came of it; or a later look."""

"""Which node is home to which channel: the bucket `homes` of the registry says it.

An entry is made with the channel, by one node: so a channel is made once. It names the home, the life and the epoch
of it, and what kind of channel it is. When the life of a home is over, a node that needs the channel changes the
entry to itself. A home without members hands the channel to a node that has some, in the same way.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from moothall.errors import ChannelNotFound
from moothall.hall.agenda import Agenda
from moothall.hall.channel_kind import Kind
from moothall.hall.cluster.bus import Bus, Entry, Stop
from moothall.hall.cluster.elections import ChannelLog
from moothall.hall.cluster.events import refused
from moothall.hall.cluster.log import (
    Answer,
    Expect,
    Follow,
    Happened,
    Lend,
    Lent,
    Missed,
    Room,
    Snapshot,
    Submit,
    Tip,
    Unfollow,
)
from moothall.hall.cluster.nodes import Nodes
from moothall.hall.cluster.post import Post
from moothall.hall.cluster.replicas import Role, Sent
from moothall.hall.outside import Clock
from moothall.hall.shared_memory import SharedMemory
from moothall.wire.bus import BusMessage, Origin, channel_subject, node_subject

TICK_SECONDS: Final = 0.5
PATIENCE_SECONDS: Final = 1.0  # without the others, before a node goes on alone
# A node that has nothing of a log lets those that have some take a home that has died.
MODESTY_SECONDS: Final = 1.0
# Nodes that know a channel take the place of its home sooner than this. After that, none knows it.
LOST_SECONDS: Final = 2.0
# A node without members keeps what it has of a log that long after the home has died: a slow heir may ask for it.
ABANDONED_SECONDS: Final = 10.0
# In one tick. The bus is lost if this node sends much more at once than NATS takes. A node asks again in a tick.
MOST_TOLD: Final = 8 * 1024 * 1024
SMALL: Final = 64 * 1024  # bytes of a channel with few members and short lines
# The registry answers sooner, or says that it does not. Until then, an answer may be older than a deletion.
REVISION_SECONDS: Final = 30.0
# What was submitted to a channel that was removed meanwhile is answered as if it had never been.
GONE: Final = refused(ChannelNotFound("This channel was removed a moment ago, because it was empty"))


class Home(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of an entry."""

    node: str
    life: int
    epoch: int
    kind: Kind = Kind()


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Home).decode


_HANDLERS: Final[dict[type[BusMessage], Callable[[ChannelLog, Origin, Any], None]]] = {
    Submit: ChannelLog.submitted,
    Expect: ChannelLog.expected,
    Answer: ChannelLog.answered,
    Happened: ChannelLog.happened,
    Tip: ChannelLog.tipped,
    Follow: ChannelLog.followed,
    Unfollow: ChannelLog.unfollowed,
    Missed: ChannelLog.missed,
    Snapshot: ChannelLog.snapshot,
    Lend: ChannelLog.lend,
    Lent: ChannelLog.lent,
}


def key_of(channel: str) -> str:
    return channel.encode().hex()


class Homes:
    """The channels of all nodes, as this one knows them. Implements `replicas.Outlook`."""

    def __init__(
        self,
        bus: Bus,
        post: Post,
        nodes: Nodes,
        agenda: Agenda,
        clock: Clock,
        make_room: Callable[[str], Room],
        kind_of: Callable[[str], Kind],
        failed: Callable[[str, Exception], None],
        memory: SharedMemory,
    ) -> None:
        """`kind_of` says of a channel without an entry what kind it is. `failed` logs what failed for a channel.
        `memory` is for the records of all channels."""
        self._bus = bus
        self._post = post
        self._nodes = nodes
        self._agenda = agenda
        self._make_room = make_room
        self._kind_of = kind_of
        self._clock = clock
        self.now = clock.monotonic
        self.failed = failed
        self.memory = memory
        self.logs: dict[str, ChannelLog] = {}
        self.entries: dict[str, tuple[Home, int]] = {}  # with the revision
        self.opened: Callable[[str, Kind], None] = lambda channel, kind: None
        self.removed: Callable[[str], None] = lambda channel: None
        self.ticked: Callable[[], None] = lambda: None
        self.is_connected: Callable[[], bool] = lambda: bus.is_up and nodes.has_lease
        self._revisions: dict[str, int] = {}  # the last one of each channel that there was
        self._claiming: set[str] = set()
        self._dead_since: dict[str, float] = {}  # homes that have died, by channel
        self._former: dict[str, str] = {}  # the home before this one
        self._sent: dict[str, Sent] = {}  # to homes of channels that this node has no part in now
        self._removing: set[str] = set()  # channels that the registry was asked to delete
        self._removed_at: dict[str, float] = {}  # channels that were removed lately, the first one first
        self._told_bytes = 0  # of channels, to nodes that lacked something, since the last tick
        self._ended: dict[str, float] = {}  # nodes, with the time at which their last life was over
        self._last_end = 0.0  # of any node, or when this one was opened
        self._apart_since: float | None = None
        self._is_alone = False
        self._has_lived = False
        self._opened_at = 0.0
        self._stops: list[Stop] = []
        for kind, handler in _HANDLERS.items():
            post.handle(kind, partial(self._receive, handler))
        bus.on_change(self._bus_changed)
        nodes.on_begun(self._begun)

    def _receive(
        self, handler: Callable[[ChannelLog, Origin, Any], None], origin: Origin, message: Any
    ) -> None:
        log = self.logs.get(message.channel)
        if log is not None:
            handler(log, origin, message)

    def open(self) -> None:
        self._last_end = self._opened_at = self.now()
        self._stops.append(self._bus.registry.watch("homes", self._told, lambda: None))
        self._plan()

    def close(self) -> None:
        for stop in self._stops:
            stop()
        self._stops.clear()

    # -- what a channel needs of its node (`replicas.Outlook`) ---------------------------------------

    @property
    def me(self) -> Origin:
        return self._post.origin

    def is_alive(self, node: str) -> bool:
        return node == self.me.node or node in self._nodes.live

    def send(self, node: str, message: BusMessage) -> None:
        self._post.send(node_subject(node), message)

    def publish(self, channel: str, message: BusMessage) -> None:
        self._post.send(channel_subject(channel), message)

    def may_tell(self, size: int) -> bool:
        """Small channels do not wait for large ones."""
        told, most = self._told_bytes, MOST_TOLD if size > SMALL else 2 * MOST_TOLD
        if told and told + size > most:
            return False
        self._told_bytes += size
        return True

    def listen(self, channel: str) -> Stop:
        return self._post.listen(channel_subject(channel))

    # -- channels ----------------------------------------------------------------------------------

    def log(self, channel: str) -> ChannelLog:
        """Of a channel that this node needs, or has to submit something to."""
        log = self.logs.get(channel)
        if log is None:
            room = self._make_room(channel)
            log = self.logs[channel] = ChannelLog(channel, room, self)
            room.log = log
            if (sent := self._sent.pop(channel, None)) is not None:
                log.go_on_after(sent)
        return log

    def want(self, channel: str) -> ChannelLog:
        """This node needs the channel, or is about to submit something: find its home."""
        log = self.log(channel)
        self.review(log)
        return log

    def home_of(self, channel: str) -> str | None:
        found = self.entries.get(channel)
        return found[0].node if found is not None else None

    def knows(self, channel: str) -> bool:
        """True if this node knows the members and the history of the channel."""
        log = self.logs.get(channel)
        return log is not None and (log.decides or log.has_replica)

    def find(self, channel: str) -> str | None:
        """The node that knows the channel; this one, if no node knows more. None: the next home is being found."""
        found = self.entries.get(channel)
        if found is None or self.knows(channel) or self.is_lost(channel):
            return self.me.node
        home, _ = found
        return home.node if self._nodes.is_alive(home.node, home.life) else None

    def is_lost(self, channel: str, seconds: float = LOST_SECONDS) -> bool:
        """True if the home of the channel has died, and no node that knew the channel has taken its place since."""
        found = self.entries.get(channel)
        if found is None or self._is_me(found[0]) or self._nodes.is_alive(found[0].node, found[0].life):
            return False
        return self.now() - self._ended.get(found[0].node, self._opened_at) >= seconds

    @property
    def may_find_losses(self) -> bool:
        """True if a node died lately, or this one was opened lately: channels may be found to be lost."""
        return self.now() - self._last_end < 2 * LOST_SECONDS

    def make(
        self, channel: str, kind: Kind, done: Callable[[bool], None], failed: Callable[[BaseException], None]
    ) -> None:
        """Make a channel, with this node as its home. `done` gets False if there is one of this name."""
        if channel in self.entries:
            done(False)
            return
        home = Home(self.me.node, self.me.life, self._new_epoch(), kind)

        def answered(revision: int | None) -> None:
            if revision is not None:
                self._know(channel, home, revision)
            done(revision is not None)

        self._bus.registry.put("homes", key_of(channel), _encode(home), 0, answered, failed)

    def remove(self, channel: str) -> None:
        """Remove a channel whose home is here, and which has no members. Nodes that people watch may follow it."""
        found, log = self.entries.get(channel), self.logs.get(channel)
        if found is None or log is None or log.role is not Role.HOME or log.room.member_nodes():
            return
        log.resign()
        self._removing.add(channel)

        def done(is_deleted: bool) -> None:
            if not is_deleted:
                stay()

        def stay() -> None:
            self._removing.discard(channel)
            log.stay()

        self._bus.registry.delete("homes", key_of(channel), found[1], done, lambda error: stay())

    # -- the registry ------------------------------------------------------------------------------

    def _told(self, entry: Entry) -> None:
        try:
            channel = bytes.fromhex(entry.key).decode()
        except ValueError:
            return
        if entry.revision <= self._revisions.get(channel, 0):
            return
        if not entry.value:
            self._revisions[channel] = entry.revision
            self._forget(channel)
            return
        try:
            home = _decode(entry.value)
        except msgspec.DecodeError:
            return
        self._know(channel, home, entry.revision)

    def _know(self, channel: str, home: Home, revision: int) -> None:
        if revision <= self._revisions.get(channel, 0):
            return
        self._revisions[channel] = revision
        self._removing.discard(channel)
        before = self.entries.get(channel)
        self.entries[channel] = (home, revision)
        self._dead_since.pop(channel, None)
        if before is None:
            self._former.pop(channel, None)
            self.opened(channel, home.kind)
        elif before[0].node != home.node:
            self._former[channel] = before[0].node
        log = self.logs.get(channel)
        if log is None and self._is_me(home):
            log = self.log(channel)
        if log is not None:
            self.review(log)

    def _forget(self, channel: str) -> None:
        """The channel was removed. If this node has members that the home did not know, it is made again."""
        if self.entries.pop(channel, None) is None:
            return
        self._former.pop(channel, None)
        self._dead_since.pop(channel, None)
        self._sent.pop(channel, None)
        self._removing.discard(channel)
        self._removed_at.pop(channel, None)
        self._removed_at[channel] = self.now()
        log = self.logs.get(channel)
        if log is not None and self.me.node in log.room.member_nodes():
            self.review(log)
            return
        pending = log.take_pending() if log is not None else []
        if log is not None:
            self._let_go(log)
        self.removed(channel)
        for done in pending:
            done(GONE)

    def _forget_revisions(self) -> None:
        """Of channels that were removed: no call of that time is answered any more."""
        before = self.now() - REVISION_SECONDS
        while self._removed_at:
            channel, removed_at = next(iter(self._removed_at.items()))
            if removed_at > before:
                return
            del self._removed_at[channel]
            if channel not in self.entries:
                self._revisions.pop(channel, None)

    def _is_me(self, home: Home) -> bool:
        return (home.node, home.life) == self.me

    def review(self, log: ChannelLog) -> None:
        """Do what follows from the entry of the channel, as it is now."""
        if not self.is_connected():
            if self._is_alone:
                log.go_alone()
            return
        found = self.entries.get(log.name)
        if found is None:
            if log.needs_home:
                kind = self._kind_of(log.name)
                epoch = self._new_epoch(log.epoch)
                self._claim(log, Home(self.me.node, self.me.life, epoch, kind), 0)
            return
        home, revision = found
        if self._is_me(home):
            if log.role is Role.RESIGNING and (log.name in self._removing or log.name in self._claiming):
                return  # the registry has yet to say whether this node stays home
            self._dead_since.pop(log.name, None)
            log.take_over(home.epoch, self._former.get(log.name))
        elif self._nodes.is_alive(home.node, home.life):
            self._dead_since.pop(log.name, None)
            log.follow(home.node, home.epoch)
        elif log.needs_home:
            since = self._dead_since.setdefault(log.name, self.now())
            if log.has_replica or self.now() - since >= MODESTY_SECONDS:
                self._claim(log, self._mine(home), revision)

    def _new_epoch(self, last: int = 0) -> int:
        """For an entry that is made: one that the channel never had.

        The registry may have forgotten an entry, and this node may not know its epoch. Of two homes with one epoch,
        nodes would take the records and serials of the one for those of the other. So the first epoch is the time.
        """
        return max(int(self._clock.time() * 1000), last + 1)

    def _mine(self, home: Home) -> Home:
        return Home(self.me.node, self.me.life, home.epoch + 1, home.kind)

    def _claim(self, log: ChannelLog, home: Home, revision: int) -> None:
        """Make this node the home, if no other node does so first."""
        name = log.name
        if name in self._claiming:
            return
        self._claiming.add(name)

        def done(new_revision: int | None) -> None:
            self._claiming.discard(name)
            if new_revision is not None:
                self._know(name, home, new_revision)
            else:
                self._look(name)

        def failed(error: BaseException) -> None:
            self._claiming.discard(name)

        self._bus.registry.put("homes", key_of(name), _encode(home), revision, done, failed)

    def _look(self, channel: str) -> None:
        """The entry is not what this node thought, and the watch has not told."""
        known = self._revisions.get(channel)

        def done(entry: Entry | None) -> None:
            if entry is not None:
                self._told(entry)
                return
            if self._revisions.get(channel) != known:
                return  # the entry was made after this answer, and the watch was faster
            log = self.logs.get(channel)
            if log is None or not log.needs_home:
                self._forget(channel)
            else:
                self.entries.pop(channel, None)
                self.review(log)

        self._bus.registry.get("homes", key_of(channel), done, lambda error: None)

    def _hand_over(self, log: ChannelLog) -> None:
        """To a node that has members, if this one has none."""
        found = self.entries.get(log.name)
        if found is None or log.name in self._claiming or not self._is_me(found[0]):
            return
        nodes = sorted(log.room.member_nodes() & log.followers)
        heir = next((node for node in nodes if node in self._nodes.live), None)
        if heir is None:
            return
        home, revision = found
        life = self._nodes.live[heir].life
        named = Home(heir, life, home.epoch + 1, home.kind)
        log.resign()
        self._claiming.add(log.name)

        def done(new_revision: int | None) -> None:
            self._claiming.discard(log.name)
            if new_revision is not None:
                self._know(log.name, named, new_revision)
            else:
                self._look(log.name)

        def failed(error: BaseException) -> None:
            self._claiming.discard(log.name)
            self._look(log.name)

        self._bus.registry.put("homes", key_of(log.name), _encode(named), revision, done, failed)

    # -- nodes and time ----------------------------------------------------------------------------

    def _begun(self, life: int) -> None:
        """This node has a new life: others have announced that its members are gone."""
        has_lived, self._has_lived = self._has_lived, True
        self._sent.clear()
        if has_lived:
            self._for_each(ChannelLog.begin_again)

    def node_gone(self, node: str) -> None:
        """The life of another node is over."""
        self._ended[node] = self._last_end = self.now()
        self._for_each(lambda log: log.node_gone(node))
        self._for_each(self.review)

    def node_joined(self, node: str) -> None:
        """Another node has begun a life: it may be home to a channel that this one waits for."""
        self._for_each(self.review)

    def _bus_changed(self, is_up: bool) -> None:
        """Messages may have been lost. The registry may have been made anew: what it tells from now on counts."""
        if self._apart_since is None:
            self._apart_since = self.now()
        if is_up:
            self._revisions.clear()

    def reach(self, is_connected: bool) -> None:
        """This node reaches the others again, or no longer does.

        Another node may be home by now. If this node decided more, members would get it after later lines.
        """
        if is_connected:
            self._come_back()
        elif self._apart_since is None:
            self._apart_since = self.now()

    def _come_back(self) -> None:
        if self._apart_since is None:
            return
        self._apart_since, self._is_alone = None, False
        self._for_each(self._speak_up)

    def _speak_up(self, log: ChannelLog) -> None:
        self._look(log.name)
        log.speak_up()
        self.review(log)

    def _for_each(self, act: Callable[[ChannelLog], None]) -> None:
        """What fails for one channel is logged, and the others go on."""
        for log in list(self.logs.values()):
            try:
                act(log)
            except Exception as error:  # noqa: BLE001  # whatever it is, the next channel is another one
                self.failed(log.name, error)

    def _plan(self) -> None:
        def tick() -> None:
            if self._stops:
                self._plan()  # first: what fails in this tick does not end the next ones
                self.tick()

        self._agenda.at(self.now() + TICK_SECONDS, tick)

    def tick(self) -> None:
        self._told_bytes = 0
        if not self.is_connected():
            if self._apart_since is None:
                self._apart_since = self.now()
            elif not self._is_alone and self.now() - self._apart_since >= PATIENCE_SECONDS:
                self._is_alone = True
                self._for_each(ChannelLog.go_alone)
            return
        self._come_back()
        self._forget_revisions()
        self._for_each(self._tick)
        self.ticked()

    def _tick(self, log: ChannelLog) -> None:
        if log.is_at_rest and (found := self.entries.get(log.name)) is not None and self._is_me(found[0]):
            return  # as most channels of a hall with many
        self.review(log)
        log.tick()
        if log.role is Role.HOME and log.followers and not log.room.is_wanted:
            self._hand_over(log)
        elif log.is_idle or self._is_abandoned(log):
            self._let_go(log)

    def _is_abandoned(self, log: ChannelLog) -> bool:
        """True if this node waits for a home that has died, and no node has members who need another one."""
        return log.role is Role.SYNCING and not log.needs_home and self.is_lost(log.name, ABANDONED_SECONDS)

    def _let_go(self, log: ChannelLog) -> None:
        if log.sent is not None and log.name in self.entries:
            self._sent[log.name] = log.sent
        log.end()
        log.room.log = None
        log.room.emptied()
        del self.logs[log.name]

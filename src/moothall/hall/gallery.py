"""The gallery: people who only look, at the path `/watch` of the port.

An onlooker gets what an anonymous agent in all public channels would get. It is not in the roster, and no agent is
told of it. Channels that are invite-only or for verified agents, their members and direct messages stay hidden.

The first message is HALL. A snapshot follows: CHANNELS, AGENTS, and for each public channel its latest messages and
JOINED. Then come the messages of the hall as they happen, as the same bytes that members get.

An onlooker that reads too slowly misses messages instead of making them wait. When it has read what it was sent,
GAP tells it how many it missed, and a new snapshot follows.
"""

from collections.abc import Iterator
from functools import partial
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from moothall.errors import InvalidMessage
from moothall.hall.access import AddressCounts
from moothall.hall.budgets import Meter, Price
from moothall.hall.channels import Channel
from moothall.hall.membership import agent_entry, channel_entry, joined
from moothall.hall.outside import Link
from moothall.settings import Settings
from moothall.wire.agentchat import server
from moothall.wire.agentchat.codec import framed
from moothall.wire.outgoing import Bundle, Outgoing
from moothall.wire.websocket import INTERNAL_ERROR, POLICY_VIOLATION, TRY_AGAIN_LATER

if TYPE_CHECKING:
    from moothall.hall.hall import Hall

MAX_MESSAGE: Final = 1024  # bytes of a frame: PING is all that there is to say
# One address may have this share of all places, so that it cannot keep others out. Loopback may have all.
SHARE_OF_ADDRESS: Final = 4
# Shares of an outbox: what a snapshot may take, and what an onlooker may leave unread before it misses messages.
SNAPSHOT_SHARE: Final = 4
UNREAD_SHARE: Final = 2
LOOK_AFTER: Final = 32 * 1024  # bytes that are shown between two looks at who reads too slowly
AGENT_BYTES: Final = 256  # of an entry, at most for most agents
CHANNEL_BYTES: Final = 128

SLOWER: Final = "Too many frames; a watcher only sends PING, now and then"
FULL: Final = "All places for watchers are taken; try again later, or ask the operator to raise max_watchers"
BUSY: Final = "This address asks for too much; wait a moment"


class _Frame(msgspec.Struct):
    type: str


_decode: Final = msgspec.json.Decoder(_Frame).decode


def is_open(settings: Settings) -> bool:
    """False: strangers may not watch."""
    return settings.page and settings.shows_strangers


class Onlooker:
    __slots__ = ("ip", "is_counted", "link", "meter", "missed")

    def __init__(self, link: Link, ip: str, meter: Meter | None, *, is_counted: bool) -> None:
        self.link = link
        self.ip = ip
        self.meter = meter  # counts what it costs; None without limits
        self.is_counted = is_counted  # towards the places of its address
        self.missed: int | None = None  # messages, while it reads too slowly


class Gallery:
    """What `moothall.gateways` has behind the path `/watch` of its port."""

    def __init__(self, hall: "Hall") -> None:
        settings = hall.settings
        self._hall = hall
        self._limited = not settings.no_limits
        self._most = settings.max_watchers
        self._addresses = AddressCounts(max(1, self._most // SHARE_OF_ADDRESS) if self._limited else 0)
        self._snapshot_limit = settings.outbox_limit // SNAPSHOT_SHARE
        self._unread_limit = settings.outbox_limit // UNREAD_SHARE
        self._onlookers: dict[Onlooker, None] = {}
        self._snapshot_size = 0  # bytes of the last one
        self._shown = 0  # bytes since the last look at who reads too slowly
        self.gaps = 0  # times that an onlooker began to miss messages
        self.refused = 0  # for want of a place
        hall.channels.on_opening(self._opened)
        hall.channels.on_occupied(self._occupied)
        hall.channels.on_removal(self._removed)

    def __len__(self) -> int:
        return len(self._onlookers)

    # -- what the port calls -----------------------------------------------------------------------

    def connect(
        self, link: Link, ip: str, user_agent: str = "", *, is_loopback: bool = False, host: str = ""
    ) -> Onlooker | None:
        """A new connection, or None if it was turned away."""
        if len(self._onlookers) >= self._most or not (is_loopback or self._addresses.admit(ip)):
            self.refused += 1
            link.close(TRY_AGAIN_LATER, FULL)
            return None
        meter = None
        if self._limited:
            meter = self._hall.budgets.meter(ip, is_loopback=is_loopback)
            meter.limit_frames(self._hall.settings.rate_pre_auth)
        onlooker = Onlooker(link, ip, meter, is_counted=not is_loopback)
        self._onlookers[onlooker] = None
        self._hall.delivery.gallery = self
        price = Price(bytes=self._snapshot_size, told=self._entries())
        if meter is not None and meter.charge(price, self._hall.now()) is not None:
            self._turn_out(onlooker, TRY_AGAIN_LATER, BUSY)
            return None
        self._send_snapshot(onlooker)
        return onlooker

    def disconnect(self, onlooker: Onlooker) -> None:
        if onlooker not in self._onlookers:
            return
        del self._onlookers[onlooker]
        if onlooker.is_counted:
            self._addresses.depart(onlooker.ip)
        if not self._onlookers:
            self._hall.delivery.gallery = None

    def receive(self, onlooker: Onlooker, payload: bytes) -> None:
        if not self.receive_control(onlooker, len(payload)):
            return
        answer: server.ServerMessage
        if _is_ping(payload):
            answer = server.Pong(ts=self._hall.timestamp())
        else:
            answer = server.Error(
                ts=self._hall.timestamp(),
                code=InvalidMessage.code,
                message="A watcher may only send PING; to speak, connect to / and IDENTIFY",
            )
        onlooker.link.put(Outgoing(answer))

    def receive_binary(self, onlooker: Onlooker, payload: bytes) -> None:
        self.receive(onlooker, payload)

    def receive_control(self, onlooker: Onlooker, size: int) -> bool:
        """False: it has left, or it is over a limit and has to leave."""
        if onlooker not in self._onlookers:
            return False
        meter, now = onlooker.meter, self._hall.now()
        if meter is None:
            return True
        within = meter.frames is None or meter.frames.count(now)
        if within and meter.charge(Price(frames=1, bytes=size), now) is None:
            return True
        self._hall.note("watcher_flood", ip=onlooker.ip)
        self._turn_out(onlooker, POLICY_VIOLATION, SLOWER)
        return False

    def receive_piece(self, onlooker: Onlooker, size: int) -> None:
        meter = onlooker.meter
        if meter is not None and meter.prepay(size, self._hall.now()):
            self._turn_out(onlooker, POLICY_VIOLATION, SLOWER)

    def waiting_bytes(self, onlooker: Onlooker) -> int:
        return 0

    def fail(self, onlooker: Onlooker) -> None:
        self._turn_out(onlooker, INTERNAL_ERROR, "Internal error")

    def _turn_out(self, onlooker: Onlooker, code: int, reason: str) -> None:
        onlooker.link.close(code, reason)
        self.disconnect(onlooker)

    # -- what the hall shows -----------------------------------------------------------------------

    def put(self, outgoing: Outgoing | Bundle) -> None:
        """A message that all onlookers may see."""
        self._shown += len(framed(outgoing))
        if self._shown >= LOOK_AFTER:
            self._shown = 0
            self._find_slow()
        for onlooker in self._onlookers:
            if onlooker.missed is None:
                onlooker.link.put(outgoing)
            else:
                onlooker.missed += len(outgoing.parts) if isinstance(outgoing, Bundle) else 1

    def _find_slow(self) -> None:
        for onlooker in self._onlookers:
            if onlooker.missed is None and onlooker.link.unread > self._unread_limit:
                onlooker.missed = 0
                self.gaps += 1
                onlooker.link.when_written(partial(self._catch_up, onlooker))

    def _catch_up(self, onlooker: Onlooker, is_written: bool) -> None:
        if not is_written or onlooker not in self._onlookers or onlooker.missed is None:
            return
        missed, onlooker.missed = onlooker.missed, None
        onlooker.link.put(Outgoing(server.Gap(ts=self._hall.timestamp(), missed=missed)))
        self._send_snapshot(onlooker)

    def _opened(self, channel: Channel) -> None:
        if channel.is_public and channel.is_shown:
            self._show_channel(channel)

    def _occupied(self, channel: Channel) -> None:
        """A channel on demand is there while it has members."""
        if channel.is_public and channel.on_demand:
            if channel.members:
                self._show_channel(channel)
            else:
                self._removed(channel)

    def _show_channel(self, channel: Channel) -> None:
        if self._onlookers:
            self.put(Outgoing(joined(self._hall, channel)))

    def _removed(self, channel: Channel) -> None:
        if self._onlookers and channel.is_public:
            self.put(Outgoing(server.Left(ts=self._hall.timestamp(), channel=channel.name)))

    # -- the snapshot ------------------------------------------------------------------------------

    def _entries(self) -> int:
        """About how many entries a snapshot has."""
        return min(len(self._hall.roster), self._most_agents) + min(
            len(self._hall.channels), self._most_channels
        )

    @property
    def _most_agents(self) -> int:
        return self._snapshot_limit // 4 // AGENT_BYTES

    @property
    def _most_channels(self) -> int:
        return self._snapshot_limit // 4 // CHANNEL_BYTES

    def _send_snapshot(self, onlooker: Onlooker) -> None:
        size = 0
        for part in self._snapshot():
            size += len(framed(part))
            onlooker.link.put(part)
        self._snapshot_size = size

    def _snapshot(self) -> Iterator[Outgoing | Bundle]:
        """Where it would get too long, the channels that were quiet the longest are left out."""
        hall, now = self._hall, self._hall.timestamp()
        shown = [channel for channel in hall.channels if channel.is_shown and not channel.invite_only]
        listed = nlargest(self._most_channels, shown, key=lambda channel: channel.last_activity)
        agents = [agent_entry(agent) for agent in islice(hall.roster.agents.values(), self._most_agents)]
        truncated = len(agents) < len(hall.roster)
        yield Outgoing(
            server.WatchedHall(
                ts=now,
                server=hall.settings.server_name,
                motd=hall.motd,
                hall_key=hall.public_key,
                features=hall.features,
            )
        )
        entries = [channel_entry(channel) for channel in listed]
        yield Outgoing(server.Channels(ts=now, list=entries, truncated=len(entries) < len(shown)))
        yield Outgoing(server.Agents(ts=now, list=agents, truncated=truncated))
        room = self._snapshot_limit // 2
        for channel in listed:
            if channel.is_public:
                members = Outgoing(joined(hall, channel))
                room -= len(framed(members)) + channel.buffer.size
                if room < 0:
                    break
                if len(channel.buffer):
                    yield channel.buffer.replay()
                yield members


def _is_ping(payload: bytes) -> bool:
    try:
        return _decode(payload).type == "PING"
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False

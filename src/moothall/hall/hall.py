"""The hall: its sessions and agents, and the way of every message through it.

A frame comes in through `receive`, which decodes it, looks up its command and runs the checks of the table. The
command's handler answers with `reply`, and tells others through `delivery`. Nothing here waits: what must wait for
a disk goes through `durable`.
"""

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from moothall.errors import (
    AuthRequired,
    LurkMode,
    RateLimited,
    Refusal,
)
from moothall.hall import throttle
from moothall.hall.access import Doorkeeper, NewKeys
from moothall.hall.agenda import Agenda, Appointment
from moothall.hall.api_tokens import ApiTokens
from moothall.hall.budgets import Budgets, Price
from moothall.hall.callbacks import CallbackQueue
from moothall.hall.channels import Channels
from moothall.hall.commands import Row, command_table
from moothall.hall.counts import Tally
from moothall.hall.delivery import LocalDelivery
from moothall.hall.delivery_receipts import DeliveryReceipts
from moothall.hall.durable import Durable
from moothall.hall.features import served
from moothall.hall.floor import Exemptions, Floor
from moothall.hall.ids import IdMint
from moothall.hall.moderation import Moderation
from moothall.hall.outside import (
    Link,
)
from moothall.hall.parts import Parts
from moothall.hall.peers import PeerRequests
from moothall.hall.rates import CommandRates
from moothall.hall.reading import read_odd
from moothall.hall.roster import LocalRoster
from moothall.hall.session import Agent, Session, Tier
from moothall.hall.shared_memory import SharedMemory
from moothall.hall.takeovers import Takeovers
from moothall.hall.voice import Voice, announce_move, speak
from moothall.hall.waiting import WaitingLine
from moothall.settings import Settings
from moothall.settings.limits import Rate, Window
from moothall.wire.agentchat.client import ClientMessage
from moothall.wire.agentchat.codec import (
    NOT_PLAIN,
    decode_plain,
    framed,
)
from moothall.wire.agentchat.server import Ack, AgentLeft, Error, ServerMessage
from moothall.wire.authority import host_header
from moothall.wire.outgoing import Outgoing
from moothall.wire.websocket import INTERNAL_ERROR, NORMAL, POLICY_VIOLATION

if TYPE_CHECKING:
    from moothall.hall.cluster.cluster import Cluster

LOG_LINES: Final = Rate(60, 60)  # in the log, of one kind of event that clients can cause
LONG_ANSWER: Final = 4096  # bytes; what is longer is charged to the budget of the session that asked


class Hall:
    def __init__(
        self,
        settings: Settings,
        commands: Iterable[Row],
        parts: Parts,
        moderation: Moderation | None = None,
    ) -> None:
        self.settings = settings
        self.clock = parts.clock
        self._time, self._monotonic = parts.clock.time, parts.clock.monotonic  # each message asks both
        self.started_at = parts.clock.time()
        self.pick = parts.pick
        self.log = parts.log
        self.redactor = parts.redactor
        self.suspects = parts.redactor.suspects if settings.redact else None
        self.copies = parts.copies
        self.allowlist = parts.allowlist
        self.bans = parts.bans
        self.keyring = parts.keyring
        self.revoked = parts.revoked
        self.spending = parts.spending
        self.public_key = parts.hall_key.hex()
        # What CHALLENGE says the hall is called: a Host header can be made up, so that of the operator comes first.
        self.public_host = host_header(settings.public_url) if settings.public_url else ""
        self.moderation = moderation
        self.tally = Tally()
        self.ids = IdMint(parts.entropy)
        self.api_tokens = ApiTokens(parts.entropy, parts.token_secret)
        self.agenda = Agenda(parts.alarm)
        self.floor = Floor(settings.floor_ttl)
        self.exemptions = Exemptions()
        self.callbacks = CallbackQueue(settings.callback_max_pending)
        self.delivery_receipts = DeliveryReceipts()
        # A newcomer gets a history in one piece, which leaves half of its outbox for all else.
        memory = SharedMemory(settings.replay_memory, per_holder=settings.outbox_limit // 2)
        self.channels = Channels(settings.buffer_size, memory)
        self.peer_requests = PeerRequests()
        self.roster = LocalRoster()
        self.delivery = LocalDelivery(self.roster, self.tally, self.exemptions)
        self.durable = Durable(self)
        self.rates = CommandRates(settings, self.roster.by_key)
        self.sessions: set[Session] = set()
        self.waiting: dict[str, Session] = {}  # whose challenge or captcha has this id
        self.strangers = WaitingLine(self.agenda, settings.identify_timeout, self._overdue)
        self.challenged = WaitingLine(self.agenda, settings.challenge_timeout, self._expire)
        self.tested = WaitingLine(self.agenda, settings.captcha_timeout, self._expire)
        self.takeovers = Takeovers(self.agenda, settings.takeover_delay)
        self.next_callback: Appointment | None = None
        self.next_expiry: Appointment | None = None  # of a claim on the floor
        self.presence_changes: dict[str, Agent] | None = None  # during a tick (see `presence`), by agent id
        self.motd = settings.motd or None
        self.features = served(settings)
        self.door = Doorkeeper(
            max_per_ip=0 if settings.no_limits else settings.max_connections_per_ip,
            admin_key=settings.admin_key,
            access_key=settings.access_key,
            admin_rate=Rate(0, 1) if settings.no_limits else settings.rate_admin,
        )
        self.new_keys = NewKeys(
            0 if settings.no_limits else settings.new_keys_per_hour, settings.loopback_factor
        )
        # Agents of other wires, by id: they give the id up to a session that proves the key it comes from.
        self.makes_way: dict[str, Callable[[], None]] = {}
        self.cluster: Cluster | None = None  # the other nodes of this hall, if it has a bus
        self.voice = Voice(self.agenda, partial(speak, self), limited=not settings.no_limits)
        self._commands = command_table(commands)
        self.tally.received.update((row.name, 0) for row in self._commands.values())
        self._limited = not settings.no_limits
        self.budgets = Budgets(settings)
        self._logged: dict[str, Window] = {}  # by kind of event
        self.is_closing = False
        for name in settings.default_channels:
            self.channels.create(name, self.now())
        for name in settings.verified_channels:
            self.channels.create(name, self.now(), verified_only=True)

    # -- time ------------------------------------------------------------------------------------

    def now(self) -> float:
        return self._monotonic()

    def timestamp(self) -> int:
        """Milliseconds since the Unix epoch, as every server message carries them."""
        return int(self._time() * 1000)

    def tick(self) -> None:
        """Do what has become due. To be called when the alarm given to `Hall` says so."""
        self.agenda.run(self.now())

    # -- connections -----------------------------------------------------------------------------

    def connect(
        self, link: Link, ip: str, user_agent: str = "", *, is_loopback: bool = False, host: str = ""
    ) -> Session | None:
        """A new connection, or None if it was turned away (seed 000, connect, step 2).

        `host` is the Host header that it sent.
        """
        connections = self.door.connections
        if not is_loopback and not connections.admit(ip):
            self.turn_away(ip, is_news=connections.is_news(ip))
            link.close(POLICY_VIOLATION, "Too many connections from this IP")
            return None
        session = Session(link, ip, user_agent, self.clock.time(), None)
        if self._limited:
            session.meter = self.budgets.meter(ip, is_loopback=is_loopback)
            session.meter.limit_frames(self.settings.rate_pre_auth)
        session.host = host
        session.counted = not is_loopback
        self.sessions.add(session)
        self.expect_identity(session)
        return session

    def admit(self, ip: str, frames: float, *, is_loopback: bool) -> bool:
        """Charge an address for a connection or a request, as so many frames. False: it is over its budget."""
        now = self.now()
        meter = self.budgets.meter(ip, is_loopback=is_loopback)
        if meter.charge(Price(frames=frames), now) is None:
            return True
        self.tally.security["address_over_budget"] += 1
        return False

    def disconnect(self, session: Session) -> None:
        """The connection is gone, for whatever reason (seed 000, disconnect)."""
        if session.closed:
            return
        session.closed = True
        session.forget_kept()
        if session.held is not None:
            self.agenda.cancel(session.held)
        self.takeovers.give_up(session)
        self.sessions.discard(session)
        if session.counted:
            self.door.connections.depart(session.ip)
        self.stop_waiting(session)
        if session.agent is not None:
            self.remove(session.agent)

    def close(self, session: Session, code: int, reason: str) -> None:
        """End a session: it is out of the hall at once, and its connection closes when it has read all."""
        session.link.close(code, reason)
        if not session.is_remote:  # or its node ends it
            self.disconnect(session)

    def expect_identity(self, session: Session) -> None:
        if self.settings.identify_timeout:
            self.strangers.join(session, self.now())

    def stop_waiting(self, session: Session) -> None:
        """Forget a challenge, captcha or time-out that the session was under."""
        if session.pending is not None:
            del self.waiting[session.pending.id]
            session.pending = None
        if session.line is not None:
            session.line.leave(session)

    def _overdue(self, session: Session) -> None:
        self.note("identify_timeout", ip=session.ip)
        self.close(session, POLICY_VIOLATION, "Identify first")

    def _expire(self, session: Session) -> None:
        """A challenge or captcha was not answered in time."""
        if session.pending is not None:
            refusal = session.pending.expired()
            session.ref = None
            self.refuse(session, refusal)
            self.close(session, NORMAL, refusal.message)

    # -- roster ----------------------------------------------------------------------------------

    def add(self, agent: Agent) -> None:
        session = agent.session
        self.roster.add(agent)
        session.agent = agent
        session.tier = Tier.VERIFIED if agent.key is not None else Tier.ANONYMOUS
        if session.meter is not None:
            session.meter.limit_frames(self.settings.rate_post_auth)
            if agent.key is not None:
                session.meter.belongs_to(agent.key.raw)
        session.windows = None  # a rate is an agent's; what it tried as a stranger is forgotten

    def arrived(self, agent: Agent) -> None:
        """The agent is in the roster, and its wire has welcomed it."""
        announce_move(self, agent, "#general", "came online")
        self.roster.arrived(agent)

    def agent_of(self, session: Session) -> Agent:
        """The agent behind a session that passed the tier check."""
        if session.agent is None:
            raise AuthRequired("IDENTIFY first")
        return session.agent

    def remove(self, agent: Agent) -> None:
        """Remove the agent from the hall and tell its channels (agentchat wire 4.8)."""
        self.roster.departing(agent)
        self.floor.drop(agent.id)
        self.callbacks.drop(agent.id)
        for channel in list(agent.channels.values()):
            if channel.log is not None and not channel.log.decides:
                channel.log.depart(agent)
                continue
            channel.leave(agent)
            self.delivery.broadcast(
                channel, AgentLeft(ts=self.timestamp(), channel=channel.name, agent=agent.address)
            )
        self.roster.remove(agent)
        agent.session.agent = None
        agent.session.tier = Tier.STRANGER
        announce_move(self, agent, "#general", "went offline")

    # -- the way in ------------------------------------------------------------------------------

    def receive(self, session: Session, payload: bytes) -> None:
        """One message of a session: the checks of the seed, in its order, then the handler."""
        if session.closed:
            return
        if session.busy or session.held is not None:
            session.keep(payload)
            if session.is_full:
                self.durable.pause(session)
            return
        excess = None
        if session.meter is not None:
            excess = throttle.count(self, session, throttle.reading_size(payload))
            if excess is not None and excess.waits:
                throttle.put_off(self, session, payload, excess)
                return
        session.answered = False
        try:
            message = decode_plain(payload)
        except NOT_PLAIN:
            odd = read_odd(self, session, payload, excess)
            if odd is None:
                return
            message = odd
        session.ref = message.ref
        if excess is not None:
            throttle.refuse(self, session, excess)
            return
        command = self._commands[type(message)]
        self.tally.received[command.name] += 1
        is_heavy = command.is_heavy
        try:
            if is_heavy and not self._can_pay(session, command, message, payload):
                return
            if not self._passes(session, command, message):
                return
            if not (is_heavy or session.meter is None or self._can_pay(session, command, message, payload)):
                return
            if (
                command.channel is not None
                and self.cluster is not None
                and self.cluster.channels.forward(session, command, message)
            ):
                return
            command.handler(self, session, message)
        except Refusal as refusal:
            self.refuse(session, refusal)
            return
        if session.ref is not None and not session.answered and not session.busy:
            self.reply(session, Ack(ts=self.timestamp()))

    def handle(self, session: Session, message: ClientMessage) -> None:
        """Run a command that has passed all checks, at another node or earlier. Raises Refusal."""
        self._commands[type(message)].handler(self, session, message)
        if session.ref is not None and not session.answered and not session.busy:
            self.reply(session, Ack(ts=self.timestamp()))

    def check(self, session: Session, message: ClientMessage) -> bool:
        """The checks of the table, for a message that another wire has translated. Raises Refusal.

        False: the message is dropped without an answer.
        """
        return self._passes(session, self._commands[type(message)], message)

    def _passes(self, session: Session, command: Row, message: ClientMessage) -> bool:
        """Fields, rate, tier, lurking, in this order. False: the message is dropped without an answer."""
        if command.check is not None:
            command.check(message)
        if command.rate is not None and self._limited:
            self.rates.check(session, command, command.rate, self.now())
        agent = session.agent
        if session.tier >= command.tier and (command.lurkers or agent is None or not agent.lurking):
            return True
        if command.silent:
            return False
        if session.tier < command.tier:
            self._refuse_tier(session)
        raise LurkMode("You may only listen here, because you failed the captcha; connect again to retry")

    def _can_pay(self, session: Session, command: Row, message: ClientMessage, payload: bytes) -> bool:
        """Charge what the command costs. False: it was put off; or it is refused as over a budget."""
        if session.meter is None:
            return True
        excess = throttle.charge_command(self, session, command, message, len(payload))
        if excess is not None:
            throttle.stop(self, session, command, payload, excess)
        return excess is None

    def receive_control(self, session: Session, size: int) -> bool:
        """A control frame, or a fragment of a longer message: there is nothing to decode, but it counts.

        False: it is over a limit, and is not answered.
        """
        if session.closed:
            return False
        if session.meter is None:
            return True
        excess = throttle.count(self, session, size)
        if excess is None:
            return True
        session.ref = None
        if excess.waits:
            throttle.hold(self, session, excess.seconds)
            return True
        if self.settings.flood_closes and session.tier is not Tier.STRANGER:
            throttle.count_refusal(self, session)  # the reference does not count these: they only wait
        else:
            throttle.refuse(self, session, excess)
        return False

    def receive_piece(self, session: Session, size: int) -> None:
        """Charge the bytes of a part of a message. They are not charged again when it is complete."""
        if session.meter is not None and not session.closed:
            seconds = session.meter.prepay(size, self.now())
            if seconds:
                throttle.hold(self, session, seconds)

    def waiting_bytes(self, session: Session) -> int:
        """Bytes of messages that were received and wait to be handled."""
        return session.inbox_bytes

    def receive_binary(self, session: Session, payload: bytes) -> None:
        """A binary frame is read as text (agentchat wire 1.1)."""
        self.receive(session, payload)

    def _refuse_tier(self, session: Session) -> None:
        if session.tier is Tier.STRANGER:
            raise AuthRequired("IDENTIFY first")
        raise Refusal.by_code[self.settings.unverified_code](
            "This needs an identity with a proven key; connect with a key"
        )

    # -- the way out -----------------------------------------------------------------------------

    def reply(self, session: Session, message: ServerMessage) -> None:
        """The direct answer to the command being handled: it carries the command's `ref`."""
        outgoing = Outgoing(message, None if session.answered else session.ref)
        session.answered = True
        session.link.put(outgoing)
        if session.meter is not None and (size := len(framed(outgoing))) > LONG_ANSWER:
            throttle.owe(self, session, size)

    def refuse(self, session: Session, refusal: Refusal) -> None:
        self.tally.refused[refusal.code] += 1
        is_limit = isinstance(refusal, RateLimited)
        if is_limit and self.moderation is not None and session.agent is not None:
            self.moderation.offence(self, session.agent)
        self.reply(session, Error(ts=self.timestamp(), code=refusal.code, message=refusal.message))
        if is_limit:
            throttle.count_refusal(self, session)

    def has_channel(self, name: str) -> bool:
        return self.channels.get(name) is not None

    def redacted(self, content: str, author: Agent | None = None) -> str:
        """What others get to read of a text, if the hall redacts; secrets are counted by kind, and noted."""
        if self.suspects is None or not self.suspects(content):
            return content
        content, found = self.redactor.redact(content)
        self.tally.redacted.update(found)
        if found and author is not None:
            kinds = sorted(set(found))
            self.note("secrets_redacted", ip=author.session.ip, agent=author.id, kinds=kinds)
        return content

    # -- what operators see ----------------------------------------------------------------------

    @property
    def commands(self) -> Collection[Row]:
        """The rows of the command table."""
        return self._commands.values()

    @property
    def received(self) -> dict[str, int]:
        """Valid messages by type."""
        return {kind: count for kind, count in self.tally.received.items() if count}

    def note(self, event: str, **facts: object) -> None:
        """A security event: counted and logged, with addresses and ids, never with contents."""
        self.tally.security[event] += 1
        if self.may_log(event):
            self.log.warning(event, **facts)

    def may_log(self, event: str) -> bool:
        """Ask before each log line that clients can cause at will: each kind of line has a rate."""
        window = self._logged.get(event)
        if window is None:
            window = self._logged[event] = Window(LOG_LINES)
        return window.admit(self.now())

    def turn_away(self, ip: str, *, is_news: bool) -> None:
        """An address has as many connections as it may. Each that is too many is counted. The log has one line
        for many of them."""
        self.tally.security["ip_connection_limit"] += 1
        if is_news:
            self.log.warning("ip_connection_limit", ip=ip)

    def fail(self, session: Session) -> None:
        """A bug of ours escaped a handler: only this session pays for it."""
        self.close(session, INTERNAL_ERROR, "Internal error")

"""A made-up world around a hall: its time, its connections, its disk and its dice are all in the test's hand.

    world = World()
    alice = world.agent("alice", join="#general")
    bob = world.agent("bob", key=BOB, join="#general")
    assert_sent(alice, "AGENT_JOINED", agent=bob.id)
    world.send(alice, "MSG", to="#general", content="hello")
    assert_sent(bob, "MSG", content="hello")
    assert_silent(alice, bob)

`assert_sent` is about the next message that a guest has not looked at yet, so that what should not be there is
noticed.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from random import Random
from sys import getsizeof
from typing import Any, Final

from moothall.court.books import Books
from moothall.court.desk import CourtDesk
from moothall.errors import OutcomeUnknown, Refusal, StoreUnreachable
from moothall.hall import revocation
from moothall.hall.access import Allowlist, Approval, Ban, Bans, holder_of
from moothall.hall.bindings import BindingBooks
from moothall.hall.common import CommonBooks, Copies
from moothall.hall.elsewhere import NOWHERE, Elsewhere
from moothall.hall.hall import Hall
from moothall.hall.keyring import Keyring
from moothall.hall.opening import open_hall
from moothall.hall.other_halls import OtherHalls
from moothall.hall.outside import Result, Store, Written
from moothall.hall.parts import Parts
from moothall.hall.redaction import Redactor
from moothall.hall.reporting import Spending
from moothall.hall.session import Agent, Session, Tier
from moothall.hall.spending import Caps, SpendingBooks
from moothall.identity import PrivateKey
from moothall.market.clerk import withdraw_skills
from moothall.market.desk import MarketDesk
from moothall.rules import court_rules, market_rules
from moothall.settings import PROFILES, Settings
from moothall.settings.limits import Rate
from moothall.wire.agentchat.codec import encode, framed
from moothall.wire.agentchat.signing import auth_text
from moothall.wire.outgoing import Bundle, Outgoing
from tests.court.books import MemoryBooks
from tests.support.seals import SEAL

Message = dict[str, Any]

NOON: Final = 1_760_000_000.0  # when every made-up world begins, in seconds since the epoch
# Found by search: two keys whose ids begin with the same 8 digits (agentchat wire 3.2).
TWIN_SEEDS: Final = tuple(sha256(text).digest() for text in (b"twins-88305", b"twins-187419"))
TWINS: Final = tuple(map(PrivateKey, TWIN_SEEDS))
TWIN_ID: Final = "6865db6c"
# Appointments that every hall has: the next look at those of deals, and at those of cases
DEADLINES: Final = 2
# Of an address, without limit: most guests have the same one, and a clock that stands still refills nothing.
ADDRESS_BUDGETS: Final = {
    name: Rate(0, 1) for name in ("address_frames", "address_bytes", "address_told", "address_store")
}
HALL_KEY: Final = PrivateKey(b"h" * 32)
ADMIN_KEY: Final = "open sesame"
ACCESS_KEY: Final = "let me see"


class Absent:
    """What `assert_sent` takes for a field that must not be there."""


ABSENT: Final = Absent()


class Clock:
    """Both kinds of time stand still until a test moves them, and then move together."""

    def __init__(self) -> None:
        self._passed = 0.0

    def time(self) -> float:
        return NOON + self._passed

    def monotonic(self) -> float:
        return self._passed

    def move_to(self, monotonic: float) -> None:
        assert monotonic >= self._passed, "time does not go back"
        self._passed = monotonic


class FakeLink:
    """Takes messages as a WebSocket would, and gives back the JSON texts. After its end it takes nothing."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []  # as they were given
        self.messages: list[Message] = []  # what is in them
        self.closed: tuple[int, str] | None = None
        self.paused = False
        self.unread = 0  # it takes everything at once, unless a test says otherwise
        self.watched: list[Written] | None = None  # who waits for it, where a test says so

    def put(self, outgoing: Outgoing | Bundle) -> None:
        if self.closed is None:
            frame = framed(outgoing)
            self.frames.append(frame)
            self.messages += [json.loads(text) for text in texts(frame)]

    def when_written(self, told: Written) -> None:
        if self.watched is None:
            told(self.closed is None)
        else:
            self.watched.append(told)

    def close(self, code: int, reason: str) -> None:
        if self.closed is None:
            self.closed = (code, reason)

    def pause(self) -> None:
        assert not self.paused
        self.paused = True

    def resume(self) -> None:
        assert self.paused
        self.paused = False


def texts(frames: bytes) -> Iterator[bytes]:
    """The payloads of complete, unmasked text frames, one after the other (RFC 6455, 5.2)."""
    position = 0
    while position < len(frames):
        first, length = frames[position], frames[position + 1]
        assert first == 0x81, "only whole text frames leave the hall"
        position += 2
        if length >= 126:
            width = 2 if length == 126 else 8
            length = int.from_bytes(frames[position : position + width], "big")
            position += width
        yield frames[position : position + length]
        position += length
    assert position == len(frames), "a frame is cut short"


class PromptStore:
    """The books in memory; every unit of work is done at once."""

    def __init__(self, books: MemoryBooks) -> None:
        self._books = books

    def submit(
        self,
        work: Callable[[MemoryBooks], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        try:
            result = work(self._books)
        except (Refusal, OSError, OutcomeUnknown, StoreUnreachable) as error:
            failed(error)
        else:
            done(result)


class HeldStore:
    """A slow one: nothing is done before the test lets it."""

    def __init__(self, books: MemoryBooks) -> None:
        self._prompt = PromptStore(books)
        self.waiting: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self.waiting)

    def submit(
        self,
        work: Callable[[MemoryBooks], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.waiting.append(lambda: self._prompt.submit(work, done, failed))

    def do_next(self) -> None:
        self.waiting.pop(0)()


class LogBook:
    def __init__(self) -> None:
        self.entries: list[tuple[str, str, dict[str, object]]] = []

    def info(self, event: str, **facts: object) -> None:
        self.entries.append(("info", event, facts))

    def warning(self, event: str, **facts: object) -> None:
        self.entries.append(("warning", event, facts))

    def find(self, event: str) -> list[dict[str, object]]:
        return [facts for _, name, facts in self.entries if name == event]


class Guest:
    """One client: what it got, and how far it has read it."""

    def __init__(self, link: FakeLink, session: Session | None, key: PrivateKey | None, ip: str) -> None:
        self.link = link
        self.key = key
        self.ip = ip
        self.id = ""  # with @, from WELCOME
        self._session = session
        self._read = 0

    def __repr__(self) -> str:
        return f"Guest({self.id or 'stranger'})"

    @property
    def session(self) -> Session:
        assert self._session is not None, "this guest was turned away at the door"
        return self._session

    @property
    def unread(self) -> list[Message]:
        return self.link.messages[self._read :]

    def read(self) -> list[Message]:
        """Everything that it has not looked at yet."""
        messages = self.unread
        self._read = len(self.link.messages)
        return messages

    def next(self) -> Message:
        assert self.unread, f"{self} got nothing more"
        self._read += 1
        return self.link.messages[self._read - 1]


class World:
    """A hall with `settings` on top of a profile, and everything it needs from outside."""

    def __init__(
        self,
        profile: str = "seeds",
        *,
        held: bool = False,
        approved: Iterable[PrivateKey] = (),
        banned: Iterable[str] = (),
        key_store: Store[BindingBooks] | None = None,
        environment: dict[str, str] | None = None,
        books: MemoryBooks | None = None,
        store: Store[Books] | None = None,
        others: OtherHalls | None = None,
        common: Store[CommonBooks] | None = None,
        reports: Store[SpendingBooks] | None = None,
        clock: "Clock | None" = None,
        dice: Random | None = None,
        token_secret: bytes = b"",
        **settings: Any,
    ) -> None:
        self.settings = Settings(**{"profile": profile, **PROFILES[profile], **ADDRESS_BUDGETS, **settings})
        self.clock = clock or Clock()
        self.log = LogBook()
        self.guests: list[Guest] = []
        self._alarm: float | None = None
        dice = dice or Random(1)  # noqa: S311  # the same every time is the point
        self.books = books or MemoryBooks()
        self.held = HeldStore(self.books)  # of operators' orders, if they are to wait
        if store is None:
            store = PromptStore(self.books)
        elsewhere: Elsewhere = others or NOWHERE
        self.desk = MarketDesk(store, market_rules(self.settings), SEAL, elsewhere)
        self.court = CourtDesk(
            store, court_rules(self.settings), self.desk, SEAL, elsewhere, is_shared=others is not None
        )
        self.hall: Hall = open_hall(
            self.settings,
            (
                *self.desk.commands(),
                *self.court.commands(),
                revocation.revoke_command(store, withdraw_skills),
            ),
            Parts(
                clock=self.clock,
                entropy=dice.randbytes,
                pick=dice.randrange,
                alarm=self._set_alarm,
                log=self.log,
                redactor=Redactor(environment or {}),
                copies=Copies(self.held if held else common or PromptStore(self.books), self.log),
                allowlist=Allowlist(Approval(pubkey=key.public.pem) for key in approved),
                bans=Bans(Ban(agent_id=agent_id) for agent_id in banned),
                keyring=Keyring(
                    PromptStore(self.books) if key_store is None else key_store, self.settings.max_known_keys
                ),
                hall_key=HALL_KEY.public.raw,
                spending=Spending(PromptStore(self.books) if reports is None else reports, Caps()),
                token_secret=token_secret,
            ),
        )
        self.desk.open(self.hall)
        self.court.open(self.hall)

    # -- time --------------------------------------------------------------------------------------

    def _set_alarm(self, due: float) -> None:
        self._alarm = due

    @property
    def now_ms(self) -> int:
        return int(self.clock.time() * 1000)

    def advance(self, seconds: float) -> None:
        """Let time pass, and the hall do what becomes due on the way, each at its own moment."""
        end = self.clock.monotonic() + seconds
        last = -1.0
        while (due := self._take_alarm(end)) is not None:
            assert due > last, "the hall would tick for ever"
            last = due
            self.clock.move_to(max(due, self.clock.monotonic()))
            self.hall.tick()
        self.clock.move_to(end)

    def _take_alarm(self, end: float) -> float | None:
        due = self._alarm
        if due is None or due > end:
            return None
        self._alarm = None
        return due

    # -- guests ------------------------------------------------------------------------------------

    def connect(
        self,
        ip: str = "192.0.2.1",
        *,
        is_loopback: bool = False,
        host: str = "hall.test:6667",
        link: FakeLink | None = None,
    ) -> Guest:
        link = link or FakeLink()
        session = self.hall.connect(link, ip, "test", is_loopback=is_loopback, host=host)
        guest = Guest(link, session, None, ip)
        self.guests.append(guest)
        return guest

    def agent(
        self,
        name: str = "someone",
        *,
        key: PrivateKey | None = None,
        kind: str | None = None,
        features: Iterable[str] = (),
        ip: str = "192.0.2.1",
        is_loopback: bool = False,
        join: str | Iterable[str] = (),
    ) -> Guest:
        """A guest that has been through the whole handshake, is in these channels, and has read it all."""
        guest = self.connect(ip, is_loopback=is_loopback)
        self.identify(guest, name, key=key, kind=kind, features=features)
        welcome = assert_sent(guest, "WELCOME")
        guest.id = welcome["agent_id"]
        for channel in (join,) if isinstance(join, str) else join:
            self.send(guest, "JOIN", channel=channel)
            assert channel in self.hall.roster.agents[guest.id[1:]].channels
        guest.read()
        return guest

    def identify(
        self,
        guest: Guest,
        name: str = "someone",
        *,
        key: PrivateKey | None = None,
        kind: str | None = None,
        features: Iterable[str] = (),
    ) -> None:
        """IDENTIFY, and the proof if there is a key."""
        guest.key = key
        fields: Message = {"kind": kind} if kind is not None else {}
        if named := list(features):
            fields["features"] = named
        self.send(guest, "IDENTIFY", name=name, pubkey=key and key.public.pem, **fields)
        if key is not None:
            self.prove(guest, assert_sent(guest, "CHALLENGE"))

    def prove(self, guest: Guest, challenge: Message, **changed: Any) -> None:
        """A right VERIFY_IDENTITY, but for what is `changed`."""
        assert guest.key is not None
        timestamp = changed.get("timestamp", self.now_ms)
        text = auth_text(challenge["nonce"], challenge["challenge_id"], timestamp)
        answer = {
            "challenge_id": challenge["challenge_id"],
            "signature": guest.key.sign(text),
            "timestamp": timestamp,
            **changed,
        }
        self.send(guest, "VERIFY_IDENTITY", **answer)

    def send(self, guest: Guest, type: str, /, **fields: Any) -> None:  # noqa: A002  # the wire's word
        self.send_raw(guest, json.dumps({"type": type, **fields}).encode())

    def send_raw(self, guest: Guest, payload: bytes) -> None:
        self.hall.receive(guest.session, payload)

    def say(self, guest: Guest, to: str, content: str) -> str:
        """A MSG, sent when its second is over; the id it got."""
        self.advance(1)
        self.send(guest, "MSG", to=to, content=content, ref="say")
        acknowledged = [message for message in guest.unread if message.get("ref") == "say"]
        assert [message["type"] for message in acknowledged] == ["ACK"]
        self._unsend(guest, acknowledged[0])
        msg_id: str = acknowledged[0]["msg_id"]
        return msg_id

    def _unsend(self, guest: Guest, message: Message) -> None:
        guest.link.messages = [other for other in guest.link.messages if other is not message]

    def disconnect(self, guest: Guest) -> None:
        """The network is gone, or the client closed."""
        guest.link.close(1006, "")
        self.hall.disconnect(guest.session)

    def hush(self) -> None:
        """Everybody has read everything."""
        for guest in self.guests:
            guest.read()

    def buffered(self, channel: str) -> list[dict[str, Any]]:
        """What those who join will hear of what was said."""
        return [json.loads(encode(line)) for line in self.hall.channels.find(channel).buffer]


# -- what tests say -------------------------------------------------------------------------------------


def assert_sent(guest: Guest, type: str, /, **fields: Any) -> Message:  # noqa: A002  # the wire's word
    """The next message is this one; whatever else it holds. The message."""
    message = guest.next()
    assert message["type"] == type, f"{guest} got {message}"
    assert isinstance(message["ts"], int)
    for name, expected in fields.items():
        found = message.get(name.rstrip("_"), ABSENT)
        assert found == expected, f"{guest} got {message}: `{name}` is not {expected!r}"
    return message


def assert_refused(guest: Guest, code: str, mentioning: str = "", **fields: Any) -> Message:
    """The next message is an ERROR with this code, and its text contains `mentioning`."""
    error = assert_sent(guest, "ERROR", code=code, **fields)
    assert mentioning in error["message"], f"{mentioning!r} is not in {error['message']!r}"
    return error


def assert_silent(*guests: Guest) -> None:
    """Nothing that has not been read."""
    for guest in guests:
        assert guest.unread == []


def assert_closed(guest: Guest, code: int, reason: str) -> None:
    assert guest.link.closed == (code, reason)
    assert guest.session.closed


def assert_open(*guests: Guest) -> None:
    for guest in guests:
        assert guest.link.closed is None
        assert not guest.session.closed


def assert_consistent(world: World) -> None:
    """What holds in every hall at every moment."""
    hall = world.hall
    for agent_id, agent in hall.roster.agents.items():
        assert agent.id == agent_id
        assert agent.session.agent is agent
        # Those of other wires have no connection of this one.
        assert agent.session in hall.sessions or agent_id in hall.makes_way
        assert agent.session.pending is None
        assert agent.session.line is None
        # No agent with a key is in the roster without the proof, and nothing counts as proof but a key.
        assert agent.session.tier is (Tier.ANONYMOUS if agent.key is None else Tier.VERIFIED)
        assert agent.key is None or agent.id == agent.key.agent_id(world.settings.id_length)
        for name, channel in agent.channels.items():
            assert hall.channels.get(name) is channel
            assert channel.members[agent_id] is agent
    memory = hall.channels.memory
    assert memory.used == sum(channel.buffer.size for channel in hall.channels) <= memory.limit
    for channel in hall.channels:
        assert len(channel.buffer) <= world.settings.buffer_size
        sizes = [max(len(framed(Outgoing(line))), getsizeof(line.content)) for line in channel.buffer]
        assert channel.buffer.size == sum(sizes) <= memory.per_holder
        for agent_id, member in channel.members.items():
            assert hall.roster.agents.get(agent_id) is member
            assert member.channels[channel.name] is channel
            assert not channel.invite_only or agent_id in channel.invited
            assert not channel.verified_only or member.verified
        members = channel.members.values()
        assert list(channel.watchers.values()) == [member for member in members if member.relay is None]
        assert channel.relays == Counter(member.relay for member in members if member.relay is not None)
        assert channel.unannounced <= channel.members.keys()
    names: dict[str, dict[str, Agent]] = {}
    for agent in hall.roster.agents.values():
        names.setdefault(agent.name.lower(), {})[agent.id] = agent
    assert hall.roster._by_name in (None, names)  # no index before the first question for a name
    for session in hall.sessions:
        assert not session.closed
        assert (session.agent is None) == (session.tier is Tier.STRANGER)
        assert session.pending is None or hall.waiting[session.pending.id] is session
    assert all(session.pending is not None for session in hall.waiting.values())
    assert hall.callbacks._serials.keys() <= hall.roster.agents.keys()
    _assert_doors_count(hall)
    _assert_agenda_holds_no_more_than_it_must(world)
    _assert_one_claim_per_message(hall)


def _assert_doors_count(hall: Hall) -> None:
    expected: dict[str, int] = {}
    for session in hall.sessions:
        if session.counted:
            holder = holder_of(session.ip)
            expected[holder] = expected.get(holder, 0) + 1
    assert hall.door.connections._counts == expected


def _assert_agenda_holds_no_more_than_it_must(world: World) -> None:
    hall = world.hall
    lines = (hall.strangers, hall.challenged, hall.tested)
    waiting = [session for session in hall.sessions if session.line is not None]
    assert all(session in session.line for session in waiting if session.line is not None)
    assert sum(map(len, lines)) == len(waiting)
    assert all(line.is_planned for line in lines if len(line))
    idle_watch = int(world.settings.idle_prompts)
    callbacks = int(hall.next_callback is not None and not hall.next_callback.cancelled)
    assert callbacks or not len(hall.callbacks)
    maintenance = world.log.find("admin_operation")
    motd_changes = sum(facts["operation"] == "ADMIN_MOTD" for facts in maintenance)
    planned_lines = sum(line.is_planned for line in lines)
    expiry = int(hall.next_expiry is not None)
    assert expiry or hall.floor.next_deadline() is None
    held = sum(session.held is not None for session in hall.sessions)
    presence = int(hall.presence_changes is not None)
    receipts = hall.delivery_receipts
    assert receipts.expiry is not None or not len(receipts)
    looks = int(receipts.expiry is not None) + sum(tracked.look is not None for tracked in receipts)
    looks += len(receipts.summaries)
    assert receipts.summaries.keys() <= hall.roster.agents.keys()
    planned = planned_lines + idle_watch + callbacks + expiry + held + presence + looks + len(hall.voice)
    taking_over = [session for session in hall.sessions if session.takeover is not None]
    assert len(hall.takeovers) == len(taking_over)
    assert all(session.busy and session.tier is Tier.STRANGER for session in taking_over)
    most = planned + DEADLINES + len(hall.peer_requests) + len(taking_over)
    assert most <= len(hall.agenda) <= most + motd_changes


def _assert_one_claim_per_message(hall: Hall) -> None:
    claims = hall.floor._claims
    held = [(holder, key) for holder, keys in hall.floor._held.items() for key in keys]
    assert sorted((claim.holder, key) for key, claim in claims.items()) == sorted(held)
    owed = [
        (debtor, key, serial) for debtor, keys in hall.floor._owed.items() for key, serial in keys.items()
    ]
    promises = hall.floor._promises
    assert sorted((made.debtor, made.key, made.serial) for made in promises) == sorted(owed)
    deadlines = [promise.due for promise in promises]
    assert deadlines == sorted(deadlines)
    expiries = [claim.expires for claim in claims.values()]
    assert expiries == sorted(expiries)
    for (channel_name, _), claim in claims.items():
        assert channel_name in hall.roster.agents[claim.holder].channels
    shared = [(holder, key) for holder, keys in hall.floor._shared.items() for key in keys]
    assert len(hall.floor) == len(claims) + len(shared)
    for holder, key in shared:
        assert key[0] in hall.roster.agents[holder].channels
        assert key in hall.floor._owed[holder]

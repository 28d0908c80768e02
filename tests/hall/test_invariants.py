"""What holds in every hall, whatever its guests do: random guests, random commands, random bytes, random time.

The machine below does not know how the hall works. It sends, it reads what every guest was sent, and it compares
that with what the guests before it were told: who is in a channel, who may hear a message, what was said lately.
After each step it also looks at the hall itself (`assert_consistent`).
"""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moothall.hall.handshake import CaptchaTest, Challenge
from moothall.identity import PrivateKey
from tests.hall.test_commands import TABLE
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.support.world import ADMIN_KEY, TWINS, Guest, Message, World, assert_consistent

KEYS: tuple[PrivateKey, ...] = (ALICE, BOB, CAROL, *TWINS)
STRANGER = PrivateKey(b"s" * 32)
BUFFER_SIZE = 3
MAX_GUESTS = 12
ADMIN_OPERATIONS = [
    "ADMIN_KICK",
    "ADMIN_BAN",
    "ADMIN_UNBAN",
    "ADMIN_VERIFY",
    "ADMIN_APPROVE",
    "ADMIN_MOTD",
]

who = st.integers(0, MAX_GUESTS - 1)
keys = st.sampled_from((None, None, *KEYS))
channels = st.sampled_from(["#general", "#agents", "#den", "#club", "#nowhere"])
moments = st.sampled_from([0.05, 0.5, 1.0, 1.0, 5.0, 10.0, 30.0, 45.0, 60.0])
flags = st.booleans()

OWNERS = {f"@{key.public.agent_id(length)}" for key in KEYS for length in (8, 16)}


class HallLife(RuleBasedStateMachine):
    @initialize(
        profile=st.sampled_from(["seeds", "seeds", "agentchat-0.36"]),
        captcha=st.sampled_from([False, False, True]),
        lurk=flags,
        moderation=st.sampled_from([False, False, True]),
        held=flags,
        no_limits=flags,
    )
    def open(
        self, profile: str, captcha: bool, lurk: bool, moderation: bool, held: bool, no_limits: bool
    ) -> None:
        self.world = World(
            profile,
            held=held,
            captcha=captcha,
            captcha_attempts=2,
            captcha_fail_action="shadow_lurk" if lurk else "disconnect",
            moderation=moderation,
            no_limits=no_limits,
            service_lines=False,
            idle_prompts=False,
            buffer_size=BUFFER_SIZE,
            max_connections_per_ip=4,
            max_channels=12,
            admin_key=ADMIN_KEY,
            allowlist=True,
            allowlist_strict=False,
        )
        self.serial = 0
        self.catching_up = False
        self.proved: set[tuple[Guest, str]] = set()  # the ids for which a guest gave a right signature
        self.lurkers: set[Guest] = set()
        self.takers: set[Guest] = set()  # that named the feature `receipts`
        self.asked: dict[str, str] = {}  # the senders of messages, by the id of the message
        self.views: dict[tuple[Guest, str], set[str]] = {}  # whom a guest believes to be in a channel
        self.history: dict[str, list[str]] = {}
        self.last_said: dict[Guest, float] = {}
        self.heard: dict[str, list[Guest]] = {}  # who got a message that is on its way
        for key in (None, ALICE, None):
            self.arrive(key, human=False)
        self.gather("#general")
        self.create(0, "#den", invite_only=True, verified_only=False)

    # -- how the machine sends and reads -----------------------------------------------------------

    def guest(self, number: int) -> Guest | None:
        guests = [guest for guest in self.world.guests if guest.link.closed is None]
        return guests[number % len(guests)] if guests else None

    def send(self, number: int, type: str, /, **fields: Any) -> None:  # noqa: A002  # the wire's word
        guest = self.guest(number)
        if guest is not None:
            self.world.send(guest, type, **fields)
            self.read()

    def named(self, address: str) -> Guest:
        (guest,) = (guest for guest in self.world.guests if guest.id == address and guest.link.closed is None)
        return guest

    def address(self, number: int) -> str:
        guest = self.guest(number)
        return guest.id if guest is not None and guest.id else "@nobody"

    def read(self) -> None:
        for guest in self.world.guests:
            for message in guest.read():
                self.notice(guest, message)
            if guest.link.closed is not None:
                self.forget(guest)

    def forget(self, guest: Guest) -> None:
        for view in [view for view in self.views if view[0] is guest]:
            del self.views[view]

    def notice(self, guest: Guest, message: Message) -> None:
        channel = message.get("channel", "")
        match message["type"]:
            case "WELCOME":
                assert not guest.id, "welcomed twice"
                guest.id = message["agent_id"]
                assert guest.id not in OWNERS or (guest, guest.id) in self.proved
                if message.get("lurk"):
                    self.lurkers.add(guest)
            case "JOINED":
                members = [entry if isinstance(entry, str) else entry["id"] for entry in message["agents"]]
                assert len(members) == len(set(members))
                assert guest.id in members
                self.views[guest, channel] = set(members)
            case "LEFT":
                self.views.pop((guest, channel), None)
            case "AGENT_JOINED" if (guest, channel) in self.views:
                assert message["agent"] not in self.views[guest, channel]
                self.views[guest, channel].add(message["agent"])
            case "AGENT_LEFT" if (guest, channel) in self.views:
                self.views[guest, channel].remove(message["agent"])
            case "TYPING" | "RESPONDING_TO" | "FLOOR_CLAIMED" | "FLOOR_RELEASED" if not self.catching_up:
                assert self.is_member(guest, channel)
                assert self.is_member(self.named(message.get("from") or message["holder"]), channel)
            case "RECEIPT":
                assert guest in self.takers
                assert self.asked.get(message["msg_id"], guest.id) == guest.id
            case "MSG" if message["content"].startswith("said-") and not self.catching_up:
                self.hear(guest, message)

    def hear(self, guest: Guest, message: Message) -> None:
        assert "receipt" not in message or guest in self.takers
        if message.get("replay"):
            assert message["content"] in self.history[message["to"]][-BUFFER_SIZE:]
            assert self.is_member(guest, message["to"])
        else:
            self.heard.setdefault(message["content"], []).append(guest)

    def is_member(self, guest: Guest, name: str) -> bool:
        channel = self.world.hall.channels.get(name)
        return channel is not None and guest.id[1:] in channel.members

    def audience(self, to: str) -> list[Guest]:
        """Who is to hear what is said there, the speaker included."""
        present = [guest for guest in self.world.guests if guest.link.closed is None and guest.id]
        return [guest for guest in present if (self.is_member(guest, to) if to[0] == "#" else guest.id == to)]

    def say(self, number: int, to: str) -> None:
        """Said, and heard by exactly those who are to hear it; or refused, and heard by nobody."""
        speaker = self.guest(number)
        if speaker is None:
            return
        self.serial += 1
        content = f"said-{self.serial}"
        expected = self.audience(to)
        may_speak = to[0] != "#" or speaker in expected
        if self.world.settings.echo:
            expected = [*(guest for guest in expected if guest is not speaker), speaker]
        elif to[0] == "#":
            expected = [guest for guest in expected if guest is not speaker]
        was_busy = speaker.session.busy
        self.world.send(speaker, "MSG", to=to, content=content, ref=content, receipt=self.serial % 2 == 0)
        answer = [message for message in speaker.unread if message.get("ref") == content]
        accepted = [message["type"] for message in answer] == ["ACK"]
        if accepted:
            self.asked[answer[0]["msg_id"]] = speaker.id
        if accepted and to[0] == "#":
            self.history.setdefault(to, []).append(content)
        self.read()
        if was_busy:
            assert not answer  # it waits behind another command of its own
            assert content not in self.heard
            return
        assert Counter(self.heard.pop(content, ())) == (Counter(expected) if accepted else Counter())
        if accepted:
            assert speaker.id
            assert may_speak
            assert speaker not in self.lurkers
            self.keeps_the_rate(speaker)

    def keeps_the_rate(self, speaker: Guest) -> None:
        now = self.world.clock.monotonic()
        if not self.world.settings.no_limits and speaker in self.last_said:
            assert now - self.last_said[speaker] >= 1
        self.last_said[speaker] = now

    # -- coming and going --------------------------------------------------------------------------

    @precondition(lambda self: len(self.world.guests) < 60)
    @rule(address=st.integers(1, 3), loopback=flags)
    def connect(self, address: int, loopback: bool) -> None:
        present = sum(guest.link.closed is None for guest in self.world.guests)
        if present < MAX_GUESTS:
            before = sum(
                session.counted and session.ip == f"192.0.2.{address}" for session in self.world.hall.sessions
            )
            guest = self.world.connect(f"192.0.2.{address}", is_loopback=loopback)
            limited = not loopback and not self.world.settings.no_limits
            assert (guest.link.closed is not None) is (limited and before >= 4)

    @rule(key=keys, human=flags)
    def arrive(self, key: PrivateKey | None, human: bool) -> None:
        """The usual way in, all of it."""
        self.connect(1, loopback=True)
        self.identify(-1, key, human)
        self.prove(-1, right=True)
        self.answer(-1, right=True)

    @rule(number=who, key=keys, human=flags)
    def identify(self, number: int, key: PrivateKey | None, human: bool) -> None:
        guest = self.guest(number)
        if guest is not None and guest.session.pending is None:
            guest.key = key
        if guest is not None and not human:
            self.takers.add(guest)
        self.send(
            number,
            "IDENTIFY",
            name="someone",
            pubkey=key and key.public.pem,
            kind="human" if human else "agent",
            features=None if human else ["receipts"],
        )

    @rule(number=who, right=flags)
    def prove(self, number: int, right: bool) -> None:
        guest = self.guest(number)
        if guest is None or guest.key is None or not isinstance(guest.session.pending, Challenge):
            return
        asked = {"nonce": guest.session.pending.nonce, "challenge_id": guest.session.pending.id}
        if right:
            self.proved.add((guest, f"@{guest.key.public.agent_id(self.world.settings.id_length)}"))
            self.world.prove(guest, asked)
        else:
            self.world.prove(guest, asked, signature=STRANGER.sign("wrong"))
        self.read()

    @rule(number=who, right=flags)
    def answer(self, number: int, right: bool) -> None:
        guest = self.guest(number)
        if guest is None or not isinstance(guest.session.pending, CaptchaTest):
            return
        test = guest.session.pending
        text = test.question.answer if right else "certainly not"
        self.send(number, "CAPTCHA_RESPONSE", captcha_id=test.id, answer=text)

    @rule(number=who)
    def disconnect(self, number: int) -> None:
        guest = self.guest(number)
        if guest is not None:
            self.world.disconnect(guest)
            self.read()

    @rule(seconds=moments)
    def wait(self, seconds: float) -> None:
        if self.world.hall.takeovers:
            self.catch_up(lambda: self.world.advance(seconds))
        else:
            self.world.advance(seconds)
            self.read()

    @precondition(lambda self: len(self.world.held) > 0)
    @rule()
    def the_disk_is_done(self) -> None:
        self.catch_up(self.world.held.do_next)

    def catch_up(self, go_on: Callable[[], None]) -> None:
        """Several commands that waited, behind another one or a takeover, may be handled now. Only what is the case
        after the last of them can be seen."""
        self.catching_up = True
        go_on()
        self.read()
        self.catching_up = False
        for channel in self.world.hall.channels:
            self.history[channel.name] = [message["content"] for message in self.world.buffered(channel.name)]

    # -- commands ----------------------------------------------------------------------------------

    @rule(number=who, channel=channels)
    def join(self, number: int, channel: str) -> None:
        guest = self.guest(number)
        if guest is None:
            return
        before = guest.link.messages[:]
        self.send(number, "JOIN", channel=channel)
        got = guest.link.messages[len(before) :]
        if any(message["type"] == "JOINED" for message in got):
            replayed = [message["content"] for message in got if message.get("replay")]
            assert replayed == self.history.get(channel, [])[-BUFFER_SIZE:]

    @rule(channel=channels)
    def gather(self, channel: str) -> None:
        """Everybody tries to come in."""
        for number in range(len(self.world.guests)):
            self.join(number, channel)

    @rule(number=who, channel=channels)
    def leave(self, number: int, channel: str) -> None:
        self.send(number, "LEAVE", channel=channel)

    @rule(number=who, channel=channels, invite_only=flags, verified_only=flags)
    def create(self, number: int, channel: str, invite_only: bool, verified_only: bool) -> None:
        self.send(
            number, "CREATE_CHANNEL", channel=channel, invite_only=invite_only, verified_only=verified_only
        )

    @rule(number=who, channel=channels, other=who)
    def invite(self, number: int, channel: str, other: int) -> None:
        self.send(number, "INVITE", channel=channel, agent=self.address(other))

    @rule(number=who, channel=channels)
    def speak(self, number: int, channel: str) -> None:
        self.say(number, channel)

    @rule(first=who, second=who, starts=st.tuples(st.integers(1, 3), st.integers(1, 3)), leaves=flags)
    def converse(self, first: int, second: int, starts: tuple[int, int], leaves: bool) -> None:
        """Something is said, two begin to answer, one does."""
        self.say(first + second, "#general")
        self.claim(first, "#general", starts[0])
        self.claim(second, "#general", starts[1])
        if leaves:
            self.leave(first, "#general")
        self.wait(1)
        self.say(second, "#general")

    @rule(number=who, other=who)
    def whisper(self, number: int, other: int) -> None:
        self.say(number, self.address(other))

    @rule(number=who, channel=channels, delay=st.integers(0, 9))
    def set_a_callback(self, number: int, channel: str, delay: int) -> None:
        self.send(number, "MSG", to=channel, content=f"@@cb:{delay}s{channel}@@x@@cb:{delay}s@@y")

    @rule(number=who, other=who)
    def send_a_chunk(self, number: int, other: int) -> None:
        self.send(number, "FILE_CHUNK", to=self.address(other), content="half \ud83d")

    @rule(number=who, channel=channels, started_at=st.integers(1, 5))
    def claim(self, number: int, channel: str, started_at: int) -> None:
        known = self.world.hall.channels.get(channel)
        msg_id = self.world.buffered(channel)[-1].get("msg_id") if known is not None and known.buffer else "m"
        self.send(number, "RESPONDING_TO", msg_id=msg_id, channel=channel, started_at=started_at)

    @rule(number=who, status=st.sampled_from(["SEEN", "CLAIMED", "DONE", "FAILED"]))
    def report(self, number: int, status: str) -> None:
        """Of the message that was said last, to whichever guest."""
        self.send(number, "RECEIPT", msg_id=next(reversed(self.asked), "m"), status=status)

    @rule(number=who, channel=channels)
    def release(self, number: int, channel: str) -> None:
        known = self.world.hall.channels.get(channel)
        msg_id = self.world.buffered(channel)[-1].get("msg_id") if known is not None and known.buffer else "m"
        self.send(number, "RELEASE", msg_id=msg_id, channel=channel)

    @rule(number=who, other=who)
    def ask_for_proof(self, number: int, other: int) -> None:
        self.send(number, "VERIFY_REQUEST", target=self.address(other), nonce="0" * 32)

    @rule(number=who, right=flags)
    def answer_for_proof(self, number: int, right: bool) -> None:
        guest = self.guest(number)
        if guest is None:
            return
        requests = [
            message["request_id"]
            for message in guest.link.messages
            if message["type"] == "VERIFY_REQUEST" and "nonce" in message
        ]
        sig = guest.key.sign("0" * 32) if guest.key is not None and right else "x"
        self.send(
            number,
            "VERIFY_RESPONSE",
            request_id=requests[-1] if requests else "verify_x",
            nonce="0" * 32,
            sig=sig,
        )

    @rule(
        number=who,
        other=who,
        operation=st.sampled_from(ADMIN_OPERATIONS),
        right=flags,
    )
    def administer(self, number: int, other: int, operation: str, right: bool) -> None:
        fields: Message = {"agent_id": self.address(other)}
        if operation == "ADMIN_APPROVE":
            fields = {"pubkey": ALICE.public.pem}
        elif operation == "ADMIN_VERIFY":
            fields["verified"] = other % 2 == 0
        elif operation == "ADMIN_MOTD":
            fields = {"motd": "hello", "kick": other == 0}
        self.send(number, operation, admin_key=ADMIN_KEY if right else "wrong", **fields)

    @rule(number=who, kind=st.sampled_from(sorted(TABLE)))
    def send_anything_valid(self, number: int, kind: str) -> None:
        if kind not in ("MSG", "IDENTIFY"):
            self.send(number, kind, **TABLE[kind][3])

    @rule(
        number=who,
        payloads=st.lists(st.binary(max_size=40), max_size=3),
        flood=st.sampled_from([0, 0, 11, 61]),
    )
    def misbehave(self, number: int, payloads: list[bytes], flood: int) -> None:
        guest = self.guest(number)
        for payload in (*payloads, *[b'{"type":"PING"}'] * flood):
            if guest is not None and guest.link.closed is None:
                self.world.send_raw(guest, payload)
        self.read()

    # -- what holds --------------------------------------------------------------------------------

    @invariant()
    def the_hall_is_consistent(self) -> None:
        assert_consistent(self.world)

    @invariant()
    def ids_are_unique_and_everyone_present_is_in_the_roster(self) -> None:
        present = [guest for guest in self.world.guests if guest.link.closed is None and guest.id]
        assert sorted(guest.id[1:] for guest in present) == sorted(self.world.hall.roster.agents)

    @invariant()
    def every_member_knows_who_is_there(self) -> None:
        for (guest, channel), view in self.views.items():
            members = self.world.hall.channels.find(channel).members
            assert guest.id[1:] in members
            assert view == {member.address for member in members.values()}

    @invariant()
    def nothing_was_heard_that_was_not_said(self) -> None:
        assert self.heard == {}


HallLife.TestCase.settings = settings(max_examples=60, stateful_step_count=50)
TestHallLife = HallLife.TestCase


# -- any bytes, any JSON -------------------------------------------------------------------------------

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["#general", "@x", "\ud800", "a" * 300, -(10**400), 1e308])
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def nearly_valid(draw: st.DrawFn) -> bytes:
    """A valid message in which some fields hold something else."""
    kind = draw(st.sampled_from(sorted(TABLE)))
    fields = {**TABLE[kind][3], "ref": "r", "type": kind}
    for name in draw(st.sets(st.sampled_from(sorted(fields)), max_size=3)):
        fields[name] = draw(anything)
    return json.dumps(fields).encode()


@given(
    st.lists(nearly_valid() | st.binary(max_size=60) | anything.map(lambda value: json.dumps(value).encode()))
)
def test_no_bytes_raise_anything_whoever_sends_them(payloads: list[bytes]) -> None:
    world = World(no_limits=True, admin_key=ADMIN_KEY, allowlist=True, allowlist_strict=False)
    senders = [world.connect(), world.agent(join="#general"), world.agent(key=ALICE, join="#general")]
    witness = world.agent("witness", join="#general")
    for payload in payloads:
        for sender in senders:
            world.send_raw(sender, payload)
    assert_consistent(world)
    world.send(witness, "PING")
    assert witness.read()[-1]["type"] == "PONG"

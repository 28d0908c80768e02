"""Halls that share a store, with a made-up clock: what each of them writes down, tells and hears."""

from collections.abc import Callable, Collection, Container, Mapping
from typing import Any

import pytest

from moothall.hall.common import BANS, LISTS
from moothall.hall.counts import RECOUNT_SECONDS
from moothall.hall.elsewhere import ON_THE_MESH, Connected
from moothall.hall.other_halls import (
    LETTER_SECONDS,
    MAX_NAMED,
    NEWS,
    OVERLAP,
    PRESENCE_SECONDS,
    PULSE_SECONDS,
    HallBooks,
    Letter,
    News,
    OtherHalls,
    named,
)
from moothall.hall.outside import Result
from moothall.identity import PrivateKey
from moothall.identity.certificates import revoke
from tests.court.books import MemoryBooks
from tests.identity.vectors import ALICE, BOB, CAROL, NOW_MS
from tests.support.deals import signed
from tests.support.world import (
    ADMIN_KEY,
    Guest,
    World,
    assert_closed,
    assert_open,
    assert_sent,
    assert_silent,
)


class SharedBooks(MemoryBooks, HallBooks):
    """Of several halls. Each unit of work is that of the hall whose name is set before it."""

    def __init__(self) -> None:
        super().__init__()
        self.hall = ""
        self.halls: dict[str, dict[bytes, Connected]] = {}
        self.changes: dict[str, int] = {}
        self.mail: list[tuple[str, frozenset[bytes], bytes]] = []
        self.versions = dict.fromkeys(LISTS, 0)
        self.signals: list[tuple[str, str]] = []  # by whom, and what
        self.fails = False
        self.pulses = 0

    def enlist(self, of: Any, name: bytes, record: bytes) -> None:
        super().enlist(of, name, record)
        self.versions[of] += 1

    def next_conversation_deadline(self) -> int | None:
        return None

    def pulse(self, presences: Mapping[bytes, Connected | None], changes: int = 0) -> News:
        if self.fails:
            raise OSError("the store cannot be reached")
        self.pulses += 1
        self.changes[self.hall] = changes
        is_known = self.hall in self.halls
        here = self.halls.setdefault(self.hall, {})
        for key, presence in presences.items():
            if presence is None:
                here.pop(key, None)
            else:
                here[key] = presence
        return News(
            is_known=is_known,
            others=len(self.halls) - 1,
            lists=dict(self.versions),
            revoked=self.revocations(),
            pinned=0,
            letters=len(self.mail),
            decisions=len(self.audit),
            changes=sum(count for name, count in self.changes.items() if name != self.hall),
        )

    def leave(self) -> None:
        del self.halls[self.hall]

    def elsewhere(self) -> list[tuple[bytes, str]]:
        return [(key, each.presence) for key, each in self._others()]

    def also_elsewhere(self, keys: Collection[bytes]) -> set[bytes]:
        return {key for key, _ in self.elsewhere()}.intersection(keys)

    def on_mesh_elsewhere(self, keys: Collection[bytes]) -> set[bytes]:
        return {key for key, each in self._others() if each.on_mesh}.intersection(keys)

    def _others(self) -> list[tuple[bytes, Connected]]:
        return [entry for name, here in self.halls.items() if name != self.hall for entry in here.items()]

    def post(self, to: Any, body: bytes) -> None:
        self.mail.append((self.hall, frozenset(to), body))
        self.signals.append((self.hall, f"letter {len(self.mail)} {named(to)}"))

    def letters(self, after: int, but: Container[int], wanted: Container[bytes]) -> list[Letter]:
        return [
            Letter(number, body if any(key in wanted for key in to) else None)
            for number, (sender, to, body) in enumerate(self.mail, 1)
            if number > after and sender != self.hall and number not in but
        ]


class SharedStore:
    def __init__(self, books: SharedBooks, hall: str) -> None:
        self._books = books
        self._hall = hall

    def submit(
        self,
        work: Callable[[Any], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        before, self._books.hall = self._books.hall, self._hall
        try:
            result = work(self._books)
        except OSError as error:
            failed(error)
        else:
            done(result)
        finally:
            self._books.hall = before


class HallOfMany(World):
    def __init__(self, books: SharedBooks, name: str, **settings: Any) -> None:
        store = SharedStore(books, name)
        self.others = OtherHalls(store)
        self.shared = books
        self.name = name
        self.opened: list[str] = []
        super().__init__(books=books, store=store, others=self.others, common=store, **settings)
        self.others.open(
            self.hall,
            None,
            (self.desk, self.court),
            books.versions,
            lambda: self.opened.append("now"),
        )

    def hear_all(self) -> None:
        """What the other halls have signalled."""
        for sender, signal in list(self.shared.signals):
            if sender != self.name:
                self.others.hear(signal)

    def listed(self) -> dict[bytes, str]:
        return {key: each.presence for key, each in self.shared.halls[self.name].items()}


@pytest.fixture
def books() -> SharedBooks:
    return SharedBooks()


@pytest.fixture
def here(books: SharedBooks) -> HallOfMany:
    return HallOfMany(books, "here", admin_key=ADMIN_KEY)


@pytest.fixture
def there(books: SharedBooks, here: HallOfMany) -> HallOfMany:
    made = HallOfMany(books, "there", admin_key=ADMIN_KEY)
    here.others.hear(NEWS)
    return made


def propose(world: World, proposer: Guest, key: PrivateKey, recipient: PrivateKey, **fields: Any) -> str:
    offer = signed(key, "PROPOSAL", to=f"@{recipient.public.agent_id()}", task="review", **fields)
    world.send(proposer, "PROPOSAL", **offer)
    deal: str = assert_sent(proposer, "PROPOSAL")["id"]
    return deal


# -- who is connected ----------------------------------------------------------------------------------


def test_arrivals_departures_and_presence_are_written_together(here: HallOfMany) -> None:
    alice, bob = here.agent("alice", key=ALICE), here.agent("bob", key=BOB)
    here.agent("nobody")
    assert here.listed() == {}
    pulses = here.shared.pulses
    here.advance(PRESENCE_SECONDS)
    assert here.listed() == {ALICE.public.raw: "online", BOB.public.raw: "online"}
    assert here.shared.pulses == pulses + 1
    here.send(alice, "SET_PRESENCE", status="away")
    here.disconnect(bob)
    here.advance(PRESENCE_SECONDS)
    assert here.listed() == {ALICE.public.raw: "away"}


def test_a_hall_that_was_forgotten_says_everything_again(here: HallOfMany) -> None:
    here.agent("alice", key=ALICE)
    here.advance(PULSE_SECONDS)
    del here.shared.halls["here"]  # it was stopped for a while, or the database lost it
    here.advance(2 * PULSE_SECONDS)
    assert here.listed() == {ALICE.public.raw: "online"}


def test_it_pulses_once_a_second_however_often_it_is_signalled(here: HallOfMany) -> None:
    for _ in range(20):
        here.others.hear(NEWS)
    pulses = here.shared.pulses
    here.advance(10 * PULSE_SECONDS)
    assert here.shared.pulses == pulses + 10


def test_a_store_that_cannot_be_reached_costs_nothing_but_time(here: HallOfMany) -> None:
    here.shared.fails = True
    here.agent("alice", key=ALICE)
    here.advance(3 * PULSE_SECONDS)
    assert here.log.find("other_halls_not_reached")
    here.shared.fails = False
    here.advance(PULSE_SECONDS)
    assert here.listed() == {ALICE.public.raw: "online"}


def test_a_hall_is_open_when_the_store_knows_it(books: SharedBooks) -> None:
    books.fails = True
    made = HallOfMany(books, "made")
    assert made.opened == []
    books.fails = False
    made.advance(PULSE_SECONDS)
    made.advance(PULSE_SECONDS)
    assert made.opened == ["now"]


def test_a_hall_that_closes_leaves_and_hears_nothing_more(here: HallOfMany, there: HallOfMany) -> None:
    there.agent("bob", key=BOB)
    there.others.close()
    assert "there" not in there.shared.halls
    pulses = there.shared.pulses
    there.others.hear(NEWS)
    there.advance(5)
    assert there.shared.pulses == pulses
    there.others.close()


# -- the mesh ------------------------------------------------------------------------------------------


class Mesh:
    """What a hall is brought for its agents of the mesh."""

    def __init__(self, world: HallOfMany) -> None:
        self.envelopes: list[tuple[bytes, bytes, int]] = []
        self.frames: list[tuple[bytes, bytes]] = []
        world.others.on_mesh(
            lambda *carried: self.envelopes.append(carried), lambda *told: self.frames.append(told)
        )


def test_an_agent_of_the_mesh_is_present_until_it_has_no_connection_at_all(here: HallOfMany) -> None:
    key = ALICE.public.raw
    here.others.present(key, is_here=True)
    here.advance(PRESENCE_SECONDS)
    assert here.listed() == {key: ON_THE_MESH}
    alice = here.agent("alice", key=ALICE)
    here.advance(PRESENCE_SECONDS)
    assert here.listed() == {key: "online"}
    here.disconnect(alice)
    here.advance(PRESENCE_SECONDS)
    assert here.listed() == {key: ON_THE_MESH}
    del here.shared.halls["here"]
    here.advance(2 * PULSE_SECONDS)
    assert here.listed() == {key: ON_THE_MESH}
    here.others.present(key, is_here=False)
    here.advance(PULSE_SECONDS)
    assert here.listed() == {}


def test_envelopes_and_frames_are_brought_to_agents_of_the_mesh_elsewhere(
    here: HallOfMany, there: HallOfMany
) -> None:
    mesh, own, books = Mesh(there), Mesh(here), here.shared
    there.others.present(BOB.public.raw, is_here=True)
    there.advance(PRESENCE_SECONDS)
    books.hall = "here"
    assert here.others.is_on_mesh(books, BOB.public.raw)
    assert here.others.carry(books, BOB.public.raw, b"envelope")
    assert not here.others.is_on_mesh(books, CAROL.public.raw)
    assert not here.others.carry(books, CAROL.public.raw, b"envelope")
    here.others.notify(books, (ALICE.public.raw, BOB.public.raw), b"frame")
    here.others.notify(books, (ALICE.public.raw,), b"frame")
    there.hear_all()
    here.hear_all()
    assert mesh.envelopes == [(BOB.public.raw, b"envelope", 0)]
    assert mesh.frames == [(BOB.public.raw, b"frame")]
    assert (own.envelopes, own.frames) == ([], [])


def test_an_agent_of_the_mesh_is_reached_from_its_first_envelope_on(
    here: HallOfMany, there: HallOfMany, books: SharedBooks
) -> None:
    books.hall = here.name
    there.others.present(BOB.public.raw, is_here=True)
    assert here.others.is_on_mesh(books, BOB.public.raw), "without waiting for the next pulse"
    pulses = books.pulses
    there.others.present(BOB.public.raw, is_here=True)
    there.others.present(BOB.public.raw, is_here=False)
    assert books.pulses == pulses


def test_envelopes_are_not_carried_to_an_agent_that_is_elsewhere_without_the_mesh(
    here: HallOfMany, there: HallOfMany
) -> None:
    books, key = here.shared, BOB.public.raw
    bob = there.agent("bob", key=BOB)
    there.advance(PRESENCE_SECONDS)
    books.hall = "here"
    assert not here.others.carry(books, key, b"envelope")
    there.others.present(key, is_here=True)
    there.advance(PRESENCE_SECONDS)
    assert there.listed() == {key: "online"}
    assert here.others.carry(books, key, b"envelope")
    there.disconnect(bob)
    there.others.present(key, is_here=False)
    there.advance(PRESENCE_SECONDS)
    assert not here.others.carry(books, key, b"envelope")


def test_an_envelope_to_an_agent_that_has_just_left_is_told_where_it_was(
    here: HallOfMany, there: HallOfMany
) -> None:
    mesh, books, key = Mesh(there), here.shared, BOB.public.raw
    there.others.present(key, is_here=True)
    there.advance(PRESENCE_SECONDS)
    there.others.present(key, is_here=False)
    books.hall = "here"
    assert here.others.carry(books, key, b"envelope", 7)  # `here` does not know yet
    there.hear_all()
    assert mesh.envelopes == [(key, b"envelope", 7)]
    there.advance(LETTER_SECONDS)
    there.others.present(CAROL.public.raw, is_here=True)
    there.others.present(CAROL.public.raw, is_here=False)
    assert list(there.others._left) == [CAROL.public.raw]


def test_what_is_remembered_of_agents_that_left_is_bounded(
    here: HallOfMany, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moothall.hall.other_halls.MAX_LEFT", 3)
    for number in range(5):
        here.others.present(bytes([number]) * 32, is_here=True)
        here.others.present(bytes([number]) * 32, is_here=False)
    assert list(here.others._left) == [bytes([number]) * 32 for number in (2, 3, 4)]


def test_conversations_that_another_hall_changed_are_counted_again(
    here: HallOfMany, there: HallOfMany, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[object] = []
    monkeypatch.setattr(here.desk, "recount", counted.append)
    here.advance(PULSE_SECONDS)
    before = len(counted)
    there.others.changed()
    there.advance(PULSE_SECONDS)
    here.advance(PULSE_SECONDS)
    assert len(counted) == before + 1
    here.advance(PULSE_SECONDS)
    assert len(counted) == before + 1


def test_an_agent_of_the_mesh_is_not_drawn_as_an_arbiter(here: HallOfMany, there: HallOfMany) -> None:
    there.others.present(BOB.public.raw, is_here=True)
    there.advance(PRESENCE_SECONDS)
    here.shared.hall = "here"
    assert dict(here.shared.elsewhere()) == {BOB.public.raw: ON_THE_MESH}
    assert here.court._everywhere(here.hall, here.shared, []) == []


# -- letters -------------------------------------------------------------------------------------------


def test_a_party_elsewhere_is_told_what_it_would_be_told_here(here: HallOfMany, there: HallOfMany) -> None:
    alice, bob = here.agent("alice", key=ALICE), there.agent("bob", key=BOB)
    deal = propose(here, alice, ALICE, BOB)
    there.hear_all()
    assert assert_sent(bob, "PROPOSAL", id=deal, task="review") == here.guests[0].link.messages[-1]
    assert_silent(alice, bob)


def test_a_lost_signal_costs_a_second(here: HallOfMany, there: HallOfMany) -> None:
    alice, bob = here.agent("alice", key=ALICE), there.agent("bob", key=BOB)
    deal = propose(here, alice, ALICE, BOB)
    assert_silent(bob)
    there.advance(PULSE_SECONDS)
    assert_sent(bob, "PROPOSAL", id=deal)
    there.hear_all()
    there.advance(5)
    assert_silent(bob)


def test_after_a_lost_connection_all_that_was_missed_is_told_once_and_in_order(
    here: HallOfMany, there: HallOfMany
) -> None:
    alice, bob = here.agent("alice", key=ALICE), there.agent("bob", key=BOB)
    deals = [propose(here, alice, ALICE, BOB) for _ in range(3)]
    there.others.hear(f"letter 3 {CAROL.public.raw.hex()}")  # as if this one was for another agent
    there.others.hear("")
    assert [message["id"] for message in bob.read()] == deals[:2]


def test_letters_from_before_a_hall_came_are_not_for_its_agents(here: HallOfMany, books: SharedBooks) -> None:
    HallOfMany(books, "there")
    here.others.hear(NEWS)
    alice = here.agent("alice", key=ALICE)
    books.bound[BOB.public.agent_id()] = BOB.public.raw
    books.stands[BOB.public.raw] = books.standing(BOB.public.raw)
    propose(here, alice, ALICE, BOB)
    late = HallOfMany(books, "late")
    bob = late.agent("bob", key=BOB)
    late.others.hear("")
    late.advance(5)
    assert_silent(bob)


def test_who_is_told_here_is_not_written_to(here: HallOfMany, there: HallOfMany) -> None:
    alice, bob = here.agent("alice", key=ALICE), here.agent("bob", key=BOB)
    propose(here, alice, ALICE, BOB)
    assert_sent(bob, "PROPOSAL")
    assert here.shared.mail == []


def test_a_key_that_is_connected_to_two_halls_is_told_at_both(here: HallOfMany, there: HallOfMany) -> None:
    alice, bob, again = (
        here.agent("alice", key=ALICE),
        here.agent("bob", key=BOB),
        there.agent("bob", key=BOB),
    )
    there.advance(PRESENCE_SECONDS)
    deal = propose(here, alice, ALICE, BOB)
    assert_sent(bob, "PROPOSAL", id=deal)
    there.hear_all()
    assert_sent(again, "PROPOSAL", id=deal)
    here.hear_all()
    assert_silent(alice, bob)


def test_a_hall_that_is_alone_writes_no_letters(here: HallOfMany) -> None:
    alice, bob = here.agent("alice", key=ALICE), here.agent("bob", key=BOB)
    propose(here, alice, ALICE, BOB)
    assert_sent(bob, "PROPOSAL")
    here.disconnect(bob)
    propose(here, alice, ALICE, BOB)
    assert here.shared.mail == []


def test_a_letter_for_others_is_not_read(here: HallOfMany, there: HallOfMany) -> None:
    alice, bob = here.agent("alice", key=ALICE), there.agent("bob", key=BOB)
    asked: list[int] = []
    letters = there.shared.letters

    def counted(after: int, but: Container[int], wanted: Container[bytes]) -> list[Letter]:
        asked.append(after)
        return letters(after, but, wanted)

    there.shared.letters = counted  # type: ignore[method-assign]
    there.disconnect(bob)
    propose(here, alice, ALICE, BOB)
    there.hear_all()
    there.advance(5)
    assert asked == []


@pytest.mark.parametrize(
    "signal", ["letter", "letter x", "letter 1 zz", "letter 1 *", "later version", "\ud800"]
)
def test_a_signal_that_is_not_understood_makes_the_hall_look(
    here: HallOfMany, there: HallOfMany, signal: str
) -> None:
    alice, bob = here.agent("alice", key=ALICE), there.agent("bob", key=BOB)
    deal = propose(here, alice, ALICE, BOB)
    there.others.hear(signal)
    assert_sent(bob, "PROPOSAL", id=deal)


def test_what_is_remembered_of_letters_is_bounded(here: HallOfMany) -> None:
    for number in range(1, 5000):
        here.others.hear(f"letter {number} {CAROL.public.raw.hex()}")
    assert len(here.others._letters.latest()) <= 2 * OVERLAP


def test_so_many_recipients_are_named_that_a_signal_carries_them() -> None:
    keys = [number.to_bytes(32, "big") for number in range(MAX_NAMED + 1)]
    assert named(keys[:2]) == f"{keys[0].hex()},{keys[1].hex()}"
    assert named(keys) == "*"
    assert len(f"0123456789abcdef letter 9999999999 {named(keys[:-1])}") < 8000


def test_letters_that_cannot_be_read_are_read_at_the_next_pulse(here: HallOfMany, there: HallOfMany) -> None:
    alice, bob = here.agent("alice", key=ALICE), there.agent("bob", key=BOB)
    letters = there.shared.letters

    def unreachable(after: int, but: Container[int], wanted: Container[bytes]) -> list[Letter]:
        raise OSError("gone")

    there.shared.letters = unreachable  # type: ignore[method-assign]
    deal = propose(here, alice, ALICE, BOB)
    there.hear_all()
    assert there.log.find("letters_not_read")
    there.shared.letters = letters  # type: ignore[method-assign]
    there.advance(PULSE_SECONDS)
    assert_sent(bob, "PROPOSAL", id=deal)


# -- what all halls have in common ---------------------------------------------------------------------


def test_a_ban_holds_elsewhere_at_the_next_signal(here: HallOfMany, there: HallOfMany) -> None:
    operator, bob = here.connect(), there.agent("bob", key=BOB)
    here.send(operator, "ADMIN_BAN", admin_key=ADMIN_KEY, agent_id=BOB.public.agent_id())
    assert_open(bob)
    there.others.hear(NEWS)
    assert_sent(bob, "BANNED")
    assert_closed(bob, 1000, "Banned by admin")


def test_without_a_signal_it_holds_within_a_second(here: HallOfMany, there: HallOfMany) -> None:
    operator, bob = here.connect(), there.agent("bob", key=BOB)
    here.send(operator, "ADMIN_BAN", admin_key=ADMIN_KEY, agent_id=BOB.public.agent_id())
    there.advance(PULSE_SECONDS)
    assert_closed(bob, 1000, "Banned by admin")


def test_a_list_that_did_not_change_is_not_read(here: HallOfMany) -> None:
    asked: list[str] = []

    def listed(of: str) -> list[bytes]:
        asked.append(of)
        return []

    here.shared.listed = listed  # type: ignore[method-assign]
    here.advance(5)
    assert asked == []
    here.shared.versions[BANS] += 1
    here.advance(5)
    assert asked == [BANS]


def test_a_key_that_was_revoked_elsewhere_is_closed_here(here: HallOfMany, there: HallOfMany) -> None:
    carol, stranger = there.agent("carol", key=CAROL), here.connect()
    here.send(stranger, "REVOKE_KEY", notice=revoke(CAROL, now_ms=NOW_MS))
    assert_sent(stranger, "KEY_REVOKED")
    there.advance(PULSE_SECONDS)
    assert_sent(carol, "KEY_REVOKED")
    assert_closed(carol, 1000, "Key revoked")


def test_deals_of_another_hall_are_counted_a_moment_later(here: HallOfMany, there: HallOfMany) -> None:
    alice, _ = here.agent("alice", key=ALICE), here.agent("bob", key=BOB)
    propose(here, alice, ALICE, BOB)
    there.advance(PULSE_SECONDS + RECOUNT_SECONDS)
    assert (there.desk.counts, there.desk.parties) == ({"pending": 1}, 2)


def test_what_did_not_change_is_not_counted_again(
    here: HallOfMany, there: HallOfMany, monkeypatch: pytest.MonkeyPatch
) -> None:
    there.advance(PULSE_SECONDS + RECOUNT_SECONDS)
    monkeypatch.setattr(there.shared, "parties", lambda: pytest.fail("nothing has changed"))
    there.advance(10 * PULSE_SECONDS)


def test_a_deadline_of_another_hall_is_acted_on_within_a_second(here: HallOfMany, there: HallOfMany) -> None:
    """The hall that made the deal has died."""
    alice, bob = here.agent("alice", key=ALICE), there.agent("bob", key=BOB)
    deal = propose(here, alice, ALICE, BOB, expires=1)
    there.hear_all()
    assert_sent(bob, "PROPOSAL", id=deal)
    there.advance(2)
    assert_sent(bob, "EXPIRED", proposal_id=deal)
    here.advance(2)
    there.hear_all()
    assert_silent(bob)

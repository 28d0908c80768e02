"""Random histories of conversations on the real SQLite store: whatever agents try, in whatever order, with restarts
and replays between, no credit is lost, none is made, and no escrow is settled twice."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from moothall.errors import CreditsRefused, OutOfOrder, RateLimited
from moothall.market.conversation_rules import decide
from moothall.market.conversations import ORDERS, TRANSITIONS, Conversation, Event, State, Step
from moothall.market.conversing import REPLAY_WINDOW, Dealt, MeshRules
from moothall.market.credits import EXTERNAL, Authority
from moothall.market.rating_rules import RatingRules
from moothall.store.files import DataDirectory
from moothall.store.sqlite import FILE
from moothall.wire.mesh.envelope import NO_CONVERSATION
from tests.store.support import Place
from tests.support.talks import STRANGER, A, B, N, Talks, envelope

pytestmark = pytest.mark.slow

M: Final = b"M" * 32  # another notary
AGENTS: Final = (A, B, N, M, STRANGER)
TALKS: Final = (b"0" * 16, b"1" * 16)
AMOUNTS: Final = (0, 1, 9, 10, 999_999, 1_000_000)
DEPOSIT: Final = 2_500_000
RULES: Final = (
    MeshRules(review=1000, escrow_timeout=10_000),
    MeshRules(review=20_000, escrow_timeout=10_000),
    MeshRules(review=1000, escrow_timeout=10_000, cover="optional"),
    MeshRules(
        approval="manual",
        escrow_timeout=10_000,
        ratings=RatingRules(diminishing=True, pair_cooldown=5000, gain_limit=20, gain_window=60_000),
    ),
)

MESSAGES: Final = sorted({event for _, event in TRANSITIONS} - ORDERS)
WAITS: Final = (1, 999, 1000, 5000, 9000, 10_000)
Action = tuple[str, tuple[Any, ...]]


def drawn(number: int) -> Action:
    """What one number stands for. Steps that fit the state come more often than the rest."""
    dice = Random(number)  # noqa: S311  # a test
    talk, agent, amount = dice.choice(TALKS), dice.choice(AGENTS), dice.choice(AMOUNTS)
    flag = dice.random() < 0.5
    others: list[Action] = [
        ("try_anything", (talk, dice.choice(MESSAGES), agent, dice.choice(AGENTS), amount, flag)),
        ("bid", (dice.choice((*TALKS, NO_CONVERSATION)), agent, flag)),
        ("cancel", (talk, agent)),
        ("consent", (talk, agent)),
        ("wait", (dice.choice(WAITS),)),
        ("lapse", (talk,)),
        ("replay", (dice.randrange(6),)),
        ("restart", ()),
    ]
    if dice.random() < 0.3:
        return dice.choice(others)
    return ("strike", (talk, flag, amount)) if dice.random() < 0.2 else ("go_on", (talk, number, amount))


histories = st.lists(st.integers(0, 2**32 - 1).map(drawn), min_size=40, max_size=40)


class History:
    def __init__(self, talks: Talks) -> None:
        self.talks = talks
        self.taken: list[tuple[Step, Authority, int]] = []
        self.settled: dict[bytes, str] = {}
        self.closed: set[bytes] = set()

    # -- what happens ------------------------------------------------------------------------------------

    def strike(self, talk: bytes, with_notary: bool, amount: int) -> None:
        """A new conversation as far as COMMITTED, so that histories get to the interesting part."""
        if self.talks.conversation(talk) is None:
            self.go_on(talk, 0, amount)
            if with_notary:
                self.talks.ask(A, talk)
                self.talks.bid(N, talk)
            self.go_on(talk, 0, amount)

    def go_on(self, talk: bytes, choice: int, amount: int) -> None:
        """A step that the state allows, by an agent that may take it."""
        conversation = self.talks.conversation(talk)
        steps = [step for step in _next_steps(conversation, talk, amount) if _is_allowed(conversation, step)]
        if steps:
            self.take(steps[choice % len(steps)], envelope(steps[choice % len(steps)].sender))

    def try_anything(
        self, talk: bytes, event: Event, sender: bytes, recipient: bytes, amount: int, flag: bool
    ) -> None:
        step = Step(
            event=event,
            conversation_id=talk,
            sender=sender,
            recipient=recipient,
            amount=amount,
            offers_work=flag,
            parties=(A, B) if flag else (B, A),
            about=recipient,
            about_notary=flag,
            score=amount % 100,
            positive=flag,
        )
        self.take(step, envelope(sender))

    def replay(self, back: int) -> None:
        """An envelope comes again, to a hall that has no window of nonces for it."""
        if back < len(self.taken):
            step, authority, at = self.taken[-1 - back]
            taken = len(self.taken)
            self.take(step, authority)
            assert len(self.taken) == taken or self.talks.now - at >= REPLAY_WINDOW, "taken twice"

    def take(self, step: Step, authority: Authority) -> None:
        before = self.talks.conversation(step.conversation_id)
        dealt = self.attempt(lambda: self.talks.take(step, authority))
        if dealt is not None:
            self.taken.append((step, authority, self.talks.now))
            self.assert_along_the_table(before, step.event, dealt.conversation)

    def bid(self, talk: bytes, bidder: bytes, offers: bool) -> None:
        self.talks.bid(bidder, talk, offers=offers)

    def cancel(self, talk: bytes, by: bytes) -> None:
        before = self.talks.conversation(talk)
        dealt = self.attempt(lambda: self.talks.cancel(by, talk))
        if dealt is not None:
            self.assert_along_the_table(before, "CANCEL", dealt.conversation)

    def consent(self, talk: bytes, by: bytes) -> None:
        self.attempt(lambda: self.talks.consent(by, talk))

    def wait(self, milliseconds: int) -> None:
        self.talks.wait(milliseconds)
        due = self.talks.unit(lambda books: books.due_conversations(self.talks.now))
        assert due == [], "what was due was done"

    def lapse(self, talk: bytes) -> None:
        self.talks.lapse(talk)

    def restart(self) -> None:
        before = self.talks.facts()
        self.talks.restart()
        assert self.talks.facts() == before

    def attempt(self, work: Callable[[], Dealt]) -> Dealt | None:
        """None if it was refused; then nothing may have changed."""
        before = self.talks.facts()
        try:
            return work()
        except (OutOfOrder, CreditsRefused, RateLimited):
            assert self.talks.facts() == before
            return None

    # -- what holds --------------------------------------------------------------------------------------

    @staticmethod
    def assert_along_the_table(before: Conversation | None, event: Event, after: Conversation) -> None:
        state: State = "IDLE" if before is None else before.state
        if event == "FEEDBACK":
            assert {state, after.state} <= {"RESOLVED", "CLOSED"}
        else:
            assert after.state == TRANSITIONS[state, event]

    def check(self) -> None:
        postings = self.talks.select(
            "SELECT deal, operation, account, amount FROM postings WHERE book = 'credits'"
        )
        entries: Counter[tuple[str, str]] = Counter()
        accounts: Counter[str] = Counter()
        for deal, operation, account, amount in postings:
            entries[deal, operation] += amount
            accounts[account] += amount
        assert not any(entries.values()), "every entry sums to zero"
        assert accounts[EXTERNAL] == -DEPOSIT, "no credit was made or lost"
        assert all(amount >= 0 for account, amount in accounts.items() if account != EXTERNAL)
        ends = Counter(deal for deal, operation in entries if operation in ("approve", "claim", "cancel"))
        assert set(ends.values()) <= {1}, "an escrow is settled once"
        for talk in TALKS:
            self.check_talk(talk, accounts)

    def check_talk(self, talk: bytes, accounts: Counter[str]) -> None:
        conversation, escrow = self.talks.conversation(talk), self.talks.escrow(talk)
        if conversation is None:
            assert escrow is None
            return
        assert talk not in self.closed or conversation.state == "CLOSED", "there is no way out of CLOSED"
        if conversation.state == "CLOSED":
            self.closed.add(talk)
        if escrow is None:
            assert not conversation.held
            return
        if talk in self.settled:
            assert escrow.settled == self.settled[talk]
        if escrow.settled is not None:
            self.settled[talk] = escrow.settled
        assert accounts[escrow.account] == (escrow.total if escrow.settled is None else 0)
        assert conversation.held == (escrow.amount if escrow.settled is None else 0)
        assert (conversation.deadline is not None) >= (escrow.settled is None), "credits never stay for ever"
        if conversation.state == "RESOLVED":
            assert escrow.settled in ("approve", "claim")


def _is_allowed(conversation: Conversation | None, step: Step) -> bool:
    try:
        decide(conversation, step)
    except OutOfOrder:
        return False
    return True


def _next_steps(conversation: Conversation | None, talk: bytes, amount: int) -> Iterator[Step]:
    if conversation is None:
        yield Step(event="PROPOSE", conversation_id=talk, sender=A, recipient=B, amount=amount)
        yield Step(
            event="PROPOSE", conversation_id=talk, sender=B, recipient=A, amount=amount, offers_work=True
        )
        return
    for event in sorted({event for state, event in TRANSITIONS if state == conversation.state} - ORDERS):
        notary = conversation.notary or N
        for sender in conversation.participants:
            other = conversation.other(sender)
            yield Step(
                event=event,
                conversation_id=talk,
                sender=sender,
                recipient=notary if event == "NOTARIZE_ASSIGN" else other,
                amount=conversation.amount if event == "ACCEPT" else amount,
                parties=conversation.parties,
                about=notary if event == "NOTARIZE_ASSIGN" else other,
                score=50,
                positive=True,
            )


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with its tables, A's credits and nothing else."""
    place = Place(DataDirectory(tmp_path_factory.mktemp("empty") / "data"), "")
    talks = Talks(place)
    talks.deposit(A, DEPOSIT)
    talks.close()
    return place.directory.path / FILE


@given(st.sampled_from(RULES), histories, st.uuids())
@settings(max_examples=60)
def test_no_credit_is_lost_made_or_paid_twice(
    empty_store: Path,
    rules: MeshRules,
    history: list[Action],
    name: object,
) -> None:
    folder = empty_store.parent.parent / str(name)
    place = Place(DataDirectory(folder), "")
    shutil.copyfile(empty_store, place.directory.path / FILE)
    talks = Talks(place, rules, prepared=True)
    try:
        so_far = History(talks)
        for does, arguments in history:
            getattr(so_far, does)(*arguments)
            so_far.check()
        talks.wait(20_000)  # every deadline
        so_far.check()
        assert not talks.select("SELECT * FROM escrows WHERE is_open = 1"), "credits never stay for ever"
        assert place.problems() == []
    finally:
        talks.close()
        shutil.rmtree(folder)


# -- resends -------------------------------------------------------------------------------------------------

MAX_STEPS: Final = 10  # with two resends of each, they are fewer than the limit of recent envelopes
resent_histories = st.lists(
    st.tuples(
        st.integers(0, 2**16), st.sampled_from(AMOUNTS), st.integers(0, 2), st.sampled_from((0, *WAITS))
    ),
    max_size=MAX_STEPS,
)


def _is_same(one: Talks, other: Talks) -> bool:
    """Whatever a step can change, but for the envelopes that could be replayed, and how often it was written."""
    conversations = [talks.conversation(TALKS[0]) for talks in (one, other)]
    known = [None if each is None else structs.replace(each, recent=()) for each in conversations]
    tables = ("balances", "postings", "escrows", "standings", "authorisations")
    rows = [[sorted(talks.select(f"SELECT * FROM {table}")) for table in tables] for talks in (one, other)]  # noqa: S608
    return known[0] == known[1] and rows[0] == rows[1]


@given(st.sampled_from(RULES), st.booleans(), resent_histories, st.uuids())
@settings(max_examples=60)
def test_resends_anywhere_leave_the_same_conversation_and_balances(
    empty_store: Path,
    rules: MeshRules,
    is_abroad: bool,
    history: list[tuple[int, int, int, int]],
    name: object,
) -> None:
    folder = empty_store.parent.parent / str(name)
    both: list[Talks] = []
    try:
        for part in ("plain", "resent"):
            place = Place(DataDirectory(folder / part), "")
            shutil.copyfile(empty_store, place.directory.path / FILE)
            both.append(Talks(place, rules, prepared=True))
            both[-1].abroad = A if is_abroad else None
        plain, resent = both
        for choice, amount, times, wait in history:
            conversation = plain.conversation(TALKS[0])
            steps = [
                step
                for step in _next_steps(conversation, TALKS[0], amount)
                if _is_allowed(conversation, step) and step.event != "NOTARIZE_ASSIGN"
            ]
            if steps:
                step = steps[choice % len(steps)]
                step = structs.replace(step, mark=repr(step).encode())
                shown = envelope(step.sender)
                try:
                    plain.take(step, shown)
                except CreditsRefused:
                    continue
                resent.take(step, shown)
                for _ in range(times):
                    again = resent.take(step)
                    assert again.resent
            for talks in both:
                talks.wait(wait)
            assert _is_same(plain, resent)
    finally:
        for talks in both:
            talks.close()
        shutil.rmtree(folder)

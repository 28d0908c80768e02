"""Looking cases up, coming back, and a hall that comes back (seed 000; agentchat wire 5.5)."""

from collections.abc import Collection
from typing import Any

import pytest

from moothall.court.desk import ARRIVAL_SECONDS
from moothall.hall.other_halls import OtherHalls
from moothall.identity import PrivateKey
from tests.court.books import MemoryBooks
from tests.court.support import ITEM, Courtroom, kinds, rated
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.support.cases import ARBITERS, NONCE
from tests.support.world import Guest, PromptStore, World, assert_refused, assert_sent, assert_silent

# -- LIST_CASES and GET_CASE -------------------------------------------------------------------------------


def test_everybody_with_a_part_finds_the_case() -> None:
    court = Courtroom(judges=4)
    court.reveal()
    court.world.hush()
    arbiter = court.panel[0]
    roles = {ALICE: ("disputant", None), BOB: ("respondent", None), arbiter: ("arbiter", "pending")}
    for key, (role, slot) in roles.items():
        court.world.send(court.guests[key], "LIST_CASES", ref="l")
        (entry,) = assert_sent(court.guests[key], "CASES", ref="l")["list"]
        assert entry == {
            "dispute_id": court.dispute_id,
            "proposal_id": court.deal_id,
            "phase": "arbiter_response",
            "disputant": court.alice.id,
            "respondent": court.bob.id,
            "reason": "nothing came",
            "role": role,
            "slot": slot,
            "deadline": court.case.deadline,
            "filed_at": court.case.filed_at,
            "verdict": None,
        }
    stranger = court.arrive(CAROL)
    court.world.send(stranger, "LIST_CASES")
    assert assert_sent(stranger, "CASES")["list"] == []


def test_closed_cases_are_listed_unless_only_open_ones_are_wanted() -> None:
    court = Courtroom()
    court.judge("disputant", "disputant", "disputant")
    court.world.hush()
    court.world.send(court.bob, "LIST_CASES", open_only=True)
    assert assert_sent(court.bob, "CASES")["list"] == []
    court.world.send(court.bob, "LIST_CASES")
    (entry,) = assert_sent(court.bob, "CASES")["list"]
    assert (entry["phase"], entry["verdict"], entry["deadline"]) == ("resolved", "disputant", None)


def test_a_case_is_for_those_who_have_a_part_in_it() -> None:
    court = Courtroom(judges=4)
    court.reveal()
    court.world.hush()
    for question in ({"dispute_id": court.dispute_id}, {"proposal_id": court.deal_id}):
        for key in (ALICE, BOB, *court.panel):
            court.world.send(court.guests[key], "GET_CASE", **question, ref="g")
            assert_sent(court.guests[key], "CASE", ref="g")
    stranger = court.arrive(CAROL)
    court.world.send(stranger, "GET_CASE", dispute_id=court.dispute_id)
    assert_refused(stranger, "DISPUTE_NOT_PARTY")
    court.world.send(stranger, "GET_CASE", dispute_id="disp_none")
    assert_refused(stranger, "DISPUTE_NOT_FOUND")
    court.world.send(stranger, "GET_CASE")
    assert_refused(stranger, "INVALID_MSG")


def test_who_declined_sees_no_evidence_while_the_case_is_open() -> None:
    court = Courtroom(judges=4)
    court.reveal()
    decliner = court.panel[0]
    court.act(decliner, "ARBITER_DECLINE", dispute_id=court.dispute_id)
    for key in court.panel:
        court.act(key, "ARBITER_ACCEPT", dispute_id=court.dispute_id)
    for key in (ALICE, BOB):
        court.act(key, "EVIDENCE", dispute_id=court.dispute_id, items=[], statement="between us")
    assert court.file_of(decliner)["evidence"] == {"disputant": None, "respondent": None}
    assert court.report(decliner).contradictions == []
    for key in (ALICE, BOB, *court.panel):
        assert None not in court.file_of(key)["evidence"].values()
    for key in court.panel:
        court.vote(key, "mutual")
    assert None not in court.file_of(decliner)["evidence"].values()


def test_nobody_sees_the_other_sides_evidence_or_votes_before_it_is_time() -> None:
    court = Courtroom()
    court.seat()
    court.act(ALICE, "EVIDENCE", dispute_id=court.dispute_id, items=[ITEM], statement="look")
    assert court.file_of(ALICE)["evidence"]["disputant"]["items"] == [ITEM]
    for key in (BOB, court.panel[0]):
        assert court.file_of(key)["evidence"]["disputant"] is None
    court.act(BOB, "EVIDENCE", dispute_id=court.dispute_id, items=[], statement="")
    assert court.file_of(BOB)["evidence"]["disputant"]["statement"] == "look"
    court.vote(court.panel[0], "disputant")
    for key in (ALICE, court.panel[0], court.panel[1]):
        arbiter = court.file_of(key)["arbiters"][0]
        assert (arbiter["status"], arbiter["vote"]) == ("voted", None)
    for key in court.panel[1:]:
        court.vote(key, "disputant")
    assert court.file_of(BOB)["arbiters"][0]["vote"]["verdict"] == "disputant"


# -- who comes back ----------------------------------------------------------------------------------------


def comes_back(court: Courtroom, key: PrivateKey) -> Guest:
    guest = court.world.connect()
    court.world.identify(guest, "back", key=key)
    assert_sent(guest, "WELCOME")
    return guest


def test_an_arbiter_that_comes_back_is_asked_again() -> None:
    court = Courtroom(judges=4)
    court.reveal()
    arbiter = court.panel[0]
    court.leave(arbiter)
    court.world.advance(60)
    guest = comes_back(court, arbiter)
    asked = assert_sent(guest, "ARBITER_ASSIGNED", dispute_id=court.dispute_id)
    assert asked["response_deadline"] == court.case.deadline
    assert_silent(guest)


def test_an_arbiter_that_comes_back_gets_the_case_to_vote_on() -> None:
    court = Courtroom()
    court.plead()
    arbiter = court.panel[0]
    guest = comes_back(court, arbiter)
    assert_sent(guest, "CASE_READY", vote_deadline=court.case.deadline)
    court.guests[arbiter] = guest
    court.vote(arbiter, "mutual")
    assert_silent(comes_back(court, arbiter))


def test_an_arbiter_that_comes_back_to_much_evidence_gets_it_in_pieces() -> None:
    court = Courtroom()
    pile = [{"value": "x" * 200_000}]
    for _ in range(6):
        court.seat()
        for key in (ALICE, BOB):
            court.act(key, "EVIDENCE", dispute_id=court.dispute_id, items=pile, statement="")
        court.world.hush()
    guest = comes_back(court, court.panel[0])
    shown = [kinds(guest.read())]
    for _ in range(4):
        court.world.advance(1)
        shown.append(kinds(guest.read()))
    assert shown == [["CASE_READY"] * 2, ["CASE_READY"] * 2, ["CASE_READY"] * 2, [], []]


def test_whoever_took_the_place_of_an_arbiter_is_reminded_once() -> None:
    court = Courtroom()
    pile = [{"value": "x" * 250_000}]
    for _ in range(3):
        court.seat()
        for key in (ALICE, BOB):
            court.act(key, "EVIDENCE", dispute_id=court.dispute_id, items=pile, statement="")
    court.arrive(court.panel[0])
    guest = comes_back(court, court.panel[0])
    assert kinds(guest.read()) == ["CASE_READY"] * 2
    court.world.advance(1)
    assert kinds(guest.read()) == ["CASE_READY"]


def test_who_has_nothing_to_do_is_let_in_without_a_question_to_the_store() -> None:
    court = Courtroom(judges=4)
    court.seat()
    asked: list[Any] = []
    store = court.world.court._store

    class Watched:
        def submit(self, *unit: Any) -> None:
            asked.append(unit)
            store.submit(*unit)

    court.world.court._store = Watched()
    outsider = next(key for key in court.judges if key not in court.panel)
    for key in (CAROL, outsider, ALICE):
        court.arrive(key)
    assert asked == []
    court.arrive(court.panel[0])
    assert len(asked) == 1
    court.world.advance(3601)
    court.world.advance(3601)
    assert court.case.phase == "resolved"
    asked.clear()
    court.arrive(court.panel[0])
    assert asked == []


def test_an_arbiter_that_was_gone_when_it_was_drawn_still_has_its_slot() -> None:
    court = Courtroom()
    court.file()
    for key in court.judges:
        court.leave(key)
    assert len(court.world.hall.roster.agents) == 2
    for key in court.judges:
        court.arrive(key)
    court.act(ALICE, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce=NONCE)
    court.leave(court.panel[0])
    court.arrive(court.panel[0])
    for key in court.panel:
        court.act(key, "ARBITER_ACCEPT", dispute_id=court.dispute_id)
    assert court.case.phase == "evidence"


# -- a hall that comes back --------------------------------------------------------------------------------


def restarted(court: Courtroom, after: float = 0) -> None:
    """The hall is gone, time passes, and it comes back with nothing but its books."""
    old = court.world
    old.clock.move_to(old.clock.monotonic() + after)
    court.world = World(no_limits=True, idle_prompts=False, books=old.books, clock=old.clock)
    for number, key in enumerate(list(court.guests)):
        guest = court.world.connect()
        court.world.identify(guest, f"agent{number}", key=key)
        guest.id = assert_sent(guest, "WELCOME")["agent_id"]
        court.guests[key] = guest


@pytest.mark.parametrize("phase", ["file", "reveal", "seat", "plead"])
def test_a_hall_that_restarts_in_any_phase_goes_on_where_it_was(phase: str) -> None:
    court = Courtroom(judges=5)
    getattr(court, phase)()
    before = court.case
    restarted(court, after=60)
    assert court.case == before
    court.world.hush()
    if phase == "file":
        court.act(ALICE, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce=NONCE)
        restarted(court)
    if phase in ("file", "reveal"):
        for key in court.panel:
            court.act(key, "ARBITER_ACCEPT", dispute_id=court.dispute_id)
            restarted(court)
    if phase != "plead":
        for key in (ALICE, BOB):
            court.act(key, "EVIDENCE", dispute_id=court.dispute_id, items=[ITEM], statement="")
            restarted(court)
    for key in court.panel:
        court.vote(key, "respondent")
        restarted(court)
    assert (court.case.phase, court.case.verdict) == ("resolved", "respondent")
    assert court.report().problems == []


@pytest.mark.parametrize(
    ("phase", "expected", "told"),
    [
        ("file", "fallback", []),
        ("reveal", "fallback", []),
        ("seat", "deliberation", ["CASE_READY"]),
        ("plead", "resolved", []),
    ],
)
def test_a_deadline_that_passed_while_the_hall_was_gone_is_acted_upon_once(
    phase: str, expected: str, told: list[str]
) -> None:
    court = Courtroom()
    getattr(court, phase)()
    rows = len(court.world.books.audit)
    restarted(court, after=100_000)
    assert court.case.phase == expected
    assert len(court.world.books.audit) == rows + 1
    if court.case.slots:
        assert kinds(court.guests[court.panel[0]].read()) == told
    restarted(court)
    assert len(court.world.books.audit) == rows + 1
    if expected == "deliberation":
        assert court.case.deadline == court.world.now_ms + 3_600_000, "the arbiters have their full hour"


def test_cases_are_counted_by_phase() -> None:
    court = Courtroom()
    court.file()
    court.world.advance(2)
    assert court.world.court.counts == {"reveal_pending": 1}


def test_presence_decides_when_the_case_is_filed_and_again_when_seats_are_given() -> None:
    court = Courtroom(judges=4)
    late, away = ARBITERS[:2]
    court.world.send(court.guests[late], "SET_PRESENCE", status="away")
    court.file()
    court.world.send(court.guests[late], "SET_PRESENCE", status="online")
    assert court.guests[late].id not in court.case.pool
    court.world.send(court.guests[away], "SET_PRESENCE", status="away")
    court.act(ALICE, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce=NONCE)
    assert court.case.phase == "fallback"


# -- halls that share a store ------------------------------------------------------------------------------


def in_a_shared_store(judges: int) -> Courtroom:
    books = MemoryBooks()
    return Courtroom(judges, books=books, others=OtherHalls(PromptStore(books)))


def test_the_pool_holds_the_agents_of_other_halls_that_are_not_away() -> None:
    court = in_a_shared_store(2)
    elsewhere = {ARBITERS[2]: "online", ARBITERS[3]: "away", ARBITERS[4]: "busy", ARBITERS[0]: "online"}
    for key in ARBITERS[2:5]:
        rated(court.world.books, key)
    court.world.books.connected_elsewhere = [(key.public.raw, each) for key, each in elsewhere.items()]
    court.file()
    pool = {f"@{ARBITERS[number].public.agent_id()}" for number in (0, 1, 2, 4)}
    assert set(court.case.pool) == pool
    assert len(court.case.pool) == len(pool)
    court.act(ALICE, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce=NONCE)
    assert court.case.phase == "arbiter_response"
    assert court.case.skipped == ()


def test_an_agent_of_another_hall_that_left_gets_no_seat() -> None:
    court = in_a_shared_store(3)
    rated(court.world.books, ARBITERS[3])
    court.world.books.connected_elsewhere = [(ARBITERS[3].public.raw, "online")]
    court.file()
    assert len(court.case.pool) == 4
    court.world.books.connected_elsewhere = []
    court.act(ALICE, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce=NONCE)
    assert set(court.panel) == set(ARBITERS[:3])


def test_where_only_approved_keys_are_drawn_the_list_decides_for_other_halls_too() -> None:
    books = MemoryBooks()
    approved = ARBITERS[:3]
    court = Courtroom(
        0,
        books=books,
        others=OtherHalls(PromptStore(books)),
        allowlist=True,
        allowlist_strict=False,
        court_arbiters_approved=True,
        approved=approved,
    )
    for key in ARBITERS[:5]:
        rated(books, key)
    books.connected_elsewhere = [(key.public.raw, "online") for key in ARBITERS[:5]]
    court.file()
    assert set(court.case.pool) == {f"@{key.public.agent_id()}" for key in approved}


def test_arbiters_that_come_together_are_reminded_together_whoever_seated_them() -> None:
    court = in_a_shared_store(4)
    court.reveal()
    arbiters = court.panel[:2]
    for arbiter in arbiters:
        court.leave(arbiter)
    asked: list[int] = []
    seats_of = court.world.books.seats_of

    def counted(keys: Collection[bytes]) -> list[tuple[bytes, str]]:
        asked.append(len(keys))
        return seats_of(keys)

    court.world.advance(60)
    court.world.books.seats_of = counted  # type: ignore[method-assign]
    guests = [comes_back(court, arbiter) for arbiter in (*arbiters, CAROL)]
    court.world.advance(ARRIVAL_SECONDS)
    assert asked == [3]
    for guest in guests[:2]:
        assert_sent(guest, "ARBITER_ASSIGNED", dispute_id=court.dispute_id)
    assert_silent(*guests)


def test_arbiters_on_the_halls_own_machine_do_not_let_the_parties_farm() -> None:
    """The gain limit is that of the agent that gains, whoever casts the last vote."""
    court = Courtroom(judges=3)
    rated(court.world.books, BOB)
    for key in court.judges:
        court.leave(key)
        court.guests[key] = court.world.agent("judge", key=key, is_loopback=True)
    court.judge("disputant", "disputant", "disputant", stakes=(0, 1000))
    assert court.case.settlement is not None
    won = court.case.settlement.shares[0]
    assert won.rating_after - won.rating_before == 100
    assert court.report().holds


def test_a_party_on_the_halls_own_machine_has_its_own_limit_in_court() -> None:
    court = Courtroom(judges=3)
    rated(court.world.books, BOB)
    court.leave(ALICE)
    court.guests[ALICE] = court.world.agent("alice", key=ALICE, is_loopback=True)
    court.judge("disputant", "disputant", "disputant", stakes=(0, 1000))
    assert court.case.settlement is not None
    won = court.case.settlement.shares[0]
    assert won.rating_after - won.rating_before == 1000 + won.earned
    assert court.report().holds

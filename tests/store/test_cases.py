"""The court's part of the books, on both engines: every question, every race, every damage."""

import asyncio
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moothall.court import agentchat, clerk
from moothall.court.books import Books, Filing
from moothall.court.panel import Candidate, Experience
from moothall.court.records import Dispute, Slot
from moothall.court.rules import CourtRules
from moothall.court.verify import verify_case
from moothall.errors import DisputeAlreadyExists, InvalidSignature, Refusal
from moothall.identity import PrivateKey, PublicKey
from moothall.market import ledger
from moothall.market.audit import audit_row
from moothall.market.outcome import Outcome
from moothall.market.records import Proposal, Standing
from moothall.store import cases, migrations, schema
from moothall.store.dialect import Connection
from moothall.store.export import exported
from moothall.store.rows import parts_of
from moothall.store.units import Engine
from tests.market.support import address
from tests.store.support import ALICE, BOB, CAROL, DAVE, NOW_MS, Place, accept, complete, propose, run
from tests.store.test_checks import changed, edited, unguarded
from tests.store.test_postgres import wait_for_a_lock
from tests.support.cases import ARBITERS, COMMITMENT, MESSAGES, NONCE, signed_step
from tests.support.orders import order
from tests.support.seals import HALL_ID, SEAL

RULES = CourtRules()
JUDGES = ARBITERS[:5]
HERE = [Candidate(key.public.raw, address(key)) for key in (ALICE, BOB, *JUDGES)]
HOUR = 3_600_000

Work = Callable[[Books], Any]


def step(key: PrivateKey, kind: str, **fields: Any) -> Any:
    return MESSAGES[kind](**signed_step(key, kind, **fields))


def rate(books: Any) -> None:
    for key in JUDGES:
        books.save_standing(Standing(key=key.public.raw, rating=1300, transactions=20))
        books.save_entry(ledger.opening(key.public.raw, 1300, 1))


def intent(deal: str, by: PrivateKey = ALICE, *, name: str = "disp_1", now: int = NOW_MS) -> Work:
    message = step(by, "DISPUTE_INTENT", proposal_id=deal, reason="late", commitment=COMMITMENT)
    return lambda books: clerk.file_intent(
        books,
        order(message, by.public),
        HERE,
        dispute_id=name,
        server_nonce="0" * 32,
        now=now,
        rules=RULES,
        seal=SEAL,
    )


def reveal(deal: str) -> Work:
    message = step(ALICE, "DISPUTE_REVEAL", proposal_id=deal, nonce=NONCE)
    return lambda books: clerk.reveal(
        books, order(message, ALICE.public), HERE, now=NOW_MS, rules=RULES, seal=SEAL
    )


def take_seat(key: PrivateKey, case: str = "disp_1") -> Work:
    message = step(key, "ARBITER_ACCEPT", dispute_id=case)
    return lambda books: clerk.accept(books, order(message, key.public), now=NOW_MS, rules=RULES, seal=SEAL)


def decline(key: PrivateKey, case: str = "disp_1") -> Work:
    message = step(key, "ARBITER_DECLINE", dispute_id=case)
    return lambda books: clerk.decline(
        books, order(message, key.public), HERE, now=NOW_MS, rules=RULES, seal=SEAL
    )


def plead(key: PrivateKey, case: str = "disp_1", text: str = "") -> Work:
    items = [{"kind": "ü", "value": [1, None, 0.5], "text": text}]
    message = step(key, "EVIDENCE", dispute_id=case, items=items, statement="look")
    return lambda books: clerk.submit_evidence(
        books, order(message, key.public), now=NOW_MS, rules=RULES, seal=SEAL
    )


def vote(key: PrivateKey, verdict: str, case: str = "disp_1", *, now: int = NOW_MS) -> Work:
    message = step(key, "ARBITER_VOTE", dispute_id=case, verdict=verdict, reasoning="so")
    return lambda books: clerk.vote(books, order(message, key.public), now=now, rules=RULES, seal=SEAL)


def lapse(case: str = "disp_1", *, now: int = NOW_MS + HOUR) -> Work:
    return lambda books: clerk.lapse(books, case, now=now, rules=RULES, seal=SEAL)


def case_of(name: str = "disp_1") -> Work:
    return lambda books: books.case(name)


async def panel(store: Engine, name: str = "disp_1") -> list[PrivateKey]:
    keys = {key.public.raw: key for key in JUDGES}
    case = await run(store, case_of(name))
    return [keys[slot.arbiter] for slot in case.slots if slot.status != "declined"]


async def deliberating(store: Engine, deal: str = "prop_1", name: str = "disp_1") -> None:
    await run(store, propose(deal, elo_stake=20))
    await run(store, accept(deal, elo_stake=10))
    await run(store, intent(deal, name=name))
    await run(store, reveal(deal))
    await run(store, decline((await panel(store, name))[0], name))
    for key in await panel(store, name):
        await run(store, take_seat(key, name))
    for key in (ALICE, BOB):
        await run(store, plead(key, name))


# -- questions -------------------------------------------------------------------------------------------


async def test_whoever_only_looks_waits_for_nobody_and_keeps_nobody_waiting(postgres: Place) -> None:
    """An arbiter's reminders are about many cases: holding them one after the other, and their deals and the
    standings of the parties, two arbiters who come back at once would wait for each other."""
    async with postgres.opened() as store:
        await run(store, rate)
        await deliberating(store)
        judge = (await panel(store))[0]
        with postgres.books() as deciding:
            assert deciding.case("disp_1") is not None
            assert deciding.proposal("prop_1") is not None
            async with asyncio.timeout(5):
                notices, later = await run(
                    store,
                    lambda books: clerk.reminders(
                        books, ["disp_1"], judge.public.raw, now=NOW_MS, size=agentchat.size_of
                    ),
                )
                file = await run(store, lambda books: clerk.get_case(books, None, "prop_1", judge.public.raw))
        assert len(notices) == 1
        assert not later
        assert json.loads(bytes(file))["dispute_id"] == "disp_1"


async def test_a_verdict_and_a_deal_of_its_arbiters_never_wait_for_each_other(postgres: Place) -> None:
    """Whoever judges also deals. A verdict that took the standings of the parties first and those of the arbiters
    later would hold what a deal between an arbiter and a party waits for, and wait for what that deal holds."""
    async with postgres.opened() as store:
        await run(store, rate)
        await deliberating(store)
        judges = await panel(store)
        for judge in judges[:2]:
            await run(store, vote(judge, "disputant"))
        first = min(judge.public.raw for judge in judges)
        after = [key for key in (ALICE.public.raw, BOB.public.raw) if key > first]
        assert after
        with postgres.connected() as other:
            other.execute(other.dialect.begin)
            other.execute("SELECT 1 FROM standings WHERE key = ? FOR UPDATE", (first,))
            last = asyncio.ensure_future(run(store, vote(judges[2], "disputant")))
            await asyncio.to_thread(wait_for_a_lock, postgres)
            for key in after:  # so these are still free
                other.execute("SELECT 1 FROM standings WHERE key = ? FOR UPDATE NOWAIT", (key,))
            other.execute("COMMIT")
        await last
        assert store.statistics().repeated == 0
    assert postgres.problems() == []


async def test_votes_are_told_in_their_order_whatever_the_clock_said(place: Place) -> None:
    """A clock that is set back, or another hall whose clock is behind."""
    async with place.opened() as store:
        await run(store, rate)
        await deliberating(store)
        for number, judge in enumerate(await panel(store)):
            await run(store, vote(judge, "disputant", now=NOW_MS - 7_200_000 * number))
        case = await run(store, case_of())
    assert case.verdict == "disputant"
    assert place.problems() == []


async def test_a_case_is_there_when_the_store_is_opened_again(place: Place) -> None:
    async with place.opened() as store:
        await run(store, rate)
        await deliberating(store)
        await run(store, vote((await panel(store))[1], "disputant"))
        before = await run(store, case_of())
    async with place.opened() as store:
        assert await run(store, case_of()) == before
        assert await run(store, lambda books: books.cases_about("prop_1")) == [before]
        assert await run(store, lambda books: books.next_case_deadline()) == NOW_MS + HOUR
        outcome = await run(store, lapse())
        assert isinstance(outcome, Outcome)
        assert await run(store, lapse()) is None
    assert place.problems() == []


def test_questions_about_cases(place: Place) -> None:
    def case(number: int, phase: Any = "reveal_pending", *arbiters: PrivateKey, **fields: Any) -> Dispute:
        slots = tuple(
            Slot(arbiter=key.public.raw, address=address(key), assigned_at=NOW_MS) for key in arbiters
        )
        wanted: dict[str, Any] = {
            "id": f"disp_{number}",
            "proposal_id": f"prop_{number}",
            "disputant": ALICE.public.raw,
            "respondent": BOB.public.raw,
            "disputant_address": "@a",
            "respondent_address": "@b",
            "reason": "late",
            "commitment": "c",
            "intent_sig": "s",
            "server_nonce": "n",
            "phase": phase,
            "deadline": NOW_MS + 100 - number,
            "filed_at": NOW_MS + number,
            "slots": slots,
        }
        return Dispute(**{**wanted, **fields})

    declined = msgspec.structs.replace(case(2, "arbiter_response", CAROL, DAVE).slots[1], status="declined")
    kept = [
        case(1),
        case(2, "arbiter_response", slots=(case(2, "evidence", CAROL).slots[0], declined)),
        case(3, "resolved", CAROL, deadline=None),
        case(4, "evidence", CAROL, disputant=DAVE.public.raw),
    ]
    with place.books() as books:
        assert books.next_case_deadline() is None
        assert books.cases_by_phase() == {}
        for number, each in enumerate(kept, 1):
            propose(f"prop_{number}")(books)
            books.save(each, audit_row("test", each.proposal_id, NOW_MS))
        assert books.case("disp_2") == kept[1], "within the unit"
    alice, carol, dave = (key.public.raw for key in (ALICE, CAROL, DAVE))
    with place.books() as books:
        assert books.case("disp_2") == kept[1]
        assert books.cases_about("prop_3") == [kept[2]]
        for odd in ("", "\0", "\ud800", "disp_none", "x" * 10_000):
            assert books.case(odd) is None
            assert books.cases_about(odd) == []
            assert books.part(odd, alice) is None
        assert books.filings("prop_4") == [Filing("disp_4", dave)]
        assert [books.part("disp_4", key) for key in (dave, carol, alice)] == [
            "disputant",
            "arbiter",
            "stranger",
        ]
        assert [each.id for each in books.cases_of(alice).cases] == ["disp_3", "disp_2", "disp_1"]
        assert [each.id for each in books.cases_of(alice, limit=1).cases] == ["disp_3"]
        assert [each.id for each in books.cases_of(alice, open_only=True).cases] == ["disp_2", "disp_1"]
        assert [each.id for each in books.cases_of(dave).cases] == ["disp_4", "disp_2"]
        assert books.due_cases(NOW_MS + 95) == []
        assert books.due_cases(NOW_MS + 99) == ["disp_4", "disp_2", "disp_1"]
        assert books.due_cases(NOW_MS + 99, limit=1) == ["disp_4"]
        assert books.next_case_deadline() == NOW_MS + 96
        assert sorted(books.seats()) == [(carol, "disp_2"), (carol, "disp_4")]
        assert dict(books.panels([alice, carol, dave])) == {carol: 2}
        assert books.panels([]) == {}
        assert books.cases_by_phase() == {
            "reveal_pending": 1,
            "arbiter_response": 1,
            "resolved": 1,
            "evidence": 1,
        }


async def test_a_list_reads_no_more_than_it_may(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async with place.opened() as store:
        for number in range(4):
            await run(store, propose(f"prop_{number}"))
            await run(store, accept(f"prop_{number}"))
            await run(store, intent(f"prop_{number}", name=f"disp_{number}", now=NOW_MS + number))
        whole = await run(store, lambda books: books.cases_of(ALICE.public.raw))
        assert ([case.id for case in whole.cases], whole.truncated) == (
            ["disp_3", "disp_2", "disp_1", "disp_0"],
            False,
        )
        monkeypatch.setattr(cases, "MAX_READ", 2000)
        part = await run(store, lambda books: books.cases_of(ALICE.public.raw))
        assert part.truncated
        assert part.cases == whole.cases[: len(part.cases)]
        assert 1 <= len(part.cases) < 4
        limited = await run(store, lambda books: books.cases_of(ALICE.public.raw, limit=1))
        assert (len(limited.cases), limited.truncated) == (1, False)


async def test_a_list_does_not_read_the_evidence(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async with place.opened() as store:
        await run(store, rate)
        for number in range(3):
            deal, name = f"prop_{number}", f"disp_{number}"
            await run(store, propose(deal))
            await run(store, accept(deal))
            await run(store, intent(deal, name=name))
            await run(store, reveal(deal))
            for key in await panel(store, name):
                await run(store, take_seat(key, name))
            await run(store, plead(ALICE, name, text="x" * 50_000))
        monkeypatch.setattr(cases, "MAX_READ", 20_000)
        page = await run(store, lambda books: books.cases_of(ALICE.public.raw))
        assert ([case.phase for case in page.cases], page.truncated) == (["evidence"] * 3, False)


def test_who_qualifies_among_many(place: Place) -> None:
    crowd = [sha256(f"one of many {number}".encode()).digest() for number in range(600)]
    with place.books() as books:
        for number, key in enumerate(crowd):
            books.save_standing(Standing(key=key, rating=1000 + number, transactions=number % 20))
        books.save(audit_row("test", "", NOW_MS))
    with place.books() as books:
        found = books.qualified(crowd, 1200, 10)
        assert {each.key for each in found} == {
            key for number, key in enumerate(crowd) if number >= 200 and number % 20 >= 10
        }
        assert len(found) == len({each.key for each in found})
        assert books.qualified([], 0, 0) == []


def test_a_newcomer_qualifies_where_no_experience_is_asked_for(place: Place) -> None:
    with place.books() as books:
        books.save_standing(Standing(key=CAROL.public.raw, rating=1199, transactions=3))
        books.save(audit_row("test", "", NOW_MS))
    keys = [CAROL.public.raw, DAVE.public.raw]
    with place.books() as books:
        assert [each.key for each in books.qualified(keys, 1200, 0)] == [DAVE.public.raw]
        assert len(books.qualified(keys, 0, 0)) == 2
        assert books.qualified(keys, 1201, 0) == []
        assert books.qualified(keys, 1200, 1) == []


def test_an_imported_rating_qualifies(place: Place) -> None:
    """What the reference left is known by 16 digits until its key is asked about."""
    name = f"@{CAROL.public.agent_id(16)}"
    rating = {name: {"rating": 1400, "transactions": 30, "updated": "2026-01-02T03:04:05.678Z"}}
    place.directory.write("ratings.json", json.dumps(rating).encode())
    with place.books() as books:
        (found,) = books.qualified([CAROL.public.raw, DAVE.public.raw], 1200, 10)
        assert (found.key, found.rating) == (CAROL.public.raw, 1400)


# -- races -----------------------------------------------------------------------------------------------


async def answers(store: Engine, *works: Work) -> list[Any]:
    found = await asyncio.gather(*(run(store, work) for work in works), return_exceptions=True)
    for each in found:
        assert isinstance(each, Refusal) or not isinstance(each, BaseException), each
    return found


def won(found: list[Any]) -> int:
    return sum(not isinstance(each, BaseException) for each in found)


async def test_of_two_disputes_about_one_deal_one_is_filed(place: Place) -> None:
    async with place.opened() as store:
        for number in range(10):
            deal = f"prop_{number}"
            await run(store, propose(deal))
            await run(store, accept(deal))
            rivals = (intent(deal, ALICE, name=f"disp_a{number}"), intent(deal, BOB, name=f"disp_b{number}"))
            assert won(await answers(store, *rivals, complete(deal))) == 1
    assert place.problems() == []
    assert place.select("SELECT proposal_id FROM disputes GROUP BY proposal_id HAVING count(*) > 1") == []


async def test_votes_that_come_together_with_the_deadline_settle_once(place: Place) -> None:
    async with place.opened() as store:
        await run(store, rate)
        for number in range(6):
            name, deal = f"disp_{number}", f"prop_{number}"
            await deliberating(store, deal, name)
            votes = [vote(key, "disputant", name) for key in await panel(store, name)]
            await answers(store, *votes, lapse(name), *votes, lapse(name))
            case = await run(store, case_of(name))
            assert case.phase == "resolved"
    assert place.select("SELECT count(*) FROM audit WHERE operation = 'verdict'") == [(6,)]
    assert place.problems() == []


async def test_seats_that_are_taken_together_are_all_taken(place: Place) -> None:
    async with place.opened() as store:
        await run(store, rate)
        await run(store, propose("prop_1"))
        await run(store, accept("prop_1"))
        await run(store, intent("prop_1"))
        # Seed 000, reveal 4: there is nothing in between two phases.
        assert won(await answers(store, reveal("prop_1"), reveal("prop_1"))) == 1
        await answers(store, *(take_seat(key) for key in await panel(store)))
        assert (await run(store, case_of())).phase == "evidence"
    assert place.problems() == []


# -- the disk quota ----------------------------------------------------------------------------------------


async def test_votes_do_not_pay_for_the_evidence(place: Place) -> None:
    """Else parties could use up the quota of their arbiters, which then forfeit."""
    evidence = "x" * 100_000
    async with place.opened() as store:
        await run(store, rate)
        await run(store, propose("prop_1"))
        await run(store, accept("prop_1"))
        await run(store, intent("prop_1"))
        await run(store, reveal("prop_1"))
        for key in await panel(store):
            await run(store, take_seat(key))
        for key in (ALICE, BOB):
            await run(store, charged(key, plead(key, text=evidence)))
        for key in await panel(store):
            await run(store, charged(key, vote(key, "disputant")))
        for key in (ALICE, BOB):
            assert len(evidence) < await run(store, charge_of(key)) < 3 * len(evidence)
        for key in await panel(store):
            assert 0 < await run(store, charge_of(key)) < 10_000


def charged(key: PrivateKey, work: Work) -> Work:
    def unit(books: Any) -> None:
        work(books)
        books.spend_disk(key.public.raw.hex(), 1)

    return unit


def charge_of(key: PrivateKey) -> Work:
    return lambda books: books.disk_used(key.public.raw.hex(), 1)


# -- the signed file -------------------------------------------------------------------------------------


def file_of(case: str = "disp_1", viewer: PrivateKey = ALICE) -> Work:
    return lambda books: bytes(clerk.get_case(books, case, None, viewer.public.raw))


async def test_a_closed_case_is_kept_as_the_hall_signed_it(place: Place) -> None:
    async with place.opened() as store:
        await run(store, rate)
        await deliberating(store, "prop_1", "disp_1")
        judges = await panel(store)
        assert json.loads(await run(store, file_of()))["hall_sig"] is None
        for key in judges:
            await run(store, vote(key, "disputant"))
        signed = await run(store, file_of())
    assert verify_case(json.loads(signed), [HALL_ID]).holds
    async with place.opened() as store:
        for viewer in (ALICE, BOB, *judges):
            assert await run(store, file_of(viewer=viewer)) == signed
    with place.connected() as connection, pytest.raises(connection.errors, match="append-only"):
        connection.execute("DELETE FROM case_files")


async def test_a_case_that_fell_back_is_signed_too(place: Place) -> None:
    async with place.opened() as store:
        await run(store, propose("prop_1"))
        await run(store, accept("prop_1"))
        await run(store, intent("prop_1"))
        await run(store, lapse())
        assert verify_case(json.loads(await run(store, file_of())), [HALL_ID]).holds


async def test_a_case_that_was_closed_before_halls_signed_them_stays_unsigned(place: Place) -> None:
    """The hall does not vouch later for what others may have written into its store."""
    await two_cases(place)
    with place.connected() as connection:
        unguarded(connection, "case_files")
        connection.execute("DELETE FROM case_files")
    async with place.opened() as store:
        proof = verify_case(json.loads(await run(store, file_of())), [HALL_ID])
    assert (proof.contradictions, proof.unproven) == ([], ["`hall_sig`: there is no hall signature."])
    assert place.problems() == []
    assert place.select("SELECT count(*) FROM case_files") == [(0,)]


# -- damage ----------------------------------------------------------------------------------------------


def executed(statement: str) -> Callable[[Connection], object]:
    return lambda connection: connection.execute(statement)


def changed_file(old: bytes, new: bytes) -> Callable[[Connection], object]:
    def damage(connection: Connection) -> None:
        unguarded(connection, "case_files")
        ((body,),) = connection.execute("SELECT body FROM case_files").fetchall()
        assert old in body
        connection.execute("UPDATE case_files SET body = ?", (body.replace(old, new),))

    return damage


JUDGED = "id = 'disp_1'"
DAMAGES: dict[str, tuple[Callable[[Connection], object], str]] = {
    "a phase": (
        executed("UPDATE disputes SET phase = 'evidence' WHERE id = 'disp_1'"),
        "case disp_1: the columns do not say what the record says",
    ),
    "what a list shows": (
        executed("UPDATE disputes SET listed = record WHERE id = 'disp_1'"),
        "case disp_1: the columns do not say what the record says",
    ),
    "a deal that is not frozen": (
        edited("proposals", "id = 'prop_2'", b'"frozen_by":"disp_2"', b'"frozen_by":null'),
        "case disp_2 is open, and its deal prop_2 is not frozen by it",
    ),
    "a deal that another case holds": (
        edited("proposals", "id = 'prop_2'", b'"frozen_by":"disp_2"', b'"frozen_by":"disp_9"'),
        "deal prop_2 is frozen by disp_9, which is not an open case of it",
    ),
    "a deal that stays frozen": (
        executed("UPDATE proposals SET frozen = 1 WHERE id = 'prop_1'"),
        "deal prop_1 is over and still frozen",
    ),
    "a verdict": (
        edited("disputes", JUDGED, b'"verdict":"disputant","settlement"', b'"verdict":"mutual","settlement"'),
        "case disp_1: `judgement.verdict`",
    ),
    "a vote": (
        edited("disputes", JUDGED, b'"verdict":"disputant","reasoning"', b'"verdict":"mutual","reasoning"'),
        "case disp_1: `arbiters[",
    ),
    "a file": (
        changed_file(b'"server_nonce":"0', b'"server_nonce":"1'),
        "case disp_1: its file is not as the hall signed it: the hall signature does not fit",
    ),
    "a file that is none": (
        changed_file(b"{", b"["),
        "case disp_1: its file is not as the hall signed it: ",
    ),
    "the file of another case": (
        changed("case_files", "UPDATE case_files SET dispute_id = 'disp_2'"),
        "case disp_2 has the file of another case",
    ),
    "a part": (
        executed("UPDATE case_parts SET live = 0 WHERE dispute_id = 'disp_2'"),
        "is not the one that the record says",
    ),
    "a part gone": (
        executed("DELETE FROM case_parts WHERE dispute_id = 'disp_2' AND role = 'respondent'"),
        "is missing",
    ),
}


async def two_cases(place: Place) -> None:
    async with place.opened() as store:
        await run(store, rate)
        await deliberating(store, "prop_1", "disp_1")
        for key in await panel(store):
            await run(store, vote(key, "disputant"))
        await deliberating(store, "prop_2", "disp_2")


async def test_cases_that_were_only_judged_are_no_problem_and_are_exported(place: Place) -> None:
    await two_cases(place)
    assert place.problems() == []
    events = place.select("SELECT name FROM hooks WHERE deal = 'prop_1' ORDER BY number")
    assert events == [("escrow:created",), ("settlement:verdict",)]
    with place.connected() as connection:
        lines = [json.loads(line) for line in exported(connection)]
    judged = [line for line in lines if line["table"] == "disputes"]
    assert [(line["id"], line["phase"]) for line in judged] == [
        ("disp_1", "resolved"),
        ("disp_2", "deliberation"),
    ]
    assert judged[0]["record"]["verdict"] == "disputant"
    parts = [line["role"] for line in lines if line["table"] == "case_parts"]
    assert (parts.count("arbiter"), len(parts)) == (8, 12)


async def test_a_task_that_was_redacted_is_no_damage(place: Place) -> None:
    """Nobody can check its signature any more, and that is as it should be."""

    def redacted(books: Books) -> None:
        deal = books.proposal("prop_1")
        assert deal is not None
        again = msgspec.structs.replace(deal, task="use [REDACTED:github_pat]")
        books.save(again, audit_row("test", deal.id, NOW_MS))

    async with place.opened() as store:
        await run(store, rate)
        await run(store, propose("prop_1"))
        await run(store, redacted)
        await run(store, accept("prop_1"))
        await run(store, intent("prop_1"))
        await run(store, lapse())
        assert (await run(store, case_of())).phase == "fallback"
    assert place.problems() == []


@pytest.mark.parametrize("name", DAMAGES)
async def test_damage_is_named(place: Place, name: str) -> None:
    damage, complaint = DAMAGES[name]
    await two_cases(place)
    with place.connected() as connection:
        damage(connection)
    assert any(complaint in problem for problem in place.problems()), place.problems()


# -- from before there was a court -----------------------------------------------------------------------


def test_a_store_from_before_the_court_gets_its_tables(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    before = next(n for n, migration in enumerate(schema.MIGRATIONS) if "TABLE disputes" in migration[0])
    with monkeypatch.context() as older:
        older.setattr(migrations, "VERSION", before)
        with place.connected() as connection:
            connection.execute(connection.dialect.begin)
            migrations.upgrade(connection, NOW_MS)
            connection.execute("COMMIT")
    with place.connected() as connection:
        connection.execute(connection.dialect.begin)
        assert migrations.upgrade(connection, NOW_MS) == before
        connection.execute("COMMIT")
    with place.books() as books:
        propose("prop_1")(books)
        accept("prop_1")(books)
        intent("prop_1")(books)
    with place.books() as books:
        assert len(books.cases_about("prop_1")) == 1


# -- two cases about one deal ----------------------------------------------------------------------------


async def test_each_party_can_have_a_case_about_a_deal(place: Place) -> None:
    async with place.opened() as store:
        await run(store, rate)
        await run(store, propose("prop_1"))
        await run(store, accept("prop_1"))
        await run(store, intent("prop_1"))
        with pytest.raises(DisputeAlreadyExists):
            await run(store, intent("prop_1", BOB, name="disp_2"))
        await run(store, lapse())
    async with place.opened() as store:  # a hall that was restarted knows it too
        with pytest.raises(DisputeAlreadyExists):
            await run(store, intent("prop_1", name="disp_2", now=NOW_MS + HOUR))
        await run(store, intent("prop_1", BOB, name="disp_2", now=NOW_MS + HOUR))
        found = await run(store, lambda books: books.cases_about("prop_1"))
        assert [(case.id, case.phase) for case in found] == [
            ("disp_2", "reveal_pending"),
            ("disp_1", "fallback"),
        ]
        assert await run(store, lambda books: books.filings("prop_1")) == [
            Filing("disp_2", BOB.public.raw),
            Filing("disp_1", ALICE.public.raw),
        ]
        deal = await run(store, lambda books: books.proposal("prop_1"))
        assert deal is not None
        assert (deal.frozen_by, deal.unrevealed_by) == ("disp_2", (ALICE.public.raw,))
    assert place.problems() == []


async def test_a_wrong_signature_waits_for_no_row(postgres: Place) -> None:
    async with postgres.opened() as store:
        await run(store, rate)
        await deliberating(store)
        judge = (await panel(store))[0]
        message = MESSAGES["ARBITER_VOTE"](
            dispute_id="disp_1", verdict="mutual", reasoning="", sig=judge.sign("something else")
        )
        with postgres.books() as deciding:
            assert deciding.case("disp_1") is not None
            assert deciding.proposal("prop_1") is not None
            async with asyncio.timeout(5):
                with pytest.raises(InvalidSignature):
                    await run(
                        store,
                        lambda books: clerk.vote(
                            books, order(message, judge.public), now=NOW_MS, rules=RULES, seal=SEAL
                        ),
                    )


OLD: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "court_format_1.json").read_text())
OLD_VERSION = 4


def as_version_4(place: Place, monkeypatch: pytest.MonkeyPatch, name: str) -> tuple[Dispute, Proposal]:
    """A store with one case, as it was when a deal had one case at most."""
    case = msgspec.convert(OLD[name]["case"], Dispute)
    deal = msgspec.convert(OLD[name]["deal"], Proposal)
    with monkeypatch.context() as older, place.connected() as connection:
        older.setattr(migrations, "VERSION", OLD_VERSION)
        connection.execute(connection.dialect.begin)
        migrations.upgrade(connection, NOW_MS)
        agents = {
            *case.parties,
            *(slot.arbiter for slot in case.slots),
            *(key.public.raw for key in ARBITERS),
        }
        for key in agents:
            fingerprint = PublicKey(key).fingerprint
            row = (key, fingerprint, fingerprint[:8])
            connection.execute("INSERT INTO keys (key, fingerprint, short) VALUES (?, ?, ?)", row)
        connection.execute(
            "INSERT INTO proposals (id, proposer, recipient, status, is_open, frozen, created_at, version, record)"
            " VALUES (?, ?, ?, ?, 1, ?, ?, 1, ?)",
            (
                deal.id,
                deal.proposer,
                deal.recipient,
                deal.status,
                int(deal.frozen_by is not None),
                deal.created_at,
                msgspec.json.encode(OLD[name]["deal"]),
            ),
        )
        connection.execute(
            "INSERT INTO disputes (id, proposal_id, phase, is_open, deadline, filed_at, version, record)"
            " VALUES (?, ?, ?, ?, ?, ?, 1, ?)",
            (
                case.id,
                deal.id,
                case.phase,
                int(case.is_open),
                case.deadline,
                case.filed_at,
                msgspec.json.encode(OLD[name]["case"]),
            ),
        )
        for key, role, live in parts_of(case):
            connection.execute(
                "INSERT INTO case_parts (dispute_id, key, role, live, filed_at) VALUES (?, ?, ?, ?, ?)",
                (case.id, key, role, int(live), case.filed_at),
            )
        connection.execute("COMMIT")
    return case, deal


@pytest.mark.parametrize("name", ["filed", "not revealed", "replaced", "too few", "nobody left"])
async def test_a_case_of_an_older_store_is_kept_and_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    case, deal = as_version_4(place, monkeypatch, name)
    with place.connected() as connection:
        connection.execute(connection.dialect.begin)
        assert migrations.upgrade(connection, NOW_MS) == OLD_VERSION
        connection.execute("COMMIT")
    async with place.opened() as store:
        assert await run(store, lambda books: books.cases_about(deal.id)) == [case]
        assert await run(store, lambda books: books.filings(deal.id)) == [Filing(case.id, case.disputant)]
        assert await run(store, lambda books: books.part(case.id, case.respondent)) == "respondent"
        if name == "filed":
            await run(store, lapse(case.id, now=case.deadline or 0))
        if name in ("filed", "not revealed"):
            await run(store, intent(deal.id, BOB, name="disp_2", now=(case.deadline or NOW_MS) + 1))
        elif case.is_open:
            await run(store, lapse(case.id, now=(case.deadline or 0) + 1))
    assert [problem for problem in place.problems() if "case" in problem] == []


# -- what a rating does not say ----------------------------------------------------------------------------


async def test_counterparties_and_age_of_an_agent(place: Place) -> None:
    async with place.opened() as store:
        for number, (proposer, recipient) in enumerate(
            [(ALICE, BOB), (ALICE, BOB), (BOB, ALICE), (CAROL, ALICE)]
        ):
            deal, now = f"prop_{number}", NOW_MS + number
            await run(store, propose(deal, proposer, recipient, now=now))
            await run(store, accept(deal, recipient, now=now))
            await run(store, complete(deal, proposer, now=now))
        await run(store, propose("prop_open", DAVE, ALICE))
        keys = [key.public.raw for key in (ALICE, BOB, CAROL, DAVE)]
        found = await run(store, lambda books: books.experience(keys))
    assert [found[key] for key in keys] == [
        Experience(2, NOW_MS),
        Experience(1, NOW_MS),
        Experience(1, NOW_MS + 3),
        Experience(0, None),
    ]


async def test_only_the_latest_deals_of_an_agent_are_looked_at(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cases, "_EXPERIENCE", cases._EXPERIENCE.replace("LIMIT 200", "LIMIT 2"))
    async with place.opened() as store:
        for number, recipient in enumerate([CAROL, BOB, BOB]):
            deal = f"prop_{number}"
            await run(store, propose(deal, ALICE, recipient))
            await run(store, accept(deal, recipient))
            await run(store, complete(deal, ALICE))
        found = await run(store, lambda books: books.experience([ALICE.public.raw]))
    assert found[ALICE.public.raw].counterparties == 1

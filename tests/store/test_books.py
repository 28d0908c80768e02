"""Every question that the market asks its books, on both engines, within one unit of work and across several."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moothall.court.records import CourtChange
from moothall.errors import InsufficientReputation, InvalidProposal, Refusal
from moothall.identity import PrivateKey, PublicKey
from moothall.identity.seals import Seal, key_id
from moothall.market.audit import audit_row
from moothall.market.books import Books
from moothall.market.hooks import Subscription, hook_event
from moothall.market.ledger import entry, opening
from moothall.market.receipts import verify_receipt
from moothall.market.records import (
    AuditRow,
    Entry,
    Happening,
    Posting,
    Proposal,
    RatingPoint,
    Receipt,
    Registration,
    Revoked,
    SkillStanding,
    Standing,
)
from moothall.market.reputation_vector import UNRATED, disputed
from moothall.market.skills import Filters
from moothall.store.books import SqlBooks
from moothall.store.dialect import Connection, Cursor, Value
from moothall.store.opening import prepare
from moothall.store.row_cache import RowCache
from moothall.store.rows import Stale
from moothall.store.transaction import Transaction
from tests.market.support import MemoryBooks
from tests.store.support import (
    ALICE,
    BOB,
    CAROL,
    DAVE,
    LISTENER,
    NOW_MS,
    Place,
    accept,
    complete,
    dispute,
    expire,
    offered,
    propose,
    register,
    reject,
    run,
)
from tests.support.seals import HALL_ID, SEAL

AGENTS = (ALICE, BOB, CAROL, DAVE)


def audit(deal: str = "prop_1") -> AuditRow:
    return audit_row("test", deal, NOW_MS)


def offer(number: int, **fields: Any) -> Proposal:
    wanted: dict[str, Any] = {
        "id": f"prop_{number}",
        "proposer": ALICE.public.raw,
        "recipient": BOB.public.raw,
        "from_": "@a",
        "to": "@b",
        "task": "Review it",
        "created_at": NOW_MS + number,
        "updated_at": NOW_MS + number,
        "sig": "-",
    }
    return Proposal(**{**wanted, **fields})


class Counting:
    """A connection that counts what it is asked."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.selects = 0

    def execute(self, sql: str, parameters: Sequence[Value] = (), /) -> Cursor:
        self.selects += sql.startswith("SELECT")
        return self._connection.execute(sql, parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def ids(proposals: list[Proposal]) -> list[str]:
    return [proposal.id for proposal in proposals]


# -- proposals -----------------------------------------------------------------------------------------


def test_a_proposal_comes_back_as_it_was_saved(place: Place) -> None:
    """With everything that agents may write into it."""
    deal = offer(
        1,
        task="Überprüfe 'das'; DROP TABLE proposals; -- ? %s 🦆",
        amount=0.1,
        currency="ELO",
        terms={"nested": [1, None, {"ü": True}]},
        capability="code-review",
        expires=8_640_000_000_000_000,
        expires_asked=1e300,
        frozen_by="disp_1",
        proposer_stake=2**31 - 1,
    )
    with place.books() as books:
        books.save(deal, audit())
    with place.books() as books:
        assert books.proposal("prop_1") == deal
        assert books.proposal("prop_2") is None


@pytest.mark.parametrize("odd", ["", "\0" * 8, "\ud800" * 8, "ü" * 8, "x" * 100_000, "%s?'\";--"])
def test_an_id_that_no_deal_and_no_agent_can_have_is_not_found(place: Place, odd: str) -> None:
    with place.books() as books:
        books.save(offer(1), audit())
        assert books.proposal(odd) is None
        assert books.find_key(odd) is None
    with place.books() as books:
        assert books.proposal("prop_1") is not None


def test_deals_of_an_agent_are_listed_newest_first_whichever_side_it_is_on(place: Place) -> None:
    alice, bob, carol = (agent.public.raw for agent in (ALICE, BOB, CAROL))
    with place.books() as books:
        for number, (proposer, recipient, status) in enumerate(
            [
                (alice, bob, "completed"),
                (bob, alice, "pending"),
                (bob, carol, "accepted"),
                (carol, alice, "accepted"),
                (alice, carol, "disputed"),
                (carol, alice, "expired"),
            ]
        ):
            deal = offer(number, proposer=proposer, recipient=recipient, status=status)
            books.save(deal, audit(deal.id))
    with place.books() as books:
        assert ids(books.proposals_of(alice).items) == ["prop_5", "prop_4", "prop_3", "prop_1", "prop_0"]
        assert ids(books.proposals_of(alice, limit=2).items) == ["prop_5", "prop_4"]
        assert ids(books.proposals_of(alice, open_only=True).items) == ["prop_3", "prop_1"]
        assert ids(books.proposals_of(alice, open_only=True, limit=1).items) == ["prop_3"]
        before = books.proposal("prop_4")
        assert ids(books.proposals_of(alice, limit=2, before=before).items) == ["prop_3", "prop_1"]
        assert ids(books.proposals_of(alice, open_only=True, before=before).items) == ["prop_3", "prop_1"]
        assert books.proposals_of(alice, before=books.proposal("prop_0")).items == []
        assert books.proposals_of(DAVE.public.raw).items == []
        assert books.counts() == {"completed": 1, "pending": 1, "accepted": 2, "disputed": 1, "expired": 1}
        assert books.parties() == 3


async def test_a_stake_must_be_available_when_it_is_offered_and_when_it_is_accepted(place: Place) -> None:
    async with place.opened() as store:
        with pytest.raises(InsufficientReputation):
            await run(store, propose("prop_0", elo_stake=1101))
        assert await run(store, lambda books: books.counts()) == {}
        await run(store, propose("prop_1", elo_stake=600))
        await run(store, propose("prop_2", recipient=CAROL, elo_stake=600))
        # Both are accepted at once: together they are more than the proposer has.
        answers = await asyncio.gather(
            run(store, accept("prop_1")), run(store, accept("prop_2", CAROL)), return_exceptions=True
        )
        assert sorted(type(answer).__name__ for answer in answers) == ["InsufficientReputation", "Outcome"]
        assert await run(store, lambda books: books.counts()) == {"accepted": 1, "pending": 1}
        with pytest.raises(InsufficientReputation, match="501 and has 500 available"):
            await run(store, propose("prop_3", elo_stake=501))
        await run(store, propose("prop_3", elo_stake=500))
    async with place.opened() as again:  # the stakes of open deals are known after a restart
        with pytest.raises(InsufficientReputation):
            await run(again, propose("prop_4", elo_stake=501))


def test_only_open_and_unfrozen_deals_become_due(place: Place) -> None:
    with place.books() as books:
        assert books.next_deadline() is None
        for deal in (
            offer(0, expires=NOW_MS + 30),
            offer(1, expires=NOW_MS + 20, status="accepted"),
            offer(2, expires=NOW_MS + 10, status="accepted", frozen_by="disp_1"),
            offer(3, expires=NOW_MS + 10, status="completed"),
            offer(4, expires=None),
            offer(5, expires=NOW_MS + 40),
        ):
            books.save(deal, audit())
    with place.books() as books:
        assert books.next_deadline() == NOW_MS + 20
        assert ids(books.due(NOW_MS + 30)) == ["prop_1", "prop_0"]
        assert ids(books.due(NOW_MS + 30, limit=1)) == ["prop_1"]
        assert books.due(NOW_MS + 19) == []
        thawed = msgspec.structs.replace(offer(2), expires=NOW_MS + 10, status="accepted")
        books.proposal("prop_2")
        books.save(thawed, audit())
        assert books.next_deadline() == NOW_MS + 10


# -- standings -----------------------------------------------------------------------------------------


def test_an_unknown_agent_stands_where_everybody_starts(place: Place) -> None:
    with place.books() as books:
        assert books.standing(ALICE.public.raw) == Standing(key=ALICE.public.raw)
    assert place.select("SELECT count(*) FROM standings") == [(0,)]


def test_a_standing_comes_back_with_its_skills(place: Place) -> None:
    standing = Standing(
        key=ALICE.public.raw,
        rating=1300,
        transactions=7,
        updated=NOW_MS,
        escrowed=50,
        skills={"review": SkillStanding(rating=1250, transactions=2, updated=NOW_MS)},
    )
    with place.books() as books:
        books.save(standing, audit())
    with place.books() as books:
        assert books.standing(ALICE.public.raw) == standing


def test_many_standings_are_read_with_few_statements(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search asks for as many as there are agents with skills, and each statement is a round trip."""
    rated = [bytes([number]) * 32 for number in range(100)]
    newcomers = [bytes([number]) * 32 for number in range(100, 200)]
    with place.books() as books:
        books.save(*(Standing(key=key, rating=1300 + key[0]) for key in rated), audit())
    with place.books() as books:
        connection = Counting(books._connection)
        monkeypatch.setattr(books, "_connection", connection)
        books.save(msgspec.structs.replace(books.standing(rated[0]), rating=1500), audit())
        found = books.standings_of({*rated, *newcomers})
    assert found == {
        **{key: Standing(key=key, rating=1300 + key[0]) for key in rated},
        **{key: Standing(key=key) for key in newcomers},
        rated[0]: Standing(key=rated[0], rating=1500),
    }
    assert list(found) == sorted(found)
    assert connection.selects < 5


def test_the_leaderboard_goes_by_rating_and_then_by_transactions(place: Place) -> None:
    ranking = [(ALICE, 1300, 1), (BOB, 1200, 9), (CAROL, 1200, 3), (DAVE, 100, 50)]
    with place.books() as books:
        for agent, rating, transactions in reversed(ranking):
            books.save(Standing(key=agent.public.raw, rating=rating, transactions=transactions), audit())
    with place.books() as books:
        assert books.leaders(3) == [(agent.public.raw, *stands) for agent, *stands in ranking[:3]]
        assert len(books.leaders(10)) == 4


def test_an_agent_that_was_only_rated_on_the_mesh_is_not_on_the_leaderboard(place: Place) -> None:
    with place.books() as books:
        books.save_standing(Standing(key=ALICE.public.raw, mesh=disputed(UNRATED)))
        books.save(Standing(key=BOB.public.raw, rating=1100), audit())
    with place.books() as books:
        assert books.leaders(10) == [(BOB.public.raw, 1100, 0)]


def test_the_history_of_a_rating_is_told_from_its_end(place: Place) -> None:
    with place.books() as books:
        for step in range(5):
            point = RatingPoint(
                key=ALICE.public.raw, at=NOW_MS + step, rating=1200 + step, why=f"deal {step}"
            )
            books.save(point, audit())
        books.save(RatingPoint(key=BOB.public.raw, at=NOW_MS, rating=1, why="other"), audit())
    with place.books() as books:
        assert books.history(ALICE.public.raw, limit=2) == [
            (NOW_MS + 4, 1204, "deal 4"),
            (NOW_MS + 3, 1203, "deal 3"),
        ]
        assert len(books.history(ALICE.public.raw)) == 5


# -- skills and keys -----------------------------------------------------------------------------------


def test_a_registration_replaces_the_one_before_and_can_be_revoked(place: Place) -> None:
    key = ALICE.public.raw
    first = Registration(key=key, agent_id="a", skills=[{"capability": "x"}], registered_at=1, sig="-")
    second = msgspec.structs.replace(first, skills=[{"capability": "y", "rate": 1.5}], registered_at=2)
    with place.books() as books:
        books.save(first, audit())
        books.save(second, audit())
        assert offered(books) == [(key, second.skills[0])]
    with place.books() as books:
        assert books.registration(key) == second
        books.save(Revoked(key), audit())
        assert books.registration(key) is None
        assert offered(books) == []
    with place.books() as books:
        assert books.registration(key) is None
        books.save(Revoked(key), audit())
        books.save(first, audit())
    with place.books() as books:
        assert offered(books) == [(key, first.skills[0])]


def test_a_key_with_a_row_is_found_by_either_id(place: Place) -> None:
    with place.books() as books:
        books.save(offer(1), audit())
        assert books.find_key(ALICE.public.agent_id(8)) == ALICE.public.raw
    with place.books() as books:
        assert books.find_key(BOB.public.agent_id(16)) == BOB.public.raw
        assert books.find_key(CAROL.public.agent_id(8)) is None
        assert books.find_key(BOB.public.agent_id(16)[:12]) is None
        assert books.find_key(BOB.public.agent_id(8) + "0" * 8) is None
        assert books.find_key("") is None


def test_of_two_keys_with_the_same_eight_digits_the_first_keeps_them(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def collide(self: PublicKey, raw: bytes) -> None:
        object.__setattr__(self, "raw", raw)
        object.__setattr__(self, "fingerprint", "5eed5eed" + raw.hex()[:8])

    monkeypatch.setattr(PublicKey, "__init__", collide)
    with place.books() as books:
        books.save(Standing(key=b"\2" * 32), audit())
    with place.books() as books:
        books.save(Standing(key=b"\1" * 32), audit())
    with place.books() as books:
        assert books.find_key("5eed5eed") == b"\2" * 32
        assert books.find_key("5eed5eed01010101") == b"\1" * 32


# -- receipts, signatures, events, the ledger ----------------------------------------------------------


def test_receipts_are_found_by_either_party_newest_first(place: Place) -> None:
    with place.books() as books:
        for number, recipient in enumerate([BOB, CAROL, BOB]):
            deal = offer(number, recipient=recipient.public.raw, status="completed")
            books.save(deal, Receipt(proposal_id=deal.id, at=NOW_MS, body=b"{}"), audit())
    with place.books() as books:
        assert [each.proposal_id for each in books.receipts().items] == ["prop_2", "prop_1", "prop_0"]
        assert [each.proposal_id for each in books.receipts(limit=1).items] == ["prop_2"]
        assert [each.proposal_id for each in books.receipts(BOB.public.raw).items] == ["prop_2", "prop_0"]
        assert len(books.receipts(ALICE.public.raw, limit=2).items) == 2
        assert [each.proposal_id for each in books.receipts(before="prop_2").items] == ["prop_1", "prop_0"]
        older = books.receipts(BOB.public.raw, before="prop_2", limit=1).items
        assert [each.proposal_id for each in older] == ["prop_0"]
        for odd in ("prop_0", "prop_9", "\0", "\ud800"):
            assert books.receipts(ALICE.public.raw, before=odd).items == []
        assert books.receipts(DAVE.public.raw).items == []


def test_there_is_a_way_to_save_every_kind_of_change() -> None:
    assert set(SqlBooks._SAVERS) == set(get_args(CourtChange))


def test_an_entry_counts_once(place: Place) -> None:
    """Within a unit of work, and in a later one that looks first (see SqlBooks, careful)."""
    first = opening(ALICE.public.raw, 1200, NOW_MS)
    again = entry("elo", first.deal, first.operation, NOW_MS + 1, [("mint", -5), (first.deal, 5)])
    with place.books() as books:
        books.save(first, audit())
        books.save(again, audit())
    with place.books(careful=True) as careful:
        careful.save(again, audit())
    assert place.select("SELECT account, amount FROM postings ORDER BY amount") == [
        ("mint", -1200),
        (first.deal, 1200),
    ]


@pytest.mark.parametrize("careful", [False, True])
def test_a_deal_may_have_the_same_operation_in_both_books(place: Place, careful: bool) -> None:
    with place.books() as books:
        books.save(entry("elo", "deal", "lock", NOW_MS, [("agent:a", -5), ("escrow:deal", 5)]), audit())
    with place.books(careful=careful) as later:
        later.save(entry("credits", "deal", "lock", NOW_MS, [("agent:a", -7), ("escrow:deal", 7)]), audit())
    assert place.select(
        "SELECT book, sum(amount), max(amount) FROM postings GROUP BY book ORDER BY book"
    ) == [
        ("credits", 0, 7),
        ("elo", 0, 5),
    ]


def happening(number: int, name: str, at: int = NOW_MS) -> Happening:
    return Happening(name, offer(number), at, {"a": 1})


def test_an_event_is_claimed_for_a_while_and_told_until_it_was_delivered(place: Place) -> None:
    kept = happening(1, "escrow:created")
    created = hook_event(kept)
    with place.books() as books:
        assert books.next_event(LISTENER) is None
        books.save(kept, audit())
    with place.books() as books:
        assert books.next_event(LISTENER) == NOW_MS
        assert books.claim_events(LISTENER, NOW_MS - 1, NOW_MS, 10) == []
        assert books.claim_events(LISTENER, NOW_MS, NOW_MS + 60, 10) == [(created, 0)]
        assert books.claim_events(LISTENER, NOW_MS, NOW_MS + 60, 10) == []
    with place.books() as books:
        assert books.next_event(LISTENER) == NOW_MS + 60
        assert books.claim_events(LISTENER, NOW_MS + 60, NOW_MS + 120, 10) == [(created, 1)]
        books.postpone_event(LISTENER, created.id, NOW_MS + 500)
        assert books.next_event(LISTENER) == NOW_MS + 500
        assert books.waiting_events([LISTENER]) == (1, NOW_MS)
        books.remove_event(LISTENER, created.id)
    with place.books() as books:
        assert books.next_event(LISTENER) is None
        assert books.claim_events(LISTENER, NOW_MS + 1000, NOW_MS + 2000, 10) == []
        assert books.waiting_events([LISTENER]) == (0, None)


def test_events_of_a_deal_are_claimed_one_after_the_other(place: Place) -> None:
    """Also when the clock went back between them."""
    happened = (
        happening(1, "escrow:created"),
        happening(1, "settlement:completion", NOW_MS - 9),
        happening(2, "escrow:created"),
    )
    created, settled, other = map(hook_event, happened)
    with place.books() as books:
        for each in happened:
            books.save(each, audit())
    with place.books() as books:
        claimed = books.claim_events(LISTENER, NOW_MS, NOW_MS + 60, 10)
        assert [delivery.event for delivery in claimed] == [created, other]
        assert books.next_event(LISTENER) == NOW_MS + 60  # what has to wait is not what comes next
        books.remove_event(LISTENER, created.id)
        assert [delivery.event for delivery in books.claim_events(LISTENER, NOW_MS, NOW_MS, 10)] == [settled]


def test_an_event_is_kept_for_each_listener_that_wants_it_and_for_no_other(place: Place) -> None:
    happened = (happening(1, "escrow:created"), happening(1, "settlement:completion"))
    created, settled = map(hook_event, happened)
    listeners = (Subscription("one"), Subscription("two", settled.name))
    with place.books(subscriptions=listeners) as books:
        for each in happened:
            books.save(each, audit())
    with place.books(subscriptions=()) as books:
        books.save(happening(2, "escrow:created"), audit())
    kept = place.select("SELECT listener, id FROM hooks ORDER BY listener, number")
    assert kept == [("one", created.id), ("one", settled.id), ("two", settled.id)]
    with place.books() as books:
        books.remove_event("one", created.id)
        assert books.waiting_events(["two"]) == (1, NOW_MS)


# -- what is refused -----------------------------------------------------------------------------------


def test_a_decision_without_its_audit_row_is_not_saved(place: Place) -> None:
    with place.books() as books:
        with pytest.raises(ValueError, match="one audit row"):
            books.save(offer(1))
        with pytest.raises(ValueError, match="one audit row"):
            books.save(offer(1), audit(), audit())
        assert books.counts() == {}
        assert books.parties() == 0


def test_an_entry_that_does_not_sum_to_zero_is_not_saved(place: Place) -> None:
    with place.books() as books, pytest.raises(ValueError, match="sum to zero"):
        books.save(
            Entry(book="elo", deal="d", operation="o", postings=(Posting("a", 1),), at=NOW_MS), audit()
        )


@pytest.mark.parametrize("change", [offer(1), Standing(key=ALICE.public.raw)])
def test_a_row_that_another_made_meanwhile_is_not_overwritten(place: Place, change: Any) -> None:
    with place.books() as books:
        books.save(change, audit())
    late = Writer(place)
    late.begin()
    late.run(lambda books: books.save(change, audit()))
    with pytest.raises(Stale):
        late.commit()
    late.close()


# -- many units in one transaction ---------------------------------------------------------------------


class Writer:
    """Units one after another before anything is committed, as the writer's thread runs them."""

    def __init__(self, place: Place) -> None:
        self._connected = place.connected()
        self._connection = self._connected.__enter__()
        prepare(self._connection, place.directory, place.log)
        self._cache = RowCache()

    def begin(self) -> None:
        self._transaction = Transaction(self._connection, self._cache)
        self._transaction.begin()

    def run(self, work: Callable[[Books], Any]) -> Any:
        books = self._transaction.unit()
        try:
            result = work(books)
        except Refusal as refusal:
            books.undo()
            return type(refusal)
        books.keep()
        return result

    def ask(self, now: int) -> Any:
        return self.run(lambda books: everything_asked(books, now))

    def commit(self) -> None:
        self._transaction.write()
        self._transaction.commit()

    def close(self) -> None:
        self._connected.__exit__(None, None, None)


def test_a_unit_sees_what_the_units_before_it_did_and_nothing_of_those_refused(place: Place) -> None:
    def save_ask_and_refuse(books: Books) -> None:
        books.save(offer(2), audit("prop_2"))
        assert books.counts() == {"pending": 2}  # asking about many rows wrote them to the database
        books.save(offer(3), audit("prop_3"))
        raise InvalidProposal("after all, no")

    transaction = Writer(place)
    transaction.begin()
    transaction.run(propose("prop_1"))
    assert transaction.run(save_ask_and_refuse) is InvalidProposal
    assert transaction.run(lambda books: books.proposal("prop_2")) is None
    assert transaction.run(lambda books: books.counts()) == {"pending": 1}
    transaction.run(accept("prop_1"))
    transaction.commit()
    transaction.close()
    with place.books() as books:
        assert books.counts() == {"accepted": 1}
    assert place.select("SELECT operation FROM audit ORDER BY number") == [("propose",), ("accept",)]


DEALS = [f"prop_{number}" for number in range(4)]
agents = st.sampled_from(AGENTS)
deals = st.sampled_from(DEALS)
stakes = st.sampled_from([None, 10, 900])


@st.composite
def commands(draw: st.DrawFn) -> Callable[[int], Callable[[Books], Any]]:
    """What an agent may ask for, whether it makes sense or not; given the time."""
    kind = draw(st.sampled_from(["accept", "reject", "complete", "dispute", "expire", "register"]))
    deal, agent = draw(deals), draw(agents)
    match kind:
        case "accept":
            fields = {} if (stake := draw(stakes)) is None else {"elo_stake": stake}
            return lambda now: accept(deal, agent, now=now, **fields)
        case "reject":
            return lambda now: reject(deal, agent, now=now)
        case "complete":
            return lambda now: complete(deal, agent, now=now)
        case "dispute":
            return lambda now: dispute(deal, agent, now=now)
        case "expire":
            return lambda now: expire(deal, now=now)
        case _:
            return lambda now: register(agent, {"capability": deal}, now=now)


def everything_asked(books: Books, now: int) -> list[Any]:
    """One answer to each question."""
    answers: list[Any] = [
        [books.proposal(deal) for deal in DEALS],
        books.due(now),
        books.next_deadline(),
        set(books.leaders(10)),
        [each.rating for each in books.leaders(10)],
        sorted(
            (offer.key, skill["capability"]) for offer, skill in books.offered(books.offers(Filters(), 10))
        ),
        dict(books.counts()),
        books.receipts().items,
    ]
    for agent in AGENTS:
        key = agent.public.raw
        answers += [
            *(
                [
                    (deal.id, deal.status)
                    for deal in books.proposals_of(key, limit=limit, open_only=limit > 3).items
                ]
                for limit in (3, 100)
            ),
            *(books.completions(key, other.public.raw, 2) for other in AGENTS),
            [books.open_offers(key, other.public.raw, NOW_MS, 100) for other in AGENTS],
            books.standing(key),
            books.history(key),
            books.registration(key),
            books.receipts(key).items,
        ]
    return answers


def proposals_of_all(draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[Callable[[Books], Any]]:
    offers = []
    for number, deal in enumerate(DEALS):
        proposer = draw(agents)
        recipient = draw(st.sampled_from([agent for agent in AGENTS if agent is not proposer]))
        fields = {"expires": 60} if draw(st.booleans()) else {}
        fields |= {} if (stake := draw(stakes)) is None else {"elo_stake": stake}
        offers.append(propose(deal, proposer, recipient, now=NOW_MS + number, **fields))
    return offers


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(story=st.data())
def test_sqlite_answers_like_books_in_memory(
    tmp_path_factory: pytest.TempPathFactory, sqlite: Place, story: st.DataObject
) -> None:
    sqlite.directory.path = tmp_path_factory.mktemp("hall")
    assert_same_story(sqlite, story)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(story=st.data())
def test_postgres_answers_like_books_in_memory(server: Any, postgres: Place, story: st.DataObject) -> None:
    postgres.url = server.new_database()
    assert_same_story(postgres, story)


def assert_same_story(place: Place, story: st.DataObject) -> None:
    """Whatever is asked for, in whatever batches, the books say the same as ones that keep it all in memory."""
    memory = MemoryBooks()
    transaction = Writer(place)
    now = NOW_MS + 10
    for work in proposals_of_all(story.draw):
        transaction.begin()
        transaction.run(work)
        transaction.commit()
        work(memory)
    for batch in story.draw(st.lists(st.lists(commands(), min_size=1, max_size=6), max_size=5)):
        transaction.begin()
        for command in batch:
            now += story.draw(st.sampled_from([1, 1, 40_000]))
            work = command(now)
            expected = refusal_or_result(work, memory)
            assert transaction.run(work) == expected
            if story.draw(st.booleans()):
                assert transaction.ask(now) == everything_asked(memory, now)
        transaction.commit()
    transaction.begin()
    assert transaction.ask(now) == everything_asked(memory, now)
    transaction.commit()
    transaction.close()
    assert place.problems() == []


def refusal_or_result(work: Callable[[Books], Any], books: Books) -> Any:
    try:
        return work(books)
    except Refusal as refusal:
        return type(refusal)


# -- how much each key has saved -------------------------------------------------------------------------


def save_and_spend(books: Books) -> int:
    books.save(audit())
    return books.spend_disk("a", 1)


def test_what_a_unit_saves_is_charged_and_survives(place: Place) -> None:
    with place.books() as books:
        assert books.disk_used("a", 7) == 0
        propose("prop_1", terms="x" * 5000)(books)
        size = books.spend_disk("a", 7)
        assert size > 10_000  # the deal, and its audit row
        assert books.disk_used("a", 7) == size
    with place.books() as books:
        assert books.disk_used("a", 7) == size
        assert books.disk_used("a", 8) == books.disk_used("b", 7) == 0
        accept("prop_1")(books)
        more = books.spend_disk("a", 7)
    with place.books() as books:
        assert books.disk_used("a", 7) == size + more
        complete("prop_1")(books)
        third = books.spend_disk("a", 8)
    with place.books() as books:
        assert books.disk_used("a", 8) == third
        assert books.disk_used("a", 7) == 0
    assert place.select("SELECT account, day, bytes FROM disk_usage") == [("a", 8, third)]


def test_units_before_this_one_count_though_they_are_not_written_yet(place: Place) -> None:
    transaction = Writer(place)
    transaction.begin()
    sizes = []
    for number in range(3):
        transaction.run(propose(f"prop_{number}"))
        sizes.append(transaction.run(save_and_spend))
    assert transaction.run(lambda books: books.disk_used("a", 1)) == sum(sizes) > 0
    open_offers = (3, 3)
    alice, bob = ALICE.public.raw, BOB.public.raw
    assert transaction.run(lambda books: books.open_offers(alice, bob, 0, 100)) == open_offers
    assert transaction.run(lambda books: books.open_offers(alice, CAROL.public.raw, 0, 100)) == (0, 3)
    transaction.commit()
    transaction.begin()
    assert transaction.run(lambda books: books.disk_used("a", 1)) == sum(sizes)
    assert transaction.run(lambda books: books.open_offers(alice, bob, 0, 100)) == open_offers
    assert transaction.run(lambda books: books.open_offers(alice, bob, 0, 2)) == (2, 2)
    transaction.commit()
    transaction.close()


def test_two_halls_add_to_one_count(postgres: Place) -> None:
    halls = [Writer(postgres), Writer(postgres)]
    spent = []
    for number, hall in enumerate(halls):
        hall.begin()
        hall.run(propose(f"prop_{number}"))
        spent.append(hall.run(save_and_spend))
    for hall in halls:
        hall.commit()
        hall.close()
    with postgres.books() as books:
        assert books.disk_used("a", 1) == sum(spent)


def test_each_hall_signs_with_its_own_key(place: Place) -> None:
    """Halls that share a database have keys of their own, and a receipt names the one that signed it."""
    other = PrivateKey(bytes(32))
    with place.books() as books:
        for deal, seal in (("prop_1", SEAL), ("prop_2", Seal(other))):
            for command in (propose(deal), accept(deal), complete(deal, seal=seal)):
                command(books)
    with place.books() as books:
        bodies = {receipt.proposal_id: receipt.body for receipt in books.receipts().items}
    assert verify_receipt(bodies["prop_1"], [HALL_ID]).holds
    assert verify_receipt(bodies["prop_2"], [key_id(other.public)]).holds
    assert not verify_receipt(bodies["prop_2"], [HALL_ID]).holds

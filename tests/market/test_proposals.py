"""Each numbered step and each error of the seed's proposal sections, by its name there.

`seed 000, accept 3` is step 3 of "accept" in "proposal lifecycle"; "proposal errors" come after that.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from moothall.errors import (
    AgentNotFound,
    InsufficientReputation,
    InvalidMessage,
    InvalidProposal,
    InvalidSignature,
    InvalidStake,
    NotProposalParty,
    ProposalExpired,
    ProposalNotFound,
    RateLimited,
    Refusal,
    VerificationFailed,
)
from moothall.identity import PrivateKey
from moothall.market import agentchat, clerk, escrow, proposals, settlement
from moothall.market.proposals import LAST_MOMENT
from moothall.market.records import Standing, Status
from moothall.market.rules import MarketRules
from moothall.market.signed import check_signature
from moothall.market.statuses import TRANSITIONS, Event
from moothall.wire.agentchat import client
from tests.identity.vectors import ALICE, BOB, CAROL, VECTORS
from tests.market.support import REFERENCE, Market, address, lines, signed, told
from tests.support.orders import order
from tests.support.seals import SEAL

MINUTE = 60_000


@pytest.fixture
def market() -> Market:
    return Market()


def accepted(market: Market, **stakes: int) -> None:
    """Alice's offer to Bob, accepted."""
    market.propose(ALICE, BOB, elo_stake=stakes.get("proposer"))
    market.accept(BOB, elo_stake=stakes.get("acceptor"))


# -- propose ---------------------------------------------------------------------------------------------


def test_propose_1_target_and_task_suffice(market: Market) -> None:
    market.propose(ALICE, BOB, "Say hello")
    deal = market.deal()
    assert (deal.task, deal.from_, deal.to) == ("Say hello", address(ALICE), address(BOB))
    assert (deal.amount, deal.currency, deal.expires, deal.proposer_stake) == (None, None, None, 0)


def test_propose_1_amount_currency_expiration_and_stake_are_kept(market: Market) -> None:
    market.propose(
        ALICE, BOB, amount=1.5, currency="SOL", expires=300, elo_stake=25, payment_code="pay-alice",
        terms={"by": "noon"}, capability="review",
    )  # fmt: skip
    deal = market.deal()
    assert (deal.amount, deal.currency, deal.proposer_stake) == (1.5, "SOL", 25)
    assert (deal.payment_code, deal.terms, deal.capability) == ("pay-alice", {"by": "noon"}, "review")
    assert (deal.expires, deal.expires_asked) == (market.now + 300_000, 300)


def test_propose_1_falsy_values_are_kept_as_nothing(market: Market) -> None:
    market.propose(ALICE, BOB, amount=0, currency="", payment_code=False, expires=0, elo_stake=0, terms=[])
    deal = market.deal()
    assert (deal.amount, deal.currency, deal.payment_code) == (None, None, None)
    assert (deal.expires, deal.expires_asked, deal.proposer_stake) == (None, None, 0)
    assert deal.terms == []  # which JavaScript does not find falsy


def test_propose_2_target_must_exist(market: Market) -> None:
    message = signed(client.Proposal(to="@00000000", task="t", sig="-"), ALICE)
    with pytest.raises(AgentNotFound):
        clerk.propose(
            market.books,
            market.checked(message, ALICE),
            proposal_id="p",
            address=address(ALICE),
            connected=None,
            now=market.now,
            rules=market.rules,
        )
    assert not market.books.deals


def test_propose_2_a_known_target_may_be_offline(market: Market) -> None:
    assert clerk.find_recipient(market.books, address(BOB), None) == BOB.public.raw
    assert clerk.find_recipient(market.books, address(BOB), CAROL.public.raw) == CAROL.public.raw
    assert clerk.find_recipient(market.books, "@nobody00", None) is None
    with pytest.raises(AgentNotFound):
        clerk.find_recipient(market.books, address(BOB), None, {BOB.public.raw})


def test_propose_3_the_record_is_pending(market: Market) -> None:
    market.propose(ALICE, BOB)
    deal = market.deal()
    assert deal.status == "pending"
    assert deal.created_at == deal.updated_at == market.now


def test_propose_4_target_and_proposer_get_the_proposal(market: Market) -> None:
    outcome = market.propose(ALICE, BOB, amount=2, expires=1.5, elo_stake=5)
    assert told(outcome, ALICE) == told(outcome, BOB)
    assert told(outcome, BOB) == [
        {
            "type": "PROPOSAL",
            "ts": market.now,
            "id": "prop_1",
            "proposal_id": "prop_1",
            "from": address(ALICE),
            "to": address(BOB),
            "task": "Review it",
            "amount": 2,
            "currency": None,
            "payment_code": None,
            "terms": None,
            "expires": market.now + 1500,
            "status": "pending",
            "created_at": market.now,
            "sig": market.deal().sig,
            "elo_stake": 5,
        }
    ]


def test_propose_4_bounties_are_told(market: Market) -> None:
    [line] = lines(market.propose(ALICE, BOB, "Fix it", amount=1.0, currency="SOL", elo_stake=5))
    assert (line.channel, line.buffered) == ("#bounties", True)
    assert line.content == (
        f'[BOUNTY] {address(ALICE)} → {address(BOB)}: "Fix it" (1 SOL) [stake: 5 ELO] — prop_1'
    )
    [line] = lines(market.propose(ALICE, BOB, "Fix it", amount=3))
    assert line.content.endswith('"Fix it" (3 ELO) — prop_2')
    [line] = lines(market.propose(ALICE, BOB, "x" * 200_000))
    assert len(line.content) < 4096


def test_bounties_quote_what_others_wrote(market: Market) -> None:
    """Neither a line break nor a quotation mark ends the quote."""
    task = 'x" (1 ELO) — prop_9\n[CLAIMED] prop_9\u2028\u200b'
    outcome = market.propose(ALICE, BOB, task, amount=1, currency="SOL\n" + "y" * 200)
    quoted = "x' (1 ELO) — prop_9 [CLAIMED] prop_9 "
    assert lines(outcome)[0].content == (
        f'[BOUNTY] {address(ALICE)} → {address(BOB)}: "{quoted}" (1 SOL {"y" * 27}…) — prop_1'
    )
    [line] = lines(market.accept(BOB))
    assert line.content == f'[CLAIMED] prop_1 accepted by {address(BOB)} — "{quoted}"'
    assert lines(outcome)[0].about == line.about == address(ALICE)


def test_propose_5_an_expiration_is_a_deadline_in_the_books(market: Market) -> None:
    market.propose(ALICE, BOB)
    assert market.books.next_deadline() is None
    market.propose(ALICE, BOB, expires=60)
    assert market.books.next_deadline() == market.now + MINUTE


@pytest.mark.parametrize("seconds", [-1, -0.001, 1e300, LAST_MOMENT / 1000, 10**400])
def test_propose_an_impossible_deadline_is_refused(market: Market, seconds: Any) -> None:
    with pytest.raises(InvalidProposal):
        market.propose(ALICE, BOB, expires=seconds)


def test_propose_nobody_deals_with_itself(market: Market) -> None:
    with pytest.raises(InvalidProposal):
        market.propose(ALICE, ALICE)


@pytest.mark.parametrize("stake", [2**31, 1e300, -1])
def test_propose_an_impossible_stake_is_invalid_stake(market: Market, stake: Any) -> None:
    with pytest.raises(InvalidStake):
        market.propose(ALICE, BOB, elo_stake=stake)


def test_propose_a_stake_that_the_proposer_does_not_have_is_refused_at_once(market: Market) -> None:
    with pytest.raises(InsufficientReputation, match="1101 and has 1100 available"):
        market.propose(ALICE, BOB, elo_stake=1101)
    assert market.books.deals == {}
    market.propose(ALICE, BOB, elo_stake=1100)
    assert market.standing(ALICE).escrowed == 0  # it is put aside at ACCEPT
    market.propose(ALICE, CAROL, elo_stake=1100)  # so it may be offered to several


def test_propose_stakes_in_open_deals_are_not_available(market: Market) -> None:
    accepted(market, proposer=1000, acceptor=400)
    for agent, left in ((ALICE, 100), (BOB, 700)):
        with pytest.raises(InsufficientReputation, match=f"has {left} available"):
            market.propose(agent, CAROL, elo_stake=left + 1)
        market.propose(agent, CAROL, elo_stake=left)
    market.complete(ALICE)
    market.propose(ALICE, CAROL, elo_stake=1100)  # they are back


def test_propose_a_rating_below_the_floor_stakes_nothing(market: Market) -> None:
    market.rated(ALICE, rating=100)
    market.propose(ALICE, BOB)
    market.propose(ALICE, BOB, elo_stake=0)
    with pytest.raises(InsufficientReputation, match="has 0 available"):
        market.propose(ALICE, BOB, elo_stake=1)


@pytest.mark.parametrize("how", ["staked elsewhere", "lost"])
def test_accept_checks_the_proposers_stake_again(market: Market, how: str) -> None:
    market.propose(ALICE, BOB, elo_stake=1100)
    market.propose(ALICE, CAROL, elo_stake=1 if how == "staked elsewhere" else None)
    market.accept(CAROL, "prop_2")
    if how == "lost":
        market.dispute(CAROL, "prop_2")
    with pytest.raises(InsufficientReputation):
        market.accept(BOB, "prop_1")
    assert market.deal("prop_1").status == "pending"


def test_propose_the_audit_row_has_the_redacted_task_only(market: Market) -> None:
    message = signed(client.Proposal(to=address(BOB), task="key sk-secret", sig="-"), ALICE)
    redacted = msgspec.structs.replace(message, task="key [REDACTED:x]")
    sent = agentchat.sent(message, agentchat.propose(redacted), ALICE.public, kept=redacted)
    outcome = proposals.propose(
        check_signature(sent, "INVALID_SIGNATURE"),
        {},
        proposal_id="p",
        address=address(ALICE),
        recipient=BOB.public.raw,
        now=1,
    )
    assert b"sk-secret" not in msgspec.json.encode(outcome.changes)
    assert b"[REDACTED:x]" in msgspec.json.encode(outcome.changes)


@pytest.mark.parametrize(
    "fields",
    [
        {"task": "half \ud83d"},
        {"task": "nul \0"},
        {"task": "t", "terms": {"a": ["\0"]}},
        {"task": "t", "currency": "\udc00"},
    ],
)
def test_propose_what_no_store_can_keep_is_refused(market: Market, fields: dict[str, Any]) -> None:
    with pytest.raises((InvalidMessage, InvalidProposal)):
        market.propose(ALICE, BOB, **fields)
    assert not market.books.deals


# -- accept ----------------------------------------------------------------------------------------------


def test_accept_1_stake_is_optional(market: Market) -> None:
    accepted(market)
    assert market.deal().status == "accepted"
    assert market.books.entries == {}
    assert market.books.events == {}


@pytest.mark.parametrize("agent", [ALICE, CAROL], ids=["proposer", "stranger"])
def test_accept_2_recipient_only(market: Market, agent: PrivateKey) -> None:
    market.propose(ALICE, BOB)
    with pytest.raises(NotProposalParty):
        market.accept(agent)
    assert market.deal().status == "pending"


def test_accept_2_pending_only(market: Market) -> None:
    market.propose(ALICE, BOB)
    market.reject(BOB)
    with pytest.raises(InvalidProposal, match=r"^PROPOSAL_NOT_PENDING$"):
        market.accept(BOB)


def test_accept_3_stakes_are_escrowed(market: Market) -> None:
    accepted(market, proposer=25, acceptor=10)
    assert (market.standing(ALICE).escrowed, market.standing(BOB).escrowed) == (25, 10)
    assert (market.rating(ALICE), market.rating(BOB)) == (1200, 1200)
    assert escrow.available(market.standing(ALICE)) == 1200 - 25 - 100
    assert market.books.balances()["escrow:prop_1"] == 35
    event = msgspec.json.decode(market.books.events["prop_1/escrow:created"].body)
    assert (event["proposer_stake"], event["acceptor_stake"], event["total_stake"]) == (25, 10, 35)


@pytest.mark.parametrize("stake", [None, 5])
def test_accept_3_the_acceptors_stake_must_be_available(market: Market, stake: int | None) -> None:
    market.propose(ALICE, BOB, elo_stake=stake)
    with pytest.raises(InsufficientReputation):
        market.accept(BOB, elo_stake=1101)


def test_accept_3_everything_above_the_floor_can_be_staked_once(market: Market) -> None:
    market.propose(ALICE, CAROL, elo_stake=1)
    market.propose(ALICE, BOB, elo_stake=1100)
    market.accept(BOB, "prop_2", elo_stake=1100)
    with pytest.raises(InsufficientReputation):
        market.accept(CAROL, "prop_1")
    market.propose(CAROL, ALICE)
    market.accept(ALICE, "prop_3")  # no stake needs no rating


def test_accept_4_status_is_accepted(market: Market) -> None:
    market.propose(ALICE, BOB)
    market.now += 5
    market.accept(BOB, payment_code="pay-bob", elo_stake=3)
    deal = market.deal()
    assert (deal.status, deal.updated_at, deal.acceptor_stake) == ("accepted", market.now, 3)
    assert deal.response_payment_code == "pay-bob"


def test_accept_5_both_are_told(market: Market) -> None:
    market.propose(ALICE, BOB, elo_stake=25)
    outcome = market.accept(BOB)
    assert told(outcome, ALICE) == told(outcome, BOB)
    assert told(outcome, ALICE) == [
        {
            "type": "ACCEPT",
            "ts": market.now,
            "proposal_id": "prop_1",
            "status": "accepted",
            "updated_at": market.now,
            "from": address(ALICE),
            "to": address(BOB),
            "payment_code": None,
            "sig": market.deal().response_sig,
            "proposer_stake": 25,
            "acceptor_stake": 0,
        }
    ]
    assert lines(outcome)[0].content == f'[CLAIMED] prop_1 accepted by {address(BOB)} — "Review it"'


@pytest.mark.parametrize("stake", [2**31, 1e300])
def test_accept_an_impossible_stake_is_invalid_stake(market: Market, stake: Any) -> None:
    market.propose(ALICE, BOB)
    with pytest.raises(InvalidStake):
        market.accept(BOB, elo_stake=stake)


# -- reject ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", [None, "too busy", 7])
def test_reject_1_reason_is_optional(market: Market, reason: Any) -> None:
    market.propose(ALICE, BOB)
    market.reject(BOB, reason=reason)
    assert market.deal().reject_reason == reason


@pytest.mark.parametrize("agent", [ALICE, CAROL], ids=["proposer", "stranger"])
def test_reject_2_recipient_only(market: Market, agent: PrivateKey) -> None:
    market.propose(ALICE, BOB)
    with pytest.raises(NotProposalParty):
        market.reject(agent)


def test_reject_2_pending_only(market: Market) -> None:
    accepted(market)
    with pytest.raises(InvalidProposal, match=r"^PROPOSAL_NOT_PENDING$"):
        market.reject(BOB)


def test_reject_3_status_is_rejected_and_no_stake_was_ever_held(market: Market) -> None:
    market.propose(ALICE, BOB, elo_stake=25)
    market.reject(BOB)
    assert market.deal().status == "rejected"
    assert market.standing(ALICE).escrowed == 0
    assert market.books.entries == {}


def test_reject_4_both_are_told(market: Market) -> None:
    market.propose(ALICE, BOB)
    outcome = market.reject(BOB, reason="too busy")
    assert told(outcome, ALICE) == told(outcome, BOB)
    assert told(outcome, ALICE)[0] == {
        "type": "REJECT",
        "ts": market.now,
        "proposal_id": "prop_1",
        "status": "rejected",
        "updated_at": market.now,
        "from": address(ALICE),
        "to": address(BOB),
        "reason": "too busy",
        "sig": market.deal().response_sig,
    }


# -- complete --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", [ALICE, BOB], ids=["proposer", "recipient"])
def test_complete_1_by_either_party(market: Market, agent: PrivateKey) -> None:
    accepted(market)
    market.complete(agent, proof="tx:1")
    deal = market.deal()
    assert (deal.completed_by, deal.completion_proof) == (address(agent), "tx:1")


def test_complete_2_parties_only(market: Market) -> None:
    accepted(market)
    with pytest.raises(NotProposalParty):
        market.complete(CAROL)


def test_complete_2_accepted_only(market: Market) -> None:
    market.propose(ALICE, BOB)
    with pytest.raises(InvalidProposal, match=r"^PROPOSAL_NOT_ACCEPTED$"):
        market.complete(ALICE)


def test_complete_3_status_is_completed(market: Market) -> None:
    accepted(market)
    market.now += 5
    market.complete(ALICE)
    assert (market.deal().status, market.deal().completed_at) == ("completed", market.now)


def test_complete_3_also_when_the_clock_was_set_back(market: Market) -> None:
    """Or is another hall's: without a rule about its age no deal is too young."""
    accepted(market)
    market.now -= 7_200_000
    market.complete(ALICE)
    assert market.deal().status == "completed"


def test_complete_4ab_both_gain_half_by_expectation(market: Market) -> None:
    market.rated(ALICE, rating=1200)
    market.rated(BOB, rating=1600, transactions=150)
    accepted(market)
    market.complete(ALICE)
    assert (market.rating(ALICE), market.rating(BOB)) == (1215, 1601)
    assert (market.standing(ALICE).transactions, market.standing(BOB).transactions) == (1, 151)


def test_complete_4c_stakes_are_returned(market: Market) -> None:
    accepted(market, proposer=25, acceptor=10)
    outcome = market.complete(BOB)
    assert (market.standing(ALICE).escrowed, market.standing(BOB).escrowed) == (0, 0)
    assert (market.rating(ALICE), market.rating(BOB)) == (1208, 1208)
    assert market.books.balances()["escrow:prop_1"] == 0
    changes = told(outcome, ALICE)[0]["rating_changes"]
    assert changes["_escrow"] == {"proposer_stake": 25, "acceptor_stake": 10, "settlement": "returned"}


def test_complete_5_both_are_told(market: Market) -> None:
    accepted(market)
    outcome = market.complete(BOB)
    assert told(outcome, ALICE) == told(outcome, BOB)
    change = {"oldRating": 1200, "newRating": 1208, "change": 8, "transactions": 1}
    assert told(outcome, ALICE)[0] == {
        "type": "COMPLETE",
        "ts": market.now,
        "proposal_id": "prop_1",
        "status": "completed",
        "updated_at": market.now,
        "from": address(ALICE),
        "to": address(BOB),
        "completed_by": address(BOB),
        "completed_at": market.now,
        "proof": None,
        "sig": market.deal().completion_sig,
        "elo_stakes": {"proposer": 0, "acceptor": 0},
        "rating_changes": {address(ALICE): change, address(BOB): change},
    }


@pytest.mark.parametrize("stake", [None, 25])
def test_complete_6_the_hook_is_emitted(market: Market, stake: int | None) -> None:
    accepted(market, proposer=stake or 0)
    market.complete(BOB)
    event = msgspec.json.decode(market.books.events["prop_1/settlement:completion"].body)
    assert event["settlement"] == "returned"
    assert event["stakes_returned"] == {"proposer": stake or 0, "acceptor": 0}


def test_complete_a_capability_has_a_rating_of_its_own(market: Market) -> None:
    market.rated(BOB, rating=1500, transactions=3)
    market.propose(ALICE, BOB, capability="review")
    market.accept(BOB)
    market.complete(ALICE)
    gained = market.rating(BOB) - 1500
    skill = market.standing(BOB).skills["review"]
    assert (skill.rating, skill.transactions, skill.updated) == (1200 + gained, 1, market.now)


def test_complete_an_agent_has_ratings_in_so_many_capabilities(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parties choose the name, and all of them are written again with every deal."""
    monkeypatch.setattr(settlement, "MAX_SKILLS", 3)
    for number, capability in enumerate(("one", "two", "three", "one", "four", "five"), 1):
        market.now += MINUTE
        market.propose(ALICE, BOB, capability=capability)
        market.accept(BOB, f"prop_{number}")
        market.complete(ALICE, f"prop_{number}")
    skills = market.standing(BOB).skills
    assert {name: skill.transactions for name, skill in skills.items()} == {"one": 2, "four": 1, "five": 1}


def test_complete_too_young_is_rate_limited_where_the_rules_say_so() -> None:
    market = Market(REFERENCE)
    accepted(market)
    market.now += MINUTE - 1
    with pytest.raises(RateLimited):
        market.complete(ALICE)
    market.now += 1
    market.complete(ALICE)


def test_complete_during_the_pairs_pause_moves_no_rating_and_returns_the_stakes() -> None:
    market = Market(REFERENCE)
    accepted(market)
    market.now += MINUTE
    market.complete(ALICE)
    before = market.rating(ALICE)
    market.propose(BOB, ALICE, elo_stake=40)
    market.accept(ALICE, "prop_2", elo_stake=7)
    market.now += MINUTE
    outcome = market.complete(ALICE, "prop_2")
    assert told(outcome, BOB)[0]["rating_changes"] is None
    assert market.deal("prop_2").status == "completed"
    assert (market.standing(ALICE).escrowed, market.standing(BOB).escrowed) == (0, 0)
    assert (market.rating(ALICE), market.standing(ALICE).transactions) == (before, 1)
    market.now += 60 * MINUTE
    market.propose(ALICE, BOB)
    market.accept(BOB, "prop_3")
    market.now += MINUTE
    assert told(market.complete(BOB, "prop_3"), BOB)[0]["rating_changes"][address(ALICE)]["change"] == 4


# -- dispute ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", [ALICE, BOB], ids=["proposer", "recipient"])
def test_dispute_1_by_either_party_with_a_reason(market: Market, agent: PrivateKey) -> None:
    accepted(market)
    market.dispute(agent, reason="not delivered")
    deal = market.deal()
    assert (deal.disputed_by, deal.dispute_reason) == (address(agent), "not delivered")


def test_dispute_1_reason_is_mandatory() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(
            b'{"type":"DISPUTE","proposal_id":"p","reason":"","sig":"s"}', type=client.Dispute
        )


def test_dispute_2_parties_only(market: Market) -> None:
    accepted(market)
    with pytest.raises(NotProposalParty):
        market.dispute(CAROL)


def test_dispute_2_accepted_only(market: Market) -> None:
    market.propose(ALICE, BOB)
    with pytest.raises(InvalidProposal, match=r"^PROPOSAL_NOT_ACCEPTED$"):
        market.dispute(ALICE)


def test_dispute_3_status_is_disputed(market: Market) -> None:
    accepted(market)
    market.now += 5
    market.dispute(BOB)
    assert (market.deal().status, market.deal().disputed_at) == ("disputed", market.now)


def test_dispute_4abc_the_disputed_party_loses_and_the_other_gains_half(market: Market) -> None:
    accepted(market)
    market.dispute(BOB)
    assert (market.rating(ALICE), market.rating(BOB)) == (1184, 1208)
    assert (market.standing(ALICE).transactions, market.standing(BOB).transactions) == (1, 1)


def test_dispute_4d_the_stake_goes_from_loser_to_winner(market: Market) -> None:
    accepted(market, proposer=30, acceptor=40)
    outcome = market.dispute(BOB)
    assert (market.rating(ALICE), market.rating(BOB)) == (1200 - 16 - 30, 1200 + 8 + 30)
    assert (market.standing(ALICE).escrowed, market.standing(BOB).escrowed) == (0, 0)
    assert market.books.balances()["escrow:prop_1"] == 0
    assert told(outcome, ALICE)[0]["rating_changes"]["_escrow"] == {
        "proposer_stake": 30,
        "acceptor_stake": 40,
        "settlement": "transferred",
        "transferred_to": address(BOB),
        "transferred_amount": 30,
    }


def test_dispute_4d_without_an_escrow_zeros_are_transferred(market: Market) -> None:
    accepted(market)
    stakes = told(market.dispute(BOB), ALICE)[0]["rating_changes"]["_escrow"]
    assert (stakes["settlement"], stakes["transferred_amount"]) == ("transferred", 0)


def test_dispute_5_both_are_told(market: Market) -> None:
    accepted(market)
    outcome = market.dispute(ALICE)
    assert told(outcome, ALICE) == told(outcome, BOB)
    message = told(outcome, BOB)[0]
    assert message.pop("rating_changes")[address(BOB)]["change"] == -16
    assert message == {
        "type": "DISPUTE",
        "ts": market.now,
        "proposal_id": "prop_1",
        "status": "disputed",
        "updated_at": market.now,
        "from": address(ALICE),
        "to": address(BOB),
        "disputed_by": address(ALICE),
        "disputed_at": market.now,
        "reason": "not delivered",
        "sig": market.deal().dispute_sig,
        "elo_stakes": {"proposer": 0, "acceptor": 0},
    }


def test_dispute_6_the_hook_is_emitted(market: Market) -> None:
    accepted(market, acceptor=12)
    market.dispute(ALICE)
    event = msgspec.json.decode(market.books.events["prop_1/settlement:dispute"].body)
    assert (event["disputed_by"], event["dispute_reason"]) == (address(ALICE), "not delivered")
    assert (event["transferred_to"], event["transferred_amount"]) == (address(ALICE), 12)


def test_dispute_the_floor_holds_and_the_change_is_told_unfloored(market: Market) -> None:
    market.rated(ALICE, rating=110, transactions=3)
    market.rated(BOB, rating=110, transactions=3)
    accepted(market, proposer=10)
    outcome = market.dispute(BOB)
    change = told(outcome, ALICE)[0]["rating_changes"][address(ALICE)]
    assert (change["newRating"], change["change"]) == (100, -26)
    assert market.books.balances()["floor"] == -16


# -- expire ----------------------------------------------------------------------------------------------


def test_expire_1_pending_and_accepted_are_due_at_their_deadline(market: Market) -> None:
    market.propose(ALICE, BOB, expires=60)
    market.propose(ALICE, BOB, expires=60)
    market.accept(BOB, "prop_2")
    market.propose(ALICE, BOB)
    market.now += MINUTE - 1
    assert market.expire() == []
    market.now += 1
    assert len(market.expire()) == 2
    assert market.expire() == []


def test_expire_2a_status_is_expired(market: Market) -> None:
    market.propose(ALICE, BOB, expires=60)
    market.now += MINUTE
    market.expire()
    assert (market.deal().status, market.deal().updated_at) == ("expired", market.now)


def test_expire_2a_a_proposal_that_was_only_offered_held_no_stake(market: Market) -> None:
    market.propose(ALICE, BOB, expires=60, elo_stake=25)
    market.now += MINUTE
    market.expire()
    assert market.standing(ALICE).escrowed == 0
    assert market.books.events == {}


def test_expire_2b_stakes_go_back_and_no_rating_moves(market: Market) -> None:
    market.propose(ALICE, BOB, expires=60, elo_stake=25)
    market.accept(BOB, elo_stake=10)
    market.now += MINUTE
    market.expire()
    for agent in (ALICE, BOB):
        standing = market.standing(agent)
        assert (standing.rating, standing.escrowed, standing.transactions) == (1200, 0, 0)
    assert market.books.balances()["escrow:prop_1"] == 0
    event = msgspec.json.decode(market.books.events["prop_1/escrow:released"].body)
    assert (event["total_stake"], event["reason"]) == (35, "expired")


def test_expire_2c_both_are_told(market: Market) -> None:
    market.propose(ALICE, BOB, expires=60)
    market.now += MINUTE
    [outcome] = market.expire()
    assert told(outcome, ALICE) == told(outcome, BOB)
    assert told(outcome, ALICE)[0] == {
        "type": "EXPIRED",
        "ts": market.now,
        "proposal_id": "prop_1",
        "status": "expired",
        "updated_at": market.now,
        "from": address(ALICE),
        "to": address(BOB),
    }


def test_expire_somebody_was_faster(market: Market) -> None:
    market.propose(ALICE, BOB, expires=60)
    market.accept(BOB)
    market.complete(ALICE)
    market.now += MINUTE
    assert clerk.expire(market.books, "prop_1", now=market.now) is None
    assert clerk.expire(market.books, "prop_9", now=market.now) is None
    assert market.deal().status == "completed"


def test_expire_before_the_deadline_is_refused(market: Market) -> None:
    market.propose(ALICE, BOB, expires=60)
    with pytest.raises(InvalidProposal):
        proposals.expire(market.deal(), {}, now=market.now)


# -- proposal errors -------------------------------------------------------------------------------------


def test_errors_accept_or_reject_by_non_recipient(market: Market) -> None:
    market.propose(ALICE, BOB)
    for answer in (market.accept, market.reject):
        with pytest.raises(NotProposalParty) as refusal:
            answer(CAROL)
        assert refusal.value.code == "NOT_PROPOSAL_PARTY"


@pytest.mark.parametrize("swept", [True, False], ids=["the clock acted", "the clock has not acted yet"])
def test_errors_operate_on_expired_proposal(market: Market, swept: bool) -> None:
    market.propose(ALICE, BOB, expires=60)
    market.propose(ALICE, BOB, expires=60)
    market.accept(BOB, "prop_2")
    market.now += MINUTE
    if swept:
        market.expire()
    for operate, agent, deal in (
        (market.accept, BOB, "prop_1"),
        (market.reject, BOB, "prop_1"),
        (market.complete, ALICE, "prop_2"),
        (market.dispute, BOB, "prop_2"),
    ):
        with pytest.raises(ProposalExpired):
            operate(agent, deal)


def test_errors_stake_exceeds_available_rating(market: Market) -> None:
    market.propose(ALICE, BOB)
    with pytest.raises(InsufficientReputation):
        market.accept(BOB, elo_stake=1101)
    assert market.deal().status == "pending"  # proposal not accepted
    assert market.standing(BOB).escrowed == 0  # escrow not created
    market.accept(BOB, elo_stake=1100)  # and a smaller one is still welcome


def test_errors_unknown_proposal(market: Market) -> None:
    for operate in (market.accept, market.reject, market.complete, market.dispute):
        with pytest.raises(ProposalNotFound):
            operate(ALICE, "prop_9")


def test_errors_signature_of_a_stranger_is_invalid(market: Market) -> None:
    market.propose(ALICE, BOB)
    message = signed(client.Accept(proposal_id="prop_1", sig="-"), CAROL)
    with pytest.raises(InvalidSignature):
        order(message, BOB.public, MarketRules())


@pytest.mark.parametrize("sig", ["x", "A" * 88, "", "\0" * 88, "é"])
def test_errors_a_signature_that_is_none_is_invalid(sig: str) -> None:
    messages: list[Any] = [
        client.Accept(proposal_id="p", sig=sig),
        client.Proposal(to="@b", task="t", sig=sig),
        client.RegisterSkills(skills=[{"capability": "c"}], sig=sig),
    ]
    for message in messages:
        with pytest.raises(InvalidSignature):
            order(message, BOB.public, MarketRules())
        with pytest.raises(VerificationFailed):
            order(message, BOB.public, REFERENCE)


def test_errors_the_signature_covers_every_word(market: Market) -> None:
    message = signed(client.Accept(proposal_id="prop_1", elo_stake=5, sig="-"), BOB)
    for change in ({"proposal_id": "prop_2"}, {"elo_stake": 6}, {"payment_code": "mine"}):
        with pytest.raises(InvalidSignature):
            market.checked(msgspec.structs.replace(message, **change), BOB)


def test_errors_a_used_signature_is_no_good_again(market: Market) -> None:
    """The very same command, with the very same signature, after each has led the deal further."""
    accept = market.checked(signed(client.Accept(proposal_id="prop_1", sig="-"), BOB), BOB)
    reject = market.checked(signed(client.Reject(proposal_id="prop_2", sig="-"), BOB), BOB)
    complete = market.checked(signed(client.Complete(proposal_id="prop_1", sig="-"), BOB), BOB)
    dispute = market.checked(signed(client.Dispute(proposal_id="prop_3", reason="r", sig="-"), BOB), BOB)
    for _ in range(3):
        market.propose(ALICE, BOB)
    market.accept(BOB, "prop_3")
    steps: list[tuple[Callable[..., Any], Any]] = [
        (clerk.accept, accept),
        (clerk.reject, reject),
        (partial(clerk.complete, seal=SEAL), complete),
        (clerk.dispute, dispute),
    ]
    for number, (operate, given) in enumerate(steps):
        operate(market.books, given, now=market.now, rules=market.rules)
        for again, used in steps[: number + 1]:
            with pytest.raises(InvalidProposal, match="PROPOSAL_NOT_"):
                again(market.books, used, now=market.now, rules=market.rules)
    assert [row.operation for row in market.books.audit[4:]] == ["accept", "reject", "complete", "dispute"]


@pytest.mark.parametrize("second", ["complete", "dispute"])
@pytest.mark.parametrize("first", ["complete", "dispute"])
def test_errors_of_two_that_end_a_deal_the_first_wins(market: Market, first: str, second: str) -> None:
    accepted(market, proposer=30, acceptor=30)
    getattr(market, first)(ALICE)
    ratings = (market.rating(ALICE), market.rating(BOB))
    for agent in (ALICE, BOB):
        with pytest.raises(InvalidProposal, match=r"^PROPOSAL_NOT_ACCEPTED$"):
            getattr(market, second)(agent)
    assert (market.rating(ALICE), market.rating(BOB)) == ratings


def test_errors_the_same_command_twice_is_refused_by_its_status(market: Market) -> None:
    market.propose(ALICE, BOB)
    message = signed(client.Accept(proposal_id="prop_1", sig="-"), BOB)
    order = market.checked(message, BOB)
    clerk.accept(market.books, order, now=market.now, rules=market.rules)
    with pytest.raises(InvalidProposal, match=r"^PROPOSAL_NOT_PENDING$"):
        clerk.accept(market.books, order, now=market.now, rules=market.rules)


def test_errors_in_the_words_of_the_reference() -> None:
    market = Market(REFERENCE)
    market.propose(ALICE, BOB, expires=60)
    with pytest.raises(InvalidProposal, match=r"^NOT_PROPOSAL_RECIPIENT$"):
        market.accept(ALICE)
    with pytest.raises(InvalidProposal, match=r"^NOT_PROPOSAL_PARTY$"):
        market.complete(CAROL)
    market.propose(ALICE, BOB, expires=60)
    market.accept(BOB, "prop_2")
    market.now += MINUTE
    with pytest.raises(InvalidProposal, match=r"^PROPOSAL_NOT_PENDING$"):
        market.accept(BOB)
    with pytest.raises(InvalidProposal, match=r"^PROPOSAL_NOT_ACCEPTED$"):
        market.complete(BOB, "prop_2")


# -- in which order ----------------------------------------------------------------------------------------


def test_order_party_before_deadline_before_status_before_stakes(market: Market) -> None:
    market.propose(ALICE, BOB, expires=60, elo_stake=1100)
    market.propose(ALICE, CAROL, elo_stake=1)
    market.accept(CAROL, "prop_2")
    with pytest.raises(NotProposalParty):
        market.accept(CAROL, elo_stake=5000)
    with pytest.raises(InsufficientReputation):
        market.accept(BOB)
    with pytest.raises(InvalidStake):
        market.accept(BOB, elo_stake=2**40)
    market.now += MINUTE
    with pytest.raises(NotProposalParty):
        market.accept(CAROL)
    with pytest.raises(ProposalExpired):
        market.accept(BOB, elo_stake=5000)


# -- the court's freeze ------------------------------------------------------------------------------------


def test_frozen_deals_cannot_be_ended_by_anybody(market: Market) -> None:
    market.propose(ALICE, BOB, expires=60)
    market.accept(BOB)
    market.freeze()
    for operate in (market.complete, market.dispute):
        with pytest.raises(InvalidProposal, match="disp_1"):
            operate(ALICE)
    market.now += 10 * MINUTE
    assert market.expire() == []
    assert clerk.expire(market.books, "prop_1", now=market.now) is None
    with pytest.raises(InvalidProposal, match="disp_1"):
        market.complete(ALICE)  # past its deadline, but the deadline is paused


def test_thawed_deals_go_on_where_they_were(market: Market) -> None:
    accepted(market)
    market.freeze()
    market.freeze(dispute_id=None)
    market.dispute(BOB)
    assert market.deal().status == "disputed"


# -- the table -------------------------------------------------------------------------------------------

STATUSES: tuple[Status, ...] = ("pending", "accepted", "rejected", "completed", "disputed", "expired")
EVENTS: tuple[Event, ...] = ("accept", "reject", "complete", "dispute", "expire")


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("status", STATUSES)
def test_every_way_is_in_the_table_and_no_other_is_open(status: Status, event: Event) -> None:
    market = Market()
    market.propose(ALICE, BOB, expires=60)
    deal = msgspec.structs.replace(market.deal(), status=status)
    market.books.deals["prop_1"] = deal
    if event == "expire":
        market.now += MINUTE

    def act() -> None:
        if event == "expire":
            market.books.save(*proposals.expire(deal, {}, now=market.now).changes)
        else:
            getattr(market, event)(BOB)

    if (status, event) in TRANSITIONS:
        act()
        assert market.deal().status == TRANSITIONS[status, event]
    else:
        with pytest.raises(Refusal) as refusal:
            act()
        assert refusal.value.code in ("INVALID_PROPOSAL", "PROPOSAL_EXPIRED")
        assert market.deal() == deal


def test_the_table_is_the_seeds(market: Market) -> None:
    """PENDING to ACCEPTED to COMPLETED or DISPUTED; PENDING to REJECTED; PENDING or ACCEPTED to EXPIRED."""
    ways = {(status, to) for (status, _), to in TRANSITIONS.items()}
    assert ways == {
        ("pending", "accepted"),
        ("accepted", "completed"),
        ("accepted", "disputed"),
        ("pending", "rejected"),
        ("pending", "expired"),
        ("accepted", "expired"),
    }


# -- vectors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS["proposals"], ids=lambda vector: vector["label"])
def test_proposal_vectors_are_accepted_as_signed(vector: dict[str, Any]) -> None:
    assert vector["signer"] == "alice"
    message = client.Proposal(**vector["fields"], sig=vector["sig"])
    outcome = proposals.propose(
        order(message, ALICE.public, MarketRules()),
        {ALICE.public.raw: Standing(key=ALICE.public.raw)},
        proposal_id="p",
        address=address(ALICE),
        recipient=BOB.public.raw,
        now=1,
    )
    assert outcome.changes[0].sig == vector["sig"]  # type: ignore[union-attr]


@pytest.mark.parametrize("vector", VECTORS["proposal_responses"], ids=lambda vector: vector["label"])
def test_response_vectors_are_accepted_as_signed(vector: dict[str, Any]) -> None:
    kinds = {"ACCEPT": client.Accept, "REJECT": client.Reject, "COMPLETE": client.Complete,
             "DISPUTE": client.Dispute}  # fmt: skip
    signer = {"alice": ALICE, "bob": BOB}[vector["signer"]]
    message: Any = kinds[vector["type"]](**vector["fields"], sig=vector["sig"])
    assert order(message, signer.public, MarketRules()).message is message
    other = ALICE if signer is BOB else BOB
    with pytest.raises(InvalidSignature):
        order(message, other.public, MarketRules())

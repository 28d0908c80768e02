"""Deals over the wire, with a made-up clock: who is told what, when, and what is refused."""

from typing import Any

import msgspec
import pytest

from moothall.gateways.health import health_report
from moothall.settings import PROFILES
from moothall.wire.agentchat.market import ProposalNotice
from moothall.wire.agentchat.server import ServerMessage
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.support.deals import signed
from tests.support.world import ABSENT, Guest, World, assert_refused, assert_sent, assert_silent


def parties(world: World) -> tuple[Guest, Guest]:
    return world.agent("alice", key=ALICE), world.agent("bob", key=BOB)


def act(world: World, guest: Guest, kind: str, ref: str | None = None, **fields: Any) -> None:
    assert guest.key is not None
    extra = {} if ref is None else {"ref": ref}
    world.send(guest, kind, **signed(guest.key, kind, **fields), **extra)


def offer(world: World, proposer: Guest, recipient: Guest, **fields: Any) -> str:
    act(world, proposer, "PROPOSAL", to=recipient.id, task="review", **fields)
    proposal_id: str = proposer.next()["id"]
    recipient.read()
    return proposal_id


def accepted(world: World, proposer: Guest, recipient: Guest, **fields: Any) -> str:
    proposal_id = offer(world, proposer, recipient, **fields)
    act(world, recipient, "ACCEPT", proposal_id=proposal_id)
    proposer.read(), recipient.read()
    return proposal_id


# -- seed 000, propose, accept, complete -------------------------------------------------------------------


def test_a_proposal_reaches_its_target_and_is_echoed_with_both_ids() -> None:
    """Seed 000, propose, step 4; agentchat wire 18.1, point 4."""
    world = World()
    alice, bob = parties(world)
    act(world, alice, "PROPOSAL", ref="r1", to=bob.id, task="review", amount=1.5)
    echo = assert_sent(alice, "PROPOSAL", to=bob.id, status="pending", ref="r1", **{"from": alice.id})
    told = assert_sent(bob, "PROPOSAL", id=echo["id"], proposal_id=echo["id"], ref=ABSENT)
    assert {**told, "ref": "r1"} == echo


def test_accept_and_complete_are_told_to_both_and_echoed_to_whoever_acted() -> None:
    """Seed 000, accept, step 5, and complete, step 5; agentchat wire 18.1, point 5."""
    world = World()
    alice, bob = parties(world)
    proposal_id = offer(world, alice, bob, elo_stake=25)
    act(world, bob, "ACCEPT", ref="a", proposal_id=proposal_id, elo_stake=10)
    assert_sent(bob, "ACCEPT", proposal_id=proposal_id, proposer_stake=25, acceptor_stake=10, ref="a")
    assert_sent(alice, "ACCEPT", proposal_id=proposal_id, ref=ABSENT)
    act(world, alice, "COMPLETE", proposal_id=proposal_id, proof="done")
    for guest in (alice, bob):
        message = assert_sent(guest, "COMPLETE", completed_by=alice.id, proof="done")
        assert message["rating_changes"][bob.id]["newRating"] == 1208
        assert message["rating_changes"]["_escrow"]["settlement"] == "returned"


def test_what_both_parties_are_told_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    alice, bob = parties(world)
    encoded: list[type] = []

    def encode_and_note(message: ServerMessage) -> bytes:
        encoded.append(type(message))
        return msgspec.json.encode(message)

    monkeypatch.setattr("moothall.wire.agentchat.codec._encode", encode_and_note)
    act(world, alice, "PROPOSAL", ref="r", to=bob.id, task="review")
    assert_sent(alice, "PROPOSAL", task="review", ref="r")
    assert_sent(bob, "PROPOSAL", task="review", ref=ABSENT)
    assert encoded.count(ProposalNotice) == 1


def test_a_party_that_is_away_finds_its_deals_when_it_comes_back() -> None:
    world = World()
    alice, bob = parties(world)
    proposal_id = offer(world, alice, bob)
    world.disconnect(bob)
    act(world, alice, "PROPOSAL", to=bob.id, task="while you were out")
    alice.read()
    bob = world.agent("bob", key=BOB)
    world.send(bob, "LIST_PROPOSALS", open_only=True, ref="l")
    listed = assert_sent(bob, "PROPOSALS", ref="l")["list"]
    assert [deal["task"] for deal in listed] == ["while you were out", "review"]
    assert listed[1]["proposal_id"] == proposal_id


def test_whoever_reconnects_is_told_on_its_new_connection() -> None:
    world = World()
    alice, bob = parties(world)
    proposal_id = offer(world, alice, bob)
    alice = world.agent("alice", key=ALICE)
    act(world, bob, "REJECT", proposal_id=proposal_id, reason="busy")
    assert_sent(alice, "REJECT", proposal_id=proposal_id, reason="busy")


# -- refusals --------------------------------------------------------------------------------------------


def test_a_wrong_signature_is_refused_and_nothing_is_kept() -> None:
    """Seed 000, verification failure: INVALID_SIGNATURE, not processed, connection open."""
    world = World()
    alice, bob = parties(world)
    fields = signed(ALICE, "PROPOSAL", to=bob.id, task="review")
    world.send(alice, "PROPOSAL", **{**fields, "task": "something else"}, ref="r")
    assert_refused(alice, "INVALID_SIGNATURE", ref="r")
    assert_silent(bob)
    assert world.books.deals == {}


@pytest.mark.parametrize(
    ("kind", "fields", "code"),
    [
        ("ACCEPT", {}, "NOT_PROPOSAL_PARTY"),
        ("REJECT", {}, "NOT_PROPOSAL_PARTY"),
        ("COMPLETE", {}, "NOT_PROPOSAL_PARTY"),
        ("DISPUTE", {"reason": "late"}, "NOT_PROPOSAL_PARTY"),
    ],
)
def test_strangers_have_no_say(kind: str, fields: dict[str, Any], code: str) -> None:
    """Seed 000, proposal errors."""
    world = World()
    alice, bob = parties(world)
    carol = world.agent("carol", key=CAROL)
    proposal_id = offer(world, alice, bob)
    act(world, carol, kind, proposal_id=proposal_id, **fields)
    assert_refused(carol, code)
    assert_silent(alice)
    assert_silent(bob)


def test_the_profile_words_refusals_as_the_reference_does() -> None:
    """Agentchat wire 20, rows 26 and 27."""
    world = World("agentchat-0.36")
    alice, bob = parties(world)
    world.hush()
    act(world, alice, "PROPOSAL", to=bob.id, task="review")
    proposal_id = next(message["id"] for message in alice.read() if message["type"] == "PROPOSAL")
    act(world, alice, "ACCEPT", proposal_id=proposal_id)
    assert_refused(alice, "INVALID_PROPOSAL", "NOT_PROPOSAL_RECIPIENT")
    world.send(alice, "COMPLETE", proposal_id=proposal_id, sig=ALICE.sign("something else"))
    assert_refused(alice, "VERIFICATION_FAILED")


def test_nobody_deals_with_an_agent_that_has_no_key_or_with_itself() -> None:
    world = World()
    alice, _ = parties(world)
    guest = world.agent("guest")
    act(world, alice, "PROPOSAL", to=guest.id, task="review")
    assert_refused(alice, "AGENT_NOT_FOUND", "no key")
    act(world, alice, "PROPOSAL", to=alice.id, task="review")
    assert_refused(alice, "INVALID_PROPOSAL")
    act(world, alice, "PROPOSAL", to="@nobody00", task="review")
    assert_refused(alice, "AGENT_NOT_FOUND")


def test_only_one_of_complete_and_dispute_wins() -> None:
    world = World()
    alice, bob = parties(world)
    proposal_id = accepted(world, alice, bob)
    act(world, alice, "COMPLETE", proposal_id=proposal_id)
    act(world, bob, "DISPUTE", proposal_id=proposal_id, reason="late")
    assert_sent(bob, "COMPLETE")
    assert_refused(bob, "INVALID_PROPOSAL", "PROPOSAL_NOT_ACCEPTED")


def test_secrets_in_a_task_are_redacted_before_anybody_sees_them() -> None:
    world = World()
    alice, bob = parties(world)
    secret = "ghp_" + "a" * 36
    act(world, alice, "PROPOSAL", to=bob.id, task=f"use {secret}")
    assert_sent(bob, "PROPOSAL", task="use [REDACTED:github_pat]")
    assert all(secret not in deal.task for deal in world.books.deals.values())
    assert world.hall.tally.redacted == {"github_pat": 1}
    assert [noted["kinds"] for noted in world.log.find("secrets_redacted")] == [["github_pat"]]


# -- the clock -------------------------------------------------------------------------------------------


def test_a_deadline_expires_the_deal_and_both_are_told_within_a_second() -> None:
    """Seed 000, expire; both parties get EXPIRED."""
    world = World()
    alice, bob = parties(world)
    proposal_id = offer(world, alice, bob, expires=60)
    world.advance(59)
    assert_silent(alice)
    assert_silent(bob)
    world.advance(2)
    for guest in (alice, bob):
        assert_sent(guest, "EXPIRED", proposal_id=proposal_id, status="expired")
    act(world, bob, "ACCEPT", proposal_id=proposal_id)
    assert_refused(bob, "PROPOSAL_EXPIRED")


def test_the_earliest_deadline_comes_first_whatever_was_proposed_first() -> None:
    world = World()
    alice, bob = parties(world)
    late = offer(world, alice, bob, expires=600)
    soon = offer(world, alice, bob, expires=5)
    world.advance(6)
    assert_sent(alice, "EXPIRED", proposal_id=soon)
    world.advance(600)
    assert_sent(alice, "EXPIRED", proposal_id=late)


def test_an_accepted_deal_that_expires_gives_its_stakes_back() -> None:
    world = World()
    alice, bob = parties(world)
    proposal_id = offer(world, alice, bob, elo_stake=50, expires=60)
    act(world, bob, "ACCEPT", proposal_id=proposal_id, elo_stake=20)
    assert world.books.standing(ALICE.public.raw).escrowed == 50
    world.advance(61)
    standing = world.books.standing(ALICE.public.raw)
    assert (standing.escrowed, standing.rating) == (0, 1200)


# -- looking things up -----------------------------------------------------------------------------------


def test_ratings_leaderboard_and_receipts_after_a_deal() -> None:
    world = World()
    alice, bob = parties(world)
    proposal_id = accepted(world, alice, bob)
    act(world, bob, "COMPLETE", proposal_id=proposal_id)
    alice.read()
    world.send(alice, "GET_RATING", agent=bob.id)
    rating = assert_sent(alice, "RATINGS", agent_id=bob.id, rating=1208, transactions=1)
    assert rating["history"][0]["rating"] == 1208
    world.send(alice, "GET_LEADERBOARD", limit=5)
    assert {entry["agent_id"] for entry in assert_sent(alice, "LEADERBOARD")["list"]} == {alice.id, bob.id}
    world.send(alice, "LIST_RECEIPTS")
    (receipt,) = assert_sent(alice, "RECEIPTS")["list"]
    assert receipt["proposal_id"] == proposal_id
    world.send(alice, "GET_RATING", agent="@nobody00")
    assert_refused(alice, "AGENT_NOT_FOUND")


def test_skills_are_registered_announced_and_found_with_presence() -> None:
    """Agentchat wire 14; `online` is ours."""
    world = World()
    alice, bob = parties(world)
    world.send(bob, "JOIN", channel="#discovery")
    bob.read()
    act(world, alice, "REGISTER_SKILLS", skills=[{"capability": "code_review", "rate": 5}])
    assert_sent(alice, "SKILLS_REGISTERED", agent_id=alice.id, skills_count=1)
    assert "code_review" in assert_sent(bob, "MSG", to="#discovery", **{"from": "@server"})["content"]
    guest = world.agent("guest")
    world.send(guest, "SEARCH_SKILLS", query={"capability": "REVIEW"}, query_id="q")
    (found,) = assert_sent(guest, "SEARCH_RESULTS", query_id="q", total=1)["results"]
    assert (found["agent_id"], found["online"], found["agent_rating"]) == (alice.id, True, 1200)
    world.disconnect(alice)
    world.send(guest, "SEARCH_SKILLS", query={})
    (found,) = assert_sent(guest, "SEARCH_RESULTS")["results"]
    assert found["online"] is False


def test_registering_again_and_again_does_not_fill_the_channel() -> None:
    world = World()
    alice, bob = parties(world)
    world.send(bob, "JOIN", channel="#discovery")
    bob.read()
    for number in range(10):
        act(world, alice, "REGISTER_SKILLS", skills=[{"capability": f"skill_{number}"}])
        world.advance(1)
    assert "skill_0" in assert_sent(bob, "MSG", **{"from": "@server"})["content"]
    assert_silent(bob)
    world.advance(60)
    assert "skill_9" in assert_sent(bob, "MSG", **{"from": "@server"})["content"]
    world.advance(300)
    assert_silent(bob)


def test_what_server_says_of_skills_has_no_secrets() -> None:
    world = World()
    alice, bob = parties(world)
    world.send(bob, "JOIN", channel="#discovery")
    bob.read()
    act(world, alice, "REGISTER_SKILLS", skills=[{"capability": f"sk-ant-\u200b{'x' * 30}"}])
    assert "[REDACTED:anthropic_api_key]" in assert_sent(bob, "MSG", **{"from": "@server"})["content"]


def test_health_counts_deals_by_status() -> None:
    world = World()
    alice, bob = parties(world)
    offer(world, alice, bob)
    accepted(world, alice, bob)
    world.advance(2)
    assert world.desk.counts == {"pending": 1, "accepted": 1}
    assert world.desk.parties == 2


def test_deals_are_announced_where_there_is_a_channel_for_it() -> None:
    """Agentchat wire 11.2, 11.3."""
    world = World()
    alice, bob = parties(world)
    accepted(world, alice, bob)
    assert world.hall.channels.get("#bounties") is None
    world.send(alice, "CREATE_CHANNEL", channel="#bounties")
    alice.read(), bob.read()
    act(world, bob, "PROPOSAL", to=alice.id, task="review")
    deal = assert_sent(alice, "PROPOSAL")["id"]
    assert deal in assert_sent(alice, "MSG", to="#bounties", **{"from": "@server"})["content"]
    act(world, alice, "ACCEPT", proposal_id=deal)
    assert_sent(alice, "ACCEPT")
    assert "[CLAIMED]" in assert_sent(alice, "MSG", to="#bounties")["content"]


def test_health_counts_agents_that_have_proposals_whether_they_are_here_or_not() -> None:
    world = World()
    alice, bob = parties(world)
    world.agent("carol", key=CAROL)
    world.agent("visitor")
    world.advance(2)
    assert health_report(world.hall, world.desk, 0)["proposals"] == {"total": 0, "byStatus": {}, "agents": 0}
    offer(world, alice, bob)
    world.disconnect(bob)
    world.advance(2)
    expected = {"total": 1, "byStatus": {"pending": 1}, "agents": 2}
    assert health_report(world.hall, world.desk, 0)["proposals"] == expected


@pytest.mark.parametrize("profile", list(PROFILES))
def test_a_stake_that_the_proposer_does_not_have_is_refused_before_anyone_hears_of_it(profile: str) -> None:
    world = World(profile)
    alice, bob = parties(world)
    world.hush()
    act(world, alice, "PROPOSAL", to=bob.id, task="review", elo_stake=1101)
    assert_refused(alice, "INSUFFICIENT_REPUTATION", "1100 available")
    assert_silent(bob)
    assert world.books.deals == {}
    act(world, alice, "PROPOSAL", to=bob.id, task="review", elo_stake=1100)
    assert_sent(bob, "PROPOSAL", elo_stake=1100)


def test_a_long_list_of_deals_is_whole_and_in_order() -> None:
    world = World(no_limits=True)
    alice, bob = parties(world)
    for number in range(45):
        act(world, alice, "PROPOSAL", to=bob.id, task=str(number))
        world.advance(1)
    alice.read(), bob.read()
    for limit, last in ((1000, 0), (45, 0), (41, 4), (40, 5), (20, 25), (1, 44)):
        world.send(bob, "LIST_PROPOSALS", limit=limit)
        answer = assert_sent(bob, "PROPOSALS", truncated=ABSENT)
        assert [int(deal["task"]) for deal in answer["list"]] == list(range(44, last - 1, -1))


def test_a_list_of_deals_ends_where_the_answer_would_become_too_long() -> None:
    world = World(no_limits=True)
    alice, bob = parties(world)
    for number in range(80):
        act(world, alice, "PROPOSAL", to=bob.id, task=str(number), terms="x" * 16_000)
        world.advance(1)  # of one moment, the order is that of the ids
    alice.read(), bob.read()
    world.send(bob, "LIST_PROPOSALS")
    answer = assert_sent(bob, "PROPOSALS", truncated=True)
    assert [deal["task"] for deal in answer["list"]] == [str(number) for number in range(79, 17, -1)]
    world.send(bob, "LIST_PROPOSALS", before=answer["list"][-1]["proposal_id"])
    rest = assert_sent(bob, "PROPOSALS", truncated=ABSENT)
    assert [deal["task"] for deal in rest["list"]] == [str(number) for number in range(17, -1, -1)]
    world.send(bob, "LIST_PROPOSALS", before="prop_of_nobody")
    assert_refused(bob, "PROPOSAL_NOT_FOUND")
    world.send(bob, "LIST_PROPOSALS", limit=2)
    assert_sent(bob, "PROPOSALS", truncated=ABSENT)


def test_an_agent_on_the_halls_own_machine_does_not_let_others_farm() -> None:
    """The gain limit is that of the agent that gains, whoever completes the deal."""
    world = World(no_limits=True, idle_prompts=False)
    stranger = world.agent("stranger", key=ALICE)
    local = world.agent("local", key=BOB, is_loopback=True)
    for _ in range(40):
        proposal_id = accepted(world, stranger, local)
        act(world, local, "COMPLETE", proposal_id=proposal_id)
        stranger.read(), local.read()
    gained = [world.books.standing(key.public.raw).rating - 1200 for key in (ALICE, BOB)]
    assert gained[0] == 100
    assert gained[1] > 200

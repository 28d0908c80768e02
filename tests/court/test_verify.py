"""A good case verifies; a case in which anything that can be proven was changed does not."""

import copy
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.court.bounds import MAX_EVIDENCE
from moothall.court.evidence import item_hash
from moothall.court.panel import MAX_POOL, pool_hash_of, seed_of, shuffled
from moothall.court.records import Submission
from moothall.court.verify import verify_case
from moothall.identity import PrivateKey
from moothall.identity.seals import CASE, Seal, key_id
from moothall.market.storable import MAX_NESTING, MAX_VALUES
from moothall.wire.canonical import canonical_json
from tests.court.support import Courtroom, draw_panel
from tests.identity.vectors import ALICE, BOB
from tests.support.cases import ARBITERS, COMMITMENT, NONCE, signed_step
from tests.support.deals import signed
from tests.support.seals import HALL, HALL_ID, SEAL
from tests.support.world import TWIN_ID, TWINS

Path = tuple[str | int, ...]


def skip_first(court: Courtroom) -> None:
    """Let the first agent that will be drawn go away."""
    seed = seed_of(court.deal_id, NONCE, court.case.server_nonce)
    first = draw_panel(seed, court.case.pool)[0]
    court.leave(next(key for key in court.judges if court.guests[key].id == first))


@cache
def judged() -> str:
    """A case with everything: stakes, an agent that was passed over, a replacement, evidence with odd keys, a
    forfeit, an amount."""
    court = Courtroom(judges=8)
    court.file(stakes=(30, 20), amount=5, currency="EUR")
    skip_first(court)
    court.act(ALICE, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce=NONCE)
    court.act(court.panel[0], "ARBITER_DECLINE", dispute_id=court.dispute_id, reason="a friend")
    for key in court.panel:
        court.act(key, "ARBITER_ACCEPT", dispute_id=court.dispute_id)
    items = [{"kind": "commit", "value": "abc"}, {"b": {"a": 1, "b": [True, None]}, "a": 1.5}]
    court.act(ALICE, "EVIDENCE", dispute_id=court.dispute_id, items=items, statement="look")
    court.act(BOB, "EVIDENCE", dispute_id=court.dispute_id, items=[{"hash": "mine"}], statement="no")
    court.vote(court.panel[0], "disputant")
    court.world.advance(1)
    court.vote(court.panel[2], "disputant")
    court.world.advance(3601)
    assert court.case.phase == "resolved"
    return json.dumps(court.file_of())


@cache
def fallen_back() -> str:
    court = Courtroom(judges=5)
    court.file()
    skip_first(court)
    court.act(ALICE, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce=NONCE)
    for _ in range(2):
        court.act(court.panel[0], "ARBITER_DECLINE", dispute_id=court.dispute_id)
    assert court.case.phase == "fallback"
    return json.dumps(court.file_of())


def good_case(name: str) -> Any:
    return json.loads({"judged": judged, "fallen back": fallen_back}[name]())


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield from leaves(member, (*path, key))
    elif isinstance(value, list):
        for number, member in enumerate(value):
            yield from leaves(member, (*path, number))
    else:
        yield path


def at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def replaced(case: Any, path: Path, new: Any) -> Any:
    changed = copy.deepcopy(case)
    at(changed, path[:-1])[path[-1]] = new
    return changed


def is_the_halls_word(case: Any, path: Path) -> bool:
    """What no signature and no computation covers: see `casefile`."""
    if path[-1] in ("at", "filed_at", "assigned_at", "statement", "reasoning"):
        return True
    if path[-1] in ("terms", "capability", "ref"):  # of the PROPOSAL: not signed (agentchat wire 8)
        return True
    if path == ("fallback", "reason") or path[-1] in ("hall_key", "hall_sig", "created_at"):
        return True
    if path[:2] == ("settlement", "transfer") and path[-1] in ("left", "room"):  # if they do not bind
        return True
    return path[:1] == ("skipped",) and path[-1] == "why"


def flipped(value: Any) -> Any:
    """Another value of the same kind."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return ("A" if value[:1] != "A" else "B") + value[1:]
        case _:
            return "something"


@pytest.mark.parametrize("name", ["judged", "fallen back"])
def test_a_good_case_holds(name: str) -> None:
    proof = verify_case(good_case(name), [HALL_ID])
    assert proof.problems == []
    assert proof.hall == HALL.public
    assert len(proof.proven) > 4
    assert len(proof.consistent) > 15


@pytest.mark.parametrize("name", ["judged", "fallen back"])
def test_no_value_that_bears_weight_can_be_changed(name: str) -> None:
    case = good_case(name)
    paths = [path for path in leaves(case) if not is_the_halls_word(case, path)]
    assert len(paths) > 40
    unnoticed = [
        path
        for path in paths
        if verify_case(replaced(case, path, flipped(at(case, path)))).contradictions == []
    ]
    assert unnoticed == []


@pytest.mark.parametrize("name", ["judged", "fallen back"])
def test_nothing_can_be_left_out(name: str) -> None:
    case = good_case(name)
    for key in case.keys() - {"hall_key", "hall_sig"}:
        shorter = {other: value for other, value in case.items() if other != key}
        (problem,) = verify_case(shorter).contradictions
        assert key in problem


@given(st.data())
def test_parts_of_a_case_cannot_be_exchanged(data: st.DataObject) -> None:
    case = good_case("judged")
    paths = [
        ("arbiters",),
        ("evidence", "disputant", "items"),
        ("evidence", "disputant", "hashes"),
        ("judgement", "results"),
        ("judgement", "votes"),
        ("settlement", "shares"),
    ]
    path = data.draw(st.sampled_from(paths))
    members = at(case, path)
    order = data.draw(st.permutations(range(len(members))))
    if order != sorted(order):
        changed = replaced(case, path, [members[number] for number in order])
        assert verify_case(changed).contradictions


def test_a_vote_of_somebody_else_does_not_count() -> None:
    case = good_case("judged")
    arbiter = next(each for each in case["arbiters"] if each["status"] == "voted")
    arbiter["id"] = f"@{ARBITERS[11].public.agent_id()}"
    arbiter["key"] = ARBITERS[11].public.pem
    assert verify_case(case).contradictions


def test_only_the_hall_can_vouch_for_a_task_that_was_redacted() -> None:
    court = Courtroom(judges=0)
    secret = "ghp_" + "a" * 36
    court.agree()
    offer = signed(ALICE, "PROPOSAL", to=court.bob.id, task=f"use {secret}")
    court.world.send(court.alice, "PROPOSAL", **offer)
    court.deal_id = court.alice.read()[0]["id"]
    court.world.send(court.bob, "ACCEPT", **signed(BOB, "ACCEPT", proposal_id=court.deal_id))
    court.world.hush()
    (answer,) = court.act(
        ALICE, "DISPUTE_INTENT", proposal_id=court.deal_id, reason="late", commitment=COMMITMENT
    )
    court.dispute_id = answer["dispute_id"]
    court.act(ALICE, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce=NONCE)
    proof = court.report()
    assert proof.holds
    assert "PROPOSAL" not in proof.steps
    assert "took a secret out" in proof.hall_word[0]
    assert not verify_case(court.file_of()).holds


@pytest.mark.parametrize("field", ["terms", "capability"])
def test_nothing_unsigned_can_be_put_into_the_proposal(field: str) -> None:
    case = good_case("judged")
    (problem,) = verify_case(replaced(case, ("deal", "proposal", field), "by Friday")).contradictions
    assert problem.startswith("`deal.proposal`")


def test_problems_name_the_field() -> None:
    case = good_case("judged")
    changed = replaced(case, ("settlement", "shares", 1, "rating_after"), 9999)
    assert [problem.split(":")[0] for problem in verify_case(changed).contradictions] == [
        "`settlement.shares[1].rating_after`"
    ]
    assert "`seed`" in verify_case(replaced(case, ("seed",), "0" * 64)).contradictions[0]


@pytest.mark.parametrize("phase", ["file", "reveal", "seat", "plead"])
def test_an_open_case_holds_as_far_as_it_goes(phase: str) -> None:
    court = Courtroom(judges=4)
    getattr(court, phase)()
    if phase == "plead":
        court.vote(court.panel[0], "disputant")
    for key in (ALICE, BOB):
        proof = court.report(key)
        assert proof.contradictions == []
        assert proof.unproven == ["`phase`: the case is open, and the hall signs it when it is closed."]


# -- the hall's word -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["judged", "fallen back"])
def test_no_value_at_all_can_be_changed_under_the_halls_signature(name: str) -> None:
    case = good_case(name)
    for path in leaves(case):
        assert verify_case(replaced(case, path, flipped(at(case, path))), [HALL_ID]).problems, path
    assert verify_case({**case, "verdict": "respondent"}, [HALL_ID]).problems  # nor anything added


def test_the_layout_of_the_file_does_not_matter() -> None:
    case = good_case("judged")
    turned = json.loads(json.dumps(case, indent=4), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    assert list(turned) != list(case)
    turned["evidence"] = case["evidence"]  # its items were signed with their members in this order
    assert verify_case(turned, [HALL_ID]).holds


def test_without_the_expected_hall_nothing_is_proven_that_no_party_signed() -> None:
    case = good_case("judged")
    stranger = verify_case(case, [key_id(ALICE.public)])
    assert stranger.contradictions == []
    assert stranger.hall == HALL.public
    assert stranger.unproven == [f"`hall_key`: you neither named nor know the hall {SEAL.hall_key}."]
    for missing in ("hall_sig", "hall_key"):
        unsigned = verify_case(replaced(case, (missing,), None), [HALL_ID])
        assert unsigned.contradictions == []
        assert unsigned.unproven == ["`hall_sig`: there is no hall signature."]
        assert unsigned.hall is None


def invented() -> Any:
    """A case that never took place. Bob accepted one deal of Alice's; she and her arbiters made up the rest."""
    court = Courtroom(judges=3)
    court.judge("disputant", "disputant", "disputant")
    case = court.file_of()
    offer = {**case["deal"]["proposal"], "task": "anything at all", "amount": 1_000_000}
    text = f"{offer['to']}|{offer['task']}|{offer['amount']}||||"
    case["deal"]["proposal"] = {**offer, "sig": ALICE.sign(text)}
    case["evidence"]["respondent"] = None
    return case


def test_a_case_that_never_took_place_is_not_proven() -> None:
    """It takes one ACCEPT of the victim, of any deal: nothing in such a file contradicts itself."""
    case = invented()
    for member in ("hall_key", "hall_sig"):
        del case[member]
    assert verify_case(case, [HALL_ID]).contradictions == []
    assert not verify_case(case, [HALL_ID]).holds
    mallory = Seal(PrivateKey(bytes(32)))
    record = {**case, "hall_key": mallory.hall_key}
    forged = {**record, "hall_sig": mallory.sign(CASE, canonical_json(record))}
    assert verify_case(forged, [HALL_ID]).unproven
    assert not verify_case(forged, [HALL_ID]).holds
    assert not verify_case({**forged, "hall_key": SEAL.hall_key}, [HALL_ID]).holds


def test_two_keys_with_one_id_are_not_one_agent() -> None:
    """Votes, results and shares name agents by their ids, so that no two in a case may have the same."""
    case = good_case("judged")
    for arbiter, twin in zip(case["arbiters"], TWINS, strict=False):
        arbiter.update(id=f"@{TWIN_ID}", key=twin.public.pem)
    found = verify_case(case).contradictions
    assert any("different agents with different ids" in problem for problem in found)
    assert not any("is the id of its key" in problem for problem in found)


def test_a_bar_in_a_field_is_named() -> None:
    """`a|5` as a task and `a` as a task for 5 are one signed text."""
    court = Courtroom(judges=3)
    court.agree()
    offer = signed(ALICE, "PROPOSAL", to=court.bob.id, task="paint|5", elo_stake=0)
    court.world.send(court.alice, "PROPOSAL", **offer)
    court.deal_id = court.alice.read()[0]["id"]
    court.world.send(court.bob, "ACCEPT", **signed(BOB, "ACCEPT", proposal_id=court.deal_id))
    court.world.hush()
    (answer,) = court.act(
        ALICE, "DISPUTE_INTENT", proposal_id=court.deal_id, reason="late", commitment=COMMITMENT
    )
    court.dispute_id = answer["dispute_id"]
    court.world.advance(301)
    proof = court.report()
    assert proof.holds
    assert proof.hall_word[0].startswith("Where the fields of the PROPOSAL begin and end")
    case = court.file_of()
    case["deal"]["proposal"].update(task="paint", amount=5, payment_code=None)
    assert not verify_case(case, [HALL_ID]).holds


def called_off(case: Any) -> Any:
    """The file as a hall would write it that wants no verdict."""
    empty = {"disputant": None, "respondent": None}
    fallback = {"reason": "Not enough eligible arbiters", "at": case["filed_at"]}
    return {**case, "phase": "fallback", "deadline": None, "evidence": empty, "fallback": fallback}


@pytest.mark.parametrize("phase", ["reveal", "seat", "plead"])
def test_a_case_that_had_its_arbiters_cannot_be_called_off(phase: str) -> None:
    court = Courtroom(judges=4)
    getattr(court, phase)()
    (problem, *_) = verify_case(called_off(court.file_of())).contradictions
    assert problem.startswith(("`phase`", "`fallback`"))


def test_a_panel_that_is_complete_does_not_wait_for_answers() -> None:
    court = Courtroom(judges=4)
    court.seat()
    (problem,) = verify_case({**court.file_of(), "phase": "arbiter_response"}).contradictions
    assert problem.startswith("`phase`")


def test_votes_that_are_complete_do_not_wait_for_a_verdict() -> None:
    court = Courtroom(judges=4)
    court.plead()
    case = court.file_of()
    for arbiter in case["arbiters"]:
        arbiter["status"] = "voted"
    (problem,) = verify_case(case).contradictions
    assert problem.startswith("`phase`")


def test_a_case_that_nobody_answered_holds() -> None:
    court = Courtroom(judges=4)
    court.reveal()
    court.act(court.panel[0], "ARBITER_DECLINE", dispute_id=court.dispute_id)
    court.act(court.panel[0], "ARBITER_ACCEPT", dispute_id=court.dispute_id)
    court.world.advance(1801)
    assert court.case.phase == "fallback"
    assert court.report(ALICE).contradictions == []
    case = court.file_of()
    for arbiter in case["arbiters"]:
        arbiter["status"] = "pending" if arbiter["status"] == "forfeited" else arbiter["status"]
    assert verify_case(case).contradictions


@pytest.mark.parametrize(
    "path", [("format",), ("phase",), ("filed_at",), ("judgement", "verdict"), ("deal",)]
)
def test_half_a_character_does_not_make_it_raise(path: Path) -> None:
    case = good_case("judged")
    assert verify_case(replaced(case, path, "\ud800")).contradictions
    assert verify_case(replaced(case, path, {"\ud800": 1})).contradictions


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_no_value_makes_it_raise(value: Any) -> None:
    assert verify_case(value).contradictions


@given(st.data(), json_values)
def test_no_value_in_the_place_of_another_makes_it_raise(data: st.DataObject, value: Any) -> None:
    case = good_case("judged")
    path = data.draw(st.sampled_from(sorted(leaves(case), key=str)))
    changed = replaced(case, path, value)
    report = verify_case(changed)
    if value != at(case, path) and type(value) is type(at(case, path)) and not is_the_halls_word(case, path):
        assert report.contradictions


def test_neither_depth_nor_size_makes_it_raise() -> None:
    case = good_case("judged")
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert verify_case(deep).contradictions
    assert verify_case(replaced(case, ("evidence", "disputant", "items", 0), deep)).contradictions
    assert verify_case(replaced(case, ("settlement", "shares", 0, "rating_before"), 10**400)).contradictions
    assert verify_case(replaced(case, ("deal", "proposal", "elo_stake"), 10**400)).contradictions
    # Freed one by one: a destructor that goes as deep as that is another library's problem.
    while deep:
        deep = deep.pop("a")


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"value": value}
    return value


@pytest.mark.parametrize(
    "items",
    [
        [{"value": "x" * MAX_EVIDENCE}],
        [{"value": [{}] * MAX_EVIDENCE}],
        [{f"k{number}": {} for number in range(30_000)}],
        [nested(MAX_NESTING)],
    ],
    ids=["long", "many values", "many keys", "deep"],
)
def test_evidence_that_no_hall_took_is_not_hashed(items: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of 304 KB once took 20 s."""
    case = good_case("judged")
    case["evidence"]["respondent"]["items"] = items
    monkeypatch.setattr("moothall.court.verify.item_hash", lambda item: pytest.fail("hashed"))
    (problem,) = verify_case(case).contradictions
    assert "`evidence`" in problem


def test_evidence_of_many_values_that_an_older_hall_took_still_verifies() -> None:
    court = Courtroom()
    court.seat()
    items = [{"value": [0] * (MAX_VALUES * 2)}]
    step = signed_step(ALICE, "EVIDENCE", dispute_id=court.dispute_id, items=items, statement="")
    submission = Submission(
        items=tuple(items),
        hashes=(item_hash(items[0]),),
        statement="",
        sig=step["sig"],
        at=court.world.now_ms,
    )
    case = msgspec.structs.replace(court.case, disputant_evidence=submission)
    court.world.books.records[case.id] = msgspec.json.encode(case)
    assert court.report().contradictions == []


# -- the pool and the walk -----------------------------------------------------------------------------


def about(case: Any, field: str) -> list[str]:
    return [problem for problem in verify_case(case).contradictions if problem.startswith(f"`{field}`")]


def test_a_hall_that_changes_the_pool_after_the_intent_is_found_out() -> None:
    case = good_case("judged")
    unused = [each for each in case["pool"] if each not in str(case["arbiters"]) + str(case["skipped"])]
    place = case["pool"].index(unused[0])
    del case["pool"][place], case["pool_keys"][place]
    assert about(case, "pool_hash")


def test_an_agent_that_is_passed_over_is_in_the_file_and_of_the_pool() -> None:
    case = good_case("judged")
    hidden = copy.deepcopy(case)
    hidden["skipped"] = []
    assert about(hidden, "arbiters")
    stranger = copy.deepcopy(case)
    stranger["skipped"].append({"id": "@00000000", "why": "absent", "at": 1})
    assert about(stranger, "skipped")
    twice = copy.deepcopy(case)
    twice["skipped"] *= 2
    assert about(twice, "skipped")


def test_no_agent_is_passed_over_without_need() -> None:
    """Else a hall could go past arbiters after the last seat was given, and seat whom it likes as a replacement."""
    case = good_case("judged")
    order = shuffled(case["seed"], case["pool"])
    case["skipped"].append({"id": order[-1], "why": "absent", "at": 1})
    assert about(case, "skipped")


def test_a_fallback_needs_a_pool_that_is_exhausted() -> None:
    court = Courtroom(judges=5)
    court.file()
    for key in court.judges[:3]:
        court.leave(key)
    court.act(ALICE, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce=NONCE)
    case = court.file_of()
    assert case["phase"] == "fallback"
    assert verify_case(case).contradictions == []
    case["skipped"].pop()
    assert about(case, "arbiters")
    left = good_case("fallen back")
    left["skipped"].pop()
    assert about(left, "arbiters")


def test_the_old_format_is_for_cases_without_a_committed_pool() -> None:
    case = good_case("judged")
    assert about({**case, "format": 1}, "pool_hash")
    assert about({**case, "pool_hash": None}, "pool_hash")
    borrowed = copy.deepcopy(case)
    borrowed["arbiters"][3]["pool"] = [borrowed["arbiters"][3]["id"]]
    assert about(borrowed, "arbiters[3].pool")


def test_a_pool_has_an_end() -> None:
    case = good_case("judged")
    case["pool"] = sorted({*case["pool"], *(f"@{number:08x}" for number in range(MAX_POOL))})
    case["pool_hash"] = pool_hash_of(case["pool"])
    assert about(case, "pool")

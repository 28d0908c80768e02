"""A receipt proves a deal to somebody who knows nobody here, and a forged one does not."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.redaction import Redactor
from moothall.identity import PrivateKey, PublicKey
from moothall.identity.seals import RECEIPT, Seal, key_id
from moothall.market import agentchat, clerk
from moothall.market.receipts import verify_receipt
from moothall.market.signed import check_signature
from moothall.wire.agentchat import client
from moothall.wire.canonical import canonical_json
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.market.support import Market, address, signed, told
from tests.support.seals import HALL_ID, SEAL
from tests.support.world import TWIN_ID, TWINS

scalars = st.none() | st.integers(-(10**30), 10**30) | st.floats(-1e300, 1e300) | st.booleans()
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)

terms_of_any_shape = st.recursive(
    scalars | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def receipt(completer: Any = BOB, **fields: Any) -> dict[str, Any]:
    market = Market()
    market.propose(
        ALICE, BOB, **{"amount": 1.5, "currency": "SOL", "expires": 300, "elo_stake": 25, **fields}
    )
    market.accept(BOB, payment_code="pay-bob", elo_stake=10)
    market.now += 1000
    market.complete(completer, proof="tx:abc123")
    body: dict[str, Any] = msgspec.json.decode(market.books.kept_receipts[0].body)
    return body


def problems(body: Any) -> list[str]:
    """Apart from the hall's signature, which no change survives."""
    return verify_receipt(msgspec.json.encode(body), [HALL_ID]).contradictions


def holds(body: bytes) -> bool:
    return verify_receipt(body, [HALL_ID]).holds


@pytest.mark.parametrize("completer", [ALICE, BOB], ids=["by proposer", "by recipient"])
def test_a_receipt_holds_with_the_halls_signature(completer: Any) -> None:
    assert holds(msgspec.json.encode(receipt(completer)))


@given(amount=scalars | texts, currency=scalars | texts, code=scalars | texts, task=texts, terms=texts)
def test_whatever_was_signed_can_be_checked(
    amount: Any, currency: Any, code: Any, task: str, terms: str
) -> None:
    body = receipt(amount=amount, currency=currency, payment_code=code, task=f"do {task}", terms=terms)
    assert holds(msgspec.json.encode(body))


@pytest.mark.parametrize("expires", [0, 60, 60.0, 0.25, 86_400])
def test_whatever_deadline_was_signed_can_be_checked(expires: Any) -> None:
    market = Market()
    market.propose(ALICE, BOB, expires=expires)
    market.accept(BOB)
    market.complete(ALICE)
    assert holds(market.books.kept_receipts[0].body)


def test_a_receipt_is_the_message_the_time_and_the_operations() -> None:
    market = Market()
    market.propose(ALICE, BOB)
    market.accept(BOB)
    outcome = market.complete(ALICE)
    body = msgspec.json.decode(market.books.kept_receipts[0].body)
    operations = body.pop("operations")
    assert body.pop("stored_at") == market.now
    assert body.pop("created_at") == market.now
    assert (body.pop("hall_key"), len(body.pop("hall_sig"))) == (SEAL.hall_key, 88)
    assert body == told(outcome, ALICE)[0]
    assert [operation["type"] for operation in operations] == ["PROPOSAL", "ACCEPT", "COMPLETE"]
    assert PublicKey.from_pem(operations[0]["key"]) == ALICE.public


def test_the_line_for_the_reference_is_the_message_its_time_and_the_proof() -> None:
    market = Market()
    market.propose(ALICE, BOB)
    market.accept(BOB)
    outcome = market.complete(ALICE)
    line = market.books.kept_receipts[0].body
    assert line.endswith(b"}")
    assert b"\n" not in line  # `receipts.jsonl` takes it as it is
    body = msgspec.json.decode(line)
    assert len(body.pop("operations")) == 3
    assert body.items() >= {**told(outcome, BOB)[0], "stored_at": market.now}.items()


FORGERIES: dict[str, tuple[list[Any], Any]] = {
    "the task": (["operations", 0, "task"], "Something else"),
    "the amount": (["operations", 0, "amount"], 15),
    "the deadline": (["operations", 0, "expires"], 301),
    "the proposer's stake": (["operations", 0, "elo_stake"], 26),
    "the acceptor's stake": (["operations", 1, "elo_stake"], 11),
    "the payment code": (["operations", 1, "payment_code"], "pay-mallory"),
    "the proof": (["operations", 2, "proof"], "tx:other"),
    "the proof in the message": (["proof"], "tx:other"),
    "the stakes in the message": (["elo_stakes", "acceptor"], 11),
    "the proposer's key": (["operations", 0, "key"], CAROL.public.pem),
    "the acceptor's key": (["operations", 1, "key"], CAROL.public.pem),
    "the completer's key": (["operations", 2, "key"], CAROL.public.pem),
    "who completed": (["completed_by"], "@b8de75d1"),
    "who proposed": (["from"], "@00000000"),
    "who accepted": (["to"], "@00000000"),
    "the deal": (["proposal_id"], "prop_2"),
    "the status": (["status"], "disputed"),
    "the signature in the message": (["sig"], "A" * 88),
}


@pytest.mark.parametrize("forged", FORGERIES)
def test_a_forgery_is_noticed(forged: str) -> None:
    body = receipt()
    path, value = FORGERIES[forged]
    target: Any = body
    for step in path[:-1]:
        target = target[step]
    assert target[path[-1]] != value
    target[path[-1]] = value
    assert problems(body)


# Each of these is rightly signed by its key; it only belongs to another story.


def test_a_completion_of_another_deal_is_noticed() -> None:
    body = receipt()
    sig = BOB.sign("COMPLETE|prop_2|tx:abc123")
    body["operations"][2].update(proposal_id="prop_2", sig=sig)
    body["sig"] = sig
    assert problems(body) == [
        "`operations[2].proposal_id`: it does not hold that the COMPLETE names this deal."
    ]


def test_an_acceptance_of_another_deal_is_noticed() -> None:
    body = receipt()
    body["operations"][1].update(proposal_id="prop_2", sig=BOB.sign("ACCEPT|prop_2|pay-bob|10"))
    assert problems(body) == [
        "`operations[1].proposal_id`: it does not hold that the ACCEPT names this deal."
    ]


def test_a_proposal_to_somebody_else_is_noticed() -> None:
    body = receipt()
    to = address(CAROL)
    body["operations"][0].update(to=to, sig=ALICE.sign(f"{to}|Review it|1.5|SOL||300|25"))
    assert problems(body) == [
        "`operations[0].to`: it does not hold that the PROPOSAL was made to the acceptor."
    ]


def test_a_completion_by_a_stranger_is_noticed() -> None:
    body = receipt()
    sig = CAROL.sign("COMPLETE|prop_1|tx:abc123")
    body["operations"][2].update(key=CAROL.public.pem, sig=sig)
    body["sig"] = sig
    assert problems(body) == ["`operations[2].key`: it does not hold that the COMPLETE is by a party."]


def test_a_deal_with_oneself_is_noticed() -> None:
    body = receipt(BOB)
    to = address(BOB)
    body["from"] = to
    body["operations"][0].update(key=BOB.public.pem, sig=BOB.sign(f"{to}|Review it|1.5|SOL||300|25"))
    assert problems(body) == ["`operations`: it does not hold that the parties are two agents with two ids."]


def test_a_receipt_names_its_parties_by_long_ids_too() -> None:
    market = Market()
    long = f"@{BOB.public.agent_id(16)}"
    message = signed(client.Proposal(to=long, task="t", sig="-"), ALICE)
    clerk.propose(
        market.books,
        market.checked(message, ALICE),
        proposal_id="prop_1",
        address=f"@{ALICE.public.agent_id(16)}",
        connected=BOB.public.raw,
        now=market.now,
        rules=market.rules,
    )
    market.accept(BOB)
    market.complete(ALICE)
    assert holds(market.books.kept_receipts[0].body)


def test_only_the_hall_can_vouch_for_a_redacted_task() -> None:
    market = Market()
    task = "use sk-" + "a1" * 20
    redacted, _ = Redactor({}).redact(task)
    message = signed(client.Proposal(to=address(BOB), task=task, sig="-"), ALICE)
    kept = msgspec.structs.replace(message, task=redacted)
    sent = agentchat.sent(message, agentchat.propose(kept), ALICE.public, kept=kept)
    clerk.propose(
        market.books,
        check_signature(sent, market.rules.signature_code),
        proposal_id="prop_1",
        address=address(ALICE),
        connected=BOB.public.raw,
        now=market.now,
        rules=market.rules,
    )
    market.accept(BOB)
    market.complete(ALICE)
    proof = verify_receipt(market.books.kept_receipts[0].body, [HALL_ID])
    assert proof.holds
    assert proof.steps == ["ACCEPT", "COMPLETE"]
    assert "took a secret out" in proof.hall_word[0]


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{}", b"\xff", b"[" * 5000, b'{"type":"COMPLETE"}', b'{"type":"MSG"}'],
    ids=lambda body: repr(body[:20]),
)
def test_what_is_no_receipt_is_a_problem_not_an_error(body: bytes) -> None:
    assert len(verify_receipt(body).problems) == 1


@pytest.mark.parametrize("key", ["", "not a key", ALICE.to_pem()])
def test_a_key_that_cannot_be_read_is_a_problem(key: str) -> None:
    body = receipt()
    body["operations"][1]["key"] = key
    [problem] = problems(body)
    assert "PRIVATE" not in problem


def test_operations_in_another_order_are_no_receipt() -> None:
    body = receipt()
    body["operations"].reverse()
    assert len(problems(body)) == 1
    del body["operations"]
    assert len(problems(body)) == 1


# -- the hall's word -------------------------------------------------------------------------------------


def unsigned(body: dict[str, Any]) -> dict[str, Any]:
    """As halls wrote receipts before they signed them."""
    later = ("hall_key", "hall_sig", "created_at", "terms", "capability")
    return {name: value for name, value in body.items() if name not in later}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for place, member in members:
        yield from leaves(member, (*path, place))
    if not isinstance(value, (dict, list)):
        yield path


def test_no_value_at_all_can_be_changed_under_the_halls_signature() -> None:
    original = receipt(terms={"by": ["Friday", 1.5]}, capability="review")
    paths = list(leaves(original))
    assert len(paths) > 40
    for path in paths:
        body = copy.deepcopy(original)
        target: Any = body
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = "something else"
        assert not holds(msgspec.json.encode(body)), path
    assert not holds(msgspec.json.encode({**original, "bonus": 1000}))


def test_what_no_party_signs_is_on_the_halls_word() -> None:
    """Ratings, times, terms and capability: without the hall's signature they are not proven."""
    body = receipt(terms={"by": "Friday"}, capability="review")
    assert (body["terms"], body["capability"]) == ({"by": "Friday"}, "review")
    changed = {
        **body,
        "terms": {"by": "never"},
        "capability": "cooking",
        "stored_at": 5,
        "rating_changes": None,
    }
    proof = verify_receipt(msgspec.json.encode(changed), [HALL_ID])
    assert proof.contradictions == []
    assert proof.unproven == [
        "`hall_sig`: the hall signature does not fit: the record was changed after the hall signed it."
    ]


def test_the_layout_of_the_file_does_not_matter() -> None:
    body = receipt(amount=1e21, terms=[1.0, 2**60], expires=60.0)
    turned = json.dumps(body, indent=4, sort_keys=True)
    assert holds(turned.encode())
    assert holds(turned.replace("1e+21", "1000000000000000000000.0").encode())


def test_a_member_twice_is_refused() -> None:
    """Else a reader that takes the first of them would see another receipt than the one that was checked."""
    text = json.dumps(receipt()).replace(
        '"proof": "tx:abc123"', '"proof": "tx:other", "proof": "tx:abc123"', 1
    )
    (problem,) = verify_receipt(text.encode(), [HALL_ID]).problems
    assert "two members" in problem


def test_a_receipt_of_before_halls_signed_them_has_no_hall_signature() -> None:
    proof = verify_receipt(msgspec.json.encode(unsigned(receipt())), [HALL_ID])
    assert proof.contradictions == []
    assert proof.unproven == ["`hall_sig`: there is no hall signature."]
    assert (proof.hall, proof.steps) == (None, ["PROPOSAL", "ACCEPT", "COMPLETE"])


def test_the_word_of_another_hall_does_not_count() -> None:
    mallory = Seal(PrivateKey(bytes(32)))
    record = {**unsigned(receipt()), "hall_key": mallory.hall_key}
    forged = {**record, "hall_sig": mallory.sign(RECEIPT, canonical_json(record))}
    proof = verify_receipt(msgspec.json.encode(forged), [HALL_ID])
    assert not proof.holds
    assert proof.contradictions == []
    assert proof.hall is not None
    assert mallory.hall_key in proof.unproven[0]
    assert verify_receipt(msgspec.json.encode(forged), [HALL_ID, key_id(proof.hall)]).holds


def test_the_proposer_cannot_swap_the_proposal() -> None:
    """Its text does not name the deal, so any other offer that it signed for the same agent fits as well."""
    body = receipt()
    other = {**body["operations"][0], "task": "Anything", "amount": 10**6}
    text = f"{other['to']}|Anything|1000000|SOL||300|25"
    body["operations"][0] = {**other, "sig": ALICE.sign(text)}
    proof = verify_receipt(msgspec.json.encode(body), [HALL_ID])
    assert proof.contradictions == []
    assert not proof.holds
    assert not verify_receipt(msgspec.json.encode(unsigned(body)), [HALL_ID]).holds


@pytest.mark.parametrize(
    ("fields", "moved"),
    [
        ({"task": "paint|5", "amount": None}, {"task": "paint", "amount": 5, "currency": None}),
        ({"task": "paint", "amount": "5|EUR", "currency": None}, {"amount": 5, "currency": "EUR"}),
    ],
)
def test_a_bar_moves_text_between_fields_and_only_the_hall_knows_better(
    fields: dict[str, Any], moved: dict[str, Any]
) -> None:
    body = receipt(**{"currency": None, "expires": 0, "elo_stake": 0, **fields})
    proof = verify_receipt(msgspec.json.encode(body), [HALL_ID])
    assert proof.holds
    assert proof.hall_word[0].startswith("Where the fields of the PROPOSAL begin and end")
    assert not any(
        "begin and end" in word for word in verify_receipt(msgspec.json.encode(receipt())).hall_word
    )
    body["operations"][0].update(moved)
    assert not verify_receipt(msgspec.json.encode(body), [HALL_ID]).holds


def test_two_keys_with_one_id_are_two_agents() -> None:
    """Ids of eight digits can be searched for; the key decides."""
    one, other = TWINS
    body = receipt()
    task = {**body["operations"][0], "key": one.public.pem, "to": f"@{TWIN_ID}"}
    task["sig"] = one.sign(f"@{TWIN_ID}|Review it|1.5|SOL||300|25")
    accept = {**body["operations"][1], "key": other.public.pem, "sig": other.sign("ACCEPT|prop_1|pay-bob|10")}
    complete = {
        **body["operations"][2],
        "key": other.public.pem,
        "sig": other.sign("COMPLETE|prop_1|tx:abc123"),
    }
    body.update(
        {"from": f"@{TWIN_ID}", "to": f"@{TWIN_ID}", "completed_by": f"@{TWIN_ID}", "sig": complete["sig"]},
        operations=[task, accept, complete],
    )
    proof = verify_receipt(msgspec.json.encode(body), [HALL_ID])
    assert [
        key_id(key.public) in sentence
        for key, sentence in zip((one, other, other), proof.proven, strict=True)
    ]
    assert proof.contradictions == [
        "`operations`: it does not hold that the parties are two agents with two ids."
    ]


@given(amount=scalars | texts, terms=terms_of_any_shape)
def test_the_body_is_signed_whatever_numbers_it_holds(amount: Any, terms: Any) -> None:
    """Plain numbers take a shorter way to the canonical text than others."""
    assert holds(msgspec.json.encode(receipt(amount=amount, terms=terms)))

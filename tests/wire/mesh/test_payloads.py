"""Payloads of all types: every vector byte for byte, what is written is read, and no bytes raise anything else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.wire.mesh.announcements import Advertise, Beacon, Bounty, Discover, Geo
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.faults import PayloadParseError
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.notaries import BidType, Judgement, NotarizeAssign, NotarizeBid, Verdict
from moothall.wire.mesh.offers import Accept, Counter, Propose
from moothall.wire.mesh.outcomes import Deliver, Feedback, Outcome, Role
from moothall.wire.mesh.payloads import PAYLOADS, Payload, decode_payload
from moothall.wire.mesh.reasons import Dispute, Reject
from tests.support.mesh import AGENTS, ENVELOPES, VECTORS

TALK = bytes.fromhex(VECTORS["constants"]["conversation_id"])
VARIANTS: dict[str, dict[str, Any]] = {vector["name"]: vector for vector in VECTORS["payloads"]}

# The payloads of the vectors. REJECT has free text there, which ours do not write.
KNOWN: dict[str, Payload] = {
    "ADVERTISE": Advertise(
        capabilities=("translation", "price-feed"), geo=Geo("NG", "Lagos"), price_range_usd=(0.5, 10.0)
    ),
    "DISCOVER": Discover("translation"),
    "PROPOSE": Propose(amount=2_000_000, message="Translate this document to Spanish"),
    "COUNTER": Counter(amount=2_500_000, round=1, message="2.5 and it is yours"),
    "ACCEPT": Accept(amount=2_500_000, message="deal"),
    "DELIVER": Deliver(conversation_id=TALK, content_type="text/plain", inline=b"Hola, mundo"),
    "NOTARIZE_BID": NotarizeBid(BidType.OFFER, TALK, b'{"fee_micro":250000}'),
    "NOTARIZE_ASSIGN": NotarizeAssign(AGENTS["N"]),
    "VERDICT": Verdict(Judgement.APPROVE, AGENTS["A"], AGENTS["B"]),
    "FEEDBACK": Feedback(conversation_id=TALK, target_agent=AGENTS["B"], score=80, outcome=Outcome.POSITIVE),
    "DISPUTE": Dispute("delivery matched the terms"),
    "BEACON": Beacon(AGENTS["A"], "agent-a"),
    "BROADCAST": Broadcast(
        topic="data:demo",
        title="Demo tick",
        tags=("demo", "v1"),
        format="data",
        content=b'{"px":1}',
        content_type="application/json",
        price_per_epoch_micro=0,
        epoch=7,
    ),
    "BOUNTY": Bounty(
        required_capability="translation",
        max_budget_usd=5.0,
        deadline_secs=3600,
        task_summary="translate 2 pages",
        conversation_id=TALK.hex(),
    ),
}
OTHERS: dict[str, Payload] = {
    "FEEDBACK negative notary dispute": Feedback(
        conversation_id=TALK,
        target_agent=AGENTS["N"],
        score=-100,
        outcome=Outcome.NEGATIVE,
        is_dispute=True,
        role=Role.NOTARY,
    ),
    "DELIVER by reference": Deliver(
        conversation_id=TALK,
        content_type="application/octet-stream",
        payload_uri="agg://" + "ab" * 32,
        payload_size=1_048_576,
    ),
    "NOTARIZE_BID request": NotarizeBid(BidType.REQUEST, TALK),
    "VERDICT reject": Verdict(Judgement.REJECT, AGENTS["A"], AGENTS["B"]),
}


@pytest.mark.parametrize("name", KNOWN)
def test_payloads_are_those_of_the_vectors(name: str) -> None:
    payload = KNOWN[name]
    assert payload.encode().hex() == ENVELOPES[name]["payload_hex"]
    assert decode_payload(MsgType[name], bytes.fromhex(ENVELOPES[name]["payload_hex"])) == payload


@pytest.mark.parametrize("name", OTHERS)
def test_variants_are_those_of_the_vectors(name: str) -> None:
    payload = OTHERS[name]
    assert payload.encode().hex() == VARIANTS[name]["hex"]
    assert decode_payload(MsgType[name.split()[0]], bytes.fromhex(VARIANTS[name]["hex"])) == payload


def test_every_vector_is_looked_at() -> None:
    assert KNOWN.keys() | {"REJECT"} == set(ENVELOPES)
    elsewhere = {"COUNTER as the TypeScript SDK orders its JSON keys", "amount prefix"}
    assert OTHERS.keys() | elsewhere == set(VARIANTS)


def test_free_text_is_a_reason() -> None:
    payload = bytes.fromhex(ENVELOPES["REJECT"]["payload_hex"])
    assert decode_payload(MsgType.REJECT, payload) == Reject("no capacity today")


def test_every_type_has_a_payload() -> None:
    assert list(PAYLOADS) == list(MsgType)


ids = st.binary(min_size=32, max_size=32)
talks = st.binary(min_size=16, max_size=16)
words = st.text(max_size=40)
names = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)
amounts = st.integers(-(1 << 127), (1 << 127) - 1)
rounds = st.integers(1, (1 << 32) - 1)
micro = st.none() | st.integers(0, (1 << 63) - 1)
small = st.none() | st.integers(0, (1 << 32) - 1)
large = st.none() | st.integers(0, (1 << 64) - 1)
dollars = st.floats(0, 1e9)
blobs = st.binary(max_size=300)
maybe_words = st.none() | words

PAYLOADS_MADE: dict[MsgType, st.SearchStrategy[Payload]] = {
    MsgType.ADVERTISE: st.builds(
        Advertise,
        capabilities=st.lists(names, max_size=32).map(tuple),
        geo=st.none() | st.builds(Geo, st.from_regex("[A-Z]{2,8}", fullmatch=True), maybe_words),
        price_range_usd=st.none() | st.tuples(dollars, dollars),
        downpayment_bps=st.none() | st.integers(0, 5000),
        token_address=maybe_words,
        min_token_hold=micro,
        capability_proofs=st.none() | st.lists(st.dictionaries(words, words, max_size=3)).map(tuple),
        extra=st.dictionaries(words.map(lambda word: "x-" + word), words | st.integers(0, 9), max_size=3),
    ),
    MsgType.DISCOVER: st.builds(Discover, words),
    MsgType.PROPOSE: st.builds(
        Propose,
        amount=amounts,
        message=words,
        token_mint=maybe_words,
        max_rounds=rounds,
        role=st.sampled_from((None, "requester", "provider")),
        payment_tx=maybe_words,
        payment_usd_micro=micro,
        total_price_usd_micro=micro,
    ),
    MsgType.COUNTER: st.builds(
        Counter, amount=amounts, message=words, token_mint=maybe_words, round=rounds, max_rounds=rounds
    ),
    MsgType.ACCEPT: st.builds(
        Accept,
        amount=amounts,
        message=words,
        token_mint=maybe_words,
        downpayment_usd_micro=micro,
        remaining_usd_micro=micro,
    ),
    MsgType.REJECT: st.builds(Reject, words),
    MsgType.DELIVER: st.builds(
        Deliver,
        conversation_id=talks,
        content_type=maybe_words,
        inline=blobs,
        payload_uri=maybe_words,
        payload_size=large,
    ),
    MsgType.NOTARIZE_BID: st.builds(NotarizeBid, st.sampled_from(BidType), talks, blobs),
    MsgType.NOTARIZE_ASSIGN: st.builds(NotarizeAssign, ids, blobs),
    MsgType.VERDICT: st.builds(Verdict, st.sampled_from(Judgement), ids, ids, blobs),
    MsgType.FEEDBACK: st.builds(
        Feedback,
        conversation_id=talks,
        target_agent=ids,
        score=st.integers(-100, 100),
        outcome=st.sampled_from(Outcome),
        is_dispute=st.booleans(),
        role=st.sampled_from(Role),
    ),
    MsgType.DISPUTE: st.builds(Dispute, words),
    MsgType.BEACON: st.builds(
        Beacon, ids, st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=64)
    ),
    MsgType.BROADCAST: st.builds(
        Broadcast,
        topic=st.text(max_size=32),
        title=words,
        tags=st.lists(words, max_size=32).map(tuple),
        format=st.sampled_from(("audio", "text", "data")),
        content=st.none() | blobs,
        content_type=maybe_words,
        chunk_index=small,
        total_chunks=small,
        duration_ms=small,
        price_per_epoch_micro=large,
        epoch=large,
    ),
    MsgType.BOUNTY: st.builds(
        Bounty,
        required_capability=names,
        max_budget_usd=st.floats(0.01, 1e9),
        deadline_secs=st.integers(0, 1 << 32),
        task_summary=st.text(max_size=200),
        conversation_id=talks.map(bytes.hex),
    ),
}


@pytest.mark.parametrize("msg_type", MsgType)
@given(data=st.data())
def test_what_is_written_is_read(msg_type: MsgType, data: st.DataObject) -> None:
    payload = data.draw(PAYLOADS_MADE[msg_type])
    assert decode_payload(msg_type, payload.encode()) == payload


@pytest.mark.parametrize("msg_type", MsgType)
@given(data=st.binary(max_size=200))
def test_no_bytes_raise_anything_else(msg_type: MsgType, data: bytes) -> None:
    try:
        payload = decode_payload(msg_type, data)
    except PayloadParseError:
        return
    assert decode_payload(msg_type, payload.encode()) == payload


DEEP = b"[" * 60_000
HUGE = b'{"max_rounds":' + b"9" * 60_000 + b"}"


@pytest.mark.parametrize("msg_type", MsgType)
@pytest.mark.parametrize(
    "payload", [DEEP, b'{"query":' + DEEP, HUGE, bytes(16) + HUGE, b"\x9b" + b"\xff" * 8]
)
def test_hostile_payloads_are_read_or_refused(msg_type: MsgType, payload: bytes) -> None:
    try:
        decode_payload(msg_type, payload)
    except PayloadParseError:
        return
    assert msg_type in {
        MsgType.PROPOSE,
        MsgType.COUNTER,
        MsgType.ACCEPT,
        MsgType.REJECT,
        MsgType.DISPUTE,
        MsgType.NOTARIZE_ASSIGN,
        MsgType.NOTARIZE_BID,
        MsgType.VERDICT,
        MsgType.BEACON,
    }, "these have a part that may be anything"

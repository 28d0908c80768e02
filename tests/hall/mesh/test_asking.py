"""Text frames: the proof of a key, topics, the inbox, questions to the market."""

from base64 import b64decode
from collections.abc import Callable
from typing import Any

import pytest

from moothall.errors import NoCover, OutOfOrder, RateLimited, StoreUnreachable
from moothall.hall.mesh.connections import MAX_PER_KEY
from moothall.hall.mesh.frames import Balance, Cancelled, proof_text
from moothall.settings.limits import Rate
from moothall.wire.agentchat.signing import bound_nonce
from moothall.wire.mesh.envelope import encode
from moothall.wire.mesh.msg_types import MsgType
from tests.hall.mesh.town import CONVERSATION, Agent, Town
from tests.support.world import HALL_KEY

HALL = HALL_KEY.public.raw.hex()


# -- proof ---------------------------------------------------------------------------------------------


def test_a_key_is_proven_with_a_challenge() -> None:
    town = Town()
    alice = town.connect_agent("alice")
    challenge = alice.ask(type="prove", agent_id=alice.id.hex(), ref="1")
    assert (challenge["type"], challenge["hall"], challenge["ref"]) == ("challenge", HALL, "1")
    assert challenge["challenge"] == bound_nonce(HALL, challenge["random"], challenge["host"])
    signature = alice.key.sign_bytes(proof_text(challenge["challenge"], HALL, alice.id.hex()))
    assert alice.ask(type="prove", signature=signature.hex(), ref="2") == {
        "type": "proven",
        "agent_id": alice.id.hex(),
        "cursor": 0,
        "floor": town.room.floor,
        "ref": "2",
    }
    assert alice.guest.is_proven
    assert alice.ask(type="prove", agent_id=alice.id.hex())["code"] == "ALREADY_PROVEN"


def test_a_challenge_is_answered_once() -> None:
    town = Town()
    alice = town.connect_agent("alice")
    challenge = alice.ask(type="prove", agent_id=alice.id.hex())["challenge"]
    assert alice.ask(type="prove", signature="00" * 64)["code"] == "VERIFICATION_FAILED"
    signature = alice.key.sign_bytes(proof_text(challenge, HALL, alice.id.hex())).hex()
    assert alice.ask(type="prove", signature=signature)["code"] == "NO_CHALLENGE"
    alice.ask(type="prove", agent_id=alice.id.hex())
    assert alice.ask(type="prove", signature=signature)["code"] == "VERIFICATION_FAILED"
    assert not alice.guest.is_proven


def test_a_proof_for_another_hall_proves_nothing_here() -> None:
    town = Town()
    alice = town.connect_agent("alice")
    challenge = alice.ask(type="prove", agent_id=alice.id.hex())["challenge"]
    elsewhere = alice.key.sign_bytes(proof_text(challenge, "ff" * 32, alice.id.hex())).hex()
    assert alice.ask(type="prove", signature=elsewhere)["code"] == "VERIFICATION_FAILED"


def test_a_connection_proves_the_key_of_its_envelopes() -> None:
    town = Town()
    alice, bob = town.present("alice"), town.connect_agent("bob")
    alice.types()
    assert alice.ask(type="prove", agent_id=bob.id.hex())["code"] == "WRONG_KEY"
    assert alice.ask(type="prove", agent_id=HALL)["code"] == "WRONG_KEY"
    # It says that it has a key, and then sends an envelope of another one.
    bob.ask(type="prove", agent_id=alice.id.hex())
    bob.beacon()
    assert bob.ask(type="prove", signature="00" * 64)["code"] == "VERIFICATION_FAILED"
    assert bob.ask(type="prove")["code"] == "INVALID_FRAME"


def test_a_replayed_beacon_does_not_take_the_mail_of_a_proven_agent() -> None:
    town, elsewhere = Town(), Town()
    alice = town.present("alice")
    bob = town.connect_agent("bob")
    bob.prove()
    thief = town.connect_agent("thief")
    thief.post(encode(Agent(elsewhere, "bob", "192.0.2.8").beacon()))
    assert thief.guest.key == bob.id
    thief.types()
    bob.types()
    sent = alice.propose(bob)
    assert bob.envelopes() == [sent]
    assert thief.types() == []


def test_mail_to_an_agent_that_did_not_prove_its_key_stays_in_the_inbox_too() -> None:
    town, elsewhere = Town(), Town()
    alice = town.present("alice")
    thief = town.connect_agent("thief")
    thief.post(encode(Agent(elsewhere, "bob", "192.0.2.8").beacon()))
    alice.types()
    sent = alice.propose(thief.guest.key or b"")
    assert thief.envelopes() == [sent]
    assert alice.types() == []  # a connection of this key is here
    bob = town.connect_agent("bob")
    assert bob.prove()["cursor"] > 0
    (kept,) = bob.ask(type="inbox")["envelopes"]
    assert b64decode(kept["envelope"]) == encode(sent)


def test_several_connections_may_prove_one_key() -> None:
    town = Town()
    alice = town.present("alice")
    bobs = [town.connect_agent("bob") for _ in range(MAX_PER_KEY)]
    for bob in bobs:
        assert bob.prove()["type"] == "proven"
    assert town.connect_agent("bob").prove()["code"] == "TOO_MANY_CONNECTIONS"
    sent = alice.propose(bobs[0])
    assert all(bob.envelopes() == [sent] for bob in bobs)


# -- inbox ---------------------------------------------------------------------------------------------


def test_an_agent_that_comes_back_reads_its_inbox_from_its_cursor() -> None:
    town = Town()
    alice, bob = town.present("alice"), town.connect_agent("bob")
    sent = [alice.propose(bob, bytes([number]) * 16) for number in (1, 2, 3)]
    cursor = bob.prove()["cursor"]
    page = bob.ask(type="inbox", limit=2, ref="i")
    assert (page["type"], page["more"], page["lost"], page["ref"]) == ("inbox", True, 0, "i")
    assert [b64decode(kept["envelope"]) for kept in page["envelopes"]] == list(map(encode, sent[:2]))
    rest = bob.ask(type="inbox", after=page["cursor"])
    assert [b64decode(kept["envelope"]) for kept in rest["envelopes"]] == [encode(sent[2])]
    assert rest["cursor"] == cursor
    end = bob.ask(type="inbox", after=cursor)
    assert (end["envelopes"], end["cursor"], end["more"]) == ([], cursor, False)


def test_only_a_proven_connection_reads_what_is_its_own() -> None:
    town = Town()
    alice = town.present("alice")
    alice.types()
    order = {"conversation_id": CONVERSATION.hex(), "nonce": 1, "timestamp": 1, "signature": "00" * 64}
    questions: list[dict[str, Any]] = [
        {"type": "inbox"},
        {"type": "conversations"},
        {"type": "conversation", "conversation_id": CONVERSATION.hex()},
        {"type": "reputation"},
        {"type": "balance"},
        {"type": "cancel", **order},
        {"type": "consent", **order},
    ]
    for question in questions:
        assert alice.ask(**question, ref="q")["code"] == "PROOF_REQUIRED"
    assert town.dealings.asked == []


def test_without_an_inbox_there_is_nothing_to_read() -> None:
    alice = Town(inbox=False).connect_agent("alice")
    alice.prove()
    assert alice.ask(type="inbox")["code"] == "NO_INBOX"


# -- questions -----------------------------------------------------------------------------------------


def test_a_question_is_answered_with_its_ref_and_later_frames_wait() -> None:
    town = Town()
    alice = town.connect_agent("alice")
    alice.prove()
    town.dealings.answer = Balance(agent_id=alice.id.hex(), balance=5)
    town.dealings.waiting = waiting = list[Callable[[], None]]()
    alice.tell(type="balance", ref="b")
    alice.tell(type="subscribe", topic="news")
    assert alice.texts() == []
    assert alice.link.paused
    waiting.pop()()
    answers = alice.texts()
    assert answers[0] == {"type": "balance", "agent_id": alice.id.hex(), "balance": 5, "ref": "b"}
    assert answers[1]["type"] == "subscribed"
    assert not alice.link.paused


def test_the_reputation_of_an_agent_is_public() -> None:
    town = Town()
    alice = town.present("alice")
    alice.types()
    town.dealings.error = RateLimited("later")
    assert alice.ask(type="reputation", agent_id=alice.id.hex())["code"] == "RATE_LIMITED"
    assert len(town.dealings.asked) == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RateLimited("no"), "RATE_LIMITED"),
        (OutOfOrder("no"), "OUT_OF_ORDER"),
        (NoCover("no"), "NoCover"),
        (OSError(), "INTERNAL_ERROR"),
        (StoreUnreachable(), "UNAVAILABLE"),
    ],
)
def test_a_question_that_fails_is_answered(error: BaseException, code: str) -> None:
    town = Town()
    alice = town.connect_agent("alice")
    alice.prove()
    town.dealings.error = error
    answer = alice.ask(type="conversations", ref="c")
    assert (answer["type"], answer["code"], answer["ref"]) == ("error", code, "c")
    town.dealings.error, town.dealings.answer = None, Balance(agent_id="", balance=0)
    assert alice.ask(type="balance")["type"] == "balance"


def order(agent: Agent, word: Any, now: int, **changes: Any) -> dict[str, Any]:
    text = f"MOOTHALL_MESH_ORDER|{word}|{CONVERSATION.hex()}|7|{now}|{HALL}".encode()
    fields = {
        "type": word,
        "conversation_id": CONVERSATION.hex(),
        "nonce": 7,
        "timestamp": now,
        "signature": agent.key.sign_bytes(text).hex(),
    }
    return {**fields, **changes}


@pytest.mark.parametrize("word", ["cancel", "consent"])
def test_an_order_is_signed_for_this_hall_and_this_moment(word: str) -> None:
    town = Town()
    alice = town.connect_agent("alice")
    alice.prove()
    now = town.room.microseconds()
    other = {"cancel": "consent", "consent": "cancel"}[word]
    for wrong in (
        order(alice, word, now, nonce=8),
        order(alice, word, now, conversation_id="00" * 16),
        order(alice, word, now, type=other),
    ):
        assert alice.ask(**wrong)["code"] == "VERIFICATION_FAILED"
    assert alice.ask(**order(alice, word, now - 31_000_000))["code"] == "TIMESTAMP_OUT_OF_TOLERANCE"
    assert town.dealings.asked == []
    town.dealings.answer = Cancelled(conversation_id=CONVERSATION.hex(), state="CLOSED")
    assert alice.ask(**order(alice, word, now))["type"] == "cancelled"
    ((key, asked),) = town.dealings.asked
    assert (key, type(asked).__name__.lower()) == (alice.id, word)


# -- frames --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"not JSON", "INVALID_FRAME"),
        (b"[]", "INVALID_FRAME"),
        (b"{}", "UNKNOWN_TYPE"),
        (b'{"type":["prove"],"ref":"r"}', "UNKNOWN_TYPE"),
        (b'{"type":"dance","ref":"r"}', "UNKNOWN_TYPE"),
        (b'{"type":"inbox","limit":"many","ref":"r"}', "INVALID_FRAME"),
        (b'{"type":"inbox","ref":7}', "INVALID_FRAME"),
        (b'{"type":"inbox","x":' + b"[" * 3000, "INVALID_FRAME"),
        (b'{"type":"inbox","x":"' + b"y" * 5000 + b'"}', "TOO_LONG"),
    ],
)
def test_a_text_that_is_not_understood_is_answered_with_an_error(text: bytes, code: str) -> None:
    town = Town()
    alice = town.connect_agent("alice")
    town.room.receive(alice.guest, text)
    (answer,) = alice.texts()
    assert (answer["type"], answer["code"]) == ("error", code)
    assert answer.get("ref", "r") == "r"
    assert alice.link.closed is None


def test_questions_over_a_budget_wait() -> None:
    town = Town(budget_store=Rate(1000, 10))
    alice = town.connect_agent("alice")
    alice.prove()
    town.dealings.answer = Balance(agent_id="", balance=0)
    for _ in range(6):
        alice.tell(type="balance")
    answered = len(alice.texts())
    assert 0 < answered < 6
    town.advance(60)
    assert answered + len(alice.texts()) == 6


def test_a_client_that_never_sends_a_text_gets_no_acks() -> None:
    town = Town()
    alice, bob = town.present("alice"), town.present("bob")
    alice.types()
    alice.propose(bob)
    alice.send(MsgType.BOUNTY, b"{}")
    assert alice.types() == []

"""What participants are told besides the envelopes that they get."""

from msgspec import structs

from moothall.hall.mesh.frames import ConversationChanged, NotaryAssigned
from moothall.market import mesh_notices
from moothall.market.conversations import Conversation
from moothall.market.conversing import Dealt
from moothall.wire.mesh.msg_types import MsgType
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.support.envelopes import CONVERSATION, envelope

A, B, N = (agent.public.raw for agent in (ALICE, BOB, CAROL))
TALK = Conversation(
    id=CONVERSATION,
    requester=A,
    provider=B,
    state="COMMITTED",
    amount=100,
    offered_by=A,
    max_rounds=2,
    notary=N,
)
MESSAGE = ConversationChanged(conversation_id=CONVERSATION.hex(), state="COMMITTED", cause="message")


def test_both_parties_are_told_of_a_notary_that_is_assigned_and_the_notary_gets_an_envelope() -> None:
    accept = envelope(BOB, MsgType.ACCEPT, to=ALICE, conversation_id=CONVERSATION)
    told = mesh_notices.of_envelope(Dealt(TALK, changed=True, assigned=N, fee=10), accept)
    notice = NotaryAssigned(conversation_id=CONVERSATION.hex(), notary=N.hex(), fee=10)
    assert told == ((A, notice), (B, notice))


def test_the_notary_is_told_of_each_delivery() -> None:
    deliver = envelope(BOB, MsgType.DELIVER, to=ALICE, conversation_id=CONVERSATION)
    for changed in (True, False):  # the second one follows a rejecting verdict
        assert mesh_notices.of_envelope(Dealt(TALK, changed=changed), deliver) == ((N, MESSAGE),)


def test_the_other_party_is_told_of_a_dispute_that_goes_to_the_notary() -> None:
    dispute = envelope(ALICE, MsgType.DISPUTE, to=CAROL, conversation_id=CONVERSATION)
    assert mesh_notices.of_envelope(Dealt(TALK, changed=True), dispute) == ((B, MESSAGE),)


def test_what_changes_nothing_or_is_published_is_not_told() -> None:
    counter = envelope(BOB, MsgType.COUNTER, to=ALICE, conversation_id=CONVERSATION)
    assert mesh_notices.of_envelope(Dealt(TALK, changed=False), counter) == ()
    feedback = envelope(BOB, MsgType.FEEDBACK, conversation_id=CONVERSATION)
    assert mesh_notices.of_envelope(Dealt(TALK, changed=True), feedback) == ()


def test_an_agent_sees_the_state_that_its_own_feedback_left() -> None:
    rated = structs.replace(TALK, state="RESOLVED", ratings=((N, A),))
    verdict = envelope(ALICE, MsgType.VERDICT, to=BOB, conversation_id=CONVERSATION)
    ((key, notice),) = mesh_notices.of_envelope(Dealt(rated, changed=True), verdict)
    assert (key, notice) == (N, structs.replace(MESSAGE, state="CLOSED"))


def test_a_change_without_an_envelope_names_its_cause() -> None:
    notice = mesh_notices.of_change(TALK, "timeout")
    assert notice == structs.replace(MESSAGE, cause="timeout")

"""What the sender of an envelope is told of it: each reply names the envelope."""

import pytest

from moothall.errors import Banned, MoothallError, NoCover, OutOfOrder, StoreUnreachable
from moothall.hall.mesh import replies
from moothall.hall.mesh.frames import NotInOrder, Refused
from moothall.wire.mesh.msg_types import MsgType
from tests.identity.vectors import ALICE, BOB
from tests.support.envelopes import CONVERSATION, envelope

ENVELOPE = envelope(ALICE, MsgType.ACCEPT, to=BOB, conversation_id=CONVERSATION, nonce=7)


def test_every_reply_names_the_envelope() -> None:
    for reply in (
        replies.accepted(ENVELOPE, "COMMITTED"),
        replies.refused(ENVELOPE, "WrongSender", "another key"),
        replies.offline(ENVELOPE, stored=True),
        replies.not_taken(ENVELOPE, OutOfOrder("no", "CLOSED")),
    ):
        named = (reply.msg_type, reply.nonce, reply.conversation_id)
        assert named == ("ACCEPT", 7, CONVERSATION.hex())
    assert replies.offline(ENVELOPE, stored=True).recipient == BOB.public.raw.hex()


def test_out_of_order_tells_the_state() -> None:
    reply = replies.not_taken(ENVELOPE, OutOfOrder("The conversation is CLOSED", "CLOSED"))
    assert isinstance(reply, NotInOrder)
    assert (reply.state, reply.reason) == ("CLOSED", "The conversation is CLOSED")


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (Banned("You are banned"), "BANNED"),
        (NoCover("There are 3 credits"), "NoCover"),
        (MoothallError("a secret of ours"), "InternalError"),
        (RuntimeError("a secret of ours"), "InternalError"),
        (StoreUnreachable("a secret of ours"), "UNAVAILABLE"),
    ],
)
def test_a_refusal_has_the_code_of_its_error(error: Exception, fault: str) -> None:
    reply = replies.not_taken(ENVELOPE, error)
    assert isinstance(reply, Refused)
    assert reply.fault == fault
    assert "secret" not in reply.reason

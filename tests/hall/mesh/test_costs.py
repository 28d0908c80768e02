"""What envelopes and text frames cost."""

from typing import get_args

import pytest

from moothall.hall.mesh import costs
from moothall.hall.mesh.costs import ENVELOPE_FRAMES, envelope_price, frame_price, inbox_price, question_price
from moothall.hall.mesh.frames import Cancel, ListConversations, Question
from moothall.wire.mesh.msg_types import MsgType
from tests.support.mesh import vector_envelope


def test_an_envelope_costs_its_address_more_frames_than_a_text() -> None:
    assert frame_price(100, is_text=False) == (ENVELOPE_FRAMES, 100, 0, 0)
    assert frame_price(100, is_text=True) == (1, 100, 0, 0)


@pytest.mark.parametrize("msg_type", MsgType)
def test_every_type_has_a_price_that_grows_with_its_audience_and_size(msg_type: MsgType) -> None:
    envelope = vector_envelope(msg_type.name)
    small = envelope_price(envelope, 300, 10)
    assert small.told == 10
    assert (small.store > 0) == (msg_type is not MsgType.BEACON)
    large = envelope_price(envelope, 65_000, 10)
    assert large.told > 10
    assert large.store >= small.store


def test_every_question_has_a_price() -> None:
    assert set(costs._QUESTIONS) == set(get_args(Question))
    assert question_price(ListConversations(limit=50)).told == 50
    order = Cancel(conversation_id="00" * 16, nonce=1, timestamp=1, signature="00" * 64)
    assert question_price(order).frames > 0
    assert inbox_price(100).store > inbox_price(1).store > 0

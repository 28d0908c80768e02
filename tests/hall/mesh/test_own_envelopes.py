"""Envelopes of the hall itself."""

from moothall.hall.mesh.own_envelopes import OwnEnvelopes
from moothall.identity.signatures import verify
from moothall.wire.mesh.envelope import signing_bytes
from moothall.wire.mesh.msg_types import MsgType
from tests.support.world import HALL_KEY, NOON, Clock


def test_the_hall_signs_and_never_repeats_a_nonce() -> None:
    clock = Clock()
    own = OwnEnvelopes(HALL_KEY.public.raw, HALL_KEY.sign_bytes, clock.time)
    made = [own.make(MsgType.BROADCAST, b"x") for _ in range(3)]
    clock.move_to(60)
    made.append(own.make(MsgType.NOTARIZE_ASSIGN, b"y", recipient=b"r" * 32, conversation_id=b"c" * 16))
    assert len({envelope.nonce for envelope in made}) == 4
    assert [envelope.nonce for envelope in made] == sorted(envelope.nonce for envelope in made)
    assert made[0].timestamp == NOON * 1_000_000
    assert made[3].timestamp == (NOON + 60) * 1_000_000
    for envelope in made:
        assert envelope.sender == HALL_KEY.public.raw
        assert verify(envelope.sender, signing_bytes(envelope), envelope.signature)

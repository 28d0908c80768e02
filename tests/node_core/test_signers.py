"""The keys of a node's agents, and the envelopes that they sign."""

from itertools import count

import pytest

from moothall.errors import NodeRefused
from moothall.identity import PrivateKey
from moothall.identity.signatures import verify
from moothall.node.signers import Signers
from moothall.wire.mesh.envelope import MAX_ENVELOPE, decode, encode
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.nonces import ReplayGuard
from moothall.wire.mesh.validation import validate

NOW = 1_800_000_000_000_000
SEED = b"a" * 32
ALICE = PrivateKey(SEED).public.raw


def signers() -> Signers:
    numbers = count(1)
    made = Signers(lambda: NOW, lambda: next(numbers))
    made.add(ALICE, SEED)
    return made


def test_an_envelope_passes_the_rules_of_a_receiver() -> None:
    made = signers()
    for nonce in (1, 2):
        envelope = made.seal(
            ALICE, MsgType.PROPOSE, b"x" * 16, recipient=b"b" * 32, conversation_id=b"c" * 16
        )
        validate(decode(encode(envelope)), topic=None, verify=verify, guard=ReplayGuard(), now=NOW)
        assert (envelope.sender, envelope.nonce, envelope.timestamp) == (ALICE, nonce, NOW)


def test_an_agent_that_was_removed_signs_nothing() -> None:
    made = signers()
    assert verify(ALICE, b"text", made.sign(ALICE, b"text"))
    made.remove(ALICE)
    made.remove(ALICE)
    assert ALICE not in made
    with pytest.raises(KeyError):
        made.sign(ALICE, b"text")


def test_a_payload_that_is_too_long() -> None:
    with pytest.raises(NodeRefused, match="cannot be sent") as refused:
        signers().seal(ALICE, MsgType.ADVERTISE, bytes(MAX_ENVELOPE))
    assert refused.value.status == 413

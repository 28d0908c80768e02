"""The abuse benchmark has a row for every message type, and its rows are what they say."""

from typing import get_args

import msgspec
import pytest
from benchmarks.agents import frame, key_of
from benchmarks.attack import Attack, Attacker, describe
from benchmarks.attacks import AGENTCHAT, ATTACKS, KEEP
from benchmarks.mesh_attacks import MESH, TEXTS

from moothall.hall.keep.routing import DISCOVER, EXTENSIONS, QUESTIONS, RESERVED
from moothall.hall.mesh.frames import AGENT_FRAMES, decode_agent_frame
from moothall.identity.signatures import verify
from moothall.wire.agentchat.codec import decode
from moothall.wire.agentchat.requests import AnyClientMessage
from moothall.wire.keep.codec import open_packet
from moothall.wire.mesh.envelope import decode as decode_envelope
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.validation import prove
from moothall.wire.websocket import BINARY, TEXT, FrameReader

MAX_FRAME = 256 * 1024


def attacker() -> Attacker:
    return Attacker(number=3, id="@12345678", target="@87654321", key=key_of("attacker-3"))


def test_every_message_type_has_a_row() -> None:
    types = {message.__struct_config__.tag for message in get_args(AnyClientMessage)}
    assert {attack.name for attack in AGENTCHAT} == types


def test_every_keep_destination_has_a_row() -> None:
    destinations = {
        *RESERVED,
        *(DISCOVER + question for question in QUESTIONS),
        *(dst for dst, _ in EXTENSIONS),
    }
    assert {attack.name for attack in KEEP} == destinations


def test_every_message_of_the_mesh_has_a_row() -> None:
    assert {attack.name for attack in MESH} == {msg_type.name for msg_type in MsgType}
    assert {attack.name for attack in TEXTS} == AGENT_FRAMES


def test_rows_have_names_of_their_own() -> None:
    assert len({describe(attack) for attack in ATTACKS}) == len(ATTACKS)


@pytest.mark.parametrize("attack", AGENTCHAT, ids=describe)
def test_a_row_sends_valid_messages_of_its_type(attack: Attack) -> None:
    reader = FrameReader(MAX_FRAME)
    payloads = [payload for sent in attack.frames(attacker()) for _, payload in reader.feed(sent)]
    types = {decode(payload).__struct_config__.tag for payload in payloads}
    assert attack.name in types


@pytest.mark.parametrize("attack", KEEP, ids=describe)
def test_a_row_sends_signed_packets_to_its_destination(attack: Attack) -> None:
    (first, *_) = attack.frames(attacker())
    packet, signed, _ = open_packet(first[4:])
    assert packet.dst.startswith(attack.name)
    assert verify(packet.pk, signed, packet.sig)


@pytest.mark.parametrize("attack", MESH, ids=describe)
def test_a_row_sends_signed_envelopes_of_its_type(attack: Attack) -> None:
    (first, *_) = attack.frames(attacker())
    ((opcode, payload),) = FrameReader(MAX_FRAME).feed(first)
    envelope = decode_envelope(payload)
    assert (opcode, envelope.msg_type.name) == (BINARY, attack.name)
    prove(envelope, verify)


@pytest.mark.parametrize("attack", TEXTS, ids=describe)
def test_a_row_sends_valid_text_frames_of_its_type(attack: Attack) -> None:
    (first, *_) = attack.frames(attacker())
    ((opcode, payload),) = FrameReader(MAX_FRAME).feed(first)
    assert opcode == TEXT
    assert decode_agent_frame(payload).__struct_config__.tag == attack.name


def test_frames_are_masked_with_zeros() -> None:
    (event,) = FrameReader(MAX_FRAME).feed(frame(msgspec.json.encode({"type": "PING"})))
    assert event[1] == b'{"type":"PING"}'

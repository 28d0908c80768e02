"""Text frames of the mesh: their JSON, and what is signed."""

import contextlib
import json
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.mesh import frames
from moothall.hall.mesh.frames import (
    AskReputation,
    Cancel,
    Consent,
    ConversationChanged,
    Inbox,
    Kept,
    Prove,
    ReadInbox,
    Refused,
    Subscribe,
    decode_agent_frame,
    decode_hall_frame,
    encode_frame,
    proof_text,
)

AGENT = "ab" * 32
CONVERSATION = "0c" * 16


def test_a_question_is_read_with_its_ref() -> None:
    assert decode_agent_frame(b'{"type":"inbox","after":7,"ref":"r1","more":"ignored"}') == ReadInbox(
        after=7, ref="r1"
    )
    assert decode_agent_frame(b'{"type":"reputation"}') == AskReputation()
    assert decode_agent_frame(f'{{"type":"prove","agent_id":"{AGENT}","acks":true}}') == Prove(
        agent_id=AGENT, acks=True
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"inbox","after":-1}',
        '{"type":"inbox","limit":101}',
        '{"type":"conversation","conversation_id":"0C"}',
        '{"type":"subscribe","topic":""}',
        f'{{"type":"prove","agent_id":"{AGENT.upper()}"}}',
        '{"type":"no_such_frame"}',
        "[]",
        "null",
    ],
)
def test_what_is_no_question_is_refused(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_agent_frame(text.encode())


def test_an_answer_has_no_members_without_a_value() -> None:
    assert json.loads(encode_frame(Refused(fault="CborDecode", reason="no"))) == {
        "type": "refused",
        "fault": "CborDecode",
        "reason": "no",
    }


@pytest.mark.parametrize(
    "frame",
    [
        Inbox(envelopes=(Kept(cursor=5, envelope="AAAA"),), cursor=5, more=False, lost=0, ref="x"),
        ConversationChanged(conversation_id=CONVERSATION, state="RESOLVED", cause="review"),
        Refused(fault="WrongRoute", reason="no", msg_type="PROPOSE", nonce=2**64 - 1),
    ],
)
def test_frames_of_the_hall_come_back(frame: frames.HallFrame) -> None:
    assert decode_hall_frame(encode_frame(frame)) == frame


def test_every_question_has_its_own_type() -> None:
    assert decode_agent_frame(encode_frame(Subscribe(topic="news"))) == Subscribe(topic="news")
    order = Cancel(conversation_id=CONVERSATION, nonce=1, timestamp=2, signature="00" * 64)
    assert decode_agent_frame(encode_frame(order)) == order


@given(st.binary(max_size=200))
def test_no_text_raises_more_than_a_decode_error(data: bytes) -> None:
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        decode_agent_frame(data)


def test_what_is_signed_names_the_hall_and_the_order() -> None:
    assert proof_text("c0", "ha", AGENT) == f"MOOTHALL_MESH_PROOF|c0|ha|{AGENT}".encode()
    for order, word in ((Cancel, "cancel"), (Consent, "consent")):
        text = order(conversation_id=CONVERSATION, nonce=7, timestamp=8, signature="").text("ha")
        assert text == f"MOOTHALL_MESH_ORDER|{word}|{CONVERSATION}|7|8|ha".encode()


# -- the docs ------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[3] / "docs" / "wire-mesh.md").read_text()
AT_A_HALL = PAGE.partition("\n## At a hall\n")[2].partition("\n## ")[0]


def documented(kind: str) -> str:
    """The rows of the tables that are about this type of frame."""
    return "\n".join(line for line in AT_A_HALL.splitlines() if line.startswith("|") and f"`{kind}`" in line)


@pytest.mark.parametrize(
    "frame", [*get_args(frames.AgentFrame), *get_args(frames.HallFrame)], ids=lambda frame: frame.__name__
)
def test_the_docs_have_every_frame_with_its_fields(frame: type[frames.Frame]) -> None:
    kind = str(frame.__struct_config__.tag)
    if frame is frames.Error:
        rows = AT_A_HALL
    elif frame is frames.Reputation:
        return  # its fields are those of the vector
    else:
        rows = documented(kind)
    fields = [name for name in frame.__struct_fields__ if name != "ref"]
    assert rows
    assert [name for name in fields if f"`{name}`" not in rows and f'"{name}"' not in rows] == []

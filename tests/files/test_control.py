"""The messages of a transfer: as the vectors have them, within one MSG, and whatever others send."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.files import control
from moothall.files.control import Ack, Chunk, Offer, OfferedFile, Unknown, decode, encode, encode_offer
from moothall.wire.agentchat.jstext import utf16_length
from tests.files.trees import VECTORS

MESSAGES = [
    message["content"]
    for each in VECTORS["messages"].values()
    for message in (each if isinstance(each, list) else [each])
]


@pytest.mark.parametrize("content", MESSAGES)
def test_the_vectors_in_both_directions(content: str) -> None:
    message = decode(content)
    assert message is not None
    assert not isinstance(message, Unknown)
    assert encode(message) == content


@given(st.lists(st.text(max_size=300), max_size=60), st.integers(400, 5000))
def test_an_offer_fits_into_a_message(names: list[str], room: int) -> None:
    files = [OfferedFile(name, number) for number, name in enumerate(names) if control_safe(name)]
    offer = Offer("0" * 16, files, 1, "0" * 64, 1, "alice", resume=True)
    text = encode_offer(offer, room)
    assert utf16_length(text) <= room
    found = decode(text)
    assert isinstance(found, Offer)
    assert found.files == files[: len(found.files)]
    assert len(found.files) + found.more == len(files)
    if found.more:  # there is no room for one more
        assert (
            utf16_length(encode(msgspec.structs.replace(offer, files=files[: len(found.files) + 1])))
            > room - 10
        )


def control_safe(name: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in name)


def test_names_are_not_taken_for_markers() -> None:
    """A hall takes `@@cb:...@@` out of messages."""
    offer = Offer("0" * 16, [OfferedFile("@@cb:5s@@x", 1), OfferedFile("@@@", 1)], 1, "0" * 64, 1)
    text = encode_offer(offer)
    assert "@@" not in text
    assert decode(text) == offer


@pytest.mark.parametrize(
    "content",
    ["hello", "", '"_ft"', '["_ft"]', '{"_ft" ', '{"_ft": 5}', '{"a": "_ft"}', '{"a": {"_ft": "ack"}}'],
)
def test_chat_is_chat(content: str) -> None:
    assert decode(content) is None


@pytest.mark.parametrize(
    "content",
    [
        '{"_ft": "dance"}',
        '{"_ft": "ack", "tid": "x"}',
        '{"_ft": "accept", "tid": "../x"}',
        '{"_ft": "accept", "tid": ""}',
        '{"_ft": "offer", "tid": "x", "files": [], "totalSize": -1, "sha256": "%s", "chunks": 1}'
        % ("0" * 64),
        '{"_ft": "offer", "tid": "x", "files": [], "totalSize": 1, "sha256": "%s", "chunks": 0}' % ("0" * 64),
        '{"_ft": "offer", "tid": "x", "files": [], "totalSize": 1, "sha256": "%s", "chunks": 9999}'
        % ("0" * 64),
        '{"_ft": "offer", "tid": "x", "files": [], "totalSize": 1, "sha256": "no", "chunks": 1}',
    ],
)
def test_wrong_messages_are_no_chat(content: str) -> None:
    assert decode(content) == Unknown()


def test_half_a_character() -> None:
    message = decode(r'{"_ft":"chunk","tid":"x","idx":0,"total":1,"data":"\ud83d"}')
    assert message == Chunk("x", 0, 1, "\ud83d")
    assert json.loads(encode(Ack("x", ok=False, error="\ud83d")))["error"] == "\ud83d"


@given(st.one_of(st.text(), st.text().map(lambda text: '{"_ft":"' + text)))
def test_any_text_has_an_answer(content: str) -> None:
    decode(content)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner)))
def test_any_fields_have_an_answer(value: object) -> None:
    for kind in ("offer", "accept", "chunk", "complete", "ack", "cancel", "reject"):
        decode(
            json.dumps({"_ft": kind, "tid": "x", "files": value, "idx": value, "ok": value, "have": value})
        )


def test_what_is_kept_of_an_offer_is_bounded() -> None:
    files = [OfferedFile("x" * 5000, 1)] * 1000
    kept = control.trimmed(Offer("x", files, 1, "0" * 64, 1, "n" * 5000))
    assert (len(kept.files), kept.more, len(kept.files[0].name), kept.sender_nick) == (200, 800, 1024, "")


# -- which chunks have arrived -----------------------------------------------------------------------------


@given(st.sets(st.integers(0, 500)))
def test_ranges_are_read_as_they_were(here: set[int]) -> None:
    assert control.indices(control.ranges(sorted(here)), 501) == here


def test_ranges_of_many_holes_leave_some_out() -> None:
    text = control.ranges(range(0, 8192, 2))
    assert len(text) < 3010
    assert control.indices(text, 8192) < set(range(0, 8192, 2))


@given(st.text(st.sampled_from("0123456789-,x²"), max_size=40))
def test_nonsense_lists_no_chunk_beyond_the_last(text: str) -> None:
    assert all(0 <= idx < 10 for idx in control.indices(text, 10))

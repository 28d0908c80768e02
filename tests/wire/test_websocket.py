"""RFC 6455 as a table: what a client sends, what the reader makes of it, and the close code it is refused with.

The same table is run over a real socket by tests/gateways/test_websocket.py.
"""

import tracemalloc
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from websockets.frames import Frame as LibraryFrame
from websockets.frames import Opcode

from moothall.wire.websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    INVALID_TEXT,
    MAX_CONTROL_PAYLOAD,
    MAX_REASON,
    MAX_TEXTS,
    NORMAL,
    PIECE,
    PING,
    PONG,
    PROTOCOL_ERROR,
    TEXT,
    TOO_BIG,
    FrameReader,
    Violation,
    decode_close,
    encode_close,
    encode_frame,
    encode_text,
    is_valid_close_code,
)
from tests.support.sockets import chopped, closing, frame, text

Event = tuple[int, bytes]

MAX_MESSAGE: Final = 1024 * 1024
CHOPS: Final = (1, 2, 3, 7, 64)  # bytes per delivery, besides all at once
LONG: Final = 4096  # bytes from which one at a time takes too long


class Case(NamedTuple):
    name: str
    sent: bytes
    events: tuple[Event, ...] = ()
    refused: int | None = None  # the close code of the violation that ends it
    incomplete: bool = False  # ends inside a frame


def _framing() -> Iterator[Case]:
    for size in (0, 1, 125, 126, 127, 128, 65535, 65536):
        yield Case(f"text of {size}", frame(TEXT, b"*" * size), ((TEXT, b"*" * size),))
        yield Case(f"binary of {size}", frame(BINARY, b"\xfe" * size), ((BINARY, b"\xfe" * size),))
    yield Case(
        "three messages in one delivery",
        text("one") + frame(BINARY, b"\0two") + text("three"),
        ((TEXT, b"one"), (BINARY, b"\0two"), (TEXT, b"three")),
    )
    for name, mask in (("zeros", b"\0\0\0\0"), ("ones", b"\xff\xff\xff\xff")):
        yield Case(f"masked with {name}", frame(TEXT, b"plain", mask=mask), ((TEXT, b"plain"),))
    for size, length_bytes in ((0, 2), (125, 2), (0, 8), (126, 8), (65535, 8)):
        sent = frame(TEXT, b"*" * size, length_bytes=length_bytes)
        yield Case(f"{size} written in {length_bytes} bytes", sent, (), PROTOCOL_ERROR)
    sent = frame(BINARY, announced=1 << 63)
    yield Case("length with its highest bit set", sent, (), PROTOCOL_ERROR)
    for opcode in (TEXT, BINARY, CONTINUATION, PING, PONG, CLOSE):
        yield Case(f"opcode {opcode} unmasked", frame(opcode, b"", mask=None), (), PROTOCOL_ERROR)
    sent = text("good") + frame(TEXT, b"bad", mask=None) + text("late")
    yield Case("unmasked after a good one", sent, ((TEXT, b"good"),), PROTOCOL_ERROR)


def _pings() -> Iterator[Case]:
    for payload in (b"", b"ping", b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff", b"\xfe" * MAX_CONTROL_PAYLOAD):
        yield Case(f"ping of {len(payload)}", frame(PING, payload), ((PING, payload),))
    for opcode in (PING, PONG, CLOSE):
        sent = frame(opcode, b"\x03\xe8" + b"x" * 124)
        yield Case(f"opcode {opcode} with 126 bytes", sent, (), PROTOCOL_ERROR)
        sent = frame(opcode, b"", announced=65536)
        yield Case(f"opcode {opcode} announcing 65536 bytes", sent, (), PROTOCOL_ERROR)
    ten = [f"ping {n}".encode() for n in range(10)]
    yield Case("ten pings", b"".join(frame(PING, n) for n in ten), tuple((PING, n) for n in ten))
    yield Case("unsolicited pong", frame(PONG, b"nobody asked"), ((PONG, b"nobody asked"),))
    yield Case("unsolicited empty pong", frame(PONG), ((PONG, b""),))
    yield Case("pong, then ping", frame(PONG, b"a") + frame(PING, b"b"), ((PONG, b"a"), (PING, b"b")))


def _reserved_bits() -> Iterator[Case]:
    for bits in range(1, 8):
        for opcode in (TEXT, BINARY, PING, PONG, CLOSE):
            sent = text("good") + frame(opcode, b"", reserved=bits) + frame(PING)
            yield Case(f"bits {bits:03b} on opcode {opcode}", sent, ((TEXT, b"good"),), PROTOCOL_ERROR)
    sent = text("frag", final=False) + frame(CONTINUATION, b"ment", reserved=4)
    yield Case("bits 100 on a continuation", sent, (), PROTOCOL_ERROR)


def _reserved_opcodes() -> Iterator[Case]:
    for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15):
        for payload in (b"", b"payload"):
            sent = text("good") + frame(opcode, payload) + frame(PING)
            name = f"opcode {opcode} with {len(payload)} bytes"
            yield Case(name, sent, ((TEXT, b"good"),), PROTOCOL_ERROR)
    sent = text("frag", final=False) + frame(3, b"ment")
    yield Case("opcode 3 inside a message", sent, (), PROTOCOL_ERROR)


def _fragmentation() -> Iterator[Case]:
    for opcode in (TEXT, BINARY):
        start = frame(opcode, b"fragment1", final=False)
        middle = frame(CONTINUATION, b"", final=False)
        end = frame(CONTINUATION, b"fragment2")
        whole = (opcode, b"fragment1fragment2")
        ping = frame(PING, b"ping")
        yield Case(f"opcode {opcode} in two", start + end, (whole,))
        yield Case(f"opcode {opcode} in three, one empty", start + middle + end, (whole,))
        yield Case(f"opcode {opcode}, ping between", start + ping + end, ((PING, b"ping"), whole))
        sent = start + ping + middle + frame(PONG, b"pong") + ping + end + ping
        events = ((PING, b"ping"), (PONG, b"pong"), (PING, b"ping"), whole, (PING, b"ping"))
        yield Case(f"opcode {opcode}, control frames everywhere", sent, events)
        empty = frame(opcode, b"", final=False) + middle + frame(CONTINUATION)
        yield Case(f"opcode {opcode} in three empty ones", empty, ((opcode, b""),))
        yield Case(
            f"opcode {opcode}, only the last not empty",
            frame(opcode, b"", final=False) + middle + end,
            ((opcode, b"fragment2"),),
        )
        for new in (TEXT, BINARY):
            for final in (True, False):
                sent = start + frame(new, b"new", final=final) + end
                name = f"opcode {new}, final {final}, inside opcode {opcode}"
                yield Case(name, sent, (), PROTOCOL_ERROR)
        for stray in (frame(CONTINUATION, b"stray"), frame(CONTINUATION, b"stray", final=False)):
            final = bool(stray[0] & 0x80)
            name = f"continuation, final {final}, after a finished opcode {opcode}"
            yield Case(name, start + end + stray + end, (whole,), PROTOCOL_ERROR)
    for final in (True, False):
        sent = frame(CONTINUATION, b"stray", final=final) + text("late")
        yield Case(f"continuation first, final {final}", sent, (), PROTOCOL_ERROR)
    for opcode in (PING, PONG, CLOSE):
        sent = frame(opcode, b"", final=False) + frame(CONTINUATION)
        yield Case(f"opcode {opcode} fragmented", sent, (), PROTOCOL_ERROR)
    two = text("a", final=False) + frame(CONTINUATION, b"b") + frame(BINARY, b"c", final=False)
    sent = two + frame(CONTINUATION, b"d")
    yield Case("one fragmented message after another", sent, ((TEXT, b"ab"), (BINARY, b"cd")))


VALID_TEXTS: Final = (
    "Hello-µ@ßöäüàá-UTF-8!!",
    "κόσμε",
    "日本語",
    "😀",
    *map(chr, (0x00, 0x7F, 0x80, 0x7FF, 0x800, 0xFFF, 0x1000, 0xCFFF, 0xD000, 0xD7FF)),
    *map(chr, (0xE000, 0xFDD0, 0xFFFD, 0xFFFE, 0xFFFF, 0x10000, 0x1FFFE, 0x3FFFF, 0x40000, 0x10FFFF)),
)
# What may still become a character, and the byte that shows it never will.
WRONG_BYTES: Final = (
    (b"", b"\x80"),
    (b"", b"\xbf"),
    (b"", b"\xc0"),  # overlong
    (b"", b"\xc1"),
    (b"\xe0", b"\x80"),
    (b"\xe0", b"\x9f"),
    (b"\xf0", b"\x80"),
    (b"\xf0", b"\x8f"),
    (b"\xed", b"\xa0"),  # surrogates
    (b"\xed", b"\xbf"),
    (b"\xf4", b"\x90"),  # above U+10FFFF
    (b"\xf4", b"\xbf"),
    (b"", b"\xf5"),
    (b"", b"\xf8"),
    (b"", b"\xfc"),
    (b"", b"\xfe"),
    (b"", b"\xff"),
    (b"\xc2", b"A"),  # not continued
    (b"\xc2", b"\xc2"),
    (b"\xe2", b"A"),
    (b"\xe2\x82", b"A"),
    (b"\xf0\x9f", b"A"),
    (b"\xf0\x9f\x98", b"\xc2"),
)
CUT_SHORT: Final = (
    b"\xc2",
    b"\xe2",
    b"\xe2\x82",
    b"\xed\x9f",
    b"\xf0",
    b"\xf0\x9f",
    b"\xf0\x9f\x98",
    b"\xf4\x8f",
)


def _fragment_each_byte(payload: bytes) -> bytes:
    pieces = [bytes((byte,)) for byte in payload]
    start = frame(TEXT, pieces[0], final=False)
    return start + b"".join(
        frame(CONTINUATION, piece, final=index == len(pieces)) for index, piece in enumerate(pieces[1:], 2)
    )


def _utf8() -> Iterator[Case]:
    for content in VALID_TEXTS:
        payload = b"(" + content.encode() + b")"
        name = ascii(content)
        yield Case(f"{name}", frame(TEXT, payload), ((TEXT, payload),))
        yield Case(f"{name}, a fragment per byte", _fragment_each_byte(payload), ((TEXT, payload),))
    for start, wrong in WRONG_BYTES:
        payload = "κόσμε".encode() + start + wrong + b"edited"
        name = (start + wrong).hex(" ")
        yield Case(f"{name}", frame(TEXT, payload), (), INVALID_TEXT)
        yield Case(f"{name}, a fragment per byte", _fragment_each_byte(payload), (), INVALID_TEXT)
        sent = frame(TEXT, start + wrong, announced=1000)
        yield Case(f"{name}, before the frame is complete", sent, (), INVALID_TEXT)
        sent = text("κό", final=False) + frame(CONTINUATION, start + wrong, final=False)
        yield Case(f"{name}, before the message is complete", sent, (), INVALID_TEXT)
        yield Case(f"{name} in binary", frame(BINARY, payload), ((BINARY, payload),))
    for end in CUT_SHORT:
        payload = b"end" + end
        yield Case(f"{end.hex(' ')} at the end", frame(TEXT, payload), (), INVALID_TEXT)
        fragments = _fragment_each_byte(payload)
        yield Case(f"{end.hex(' ')} at the end, a fragment per byte", fragments, (), INVALID_TEXT)
        sent = frame(TEXT, payload, announced=1000)
        yield Case(f"{end.hex(' ')}, which may go on", sent, incomplete=True)
        sent = frame(TEXT, payload, final=False) + frame(PING)
        yield Case(f"{end.hex(' ')}, ping inside the character", sent, ((PING, b""),), incomplete=True)
    sent = text("good") + frame(TEXT, b"\xff") + text("late")
    yield Case("after a good one", sent, ((TEXT, b"good"),), INVALID_TEXT)


VALID_CODES: Final = (*range(1000, 1004), *range(1007, 1015), 3000, 3999, 4000, 4999)
INVALID_CODES: Final = (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535)


def _closing() -> Iterator[Case]:
    yield Case("no body", frame(CLOSE), ((CLOSE, b""),))
    yield Case("half a code", frame(CLOSE, b"\x03"), (), PROTOCOL_ERROR)
    for code in VALID_CODES:
        yield Case(f"code {code}", closing(code), ((CLOSE, code.to_bytes(2, "big")),))
    for code in INVALID_CODES:
        yield Case(f"code {code}", closing(code), (), PROTOCOL_ERROR)
        yield Case(f"code {code} with a reason", closing(code, b"bye"), (), PROTOCOL_ERROR)
    for reason in (b"Hello World!", "κόσμε".encode(), b"*" * MAX_REASON):
        sent = closing(NORMAL, reason)
        yield Case(f"a reason of {len(reason)}", sent, ((CLOSE, b"\x03\xe8" + reason),))
    yield Case("a reason too long", closing(NORMAL, b"*" * (MAX_REASON + 1)), (), PROTOCOL_ERROR)
    yield Case("a reason that is not UTF-8", closing(NORMAL, b"\xce\xba\xff"), (), INVALID_TEXT)
    yield Case("a reason cut inside a character", closing(NORMAL, b"\xf0\x9f"), (), INVALID_TEXT)
    bye = (CLOSE, b"\x03\xe8")
    yield Case("after a message", text("last") + closing(NORMAL), ((TEXT, b"last"), bye))
    yield Case("twice", closing(NORMAL) + closing(1001), (bye,))
    yield Case("data after it", closing(NORMAL) + text("late"), (bye,))
    yield Case("ping after it", closing(NORMAL) + frame(PING), (bye,))
    yield Case("nonsense after it", closing(NORMAL) + b"\xff" * 20, (bye,))
    yield Case("inside a message", text("unfinished", final=False) + closing(NORMAL), (bye,))
    sent = text("one") + frame(PING, b"two") + frame(BINARY, b"three") + frame(15) + text("late")
    answered = ((TEXT, b"one"), (PING, b"two"), (BINARY, b"three"))
    yield Case("by a violation, after all before it", sent, answered, PROTOCOL_ERROR)


GROUPS: Final = {
    "framing": _framing,
    "pings": _pings,
    "reserved bits": _reserved_bits,
    "reserved opcodes": _reserved_opcodes,
    "fragmentation": _fragmentation,
    "utf-8": _utf8,
    "closing": _closing,
}
CASES: Final = {f"{group}: {case.name}": case for group, cases in GROUPS.items() for case in cases()}


FRAGMENT: Final = (CONTINUATION, b"")


def read(chunks: Iterable[bytes], max_message: int = MAX_MESSAGE) -> tuple[list[Event], int | None]:
    """What a connection makes of these deliveries, up to the peer's close frame or its first violation. Parts of
    messages are left out: they only count."""
    reader = FrameReader(max_message)
    events: list[Event] = []
    try:
        for chunk in chunks:
            for opcode, payload in received(reader, chunk):
                if opcode == CLOSE:
                    decode_close(payload)
                    return [*events, (opcode, payload)], None
                if opcode not in (CONTINUATION, PIECE):
                    events.append((opcode, payload))
    except Violation as violation:
        return events, violation.code
    return events, None


def received(reader: FrameReader, chunk: bytes) -> Iterable[Event]:
    """Through the short cuts for whole texts where they apply, as a connection does."""
    whole = reader.whole_text(chunk)
    if whole is not None:
        return [(TEXT, whole)]
    texts = reader.whole_texts(chunk)
    return reader.feed(chunk) if texts is None else [(TEXT, payload) for payload in texts]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_every_case_reads_the_same_however_it_is_delivered(case: Case) -> None:
    expected = (list(case.events), case.refused)
    assert read([case.sent]) == expected
    for size in CHOPS:
        if size > 1 or len(case.sent) < LONG:
            assert read(chopped(case.sent, size)) == expected, f"{size} bytes at a time"


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 128, 65535, 65536])
def test_the_short_cut_for_whole_texts_leads_to_the_same_place(size: int) -> None:
    sent = text("é" * (size // 2) + "x" * (size % 2))
    (event,) = FrameReader(MAX_MESSAGE).feed(sent)
    whole = FrameReader(MAX_MESSAGE).whole_text(sent)
    assert whole is None if size == 65536 else event == (TEXT, whole)


@given(st.lists(st.integers(3, 400), max_size=8), st.integers(-8, 8))
def test_some_whole_texts_are_read_as_by_feed(sizes: list[int], cut: int) -> None:
    """Up to the last byte of them, and neither a byte less nor some of the next frame."""
    sent = b"".join(text("é" * (size // 2) + "x" * (size % 2)) for size in sizes)
    arrived = sent[:cut] if cut < 0 else sent + text("x" * 200)[:cut]
    texts = FrameReader(MAX_MESSAGE).whole_texts(arrived)
    if cut and arrived:
        assert texts is None
    else:
        assert texts == [payload for _, payload in FrameReader(MAX_MESSAGE).feed(arrived)]


@pytest.mark.parametrize(
    "between",
    [
        frame(PING),
        frame(BINARY, b"binary"),
        text("fragment", final=False),
        frame(TEXT, b"\xff"),
        frame(TEXT, b"bare", mask=None),
        frame(TEXT, b"long", length_bytes=2),
        frame(TEXT, b"x" * 65536),
        frame(TEXT, b"reserved", reserved=4),
    ],
)
def test_what_is_no_whole_text_is_left_to_feed(between: bytes) -> None:
    for sent in (between + text("late"), text("good") + between, text("good") + between + text("late")):
        assert FrameReader(MAX_MESSAGE).whole_texts(sent) is None


def test_a_flood_of_texts_is_left_to_feed() -> None:
    reader = FrameReader(MAX_MESSAGE)
    assert reader.whole_texts(text("x") * MAX_TEXTS) == [b"x"] * MAX_TEXTS
    assert reader.whole_texts(text("x") * (MAX_TEXTS + 1)) is None


@pytest.mark.parametrize("length_bytes", [0, 2, 8])
def test_no_piece_of_a_text_is_taken_for_a_whole_one(length_bytes: int) -> None:
    size = {0: 125, 2: 400, 8: 65536}[length_bytes]
    sent = frame(TEXT, b"x" * size)
    for end in range(min(len(sent), 500)):
        assert FrameReader(MAX_MESSAGE).whole_text(sent[:end]) is None, end
        assert FrameReader(MAX_MESSAGE).whole_text(sent + sent[: end + 1]) is None, end


def test_a_text_is_whole_only_between_messages_and_within_the_limit() -> None:
    reader = FrameReader(300)
    assert reader.whole_text(frame(TEXT, b"x" * 301)) is None
    assert reader.whole_texts(frame(TEXT, b"x" * 200) * 2) is None
    assert list(reader.feed(frame(BINARY, b"", final=False))) == [FRAGMENT]
    assert reader.whole_text(text("inside")) is None
    assert reader.whole_texts(text("inside") * 2) is None
    assert list(reader.feed(frame(CONTINUATION) + b"\x81")) == [(BINARY, b""), (PIECE, b"")]
    assert reader.whole_text(text("inside a header")) is None
    assert reader.whole_texts(text("inside") + text("a header")) is None


@pytest.mark.parametrize(("start", "wrong"), WRONG_BYTES)
def test_text_is_refused_at_its_first_wrong_byte_and_not_before(start: bytes, wrong: bytes) -> None:
    reader = FrameReader(MAX_MESSAGE)
    sent = frame(TEXT, b"ok" + start + wrong, announced=1000)
    for byte in chopped(sent[:-1], 1):
        assert all(opcode == PIECE for opcode, _ in reader.feed(byte))
    with pytest.raises(Violation) as refused:
        list(reader.feed(sent[-1:]))
    assert refused.value.code == INVALID_TEXT


# -- size ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opcode", [TEXT, BINARY])
def test_a_message_may_have_exactly_the_maximum(opcode: int) -> None:
    fitting = b"x" * 300
    assert read([frame(opcode, fitting)] * 2, max_message=300) == ([(opcode, fitting)] * 2, None)
    assert read([frame(opcode, fitting + b"x")], max_message=300) == ([], TOO_BIG)


def test_fragments_count_together() -> None:
    start, end = frame(BINARY, b"x" * 200, final=False), frame(CONTINUATION, b"x" * 100)
    assert read([start, frame(PING), end, start, end], max_message=300) == (
        [(PING, b""), (BINARY, b"x" * 300), (BINARY, b"x" * 300)],
        None,
    )
    assert read([start, frame(CONTINUATION, b"x" * 101)], max_message=300) == ([], TOO_BIG)


@pytest.mark.parametrize("size", [301, 65536, (1 << 63) - 1])
def test_a_message_too_big_is_refused_before_its_first_byte(size: int) -> None:
    assert read([frame(TEXT, announced=size)], max_message=300) == ([], TOO_BIG)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_every_frame_is_yielded_so_that_it_can_be_counted(size: int) -> None:
    sent = [
        frame(TEXT, b"a" * 200, final=False),
        frame(PING),
        frame(CONTINUATION, b"", final=False),
        frame(CONTINUATION, b"b"),
        frame(PONG),
    ]
    reader = FrameReader(MAX_MESSAGE)
    events = [event for chunk in chopped(b"".join(sent), size) for event in reader.feed(chunk)]
    frames = [opcode for opcode, _ in events if opcode != PIECE]
    assert frames == [CONTINUATION, PING, CONTINUATION, TEXT, PONG]


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=4), st.integers(1, 400))
def test_the_bytes_of_a_message_are_yielded_as_they_arrive(fragments: list[bytes], size: int) -> None:
    sent = b"".join(
        frame(CONTINUATION if number else BINARY, fragment, final=number == len(fragments) - 1)
        for number, fragment in enumerate(fragments)
    )
    reader = FrameReader(MAX_MESSAGE)
    early = 0
    chunks = list(chopped(sent, size))
    for number, chunk in enumerate(chunks):
        for opcode, payload in reader.feed(chunk):
            if opcode == BINARY:
                assert number == len(chunks) - 1
                assert payload == b"".join(fragments)
            else:
                early += len(payload)
    late = len(b"".join(fragments)) - early  # of the last fragment, in the last chunk
    assert 0 <= late <= min(size, len(fragments[-1]))


def test_a_caller_that_stops_goes_on_where_it_stopped() -> None:
    reader = FrameReader(MAX_MESSAGE)
    frames = reader.feed(text("one") + text("two") + text("three")[:4])
    assert next(frames) == (TEXT, b"one")
    assert list(frames) == [(TEXT, b"two"), (PIECE, b"")]
    assert list(reader.feed(text("three")[4:])) == [(TEXT, b"three")]


def test_empty_fragments_cost_no_memory() -> None:
    start = frame(BINARY, b"", final=False)
    flood = frame(CONTINUATION, b"", final=False) * 10_000
    reader = FrameReader(MAX_MESSAGE)
    assert list(reader.feed(start)) == [FRAGMENT]
    tracemalloc.start()
    try:
        assert sum(event == FRAGMENT for event in reader.feed(flood)) == 10_000
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 4096
    assert list(reader.feed(frame(CONTINUATION, b"end"))) == [(BINARY, b"end")]


# -- any conversation ------------------------------------------------------------------------------

masks = st.binary(min_size=4, max_size=4)
control_frames = st.tuples(st.sampled_from((PING, PONG)), st.binary(max_size=MAX_CONTROL_PAYLOAD))
messages = st.one_of(
    st.tuples(st.just(TEXT), st.text(max_size=300).map(str.encode)),
    st.tuples(st.just(BINARY), st.binary(max_size=300)),
)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[Event], bytes]:
    """What is said, and one of the ways to say it: cut into fragments, with control frames between them."""
    said: list[Event] = []
    sent = b""
    for opcode, payload in draw(st.lists(messages, max_size=5)):
        cuts = sorted(draw(st.lists(st.integers(0, len(payload)), max_size=4)))
        bounds = list(pairwise((0, *cuts, len(payload))))
        for index, (start, end) in enumerate(bounds):
            for control in draw(st.lists(control_frames, max_size=2)):
                said.append(control)
                sent += frame(*control, mask=draw(masks))
            final = index == len(bounds) - 1
            kind = CONTINUATION if index else opcode
            sent += frame(kind, payload[start:end], final=final, mask=draw(masks))
        said.append((opcode, payload))
    return said, sent


@given(conversations(), st.data())
def test_any_fragmentation_in_any_delivery_gives_the_same_messages(
    conversation: tuple[list[Event], bytes], data: st.DataObject
) -> None:
    said, sent = conversation
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=20)))
    chunks = [sent[start:end] for start, end in pairwise((0, *cuts, len(sent)))]
    assert read(chunks) == (said, None)


def violations(chunks: Iterable[bytes]) -> set[int]:
    """The codes of all violations: the reader is fed on after the first, as late bytes would."""
    reader = FrameReader(300)
    codes: set[int] = set()
    for chunk in chunks:
        try:
            for opcode, payload in received(reader, chunk):
                assert opcode in (PIECE, CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG)
                assert len(payload) <= 300
                if opcode == TEXT and not codes:
                    payload.decode()
        except Violation as violation:
            codes.add(violation.code)
    return codes


@given(st.lists(st.binary(max_size=60)))
@example([b"\x81"])
@example([b"\x81\xff" + b"\xff" * 12])
def test_no_bytes_raise_anything_but_a_violation(chunks: list[bytes]) -> None:
    assert violations(chunks) <= {PROTOCOL_ERROR, INVALID_TEXT, TOO_BIG}


@given(conversations(), st.data())
def test_a_damaged_conversation_raises_nothing_but_a_violation(
    conversation: tuple[list[Event], bytes], data: st.DataObject
) -> None:
    damaged = bytearray(conversation[1])
    for position in data.draw(st.lists(st.integers(0, max(0, len(damaged) - 1)), max_size=5)):
        if damaged:
            damaged[position] ^= data.draw(st.integers(1, 255))
    chunks = chopped(bytes(damaged), data.draw(st.integers(1, 50)))
    assert violations(chunks) <= {PROTOCOL_ERROR, INVALID_TEXT, TOO_BIG}


@given(st.binary(max_size=200), st.sampled_from((1, 2, 65530, 65536)), st.booleans())
def test_frames_of_another_implementation_are_read(content: bytes, times: int, final: bool) -> None:
    payload = (content * times)[:65600]
    serialized = LibraryFrame(Opcode.BINARY, payload, fin=final).serialize(mask=True)
    end = b"" if final else LibraryFrame(Opcode.CONT, b"").serialize(mask=True)
    assert read([serialized + end]) == ([(BINARY, payload)], None)


# -- what we send ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65535, 65536, 70000])
@pytest.mark.parametrize("opcode", [TEXT, BINARY])
def test_another_implementation_would_send_the_same_bytes(opcode: int, size: int) -> None:
    payload = b"x" * size
    assert encode_frame(opcode, payload) == LibraryFrame(Opcode(opcode), payload).serialize(mask=False)
    assert encode_text(payload) == encode_frame(TEXT, payload)


@given(st.sampled_from(VALID_CODES), st.text())
def test_a_close_reason_is_cut_between_two_characters(code: int, reason: str) -> None:
    sent = encode_close(code, reason)
    assert sent[:2] == bytes((0x80 | CLOSE, len(sent) - 2))
    assert len(sent) - 2 <= MAX_CONTROL_PAYLOAD
    received_code, received = decode_close(sent[2:])
    assert received_code == code
    assert reason.startswith(received)
    left_out = reason[len(received) :]
    assert not left_out or len(received.encode()) + len(left_out[0].encode()) > MAX_REASON


def test_a_close_frame_without_a_body_has_no_code() -> None:
    assert decode_close(b"") == (None, "")


def test_close_codes_that_may_be_on_the_wire() -> None:
    valid = {code for code in range(65536) if is_valid_close_code(code)}
    assert valid == {*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)}

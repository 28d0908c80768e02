"""Lines of interest out of blocks, cut anywhere, in bounded memory."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from moothall.worker.guard.sieve import Sieve

WORDS = (b"tool", b"tokens")

texts = st.lists(
    st.sampled_from([b"tool", b"tokens", b"to", b"ol", b"\n", b"kens", b" ", b"\r", b"\xff"]), max_size=60
)


def fed(sieve: Sieve, text: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    found = [line for start, end in pairwise(places) for line in sieve.feed(memoryview(text)[start:end])]
    return [*found, *sieve.rest()]


@given(texts, st.lists(st.integers(0, 1000), max_size=8))
def test_lines_with_a_word_are_found_wherever_blocks_are_cut(parts: list[bytes], cuts: list[int]) -> None:
    text = b"".join(parts)
    wanted = [line for line in text.split(b"\n") if any(word in line for word in WORDS)]
    assert fed(Sieve(WORDS, 1000), text, cuts) == wanted


@given(texts, st.lists(st.integers(0, 1000), max_size=8), st.integers(1, 20))
def test_long_lines_come_in_pieces_and_memory_is_bounded(
    parts: list[bytes], cuts: list[int], longest: int
) -> None:
    text = b"".join(parts)
    sieve = Sieve(WORDS, longest)
    for line in fed(sieve, text, cuts):
        assert any(word in line for word in WORDS)
        assert line in text
        assert len(line) < 2 * longest
    assert len(sieve._open) == 0


@given(st.integers(1, 5000), st.integers(1, 400))
def test_what_waits_is_shorter_than_the_longest_line(size: int, step: int) -> None:
    sieve = Sieve(WORDS, 100)
    for _ in range(0, size, step):
        assert list(sieve.feed(b"x" * step)) == []
        assert len(sieve._open) < 100


def test_a_line_is_found_once_although_it_has_several_words() -> None:
    assert list(Sieve(WORDS, 100).feed(b"a\ntokens tool tool tokens\nb\ntool\n")) == [
        b"tokens tool tool tokens",
        b"tool",
    ]

"""Answers that are kept for a moment: bounded in number, bytes and time."""

from hypothesis import given
from hypothesis import strategies as st

from moothall.gateways.api import cache as module
from moothall.gateways.api.answers import Body, body_of
from moothall.gateways.api.cache import MAX_KEPT, MAX_KEPT_BYTES, Cache


def test_an_answer_is_kept_until_its_time() -> None:
    cache, body = Cache(), body_of({"a": 1})
    cache.keep("x", body, until=5)
    assert (cache.get("x", 4.9), cache.get("y", 4.9)) == (body, None)
    assert cache.get("x", 5) is None
    assert (len(cache), cache.size) == (0, 0)


def test_the_oldest_makes_way() -> None:
    cache = Cache()
    for number in range(MAX_KEPT + 1):
        cache.keep(str(number), body_of(number), until=1)
    assert (cache.get("0", 0), len(cache)) == (None, MAX_KEPT)


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.integers(0, MAX_KEPT_BYTES // 2), st.floats(0, 10)),
        max_size=30,
    )
)
def test_what_is_kept_is_counted_and_bounded(kept: list[tuple[str, int, float]]) -> None:
    class Text(bytes):
        """Says that it is long, without being so."""

        length = 0

        def __len__(self) -> int:
            return self.length

    cache = Cache()
    for name, size, until in kept:
        text = Text()
        text.length = size
        cache.keep(name, Body(text, ""), until)
        cache.get(name, 5)
        assert 0 <= cache.size <= module.MAX_KEPT_BYTES
        assert cache.size == sum(len(each.body.json) for each in cache._kept.values())

"""Which connections hear which named topics."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.mesh.topics import MAX_TOPICS, BadTopic, TooManyTopics, Topics

STEPS = st.lists(
    st.tuples(st.sampled_from(["join", "part", "leave"]), st.sampled_from("abc"), st.sampled_from("xyz")),
    max_size=40,
)


@given(STEPS)
def test_topics_are_what_was_subscribed_and_not_left(steps: list[tuple[str, str, str]]) -> None:
    told: list[str] = []
    topics: Topics[str] = Topics(told.append)
    heard: set[tuple[str, str]] = set()
    for step, member, topic in steps:
        before = {each for _, each in heard}
        told.clear()
        if step == "join":
            assert topics.subscribe(member, topic) == ((member, topic) not in heard)
            heard.add((member, topic))
        elif step == "part":
            assert topics.unsubscribe(member, topic) == ((member, topic) in heard)
            heard.discard((member, topic))
        else:
            topics.leave(member)
            heard = {entry for entry in heard if entry[0] != member}
        assert sorted(told) == sorted(before ^ {each for _, each in heard})
    assert {(member, topic) for topic in "xyz" for member in topics.members(topic)} == heard
    assert {(member, topic) for member in "abc" for topic in topics.of(member)} == heard
    assert len(topics) == len({topic for _, topic in heard})


def test_a_connection_hears_a_limited_number_of_topics() -> None:
    topics: Topics[str] = Topics()
    for number in range(MAX_TOPICS):
        topics.subscribe("a", str(number))
    with pytest.raises(TooManyTopics):
        topics.subscribe("a", "one more")
    assert not topics.subscribe("a", "0")
    topics.unsubscribe("a", "0")
    assert topics.subscribe("a", "one more")


@pytest.mark.parametrize("name", ["", "x" * 129, "ü" * 65, "\ud800" * 129])
def test_a_name_has_a_limited_length(name: str) -> None:
    with pytest.raises(BadTopic):
        Topics[str]().subscribe("a", name)

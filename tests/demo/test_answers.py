"""What a person hears from the agents of the demo."""

import pytest

from moothall.demo.answers import OTHERWISE, TOPICS, answer_to


@pytest.mark.parametrize(("words", "answer"), TOPICS)
def test_each_topic_is_found_by_each_of_its_words(words: frozenset[str], answer: str) -> None:
    found = {word: answer_to(f"{word.upper()}?", "zoe") for word in words}
    assert found == dict.fromkeys(words, answer.format(guest="zoe"))


def test_other_words_get_an_answer_too() -> None:
    assert answer_to("", "zoe") == answer_to("xyzzy", "zoe") == OTHERWISE.format(guest="zoe")

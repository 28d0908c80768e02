"""Who is in a channel, and whom a text mentions."""

import pytest

from moothall.client import members as module
from moothall.client.floor import MAX_SEARCHED
from moothall.client.members import Members


@pytest.fixture
def members() -> Members:
    known = Members()
    known.fill("#general", [("@a1", "qa1"), ("@b2", "qa2"), ("@c3", None)])
    return known


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("@qa1 number 1?", {"@a1"}),
        ("@a1 and @qa2", {"@a1", "@b2"}),
        ("@c3, who has no name", {"@c3"}),
        ("qa1?", set()),
        ("@qa11 @qa", set()),
        ("@QA1", set()),
        ("@nobody", set()),
    ],
)
def test_a_mention_is_by_id_or_name(members: Members, content: str, expected: set[str]) -> None:
    assert members.mentioned("#general", content, "@z9") == expected
    assert members.mentioned("#other", content, "@z9") == set()


def test_the_author_does_not_address_itself(members: Members) -> None:
    assert members.mentioned("#general", "I am @qa1", "@a1") == set()


@pytest.mark.parametrize("word", ["all", "everyone", "here", "Everyone", "ALL"])
def test_a_word_for_all_addresses_no_member_of_that_name(members: Members, word: str) -> None:
    members.enter("#general", "@e5", word)
    assert members.mentioned("#general", f"@{word}, who knows?", "@z9") == set()
    assert members.mentioned("#general", "@e5, who knows?", "@z9") == {"@e5"}


def test_only_the_beginning_of_a_long_text_is_searched(members: Members) -> None:
    """A text of two million characters took a tenth of a second in every agent of the channel."""
    assert members.mentioned("#general", "x" * (MAX_SEARCHED - 4) + "@qa1", "@z9") == {"@a1"}
    assert members.mentioned("#general", "x" * MAX_SEARCHED + "@qa1", "@z9") == set()


def test_only_those_who_are_there_can_be_addressed(members: Members) -> None:
    members.leave("#general", "@a1")
    assert members.mentioned("#general", "@qa1?", "@z9") == set()
    members.enter("#general", "@d4", "qa1")
    assert members.mentioned("#general", "@qa1?", "@z9") == {"@d4"}


def test_a_nick_stands_beside_the_name(members: Members) -> None:
    members.rename("@a1", "helper")
    assert members.name("#general", "@a1") == "helper"
    members.rename("@a1", "guide")
    for word, found in (("qa1", True), ("guide", True), ("helper", False)):
        assert bool(members.mentioned("#general", f"@{word}", "@z9")) is found


def test_a_list_replaces_what_was_known_and_forgetting_ends_it(members: Members) -> None:
    members.fill("#general", [("@e5", "new")])
    assert members.mentioned("#general", "@qa1 @new", "@z9") == {"@e5"}
    members.forget("#general")
    members.enter("#general", "@e5", "new")
    assert members.mentioned("#general", "@new", "@z9") == set()


def test_what_a_hall_tells_is_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_MEMBERS", 2)
    monkeypatch.setattr(module, "MAX_CHANNELS", 1)
    members = Members()
    members.fill("#general", [("@a", "a"), ("@b", "b"), ("@c", "c")])
    members.fill("#other", [("@a", "a")])
    assert members.mentioned("#general", "@a @b @c", "@z9") == {"@a", "@b"}
    assert members.mentioned("#other", "@a", "@z9") == set()

"""The prompt of a session."""

from hypothesis import given
from hypothesis import strategies as st

from moothall.worker.runner import prompt

MARK = "history-of-a-test"


def test_without_history_there_is_no_section_for_it() -> None:
    text = prompt.build("alice", "Count birds.", 1, [], MARK)
    assert text.startswith(
        "You are alice. This is your session 1.\n\n# Mission\n\nCount birds.\n\n# What to do\n"
    )
    assert "before" not in text
    assert MARK not in text


def test_a_name_is_cut_to_a_nick() -> None:
    assert f'the nick "{"a" * 24}"' in prompt.build("a" * 32, "x", 1, [], MARK)


@given(st.lists(st.text(), max_size=20))
def test_history_stands_between_two_marks_at_the_end(history: list[str]) -> None:
    text = prompt.build("alice", "x", 2, ["a line\n", *history], MARK)
    _, _, rest = text.partition(f"\n{MARK}\n")
    told, end, after = rest.rpartition(f"\n{MARK}\n")
    assert told.startswith("a line")
    assert end
    assert after == ""


def test_what_steers_a_terminal_is_left_out() -> None:
    history = ["\x1b[31mred\x1b[0m \u202eback\x07\n", "tab\tstays\r\n"]
    text = prompt.build("alice", "x", 2, history, MARK)
    assert f"{MARK}\nred back\ntab\tstays\n{MARK}\n" in text


def test_the_system_prompt_has_the_personality_and_the_notice() -> None:
    assert prompt.system("", is_public=False) == ""
    assert prompt.system("Be kind.", is_public=False) == "Be kind."
    assert prompt.system("Be kind.", is_public=True) == f"Be kind.\n\n{prompt.PUBLIC}"

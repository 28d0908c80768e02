"""A conversation that goes on over sessions, and what becomes of it when the files and `claude` disagree."""

from pathlib import Path

from moothall.worker.runner.conversation import Conversation


def test_it_has_an_id_that_stays(tmp_path: Path) -> None:
    first = Conversation(tmp_path)
    assert not first.is_begun
    first.begin()
    again = Conversation(tmp_path)
    assert (again.id, again.is_begun) == (first.id, True)


def test_one_that_is_gone_makes_way_for_a_new_one(tmp_path: Path) -> None:
    first = Conversation(tmp_path)
    first.begin()
    first.read(f"[error] No conversation found with session ID: {first.id}")
    second = Conversation(tmp_path)
    assert second.id != first.id
    assert not second.is_begun


def test_one_that_was_killed_before_it_was_marked_is_resumed(tmp_path: Path) -> None:
    first = Conversation(tmp_path)
    first.read(f"Error: Session ID {first.id} is already in use.")
    assert Conversation(tmp_path).is_begun


def test_words_about_other_conversations_change_nothing(tmp_path: Path) -> None:
    first = Conversation(tmp_path)
    first.begin()
    first.read("No conversation found with session ID: another")
    assert Conversation(tmp_path).is_begun


def test_a_file_without_an_id_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "session_id").write_bytes(b"../../etc\xff")
    (tmp_path / "session_created").touch()
    assert not Conversation(tmp_path).is_begun

"""What an agent has seen: in memory, and beside its key."""

from pathlib import Path

import pytest

from moothall.mesh.marks import MARGIN, MAX_KEPT, Marks, is_mail
from moothall.wire.mesh.msg_types import MsgType
from tests.identity.vectors import ALICE, BOB
from tests.support.envelopes import sent

NOW = 1_800_000_000_000_000


def test_what_was_seen_is_known_after_a_restart(tmp_path: Path) -> None:
    first, again = Marks(tmp_path / "key.seen"), Marks(tmp_path / "key.seen")
    envelope, _ = sent(ALICE, MsgType.PROPOSE, b"", to=BOB, nonce=7)
    first.load()
    assert first.since is None
    assert not first.concerns(NOW)
    first.begin(NOW)
    assert first.is_new(envelope)
    first.save()
    again.load()
    assert again.since == NOW
    assert not again.is_new(envelope)
    assert again.concerns(NOW - MARGIN)
    assert not again.concerns(NOW - MARGIN - 1)


def test_what_was_sent_before_the_first_connection_is_not_missed() -> None:
    marks = Marks(None)
    marks.begin(NOW)
    assert not marks.concerns(NOW - 1)
    assert marks.concerns(NOW)
    marks.reached(NOW + 2 * MARGIN)
    marks.reached(NOW)  # time does not go back
    assert not marks.concerns(NOW + MARGIN - 1)
    marks.save()


def test_the_file_is_bounded_and_written_only_when_something_is_new(tmp_path: Path) -> None:
    path = tmp_path / "key.seen"
    marks, again = Marks(path), Marks(path)
    marks.begin(NOW)
    for nonce in range(1, MAX_KEPT + 3):
        marks.is_new(sent(ALICE, MsgType.PROPOSE, b"", to=BOB, nonce=nonce)[0])
    marks.save()
    again.load()
    assert again.is_new(sent(ALICE, MsgType.PROPOSE, b"", to=BOB, nonce=2)[0])
    assert not again.is_new(sent(ALICE, MsgType.PROPOSE, b"", to=BOB, nonce=3)[0])
    path.unlink()
    marks.save()
    assert not path.exists()


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"since": 1, "seen": [["x", 1]]}'])
def test_a_damaged_file_counts_as_none(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "key.seen"
    path.write_bytes(content)
    path.chmod(0o600)
    marks = Marks(path)
    marks.load()
    assert marks.since is None
    assert "cannot be read" in caplog.text


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    marks = Marks(tmp_path / "none" / "key.seen")
    marks.begin(NOW)
    marks.save()
    assert "cannot be kept" in caplog.text


def test_bids_are_not_mail() -> None:
    assert is_mail(sent(ALICE, MsgType.FEEDBACK, b"")[0])
    assert not is_mail(sent(ALICE, MsgType.NOTARIZE_BID, b"")[0])

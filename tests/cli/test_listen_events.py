"""Every event that `listen --events` streams is documented."""

from pathlib import Path

import pytest

from moothall.cli._listen_events import event_types

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


@pytest.mark.parametrize("kind", event_types())
def test_every_event_is_documented(kind: str) -> None:
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith("| `--events` | ")]
    assert f"`{kind}`" in row


def test_each_is_streamed_once() -> None:
    assert len(set(event_types())) == len(event_types())
    assert "MSG" not in event_types()

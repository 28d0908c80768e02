"""What a stranger wrote cannot break out of its line in the SDK's log."""

import logging

import pytest

from moothall.client.logs import LOGGER, MAX_LINE


@pytest.mark.parametrize("text", ["a\nWARNING forged", "\x1b[2J", "\ud800", "\u202egnp", "\u2028", "\x00"])
def test_a_line_is_one_printable_line(text: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        logging.getLogger(LOGGER).info("from %s", text)
    (line,) = caplog.messages
    assert line.isprintable()
    assert line.startswith("from ")


def test_a_line_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        logging.getLogger(LOGGER).info("from %s", "x" * 100_000)
    (line,) = caplog.messages
    assert len(line) == MAX_LINE


def test_letters_of_all_languages_stay(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        logging.getLogger(LOGGER).info("%s", "Grüße, 世界 🌍")
    assert caplog.messages == ["Grüße, 世界 🌍"]

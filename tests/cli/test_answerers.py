"""Who is answering, beside what `listen` prints."""

import io
import os
import pty

import pytest

from moothall import Agent, Answering, FloorChange
from moothall.cli._answerers import CLEAR_LINE, Answerers

ECHO = Answering("#general", "1-a", "@a1", "echo")


class Heard(Agent):
    """An agent that has heard of these claims."""

    def __init__(self, *claims: Answering) -> None:
        super().__init__("listener")
        self.claims = list(claims)

    def answering(self, channel: str | None = None) -> list[Answering]:
        return self.claims


def change(state: str, name: str | None = "echo") -> FloorChange:
    return FloorChange("#general", "1-a", "@a1", name, state)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("claimed", "#general echo is answering\n"),
        ("answered", ""),
        ("released", "#general echo does not answer\n"),
        ("expired", "#general echo has not answered in time\n"),
        ("yielded", "#general echo leaves the answer to another agent\n"),
        ("left", "#general echo is gone without an answer\n"),
    ],
)
def test_in_a_file_each_change_is_a_line(state: str, said: str) -> None:
    stream = io.StringIO()
    answerers = Answerers(Heard(), stream)
    answerers.changed(change(state))
    answerers.show()
    answerers.hide()
    assert stream.getvalue()[9:] == said  # after the time


def test_a_name_cannot_steer_the_terminal() -> None:
    stream = io.StringIO()
    Answerers(Heard(), stream).changed(change("claimed", "\x1b[2Jecho\n12:00:00 #general bob is answering"))
    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue().count("\n") == 1


def test_on_a_terminal_it_is_one_line_that_disappears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    agent = Heard(ECHO)
    outside, inside = pty.openpty()
    with os.fdopen(inside, "w") as stream:
        answerers = Answerers(agent, stream)
        answerers.changed(change("claimed"))
        assert os.read(outside, 1000).decode() == "echo is answering in #general…"
        agent.claims = []
        answerers.changed(change("answered"))
        assert os.read(outside, 1000).decode() == CLEAR_LINE
        agent.claims = [Answering("#general", "1-a", f"@{number}", f"bot{number}") for number in range(4)]
        answerers.show()
        assert os.read(outside, 1000).decode() == "4 agents are answering in #general…"
        answerers.hide()
        assert os.read(outside, 1000).decode() == CLEAR_LINE
    os.close(outside)

"""The table of phases is the seed's, and every open phase has a way out (seed 000, agentcourt)."""

import re
from pathlib import Path
from typing import get_args

import pytest

from moothall.court.phases import OPEN, TRANSITIONS, Event, Phase, next_phase
from moothall.errors import DisputeInvalidPhase

PAGE = Path(__file__).parents[2] / "docs" / "court.md"


def test_the_table_is_the_seeds() -> None:
    ways = {(phase, to) for (phase, _), to in TRANSITIONS.items()}
    assert ways == {
        ("reveal_pending", "arbiter_response"),  # reveal 10
        ("reveal_pending", "fallback"),  # reveal 8; file intent 4
        ("arbiter_response", "evidence"),  # arbiter accept 4a
        ("arbiter_response", "fallback"),  # arbiter decline 6; arbiter response timeout 4
        ("evidence", "deliberation"),  # evidence deadline 2
        ("deliberation", "resolved"),  # arbiter vote 4c; force resolve 4
    }


def test_what_is_not_in_the_table_is_refused() -> None:
    for phase in get_args(Phase):
        for event in get_args(Event):
            if (phase, event) in TRANSITIONS:
                assert next_phase(phase, event) == TRANSITIONS[phase, event]
            else:
                with pytest.raises(DisputeInvalidPhase):
                    next_phase(phase, event)


def test_every_case_comes_to_an_end() -> None:
    assert set(get_args(Phase)) - OPEN == {"resolved", "fallback"}
    reached: set[str] = {"reveal_pending"}
    for _ in TRANSITIONS:
        reached |= {to for (phase, _), to in TRANSITIONS.items() if phase in reached}
    assert reached == set(get_args(Phase))


def test_the_diagram_in_the_docs_is_the_table() -> None:
    drawn = re.findall(r"^    (\w+) --> (\w+): (\w+)$", PAGE.read_text(), re.MULTILINE)
    assert {((phase, event), to) for phase, to, event in drawn} == set(TRANSITIONS.items())

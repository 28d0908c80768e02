"""What an agent missed, from what it knew and what the hall still remembers."""

from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from moothall.tools.catching_up import Known, gap_record, missed_in


def said(ts: int, channel: str = "#general") -> dict[str, Any]:
    return {"type": "MSG", "msg_id": f"m{ts}", "to": channel, "ts": ts, "from": "@b", "content": str(ts)}


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 12))
def test_nothing_is_told_twice_and_nothing_remembered_is_missed(heard: int, new: int, buffer: int) -> None:
    """The channel has `heard` messages that the agent knows, then `new` ones, and remembers the last few."""
    everything = [said(ts) for ts in range(1, heard + new + 1)]
    known = Known.from_records(everything[:heard])
    repeated = everything[-buffer:]
    found = missed_in("#general", repeated, known)
    assert list(found.frames) == [each for each in repeated if each["ts"] > heard]
    if heard:
        assert found.complete == (new < buffer)


def test_messages_of_one_millisecond_are_told_apart() -> None:
    first, second = said(5), said(5) | {"msg_id": "other"}
    found = missed_in("#general", [first, second], Known.from_records([first]))
    assert found.frames == [second]


def test_an_agent_that_has_heard_nothing_has_no_gap() -> None:
    assert gap_record(Known(), 9, "connected", {}) is None


def test_a_gap_says_how_much_was_caught_up() -> None:
    known = Known.from_records([said(1)])
    found = {"#general": missed_in("#general", [said(7), said(8)], known)}
    gap = gap_record(known, 9, "reconnected", found)
    assert gap is not None
    assert gap["complete"] is False
    assert gap["channels"] == {"#general": {"caught_up": 2, "complete": False}}
    assert (gap["since"], gap["until"]) == (1, 9)


def test_an_event_about_one_thing_is_told_once() -> None:
    known = Known()
    offer = {"type": "EVENT", "event": "PROPOSAL", "id": "prop_1", "ts": 1}
    assert not known.is_told(offer)
    known.note(offer)
    assert known.is_told(offer)
    assert not known.is_told(offer | {"id": "prop_2"})
    receipt = {"type": "EVENT", "event": "RECEIPT", "msg_id": "m1", "ts": 1}
    known.note(receipt)
    assert not known.is_told(receipt)

"""Agents of the network: bounded, and gone when they are silent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.mesh import abroad as module
from moothall.hall.mesh.abroad import LINES, LINES_OF_PEER, SILENCE, Abroad
from tests.hall.mesh.town import MemoryPresence
from tests.support.world import World

IP = "198.51.100.4"


class Place:
    def __init__(self) -> None:
        self.world = World()
        self.presence = MemoryPresence()
        self.abroad = Abroad(self.presence, self.world.hall.agenda, self.world.hall.now)

    def speak(self, number: int) -> None:
        remote = self.abroad.heard(key(number), IP)
        self.abroad.enter(remote, f"agent-{number}")

    @property
    def here(self) -> set[bytes]:
        return {entry[0] for entry in self.presence.present.values()}


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def test_an_agent_is_remembered_until_it_is_silent() -> None:
    place = Place()
    first = place.abroad.heard(key(1), IP)
    first.name = "Dora"
    place.world.advance(SILENCE - 1)
    assert place.abroad.heard(key(1), IP) is first
    place.world.advance(SILENCE)
    place.abroad.heard(key(2), IP)
    assert (place.abroad.find(key(1)), len(place.abroad)) == (None, 1)
    assert place.presence.present == {}


def test_one_that_speaks_leaves_the_roster_when_it_is_silent() -> None:
    place = Place()
    others = len(place.world.hall.agenda)
    place.speak(1)
    place.world.advance(SILENCE / 2)
    place.speak(2)
    assert place.here == {key(1), key(2)}
    place.world.advance(SILENCE / 2)
    assert place.here == {key(2)}
    place.world.advance(SILENCE / 2)
    assert place.here == set()
    assert len(place.world.hall.agenda) == others


def test_one_that_the_hall_puts_out_is_forgotten() -> None:
    place = Place()
    place.speak(1)
    (caller,) = place.presence.present
    assert not caller.put_frame(b"a line")
    caller.close(1008, "banned")
    caller.close(1008, "banned")
    assert (place.here, len(place.abroad)) == (set(), 0)


def test_the_oldest_makes_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_AGENTS", 3)
    monkeypatch.setattr(module, "MAX_SPEAKERS", 2)
    place = Place()
    for number in (1, 2, 1, 3):
        place.speak(number)
    assert place.here == {key(1), key(3)}
    for number in (4, 5):
        place.abroad.heard(key(number), IP)
    assert [place.abroad.find(key(number)) is not None for number in range(1, 6)] == [
        False,
        False,
        True,
        True,
        True,
    ]
    assert place.here == {key(3)}


@given(st.lists(st.tuples(st.sampled_from(["speak", "beacon", "wait", "close"]), st.integers(0, 9))))
def test_the_roster_has_those_that_spoke_and_were_heard_of_lately(steps: list[tuple[str, int]]) -> None:
    place, heard, spoke = Place(), dict[int, float](), set[int]()
    now = 0.0
    for what, number in steps:
        if what == "wait":
            now += 20 * number
            place.world.advance(20 * number)
        elif what == "close":
            for caller, (its_key, _, _) in list(place.presence.present.items()):
                if its_key == key(number):
                    caller.close(1000, "")
            if number in spoke:
                del heard[number]
        else:
            if what == "speak":
                place.speak(number)
                spoke.add(number)
            else:
                place.abroad.heard(key(number), IP)
            heard[number] = now
        heard = {each: at for each, at in heard.items() if now - at < SILENCE}
        spoke &= set(heard)
        assert place.here == {key(each) for each in spoke}
        assert place.abroad.speakers == len(spoke)


def test_lines_of_the_network_in_a_channel_have_a_rate() -> None:
    place = Place()
    assert sum(place.abroad.may_speak(key(1), "general") for _ in range(1000)) == LINES_OF_PEER.limit
    assert place.abroad.may_speak(key(1), "other")
    assert place.abroad.may_speak(key(2), "general")
    spoken = sum(place.abroad.may_speak(key(each), "general") for each in range(3, 1000) for _ in range(5))
    assert spoken == LINES.limit - LINES_OF_PEER.limit - 1
    place.world.advance(LINES.seconds)
    assert place.abroad.may_speak(key(2000), "general")

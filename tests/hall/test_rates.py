"""Rates of commands: an agent with a key has one, however often it connects (seed 001, rate limiting)."""

import pytest

from moothall.hall import rates
from moothall.identity import PrivateKey
from tests.identity.vectors import ALICE
from tests.support.world import Guest, World, assert_consistent, assert_refused, assert_sent


def speak(world: World, guest: Guest) -> None:
    guest.read()
    world.send(guest, "MSG", to="#general", content="hello", ref="speak")


def test_a_takeover_brings_no_new_allowance() -> None:
    world = World()
    first = world.agent("alice", key=ALICE, join="#general")
    speak(world, first)
    assert_sent(first, "ACK")
    second = world.agent("alice", key=ALICE, join="#general")
    speak(world, second)
    assert_refused(second, "RATE_LIMITED", "Too many MSG")
    world.advance(1)
    speak(world, second)
    assert_sent(second, "ACK")


def test_an_agent_that_comes_back_has_the_rate_that_it_left_with() -> None:
    world = World()
    first = world.agent("alice", key=ALICE, join="#general")
    speak(world, first)
    world.disconnect(first)
    world.advance(0.5)
    second = world.agent("alice", key=ALICE, join="#general")
    speak(world, second)
    assert_refused(second, "RATE_LIMITED")
    world.advance(0.5)
    speak(world, second)
    assert_sent(second, "ACK")


def test_a_new_session_may_change_its_name() -> None:
    world = World()
    for name in ("first", "second"):
        guest = world.agent("alice", key=ALICE)
        guest.read()
        world.send(guest, "SET_NICK", nick=name)
        assert_sent(guest, "NICK_CHANGED", new_nick=name)
        world.send(guest, "SET_NICK", nick="again")
        assert_refused(guest, "RATE_LIMITED", "Too many SET_NICK")


def test_an_agent_without_a_key_is_another_one_each_time() -> None:
    world = World()
    first = world.agent("alice", join="#general")
    speak(world, first)
    world.disconnect(first)
    second = world.agent("alice", join="#general")
    speak(world, second)
    assert_sent(second, "ACK")
    assert len(world.hall.rates) == 0


def test_one_key_does_not_use_up_the_rate_of_another() -> None:
    world = World()
    for number in range(3):
        guest = world.agent(key=PrivateKey(bytes([number]) * 32), join="#general")
        speak(world, guest)
        assert_sent(guest, "ACK")


def test_keys_that_left_are_forgotten_when_they_are_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_MIN_TO_SWEEP", 4)
    world = World()
    staying = world.agent("alice", key=ALICE, join="#general")
    speak(world, staying)
    for number in range(1, 20):
        guest = world.agent(key=PrivateKey(bytes([number]) * 32), join="#general")
        speak(world, guest)
        world.disconnect(guest)
        world.advance(1)
        assert len(world.hall.rates) <= 5
    speak(world, staying)
    assert_sent(staying, "ACK")
    again = world.agent("alice", key=ALICE, join="#general")
    speak(world, again)
    assert_refused(again, "RATE_LIMITED")  # what a session has in use was not forgotten
    assert_consistent(world)

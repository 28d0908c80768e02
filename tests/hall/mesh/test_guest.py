"""One connection of the mesh: what waits, what is paid, and how much memory it takes."""

import sys

import pytest

from moothall.hall.mesh.guest import MAX_WAITING, MAX_WAITING_BYTES, Guest
from moothall.settings.limits import Rate
from moothall.wire.mesh.envelope import encode
from moothall.wire.mesh.msg_types import MsgType
from tests.hall.mesh.town import Agent, Town


def is_paused(agent: Agent) -> bool:
    return agent.link.paused


def test_reading_stops_when_enough_frames_wait() -> None:
    town = Town()
    alice = town.present("alice")
    town.checks.is_stopped = True
    for _ in range(MAX_WAITING - 1):
        alice.send(MsgType.BOUNTY, b"{}")
    assert not is_paused(alice)
    alice.send(MsgType.BOUNTY, b"{}")
    assert is_paused(alice)
    town.checks.run()
    assert not is_paused(alice)
    assert town.room.waiting_bytes(alice.guest) == 0


def test_reading_stops_when_enough_bytes_wait() -> None:
    town = Town()
    alice = town.present("alice")
    town.checks.is_stopped = True
    while town.room.waiting_bytes(alice.guest) < MAX_WAITING_BYTES:
        assert not alice.link.paused
        alice.post(bytes(60_000))
    assert alice.link.paused


def test_a_frame_is_charged_before_its_signature_is_checked() -> None:
    town = Town(mesh_rate=Rate(1, 1))
    alice = town.connect_agent("alice")
    for _ in range(5):
        alice.send(MsgType.BOUNTY, b"{}")
    assert town.checks.verified == 1


def test_bytes_that_were_charged_as_they_arrived_are_not_charged_again() -> None:
    town = Town(budget_bytes=Rate(100_000, 1000))
    alice, bob = town.present("alice"), town.present("bob")
    bob.types()
    raw = encode(alice.seal(MsgType.BOUNTY, bytes(45_000)))
    town.room.receive_piece(alice.guest, len(raw))
    alice.post(raw)
    alice.post(encode(alice.seal(MsgType.BOUNTY, b"{}")))
    assert len(bob.envelopes()) == 2


def test_a_control_frame_over_the_budget_of_the_address_makes_the_connection_wait() -> None:
    town = Town(address_frames=Rate(10, 10))
    alice = town.connect_agent("alice")
    answered = [town.room.receive_control(alice.guest, 100) for _ in range(12)]
    assert answered[0]
    assert not answered[-1]
    assert alice.link.paused
    town.advance(100)
    assert not alice.link.paused


def test_an_idle_connection_takes_little_memory() -> None:
    town = Town()
    alice = town.present("alice")
    guest = alice.guest
    own = sys.getsizeof(guest) + sum(
        sys.getsizeof(getattr(guest, slot)) for slot in ("checked", "_waiting", "key")
    )
    assert own < 700
    assert not hasattr(guest, "__dict__")


def test_a_bug_ends_one_connection_only(monkeypatch: pytest.MonkeyPatch) -> None:
    town = Town()
    alice, bob = town.present("alice"), town.present("bob")

    def broken(key: bytes) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(town.presence, "admit", broken)
    alice.send(MsgType.BOUNTY, b"{}")
    assert alice.link.closed == (1011, "Internal error")
    assert bob.link.closed is None
    assert isinstance(bob.guest, Guest)
    assert town.log.find("a frame of the mesh could not be handled")

"""Pings and silence, without sockets; with them: test_websocket.py."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.gateways.heartbeat import MAX_GROUPS, PING_FRAME, Heartbeat


@dataclass(eq=False)
class Peer:
    heard: bool = True
    missed: int = 0
    paused: bool = False
    group: int | None = None
    frames: list[bytes] = field(default_factory=list)

    def put_frame(self, frame: bytes) -> None:
        self.frames.append(frame)


@pytest.fixture
def one() -> tuple[Heartbeat[Peer], Peer]:
    """A connection that is pinged at every beat."""
    heartbeat: Heartbeat[Peer] = Heartbeat(1.0)
    peer = Peer()
    heartbeat.join(peer)
    return heartbeat, peer


def test_two_missed_pings_are_forgiven_until_the_grace_is_over(one: tuple[Heartbeat[Peer], Peer]) -> None:
    heartbeat, peer = one
    for missed in range(2):
        assert heartbeat.beat() == []
        assert peer.missed == missed
        assert not heartbeat.is_silent(peer)
    assert heartbeat.beat() == [peer]
    assert heartbeat.is_silent(peer)
    assert peer.frames == [PING_FRAME] * 3


def test_an_answer_within_the_grace_is_in_time(one: tuple[Heartbeat[Peer], Peer]) -> None:
    heartbeat, peer = one
    for _ in range(3):
        heartbeat.beat()
    peer.heard = True
    assert not heartbeat.is_silent(peer)
    assert heartbeat.beat() == []
    assert peer.missed == 0


def test_who_answered_in_the_grace_period_is_kept_though_pinged_again_since(
    one: tuple[Heartbeat[Peer], Peer],
) -> None:
    heartbeat, peer = one
    for _ in range(3):
        heartbeat.beat()
    peer.heard = True
    heartbeat.beat()
    assert not peer.heard
    assert not heartbeat.is_silent(peer)  # the grace of the second ping is over


def test_a_peer_that_is_not_read_is_not_asked(one: tuple[Heartbeat[Peer], Peer]) -> None:
    heartbeat, peer = one
    for _ in range(3):
        heartbeat.beat()
    peer.paused = True
    assert not heartbeat.is_silent(peer)
    assert heartbeat.beat() == []
    assert peer.frames == [PING_FRAME] * 3


def test_a_peer_that_left_is_not_silent(one: tuple[Heartbeat[Peer], Peer]) -> None:
    heartbeat, peer = one
    for _ in range(3):
        heartbeat.beat()
    heartbeat.leave(peer)
    heartbeat.leave(peer)
    assert not heartbeat.is_silent(peer)
    assert heartbeat.beat() == []
    assert len(heartbeat) == 0


def test_many_connections_are_pinged_in_groups_each_once() -> None:
    heartbeat: Heartbeat[Peer] = Heartbeat(30.0)
    assert heartbeat.seconds == 1.0
    peers = [Peer() for _ in range(60)]
    for peer in peers:
        heartbeat.join(peer)
    pings: list[int] = []
    for _ in range(30):
        before = sum(len(peer.frames) for peer in peers)
        heartbeat.beat()
        pings.append(sum(len(peer.frames) for peer in peers) - before)
    assert sum(pings) == 60
    assert max(pings) <= 4
    assert pings[0] == 0  # no connection is pinged just after it arrived
    assert all(peer.frames == [PING_FRAME] for peer in peers)


@given(interval=st.floats(0.01, 1000), joins=st.lists(st.booleans(), max_size=50))
def test_a_round_of_beats_pings_each_connection_once(interval: float, joins: list[bool]) -> None:
    heartbeat: Heartbeat[Peer] = Heartbeat(interval)
    here: list[Peer] = []
    for arrives in joins:
        if arrives or not here:
            here.append(Peer())
            heartbeat.join(here[-1])
        else:
            heartbeat.leave(here.pop(0))
        heartbeat.beat()
    for peer in here:
        peer.frames.clear()
    for _ in range(round(interval / heartbeat.seconds)):
        heartbeat.beat()
    assert round(interval / heartbeat.seconds) <= MAX_GROUPS
    assert [peer.frames for peer in here] == [[PING_FRAME]] * len(here)
    assert len(heartbeat) == len(here)

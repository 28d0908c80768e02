"""Who is told of keep agents that come and go: all watchers, in the end; and no one more often than the rate."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moothall.hall import notices
from moothall.hall.keep.bridge import Party, Resident
from moothall.hall.notices import NOTICES
from moothall.settings.limits import Rate
from moothall.wire.agentchat.server import ServerMessage
from moothall.wire.outgoing import Outgoing
from tests.hall.keep.town import FakePeer, Town
from tests.support.keep import ALICE, BOB
from tests.support.replacing import Replacing
from tests.support.world import Guest, assert_consistent, assert_sent, assert_silent


def crowd(town: Town, number: int, peer: FakePeer) -> None:
    for serial in range(number):
        town.post(peer, f"bot:{serial}", "server")
    peer.read()


def empty(town: Town, peer: FakePeer) -> None:
    town.room.leave(peer)
    while town.room.free_some():
        pass


@dataclass
class Watcher:
    """Keeps the picture that a client has of #keep."""

    guest: Guest
    picture: set[str] = field(default_factory=set)
    notices: int = 0

    def look(self) -> None:
        for message in self.guest.read():
            match message["type"]:
                case "JOINED":
                    self.picture = {entry["id"] for entry in message["agents"]}
                case "AGENT_JOINED":
                    self.picture.add(message["agent"])
                    self.notices += 1
                case "AGENT_LEFT":
                    self.picture.discard(message["agent"])
                    self.notices += 1


def watching(town: Town, name: str) -> Watcher:
    watcher = Watcher(town.agent(name))
    town.send(watcher.guest, "JOIN", channel="#keep")
    watcher.look()
    return watcher


def present(town: Town) -> set[str]:
    return {member.address for member in town.hall.channels.find("#keep").members.values()}


def test_a_crowd_is_told_of_at_a_rate_and_completely() -> None:
    town = Town()
    watcher, peer = watching(town, "watcher"), FakePeer()
    crowd(town, 1000, peer)
    watcher.look()
    assert watcher.notices == NOTICES.limit
    for second in range(1, 10):
        town.advance(1)
        watcher.look()
        assert watcher.notices <= (second + 1) * NOTICES.limit
    town.advance(5)
    watcher.look()
    assert watcher.notices == 1000
    assert watcher.picture == present(town)
    assert len(town.bridge.visitors.notices) == 0
    assert_consistent(town)


def test_who_came_and_went_unnoticed_is_never_told_of() -> None:
    town = Town()
    watcher, peer = watching(town, "watcher"), FakePeer()
    crowd(town, 1000, peer)
    empty(town, peer)
    town.advance(60)
    watcher.look()
    assert watcher.notices == 2 * NOTICES.limit
    assert watcher.picture == present(town) == {watcher.guest.id}


def test_names_that_come_and_go_for_ever_leave_nothing_behind() -> None:
    town = Town()
    watcher = watching(town, "watcher")
    for _ in range(20):
        peer = FakePeer()
        crowd(town, 300, peer)
        empty(town, peer)
        assert len(town.bridge.visitors.notices) <= 300
    town.advance(60)
    watcher.look()
    assert watcher.picture == {watcher.guest.id}
    assert len(town.bridge.visitors.notices) == 0


def test_what_a_notice_costs_does_not_depend_on_the_number_of_residents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twelve connections with a thousand identities each: what is told, is told to the watcher alone."""
    told = 0

    def counting(message: ServerMessage) -> Outgoing:
        nonlocal told
        told += 1
        return Outgoing(message)

    monkeypatch.setattr(notices, "Outgoing", counting)
    town = Town()
    watcher = watching(town, "watcher")
    peers = [FakePeer(f"192.0.2.{number}") for number in range(12)]
    for number, peer in enumerate(peers):
        for serial in range(1000):
            town.post(peer, f"bot:{number}-{serial}", "server")
        peer.read()
    converted: list[object] = []
    monkeypatch.setattr(Party, "put", lambda party, outgoing: converted.append(outgoing))
    monkeypatch.setattr(Resident, "put", lambda resident, outgoing: converted.append(outgoing))
    before = len(watcher.guest.link.frames)
    town.room.leave(peers[0])
    while town.room.free_some():
        pass
    assert len(watcher.guest.link.frames) - before <= NOTICES.limit
    assert told <= 2 * NOTICES.limit
    assert converted == []
    assert len(town.room.registry) == 11_000


def test_who_speaks_has_been_introduced() -> None:
    town = Town(rate_message=Rate(0, 1))
    watcher, peer = watching(town, "watcher"), FakePeer()
    crowd(town, 200, peer)
    watcher.look()
    agent = town.bridge.residents["bot:199"].agent
    assert agent.address not in watcher.picture
    town.post(peer, "bot:199", "#keep", "hello")
    assert_sent(watcher.guest, "AGENT_JOINED", agent=agent.address)
    assert_sent(watcher.guest, "MSG", content="hello")
    assert_silent(watcher.guest)


def test_without_watchers_nothing_waits() -> None:
    town = Town()
    peer = FakePeer()
    crowd(town, 500, peer)
    assert len(town.bridge.visitors.notices) == 0
    watcher = watching(town, "late")
    assert watcher.picture == present(town)


steps = st.one_of(
    st.tuples(st.just("come"), st.integers(0, 2), st.integers(0, 5), st.booleans()),
    st.tuples(st.just("go"), st.integers(0, 2)),
    st.tuples(st.just("watch"), st.integers(0, 1)),
    st.tuples(st.just("look away"), st.integers(0, 1)),
    st.tuples(st.just("speak"), st.integers(0, 5)),
    st.tuples(st.just("wait"), st.sampled_from((0.05, 0.1, 1.5))),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=40))
def test_every_watcher_ends_with_the_right_picture(history: list[tuple[Any, ...]]) -> None:
    with Replacing.context() as patch:
        patch.setattr(notices, "NOTICES", Rate(2, 1))
        town = Town(rate_message=Rate(0, 1))
    peers = [FakePeer() for _ in range(3)]
    watchers: dict[int, Watcher] = {}
    for step in history:
        match step:
            case "come", number, serial, is_alice:
                town.post(peers[number], f"bot:{serial}", "server", signer=ALICE if is_alice else BOB)
            case "go", number:
                empty(town, peers[number])
                peers[number] = FakePeer()
            case "watch", number if number not in watchers:
                watchers[number] = watching(town, f"watcher-{number}")
            case "look away", number if number in watchers:
                town.disconnect(watchers.pop(number).guest)
            case "speak", serial if f"bot:{serial}" in town.bridge.residents:
                resident = town.bridge.residents[f"bot:{serial}"]
                signer = ALICE if resident.key == ALICE.pk else BOB
                town.post(resident.peer, f"bot:{serial}", "#keep", "hello", signer=signer)  # type: ignore[arg-type]
            case "wait", seconds:
                town.advance(seconds)
        for number, peer in enumerate(peers):
            if peer.closed:  # another connection has an identity of its own now
                empty(town, peer)
                peers[number] = FakePeer()
    town.advance(60)
    assert len(town.bridge.visitors.notices) == 0
    for watcher in watchers.values():
        watcher.look()
        assert watcher.picture == present(town)
    assert_consistent(town)

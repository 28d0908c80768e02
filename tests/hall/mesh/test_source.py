"""What a connection and a peer have in common: order, limits, and waiting for the disk."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moothall.settings.limits import Rate
from moothall.wire.mesh.envelope import Envelope, encode
from moothall.wire.mesh.msg_types import MsgType
from tests.hall.mesh.peers import Distant, Peer, networked
from tests.hall.mesh.town import Town

Send = Callable[[MsgType], Envelope]


def source(town: Town, *, is_peer: bool) -> Send:
    """How an agent sends to bob, who is here: by its own connection or through a peer."""
    bob = town.present("bob", "203.0.113.1", proven=True)
    if not is_peer:
        alice = town.connect_agent("alice")
        return lambda msg_type: alice.send(msg_type, b"x", to=bob) if msg_type < 8 else alice.beacon()
    peer, dora = Peer(town), Distant(town, "dora")

    def send(msg_type: MsgType) -> Envelope:
        envelope = dora.seal(msg_type, b"x", to=bob) if msg_type < 8 else dora.beacon()
        assert peer.brings(envelope)
        return envelope

    return send


STEPS = st.lists(st.sampled_from(["propose", "beacon", "disk", "time"]), max_size=60)


@pytest.mark.parametrize("is_peer", [False, True])
@settings(max_examples=30, deadline=None)
@given(steps=STEPS)
def test_envelopes_are_taken_in_order_and_none_is_lost(is_peer: bool, steps: list[str]) -> None:
    town, _ = networked(address_frames=Rate(16, 1), mesh_rate=Rate(10, 1), identify_timeout=0)
    send = source(town, is_peer=is_peer)
    town.dealings.waiting = disk = list[Callable[[], None]]()
    sent: list[Envelope] = []
    for step in steps:
        if step == "disk":
            if disk:
                disk.pop(0)()
        elif step == "time":
            town.advance(0.2)
        elif step == "beacon":
            send(MsgType.BEACON)
        else:
            sent.append(send(MsgType.PROPOSE))
        taken = [envelope for envelope, _ in town.dealings.taken]
        assert taken == sent[: len(taken)]
    for _ in range(len(steps)):
        town.advance(1)
        while disk:
            disk.pop(0)()
    assert [envelope for envelope, _ in town.dealings.taken] == sent


@pytest.mark.parametrize("is_peer", [False, True])
def test_what_is_left_of_a_source_that_cannot_pay_is_dropped_with_it(is_peer: bool) -> None:
    town, _ = networked(address_frames=Rate(8, 1))
    if is_peer:
        peer, dora = Peer(town), Distant(town, "dora")
        for _ in range(40):
            peer.brings(dora.seal(MsgType.BOUNTY, b"{}"))
        relay = peer.relay
        relay.end()
        taken = town.room.border.received["BOUNTY"]
        town.advance(60)
        assert (town.room.border.received["BOUNTY"], relay.waiting) == (taken, 0)
    else:
        alice = town.connect_agent("alice")
        for _ in range(40):
            alice.post(encode(alice.seal(MsgType.BOUNTY, b"{}")))
        alice.leave()
        taken = town.room.received["BOUNTY"]
        town.advance(60)
        assert town.room.received["BOUNTY"] == taken

"""The rules for an envelope are the same for a connection and for a peer. `test_room.py` has each of them."""

from collections.abc import Callable

import pytest
from msgspec import structs

from moothall.errors import Banned, OutOfOrder
from moothall.wire.mesh.envelope import Envelope, encode, signing_bytes
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.validation import topic_of
from tests.hall.mesh.peers import Distant, Peer, networked
from tests.hall.mesh.town import Agent, Town
from tests.support.world import HALL_KEY

Break = Callable[[Envelope], Envelope]


def changed(**fields: object) -> Break:
    return lambda envelope: structs.replace(envelope, **fields)


BROKEN: dict[str, Break] = {
    "UnsupportedVersion": changed(version=2),
    "TimestampOutOfTolerance": lambda envelope: structs.replace(
        envelope, timestamp=envelope.timestamp + 40_000_000
    ),
    "PayloadHashMismatch": changed(payload_hash=bytes(32)),
    "PayloadLengthMismatch": changed(payload_len=1),
    "NonceReplay": changed(nonce=0),
    "WrongRoute": changed(recipient=b"r" * 32),
    "ReservedKey": changed(recipient=HALL_KEY.public.raw),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_both_refuse_the_same(fault: str) -> None:
    town, network = networked()
    listener = town.present("listener")
    sender = Distant(town, "sender")
    envelope = BROKEN[fault](sender.seal(MsgType.BOUNTY, b"{}"))
    envelope = structs.replace(envelope, signature=sender.key.sign_bytes(signing_bytes(envelope)))
    listener.types(), network.took()
    Peer(town).brings(envelope, topic_of(envelope))
    Agent(town, "sender", "192.0.2.7").post(encode(envelope))
    assert town.room.border.dropped == town.room.refused == {fault: 1}
    assert listener.types() == []
    assert network.took() == []


def test_both_count_what_the_market_and_the_hall_refuse() -> None:
    town = Town()
    peer, bob = Peer(town), town.present("bob")
    alice, dora = town.connect_agent("alice"), Distant(town, "dora")
    town.dealings.error = OutOfOrder("no")
    alice.propose(bob)
    peer.brings(dora.propose(bob))
    town.presence.banned = {alice.id: Banned("no"), dora.id: Banned("no")}
    alice.propose(bob)
    peer.brings(dora.propose(bob))
    assert town.room.border.dropped == town.room.refused == {"OutOfOrder": 1, "BANNED": 1}


def test_an_envelope_of_either_is_taken_once() -> None:
    town, _ = networked()
    peer, bob = Peer(town), town.present("bob", proven=True)
    dora = Distant(town, "dora")
    sent = dora.propose(bob)
    peer.brings(sent)
    town.connect_agent("dora").post(encode(sent))
    assert [envelope for envelope, _ in town.dealings.taken] == [sent]
    assert town.room.refused == {"NonceReplay": 1}

"""gossipsub: the mesh, its budgets, and networks in which all get every message once."""

import random
from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moothall.identity.signatures import expand
from moothall.p2p.delimited import Delimited
from moothall.p2p.gossipsub import MAX_BACKOFFS, GossipSub, Joined, Left, Outcome, Rules
from moothall.p2p.message_cache import OVERHEAD
from moothall.p2p.pubsub import (
    MAX_MESSAGE,
    MAX_RPC,
    Message,
    Prune,
    Rpc,
    decode_rpc,
    publication,
    signed_message,
)

TOPIC = "/0x01/v1/broadcast"
SECRETS = [expand(bytes([number]) * 32) for number in range(1, 40)]
NAMES = [secret[32:] for secret in SECRETS]
NOW = 1_000_000


def first(items: object, count: int) -> list[bytes]:
    return list(items)[:count]  # type: ignore[call-overload, no-any-return]


def node(*, peers: int = 0, rules: Rules | None = None, outbound: bool = False) -> GossipSub:
    """A node in the topic, with so many peers that are in it too; they were told all they should be."""
    gossip = GossipSub(b"me" * 16, choose=first, rules=rules)
    gossip.join(TOPIC, NOW)
    for name in NAMES[:peers]:
        gossip.connect(name, is_outbound=outbound)
        gossip.hear(name, Rpc(subscriptions=[(True, TOPIC)]), NOW)
    gossip.outgoing()
    return gossip


def sent(gossip: GossipSub) -> dict[bytes, list[Rpc]]:
    found: dict[bytes, list[Rpc]] = {}
    for name, frame in gossip.outgoing():
        assert len(frame) <= MAX_MESSAGE + 20
        (data,) = Delimited(MAX_RPC).receive(frame)
        found.setdefault(name, []).append(decode_rpc(data))
    return found


def said(number: int, *, author: int = 30, topic: str = TOPIC, size: int = 5) -> Message:
    return signed_message(SECRETS[author], number, topic, bytes(size))


def mesh(gossip: GossipSub) -> set[bytes]:
    return gossip._meshes[TOPIC]


# -- peers and topics ----------------------------------------------------------------------------------------


def test_a_new_peer_is_told_of_our_topics() -> None:
    gossip = node()
    gossip.connect(NAMES[0], is_outbound=True)
    assert sent(gossip) == {NAMES[0]: [Rpc(subscriptions=[(True, TOPIC)])]}


def test_peers_are_told_when_we_join_and_leave() -> None:
    gossip = GossipSub(b"me" * 16, choose=first)
    gossip.connect(NAMES[0], is_outbound=True)
    events = gossip.hear(NAMES[0], Rpc(subscriptions=[(True, TOPIC), (True, TOPIC)]), NOW)
    assert events == [Joined(NAMES[0], TOPIC)]
    gossip.join(TOPIC, NOW)
    gossip.join(TOPIC, NOW)
    assert sent(gossip)[NAMES[0]] == [Rpc(subscriptions=[(True, TOPIC)]), Rpc(graft=[TOPIC])]
    gossip.leave(TOPIC, NOW)
    gossip.leave(TOPIC, NOW)
    assert sent(gossip)[NAMES[0]] == [Rpc(subscriptions=[(False, TOPIC)]), Rpc(prune=[Prune(TOPIC, 10)])]
    # It is not taken in again before the backoff is over.
    gossip.join(TOPIC, NOW + 9999)
    assert sent(gossip)[NAMES[0]] == [Rpc(subscriptions=[(True, TOPIC)])]
    gossip.heartbeat(NOW + 10_000)
    assert sent(gossip)[NAMES[0]] == [Rpc(graft=[TOPIC])]


def test_peers_that_come_are_taken_into_a_small_mesh_at_once() -> None:
    gossip = node(peers=8)
    assert mesh(gossip) == set(NAMES[:5])


def test_a_peer_that_leaves_the_topic_leaves_the_mesh() -> None:
    gossip = node(peers=2)
    assert gossip.hear(NAMES[0], Rpc(subscriptions=[(False, TOPIC), (False, "other")]), NOW) == [
        Left(NAMES[0], TOPIC)
    ]
    assert mesh(gossip) == {NAMES[1]}
    gossip.disconnect(NAMES[1])
    gossip.disconnect(NAMES[1])
    assert mesh(gossip) == set()
    assert gossip.peers_in(TOPIC) == []


def test_nothing_is_sent_to_a_peer_that_is_gone() -> None:
    gossip = node(peers=1)
    gossip.publish(said(1), NOW)
    gossip.leave(TOPIC, NOW)
    gossip.disconnect(NAMES[0])
    assert gossip.outgoing() == []
    assert gossip.hear(NAMES[0], Rpc(subscriptions=[(True, TOPIC)]), NOW) == []


def test_a_peer_has_so_many_topics() -> None:
    gossip = node(peers=1, rules=Rules(topics=3))
    events = gossip.hear(NAMES[0], Rpc(subscriptions=[(True, f"{number}") for number in range(9)]), NOW)
    assert len(events) == 2
    assert gossip.hear(NAMES[0], Rpc(subscriptions=[(True, "")]), NOW) == []


# -- messages ------------------------------------------------------------------------------------------------


def test_our_own_messages_go_to_all_peers_in_the_topic() -> None:
    gossip = node(peers=20)
    gossip.connect(NAMES[20], is_outbound=True)
    gossip.outgoing()
    message = said(1)
    assert gossip.publish(message, NOW) == 20
    frames = gossip.outgoing()
    assert [name for name, _ in frames] == NAMES[:20]
    assert len({id(frame) for _, frame in frames}) == 1


def test_a_new_message_goes_to_the_mesh() -> None:
    gossip = node(peers=10)
    message = said(1, author=1)
    assert gossip.take(NAMES[0], message, NOW) is Outcome.NEW
    # Neither to the peer that it came from, nor to its author.
    assert sent(gossip) == {name: [Rpc(messages=[message])] for name in NAMES[2:5]}
    assert gossip.take(NAMES[2], message, NOW) is Outcome.DUPLICATE
    assert gossip.outgoing() == []


def test_messages_that_are_not_passed_on() -> None:
    gossip = node(peers=3)
    forged = said(1)
    forged = Message(
        forged.author, 1, TOPIC, b"x", forged.signature, forged.id, forged.encoded.replace(bytes(5), b"xxxxx")
    )
    assert gossip.take(NAMES[0], forged, NOW) is Outcome.FORGED
    assert gossip.take(NAMES[0], said(1, topic="other"), NOW) is Outcome.UNWANTED
    assert gossip.outgoing() == []
    # The forged one has not taken the place of the true one.
    assert gossip.take(NAMES[0], said(1), NOW) is Outcome.NEW
    own = GossipSub(NAMES[30], choose=first)
    own.join(TOPIC, NOW)
    assert own.take(NAMES[0], said(1), NOW) is Outcome.OWN


def test_a_message_is_new_again_after_a_minute() -> None:
    gossip = node(peers=3)
    gossip.take(NAMES[0], said(1), NOW)
    gossip.heartbeat(NOW + 59_999)
    assert gossip.take(NAMES[0], said(1), NOW) is Outcome.DUPLICATE
    gossip.heartbeat(NOW + 60_000)
    assert gossip.take(NAMES[0], said(1), NOW) is Outcome.NEW


# -- the mesh ------------------------------------------------------------------------------------------------


def test_the_heartbeat_fills_a_small_mesh() -> None:
    gossip = node(peers=10)
    for name in NAMES[:3]:
        gossip.hear(name, Rpc(prune=[Prune(TOPIC)]), NOW)
    assert len(mesh(gossip)) == 2
    gossip.heartbeat(NOW)
    assert mesh(gossip) == set(NAMES[3:9])
    assert sent(gossip) == {name: [Rpc(graft=[TOPIC])] for name in NAMES[5:9]}


def test_the_heartbeat_thins_a_large_mesh() -> None:
    gossip = node(peers=12)
    for name in NAMES[:12]:
        gossip.hear(name, Rpc(graft=[TOPIC]), NOW)
    for name in NAMES[12:14]:  # these were dialled, and may come over the limit
        gossip.connect(name, is_outbound=True)
        gossip.hear(name, Rpc(subscriptions=[(True, TOPIC)], graft=[TOPIC]), NOW)
    gossip.outgoing()
    assert len(mesh(gossip)) == 14
    gossip.heartbeat(NOW)
    assert len(mesh(gossip)) == 6
    assert mesh(gossip) >= set(NAMES[12:14])
    pruned = [name for name, rpcs in sent(gossip).items() if rpcs == [Rpc(prune=[Prune(TOPIC, 60)])]]
    assert len(pruned) == 8


def test_a_mesh_without_peers_that_we_dialled_gets_some() -> None:
    gossip = node(peers=6)
    for name in NAMES[6:9]:
        gossip.connect(name, is_outbound=True)
        gossip.hear(name, Rpc(subscriptions=[(True, TOPIC)]), NOW)
    gossip.heartbeat(NOW)
    assert len(mesh(gossip) & set(NAMES[6:9])) == 2


def test_a_full_mesh_refuses() -> None:
    gossip = node(peers=14)
    for name in NAMES[:14]:
        gossip.hear(name, Rpc(graft=[TOPIC]), NOW)
    assert mesh(gossip) == set(NAMES[:12])
    assert sent(gossip) == {name: [Rpc(prune=[Prune(TOPIC, 60)])] for name in NAMES[12:14]}


def test_a_peer_that_was_put_out_must_wait() -> None:
    gossip = node(peers=1)
    gossip.hear(NAMES[0], Rpc(prune=[Prune(TOPIC, 30)]), NOW)
    gossip.heartbeat(NOW + 29_999)
    assert mesh(gossip) == set()
    gossip.hear(NAMES[0], Rpc(graft=[TOPIC]), NOW + 29_999)
    assert sent(gossip) == {NAMES[0]: [Rpc(prune=[Prune(TOPIC, 60)])]}
    gossip.hear(NAMES[0], Rpc(graft=[TOPIC]), NOW + 29_999 + 60_000)
    assert mesh(gossip) == {NAMES[0]}


@pytest.mark.parametrize(("told", "waits"), [(None, 60_000), (0, 0), (1 << 60, 600_000)])
def test_how_long_a_peer_makes_us_wait(told: int | None, waits: int) -> None:
    gossip = node(peers=1)
    gossip.hear(NAMES[0], Rpc(prune=[Prune(TOPIC, told)]), NOW)
    assert gossip._must_wait(NAMES[0], TOPIC, NOW + waits - 1)
    assert not gossip._must_wait(NAMES[0], TOPIC, NOW + waits)


def test_a_shorter_wait_does_not_replace_a_longer_one() -> None:
    gossip = node(peers=1)
    gossip.hear(NAMES[0], Rpc(prune=[Prune(TOPIC, 300), Prune(TOPIC, 1)]), NOW)
    assert gossip._must_wait(NAMES[0], TOPIC, NOW + 299_999)


def test_waits_are_remembered_for_peers_that_are_gone_and_not_for_ever() -> None:
    gossip = node()
    for number in range(MAX_BACKOFFS + 5):
        name = b"%032d" % number
        gossip.connect(name, is_outbound=False)
        gossip.hear(name, Rpc(prune=[Prune(TOPIC, 60)]), NOW)
        gossip.disconnect(name)
    assert len(gossip._backoffs) == MAX_BACKOFFS
    assert gossip._must_wait(name, TOPIC, NOW + 59_999)
    gossip.heartbeat(NOW + 60_000)
    assert len(gossip._backoffs) == 0


def test_grafts_into_topics_that_we_are_not_in_are_ignored() -> None:
    gossip = node(peers=1)
    gossip.hear(NAMES[0], Rpc(graft=["other"], prune=[Prune("other")]), NOW)
    assert gossip.outgoing() == []
    assert gossip.peers_in("other") == []


def test_a_graft_counts_as_a_subscription() -> None:
    """rust-libp2p sends it ahead of the subscriptions."""
    gossip = node(rules=Rules(topics=1))
    gossip.join("second", NOW)
    gossip.connect(NAMES[0], is_outbound=False)
    gossip.outgoing()
    assert gossip.hear(NAMES[0], Rpc(graft=[TOPIC, "second"]), NOW) == [Joined(NAMES[0], TOPIC)]
    assert gossip.hear(NAMES[0], Rpc(subscriptions=[(True, TOPIC)]), NOW) == []
    assert mesh(gossip) == {NAMES[0]}
    assert gossip.statistics().meshes["second"] == 0
    assert gossip.outgoing() == []


# -- gossip --------------------------------------------------------------------------------------------------


def test_others_are_told_of_messages_and_ask_for_them() -> None:
    gossip, other = node(peers=8), node(peers=8)
    message = said(1)
    gossip.take(NAMES[0], message, NOW)
    gossip.outgoing()
    gossip.heartbeat(NOW)
    assert sent(gossip) == {name: [Rpc(ihave=[(TOPIC, [message.id])])] for name in NAMES[5:8]}
    other.hear(NAMES[0], Rpc(ihave=[(TOPIC, [message.id, message.id])]), NOW)
    assert sent(other) == {NAMES[0]: [Rpc(iwant=[message.id])]}
    gossip.hear(NAMES[7], Rpc(iwant=[message.id, b"unknown"]), NOW)
    assert sent(gossip) == {NAMES[7]: [Rpc(messages=[message])]}
    other.take(NAMES[0], message, NOW)
    other.outgoing()
    other.hear(NAMES[0], Rpc(ihave=[(TOPIC, [message.id])]), NOW)
    assert other.outgoing() == []


def test_a_peer_is_asked_for_so_much() -> None:
    gossip = node(peers=2)
    ids = [b"12D3KooW%064d" % number for number in range(9000)]
    gossip.hear(NAMES[0], Rpc(ihave=[(TOPIC, ids[:3000]), ("other", ids[:9]), (TOPIC, ids)]), NOW)
    asked = [each for rpc in sent(gossip)[NAMES[0]] for each in rpc.iwant]
    assert len(asked) == 5000
    gossip.hear(NAMES[0], Rpc(ihave=[(TOPIC, [b"another"])]), NOW)
    assert gossip.outgoing() == []
    gossip.hear(NAMES[1], Rpc(ihave=[(TOPIC, [b"%d" % number]) for number in range(20)]), NOW)
    assert len(sent(gossip)[NAMES[1]]) == 10
    gossip.heartbeat(NOW)
    gossip.hear(NAMES[0], Rpc(ihave=[(TOPIC, [b"another"])]), NOW)
    assert sent(gossip)[NAMES[0]] == [Rpc(iwant=[b"another"])]


def test_a_peer_gets_so_many_bytes_for_asking() -> None:
    gossip = node(peers=8)
    messages = [said(number, size=60_000) for number in range(50)]
    for message in messages:
        gossip.publish(message, NOW)
    gossip.outgoing()
    gossip.hear(NAMES[7], Rpc(iwant=[message.id for message in messages] * 4), NOW)
    frames = gossip.outgoing()
    assert sum(len(frame) for _, frame in frames) <= 2 * 1024 * 1024 + 10_000
    assert len(frames) == 34
    gossip.heartbeat(NOW)
    gossip.outgoing()
    gossip.hear(NAMES[7], Rpc(iwant=[messages[49].id] * 9), NOW)
    assert len(gossip.outgoing()) == 1  # the same message once per RPC


def test_a_mesh_peer_that_missed_a_message_is_told_of_it_for_three_heartbeats() -> None:
    gossip = node(peers=3)
    message = said(1)
    gossip.publish(message, NOW)
    gossip.outgoing()
    gossip.heartbeat(NOW)
    assert sent(gossip) == {}
    gossip.missed(NAMES[1])
    gossip.missed(b"unknown")
    for _ in range(2):
        gossip.heartbeat(NOW)
        assert sent(gossip) == {NAMES[1]: [Rpc(ihave=[(TOPIC, [message.id])])]}
    later = said(2)
    gossip.publish(later, NOW)
    gossip.outgoing()
    gossip.heartbeat(NOW)
    assert sent(gossip) == {NAMES[1]: [Rpc(ihave=[(TOPIC, [later.id])])]}
    gossip.heartbeat(NOW)
    assert sent(gossip) == {}


def test_a_peer_with_too_many_forged_messages_in_a_heartbeat_is_a_forger() -> None:
    gossip = node(peers=2, rules=Rules(forged=3))
    forged = msgspec.structs.replace(said(1), signature=bytes(64))
    for name in (*NAMES[:1] * 3, b"unknown"):
        assert gossip.take(name, forged, NOW) is Outcome.FORGED
    assert not gossip.is_forger(NAMES[0])
    gossip.heartbeat(NOW)
    for _ in range(4):
        assert not gossip.is_forger(NAMES[0])
        assert gossip.take(NAMES[0], forged, NOW) is Outcome.FORGED
    assert [gossip.is_forger(name) for name in (*NAMES[:2], b"unknown")] == [True, False, False]
    assert gossip.take(NAMES[1], said(1), NOW) is Outcome.NEW


def test_endless_grafts_get_few_answers() -> None:
    gossip = node(peers=1)
    gossip.hear(NAMES[0], Rpc(prune=[Prune(TOPIC)]), NOW)
    prunes = 0
    for _ in range(1000):
        gossip.hear(NAMES[0], Rpc(graft=[TOPIC] * 50), NOW)
        prunes += sum(len(rpc.prune) for rpc in sent(gossip).get(NAMES[0], []))
    assert prunes == 64
    assert len(gossip._backoffs) == 1


def test_a_long_list_of_messages_is_told_in_several_rpcs() -> None:
    gossip = node(peers=8)
    for number in range(2000):
        message = Message(b"a", number, TOPIC, b"", b"", b"12D3KooW%064d" % number, b"x")
        gossip._history.add(message)
    gossip.heartbeat(NOW)
    told = sent(gossip)[NAMES[7]]
    assert [len(rpc.ihave[0][1]) for rpc in told] == [800, 800, 400]


def test_peers_are_told_of_some_of_very_many_messages_with_the_same_frames() -> None:
    gossip = node(peers=9)
    for number in range(8000):
        message = Message(b"a", number, TOPIC, b"", b"", b"12D3KooW%064d" % number, b"x")
        gossip._history.add(message)
    gossip.heartbeat(NOW)
    frames: dict[bytes, list[bytes]] = {}
    for name, frame in gossip.outgoing():
        frames.setdefault(name, []).append(frame)
    assert [len(each) for each in frames.values()] == [6] * 4  # of ten; five peers are in the mesh
    assert len({id(frame) for each in frames.values() for frame in each}) == 6


def test_statistics() -> None:
    gossip = node(peers=3)
    gossip.take(NAMES[0], said(1), NOW)
    numbers = gossip.statistics()
    assert (numbers.peers, numbers.meshes, numbers.seen, numbers.kept) == (3, {TOPIC: 3}, 1, 1)
    assert numbers.kept_bytes == len(publication(said(1))) + OVERHEAD


# -- networks ------------------------------------------------------------------------------------------------


class Network:
    """Nodes that are connected at random. Some frames are lost, as by a peer that cannot take them."""

    def __init__(self, toss: random.Random, size: int, *, links: int = 4) -> None:
        self.toss = toss
        self.nodes = {
            name: GossipSub(name, choose=lambda items, count: toss.sample(list(items), count))
            for name in NAMES[:size]
        }
        self.got: Counter[tuple[bytes, bytes]] = Counter()
        self.lost = 0.0
        names = NAMES[:size]
        for place, name in enumerate(names[1:], 1):  # a tree, and then some
            others = {toss.choice(names[:place])} | set(toss.sample(names, min(size, links)))
            for other in others - {name}:
                if other not in self.nodes[name]._peers:
                    self.nodes[name].connect(other, is_outbound=True)
                    self.nodes[other].connect(name, is_outbound=False)
        for each in self.nodes.values():
            each.join(TOPIC, NOW)
        self.deliver()

    def deliver(self) -> None:
        while frames := [(name, *each) for name, gossip in self.nodes.items() for each in gossip.outgoing()]:
            self.toss.shuffle(frames)
            for source, target, frame in sorted(frames, key=lambda each: each[:2]):
                rpc = decode_rpc(Delimited(MAX_RPC).receive(frame)[0])
                if rpc.messages and self.toss.random() < self.lost:
                    continue
                self.nodes[target].hear(source, rpc, NOW)
                for message in rpc.messages:
                    if self.nodes[target].take(source, message, NOW) is Outcome.NEW:
                        self.got[target, message.id] += 1

    def heartbeat(self) -> None:
        for gossip in self.nodes.values():
            gossip.heartbeat(NOW)
        self.deliver()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(2, 25))
def test_all_get_every_message_once(seed: int, size: int) -> None:
    network = Network(random.Random(seed), size)  # noqa: S311  # no secret
    for _ in range(3):
        network.heartbeat()
    messages = [said(number, author=network.toss.randrange(size)) for number in range(4)]
    for message in messages:
        network.nodes[message.author].publish(message, NOW)
    network.deliver()
    network.heartbeat()
    for message in messages:
        heard = {name for (name, each) in network.got if each == message.id}
        assert heard == set(network.nodes) - {message.author}
    assert set(network.got.values()) == {1}
    for gossip in network.nodes.values():
        assert len(mesh(gossip)) <= 12


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1 << 32))
def test_what_was_lost_comes_back(seed: int) -> None:
    """Most messages do not arrive, and then peers outside of the meshes tell of them."""
    size = 20
    network = Network(random.Random(seed), size, links=size)  # noqa: S311  # no secret
    for _ in range(3):
        network.heartbeat()
    network.lost = 0.8
    message = said(1, author=0)
    network.nodes[message.author].publish(message, NOW)
    network.deliver()
    network.lost = 0.0
    for _ in range(3):
        network.heartbeat()
    assert {name for name, _ in network.got} == set(network.nodes) - {message.author}
    assert set(network.got.values()) == {1}

"""Hostile peers on loopback, while two honest ones talk through the same host.

Each attack may cost the host some memory and some work, both within bounds that are written here. It costs the
honest ones no message: `company` counts them.
"""

import asyncio

import pytest

from moothall.identity.signatures import expand
from moothall.network.rules import Rules
from moothall.p2p import gossipsub, message_cache, protobuf
from moothall.p2p.delimited import delimit
from moothall.p2p.pubsub import Prune, Rpc, publication, signed_message
from moothall.p2p.yamux import Limits
from tests.support.hostile import (
    GOSSIP,
    KIB,
    MIB,
    TOPIC,
    answered,
    attacked,
    company,
    cut_off,
    in_topic,
    pour,
    several,
)
from tests.support.network import Stranger, homes, meet, until, visited

SECRET = expand(b"stranger".ljust(32, b"."))


# -- messages in topics --------------------------------------------------------------------------------------


async def test_a_peer_that_forges_signatures_is_cut_off_after_so_many_checks() -> None:
    rules = Rules(gossip=gossipsub.Rules(forged=50))
    async with attacked(rules) as (there, stranger):
        stream = await in_topic(there, stranger)
        forged = [
            publication(signed_message(SECRET, number, TOPIC, b"spam"))[:-1] + b"\xff"
            for number in range(1000)
        ]
        assert not await pour(stranger, stream, b"".join(forged) * 10)
        await cut_off(there, stranger, "signatures do not hold")
        assert there.checks == 51  # also no more of the same piece
        assert all(message.author == there.bob.id for message in there.carol.resident.messages)


async def test_a_forged_author_cannot_take_the_place_of_a_message() -> None:
    """The stranger guesses the number of a message that Dave will publish, and sends one with its id before."""
    async with attacked() as (there, stranger):
        stream = await in_topic(there, stranger)
        theirs = signed_message(expand(b"dave".ljust(32, b".")), 7, TOPIC, b"true").encoded
        forged = theirs[:-1] + bytes((theirs[-1] ^ 1,))
        assert await pour(stranger, stream, delimit(protobuf.bytes_field(2, forged)))
        await until(lambda: there.hub.host.statistics().outcomes["forged"] == 1)
        assert await pour(stranger, stream, delimit(protobuf.bytes_field(2, theirs)))
        await until(lambda: any(each.data == b"true" for each in there.carol.resident.messages))


async def test_unsigned_and_unwanted_messages_and_replays_are_not_checked() -> None:
    async with attacked() as (there, stranger):
        stream = await in_topic(there, stranger)
        encoded = signed_message(SECRET, 1, TOPIC, b"spam").encoded
        unsigned = delimit(protobuf.bytes_field(2, encoded[:-66]))
        elsewhere = publication(signed_message(SECRET, 2, "another topic", b"spam"))
        assert await pour(stranger, stream, (unsigned + elsewhere + publication_of(3)) * 3000)
        await until(lambda: there.hub.host.statistics().outcomes["duplicate"] == 2999)
        outcomes = there.hub.host.statistics().outcomes
        assert (outcomes["malformed"], outcomes["unwanted"], there.checks) == (3000, 3000, 1)
        assert there.growth < 256 * KIB


def publication_of(number: int, size: int = 10, topic: str = TOPIC) -> bytes:
    return publication(signed_message(SECRET, number, topic, bytes(size)))


async def test_long_messages_at_full_speed_are_kept_up_to_a_limit() -> None:
    """They are signed, and so they are passed on. It is for the resident to admit fewer."""
    async with attacked() as (there, stranger):
        stream = await in_topic(there, stranger)
        for number in range(600):
            assert await pour(stranger, stream, publication_of(number, 65_000))
        await until(lambda: there.checks == 600)
        numbers = there.hub.host.statistics()
        assert message_cache.MAX_KEPT - 100_000 < numbers.gossip.kept_bytes <= message_cache.MAX_KEPT
        assert there.growth < message_cache.MAX_KEPT + 12 * MIB
        assert there.most_waiting < 10 * MIB  # two queues of 2 MiB, and what yamux has of each


async def test_a_resident_that_admits_nothing_has_nothing_checked() -> None:
    async with homes("hub") as (hub,), visited(hub) as stranger:
        hub.host.join(TOPIC)
        hub.resident.is_busy = True
        stream = stranger.speak(GOSSIP)
        for number in range(1000):
            assert await pour(stranger, stream, publication_of(number))
        await until(lambda: hub.host.statistics().outcomes["not admitted"] == 1000)
        outcomes = hub.host.statistics().outcomes
        assert (outcomes["new"], outcomes["forged"], hub.host.statistics().gossip.seen) == (0, 0, 0)


# -- what gossipsub is told ----------------------------------------------------------------------------------


async def test_topics_without_end() -> None:
    async with attacked() as (there, stranger):
        stream = await in_topic(there, stranger)
        for start in range(0, 20_000, 100):
            topics = [(True, f"{number:0200d}") for number in range(start, start + 100)]
            assert await pour(stranger, stream, Rpc(subscriptions=topics).encode())
        await answered(stranger)
        assert len({topic for peer, topic in there.hub.resident.joined_topics if peer == stranger.id}) == 256
        assert there.growth < 512 * KIB


async def test_subscriptions_that_come_and_go() -> None:
    """Each may be answered with a GRAFT. Answers that are not read are bounded."""
    async with attacked() as (there, stranger):
        stream = await in_topic(there, stranger)
        both = Rpc(subscriptions=[(True, TOPIC), (False, TOPIC)] * 1000).encode()
        for _ in range(30):
            assert await pour(stranger, stream, both)
        await answered(stranger)
        assert there.growth < 512 * KIB


async def test_grafts_and_prunes_without_end() -> None:
    async with attacked() as (there, stranger):
        stream = await in_topic(there, stranger)
        before = sum(map(len, stranger.said.values()))
        many = Rpc(
            graft=[TOPIC] * 500 + [f"guess {number}" for number in range(500)],
            prune=[Prune(TOPIC, 1 << 60), *(Prune(f"guess {number}", 60) for number in range(500))],
        ).encode()
        for _ in range(200):
            assert await pour(stranger, stream, many)
        await answered(stranger)
        answers = sum(map(len, stranger.said.values())) - before
        lines = 300 * there.said  # Bob's messages: the stranger was in the mesh
        assert answers < 64 * 64 + 1000 + lines
        assert there.growth < 256 * KIB


async def test_offers_of_messages_without_end() -> None:
    async with attacked() as (there, stranger):
        stream = await in_topic(there, stranger)
        for number in range(200):
            ids = [b"%0120d" % each for each in range(number * 1000, number * 1000 + 1000)]
            assert await pour(stranger, stream, Rpc(ihave=[(TOPIC, ids)]).encode())
        await answered(stranger)
        asked = b"".join(stranger.said.values()).count(b"\x0a\x78" + b"0" * 110)
        assert 0 < asked <= gossipsub.Rules().asked
        assert there.growth < 256 * KIB


async def test_requests_for_messages_without_end() -> None:
    rules = Rules(gossip=gossipsub.Rules(answered=100_000))
    async with attacked(rules) as (there, stranger):
        stream = await in_topic(there, stranger)
        for number in range(300):
            assert await pour(stranger, stream, publication_of(number, 1000))
        await until(lambda: there.checks == 300)
        before = there.growth
        ids = [signed_message(SECRET, number, TOPIC, b"").id for number in range(300)]
        ids += [b"unknown %d" % number for number in range(700)]
        for _ in range(200):
            assert await pour(stranger, stream, Rpc(iwant=ids * 10).encode())
        await answered(stranger)
        spam = b"".join(stranger.said.values()).count(bytes(1000))
        assert 0 < spam <= 100
        assert there.growth - before < 128 * KIB


@pytest.mark.parametrize(
    "rpc",
    [
        b"\x0a\x00" * 260_000,
        b"\x12\x00" * 4000 + b"\x7a\x00" * 200_000,
        protobuf.bytes_field(3, b"\x1a\x00" * 4000) * 60,
        protobuf.bytes_field(3, protobuf.bytes_field(2, b"\x0a\x00" * 19_000)) * 12,
    ],
)
async def test_protobuf_with_fields_without_end(rpc: bytes) -> None:
    """The stream is reset, each time. What a complete RPC may cost is in `p2p/test_pubsub.py`."""
    async with attacked() as (there, stranger):
        for _ in range(5):
            stream = stranger.speak(GOSSIP)
            await pour(stranger, stream, delimit(rpc))
            await stranger.read_until(lambda: stream.is_gone)  # noqa: B023  # awaited here
        assert there.growth < 256 * KIB
        assert there.most_waiting <= 520 * KIB


@pytest.mark.parametrize(
    "says",
    [
        b"\xff" * 9,  # a length without an end
        b"\x80\x80\x80\x80\x80\x80\x80\x80\x01",  # 2 ** 56 bytes
        b"\x81\x80\x20",  # one more than an RPC may have
        b"\x80\x00",  # a length in a longer form than it needs
    ],
)
async def test_lengths_that_no_rpc_has(says: bytes) -> None:
    async with attacked() as (there, stranger):
        for _ in range(300):
            stream = stranger.speak(GOSSIP, says)
            await stranger.read_until(lambda: stranger.has_reset(stream))  # noqa: B023  # awaited here
        assert there.growth < 256 * KIB


async def test_rpcs_that_stay_incomplete_count_as_waiting() -> None:
    rules = Rules(total=3 * MIB)
    async with company(rules) as there:
        async with several(there.hub, 10) as strangers:
            for stranger in strangers:
                await pour(stranger, stranger.speak(GOSSIP), delimit(bytes(500_000))[:-1])
            await until(lambda: there.hub.links() < 12)
            assert there.most_waiting <= 3 * MIB + 512 * KIB
        await until(lambda: there.hub.links() == 2)


async def test_a_slow_mesh_peer_gets_later_what_it_missed() -> None:
    """It reads nothing for a while. IHAVE tells it of what was dropped, and IWANT brings it."""
    rules = Rules(gossip_queue=100_000, streams=Limits(unsent=100_000))
    async with attacked(rules) as (there, stranger):
        stream = await in_topic(there, stranger)
        hub = there.hub
        count = 0
        while not hub.host.statistics().dropped:
            hub.host.publish(TOPIC, b"%06d" % count + bytes(60_000))
            count += 1
            await until(lambda: hub.host.statistics().waiting < 100_000 or hub.host.statistics().dropped)
            assert count < 1000
        missed = hub.host._gossip._history._windows[0][-1]
        await answered(stranger)
        hub.time.pass_by(5000)  # to the heartbeat
        await stranger.read_until(lambda: any(missed in said for said in stranger.said.values()))
        assert await pour(stranger, stream, Rpc(iwant=[missed]).encode())
        frame = hub.host._gossip._history.frame(missed)
        assert frame is not None
        await stranger.read_until(lambda: any(frame in said for said in stranger.said.values()))


# -- all of it ----------------------------------------------------------------------------------------------


async def test_all_at_once() -> None:
    """Twenty peers, each with another attack of those above, again and again."""
    async with company() as there, several(there.hub, 20) as strangers:
        await asyncio.gather(*(harass(stranger, number) for number, stranger in enumerate(strangers)))
        assert there.growth < 32 * MIB


async def harass(stranger: Stranger, number: int) -> None:
    spam = [
        b"".join(publication_of(each, 1000) for each in range(100 * number, 100 * number + 100)),
        Rpc(subscriptions=[(True, f"{number} {each}") for each in range(1000)]).encode(),
        Rpc(graft=[TOPIC] * 500, prune=[Prune(TOPIC, 60)]).encode(),
        Rpc(ihave=[(TOPIC, [b"%d" % each for each in range(1000)])]).encode(),
        delimit(b"\x0a\x00" * 100_000),
    ][number % 5]
    for _ in range(10):
        stream = stranger.speak(GOSSIP)
        if not await pour(stranger, stream, spam):
            await stranger.read_until(lambda: stream.is_gone)  # noqa: B023  # awaited here
    await answered(stranger)


async def test_a_peer_of_ours_is_not_taken_for_a_hostile_one() -> None:
    """A burst of 5,000 messages, one of 200 long ones, and a thousand envelopes at once."""
    async with company() as there, homes("dave") as (dave,):
        dave.host.join(TOPIC)
        await meet(dave, there.hub)
        await until(lambda: dave.host.peers_in(TOPIC))
        for number in range(5000):
            dave.host.publish(TOPIC, b"%d" % number)
        await until(lambda: there.checks == 5000)
        for _ in range(200):
            dave.host.publish(TOPIC, bytes(65_000))
            await asyncio.sleep(0)  # now it counts as waiting
            await until(lambda: dave.host.statistics().waiting < MIB)
        await asyncio.gather(*(dave.host.send(there.hub.id, bytes(1000)) for _ in range(1000)))
        await until(lambda: there.checks == 5200)
        assert there.hub.links() == 3
        assert there.hub.host.statistics().dropped == dave.host.statistics().dropped == 0

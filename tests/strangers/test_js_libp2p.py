"""Our host and js-libp2p."""

import asyncio
import itertools
import signal
from typing import Final

import pytest

from moothall.errors import NotDelivered
from moothall.network.rules import Rules
from moothall.p2p import bilateral, identify, ping, pubsub
from moothall.p2p.multiaddr import Multiaddr
from tests.strangers.js_peer import JsPeer, StartJs, content, contents, digests
from tests.strangers.ours import Ours, StartHost

TOPIC: Final = "/0x01/v1/broadcast"
PROTOCOLS: Final = (bilateral.PROTOCOL, identify.IDENTIFY, identify.IDENTIFY_PUSH, ping.PROTOCOL)
ACK: Final = "\x03\0\0\0ACK"
BURST: Final = 3000
SMALL: Final = 200
LARGEST_PUBLISHED: Final = 65_000  # with the signed message around it under 65,536 bytes
LARGEST_ENVELOPE: Final = 65_536


async def meet(ours: Ours, peer: JsPeer, *, we_dial: bool = True) -> None:
    """Connected, identified, and each in the topic of the other."""
    ours.host.join(TOPIC)
    await peer.do("subscribe", topic=TOPIC)
    if we_dial:
        assert await ours.host.dial(peer.address) == peer.id
    else:
        await peer.do("dial", to=str(ours.address))
    await ours.until(
        lambda: peer.id in ours.resident.told and (peer.id, TOPIC) in ours.resident.joined_topics
    )
    await peer.do("subscribers", topic=TOPIC, count=1)


# -- who is there ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("we_dial", [True, False], ids=["we dial", "it dials"])
async def test_both_identify_themselves_and_ping(host: StartHost, js: StartJs, we_dial: bool) -> None:
    ours, peer = await host(), await js("js")
    await meet(ours, peer, we_dial=we_dial)
    told = ours.resident.told[peer.id]
    assert told.agent_version.startswith("js-libp2p/3.")
    assert {*PROTOCOLS, pubsub.PROTOCOLS[0]} <= set(told.protocols)
    assert [address.port for address in told.addresses] == [peer.address.port]
    (seen,) = await peer.do("identified", count=1)
    assert seen["agent_version"] == "test/ours"
    assert seen["protocol_version"] == "/0x01/identify/1.0.0"
    assert set(seen["protocols"]) == {*PROTOCOLS, *pubsub.PROTOCOLS}
    assert seen["addresses"] == [str(ours.address)]
    assert seen["observed"].startswith("/ip4/127.0.0.1/tcp/")
    for _ in range(3):
        assert await peer.do("ping", to=str(ours.address))


async def test_both_push_what_has_changed(host: StartHost, js: StartJs) -> None:
    ours, peer = await host(), await js("js")
    await meet(ours, peer)
    await peer.do("serve", protocol="/new/1.0.0")
    await ours.until(lambda: "/new/1.0.0" in ours.resident.told[peer.id].protocols)
    public = Multiaddr.parse("/dns4/mesh.example.com/tcp/9000")
    ours.host.announce((public,))
    seen = await peer.do("identified", count=2)
    assert seen[-1]["addresses"] == [str(public)]


async def test_a_connection_is_replaced(host: StartHost, js: StartJs) -> None:
    """A peer lost power and dials again."""
    ours, first = await host(), await js("js")
    await meet(ours, first, we_dial=False)
    first.process.send_signal(signal.SIGSTOP)  # it does not even close its socket
    second = await js("js")
    await second.do("dial", to=str(ours.address))
    await ours.until(lambda: ours.resident.news == [("connected", first.id)] * 2)
    assert second.id == first.id
    ours.resident.joined_topics.clear()
    await meet(ours, second)
    await ours.host.send(second.id, content(1, SMALL))
    assert await second.do("envelopes", count=1) == digests([content(1, SMALL)])
    assert ours.host.publish(TOPIC, content(2, SMALL)) == 1
    assert await second.do("messages", count=1) == digests([content(2, SMALL)])
    assert [peer.agent_id for peer in ours.host.peers()] == [second.id]


async def test_two_dials_that_cross_leave_one_connection(host: StartHost, js: StartJs) -> None:
    ours, peer = await host(), await js("js")
    await asyncio.gather(ours.host.dial(peer.address), peer.do("dial", to=str(ours.address)))
    await meet(ours, peer)
    await peer.do("oneConnection")
    await ours.host.send(peer.id, content(1, SMALL))
    assert await peer.do("send", to=str(ours.address), count=1, small=SMALL, large=SMALL) == 1
    assert len(ours.host.peers()) == ours.host.statistics().connections == 1


# -- bursts ------------------------------------------------------------------------------------------------


async def test_bursts_in_a_topic_lose_nothing(host: StartHost, js: StartJs) -> None:
    ours, peer = await host(), await js("js")
    await meet(ours, peer)
    expected = contents(BURST, SMALL, LARGEST_PUBLISHED // 2)
    theirs = asyncio.ensure_future(
        peer.do("publish", topic=TOPIC, count=BURST, small=SMALL, large=LARGEST_PUBLISHED // 2)
    )
    assert sum(ours.host.publish(TOPIC, each) for each in expected) == BURST
    assert await theirs == BURST
    await ours.until(lambda: len(ours.resident.messages) >= BURST)
    assert sorted(ours.messages()) == sorted(expected)
    assert sorted(await peer.do("messages", count=BURST)) == sorted(digests(expected))
    statistics = ours.host.statistics()
    assert statistics.dropped == statistics.outcomes["malformed"] == 0


async def test_bursts_of_envelopes_are_all_acknowledged(host: StartHost, js: StartJs) -> None:
    ours, peer = await host(), await js("js")
    await meet(ours, peer, we_dial=False)
    expected = contents(BURST, SMALL, LARGEST_ENVELOPE)
    theirs = asyncio.ensure_future(
        peer.do("send", to=str(ours.address), count=BURST, small=SMALL, large=LARGEST_ENVELOPE)
    )
    await asyncio.gather(*(ours.host.send(peer.id, each) for each in expected))
    assert await theirs == BURST
    assert sorted(ours.envelopes()) == sorted(expected)
    assert sorted(await peer.do("envelopes", count=BURST)) == sorted(digests(expected))
    assert ours.host.statistics().waiting == 0


async def test_large_messages(host: StartHost, js: StartJs) -> None:
    ours, peer = await host(), await js("js")
    await meet(ours, peer)
    sizes = [*range(LARGEST_PUBLISHED - 10, LARGEST_PUBLISHED + 1), 16_384, 32_768, 65_000]
    published = [content(number, size) for number, size in enumerate(sizes)]
    for each in published:
        ours.host.publish(TOPIC, each)
    assert sorted(await peer.do("messages", count=len(sizes))) == sorted(digests(published))
    sizes = [*range(LARGEST_ENVELOPE - 10, LARGEST_ENVELOPE + 1), 16_384, 32_768]
    sent = [content(number, size) for number, size in enumerate(sizes)]
    await asyncio.gather(*(ours.host.send(peer.id, each) for each in sent))
    assert sorted(await peer.do("envelopes", count=len(sizes))) == sorted(digests(sent))
    assert (
        await peer.do("publish", topic=TOPIC, count=20, small=LARGEST_PUBLISHED, large=LARGEST_PUBLISHED)
        == 20
    )
    options = {"count": 20, "small": LARGEST_ENVELOPE, "large": LARGEST_ENVELOPE}
    assert await peer.do("send", to=str(ours.address), **options) == 20
    await ours.until(lambda: len(ours.resident.messages) >= 20)
    assert sorted(ours.messages()) == [content(number, LARGEST_PUBLISHED) for number in range(20)]
    assert sorted(ours.envelopes()) == [content(number, LARGEST_ENVELOPE) for number in range(20)]


# -- streams that end early --------------------------------------------------------------------------------


async def test_half_closed_streams_of_the_peer(host: StartHost, js: StartJs) -> None:
    """Each gets its answer or a reset, and the connection goes on."""
    ours, peer = await host(), await js("js")
    await meet(ours, peer)
    whole = (SMALL).to_bytes(4, "little") + content(1, SMALL)
    too_long = (LARGEST_ENVELOPE + 1).to_bytes(4, "little")

    async def answer(data: bytes, *, close: bool) -> object:
        return await peer.do("sendPart", to=str(ours.address), hex=data.hex(), close=close)

    assert await answer(whole, close=True) == ACK
    assert await answer(whole, close=False) == ACK  # no end of their side is needed
    assert await answer(whole[:-1], close=True) == "reset"
    assert await answer(whole[:3], close=True) == "reset"
    assert await answer(b"", close=True) == "reset"
    assert await answer(too_long, close=False) == "reset"
    assert ours.envelopes() == [content(1, SMALL)] * 2
    assert await answer(whole, close=True) == ACK
    assert ours.resident.news == [("connected", peer.id)]


async def test_half_closed_streams_of_ours(host: StartHost, js: StartJs) -> None:
    """Exactly ACK is an acknowledgement, however it is cut."""
    ours, peer = await host("ours", Rules(tick=50, stream=1000)), await js("js")
    await meet(ours, peer)
    for how in ("ack", "ack byte by byte", "ack and stay open"):
        await peer.do("answer", how=how)
        await ours.host.send(peer.id, content(1, SMALL))
    for how in ("close without ack", "half an ack", "another word", "reset", "nothing"):
        await peer.do("answer", how=how)
        with pytest.raises(NotDelivered):
            await ours.host.send(peer.id, content(2, SMALL))
    await peer.do("answer", how="ack")
    await ours.host.send(peer.id, content(3, SMALL))
    assert len(await peer.do("envelopes", count=9)) == 9
    assert ours.resident.news == [("connected", peer.id)]


# -- a peer that stops reading -----------------------------------------------------------------------------


async def test_a_peer_that_stops_reading_for_a_while_recovers(host: StartHost, js: StartJs) -> None:
    """What waits for it is bounded, other peers miss nothing, and it gets what was said meanwhile."""
    rules = Rules(heartbeat=500, first_heartbeat=100, tick=100)
    ours, slow, quick = await host("ours", rules), await js("slow"), await js("quick")
    await meet(ours, slow)
    await meet(ours, quick)
    slow.process.send_signal(signal.SIGSTOP)
    expected = [content(number, LARGEST_PUBLISHED) for number in range(200)]
    most = 0
    for number, each in enumerate(expected, start=1):
        assert ours.host.publish(TOPIC, each) == 2
        await quick.do("messages", count=number)
        most = max(most, ours.host.statistics().waiting)
    assert sorted(await quick.do("messages", count=200)) == sorted(digests(expected))
    bound = rules.gossip_queue + rules.control_queue + rules.streams.unsent
    assert 1_000_000 < most < 2 * bound
    assert ours.host.statistics().dropped > 0
    slow.process.send_signal(signal.SIGCONT)
    last = content(1000, SMALL)
    assert ours.host.publish(TOPIC, last) == 2
    kept = 201 - ours.host.statistics().dropped
    got = await slow.do("messages", count=kept)
    while digests([last])[0] not in got:  # it asks for some that were dropped, and they may come before
        got = await slow.do("messages", count=len(got) + 1)
    await ours.host.send(slow.id, content(1, SMALL))
    assert set(got) <= set(digests([*expected, last]))
    assert ours.resident.news == [("connected", slow.id), ("connected", quick.id)]


async def test_a_peer_that_never_reads_again_is_cut_off(host: StartHost, js: StartJs) -> None:
    rules = Rules(stuck=500, tick=50)
    ours, slow, quick = await host("ours", rules), await js("slow"), await js("quick")
    await meet(ours, slow)
    await meet(ours, quick)
    slow.process.send_signal(signal.SIGSTOP)
    for number in itertools.count(1):
        ours.host.publish(TOPIC, content(number, LARGEST_PUBLISHED))
        await quick.do("messages", count=number)
        if ours.resident.reasons:
            break
    assert ours.resident.news[-1] == ("disconnected", slow.id)
    assert ours.resident.reasons[-1] in (
        "the peer does not read",
        "the peer does not take what gossipsub says",
    )
    assert ours.host.statistics().waiting < LARGEST_PUBLISHED * 2
    await ours.host.send(quick.id, content(1, SMALL))
    assert await quick.do("send", to=str(ours.address), count=1, small=SMALL, large=SMALL) == 1

"""One connection and a peer that is slow, silent, greedy or hostile."""

import asyncio
import os
import socket
from asyncio.trsock import TransportSocket
from contextlib import suppress

import pytest

from moothall.errors import NotDelivered
from moothall.network.link import Link
from moothall.network.rules import Rules
from moothall.p2p import bilateral, ping, pubsub
from moothall.p2p.multistream import HEADER, line
from moothall.p2p.pubsub import Rpc
from moothall.p2p.yamux import Limits
from moothall.p2p.yamux_frames import DATA, Flag, Why, header
from moothall.p2p.yamux_streams import WINDOW, WentAway
from moothall.wire.mesh.frames import ACK, frame
from tests.support.network import Home, Stranger, homes, meet, until, visited

TOPIC = "/0x01/v1/broadcast"
GOSSIP = pubsub.PROTOCOLS[0]


def link_of(home: Home, peer: bytes) -> Link:
    return home.host._links[peer]


async def gone(home: Home, reason: str) -> None:
    await until(lambda: home.resident.news[-1:] and home.resident.news[-1][0] == "disconnected")
    assert reason in home.resident.reasons[-1]
    assert home.links() == 0


# -- time limits -------------------------------------------------------------------------------------------


GREETING = line(HEADER)


@pytest.mark.parametrize("says", [b"", GREETING[:5], GREETING, GREETING + line("/noise") + b"\x00\x20"])
async def test_a_handshake_has_ten_seconds(says: bytes) -> None:
    async with homes("alice") as (alice,):
        reader, writer = await asyncio.open_connection(alice.address.host, alice.address.port)
        writer.write(says)
        await until(lambda: alice.links() == 1)
        alice.time.pass_by(9000)
        assert alice.links() == 1
        alice.time.pass_by(1000)
        await until(lambda: alice.links() == 0)
        with suppress(ConnectionError):
            assert GREETING.startswith((await reader.read())[: len(GREETING)])
        writer.close()


async def test_what_is_not_libp2p_is_closed() -> None:
    async with homes("alice") as (alice,):
        reader, writer = await asyncio.open_connection(alice.address.host, alice.address.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n".ljust(100, b"."))
        await reader.read()
        await until(lambda: alice.links() == 0)
        writer.close()


async def test_a_silent_peer_is_pinged_and_then_cut_off() -> None:
    async with homes("alice") as (alice,), visited(alice) as stranger:
        await stranger.read_until(
            lambda: any(ping.PROTOCOL.encode() in said for said in stranger.said.values())
        )
        stream = stranger.accept(ping.PROTOCOL)
        link = link_of(alice, stranger.id)
        await until(lambda: link._pinging is not None and link._pinging.is_open)
        alice.time.pass_by(15_000)
        before = len(stranger.said[stream])
        await stranger.read_until(lambda: len(stranger.said[stream]) == before + ping.PAYLOAD)
        alice.time.pass_by(19_000)
        assert alice.links() == 1
        alice.time.pass_by(1000)
        await gone(alice, "silent")


async def test_two_hosts_keep_their_connection_alive() -> None:
    async with homes("alice", "bob") as (alice, bob):
        await meet(alice, bob)
        link = link_of(alice, bob.id)
        await until(lambda: link._pinging is not None and link._pinging.is_open)
        for _ in range(10):
            alice.time.pass_by(15_000)
            await until(lambda: link._heard_at == alice.time.now())
        assert alice.links() == 1


async def test_a_peer_without_the_ping_protocol_is_pinged_by_yamux() -> None:
    async with homes("alice") as (alice,), visited(alice) as stranger:
        reading = asyncio.ensure_future(stranger.read_to_the_end())
        link = link_of(alice, stranger.id)
        for _ in range(5):
            alice.time.pass_by(15_000)
            await until(lambda: link._heard_at == alice.time.now())
        alice.host._abort()
        await reading


async def test_a_stream_without_a_protocol_has_ten_seconds() -> None:
    async with homes("alice") as (alice,), visited(alice) as stranger:
        stream = stranger.speak("/unknown/1.0.0")
        await stranger.read_until(lambda: stranger.said.get(stream, b"").endswith(b"na\n"))
        alice.time.pass_by(10_000)
        await stranger.read_until(lambda: stranger.has_reset(stream))
        assert alice.links() == 1


# -- envelopes ---------------------------------------------------------------------------------------------


async def asked(alice: Home, stranger: Stranger) -> asyncio.Future[None]:
    sent = alice.host.send(stranger.id, b"envelope")
    await stranger.read_until(lambda: any(said.endswith(b"envelope") for said in stranger.said.values()))
    return sent


async def test_an_envelope_without_ack_is_not_delivered() -> None:
    async with homes("alice") as (alice,), visited(alice) as stranger:
        sent = await asked(alice, stranger)
        stranger.accept(bilateral.PROTOCOL)
        alice.time.pass_by(9000)
        assert not sent.done()
        alice.time.pass_by(1000)
        with pytest.raises(NotDelivered, match="time was over"):
            await sent


@pytest.mark.parametrize("answer", [b"\x03\0\0\0NAK", b"\x03\0\0\0ACK\0", b"\x03\0\0\0AC", b""])
async def test_any_other_answer_is_a_failure(answer: bytes) -> None:
    async with homes("alice") as (alice,), visited(alice) as stranger:
        sent = await asked(alice, stranger)
        stream = stranger.accept(bilateral.PROTOCOL)
        for octet in answer:
            stranger.say(stream, bytes((octet,)))
        stranger.session.finish(stream)
        stranger.flush()
        if answer.endswith(b"ACK\0"):
            await sent  # it was there before what follows
        else:
            with pytest.raises(NotDelivered):
                await sent
        assert alice.links() == 1


async def test_an_ack_in_pieces_that_arrive_with_the_end_of_the_stream() -> None:
    """The reference writes the length and the word apart. Both, and the end, may be there in one read."""
    async with homes("alice") as (alice,), visited(alice) as stranger:
        sent = await asked(alice, stranger)
        stream = stranger.accept(bilateral.PROTOCOL)
        await stranger.read_until(lambda: stream.peer_finished)
        stranger.say(stream, ACK[:4])
        stranger.say(stream, ACK[4:])
        stranger.session.finish(stream)
        stranger.flush()
        await until(sent.done)
        await sent


async def test_streams_that_are_gone_are_forgotten_after_the_last_event_of_a_read() -> None:
    async with homes("alice") as (alice,), visited(alice) as stranger:
        sent = await asked(alice, stranger)
        stream = stranger.accept(bilateral.PROTOCOL)
        await stranger.read_until(lambda: stream.peer_finished)
        for _ in range(90):  # no event tells the host that these are gone
            stranger.session.finish(stranger.speak(bilateral.PROTOCOL, frame(b"envelope")))
        stranger.flush()
        await stranger.read_until(lambda: stranger.session.streams < 10)
        stranger.say(stream, ACK[:4])
        stranger.speak(ping.PROTOCOL)
        stranger.say(stream, ACK[4:])
        stranger.session.finish(stream)
        stranger.flush()
        await until(sent.done)
        await sent
        assert len(link_of(alice, stranger.id)._talks) < 90


async def test_a_crash_fails_what_is_under_way() -> None:
    async with homes("alice") as (alice,):
        async with visited(alice) as stranger:
            sent = await asked(alice, stranger)
            waiting = [alice.host.send(stranger.id, b"more") for _ in range(300)]
        results = await asyncio.gather(sent, *waiting, return_exceptions=True)
        assert {type(result) for result in results} == {NotDelivered}
        await gone(alice, "")


async def test_a_hundred_streams_at_once_are_the_most() -> None:
    async with homes("alice") as (alice,), visited(alice) as stranger:
        waiting = [alice.host.send(stranger.id, b"envelope") for _ in range(300)]
        await stranger.read_until(lambda: len(stranger.said) == 100)
        assert link_of(alice, stranger.id).under_way == 97  # gossipsub, identify and ping have one each
        await stranger.close()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_an_envelope_that_stays_incomplete_is_reset() -> None:
    async with homes("alice") as (alice,), visited(alice) as stranger:
        stream = stranger.speak(bilateral.PROTOCOL, b"\x00\x01\x00\x00" + bytes(255))
        await until(lambda: alice.host.statistics().waiting >= 255)
        alice.time.pass_by(10_000)
        await stranger.read_until(lambda: stranger.has_reset(stream))
        await until(lambda: alice.host.statistics().waiting == 0)
        too_long = stranger.speak(bilateral.PROTOCOL, b"\x01\x00\x01\x00")
        await stranger.read_until(lambda: stranger.has_reset(too_long))
        cut_off = stranger.speak(bilateral.PROTOCOL, b"\x03\x00\x00\x00ab")
        stranger.session.finish(cut_off)
        stranger.flush()
        await stranger.read_until(lambda: stranger.has_reset(cut_off))
        assert alice.resident.envelopes == []


async def test_incomplete_envelopes_are_bounded_per_peer() -> None:
    rules = Rules(streams=Limits(unread=200_000))
    async with homes("alice", rules=rules) as (alice,), visited(alice) as stranger:
        streams = [stranger.speak(bilateral.PROTOCOL, b"\x00\x00\x01\x00" + bytes(60_000)) for _ in range(10)]
        await stranger.read_until(lambda: any(map(stranger.has_reset, streams)))
        assert alice.host.statistics().waiting <= 200_000
        await stranger.read_until(lambda: sum(map(stranger.has_reset, streams)) >= 7)
        assert alice.links() == 1


async def test_of_all_peers_the_one_with_the_most_bytes_is_cut_off() -> None:
    async with homes("alice", "bob", rules=Rules(total=500_000)) as (alice, bob):
        await meet(bob, alice)
        async with visited(alice) as stranger:
            for _ in range(12):
                stranger.speak(bilateral.PROTOCOL, b"\x00\x00\x01\x00" + bytes(60_000))
            await stranger.read_to_the_end()
        await until(lambda: alice.links() == 1)
        assert "too many bytes" in alice.resident.reasons[-1]
        await bob.host.send(alice.id, b"envelope")


# -- a peer that does not read -----------------------------------------------------------------------------


async def test_a_peer_that_stops_reading_costs_others_nothing() -> None:
    """What it does not take is bounded, then dropped, and in the end it is cut off."""
    rules = Rules(gossip_queue=200_000, streams=Limits(unsent=100_000))
    async with homes("alice", "bob", rules=rules) as (alice, bob):
        alice.host.join(TOPIC)
        bob.host.join(TOPIC)
        await meet(alice, bob)
        async with visited(alice) as stranger:
            await stranger.read_until(lambda: any(GOSSIP.encode() in said for said in stranger.said.values()))
            stranger.accept(GOSSIP)
            stranger.speak(GOSSIP, Rpc(subscriptions=[(True, TOPIC)]).encode())
            await until(lambda: len(alice.host.peers_in(TOPIC)) == 2)
            number = 0
            while not alice.host.statistics().dropped:
                number += 1
                assert number < 1000
                alice.host.publish(TOPIC, bytes(60_000))
                await until(lambda: len(bob.resident.messages) == number)  # noqa: B023  # awaited here
                assert alice.host.statistics().waiting <= 400_000
            alice.time.pass_by(29_000)
            assert alice.links() == 2
            alice.time.pass_by(1000)
            await until(lambda: alice.links() == 1)
            assert "does not take" in alice.resident.reasons[-1]
        assert alice.host.statistics().dropped == 1
        await until(lambda: alice.host.statistics().waiting == 0)


async def test_a_peer_that_asks_and_does_not_read_is_not_read_from() -> None:
    """Two windows of a stream are not enough to fill the buffers of the kernel; those of ninety are."""
    async with homes("alice") as (alice,), visited(alice) as stranger:
        link = link_of(alice, stranger.id)
        asked = os.urandom(WINDOW - 64)  # a multiple of 32, beside the negotiation
        streams = [stranger.speak(ping.PROTOCOL) for _ in range(90)]
        for stream in streams:
            stranger.say(stream, asked)
        await until(lambda: not link._transport.is_reading())
        assert alice.host.statistics().waiting < 2 * 1024 * 1024
        await stranger.read_until(
            lambda: all(stranger.said.get(each, b"").endswith(asked) for each in streams)
        )
        assert link._transport.is_reading()
        await until(lambda: alice.host.statistics().waiting == 0)


# -- peers that break a protocol ---------------------------------------------------------------------------


async def test_a_peer_that_goes_over_its_window_is_told_and_cut_off() -> None:
    async with homes("alice") as (alice,), visited(alice) as stranger:
        assert stranger.machine._channel is not None
        stranger.writer.write(stranger.machine._channel.seal(header(DATA, Flag.SYN, 101, WINDOW + 1)))
        await stranger.read_to_the_end()
        assert stranger.events[-1] == WentAway(Why.PROTOCOL_ERROR)
        await gone(alice, "more than its window")


async def test_a_frame_that_does_not_decrypt_ends_the_connection() -> None:
    async with homes("alice") as (alice,), visited(alice) as stranger:
        stranger.writer.write(b"\x00\x20" + bytes(32))
        await stranger.read_to_the_end()
        await gone(alice, "does not decrypt")


async def test_endless_grafts_get_few_answers() -> None:
    async with homes("alice", "bob") as (alice, bob):
        alice.host.join(TOPIC)
        bob.host.join(TOPIC)
        await meet(alice, bob)
        async with visited(alice) as stranger:
            await stranger.read_until(lambda: any(GOSSIP.encode() in said for said in stranger.said.values()))
            ours = stranger.accept(GOSSIP)
            grafting = Rpc(subscriptions=[(True, TOPIC)], graft=[TOPIC]).encode()
            pruning = Rpc(prune=[pubsub.Prune(TOPIC, 600)]).encode()
            stream = stranger.speak(GOSSIP, grafting + pruning)
            for _ in range(5000):
                stranger.say(stream, grafting)
            ending = stranger.speak(ping.PROTOCOL, bytes(ping.PAYLOAD))
            await stranger.read_until(lambda: stranger.said.get(ending, b"").endswith(bytes(ping.PAYLOAD)))
            assert len(stranger.said[ours]) < 64 * 64
        alice.host.publish(TOPIC, b"hello")
        await until(lambda: bob.resident.messages)


async def test_a_second_stream_of_gossipsub_takes_the_place_of_the_first() -> None:
    async with homes("alice") as (alice,), visited(alice) as stranger:
        alice.host.join(TOPIC)
        first = stranger.speak(GOSSIP, Rpc(subscriptions=[(True, "x")]).encode()[:-1])
        second = stranger.speak(GOSSIP, Rpc(subscriptions=[(True, TOPIC)]).encode())
        await stranger.read_until(lambda: stranger.has_reset(first))
        await until(lambda: alice.host.peers_in(TOPIC) == [stranger.id])
        stranger.say(second, b"\xff\xff\xff\x7f")  # longer than any RPC
        await stranger.read_until(lambda: stranger.has_reset(second))
        assert alice.links() == 1


async def test_a_peer_that_ends_the_stream_of_gossipsub_is_disconnected() -> None:
    """It would hear nothing any more. Who dialled it dials again."""
    async with homes("alice") as (alice,), visited(alice) as stranger:
        await stranger.read_until(lambda: any(GOSSIP.encode() in said for said in stranger.said.values()))
        stream = stranger.accept(GOSSIP)
        await until(lambda: link_of(alice, stranger.id)._telling._is_open)  # type: ignore[union-attr]
        stranger.session.reset(stream)
        stranger.flush()
        await gone(alice, "gossipsub")


async def test_many_short_streams_leave_nothing_behind() -> None:
    async with homes("alice") as (alice,), visited(alice) as stranger:
        link = link_of(alice, stranger.id)
        for _ in range(500):
            stream = stranger.speak(bilateral.PROTOCOL, b"\x02\x00\x00\x00ab")
            stranger.session.finish(stream)
            stranger.flush()
            await stranger.read_until(lambda: stream.is_gone)  # noqa: B023  # awaited here
        assert len(link._talks) < 100
        assert len(alice.resident.envelopes) == 500


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux has it")
async def test_the_kernel_is_asked_to_confirm_each_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node of the reference waits for that, with the rest of its ACK."""
    reads: list[int] = []
    asked: list[int] = []
    read, ask = Link.buffer_updated, TransportSocket.setsockopt

    def buffer_updated(link: Link, size: int) -> None:
        reads.append(size)
        read(link, size)

    def setsockopt(transport: TransportSocket, level: int, option: int, value: int) -> None:
        ask(transport, level, option, value)
        if (level, option, value) == (socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1):
            asked.append(option)

    monkeypatch.setattr(Link, "buffer_updated", buffer_updated)
    monkeypatch.setattr(TransportSocket, "setsockopt", setsockopt)
    async with homes("alice", "bob") as (alice, bob):
        await meet(alice, bob)
        for _ in range(10):
            await alice.host.send(bob.id, b"envelope")
        assert len(asked) == len(reads) >= 20

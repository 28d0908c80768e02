"""Hostile peers on loopback, below gossipsub: yamux, streams, handshakes, connections.

As in `test_hostile.py`, two honest peers talk through the same host all the while.
"""

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from moothall.errors import NotDelivered
from moothall.network.rules import Rules
from moothall.p2p import bilateral, identify, ping
from moothall.p2p.delimited import delimit
from moothall.p2p.identify import Identification
from moothall.p2p.multistream import HEADER, line
from moothall.p2p.yamux_frames import DATA, PING, SESSION, WINDOW_UPDATE, Flag, header
from moothall.p2p.yamux_streams import WINDOW
from tests.support.hostile import KIB, MIB, answered, attacked, company, cut_off, flood, several
from tests.support.network import Home, Stranger, until, visited

GREETING = line(HEADER) + line("/noise")


# -- yamux and streams ---------------------------------------------------------------------------------------


async def test_data_on_streams_that_are_not_there_are_thrown_away() -> None:
    async with attacked() as (there, stranger):
        body = header(DATA, 0, 12_345, 60_000) + bytes(60_000)
        await flood(stranger, [body] * 200)
        await answered(stranger)
        assert there.growth < 256 * KIB
        assert there.most_waiting < 64 * KIB


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        (header(DATA, Flag.SYN, 101, WINDOW + 1), "more than its window"),
        (header(DATA, 0, 101, WINDOW + 1), "more than its window"),
        (header(WINDOW_UPDATE, 0, 2, (1 << 32) - 1), "made too large"),
        (header(DATA, 0, 2000, 1), "never opened"),
        (header(DATA, Flag.SYN, 2000, 1), "cannot be opened"),
        (header(DATA, Flag.SYN, SESSION, 1), "cannot be opened"),
        (b"\x01" * 12, "version 1"),
        (b"\x00\x09" + bytes(10), "kind 9"),
        (b"".join(header(PING, Flag.SYN, SESSION, number) for number in range(2000)), "does not read"),
        (b"".join(header(DATA, Flag.SYN, 101 + 2 * each, 0) for each in range(2000)), "does not read"),
    ],
)
async def test_a_peer_that_breaks_yamux_is_cut_off(frames: bytes, reason: str) -> None:
    async with attacked() as (there, stranger):
        await flood(stranger, [frames])
        await cut_off(there, stranger, reason)


async def test_streams_that_open_and_end_without_end() -> None:
    async with attacked() as (there, stranger):
        reading = asyncio.ensure_future(stranger.read_to_the_end())
        numbers = itertools.count(1001, 2)
        for _ in range(400):
            frames = []
            for _ in range(50):
                stream = next(numbers)
                frames.append(
                    header(WINDOW_UPDATE, Flag.SYN, stream, 0) + header(WINDOW_UPDATE, Flag.RST, stream, 0)
                )
            await flood(stranger, [b"".join(frames)])
        await until(lambda: there.hub.host._links[stranger.id].session.streams <= 3)
        assert there.growth < 256 * KIB
        there.hub.host._links[stranger.id].abort("the test is over")
        await reading


async def test_pings_without_end_of_a_peer_that_does_not_read() -> None:
    async with attacked() as (there, stranger):
        link = there.hub.host._links[stranger.id]
        streams = [stranger.speak(ping.PROTOCOL) for _ in range(90)]
        for stream in streams:
            stranger.say(stream, bytes(WINDOW - 64))
        await until(lambda: not link._transport.is_reading())
        assert there.growth < 4 * MIB
        await there.pass_by(30)
        await until(lambda: there.hub.links() == 2)


async def test_identifications_that_stay_incomplete_count_as_waiting() -> None:
    async with attacked() as (there, stranger):
        for _ in range(90):
            stranger.speak(identify.IDENTIFY_PUSH, delimit(bytes(8000))[:-1])
        await until(lambda: there.hub.host.statistics().waiting >= 90 * 8000)
        await there.pass_by(10)
        await until(lambda: there.hub.host.statistics().waiting < 1000)


async def test_identifications_that_are_replayed_or_too_long() -> None:
    async with attacked() as (there, stranger):
        told = Identification(stranger.id, agent_version="v" * 1000)
        for data in (told.encode(), delimit(bytes(8193))[:3], delimit(b"") * 11, b"\xff" * 10):
            for _ in range(200):
                stream = stranger.speak(identify.IDENTIFY_PUSH, data)
                stranger.session.finish(stream)
                stranger.flush()
                await stranger.read_until(lambda: stream.is_gone)  # noqa: B023  # awaited here
        kept = there.hub.resident.told[stranger.id]
        assert len(kept.agent_version) == identify.MAX_VERSION
        assert there.growth < 256 * KIB


async def test_an_identification_with_the_key_of_another_is_refused() -> None:
    async with attacked() as (there, stranger):
        stream = stranger.speak(identify.IDENTIFY_PUSH, Identification(there.bob.id).encode())
        stranger.session.finish(stream)
        stranger.flush()
        await stranger.read_until(lambda: stranger.has_reset(stream))
        assert stranger.id not in there.hub.resident.told


@pytest.mark.parametrize(
    "says",
    [b"\x00\x00\x00\x00", b"\x01\x00\x01\x00", b"\xff\xff\xff\xff", b"\x01\x00\x00\x00ab"],
)
async def test_envelopes_of_a_length_that_none_has(says: bytes) -> None:
    async with attacked() as (there, stranger):
        for _ in range(200):
            stream = stranger.speak(bilateral.PROTOCOL, says)
            await stranger.read_until(lambda: stranger.has_reset(stream))  # noqa: B023  # awaited here
        assert there.growth < 256 * KIB


@pytest.mark.parametrize("says", [b"\x80\x80\x01", b"\x81\x08", b"\x00", b"\x03ab."])
async def test_lines_of_a_negotiation_that_none_sends(says: bytes) -> None:
    async with attacked() as (there, stranger):
        for _ in range(200):
            stream = stranger.session.open()
            assert stream is not None
            stranger.say(stream, line(HEADER) + says)
            await stranger.read_until(lambda: stranger.has_reset(stream))  # noqa: B023  # awaited here
        assert there.growth < 256 * KIB


async def test_protocols_without_end_are_proposed() -> None:
    async with attacked() as (there, stranger):
        stream = stranger.session.open()
        assert stream is not None
        stranger.say(stream, line(HEADER) + b"".join(line(f"/guess/{each}") for each in range(1000)))
        await stranger.read_until(lambda: stranger.has_reset(stream))
        assert there.growth < 256 * KIB


async def test_a_peer_that_never_acknowledges() -> None:
    rules = Rules(requests=500)
    async with attacked(rules) as (there, stranger):
        sent = [there.hub.host.send(stranger.id, bytes(1000)) for _ in range(2000)]
        await stranger.read_until(lambda: len(stranger.said) == 100)
        assert sum(each.done() for each in sent) >= 1400
        assert there.growth < 4 * MIB
        for _ in range(10):
            await there.pass_by(10)
            await stranger.read()
        for each in sent:
            with pytest.raises(NotDelivered):
                await each


# -- connections ---------------------------------------------------------------------------------------------


@asynccontextmanager
async def connections(hub: Home, addresses: list[str]) -> AsyncIterator[list[socket.socket]]:
    """Sockets from these addresses of loopback. The host may have closed them already."""
    loop = asyncio.get_running_loop()
    found = []
    try:
        for address in addresses:
            sock = socket.socket()
            found.append(sock)
            sock.setblocking(False)
            sock.bind((address, 0))
            await loop.sock_connect(sock, (hub.address.host, hub.address.port))
        yield found
    finally:
        for sock in found:
            sock.close()


async def test_a_thousand_connections_from_one_address() -> None:
    async with company() as there, connections(there.hub, ["127.0.0.2"] * 1000):
        await until(lambda: there.hub.host.statistics().refused == 1000 - 64)
        await until(lambda: there.hub.links() == 2 + 64)
        assert there.growth < 2 * MIB
        newcomer = Stranger()
        await newcomer.dial(there.hub)  # from another address
        await newcomer.close()


async def test_a_thousand_connections_from_many_addresses() -> None:
    """They leave room for those that finish their handshake."""
    rules = Rules(connections=300)
    addresses = [f"127.0.1.{number % 200 + 1}" for number in range(1000)]
    async with company(rules) as there, connections(there.hub, addresses):
        await until(lambda: there.hub.host.statistics().refused == 1000 + 2 - 300)
        await until(lambda: there.hub.links() == 300)
        assert there.growth < 8 * MIB
        async with visited(there.hub) as newcomer:
            await answered(newcomer)
            assert there.hub.links() <= 301
            await there.pass_by(10)
            await until(lambda: there.hub.links() == 3)


@pytest.mark.parametrize("says", [b"", GREETING, GREETING + b"\x00\x20" + bytes(31)])
async def test_handshakes_that_take_forever(says: bytes) -> None:
    """One byte a second does not keep them alive."""
    async with company() as there, connections(there.hub, ["127.0.0.2"] * 50) as sockets:
        await until(lambda: there.hub.links() == 52)
        for second in range(9):
            for sock in sockets:
                sock.send(says[second : second + 1] if second < 8 else says[8:])
            await there.pass_by(1)
        assert there.hub.links() == 52
        await there.pass_by(1)
        await until(lambda: there.hub.links() == 2)


@pytest.mark.parametrize(
    "says",
    [
        b"\x81\x08",  # a line of 1,025 bytes
        b"\xff" * 100,
        line(HEADER) + line("/tls/1.0.0") * 40,
        GREETING + b"\xff\xff",  # a message of the handshake with 65,535 bytes
        GREETING + b"\x10\x01",
        GREETING + b"\x00\x00",
        GREETING + b"\x00\x20" + bytes(32),  # a key of small order
        GREETING + b"\x00\x20" + b"\x01" * 32 + b"\x00\x40" + bytes(64),
    ],
)
async def test_handshakes_that_cannot_succeed_end_at_once(says: bytes) -> None:
    loop = asyncio.get_running_loop()
    async with company() as there, connections(there.hub, ["127.0.0.2"] * 50) as sockets:
        await until(lambda: there.hub.links() == 52)
        for sock in sockets:
            await loop.sock_sendall(sock, says)
        await until(lambda: there.hub.links() == 2)
        assert there.growth < 256 * KIB


async def test_a_frame_of_the_secure_channel_that_stays_incomplete() -> None:
    async with company() as there, several(there.hub, 50) as strangers:
        for stranger in strangers:
            stranger.writer.write(b"\xff\xff" + bytes(65_534))
        await until(lambda: there.growth > 50 * 65_000)
        assert there.growth < 50 * 128 * KIB
        await there.pass_by(35)
        await until(lambda: there.hub.links() == 2)


async def test_peers_that_vanish_after_their_handshake() -> None:
    """They are asked for a sign of life, and are cut off without one."""
    async with company() as there, several(there.hub, 50):
        assert there.hub.links() == 52
        await there.pass_by(35)
        await until(lambda: there.hub.links() == 2)


async def test_a_key_that_connects_again_and_again_has_one_connection_and_a_spare() -> None:
    async with company() as there:
        strangers = [Stranger() for _ in range(50)]
        for stranger in strangers:
            await stranger.dial(there.hub)
        await there.pass_by(2)
        await until(lambda: there.hub.links() == 4)
        for stranger in strangers:
            await stranger.close()
        await until(lambda: there.hub.links() == 2)
        assert there.growth < 256 * KIB

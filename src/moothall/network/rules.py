"""How much a host lets peers have, and how long it waits. Times are in milliseconds, sizes in bytes."""

import msgspec

from moothall.p2p import gossipsub
from moothall.p2p.yamux import Limits

# An honest peer has a hundred requests under way (mesh wire 6.3), of 64 KiB each, and none may be complete yet.
STREAMS = Limits(inbound=256, outbound=100, unread=8 * 1024 * 1024, unsent=1024 * 1024)


class Rules(msgspec.Struct, frozen=True):
    connections: int = 1024  # that others opened
    per_address: int = 64  # of them from one IPv4 address, or one /64 of IPv6
    streams: Limits = STREAMS  # of one connection; also its bytes
    gossip_queue: int = (
        2 * 1024 * 1024
    )  # of messages that wait for a slow peer; IHAVE brings back what is dropped
    control_queue: int = 256 * 1024  # beyond that for GRAFT, PRUNE and the like, which must not be lost
    answers: int = 64 * 1024  # that wait for a peer which does not read: beyond, it is not read from
    requests: int = 4096  # envelopes that wait for a stream to one peer
    request_bytes: int = 8 * 1024 * 1024  # of them
    total: int = (
        256 * 1024 * 1024
    )  # that wait for and from all peers: beyond, the peer with the most is cut off
    gossip: gossipsub.Rules = gossipsub.Rules()

    tick: int = 1000  # how often time limits are looked at
    handshake: int = 10_000  # for TCP, Noise and both negotiations
    stream: int = 10_000  # for a negotiation, an identification, an envelope and its ACK (mesh wire 6.3)
    idle_stream: int = 60_000  # for the next ping on a stream
    silence: int = 15_000  # after that a peer is pinged
    pong: int = 20_000  # for any sign of life after that
    stuck: int = 30_000  # for a peer to read something
    closing: int = 2000  # for requests under way when a connection is closed in order
    simultaneous: int = 20_000  # two dials that cross are not further apart
    heartbeat: int = 10_000  # of gossipsub (mesh wire 6.2)
    first_heartbeat: int = 5000
    redial: int = 1000  # doubled after each attempt
    redial_most: int = 30_000
    settled: int = 10_000  # a connection that lasts so long makes the next redial quick again

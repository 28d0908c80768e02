"""Routes to agents that other halls announce."""

from moothall.identity import PrivateKey
from moothall.identity.signatures import expand
from moothall.network.announcement import EXPIRY, FIRST, HALLS, LAST, Announcement
from moothall.network.hall_routes import MALFORMED, OF_ANOTHER_HALL, OLD, HallRoutes
from moothall.network.routes import Routes
from moothall.p2p.pubsub import Message, signed_message
from moothall.wire.mesh.envelope import MICROSECONDS

SEED = b"h" * 32
HALL = PrivateKey(SEED).public.raw
AGENT, RELAY = b"a" * 32, b"r" * 32
NOW, AT = 5000, 1_790_000_000 * MICROSECONDS


def message(data: bytes) -> Message:
    return signed_message(expand(SEED), 1, HALLS, data)


def announced(*keys: bytes, hall: bytes = HALL, at: int = AT) -> Message:
    return message(Announcement(hall, at, FIRST, LAST, keys).encode())


def met() -> tuple[Routes, HallRoutes]:
    routes = Routes()
    routes.met(RELAY)
    routes.announced(RELAY, RELAY)  # another hall
    return routes, HallRoutes(routes)


def test_an_agent_is_reached_through_its_hall_or_the_relay_of_the_hall() -> None:
    routes, halls = met()
    assert halls.hear(RELAY, announced(AGENT), NOW, AT) is None
    assert (routes.find(AGENT), len(halls)) == (RELAY, 1)
    routes.met(HALL)
    assert routes.find(AGENT) == HALL
    assert halls.hear(RELAY, announced(at=AT + 1), NOW, AT) is None  # the agent has left
    assert routes.find(AGENT) is None


def test_a_hall_that_falls_silent_is_forgotten() -> None:
    routes, halls = met()
    halls.hear(RELAY, announced(AGENT), NOW, AT)
    halls.expire(NOW + EXPIRY - 1)
    assert routes.find(AGENT) == RELAY
    halls.expire(NOW + EXPIRY)
    assert (routes.find(AGENT), len(halls)) == (None, 0)


def test_what_does_not_count_changes_no_route() -> None:
    routes, halls = met()
    assert halls.hear(RELAY, message(b"x"), NOW, AT) == MALFORMED
    assert halls.hear(RELAY, announced(AGENT, hall=b"o" * 32), NOW, AT) == OF_ANOTHER_HALL
    assert halls.hear(RELAY, announced(AGENT, at=AT - 3600 * MICROSECONDS), NOW, AT) == OLD
    assert (routes.find(AGENT), routes.find(HALL), len(halls)) == (None, None, 0)
    assert halls.hear(RELAY, announced(AGENT), NOW, AT) is None
    assert halls.hear(RELAY, announced(), NOW, AT) == OLD  # it was heard before
    assert routes.find(AGENT) == RELAY

"""Which connections get the envelopes to a key."""

import pytest

from moothall.hall.mesh.connections import MAX_PER_KEY, Connections, TooManyConnections


class Fake:
    def __init__(self, key: bytes | None = b"a") -> None:
        self.key = key


def test_a_proven_connection_comes_before_those_that_only_sent_an_envelope() -> None:
    connections: Connections[Fake] = Connections()
    first, second, proven = Fake(), Fake(), Fake()
    connections.claim(first, b"a")
    connections.claim(second, b"a")
    assert connections.receivers(b"a") == (first, second)
    assert not connections.is_proven(b"a")
    connections.prove(proven, b"a")
    assert connections.receivers(b"a") == (proven,)
    connections.prove(second, b"a")
    assert connections.receivers(b"a") == (proven, second)
    connections.leave(proven)
    connections.leave(second)
    assert connections.receivers(b"a") == (first,)
    connections.leave(first)
    assert connections.receivers(b"a") == ()
    assert len(connections) == 0


def test_the_ninth_proof_of_a_key_is_refused_and_displaces_none() -> None:
    connections: Connections[Fake] = Connections()
    proven = [Fake() for _ in range(MAX_PER_KEY)]
    for connection in proven:
        connections.prove(connection, b"a")
    with pytest.raises(TooManyConnections):
        connections.prove(Fake(), b"a")
    assert connections.receivers(b"a") == tuple(proven)


def test_of_too_many_claims_the_latest_get_the_mail() -> None:
    connections: Connections[Fake] = Connections()
    claimed = [Fake() for _ in range(MAX_PER_KEY + 2)]
    for connection in claimed:
        connections.claim(connection, b"a")
    assert connections.receivers(b"a") == tuple(claimed[2:])
    connections.leave(claimed[0])
    assert len(connections.receivers(b"a")) == MAX_PER_KEY


def test_a_connection_without_a_key_leaves_nothing_behind() -> None:
    connections: Connections[Fake] = Connections()
    connections.leave(Fake(None))
    connections.leave(Fake(b"b"))
    assert len(connections) == 0

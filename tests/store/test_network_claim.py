"""Of the halls on one PostgreSQL, one is on the network of the mesh."""

import pytest

from moothall.errors import SettingsError
from moothall.store.network_claim import NetworkClaim
from tests.store.server import Server
from tests.store.support import Place


def test_the_second_hall_is_refused_until_the_first_one_ends(postgres: Place) -> None:
    first = NetworkClaim(postgres.url)
    with pytest.raises(SettingsError, match="another hall on this store"):
        NetworkClaim(postgres.url)
    first.close()
    NetworkClaim(postgres.url).close()


def test_halls_in_another_schema_have_their_own(postgres: Place, server: Server) -> None:
    first = NetworkClaim(postgres.url)
    NetworkClaim(server.new_database()).close()
    first.close()

"""Where a hall that is open can be found: what the operator is told."""

import msgspec

from moothall.gateways.keep_port import KeepPort
from moothall.gateways.port import Port
from moothall.hall.hall import Hall
from moothall.network.peering import Peering


class Whereabouts(msgspec.Struct, frozen=True):
    host: str
    port: int
    url: str
    hall_key: str
    has_page: bool
    keep_host: str = ""
    keep_url: str = ""  # empty: keep clients are not served
    keep_key: str = ""
    peer_address: str = ""  # of the mesh's network; empty: no peer can connect


def whereabouts_of(
    url: str, hall: Hall, port: Port, keep: KeepPort | None, network: Peering | None
) -> Whereabouts:
    host, number = port.address
    address = None if network is None else network.address
    return Whereabouts(
        host=host,
        port=number,
        url=url,
        hall_key=hall.public_key,
        has_page=port.routes.find("/") is not None,
        keep_host="" if keep is None else keep.address[0],
        keep_url="" if keep is None else keep.url,
        keep_key="" if keep is None else keep.room.bridge.pk.hex(),
        peer_address="" if address is None else str(address),
    )

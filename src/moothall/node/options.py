"""What a program chooses when it starts a node."""

from pathlib import Path
from typing import Final

from msgspec import Struct

from moothall.market.conversing import MeshRules
from moothall.network.rules import Rules
from moothall.p2p.multiaddr import Multiaddr

LISTEN: Final = Multiaddr.parse("/ip4/0.0.0.0/tcp/9000")  # mesh wire 6.1

# A delivery is approved with a VERDICT of the requester, which the other node gets: a node that approved by itself
# would know another state than its peer. A deal needs no credits: the ledger is the node's own.
RULES: Final = MeshRules(approval="manual", cover="optional")


class NodeOptions(Struct, frozen=True, kw_only=True):
    """`seed` is the private key, 32 bytes (see `key.load_or_create`). `log_dir` holds the store and the epoch logs.

    `agent_name` is sent in BEACONs; the default is the first 8 hex digits of the agent id. `bootstrap` are peers
    that the node keeps a connection to.
    """

    seed: bytes
    log_dir: Path
    agent_name: str | None = None
    listen_addr: Multiaddr | None = LISTEN  # None: the node only dials
    bootstrap: tuple[Multiaddr, ...] = ()
    rules: MeshRules = RULES
    network: Rules = Rules()
